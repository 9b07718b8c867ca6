package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// Versioned keeps all versions of rows that are still readable. The versions of each row are written in ascending
// order. A tree finds the rows with ordered keys, in key order. An index finds all other rows, which are never scanned,
// in a third of the time. Rows and their older versions are stored in chunks and refer to each other by number, so
// after a warm-up, an update allocates no memory.
type Versioned struct {
	ordered btree.Map[txn.Key, uint32]
	index   index // for rows without ordered keys
	rows    slab[versions]
	older   slab[past]
	count   int
	bytes   int64
	ops     uint64
	// trimmed is the version of the last Trim.
	trimmed uint64
	// newest is set if only the last version of a row is readable.
	newest bool
	// replaced lists the versions that have replaced older versions, in the order of the writes.
	replaced queue.Queue[replacement]
	seen     byte // its use keeps the compiler from removing the reads of Warm
}

// versions is a row: its last version, and its older versions that are still readable.
type versions struct {
	key   txn.Key // empty for a free row
	last  version
	older uint32 // number of the version before the last; 0 for none
}

type version struct {
	Record
	deleted bool
}

// past is a replaced version and the number of the version before it; the number is 0 if that version is not kept.
type past struct {
	version
	before uint32
}

// replacement records that a row has versions older than this version. Since then, the row may have been removed, and
// its number may have been reused for another row.
type replacement struct {
	row     uint32
	version uint64
}

// slab stores values in chunks that never move. Values are numbered from 1, and freed numbers are reused.
type slab[T any] struct {
	chunks [][]T
	shared []bool // by chunk: whether a Frozen shares it
	free   []uint32
	used   uint32
}

const slabBits = 7 // small, because each of the many small stores of a simulation allocates at least one chunk

func (s *slab[T]) at(n uint32) *T { return &s.chunks[(n-1)>>slabBits][(n-1)&(1<<slabBits-1)] }

// own returns value n for modification. If a Frozen shares the value's chunk, own first copies the chunk.
func (s *slab[T]) own(n uint32) *T {
	if c := int(n-1) >> slabBits; c < len(s.shared) && s.shared[c] {
		s.chunks[c], s.shared[c] = slices.Clone(s.chunks[c]), false
	}
	return s.at(n)
}

func (s *slab[T]) add(v T) (n uint32) {
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
	} else {
		s.used++
		n = s.used
		if int(n-1)>>slabBits == len(s.chunks) {
			s.chunks = append(s.chunks, make([]T, 1<<slabBits))
		}
	}
	*s.own(n) = v
	return n
}

func (s *slab[T]) remove(n uint32) {
	var zero T
	*s.own(n) = zero
	s.free = append(s.free, n)
}

// NewVersioned returns an empty store.
func NewVersioned() *Versioned { return &Versioned{index: newIndex(0)} }

// NewNewest returns an empty store that keeps only the last version of each row. The method Newest also reports
// deletions until they are trimmed.
func NewNewest() *Versioned {
	s := NewVersioned()
	s.newest = true
	return s
}

// key implements rows.
func (s *Versioned) key(n uint32) txn.Key { return s.rows.at(n).key }

// find returns the number of the row with key k, or 0 if there is none. For a row without an ordered key, at is as in
// index.find.
func (s *Versioned) find(k txn.Key) (n uint32, at int) {
	if k.Ordered() {
		n, _ = s.ordered.Get(k)
		return n, 0
	}
	return s.index.find(k, s)
}

// at returns the last version of a row that is not newer than v, or nil.
func (s *Versioned) at(l *versions, v uint64) *version {
	if l.last.Version <= v {
		return &l.last
	}
	for n := l.older; n != 0; {
		p := s.older.at(n)
		if p.Version <= v {
			return &p.version
		}
		n = p.before
	}
	return nil
}

