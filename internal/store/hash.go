package store

import (
	"math/bits"
	"strings"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/txn"
)

// Hash keeps one version of each row.
//
// It is a hash table with linear probing over small slots without pointers: finding a row by an integer key touches one
// slot and the row itself, where a Go map of strings also touches a control word and the key's bytes, and the garbage
// collector has nothing to do in the slots. Deterministic engines spend most of their time here. The rows of a group, which
// have an order, are a tree beside the table.
type Hash struct {
	slots  []slot // a power of two, at most three quarters full
	shift  uint   // 64 - log2(len(slots))
	rows   [][]row
	groups map[txn.Key]*group
	free   uint32 // list of unused rows, linked by Writer; 0: none
	used   uint32 // rows handed out so far, the free ones included
	count  int    // of rows, those in groups included
	inHash int    // of rows in the table
	bytes  int64
	ops    uint64
	seen   byte // what Warm has read
}

// group holds the rows of a group in the order of their keys.
type group = btree.Map[txn.Key, Record]

// slot is an entry of the hash table. For a key of exactly table and shard number, id is the shard number and tag the
// table, so that they tell keys apart; for others tag is otherKey and id a hash.
type slot struct {
	id  uint64
	tag uint32
	row uint32 // 0: empty
}

const otherKey = 1 << 8

// row is kept in chunks that never move. Rows count from 1.
type row struct {
	key    txn.Key
	value  []byte
	writer txn.ID
}

const (
	chunkBits = 10
	minSlots  = 16
)

// NewHash returns an empty store.
func NewHash() *Hash {
	s := &Hash{}
	s.makeSlots(minSlots)
	return s
}

func (s *Hash) makeSlots(n int) {
	s.slots = make([]slot, n)
	s.shift = uint(64 - bits.TrailingZeros(uint(n)))
}

func (s *Hash) row(n uint32) *row { return &s.rows[(n-1)>>chunkBits][(n-1)&(1<<chunkBits-1)] }

// identify returns what a slot says about k.
func identify(k txn.Key) (id uint64, tag uint32) {
	if table, shard, ok := k.Plain(); ok {
		return shard, uint32(table)
	}
	h := uint64(14695981039346656037)
	for i := 0; i < len(k); i++ {
		h = (h ^ uint64(k[i])) * 1099511628211
	}
	return h, otherKey
}

// home returns the slot where the search for an entry begins.
func (s *Hash) home(id uint64, tag uint32) int {
	h := (id ^ uint64(tag)<<56) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xbf58476d1ce4e5b9
	return int(h >> s.shift)
}

// find returns the place of k's slot, or of the empty slot where it would go.
func (s *Hash) find(k txn.Key) (at int, found bool) {
	id, tag := identify(k)
	mask := len(s.slots) - 1
	for i := s.home(id, tag); ; i = (i + 1) & mask {
		sl := &s.slots[i]
		if sl.row == 0 {
			return i, false
		}
		if sl.id == id && sl.tag == tag && (tag != otherKey || s.row(sl.row).key == k) {
			return i, true
		}
	}
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
	at, found := s.find(k)
	if !found {
		return Record{}, false
	}
	r := s.row(s.slots[at].row)
	return Record{Value: r.value, Writer: r.writer}, true
}

// Value returns the value of the row under k: Get without the rest of the Record, which is too large for registers.
func (s *Hash) Value(k txn.Key) (value []byte, found bool) {
	if k.Ordered() {
		r, found := s.Get(k)
		return r.Value, found
	}
	s.ops++
	at, found := s.find(k)
	if !found {
		return nil, false
	}
	return s.row(s.slots[at].row).value, true
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
			return k == r.To || k >= r.From && take(k, rec)
		})
		return
	}
	g.Ascend(r.From, func(k txn.Key, rec Record) bool { return k < r.To && take(k, rec) })
}

// Warm brings the rows that a transaction is about to use, the first 16 of them, into the processor's caches. A row is
// several dependent reads away from its key; side by side, those of many rows wait for memory together instead of one
// after the other. It is no operation that Ops counts. Rows of groups are in no slot and are left as they are.
func (s *Hash) Warm(keys []txn.Access) {
	const most = 16
	keys = keys[:min(most, len(keys))]
	var rows [most]*row
	n := 0
	for i := range keys {
		at, found := s.find(keys[i].Key)
		if found {
			rows[n] = s.row(s.slots[at].row)
			n++
		}
	}
	for _, r := range rows[:n] {
		if len(r.value) > 0 {
			s.seen ^= r.value[0]
		}
	}
}

// Load implements Store.
func (s *Hash) Load(k txn.Key, value []byte) { s.Put(k, value, 0) }

// Put writes the row under k for a transaction. The store owns value from then on; of k it keeps a copy.
func (s *Hash) Put(k txn.Key, value []byte, writer txn.ID) {
	s.ops++
	if k.Ordered() {
		s.putOrdered(k, Record{Value: value, Writer: writer})
		return
	}
	at, found := s.find(k)
	if found {
		r := s.row(s.slots[at].row)
		s.bytes += int64(len(value) - len(r.value))
		r.value, r.writer = value, writer
		return
	}
	if 4*(s.inHash+1) > 3*len(s.slots) {
		s.grow(2 * len(s.slots))
		at, _ = s.find(k)
	}
	n := s.free
	if n != 0 {
		s.free = uint32(s.row(n).writer)
	} else {
		s.used++
		n = s.used
		if int(n-1)>>chunkBits == len(s.rows) {
			s.rows = append(s.rows, make([]row, 1<<chunkBits))
		}
	}
	*s.row(n) = row{txn.Key(strings.Clone(string(k))), value, writer}
	id, tag := identify(k)
	s.slots[at] = slot{id, tag, n}
	s.count++
	s.inHash++
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
	// A tree keeps the key of the row that it has, so only a new one needs a copy. New rows mostly come last: Load is a
	// Set that tries that first.
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
	if g.Len() == 0 {
		delete(s.groups, k.Unit())
	}
}

// Delete removes the row under k.
func (s *Hash) Delete(k txn.Key) {
	s.ops++
	if k.Ordered() {
		s.deleteOrdered(k)
		return
	}
	at, found := s.find(k)
	if !found {
		return
	}
	n := s.slots[at].row
	r := s.row(n)
	s.bytes -= int64(len(r.value) + len(r.key))
	s.count--
	s.inHash--
	*r = row{writer: txn.ID(s.free)}
	s.free = n
	// Entries behind the gap move up as long as that brings them no further than where their search begins.
	mask := len(s.slots) - 1
	for i := (at + 1) & mask; s.slots[i].row != 0; i = (i + 1) & mask {
		home := s.home(s.slots[i].id, s.slots[i].tag)
		if (i-home)&mask >= (i-at)&mask {
			s.slots[at] = s.slots[i]
			at = i
		}
	}
	s.slots[at] = slot{}
}

func (s *Hash) grow(n int) {
	old := s.slots
	s.makeSlots(n)
	mask := n - 1
	for _, sl := range old {
		if sl.row == 0 {
			continue
		}
		i := s.home(sl.id, sl.tag)
		for s.slots[i].row != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = sl
	}
}

// Reset implements Store.
func (s *Hash) Reset(rows int) {
	*s = Hash{ops: s.ops}
	slots := minSlots
	for 3*slots < 4*rows {
		slots *= 2
	}
	s.makeSlots(slots)
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
		// A row that is in use has a key; keys are never empty.
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
