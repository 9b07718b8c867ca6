package history

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

// Txn is the record of one transaction by its client.
type Txn struct {
	ID txn.ID
	// Client is the number of the client process within its region. A process waits for an answer before it sends the
	// next transaction, unless it gives up on the answer.
	Client uint32
	// Invoked is the time of sending and Answered the time of the answer, on a common clock of the history. Answered is
	// meaningless if the outcome is unknown.
	Invoked, Answered time.Duration
	// Status is the outcome. A refused transaction counts as aborted.
	Status txn.Status
	// Ops are the operations, in order. They are complete for a committed transaction, and may be missing otherwise.
	Ops []Op
}

// History is the history of the clients of all regions, in memory. It takes 40 bytes per transaction and 16 per
// operation, and stores each key once.
type History struct {
	// ClockError is the maximum offset between the clocks of two clients. One transaction counts as answered before
	// another transaction was sent only if the interval between these events is longer.
	ClockError time.Duration
	// KeyName formats a key in explanations; nil means txn.Key.String.
	KeyName func(txn.Key) string

	regions []string
	txns    []row
	ops     []op
	keys    []txn.Key
	keyIDs  map[txn.Key]uint32
	// bounds holds each end of a scan's range once, whether or not it is the key of a row.
	bounds   []txn.Key
	boundIDs map[txn.Key]uint32
}

type row struct {
	id                txn.ID
	invoked, answered time.Duration
	ops               uint32 // index of the first operation; the next row's index is the end
	client            uint32
	region            uint16
	status            txn.Status
}

// op is an Op with interned keys. For a scan, key and version are the indexes in bounds of the ends of its range.
type op struct {
	version txn.ID
	key     uint32
	nth     uint8
	flags   uint8 // opWrite, opScan, opKnown, opGone
}

func (o *op) read() bool  { return o.flags&(opWrite|opScan) == 0 }
func (o *op) write() bool { return o.flags&opWrite != 0 }
func (o *op) scan() bool  { return o.flags&opScan != 0 }
func (o *op) known() bool { return o.flags&opKnown != 0 }
func (o *op) gone() bool  { return o.flags&opGone != 0 }

// maxOps is the maximum number of operations in memory, which are numbered with 32 bits.
const maxOps = 1<<32 - 2

// Len returns the number of transactions.
func (h *History) Len() int { return len(h.txns) }

// Ops returns the number of operations.
func (h *History) Ops() int { return len(h.ops) }

// Region returns the number of the region with this name, for use with Add. It adds the region if it is new.
func (h *History) Region(name string) int {
	for i, r := range h.regions {
		if r == name {
			return i
		}
	}
	h.regions = append(h.regions, name)
	return len(h.regions) - 1
}

// Add appends a transaction of a client in a region: see Region. It does not retain t.
func (h *History) Add(region int, t *Txn) {
	if len(h.ops)+len(t.Ops) > maxOps {
		panic("history: too many operations for one history")
	}
	h.txns = append(h.txns, row{
		id: t.ID, invoked: t.Invoked, answered: t.Answered, ops: uint32(len(h.ops)), client: t.Client,
		region: uint16(region), status: t.Status,
	})
	for i := range t.Ops {
		o := &t.Ops[i]
		var flags uint8
		if o.Kind == Scan {
			flags = opScan
			if o.Gone {
				flags |= opGone
			}
			h.ops = append(h.ops, op{version: txn.ID(h.bound(o.To)), key: h.bound(o.Key), flags: flags})
			continue
		}
		if o.Kind == Write {
			flags |= opWrite
		}
		if o.Known {
			flags |= opKnown
		}
		if o.Gone {
			flags |= opGone
		}
		h.ops = append(h.ops, op{version: o.Version, key: h.intern(o.Key), nth: o.Nth, flags: flags})
	}
}

func (h *History) intern(k txn.Key) uint32 { return intern(k, &h.keys, &h.keyIDs) }

func (h *History) bound(k txn.Key) uint32 { return intern(k, &h.bounds, &h.boundIDs) }

// intern returns the index of k in keys, after adding it if it is new.
func intern(k txn.Key, keys *[]txn.Key, ids *map[txn.Key]uint32) uint32 {
	if n, ok := (*ids)[k]; ok {
		return n
	}
	if *ids == nil {
		*ids = map[txn.Key]uint32{}
	}
	// The key may be part of a larger buffer, which a reference would keep alive.
	k = txn.Key(strings.Clone(string(k)))
	n := uint32(len(*keys))
	*keys = append(*keys, k)
	(*ids)[k] = n
	return n
}

// opsOf returns the operations of transaction i.
func (h *History) opsOf(i uint32) []op {
	to := uint32(len(h.ops))
	if int(i+1) < len(h.txns) {
		to = h.txns[i+1].ops
	}
	return h.ops[h.txns[i].ops:to]
}

// Size is the number of transactions and operations in a history file, as reported by its writer.
type Size struct{ Transactions, Operations int64 }

// keyBytes is the maximum size of all keys of a file, in bytes per operation.
const keyBytes = 64

// ReadFile appends the history in a file: see Writer. It fails if the file exceeds most, the announced size, or if its
// keys are longer than the keys of any workload. A file therefore cannot take more memory than announced. ReadFile
// raises ClockError to the file's clock error if that is larger.
func (h *History) ReadFile(from io.Reader, most Size) error {
	r, err := NewReader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	region := h.Region(r.Header().Region)
	// The order in time is only as reliable as the worst clock.
	h.ClockError = max(h.ClockError, r.Header().ClockError)
	var t Txn
	var read Size
	var keys int64
	for {
		switch err := r.Next(&t); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("history of region %s: %w", r.Header().Region, err)
		}
		read.Transactions++
		read.Operations += int64(len(t.Ops))
		for i := range t.Ops {
			keys += int64(len(t.Ops[i].Key) + len(t.Ops[i].To))
		}
		// The bounds are checked before Add, so memory usage stays within the announced size.
		if read.Transactions > most.Transactions || read.Operations > most.Operations {
			return fmt.Errorf("history of region %s: it has more than the %d transactions and %d operations that its writer has counted",
				r.Header().Region, most.Transactions, most.Operations)
		}
		if keys > most.Operations*keyBytes {
			return fmt.Errorf("history of region %s: its keys have more than %d bytes per operation", r.Header().Region, keyBytes)
		}
		h.Add(region, &t)
	}
}
