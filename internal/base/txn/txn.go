// Package txn says what a transaction is: an id, a procedure and its arguments, and the footprint that the procedure
// declares of it (the rows and ranges that it may touch, exactly or as a hint). Procedures are deterministic functions
// over a Ctx, so that an engine may run them wherever and as often as its protocol needs. See docs/transactions.md.
package txn

import (
	"errors"
	"fmt"
	"slices"
)

// ID names a transaction uniquely within the life of a database. Clients make them up: see MakeID.
type ID uint64

// MakeID returns the n-th id of a client stream. stream is unique among the load generators of a run (24 bits),
// n counts from 1 (40 bits).
func MakeID(stream uint32, n uint64) ID { return ID(uint64(stream&0xffffff)<<40 | n&(1<<40-1)) }

// Stream returns the client stream that made the id.
func (id ID) Stream() uint32 { return uint32(id >> 40) }

// String prints the id as stream.number.
func (id ID) String() string { return fmt.Sprintf("%d.%d", id.Stream(), uint64(id)&(1<<40-1)) }

// ProcID numbers a stored procedure. Numbers are fixed for ever, since they travel: see internal/bench/workload.
type ProcID uint16

// Transaction is one call of a stored procedure. Once submitted it is immutable and may be shared by the nodes of a
// simulation.
type Transaction struct {
	ID   ID
	Proc ProcID
	// Attempt counts the client's earlier tries of the same call, each of which had an ID of its own and left no trace.
	Attempt uint8
	// Found says that the Footprint was found by a reconnaissance: it travels with the transaction. Otherwise it is a
	// function of Proc and Args, filled in by Registry.Prepare and never sent.
	Found bool
	// Home is the number of the region whose clients sent it, a hint: it does not travel, since clients speak to nodes of
	// their own region.
	Home uint16
	Args []byte
	Footprint
}

// Status is how a transaction ended, as its client sees it.
type Status uint8

// The ways a transaction ends.
const (
	// Committed: its writes are in the database.
	Committed Status = iota + 1
	// Aborted: it left no trace. Cause says whether the procedure or the concurrency control gave up.
	Aborted
	// Refused: the node could not take it (it is overloaded, not ready or has lost its peers); it left no trace.
	Refused
	// Unknown: the connection or the client's patience ended first; it may or may not have been committed.
	Unknown
)

