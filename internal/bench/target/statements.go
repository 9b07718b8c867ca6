package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// rollbackWithin is the timeout of Statement.Rollback; the reason is documented there.
const rollbackWithin = 5 * time.Second

// Statements is a target for databases without stored procedures. It executes each procedure statement by statement, as
// an interactive client does. Each of its connections runs one transaction at a time.
type Statements struct {
	// Procedures are the procedures that clients may call: catalog.Procedures.
	Procedures *txn.Registry
	// Placement determines the classes of transactions.
	Placement geo.Placement
	// Connections is the number of connections per session, at least 1. Transactions that arrive while all connections are
	// busy must wait. The clients of a region share one session.
	Connections int
	// Connect opens a connection. It is also called to replace a broken connection.
	Connect func(ctx context.Context) (Connection, error)
	// Classify interprets an error of the database.
	Classify func(err error) Failure
	// Pending, if not nil, counts the transactions in progress, for Database.Activity.
	Pending *atomic.Int64

	mu        sync.Mutex
	incidents []result.Incident // at most one of each kind
	lost      bool              // a broken connection could not be replaced
	causeless bool              // Classify has returned an invalid cause for a failure
}

// note records an incident if *seen is not set yet, and sets *seen.
func (s *Statements) note(seen *bool, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !*seen {
		*seen = true
		s.incidents = append(s.incidents, result.Incident{Reason: result.Reason{Reason: result.ReasonTargetFailed, Message: fmt.Sprintf(format, args...)}})
	}
}

// Connection runs one transaction after another.
type Connection interface {
	// Begin starts a transaction. ctx is the session's context, which is canceled when the session is closed. It applies
	// to all statements of the transaction, and does not end at the client's timeout.
	Begin(ctx context.Context, t *txn.Transaction) (Statement, error)
	Close() error
}

// Statement is a transaction in progress, with the operations of a txn.Ctx. Each call sends one statement. After a
// failed statement, only Rollback may be called. GetAll returns non-nil values for existing rows, even if they are
// empty.
type Statement interface {
	// Get returns the row's value, or txn.ErrNotFound unwrapped.
	Get(k txn.Key) (value []byte, err error)
	// GetAll returns the values of keys in the order of keys, with nil for missing rows. keys is not empty and may
	// contain duplicates.
	GetAll(keys []txn.Key) (values [][]byte, err error)
	// Scan calls f for the rows of a range, in the range's order, until f returns false. The range has passed CheckScan.
	Scan(r txn.Range, f func(k txn.Key, value []byte) bool) error
	Put(k txn.Key, value []byte) error
	// Delete removes a row. Deleting a missing row is not an error.
	Delete(k txn.Key) error
	// Commit commits the transaction. If it fails and Classify reports neither a conflict nor a rollback, the outcome is
	// unknown.
	Commit(ctx context.Context) error
	// Rollback undoes the transaction. It is also called after Commit or a statement has failed. ctx has a timeout of 5 s
	// and is not canceled with the session. A driver that checks a canceled context first would send nothing, and the
	// transaction would keep its locks.
	//
	// If Rollback fails, the connection is closed. It must return nil if the database reports that there is nothing to
	// roll back.
	Rollback(ctx context.Context) error
}

// Caller is a Statement that can run a workload's own SQL (package sqlform) in place of the row operations of the
// workload's procedures.
type Caller interface {
	Statement
	// Call runs t without committing it, and returns the result of its procedure. It calls use for each row that
	// determines the class of t. The error is a txn.Abort if the transaction aborts itself, and txn.ErrProcedure if Call
	// cannot decode an answer. Any other error comes from the database, and Classify interprets it.
	Call(t *txn.Transaction, use func(txn.Key)) (result []byte, err error)
}

// Failure is the interpretation of a database error.
type Failure struct {
	// Cause is txn.CauseConflict if a retry may succeed (a serialization failure or a deadlock), and txn.CauseNode
	// otherwise. Any other cause makes the run Invalid, because the result could then miscount conflicts.
	Cause txn.Cause
	// Reason is a label of bounded cardinality: serialization-failure, deadlock, connection-lost.
	Reason string
	// RolledBack is set if the transaction has certainly had no effect, even if Commit failed, for example because of a
	// full disk or a constraint. The outcome of the transaction is then refused, not unknown.
	RolledBack bool
	// Broken is set if the connection is no longer usable.
	Broken bool
}

// PoolSize implements Pool.
func (s *Statements) PoolSize() int { return s.Connections }

