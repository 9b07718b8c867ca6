package history

import (
	"math"

	"github.com/geobench/geobench/internal/base/txn"
)

// Lookup returns the version of the row that the running transaction would read under k now: its writer, and which of
// that transaction's writes of the row it is (0: not known). It is asked only before the transaction's first write of
// k.
type Lookup func(k txn.Key) (writer txn.ID, nth uint8, known bool)

// Recorder is a procedure's view of the database that records its reads and the versions that it overwrites. A recorder
// may be used again after Reset.
type Recorder struct {
	ctx    txn.Ctx
	lookup Lookup
	ops    []Op
	// last maps a row to the indexes of its last read and write in ops, plus one; used once there are many.
	last map[txn.Key][2]int
}

// few is the number of operations up to which a search is as fast as a map.
const few = 16

// Reset begins to record a transaction that runs on c. Operations recorded before are gone.
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

// find returns the last operation on k of this kind.
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

// Get implements txn.Ctx. Reads of the transaction's own writes are not recorded: they say nothing about others.
func (r *Recorder) Get(k txn.Key) (value []byte, err error) {
	value, err = r.ctx.Get(k)
	if err == nil || err == txn.ErrNotFound {
		r.read(k, err != nil)
	}
	return value, err
}

// GetAll implements txn.Ctx.
func (r *Recorder) GetAll(keys []txn.Key) ([][]byte, error) {
	// The context receives all keys in one call; afterwards each row is available here.
	if _, err := r.ctx.GetAll(keys); err != nil {
		return nil, err
	}
	return txn.GetEach(r, keys)
}

// read records that the version which lookup knows was read.
func (r *Recorder) read(k txn.Key, gone bool) {
	if r.find(Write, k) != nil {
		return
	}
	o := Op{Kind: Read, Key: k, Gone: gone}
	o.Version, o.Nth, o.Known = r.lookup(k)
	if last := r.find(Read, k); last == nil || *last != o {
		r.note(o)
	}
}

// Scan implements txn.Ctx. It records, after the reads of the rows that it met, the part of the range that was scanned.
func (r *Recorder) Scan(g txn.Range, f func(txn.Key, []byte) bool) error {
	seen, rows := g, 0
	err := r.ctx.Scan(g, func(k txn.Key, value []byte) bool {
		r.read(k, false)
		more := f(k, value)
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

// nth is the number of the transaction's writes of k so far.
func (r *Recorder) nth(k txn.Key) uint8 {
	if o := r.find(Write, k); o != nil {
		return o.Nth
	}
	return 0
}

func (r *Recorder) write(k txn.Key, gone bool) {
	if o := r.find(Write, k); o != nil {
		// 254 writes of a row stand for any larger number, as long as no reader takes an early write for the last.
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
