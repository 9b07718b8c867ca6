// Package txn defines transactions. A transaction consists of an ID, a procedure with its arguments, and the footprint
// that the procedure declares. The footprint lists the rows and ranges that the transaction accesses, either exactly or
// as a hint. Procedures are deterministic functions over a Ctx, so an engine may run them at any node, as often as its
// protocol needs. See docs/transactions.md.
package txn

import (
	"errors"
	"fmt"
	"slices"
)

// ID identifies a transaction uniquely within the lifetime of a database. Clients create IDs: see MakeID.
type ID uint64

// MakeID returns the n-th ID of a client stream. stream (24 bits) is unique among all streams of a run's load
// generators; n (40 bits) counts from 1.
func MakeID(stream uint32, n uint64) ID { return ID(uint64(stream&0xffffff)<<40 | n&(1<<40-1)) }

// Stream returns the client stream of the ID.
func (id ID) Stream() uint32 { return uint32(id >> 40) }

// String formats the ID as stream.number.
func (id ID) String() string { return fmt.Sprintf("%d.%d", id.Stream(), uint64(id)&(1<<40-1)) }

// ProcID is the number of a stored procedure. Numbers never change, because they are sent over the network: see
// internal/bench/workload.
type ProcID uint16

// Transaction is a call of a stored procedure. It must not change once it is submitted, because the nodes of a
// simulation may share it.
type Transaction struct {
	ID   ID
	Proc ProcID
	// Attempt is the number of the client's earlier attempts at the same call. Each of them had its own ID and left no
	// trace in the database.
	Attempt uint8
	// Found is set if a reconnaissance has found the Footprint, which is then encoded with the transaction. Otherwise the
	// footprint follows from Proc and Args: Registry.Prepare fills it in, and it is never sent.
	Found bool
	// Home is the number of the region whose clients sent the transaction; it serves only as a hint. It is not sent over
	// the network, because clients send transactions to nodes of their region.
	Home uint16
	Args []byte
	Footprint
}

// Status is the final status of a transaction as reported to its client.
type Status uint8

// Values of Status.
const (
	// Committed: the transaction's writes are in the database.
	Committed Status = iota + 1
	// Aborted: the transaction left no trace. Cause states whether the procedure or the concurrency control aborted it.
	Aborted
	// Refused: the node did not accept the transaction, because the node is overloaded, not ready or has lost its peers.
	// The transaction left no trace.
	Refused
	// Unknown: the connection was lost, or the client timed out first. The transaction may or may not have committed.
	Unknown
)

// String returns the status in lower case.
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

// Cause is the reason why a transaction did not commit.
type Cause uint8

// Values of Cause. A committed transaction has the zero value.
const (
	// CauseProcedure: the procedure aborted, deliberately or because of a defect. A retry would have the same result.
	CauseProcedure Cause = iota + 1
	// CauseConflict: the concurrency control aborted the transaction in favour of other transactions. A retry may succeed.
	CauseConflict
	// CauseNode: a node or a connection was lost, overloaded or not ready.
	CauseNode
	// CauseClient: the client gave up because it timed out or its session closed.
	CauseClient
	// CauseMoved: rows of the transaction have moved away from the node to which it was sent. Only nodes use CauseMoved
	// and CauseStale: the coordinator sends the transaction again, so clients never see these causes.
	CauseMoved
	// CauseStale: the footprint that was sent with the transaction is no longer valid.
	CauseStale
	// NumCauses is the number of values including 0, for arrays indexed by Cause.
	NumCauses
)

// String returns procedure, conflict, node, client, moved or stale.
func (c Cause) String() string {
	if c >= NumCauses {
		return fmt.Sprintf("cause %d", uint8(c))
	}
	return [...]string{"none", "procedure", "conflict", "node", "client", "moved", "stale"}[c]
}

// Outcome is the answer to a transaction.
type Outcome struct {
	ID     ID
	Status Status
	// Cause is the reason why the transaction did not commit; 0 if it committed.
	Cause Cause
	// Class is the reach of the transaction, determined by the database after the execution. It is used if the
	// transaction's footprint was not exact.
	Class Class
	// Reason states in a word or two why the transaction did not commit. It serves as a label of metrics, so the number of
	// different reasons must be bounded.
	Reason string
	// Result is the return value of the procedure.
	Result []byte
}

// Reasons that have the same meaning in every database. Procedures add their own reasons.
const (
	// ReasonProcedure: the procedure failed with an error other than an Abort.
	ReasonProcedure = "procedure-error"
	// ReasonUndeclared: the procedure accessed a row outside its exact footprint. This is a defect of the workload, and
	// makes measurements meaningless.
	ReasonUndeclared = "undeclared-access"
	// ReasonInvalid: a node rejected the transaction because its procedure is not registered or its footprint is invalid.
	ReasonInvalid = "invalid-transaction"
)

// ErrUndeclared is the error for an access to a row outside a procedure's exact footprint. Either the Ctx returns it,
// or the transaction fails with it at its end.
var ErrUndeclared = errors.New("the footprint, said to be exact, does not name the row")

// ErrProcedure is the error of a transaction of package sqlform that cannot interpret the database's answer. Its
// outcome has ReasonProcedure, because the failure is not the database's.
var ErrProcedure = errors.New("the answer is not one that the transaction can read")

// ErrNotFound means that the row does not exist. Get returns exactly this value.
var ErrNotFound = errors.New("there is no such row")

