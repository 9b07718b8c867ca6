// Package txn holds the nouns that every other package speaks of: keys, transactions, the stored procedures that they
// run, and their outcomes. It knows nothing of regions, networks or protocols.
package txn

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/murmur3"
)

// Table numbers the tables of one workload, 0 to 127.
type Table uint8

// stringKey marks, in a key's first byte, that the rest is a string placed by its hash.
const stringKey = 0x80

// Key names a row: its table and primary key. It is an opaque, comparable, immutable byte string:
//
//	integer key:  table        | shard number, 8 bytes big-endian | rest of the primary key
//	string key:   table | 0x80 | primary key
//
// An integer key is placed by its shard number, a string key by the murmurhash3 of its primary key
// (SmallBank on Detock, section 3.2).
type Key string

// IntKey returns the key of table's row id, placed by id.
func IntKey(table Table, id uint64) Key {
	var b [9]byte
	b[0] = byte(table)
	binary.BigEndian.PutUint64(b[1:], id)
	return Key(b[:])
}

// CompositeKey returns the key of a row placed by shard and told apart from its neighbours by rest.
func CompositeKey(table Table, shard uint64, rest []byte) Key {
	b := make([]byte, 9+len(rest))
	b[0] = byte(table)
	binary.BigEndian.PutUint64(b[1:], shard)
	copy(b[9:], rest)
	return Key(b)
}

// StringKey returns the key of table's row pk, placed by the hash of pk.
func StringKey(table Table, pk string) Key {
	b := make([]byte, 1+len(pk))
	b[0] = byte(table) | stringKey
	copy(b[1:], pk)
	return Key(b)
}

// Table returns the table of the row.
func (k Key) Table() Table { return Table(k[0] &^ stringKey) }

// Shard returns the number that places the row: the shard number of an integer key, the 32-bit murmurhash3 (seed 0)
// of a string key. Zero for a malformed key; see Valid.
func (k Key) Shard() uint64 {
	if len(k) == 0 {
		return 0
	}
	if k[0]&stringKey != 0 {
		return uint64(HashString(string(k[1:])))
	}
	if len(k) < 9 {
		return 0
	}
	return uint64(k[1])<<56 | uint64(k[2])<<48 | uint64(k[3])<<40 | uint64(k[4])<<32 |
		uint64(k[5])<<24 | uint64(k[6])<<16 | uint64(k[7])<<8 | uint64(k[8])
}

// HashString is the placement hash of a string primary key.
func HashString(pk string) uint32 { return murmur3.StringSum32(pk) }

// Valid reports whether k has the shape of a key. Keys from the network are checked once, when they are decoded.
func (k Key) Valid() bool {
	if len(k) == 0 {
		return false
	}
	return k[0]&stringKey != 0 || len(k) >= 9
}

// String prints the key for a person: t2/17 or t0/"Client17".
func (k Key) String() string {
	switch {
	case !k.Valid():
		return fmt.Sprintf("invalid key %x", string(k))
	case k[0]&stringKey != 0:
		return fmt.Sprintf("t%d/%q", k.Table(), string(k[1:]))
	case len(k) == 9:
		return fmt.Sprintf("t%d/%d", k.Table(), k.Shard())
	default:
		return fmt.Sprintf("t%d/%d/%x", k.Table(), k.Shard(), string(k[9:]))
	}
}