// Open implements Target. It fails if any of the connections cannot be opened.
func (s *Statements) Open(ctx context.Context, sink Sink) (Session, error) {
	if s.Connections < 1 {
		return nil, fmt.Errorf("connections: %d is not at least 1", s.Connections)
	}
	session := &statements{s: s, sink: sink}
	session.wake = sync.NewCond(&session.mu)
	// The caller's deadline applies only to opening. The session outlives this call, and only Close cancels its
	// transactions.
	session.ctx, session.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var open []Connection
	for range s.Connections {
		c, err := s.Connect(ctx)
		if err != nil {
			for _, c := range open {
				_ = c.Close()
			}
			session.cancel()
			return nil, fmt.Errorf("connection %d of %d: %w", len(open)+1, s.Connections, err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		session.wg.Add(1)
		go session.serve(c)
	}
	return session, nil
}

// Incidents implements Target. A broken connection appears only in the outcomes of its transactions. It is an incident
// only if it cannot be replaced, because the database may then be down.
func (s *Statements) Incidents() []result.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.incidents)
}

// Close implements Target.
func (s *Statements) Close() error { return nil }

// statements is a session. It has a queue of transactions, and one goroutine per connection that takes transactions
// from it.
type statements struct {
	s      *Statements
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	sinkMu sync.Mutex // one batch at a time
	sink   Sink
	batch  []*txn.Transaction // submitted, not flushed

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []*txn.Transaction
	closed bool
}

// Submit implements Session.
func (s *statements) Submit(t *txn.Transaction) { s.batch = append(s.batch, t) }

// Flush implements Session.
func (s *statements) Flush() {
	if len(s.batch) == 0 {
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, s.batch...)
	s.mu.Unlock()
	for range s.batch { // wake one connection per transaction; Broadcast would also wake connections without work
		s.wake.Signal()
	}
	clear(s.batch)
	s.batch = s.batch[:0]
}

// Close implements Session. It cancels the context of the running transactions and waits for them. Transactions that
// have not started are refused.
func (s *statements) Close() error {
	s.Flush()
	// Cancel before setting closed. Goroutines that take the remaining transactions from the queue then refuse them
	// instead of running them.
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wake.Broadcast()
	s.wg.Wait()
	return nil
}

// next takes a transaction from the queue. It blocks while the queue is empty, and returns nil once the session is
// closed and the queue is empty.
func (s *statements) next() *txn.Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		if s.closed {
			return nil
		}
		s.wake.Wait()
	}
	t := s.queue[0]
	// Release the transaction: the queue's array may stay in use for the whole run.
	s.queue[0] = nil
	// Advancing the slice alone would keep the transaction reachable through the array.
	s.queue = s.queue[1:]
	return t
}

// serve runs transactions on connection c, and replaces the connection whenever it breaks.
func (s *statements) serve(c Connection) {
	defer s.wg.Done()
	for t := s.next(); t != nil; t = s.next() {
		o, broken := s.run(c, t)
		// Deliver the outcome before the reconnect, which may take seconds and is not part of the transaction's latency.
		s.sinkMu.Lock()
		s.sink([]txn.Outcome{o})
		s.sinkMu.Unlock()
		if broken && c != nil {
			// Close the broken connection. The code below opens a replacement unless the session is closed.
			_ = c.Close()
			c = nil
		}
		if c == nil && s.ctx.Err() == nil {
			next, err := s.s.Connect(s.ctx)
			switch {
			case err == nil:
				c = next
			case s.ctx.Err() == nil: // the next transaction is refused, then Connect is tried again
				s.s.note(&s.s.lost, "a connection broke, and another one cannot be opened: %v", err)
			}
		}
	}
	if c != nil {
		_ = c.Close()
	}
}

// rollback undoes a transaction, even after the session is closed.
func (s *statements) rollback(st Statement) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), rollbackWithin)
	defer cancel()
	return st.Rollback(ctx)
}

