// Package store keeps a partition's rows in memory. A store belongs to one state machine and is used by one goroutine
// at a time, so it has no locks.
package store

import (
	"math/bits"
	"strings"

	"github.com/geobench/geobench/internal/txn"
)

// Record is a row and the transaction that wrote it last (0: loaded).
type Record struct {
	Value   []byte
	Version txn.ID
}

// Store is a single-version table of rows.
//
// It is a hash table with linear probing over small slots without pointers: finding a row by an integer key touches one
// slot and the row itself, where a Go map of strings also touches a control word and the key's bytes, and the garbage
// collector has nothing to do in the slots. Deterministic engines spend most of their time here.
type Store struct {
	slots []slot // a power of two, at most three quarters full
	shift uint   // 64 - log2(len(slots))
	rows  [][]row
	free  uint32 // list of unused rows, linked by Version; 0: none
	used  uint32 // rows handed out so far, the free ones included
	count int
	bytes int64
	ops   uint64
	seen  byte // what Warm has read
}

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
	key txn.Key
	Record
}

const (
	chunkBits = 10
	minSlots  = 16
)

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.makeSlots(minSlots)
	return s
}

func (s *Store) makeSlots(n int) {
	s.slots = make([]slot, n)
	s.shift = uint(64 - bits.TrailingZeros(uint(n)))
}

func (s *Store) row(n uint32) *row { return &s.rows[(n-1)>>chunkBits][(n-1)&(1<<chunkBits-1)] }

// identify returns what a slot says about k.
func identify(k txn.Key) (id uint64, tag uint32) {
	if len(k) == 9 && k[0] < 0x80 {
		return k.Shard(), uint32(k[0])
	}
	h := uint64(14695981039346656037)
	for i := 0; i < len(k); i++ {
		h = (h ^ uint64(k[i])) * 1099511628211
	}
	return h, otherKey
}

// home returns the slot where the search for an entry begins.
func (s *Store) home(id uint64, tag uint32) int {
	h := (id ^ uint64(tag)<<56) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xbf58476d1ce4e5b9
	return int(h >> s.shift)
}

// find returns the place of k's slot, or of the empty slot where it would go.
func (s *Store) find(k txn.Key) (at int, found bool) {
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

// Get returns the row under k. The value must not be changed.
func (s *Store) Get(k txn.Key) (Record, bool) {
	s.ops++
	at, found := s.find(k)
	if !found {
		return Record{}, false
	}
	return s.row(s.slots[at].row).Record, true
}

// Warm brings the rows that a transaction is about to use, the first 16 of them, into the processor's caches. A row is
// several dependent reads away from its key; side by side, those of many rows wait for memory together instead of one
// after the other. It is no operation that Ops counts.
func (s *Store) Warm(keys []txn.Access) {
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
		if len(r.Value) > 0 {
			s.seen ^= r.Value[0]
		}
	}
}

// Put writes the row under k for transaction version. The store owns value from then on; of k it keeps a copy.
func (s *Store) Put(k txn.Key, value []byte, version txn.ID) {
	s.ops++
	at, found := s.find(k)
	if found {
		r := s.row(s.slots[at].row)
		s.bytes += int64(len(value) - len(r.Value))
		r.Record = Record{value, version}
		return
	}
	if 4*(s.count+1) > 3*len(s.slots) {
		s.grow(2 * len(s.slots))
		at, _ = s.find(k)
	}
	n := s.free
	if n != 0 {
		s.free = uint32(s.row(n).Version)
	} else {
		s.used++
		n = s.used
		if int(n-1)>>chunkBits == len(s.rows) {
			s.rows = append(s.rows, make([]row, 1<<chunkBits))
		}
	}
	*s.row(n) = row{txn.Key(strings.Clone(string(k))), Record{value, version}}
	id, tag := identify(k)
	s.slots[at] = slot{id, tag, n}
	s.count++
	s.bytes += int64(len(k) + len(value))
}

// Delete removes the row under k.
func (s *Store) Delete(k txn.Key) {
	s.ops++
	at, found := s.find(k)
	if !found {
		return
	}
	n := s.slots[at].row
	r := s.row(n)
	s.bytes -= int64(len(r.Value) + len(r.key))
	s.count--
	*r = row{Record: Record{Version: txn.ID(s.free)}}
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

func (s *Store) grow(n int) {
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

// Reset drops all rows and makes room for n.
func (s *Store) Reset(n int) {
	*s = Store{ops: s.ops}
	slots := minSlots
	for 3*slots < 4*n {
		slots *= 2
	}
	s.makeSlots(slots)
}

// Len returns the number of rows.
func (s *Store) Len() int { return s.count }

// Bytes returns the size of all keys and values.
func (s *Store) Bytes() int64 { return s.bytes }

// Ops counts the key operations since the start: the simulator charges CPU time for them.
func (s *Store) Ops() uint64 { return s.ops }

// Each calls f for every row, in no particular order: f's result must not depend on it. f must not change the store.
func (s *Store) Each(f func(txn.Key, Record)) {
	for n := range s.used {
		// A row that is in use has a key; keys are never empty.
		if r := s.row(n + 1); r.key != "" {
			f(r.key, r.Record)
		}
	}
}

// Digest is a hash of all rows and values (versions left out) that does not depend on their order, equal for copies
// with equal contents. It is stable across processes.
func (s *Store) Digest() uint64 {
	var sum uint64
	s.Each(func(k txn.Key, r Record) {
		h := uint64(14695981039346656037)
		for i := 0; i < len(k); i++ {
			h = (h ^ uint64(k[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
		for _, c := range r.Value {
			h = (h ^ uint64(c)) * 1099511628211
		}
		h ^= h >> 29
		h *= 0xbf58476d1ce4e5b9
		sum += h ^ h>>32
	})
	return sum
}
