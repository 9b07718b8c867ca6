package txn

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/murmur3"
)

// Table is the number of a table of a workload, 0 to 31.
type Table uint8

// MaxTable is the largest table number.
const MaxTable Table = 31

// Tables is a set of tables.
type Tables uint32

// TablesOf returns the set of these tables.
func TablesOf(tables ...Table) (s Tables) {
	for _, t := range tables {
		s |= 1 << t
	}
	return s
}

// Has reports whether a table is in the set.
func (s Tables) Has(t Table) bool { return s>>t&1 != 0 }

// Flags in a key's first byte, in addition to the table.
const (
	stringKey     = 0x80 // the remaining bytes are a string, whose hash determines the placement
	orderedKey    = 0x40 // the row belongs to a group of ordered rows
	everywhereKey = 0x20 // every node holds the row
	keyMarks      = stringKey | orderedKey | everywhereKey
)

// Unplaced contains the flags of keys without a shard number.
const Unplaced = stringKey | everywhereKey

// Key identifies a row by its table and primary key. It is an opaque, comparable, immutable byte string:
//
//	integer key:     table        | shard number, 8 bytes big-endian | rest of the primary key
//	string key:      table | 0x80 | primary key
//	ordered key:     table | 0x40 | shard number, 8 bytes big-endian | length of the group, 1 byte | group | rest
//	everywhere key:  table | 0x20 | primary key
//
// The shard number of an integer or ordered key determines where the row is stored. For a string key, the murmurhash3
// of the primary key does (SmallBank on Detock, section 3.2). Every node stores the rows with everywhere keys, which
// are never written.
//
// Rows with ordered keys can be scanned in the byte order of their keys. Their tables are divided into groups, for
// example the orders of a district. A scan stays inside a group. Engines that must know the rows of a transaction in
// advance lock and order a group as a single row, so scans have no phantoms.
type Key string

// IntKey returns the key of table's row id, placed by id.
func IntKey(table Table, id uint64) Key {
	var b [9]byte
	b[0] = byte(table)
	binary.BigEndian.PutUint64(b[1:], id)
	return Key(b[:])
}

// CompositeKey returns the key of a row placed by shard. rest distinguishes the row from other rows of the same shard.
func CompositeKey(table Table, shard uint64, rest []byte) Key {
	return Key(append(AppendIntKey(make([]byte, 0, 9+len(rest)), table, shard), rest...))
}

// AppendIntKey appends the bytes of IntKey to b. With the rest of a primary key appended, they are the bytes of
// CompositeKey. A caller that needs many keys can thus store them in a single allocation.
func AppendIntKey(b []byte, table Table, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, byte(table)), id)
}

// StringKey returns the key of table's row pk, placed by the hash of pk.
func StringKey(table Table, pk string) Key {
	b := make([]byte, 1+len(pk))
	b[0] = byte(table) | stringKey
	copy(b[1:], pk)
	return Key(b)
}

// OrderedKey returns the key of a row in a group that is placed by shard. rest distinguishes the row from other rows of
// the group. A group's name has at most 255 bytes. If rest is empty, the result is the key of the group itself, which
// no row has.
func OrderedKey(table Table, shard uint64, group, rest []byte) Key {
	return Key(append(AppendGroupKey(make([]byte, 0, 10+len(group)+len(rest)), table, shard, group...), rest...))
}

// AppendGroupKey appends the bytes of a group's key to b. These bytes, followed by the row's name, are the key of a row
// in the group.
func AppendGroupKey(b []byte, table Table, shard uint64, group ...byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, byte(table)|orderedKey), shard)
	return append(append(b, byte(len(group))), group...)
}

// EverywhereKey returns the key of table's row pk, which every node stores.
func EverywhereKey(table Table, pk []byte) Key {
	return Key(AppendEverywhereKey(make([]byte, 0, 1+len(pk)), table, pk...))
}

// AppendEverywhereKey appends the bytes of EverywhereKey to b.
func AppendEverywhereKey(b []byte, table Table, pk ...byte) []byte {
	return append(append(b, byte(table)|everywhereKey), pk...)
}

