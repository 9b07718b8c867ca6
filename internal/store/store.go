// Package store keeps a partition's rows in memory. A store belongs to one state machine and is used by one goroutine
// at a time, so it has no locks.
package store

import (
	"github.com/geobench/geobench/internal/txn"
)

// Record is a row and the transaction that wrote it last (0: loaded).
type Record struct {
	Value   []byte
	Version txn.ID
}

// Store is a single-version table of rows.
type Store struct {
	rows  map[txn.Key]Record
	bytes int64
	ops   uint64
}

// New returns an empty store.
func New() *Store { return &Store{rows: map[txn.Key]Record{}} }

// Get returns the row under k. The value must not be changed.
func (s *Store) Get(k txn.Key) (Record, bool) {
	s.ops++
	r, ok := s.rows[k]
	return r, ok
}

// Put writes the row under k for transaction version. The store owns value from then on.
func (s *Store) Put(k txn.Key, value []byte, version txn.ID) {
	s.ops++
	old, ok := s.rows[k]
	if ok {
		s.bytes -= int64(len(old.Value))
	} else {
		s.bytes += int64(len(k))
	}
	s.bytes += int64(len(value))
	s.rows[k] = Record{value, version}
}

// Delete removes the row under k.
func (s *Store) Delete(k txn.Key) {
	s.ops++
	if old, ok := s.rows[k]; ok {
		s.bytes -= int64(len(old.Value) + len(k))
		delete(s.rows, k)
	}
}

// Reset drops all rows and makes room for n.
func (s *Store) Reset(n int) {
	s.rows, s.bytes = make(map[txn.Key]Record, n), 0
}

// Len returns the number of rows.
func (s *Store) Len() int { return len(s.rows) }

// Bytes returns the size of all keys and values.
func (s *Store) Bytes() int64 { return s.bytes }

// Ops counts the key operations since the start: the simulator charges CPU time for them.
func (s *Store) Ops() uint64 { return s.ops }

// Each calls f for every row, in no particular order: f's result must not depend on it.
func (s *Store) Each(f func(txn.Key, Record)) {
	for k, r := range s.rows {
		f(k, r)
	}
}

// Digest is a hash of all rows and values (versions left out) that does not depend on their order, equal for copies
// with equal contents. It is stable across processes.
func (s *Store) Digest() uint64 {
	var sum uint64
	for k, r := range s.rows {
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
	}
	return sum
}