// Warm loads n rows, at most the first 16, into the processor's caches, and overlaps their memory latencies. Ops does
// not count these accesses. Warm ignores rows with ordered keys.
func (s *Versioned) Warm(n int, key func(i int) txn.Key) {
	const most = 16
	var rows [most]*versions
	found := 0
	for i := range min(n, most) {
		if k := key(i); !k.Ordered() {
			if n, _ := s.index.find(k, s); n != 0 {
				rows[found] = s.rows.at(n)
				found++
			}
		}
	}
	for _, l := range rows[:found] {
		if v := l.last.Value; len(v) > 0 {
			// Using the value keeps the compiler from removing the load.
			s.seen ^= v[0]
		}
	}
}

// Newest is the largest version. A read at Newest returns the newest versions. A store that is trimmed to Newest keeps
// no other versions, even after a Reset.
const Newest uint64 = 1<<64 - 1

// Get implements Reader.
func (s *Versioned) Get(k txn.Key) (Record, bool) { return s.get(k, Newest) }

// Scan implements Reader.
func (s *Versioned) Scan(r txn.Range, f func(txn.Key, Record) bool) { s.scan(r, Newest, f) }

// At returns the rows as of version v: for each row, its last version that is not newer than v. Versions before the
// version of the last Trim may be missing.
func (s *Versioned) At(v uint64) Reader { return snapshot{s, v} }

type snapshot struct {
	s *Versioned
	v uint64
}

func (r snapshot) Get(k txn.Key) (Record, bool) { return r.s.get(k, r.v) }

func (r snapshot) Scan(g txn.Range, f func(txn.Key, Record) bool) { r.s.scan(g, r.v, f) }

func (s *Versioned) get(k txn.Key, v uint64) (Record, bool) {
	s.ops++
	n, _ := s.find(k)
	if n == 0 {
		return Record{}, false
	}
	if r := s.at(s.rows.at(n), v); r != nil && !r.deleted {
		return r.Record, true
	}
	return Record{}, false
}

func (s *Versioned) scan(r txn.Range, v uint64, f func(txn.Key, Record) bool) {
	if r.Point() {
		if rec, found := s.get(r.From, v); found {
			f(r.From, rec)
		}
		return
	}
	s.ops++
	left := r.Limit
	take := func(k txn.Key, n uint32) bool {
		s.ops++
		rec := s.at(s.rows.at(n), v)
		if rec == nil || rec.deleted {
			return true
		}
		left--
		return f(k, rec.Record) && left != 0
	}
	if r.Reverse {
		s.ordered.Descend(r.To, func(k txn.Key, n uint32) bool {
			return k == r.To || k >= r.From && take(k, n)
		})
		return
	}
	s.ordered.Ascend(r.From, func(k txn.Key, n uint32) bool { return k < r.To && take(k, n) })
}

// Newest returns the version of the row's last change, which may be its deletion. It returns 0 if the row was never
// changed.
func (s *Versioned) Newest(k txn.Key) uint64 {
	s.ops++
	if n, _ := s.find(k); n != 0 {
		return s.rows.at(n).last.Version
	}
	return 0
}

// Load implements Store.
func (s *Versioned) Load(k txn.Key, value []byte) { s.write(k, version{Record: Record{Value: value}}) }

// Put writes a version of the row with key k. The version must not be older than the row's last version. The store
// takes ownership of the value, and copies k.
func (s *Versioned) Put(k txn.Key, r Record) { s.write(k, version{Record: r}) }

// Delete writes a version in which the row does not exist.
func (s *Versioned) Delete(k txn.Key, v uint64, writer txn.ID) {
	s.write(k, version{Record{Version: v, Writer: writer}, true})
}

// Install writes a transaction's writes as the newest versions of their rows.
func (s *Versioned) Install(writes []txn.WriteEntry, version uint64, writer txn.ID) {
	s.Warm(len(writes), func(i int) txn.Key { return writes[i].Key })
	for i := range writes {
		if w := &writes[i]; w.Deleted {
			s.Delete(w.Key, version, writer)
		} else {
			s.Put(w.Key, Record{Value: w.Value, Version: version, Writer: writer})
		}
	}
}