// run runs one transaction and reports whether the connection must be replaced. c is nil if there is no connection.
func (s *statements) run(c Connection, t *txn.Transaction) (o txn.Outcome, broken bool) {
	o = txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonNotConnected}
	if s.ctx.Err() != nil {
		// Transactions that were still queued when the session closed have had no effect, so they are refused and not
		// unknown.
		o.Cause, o.Reason = txn.CauseClient, ReasonSessionClosed
		return o, false
	}
	procedure := s.s.Procedures.Lookup(t.Proc)
	if procedure == nil {
		o.Cause, o.Reason = txn.CauseProcedure, txn.ReasonInvalid
		return o, false
	}
	if c == nil {
		return o, true
	}
	failed := func(err error, unknown bool) (txn.Outcome, bool) {
		f := s.s.Classify(err)
		// After Close, statements fail because their context is canceled. Such an error needs no valid cause from Classify.
		if s.ctx.Err() == nil && f.Cause != txn.CauseConflict && f.Cause != txn.CauseNode {
			s.s.note(&s.s.causeless, "Classify gives %q the cause %v: a failure is a conflict or the node's", err, f.Cause)
			f.Cause = txn.CauseNode
		}
		o.Cause, o.Reason = f.Cause, f.Reason
		switch {
		// A conflict always rolls back, so even a failed Commit has a known outcome here.
		case f.Cause == txn.CauseConflict:
			o.Status = txn.Aborted
		// Only a failed commit may have taken effect; after a failed statement the transaction is rolled back.
		case unknown && !f.RolledBack:
			o.Status = txn.Unknown
		}
		// Keep the status set above: the outcome of an interrupted Commit is still unknown. Only the cause changes, to the
		// client.
		if s.ctx.Err() != nil {
			o.Cause, o.Reason = txn.CauseClient, ReasonSessionClosed
		}
		return o, f.Broken
	}
	if s.s.Pending != nil {
		s.s.Pending.Add(1)
		defer s.s.Pending.Add(-1)
	}
	st, err := c.Begin(s.ctx, t)
	if err != nil {
		return failed(err, false)
	}
	// The witness determines the class, because classes determined by the databases would not be comparable.
	seen := &witness{st: st, placement: s.s.Placement}
	var result []byte
	if caller, ok := st.(Caller); ok {
		result, err = seen.call(caller, t)
	} else {
		result, err = procedure.Run(seen, t.Args)
	}
	o.Class = txn.ClassOf(seen.multiHome, seen.multiPartition)
	switch {
	// A database error takes precedence over err: the procedure may have replaced or hidden it.
	case seen.err != nil:
		rollback := s.rollback(st)
		o, broken = failed(seen.err, false)
		// If the rollback fails, the transaction may still be open at the server and hold its locks. Closing the connection
		// ends the transaction.
		return o, broken || rollback != nil
	// The procedure itself failed or aborted, so its error determines the outcome. If the rollback fails, only the
	// connection is replaced.
	case err != nil:
		rollback := s.rollback(st)
		class := o.Class
		o = txn.AbortOutcome(t.ID, err)
		o.Class = class
		return o, rollback != nil
	}
	if err := st.Commit(s.ctx); err != nil {
		rollback := s.rollback(st)
		o, broken = failed(err, true)
		return o, broken || rollback != nil
	}
	return txn.Outcome{ID: t.ID, Status: txn.Committed, Class: o.Class, Result: result}, false
}

// witness is the txn.Ctx that a procedure sees. It records which homes and partitions the procedure accesses, and the
// first error of the database. All later statements return this error. The transaction fails with this error even if
// the procedure ignores it.
type witness struct {
	st                        Statement
	placement                 geo.Placement
	used                      bool
	first                     geo.Cell
	multiHome, multiPartition bool
	err                       error
}

func (w *witness) use(k txn.Key) {
	// A row that every partition stores is local everywhere, and does not affect the class.
	if k.Everywhere() {
		return
	}
	c := w.placement.Cell(k)
	if !w.used {
		w.used, w.first = true, c
	}
	// The first cell is the reference: any other home or partition makes the transaction multi-home or multi-partition.
	w.multiHome = w.multiHome || c.Home != w.first.Home
	w.multiPartition = w.multiPartition || c.Partition != w.first.Partition
}

// call runs t through c and records database errors. An abort by the transaction itself and an unreadable answer are
// not database errors.
func (w *witness) call(c Caller, t *txn.Transaction) ([]byte, error) {
	result, err := c.Call(t, w.use)
	if abort := txn.Abort(""); err != nil && !errors.As(err, &abort) && !errors.Is(err, txn.ErrProcedure) {
		w.err = err
	}
	return result, err
}

func (w *witness) note(err error) error {
	// A missing row is an answer, after which the transaction continues.
	if err != nil && err != txn.ErrNotFound {
		w.err = err
	}
	return err
}

// Get implements txn.Ctx.
func (w *witness) Get(k txn.Key) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	w.use(k)
	v, err := w.st.Get(k)
	return v, w.note(err)
}

// GetAll implements txn.Ctx.
func (w *witness) GetAll(keys []txn.Key) ([][]byte, error) {
	if w.err != nil || len(keys) == 0 {
		return nil, w.err
	}
	for _, k := range keys {
		w.use(k)
	}
	v, err := w.st.GetAll(keys)
	return v, w.note(err)
}

// Scan implements txn.Ctx.
func (w *witness) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if w.err != nil {
		return w.err
	}
	// An invalid range is an error of the procedure, so do not record it as an error of the database.
	if err := r.CheckScan(); err != nil {
		return err
	}
	w.use(r.From)
	return w.note(w.st.Scan(r, f))
}

// Put implements txn.Ctx.
func (w *witness) Put(k txn.Key, value []byte) {
	if w.err == nil {
		w.use(k)
		_ = w.note(w.st.Put(k, value))
	}
}

// Delete implements txn.Ctx.
func (w *witness) Delete(k txn.Key) {
	if w.err == nil {
		w.use(k)
		_ = w.note(w.st.Delete(k))
	}
}
