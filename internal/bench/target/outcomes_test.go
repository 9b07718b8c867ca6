package target_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
)

var (
	errConflict = errors.New("conflict")
	errNode     = errors.New("node")
	errBroken   = errors.New("broken")
	errFull     = errors.New("full")
)

// writes is a procedure with one write and one read. It requests the read even if the write fails.
var writes = &txn.Procedure{
	ID: 2, Name: "writes",
	Declare: func(_ []byte, f *txn.Footprint) error {
		f.Exact = true
		f.Add(txn.IntKey(0, 1), txn.ReadWrite)
		return nil
	},
	Run: func(c txn.Ctx, _ []byte) ([]byte, error) {
		c.Put(txn.IntKey(0, 1), []byte("value"))
		_, _ = c.Get(txn.IntKey(0, 1))
		return nil, txn.Abort("by the procedure")
	},
}

// reads is a procedure with a single read.
var reads = &txn.Procedure{
	ID: 1, Name: "reads",
	Declare: func(_ []byte, f *txn.Footprint) error {
		f.Exact = true
		f.Add(txn.IntKey(0, 1), txn.Read)
		return nil
	},
	Run: func(c txn.Ctx, _ []byte) ([]byte, error) { return c.Get(txn.IntKey(0, 1)) },
}

// scripted is a connection and its only transaction. The test sets a function for each step; a nil function succeeds.
type scripted struct {
	connect                 func() error
	begin, commit, rollback func(ctx context.Context) error
	put                     func(ctx context.Context) error
	get                     func() error

	target                     *target.Statements
	opened, closed, rolledBack int
	pending                    atomic.Int64
}

func (s *scripted) do(ctx context.Context, step func(context.Context) error) error {
	if step == nil {
		return nil
	}
	return step(ctx)
}

func (s *scripted) Begin(ctx context.Context, _ *txn.Transaction) (target.Statement, error) {
	return s, s.do(ctx, s.begin)
}

func (s *scripted) Close() error { s.closed++; return nil }

func (s *scripted) Get(txn.Key) ([]byte, error) {
	if s.get == nil {
		return []byte("value"), nil
	}
	return nil, s.get()
}

func (s *scripted) GetAll([]txn.Key) ([][]byte, error)               { return nil, nil }
func (s *scripted) Scan(txn.Range, func(txn.Key, []byte) bool) error { return nil }
func (s *scripted) Put(txn.Key, []byte) error                        { return s.do(context.Background(), s.put) }
func (s *scripted) Delete(txn.Key) error                             { return nil }
func (s *scripted) Commit(ctx context.Context) error                 { return s.do(ctx, s.commit) }
func (s *scripted) Rollback(ctx context.Context) error               { s.rolledBack++; return s.do(ctx, s.rollback) }

// open opens a session with one connection.
func (s *scripted) open(t *testing.T) (session target.Session, outcomes chan txn.Outcome) {
	t.Helper()
	return s.openAs(t, s)
}

