package store

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/base/txn"
)

// Hash keeps a single version of each row.
//
// An index finds the rows, which are stored in chunks: it takes two memory accesses to get from an integer key to its
// row. Deterministic engines spend most of their time on such lookups. The rows of a group, which are ordered, are in a
// tree outside the index.
type Hash struct {
	index  index // for rows that are not in groups
	rows   [][]row
	shared []bool // by chunk: whether a Frozen shares it
	groups map[txn.Key]*group
	free   uint32 // first of a list of free rows, which are linked by their field writer; 0 for none
	used   uint32 // number of rows allocated so far, including free rows
	count  int    // number of rows, including rows in groups
	bytes  int64
	ops    uint64
	seen   byte // its use keeps the compiler from removing the reads of Warm
}

// group contains the rows of a group in key order.
type group = btree.Map[txn.Key, Record]

// row is a row in a chunk. Rows are numbered from 1 and never move.
type row struct {
	key    txn.Key
	value  []byte
	writer txn.ID
}

const chunkBits = 10

// NewHash returns an empty store.
func NewHash() *Hash { return &Hash{index: newIndex(0)} }

func (s *Hash) row(n uint32) *row { return &s.rows[(n-1)>>chunkBits][(n-1)&(1<<chunkBits-1)] }

// own returns row n for modification. If a Frozen shares the row's chunk, own first copies the chunk.
func (s *Hash) own(n uint32) *row {
	if c := int(n-1) >> chunkBits; c < len(s.shared) && s.shared[c] {
		s.rows[c], s.shared[c] = slices.Clone(s.rows[c]), false
	}
	return s.row(n)
}

// key implements rows.
func (s *Hash) key(n uint32) txn.Key { return s.row(n).key }

// find returns the row with key k, or nil.
func (s *Hash) find(k txn.Key) *row {
	n, _ := s.index.find(k, s)
	if n == 0 {
		return nil
	}
	return s.row(n)
}

// Get implements Reader.
func (s *Hash) Get(k txn.Key) (Record, bool) {
	s.ops++
	if k.Ordered() {
		if g := s.groups[k.Unit()]; g != nil {
			return g.Get(k)
		}
		return Record{}, false
	}
	r := s.find(k)
	if r == nil {
		return Record{}, false
	}
	return Record{Value: r.value, Writer: r.writer}, true
}

// Value returns the value of the row with key k. It is faster than Get, because a Record does not fit into registers.
func (s *Hash) Value(k txn.Key) (value []byte, found bool) {
	if k.Ordered() {
		r, found := s.Get(k)
		return r.Value, found
	}
	s.ops++
	r := s.find(k)
	if r == nil {
		return nil, false
	}
	return r.value, true
}

// Scan implements Reader.
func (s *Hash) Scan(r txn.Range, f func(txn.Key, Record) bool) {
	if r.Point() {
		if rec, found := s.Get(r.From); found {
			f(r.From, rec)
		}
		return
	}
	s.ops++
	g := s.groups[r.From.Unit()]
	if g == nil {
		return
	}
	left := r.Limit
	take := func(k txn.Key, rec Record) bool {
		s.ops++
		left--
		return f(k, rec) && left != 0
	}
	if r.Reverse {
		g.Descend(r.To, func(k txn.Key, rec Record) bool {
			// Descend starts at To, which does not belong to the range.
			return k == r.To || k >= r.From && take(k, rec)
		})
		return
	}
	g.Ascend(r.From, func(k txn.Key, rec Record) bool { return k < r.To && take(k, rec) })
}

// Warm loads the rows that a transaction is about to use, at most the first 16, into the processor's caches. Getting
// from a key to its row takes several dependent reads; Warm overlaps the memory latencies of different rows. Ops does
// not count these accesses. Warm ignores rows of groups, which are not in the index.
func (s *Hash) Warm(keys []txn.Access) {
	const most = 16
	keys = keys[:min(most, len(keys))]
	var rows [most]*row
	n := 0
	for i := range keys {
		if r := s.find(keys[i].Key); r != nil {
			rows[n] = r
			n++
		}
	}
	for _, r := range rows[:n] {
		if len(r.value) > 0 {
			// Using the value keeps the compiler from removing the load.
			s.seen ^= r.value[0]
		}
	}
}

