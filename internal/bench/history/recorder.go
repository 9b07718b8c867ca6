package history

import (
	"math"

	"github.com/geobench/geobench/internal/base/txn"
)

// Lookup returns the version of row k that the running transaction would read now. The version consists of its writer
// and of nth, the number of this write among the writer's writes of the row (0 if unknown). The recorder calls Lookup
// only before the transaction's first write of k.
type Lookup func(k txn.Key) (writer txn.ID, nth uint8, known bool)

// Recorder is a procedure's view of the database that records its reads and the versions that it overwrites. Reset
// makes a recorder ready for another transaction.
type Recorder struct {
	ctx    txn.Ctx
	lookup Lookup
	ops    []Op
	// last maps a row to the indexes of its last read and last write in ops, plus one. It is nil until ops has more than
	// few operations.
	last map[txn.Key][2]int
}

// few is the number of operations up to which a linear search is as fast as a map.
const few = 16

// Reset starts recording a transaction that runs on c. It drops the recorded operations.
func (r *Recorder) Reset(c txn.Ctx, lookup Lookup) {
	r.ctx, r.lookup, r.ops, r.last = c, lookup, r.ops[:0], nil
}

// Ops returns the recorded operations, in order. It is valid until Reset.
func (r *Recorder) Ops() []Op { return r.ops }

// note appends an operation.
func (r *Recorder) note(o Op) {
	r.ops = append(r.ops, o)
	if r.last == nil && len(r.ops) > few {
		r.last = make(map[txn.Key][2]int, 4*few)
		for i := range r.ops {
			r.index(i)
		}
	} else if r.last != nil {
		r.index(len(r.ops) - 1)
	}
}

func (r *Recorder) index(i int) {
	if o := &r.ops[i]; o.Kind != Scan {
		at := r.last[o.Key]
		at[o.Kind] = i + 1
		r.last[o.Key] = at
	}
}

// find returns the last operation of this kind on k, or nil.
func (r *Recorder) find(kind Kind, k txn.Key) *Op {
	if r.last != nil {
		if at := r.last[k][kind]; at > 0 {
			return &r.ops[at-1]
		}
		return nil
	}
	for i := len(r.ops) - 1; i >= 0; i-- {
		if o := &r.ops[i]; o.Kind == kind && o.Key == k {
			return o
		}
	}
	return nil
}

// Get implements txn.Ctx. It does not record reads of the transaction's own writes, because they reveal nothing about
// other transactions.
func (r *Recorder) Get(k txn.Key) (value []byte, err error) {
	value, err = r.ctx.Get(k)
	if err == nil || err == txn.ErrNotFound {
		r.read(k, err != nil)
	}
	return value, err
}

// GetAll implements txn.Ctx.
func (r *Recorder) GetAll(keys []txn.Key) ([][]byte, error) {
	// The context gets all keys in one call, which may save round trips. Reading each row afterwards only records it.
	if _, err := r.ctx.GetAll(keys); err != nil {
		return nil, err
	}
	return txn.GetEach(r, keys)
}

// read records a read of the version that lookup reports.
func (r *Recorder) read(k txn.Key, gone bool) {
	if r.find(Write, k) != nil {
		return
	}
	o := Op{Kind: Read, Key: k, Gone: gone}
	o.Version, o.Nth, o.Known = r.lookup(k)
	// A repeated read of the same version adds no constraint.
	if last := r.find(Read, k); last == nil || *last != o {
		r.note(o)
	}
}

// Scan implements txn.Ctx. It records the reads of the rows that it found, and then the part of the range that was
// scanned.
func (r *Recorder) Scan(g txn.Range, f func(txn.Key, []byte) bool) error {
	seen, rows := g, 0
	err := r.ctx.Scan(g, func(k txn.Key, value []byte) bool {
		r.read(k, false)
		more := f(k, value)
		// The scan stopped here, so it provides no evidence about further rows.
		if rows++; !more || rows == g.Limit {
			if g.Reverse {
				seen.From = k
			} else {
				seen.To = k + "\x00"
			}
		}
		return more
	})
	r.note(Op{Kind: Scan, Key: seen.From, To: seen.To})
	return err
}

// Put implements txn.Ctx.
func (r *Recorder) Put(k txn.Key, value []byte) {
	r.write(k, false)
	r.ctx.Put(k, value)
}

// Delete implements txn.Ctx.
func (r *Recorder) Delete(k txn.Key) {
	r.write(k, true)
	r.ctx.Delete(k)
}

// nth returns the number of the transaction's writes of k so far.
func (r *Recorder) nth(k txn.Key) uint8 {
	if o := r.find(Write, k); o != nil {
		return o.Nth
	}
	return 0
}

func (r *Recorder) write(k txn.Key, gone bool) {
	if o := r.find(Write, k); o != nil {
		// The number saturates at 254. It must not wrap around, or an early write could look like the last write.
		o.Nth = min(o.Nth+1, math.MaxUint8-1)
		o.Gone = gone
		return
	}
	o := Op{Kind: Write, Key: k, Nth: 1, Gone: gone}
	if read := r.find(Read, k); read != nil {
		o.Version, o.Known = read.Version, read.Known
	} else {
		o.Version, _, o.Known = r.lookup(k)
	}
	r.note(o)
}
