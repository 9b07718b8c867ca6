package store

import (
	"math/bits"

	"github.com/geobench/geobench/internal/base/txn"
)

// index finds the numbers of rows by their keys. It is a hash table with linear probing over small slots. Finding a row
// by an integer key touches a single slot. A Go map of strings also touches a control word and the key's bytes. The
// slots contain no pointers, so the garbage collector need not scan them.
type index struct {
	slots []slot // the number of slots is a power of two; at most three quarters are in use
	shift uint   // 64 - log2(len(slots))
	count int
}

// slot is an entry of the index. For a key that consists only of a table and a shard number, id is the shard number and
// tag is the table. Together they identify the key. For all other keys, tag is otherKey and id is a hash.
type slot struct {
	id  uint64
	tag uint32
	row uint32 // 0 if the slot is empty
}

const (
	otherKey = 1 << 8
	minSlots = 16
)

// newIndex returns an index with room for the given number of rows.
func newIndex(rows int) index {
	slots := minSlots
	// At most three quarters of the slots are in use, so searches are short and always reach an empty slot.
	for 3*slots < 4*rows {
		slots *= 2
	}
	return emptyIndex(slots)
}

func emptyIndex(slots int) index {
	return index{slots: make([]slot, slots), shift: uint(64 - bits.TrailingZeros(uint(slots)))}
}

// identify returns the id and tag of the slot for k.
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

// home returns the position of the slot where the search for an entry starts.
func (x *index) home(id uint64, tag uint32) int {
	h := (id ^ uint64(tag)<<56) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xbf58476d1ce4e5b9
	return int(h >> x.shift)
}

// rows provides the keys of rows by their numbers.
type rows interface{ key(row uint32) txn.Key }

// find returns the number of the row with key k and the position of its slot. If there is no such row, it returns 0 and
// the position of the empty slot for the row.
func (x *index) find(k txn.Key, of rows) (row uint32, at int) {
	id, tag := identify(k)
	mask := len(x.slots) - 1
	for i := x.home(id, tag); ; i = (i + 1) & mask {
		sl := &x.slots[i]
		if sl.row == 0 {
			return 0, i
		}
		// For all other keys the id is only a hash, so compare the keys.
		if sl.id == id && sl.tag == tag && (tag != otherKey || of.key(sl.row) == k) {
			return sl.row, i
		}
	}
}

// add adds a row with a key that is not in the index, at the position that find returned.
func (x *index) add(k txn.Key, row uint32, at int) {
	id, tag := identify(k)
	x.slots[at] = slot{id, tag, row}
	if x.count++; 4*(x.count+1) > 3*len(x.slots) {
		x.grow()
	}
}

func (x *index) grow() {
	old, count := x.slots, x.count
	*x = emptyIndex(2 * len(old))
	x.count = count
	for _, sl := range old {
		if sl.row != 0 {
			x.slots[x.gap(sl)] = sl
		}
	}
}

// gap returns the position of the empty slot for a new entry.
func (x *index) gap(sl slot) int {
	mask := len(x.slots) - 1
	i := x.home(sl.id, sl.tag)
	for x.slots[i].row != 0 {
		i = (i + 1) & mask
	}
	return i
}

// remove removes the entry at a position. Later entries move into the gap, but never to a position before the slot
// where their search starts.
func (x *index) remove(at int) {
	x.count--
	mask := len(x.slots) - 1
	for i := (at + 1) & mask; x.slots[i].row != 0; i = (i + 1) & mask {
		home := x.home(x.slots[i].id, x.slots[i].tag)
		// The entry may move to the gap only if the gap is between its home and its position, modulo the table size.
		if (i-home)&mask >= (i-at)&mask {
			x.slots[at] = x.slots[i]
			at = i
		}
	}
	x.slots[at] = slot{}
}