// Ctx is the view that a running procedure has of the database: the rows as its transaction sees them, including the
// transaction's writes. Values that Get and Scan return must not be changed. Put passes ownership of the value to the
// database.
//
// Any error other than ErrNotFound stops the transaction: the row has not arrived yet, or the database has failed. The
// procedure must return the error unchanged and immediately. Put and Delete return no error; if one of them fails, all
// later calls return its error.
type Ctx interface {
	// Get returns the row's value, or ErrNotFound.
	Get(k Key) (value []byte, err error)
	// GetAll returns the values of several rows, in the order of keys, with nil for rows that do not exist. It is a single
	// statement, whereas each Get is a statement of its own.
	GetAll(keys []Key) (values [][]byte, err error)
	// Scan calls f for the rows of a range, in the range's order, until f returns false. f must not use the Ctx.
	Scan(r Range, f func(k Key, value []byte) bool) error
	Put(k Key, value []byte)
	Delete(k Key)
}

// GetEach implements Ctx.GetAll with a Get for each row.
func GetEach(c Ctx, keys []Key) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, k := range keys {
		v, err := c.Get(k)
		if err != nil && err != ErrNotFound {
			return nil, err
		}
		if err == nil && v == nil {
			v = []byte{} // nil means that the row does not exist
		}
		values[i] = v
	}
	return values, nil
}

// GetRow returns the value of a row, which must have at least minSize bytes. It returns the error missing if the row
// does not exist or its value is shorter.
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

// ScanRows calls f for each row in r, in r's order, until f returns false or r's limit is reached. rows are the rows of
// a range that covers r, in ascending or descending key order. keyValue returns the key and value of a row.
func ScanRows[R any](rows []R, keyValue func(*R) (Key, []byte), r Range, f func(Key, []byte) bool) {
	next, end, step := 0, len(rows), 1
	if len(rows) > 1 {
		first, _ := keyValue(&rows[0])
		second, _ := keyValue(&rows[1])
		// The rows may be in ascending or descending order, so find out which end is first in the order of r.
		if r.Reverse == (first < second) {
			next, end, step = len(rows)-1, -1, -1
		}
	}
	for ; next != end; next += step {
		k, value := keyValue(&rows[next])
		if !r.Contains(k) {
			continue
		}
		// A limit of 0 becomes negative and never reaches 0 again, so it does not limit the scan.
		if r.Limit--; !f(k, value) || r.Limit == 0 {
			return
		}
	}
}

// Procedure is a stored procedure: a deterministic function of its arguments and its reads. A database may run it
// several times for the same transaction. In all but the last run, some rows may be missing.
type Procedure struct {
	ID   ProcID
	Name string
	// Declare adds to f the rows that the procedure accesses with args, and sets f.Exact if it accesses no other rows: see
	// Footprint. It returns an error for malformed arguments.
	Declare func(args []byte, f *Footprint) error
	// Run executes the procedure. An Abort error undoes the procedure's writes and becomes the outcome's reason.
	Run func(c Ctx, args []byte) (result []byte, err error)
	// ReadOnly guarantees that Run never writes and that Declare declares no Write. Engines may therefore run the
	// procedure on a snapshot.
	ReadOnly bool
	// Deletes are the tables from which Run may delete rows. If a run records a history, deleted rows of these tables are
	// replaced with marks, and scans skip the marks. A procedure that deletes rows of another table is aborted, because
	// scans of that table do not expect marks.
	Deletes Tables
}

// ReadsOnly reports whether a prepared transaction writes nothing.
func (r *Registry) ReadsOnly(t *Transaction) bool {
	// If the footprint is not exact, its accesses may not include all writes.
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

// Call turns t, whose ID must be set, into a call of the procedure. It retains args, which must not change afterwards:
// databases may keep the transaction even after its client has received the outcome. Call panics if Declare rejects the
// arguments, which is a programming error.
func (p *Procedure) Call(t *Transaction, args []byte) {
	t.Proc, t.Args = p.ID, args
	t.Footprint = Footprint{Accesses: t.Accesses[:0], Ranges: t.Ranges[:0]}
	if err := p.Declare(args, &t.Footprint); err != nil {
		panic(fmt.Sprintf("txn: a bad call of %s was made: %v", p.Name, err))
	}
}

// CheckLen returns an error unless args has exactly want bytes. It is for implementations of Procedure.Declare.
func CheckLen(args []byte, want int) error {
	if len(args) != want {
		return fmt.Errorf("the arguments have %d bytes, not %d", len(args), want)
	}
	return nil
}

// Abort is the error of a procedure that aborts its transaction. Its text is the reason.
type Abort string

func (a Abort) Error() string { return string(a) }

// AbortOutcome returns the outcome of a transaction whose procedure returned err.
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

// NewRegistry returns a registry of procs. It panics if two of them have the same number, which is a programming error.
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

// Prepare fills in t.Footprint, unless a reconnaissance has found it. It returns an error for an unknown procedure,
// malformed arguments, an invalid footprint, or a ReadOnly procedure that declares writes. Every replica can thus
// execute a prepared transaction.
func (r *Registry) Prepare(t *Transaction) error {
	p := r.Lookup(t.Proc)
	if p == nil {
		return fmt.Errorf("transaction %v: procedure %d is not registered", t.ID, t.Proc)
	}
	// A message contains only a footprint that was found; a declared footprint follows from the arguments.
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