// Table returns the table of the row.
func (k Key) Table() Table { return Table(k[0] &^ keyMarks) }

// Ordered reports whether the row belongs to a group and can be scanned.
func (k Key) Ordered() bool { return len(k) > 0 && k[0]&orderedKey != 0 }

// Everywhere reports whether every node stores the row.
func (k Key) Everywhere() bool { return len(k) > 0 && k[0]&everywhereKey != 0 }

// Marked reports whether the row is Ordered or Everywhere.
func (k Key) Marked() bool { return len(k) > 0 && k[0]&(orderedKey|everywhereKey) != 0 }

// Unit returns the key that engines lock and order when a transaction uses row k. It is the group's key if the row
// belongs to a group, and k itself otherwise.
func (k Key) Unit() Key {
	if k.Ordered() {
		return k[:10+int(k[9])]
	}
	return k
}

// End returns the smallest key that is larger than every key with the prefix k, or "" if there is none.
func (k Key) End() Key {
	b := []byte(k)
	for i := len(b) - 1; i >= 0; i-- {
		// A byte of 0xff overflows to 0, with a carry to the byte before it.
		if b[i]++; b[i] != 0 {
			return Key(b[:i+1])
		}
	}
	return ""
}

// Shard returns the number that determines where the row is stored. It is the shard number of an integer or ordered
// key, or the 32-bit murmurhash3 (seed 0) of a string key. It is 0 for an everywhere key, whose row is stored at every
// node, and for a malformed key (see Valid).
func (k Key) Shard() uint64 {
	switch {
	case len(k) == 0:
		return 0
	case k[0]&Unplaced == 0 && len(k) >= 9:
		return k.number()
	case k[0]&stringKey != 0:
		return uint64(HashString(string(k[1:])))
	}
	return 0
}

// Plain returns the table and the shard number of a key that consists of nothing else. ok is false for a key with flags
// or further columns.
func (k Key) Plain() (table Table, shard uint64, ok bool) {
	if len(k) != 9 || k[0] > byte(MaxTable) {
		return 0, 0, false
	}
	return Table(k[0]), k.number(), true
}

// number returns the shard number of an integer or ordered key.
func (k Key) number() uint64 {
	return uint64(k[1])<<56 | uint64(k[2])<<48 | uint64(k[3])<<40 | uint64(k[4])<<32 |
		uint64(k[5])<<24 | uint64(k[6])<<16 | uint64(k[7])<<8 | uint64(k[8])
}

// HashString returns the placement hash of a string primary key.
func HashString(pk string) uint32 { return murmur3.StringSum32(pk) }

// Valid reports whether k is well-formed. Keys from the network are checked when they are decoded.
func (k Key) Valid() bool {
	if len(k) == 0 {
		return false
	}
	switch k[0] & keyMarks {
	case 0:
		return len(k) >= 9
	case stringKey, everywhereKey:
		return true
	case orderedKey:
		return len(k) >= 10 && len(k) >= 10+int(k[9])
	}
	return false
}

// String formats the key for display: t2/17, t0/"Client17", t3/5/0102, t4/5/[01]00ff for row 00ff of group 01.
func (k Key) String() string {
	switch {
	case !k.Valid():
		return fmt.Sprintf("invalid key %x", string(k))
	case k[0]&stringKey != 0:
		return fmt.Sprintf("t%d/%q", k.Table(), string(k[1:]))
	case k.Everywhere():
		return fmt.Sprintf("t%d/*/%x", k.Table(), string(k[1:]))
	case k.Ordered():
		return fmt.Sprintf("t%d/%d/[%x]%x", k.Table(), k.Shard(), string(k[10:10+int(k[9])]), string(k[10+int(k[9]):]))
	case len(k) == 9:
		return fmt.Sprintf("t%d/%d", k.Table(), k.Shard())
	default:
		return fmt.Sprintf("t%d/%d/%x", k.Table(), k.Shard(), string(k[9:]))
	}
}
