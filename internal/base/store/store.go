// Package store keeps a node's rows in memory. A store belongs to a single state machine and is used by one goroutine
// at a time, so it has no locks. Hash keeps a single version of each row, for engines that execute transactions in a
// predetermined order. Versioned also keeps older versions that reads may still need.
package store

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Record is a version of a row.
type Record struct {
	Value []byte
	// Version is the position of the version in the engine's order of commits; 0 if the engine does not number versions.
	Version uint64
	// Writer is the transaction that wrote the version; 0 for a loaded row.
	Writer txn.ID
}

// Reader reads a state of the rows. Callers must not change the values that it returns.
type Reader interface {
	// Get returns the row with key k.
	Get(k txn.Key) (Record, bool)
	// Scan calls f for the rows of a range, in the range's order, until f returns false. f must not change the store.
	Scan(r txn.Range, f func(txn.Key, Record) bool)
}

// Store is the interface through which drivers access a node's rows. Drivers fill the store before the first
// transaction, and inspect it when the database is quiescent. An engine creates its own kind of store
// (protocol.Engine.NewStore) and uses additional methods.
type Store interface {
	// Reader reads the newest versions.
	Reader
	// Load writes the first version of a row. The store takes ownership of value, and copies k.
	Load(k txn.Key, value []byte)
	// Reset drops all rows and allocates space for the given number of rows.
	Reset(rows int)
	// Each calls f for the newest version of every row. The order is arbitrary, so the caller's result must not depend on
	// it. f must not change the store.
	Each(f func(txn.Key, Record))
	// Len returns the number of rows.
	Len() int
	// Bytes returns the total size of keys and newest values, in bytes.
	Bytes() int64
	// Freeze returns the current contents of the store. It takes some nanoseconds per thousand rows.
	Freeze() Frozen
	// Thaw adds a part of the contents of another store of the same kind. This store must be empty before the first part.
	Thaw(part []byte) error
	// Ops returns the number of rows that were looked up, scanned or written since the start. Simulators charge CPU time
	// for them.
	Ops() uint64
}

// Row is a version of a row, with its key.
type Row struct {
	Key txn.Key
	Record
}

// Placed returns the newest versions of all rows except rows that every node stores, in key order. A node sends these
// rows to a new incarnation of another node.
func Placed(s Store) (rows []Row) {
	s.Each(func(k txn.Key, r Record) {
		if !k.Everywhere() {
			rows = append(rows, Row{k, r})
		}
	})
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return rows
}

// Digest returns a hash of all rows and values that does not depend on their order. Copies with equal contents have
// equal digests. Versions and writers are not included. Different processes compute the same digest.
func Digest(s Store) uint64 {
	var sum uint64
	s.Each(func(k txn.Key, r Record) { sum += DigestRow(k, r.Value) })
	return sum
}

// DigestRow returns the contribution of a row to the digest of its store.
func DigestRow(k txn.Key, value []byte) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(k); i++ {
		h = (h ^ uint64(k[i])) * 1099511628211
	}
	// The separator ensures that a key and a value cannot be confused with a longer key and a shorter value.
	h = (h ^ 0xff) * 1099511628211
	for _, c := range value {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}