// Load implements Store.
func (s *Hash) Load(k txn.Key, value []byte) { s.Put(k, value, 0) }

// Put writes the row with key k for a transaction. The store takes ownership of value, and copies k.
func (s *Hash) Put(k txn.Key, value []byte, writer txn.ID) {
	s.ops++
	if k.Ordered() {
		s.putOrdered(k, Record{Value: value, Writer: writer})
		return
	}
	n, at := s.index.find(k, s)
	if n != 0 {
		r := s.own(n)
		s.bytes += int64(len(value) - len(r.value))
		r.value, r.writer = value, writer
		return
	}
	if n = s.free; n != 0 {
		s.free = uint32(s.row(n).writer)
	} else {
		s.used++
		n = s.used
		if int(n-1)>>chunkBits == len(s.rows) {
			s.rows = append(s.rows, make([]row, 1<<chunkBits))
		}
	}
	*s.own(n) = row{txn.Key(strings.Clone(string(k))), value, writer}
	s.index.add(k, n, at)
	s.count++
	s.bytes += int64(len(k) + len(value))
}

func (s *Hash) putOrdered(k txn.Key, r Record) {
	g := s.groups[k.Unit()]
	if g == nil {
		if s.groups == nil {
			s.groups = map[txn.Key]*group{}
		}
		g = &group{}
		s.groups[txn.Key(strings.Clone(string(k.Unit())))] = g
	}
	// For an existing row, the tree keeps its own key, so only a new row needs a copy of its key. New rows usually go to
	// the end, and Load is a Set that tries the end first.
	if last, _, any := g.Max(); any && k <= last {
		if old, found := g.Get(k); found {
			s.bytes += int64(len(r.Value) - len(old.Value))
			g.Set(k, r)
			return
		}
	}
	g.Load(txn.Key(strings.Clone(string(k))), r)
	s.count++
	s.bytes += int64(len(k) + len(r.Value))
}

func (s *Hash) deleteOrdered(k txn.Key) {
	g := s.groups[k.Unit()]
	if g == nil {
		return
	}
	r, found := g.Delete(k)
	if !found {
		return
	}
	s.count--
	s.bytes -= int64(len(k) + len(r.Value))
	// Remove an empty group, because empty groups would accumulate in workloads that consume groups, such as queues.
	if g.Len() == 0 {
		delete(s.groups, k.Unit())
	}
}

// Delete removes the row with key k.
func (s *Hash) Delete(k txn.Key) {
	s.ops++
	if k.Ordered() {
		s.deleteOrdered(k)
		return
	}
	n, at := s.index.find(k, s)
	if n == 0 {
		return
	}
	r := s.own(n)
	s.bytes -= int64(len(r.value) + len(r.key))
	s.count--
	// The free list reuses the field writer as its link.
	*r = row{writer: txn.ID(s.free)}
	s.free = n
	s.index.remove(at)
}

// Reset implements Store.
func (s *Hash) Reset(rows int) {
	*s = Hash{ops: s.ops, index: newIndex(rows)}
}

// Replace replaces all rows, except rows that every node stores, with copies of the given rows.
func (s *Hash) Replace(rows []Row) {
	var everywhere []Row
	s.Each(func(k txn.Key, r Record) {
		if k.Everywhere() {
			everywhere = append(everywhere, Row{k, r})
		}
	})
	s.Reset(len(rows) + len(everywhere))
	for _, r := range everywhere {
		s.Put(r.Key, r.Value, r.Writer)
	}
	for _, r := range rows {
		s.Put(r.Key, slices.Clone(r.Value), r.Writer)
	}
}

// Len implements Store.
func (s *Hash) Len() int { return s.count }

// Bytes implements Store.
func (s *Hash) Bytes() int64 { return s.bytes }

// Ops implements Store.
func (s *Hash) Ops() uint64 { return s.ops }

// Each implements Store.
func (s *Hash) Each(f func(txn.Key, Record)) {
	for n := range s.used {
		// Rows in use have a key; keys are never empty.
		if r := s.row(n + 1); r.key != "" {
			f(r.key, Record{Value: r.value, Writer: r.writer})
		}
	}
	for _, g := range s.groups {
		g.Scan(func(k txn.Key, r Record) bool {
			f(k, r)
			return true
		})
	}
}