func (s *Versioned) write(k txn.Key, v version) {
	s.ops++
	n, at := s.find(k)
	if n == 0 {
		// No read can see this deletion or a version before it.
		if v.deleted && v.Version <= s.trimmed {
			return
		}
		own := txn.Key(strings.Clone(string(k)))
		n = s.rows.add(versions{key: own, last: v})
		if k.Ordered() {
			s.ordered.Set(own, n)
		} else {
			s.index.add(own, n, at)
		}
		// Keep the deletion until a Trim, so that Newest and later reads can see it.
		if v.deleted {
			s.replaced.Push(replacement{n, v.Version})
			return
		}
		s.count++
		s.bytes += int64(len(k) + len(v.Value))
		return
	}
	l := s.rows.own(n)
	last := &l.last
	if v.Version < last.Version {
		panic(fmt.Sprintf("store: version %d of %v comes after version %d", v.Version, k, last.Version))
	}
	if !last.deleted {
		s.count--
		s.bytes -= int64(len(k) + len(last.Value))
	}
	if !v.deleted {
		s.count++
		s.bytes += int64(len(k) + len(v.Value))
	}
	if v.Version <= s.trimmed { // earlier versions are no longer readable
		l.last = v
		if s.cut(&l.older); v.deleted {
			s.drop(n)
		}
		return
	}
	// If a version is written again, it replaces itself, so there is no predecessor to keep.
	if v.Version > last.Version && !s.newest {
		l.older = s.older.add(past{*last, l.older})
	}
	l.last = v
	if l.older != 0 || v.deleted {
		s.replaced.Push(replacement{n, v.Version})
	}
}

// drop removes a row without older versions.
func (s *Versioned) drop(n uint32) {
	if k := s.rows.at(n).key; k.Ordered() {
		s.ordered.Delete(k)
	} else {
		_, at := s.index.find(k, s)
		s.index.remove(at)
	}
	s.rows.remove(n)
}

// cut drops a replaced version and all older versions.
func (s *Versioned) cut(first *uint32) {
	for n := *first; n != 0; {
		before := s.older.at(n).before
		s.older.remove(n)
		n = before
	}
	*first = 0
}

// Trim drops the versions that reads at version v or later cannot see. Later writes drop such versions immediately.
func (s *Versioned) Trim(v uint64) {
	s.trimmed = max(s.trimmed, v)
	for s.replaced.Len() > 0 && s.replaced.Front().version <= v {
		n := s.replaced.Front().row
		s.replaced.Pop()
		l := s.rows.at(n)
		switch {
		case l.key == "": // the row was dropped
		case l.last.Version > v:
			for n := l.older; n != 0; {
				p := s.older.at(n)
				if p.Version <= v { // the last version that a read at v can see
					p = s.older.own(n)
					s.cut(&p.before)
				}
				n = p.before
			}
		// The last version is not newer than v, so no older version is visible any more.
		default:
			l = s.rows.own(n)
			if s.cut(&l.older); l.last.deleted {
				s.drop(n)
			}
		}
	}
}

// Reset implements Store. It also resets the version of the last Trim, unless it is Newest.
func (s *Versioned) Reset(rows int) {
	trimmed := s.trimmed
	*s = Versioned{index: newIndex(rows), ops: s.ops, newest: s.newest}
	if trimmed == Newest {
		s.trimmed = Newest
	}
}

// Each implements Store.
func (s *Versioned) Each(f func(txn.Key, Record)) {
	s.each(func(l *versions) {
		if r := &l.last; !r.deleted {
			f(l.key, r.Record)
		}
	})
}

// EachChange calls f for the last change of every row, including deletions that are not trimmed. The order is
// arbitrary, so the caller's result must not depend on it. f must not change the store.
func (s *Versioned) EachChange(f func(k txn.Key, r Record, deleted bool)) {
	s.each(func(l *versions) { f(l.key, l.last.Record, l.last.deleted) })
}

func (s *Versioned) each(f func(*versions)) {
	for n := range s.rows.used {
		if l := s.rows.at(n + 1); l.key != "" {
			f(l)
		}
	}
}

// Len implements Store.
func (s *Versioned) Len() int { return s.count }

// Bytes implements Store.
func (s *Versioned) Bytes() int64 { return s.bytes }

// Ops implements Store.
func (s *Versioned) Ops() uint64 { return s.ops }
