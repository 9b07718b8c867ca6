package txn

import (
	"errors"
	"fmt"
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

// Mode says what a transaction does with a key.
type Mode uint8

// The ways to use a key.
const (
	Read      Mode = 1
	Write     Mode = 2
	ReadWrite      = Read | Write
)

// Access is one entry of a transaction's read and write set.
type Access struct {
	Key  Key
	Mode Mode
}

// ProcID numbers a stored procedure. Numbers are fixed for ever, since they travel: see internal/workload.
type ProcID uint16

// Transaction is one call of a stored procedure. Once submitted it is immutable and may be shared by the nodes of a
// simulation.
type Transaction struct {
	ID   ID
	Proc ProcID
	Args []byte
	// Accesses is the read and write set: a function of Proc and Args, filled in by Registry.Prepare and never sent.
	// Each key occurs once.
	Accesses []Access
}

// Status is how a transaction ended, as its client sees it.
type Status uint8

// The ways a transaction ends.
const (
	// Committed: its writes are in the database.
	Committed Status = iota + 1
	// Aborted: it left no trace. Reason says whether the procedure or the concurrency control gave up.
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

// Outcome answers a transaction.
type Outcome struct {
	ID     ID
	Status Status
	// Reason names, in a word or two, why a transaction was not committed: a label of bounded cardinality.
	Reason string
	// Result is what the procedure returned.
	Result []byte
}

// Ctx is a running procedure's view of the database. Values returned by Get must not be changed; values given to Put
// belong to the database from then on.
type Ctx interface {
	Get(k Key) (value []byte, found bool)
	Put(k Key, value []byte)
	Delete(k Key)
}

// Procedure is a stored procedure: a deterministic function of its arguments and of what it reads.
type Procedure struct {
	ID   ProcID
	Name string
	// Accesses appends the read and write set for args to dst. It fails on malformed arguments. A procedure may touch
	// no other key, and no key twice in the list.
	Accesses func(args []byte, dst []Access) ([]Access, error)
	// Run executes the procedure. An Abort error undoes its writes and becomes the outcome's reason.
	Run func(c Ctx, args []byte) (result []byte, err error)
}

// Abort is a procedure's own decision to give up.
type Abort string

func (a Abort) Error() string { return string(a) }

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

// Lookup returns the procedure with number id, or nil.
func (r *Registry) Lookup(id ProcID) *Procedure {
	if int(id) >= len(r.byID) {
		return nil
	}
	return r.byID[id]
}

var errNoKeys = errors.New("the transaction names no key")

// Prepare fills in t.Accesses. It fails for an unknown procedure, malformed arguments or an empty or invalid set, so
// that whatever passes can be executed by every replica.
func (r *Registry) Prepare(t *Transaction) error {
	p := r.Lookup(t.Proc)
	if p == nil {
		return fmt.Errorf("transaction %v: procedure %d is not registered", t.ID, t.Proc)
	}
	acc, err := p.Accesses(t.Args, t.Accesses[:0])
	if err == nil && len(acc) == 0 {
		err = errNoKeys
	}
	if err != nil {
		return fmt.Errorf("transaction %v: %s: %w", t.ID, p.Name, err)
	}
	for _, a := range acc {
		if !a.Key.Valid() || a.Mode&^ReadWrite != 0 || a.Mode == 0 {
			return fmt.Errorf("transaction %v: %s: %v is not a valid access", t.ID, p.Name, a.Key)
		}
	}
	t.Accesses = acc
	return nil
}