// String names the status in lower case.
func (s Status) String() string {
	switch s {
	case Committed:
		return "committed"
	case Aborted:
		return "aborted"
	case Refused:
		return "refused"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Cause says who or what kept a transaction from being committed.
type Cause uint8

// The causes. A committed transaction has none.
const (
	// CauseProcedure: the procedure gave up, by its own decision or because it is broken. A second try would end alike.
	CauseProcedure Cause = iota + 1
	// CauseConflict: the concurrency control gave it up for the sake of other transactions. A second try may succeed.
	CauseConflict
	// CauseNode: a node or a connection is lost, overloaded or not ready.
	CauseNode
	// CauseClient: the client gave up, by its patience or because its session ended.
	CauseClient
	// CauseMoved: the transaction was sent to where its rows are not any more. Like CauseStale it is what nodes say to
	// each other: whoever coordinates the transaction sends it again, and clients never see it.
	CauseMoved
	// CauseStale: the transaction was sent with a footprint that does not hold any more.
	CauseStale
	// NumCauses counts the causes and 0, for arrays indexed by Cause.
	NumCauses
)

// String returns procedure, conflict, node, client, moved or stale.
func (c Cause) String() string {
	if c >= NumCauses {
		return fmt.Sprintf("cause %d", uint8(c))
	}
	return [...]string{"none", "procedure", "conflict", "node", "client", "moved", "stale"}[c]
}

// Outcome answers a transaction.
type Outcome struct {
	ID     ID
	Status Status
	// Cause of a transaction that was not committed.
	Cause Cause
	// Class is how far the transaction reached, as the database knows it afterwards. It counts where the transaction's
	// footprint was not exact.
	Class Class
	// Reason names, in a word or two, why a transaction was not committed: a label of bounded cardinality.
	Reason string
	// Result is what the procedure returned.
	Result []byte
}

// Reasons that mean the same in every database, beside a procedure's own.
const (
	// ReasonProcedure: the procedure failed other than by its own decision.
	ReasonProcedure = "procedure-error"
	// ReasonUndeclared: the procedure touched a row that its footprint, said to be exact, does not name. That is a mistake
	// of the workload, and what it measures means nothing.
	ReasonUndeclared = "undeclared-access"
	// ReasonInvalid: a node refuses the transaction, whose procedure is not registered or whose footprint cannot be.
	ReasonInvalid = "invalid-transaction"
)

// ErrUndeclared is what a procedure gets from a Ctx, or comes to in the end, that touches a row which its footprint,
// said to be exact, does not name.
var ErrUndeclared = errors.New("the footprint, said to be exact, does not name the row")

// ErrProcedure is what a transaction of package sqlform comes to that cannot read what the database has answered: its
// outcome is ReasonProcedure, and not an error of the database.
var ErrProcedure = errors.New("the answer is not one that the transaction can read")

// ErrNotFound says that there is no such row. Get returns this very value.
var ErrNotFound = errors.New("there is no such row")

// Ctx is a running procedure's view of the database: the rows as its transaction sees them, its own writes included.
// Values that Get and Scan return must not be changed; values given to Put belong to the database from then on.
//
// Any error other than ErrNotFound ends the transaction: the row is not here yet, or the database has failed. The
// procedure returns it as it is, at once. Put and Delete return nothing: where one fails, all that follows fails with
// its error.
type Ctx interface {
	// Get returns the row's value, or ErrNotFound.
	Get(k Key) (value []byte, err error)
	// GetAll returns the values of several rows, in the order of their keys and nil for those that are not there: one
	// statement, where Get is one for each row.
	GetAll(keys []Key) (values [][]byte, err error)
	// Scan calls f for the rows of a range, in its order, until f returns false. f must not use the Ctx.
	Scan(r Range, f func(k Key, value []byte) bool) error
	Put(k Key, value []byte)
	Delete(k Key)
}

// GetEach is a GetAll that gets one row after the other.
func GetEach(c Ctx, keys []Key) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, k := range keys {
		v, err := c.Get(k)
		if err != nil && err != ErrNotFound {
			return nil, err
		}
		if err == nil && v == nil {
			v = []byte{} // nil is for rows that are not there
		}
		values[i] = v
	}
	return values, nil
}

// GetRow returns the value of a row, at least minSize bytes. The error is missing where there is no such row or its
// value is shorter, and otherwise what Get returns.
func GetRow(c Ctx, k Key, minSize int, missing Abort) ([]byte, error) {
	v, err := c.Get(k)
	if err == ErrNotFound || err == nil && len(v) < minSize {
		return nil, missing
	}
	return v, err
}

// Row is a row with its value.
type Row struct {
	Key   Key
	Value []byte
}

// KeyValue returns the key and the value.
func (r *Row) KeyValue() (Key, []byte) { return r.Key, r.Value }

// ScanRows calls f for those of rows that are in r, in r's order, until f returns false or r's limit is reached. The
// rows are those of a range that covers r, in the order of keys or in the reverse one; keyValue takes one apart.
func ScanRows[R any](rows []R, keyValue func(*R) (Key, []byte), r Range, f func(Key, []byte) bool) {
	next, end, step := 0, len(rows), 1
	if len(rows) > 1 {
		first, _ := keyValue(&rows[0])
		second, _ := keyValue(&rows[1])
		if r.Reverse == (first < second) {
			next, end, step = len(rows)-1, -1, -1
		}
	}
	for ; next != end; next += step {
		k, value := keyValue(&rows[next])
		if !r.Contains(k) {
			continue
		}
		if r.Limit--; !f(k, value) || r.Limit == 0 {
			return
		}
	}
}

// Procedure is a stored procedure: a deterministic function of its arguments and of what it reads. A database may run
// it several times for one transaction, the first few with some of the rows missing.
type Procedure struct {
	ID   ProcID
	Name string
	// Declare adds to f what the procedure will touch with args, and says whether that is all: see Footprint. It fails on
	// malformed arguments.
	Declare func(args []byte, f *Footprint) error
	// Run executes the procedure. An Abort error undoes its writes and becomes the outcome's reason.
	Run func(c Ctx, args []byte) (result []byte, err error)
	// ReadOnly promises that Run never writes, and Declare names no Write: engines may answer it from a snapshot.
	ReadOnly bool
	// Deletes are the tables that Run may delete rows of. Runs that record a history abort a procedure that deletes
	// others, since they leave a mark in place of a deleted row, and scan as far as a plain run does only where there are
	// no marks.
	Deletes Tables
}

// ReadsOnly reports whether a transaction, which has been prepared, writes nothing.
func (r *Registry) ReadsOnly(t *Transaction) bool {
	if p := r.Lookup(t.Proc); p == nil || p.ReadOnly || !t.Exact {
		return p != nil && p.ReadOnly
	}
	for i := range t.Accesses {
		if t.Accesses[i].Mode&Write != 0 {
			return false
		}
	}
	return true
}

// Call makes t, whose ID is set, a call of the procedure. It keeps args, which must not change any more: databases hold
// the transaction for as long as they want, after its client has its outcome, too. It panics when the procedure refuses
// the arguments: those who make transactions know what they do.
func (p *Procedure) Call(t *Transaction, args []byte) {
	t.Proc, t.Args = p.ID, args
	t.Footprint = Footprint{Accesses: t.Accesses[:0], Ranges: t.Ranges[:0]}
	if err := p.Declare(args, &t.Footprint); err != nil {
		panic(fmt.Sprintf("txn: a bad call of %s was made: %v", p.Name, err))
	}
}

// CheckLen fails unless the arguments of a procedure have as many bytes as it wants, for Procedure.Declare.
func CheckLen(args []byte, want int) error {
	if len(args) != want {
		return fmt.Errorf("the arguments have %d bytes, not %d", len(args), want)
	}
	return nil
}

// Abort is a procedure's own decision to give up.
type Abort string

func (a Abort) Error() string { return string(a) }

// AbortOutcome is the outcome of a transaction whose procedure has returned err.
func AbortOutcome(id ID, err error) Outcome {
	o := Outcome{ID: id, Status: Aborted, Cause: CauseProcedure, Reason: ReasonProcedure}
	var abort Abort
	switch {
	case errors.As(err, &abort):
		o.Reason = string(abort)
	case errors.Is(err, ErrUndeclared):
		o.Reason = ReasonUndeclared
	}
	return o
}

// Registry finds procedures by number.
type Registry struct{ byID []*Procedure }

// NewRegistry returns a registry of procs. It panics when two share a number, which is a programmer's mistake.
func NewRegistry(procs ...*Procedure) *Registry {
	r := &Registry{}
	for _, p := range procs {
		for int(p.ID) >= len(r.byID) {
			r.byID = append(r.byID, nil)
		}
		if r.byID[p.ID] != nil {
			panic(fmt.Sprintf("txn: procedures %s and %s share number %d", r.byID[p.ID].Name, p.Name, p.ID))
		}
		r.byID[p.ID] = p
	}
	return r
}

// Each calls f for every procedure, in the order of their numbers.
func (r *Registry) Each(f func(*Procedure)) {
	for _, p := range r.byID {
		if p != nil {
			f(p)
		}
	}
}

// Lookup returns the procedure with number id, or nil.
func (r *Registry) Lookup(id ProcID) *Procedure {
	if int(id) >= len(r.byID) {
		return nil
	}
	return r.byID[id]
}

var errNoKeys = errors.New("the transaction names no key")

// Prepare fills in t.Footprint, unless it was found. It fails for an unknown procedure, malformed arguments, an invalid
// footprint, or one of a ReadOnly procedure that writes, so that whatever passes can be executed by every replica.
func (r *Registry) Prepare(t *Transaction) error {
	p := r.Lookup(t.Proc)
	if p == nil {
		return fmt.Errorf("transaction %v: procedure %d is not registered", t.ID, t.Proc)
	}
	if !t.Found {
		t.Accesses = t.Accesses[:0]
		t.Ranges = t.Ranges[:0]
		t.Exact = false
		if err := p.Declare(t.Args, &t.Footprint); err != nil {
			return fmt.Errorf("transaction %v: %s: %w", t.ID, p.Name, err)
		}
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("transaction %v: %s: %w", t.ID, p.Name, err)
	}
	if p.ReadOnly {
		if i := slices.IndexFunc(t.Accesses, func(a Access) bool { return a.Mode&Write != 0 }); i >= 0 {
			return fmt.Errorf("transaction %v: %s: the footprint writes %v, although the procedure is said to be ReadOnly", t.ID, p.Name, t.Accesses[i].Key)
		}
	}
	return nil
}