// openAs opens a session over a connection that wraps the script.
func (s *scripted) openAs(t *testing.T, c target.Connection) (session target.Session, outcomes chan txn.Outcome) {
	t.Helper()
	s.target = &target.Statements{
		Procedures: txn.NewRegistry(reads, writes), Placement: geo.Placement{Regions: 1, Partitions: 1}, Connections: 1, Pending: &s.pending,
		Connect: func(context.Context) (target.Connection, error) {
			if s.opened++; s.connect != nil && s.opened > 1 {
				return c, s.connect()
			}
			return c, nil
		},
		Classify: func(err error) target.Failure {
			switch {
			case errors.Is(err, context.Canceled):
				return target.Failure{Cause: txn.CauseClient, Reason: "cancelled"}
			case errors.Is(err, errConflict):
				return target.Failure{Cause: txn.CauseConflict, Reason: "conflict"}
			case errors.Is(err, errFull):
				return target.Failure{Cause: txn.CauseNode, Reason: "full", RolledBack: true}
			case errors.Is(err, errBroken):
				return target.Failure{Cause: txn.CauseNode, Reason: "broken", Broken: true}
			}
			return target.Failure{Cause: txn.CauseNode, Reason: "node"}
		},
	}
	outcomes = make(chan txn.Outcome, 10)
	session, err := s.target.Open(t.Context(), func(batch []txn.Outcome) {
		for _, o := range batch {
			outcomes <- o
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return session, outcomes
}

// send submits a transaction to a session.
func send(session target.Session, sequence uint64) {
	x := &txn.Transaction{ID: txn.MakeID(1, sequence)}
	reads.Call(x, nil)
	session.Submit(x)
	session.Flush()
}

// If a session closes while a transaction runs, the transaction is rolled back with a context that is not canceled.
// With a canceled context, a driver that checks its context first would send nothing, and the transaction would keep
// its locks.
func TestARollbackOutlivesItsSession(t *testing.T) {
	reading := make(chan struct{})
	var session context.Context
	var rollback error
	s := &scripted{
		begin: func(ctx context.Context) error { session = ctx; return nil },
		get:   func() error { close(reading); <-session.Done(); return session.Err() },
		rollback: func(ctx context.Context) error {
			rollback = ctx.Err()
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the rollback's context has no deadline")
			}
			return nil
		},
	}
	opened, outcomes := s.open(t)
	send(opened, 1)
	<-reading
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	if s.rolledBack != 1 || rollback != nil {
		t.Errorf("%d rollbacks, the context of the last one is over: %v", s.rolledBack, rollback)
	}
	if o := <-outcomes; o.Status != txn.Refused || o.Cause != txn.CauseClient || o.Reason != target.ReasonSessionClosed {
		t.Errorf("%+v", o)
	}
	// The session was closed, so the cause is the client. Classify need not return a valid cause for this error, and the
	// error is no incident.
	if got := s.target.Incidents(); len(got) > 0 {
		t.Errorf("incidents %+v", got)
	}
}

// An outcome is delivered before the broken connection is replaced.
func TestOutcomesComeBeforeTheReconnect(t *testing.T) {
	told := make(chan struct{})
	s := &scripted{
		get:     func() error { return errBroken },
		connect: func() error { <-told; return nil },
	}
	session, outcomes := s.open(t)
	send(session, 1)
	select {
	case o := <-outcomes:
		if o.Status != txn.Refused || o.Reason != "broken" {
			t.Errorf("%+v", o)
		}
	case <-time.After(10 * time.Second):
		t.Error("the outcome waits for the next connection")
	}
	close(told)
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
}

// A connection whose rollback fails may still have the transaction open. Such a connection is not reused, whatever the
// first error was.
func TestAFailedRollbackBreaksTheConnection(t *testing.T) {
	for name, s := range map[string]*scripted{
		"after a conflict at a statement": {get: func() error { return errConflict }},
		"after a conflict at COMMIT":      {commit: func(context.Context) error { return errConflict }},
		"after the procedure's own abort": {get: func() error { return txn.ErrNotFound }},
	} {
		t.Run(name, func(t *testing.T) {
			s.rollback = func(context.Context) error { return errNode }
			session, outcomes := s.open(t)
			send(session, 1)
			if o := <-outcomes; o.Status != txn.Aborted {
				t.Errorf("%+v", o)
			}
			send(session, 2)
			<-outcomes
			if err := session.Close(); err != nil {
				t.Fatal(err)
			}
			if s.opened < 2 || s.closed != s.opened {
				t.Errorf("%d connections opened and %d closed: the first one is used again", s.opened, s.closed)
			}
		})
	}
}

// A transaction with an unknown procedure is refused, and the session continues.
func TestUnknownProceduresAreRefused(t *testing.T) {
	s := &scripted{}
	session, outcomes := s.open(t)
	session.Submit(&txn.Transaction{ID: txn.MakeID(1, 1), Proc: 77})
	session.Flush()
	if o := <-outcomes; o.Status != txn.Refused || o.Cause != txn.CauseProcedure || o.Reason != txn.ReasonInvalid {
		t.Errorf("%+v", o)
	}
	send(session, 2)
	if o := <-outcomes; o.Status != txn.Committed {
		t.Errorf("%+v", o)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
}

// The step at which an error occurs determines the outcome of the transaction.
func TestOutcomesOfErrors(t *testing.T) {
	node := func(reason string, status txn.Status) txn.Outcome {
		return txn.Outcome{Status: status, Cause: txn.CauseNode, Reason: reason}
	}
	conflict := txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "conflict"}
	for name, tc := range map[string]struct {
		err                      error
		begin, statement, commit txn.Outcome
	}{
		"conflict":    {errConflict, conflict, conflict, conflict},
		"node":        {errNode, node("node", txn.Refused), node("node", txn.Refused), node("node", txn.Unknown)},
		"rolled back": {errFull, node("full", txn.Refused), node("full", txn.Refused), node("full", txn.Refused)},
	} {
		fails := func(context.Context) error { return tc.err }
		for step, s := range map[string]struct {
			script *scripted
			want   txn.Outcome
		}{
			"Begin":  {&scripted{begin: fails}, tc.begin},
			"Get":    {&scripted{get: func() error { return tc.err }}, tc.statement},
			"Commit": {&scripted{commit: fails}, tc.commit},
			"Put":    {&scripted{put: fails}, tc.statement},
		} {
			t.Run(name+" at "+step, func(t *testing.T) {
				session, outcomes := s.script.open(t)
				x := &txn.Transaction{ID: txn.MakeID(1, 1)}
				procedure := reads
				if s.script.put != nil {
					procedure = writes
					s.script.get = func() error { t.Error("the database is asked again after an error"); return nil }
				}
				procedure.Call(x, nil)
				session.Submit(x)
				session.Flush()
				o := <-outcomes
				if err := session.Close(); err != nil {
					t.Fatal(err)
				}
				if o.Status != s.want.Status || o.Cause != s.want.Cause || o.Reason != s.want.Reason {
					t.Errorf("%+v, not %+v", o, s.want)
				}
				if n := s.script.pending.Load(); n != 0 {
					t.Errorf("%d transactions are pending after the last one", n)
				}
			})
		}
	}
}

// caller is a scripted connection whose transactions are a workload's own SQL.
type caller struct {
	*scripted
	call func() error
}

func (c *caller) Begin(context.Context, *txn.Transaction) (target.Statement, error) { return c, nil }

func (c *caller) Call(*txn.Transaction, func(txn.Key)) ([]byte, error) { return nil, c.call() }

// Errors of a workload's own SQL are distinguished from errors of the database. After a workload's error, the
// transaction is rolled back and the connection remains usable, but the run is Invalid.
func TestOutcomesOfCallers(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status txn.Status
		cause  txn.Cause
		reason string
	}{
		"the transaction's decision": {txn.Abort("no-money"), txn.Aborted, txn.CauseProcedure, "no-money"},
		"an answer that is not read": {fmt.Errorf("statement read: %w", txn.ErrProcedure), txn.Aborted, txn.CauseProcedure, txn.ReasonProcedure},
		"the database's error":       {errBroken, txn.Refused, txn.CauseNode, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{}
			session, outcomes := s.openAs(t, &caller{s, func() error { return tc.err }})
			send(session, 1)
			if o := <-outcomes; o.Status != tc.status || o.Cause != tc.cause || o.Reason != tc.reason {
				t.Errorf("%+v", o)
			}
			if s.rolledBack != 1 {
				t.Errorf("%d rollbacks", s.rolledBack)
			}
			send(session, 2)
			<-outcomes
			if err := session.Close(); err != nil {
				t.Fatal(err)
			}
			if broken := tc.err == errBroken; (s.opened > 1) != broken {
				t.Errorf("%d connections opened", s.opened)
			}
		})
	}
}

// A transaction counts as pending while it runs.
func TestStatementsCountWhatIsPending(t *testing.T) {
	s := &scripted{}
	s.commit = func(context.Context) error {
		if n := s.pending.Load(); n != 1 {
			t.Errorf("%d are pending", n)
		}
		return nil
	}
	session, outcomes := s.open(t)
	send(session, 1)
	<-outcomes
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
}

// If a broken connection cannot be replaced, transactions are refused, even if Connect returns a connection along with
// its error.
func TestNoConnection(t *testing.T) {
	s := &scripted{get: func() error { return errBroken }, connect: func() error { return errNode }}
	session, outcomes := s.open(t)
	for n, want := range []string{"broken", target.ReasonNotConnected} {
		send(session, uint64(n+1))
		if o := <-outcomes; o.Status != txn.Refused || o.Cause != txn.CauseNode || o.Reason != want {
			t.Errorf("%+v, not %s", o, want)
		}
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.target.Incidents(); len(got) != 1 || got[0].Message != "a connection broke, and another one cannot be opened: node" {
		t.Errorf("incidents %q", got)
	}
}
