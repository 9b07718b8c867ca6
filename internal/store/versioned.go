package store

import (
	"fmt"
	"strings"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/fifo"
	"github.com/geobench/geobench/internal/txn"
)

// Versioned keeps the versions of rows that somebody may still read. The versions of a row are written in their order;
// rows are independent of each other. Those with ordered keys are in a tree, in the order of their keys, and the
// others, which nobody scans, in a table: that takes a third of the time.
type Versioned struct {
	ordered btree.Map[txn.Key, *versions]
	others  map[txn.Key]*versions
	count   int
	bytes   int64
	ops     uint64
	// trimmed is the version that Trim was last told of.
	trimmed uint64
	// newest says that nobody reads versions before the last one.
	newest bool
	// replaced are the versions that took the place of others, in the order in which they were written.
	replaced fifo.Queue[replacement]
}

// versions are those of a row: the last one, and those before it that somebody may still read, ascending.
type versions struct {
	key   txn.Key
	last  version
	older []version
	gone  bool // it was forgotten
}

type version struct {
	Record
	deleted bool
}

// replacement says that a row has versions older than this one.
type replacement struct {
	row     *versions
	version uint64
}

// NewVersioned returns an empty store.
func NewVersioned() *Versioned { return &Versioned{others: map[txn.Key]*versions{}} }

// NewNewest returns an empty store that keeps the last version of each row alone. Newest tells of deletions, too, until they
// are trimmed.
func NewNewest() *Versioned {
	s := NewVersioned()
	s.newest = true
	return s
}

func (s *Versioned) find(k txn.Key) (l *versions, found bool) {
	if k.Ordered() {
		return s.ordered.Get(k)
	}
	l, found = s.others[k]
	return l, found
}

// at returns the last of the versions up to v, or nil.
func (l *versions) at(v uint64) *version {
	if l.last.Version <= v {
		return &l.last
	}
	for i := len(l.older) - 1; i >= 0; i-- {
		if l.older[i].Version <= v {
			return &l.older[i]
		}
	}
	return nil
}

// Newest is the largest version. Who reads at it reads the newest versions, and a store that is trimmed to it keeps no
// others, Reset or not.
const Newest uint64 = 1<<64 - 1

// Get implements Reader.
func (s *Versioned) Get(k txn.Key) (Record, bool) { return s.get(k, Newest) }

// Scan implements Reader.
func (s *Versioned) Scan(r txn.Range, f func(txn.Key, Record) bool) { s.scan(r, Newest, f) }

// At returns the rows as they were at version v: each in its last version up to v. Versions before the one that Trim was last
// told of may be missing.
func (s *Versioned) At(v uint64) Reader { return snapshot{s, v} }

type snapshot struct {
	s *Versioned
	v uint64
}

func (r snapshot) Get(k txn.Key) (Record, bool) { return r.s.get(k, r.v) }

func (r snapshot) Scan(g txn.Range, f func(txn.Key, Record) bool) { r.s.scan(g, r.v, f) }

func (s *Versioned) get(k txn.Key, v uint64) (Record, bool) {
	s.ops++
	l, found := s.find(k)
	if !found {
		return Record{}, false
	}
	if r := l.at(v); r != nil && !r.deleted {
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
	take := func(k txn.Key, l *versions) bool {
		s.ops++
		rec := l.at(v)
		if rec == nil || rec.deleted {
			return true
		}
		left--
		return f(k, rec.Record) && left != 0
	}
	if r.Reverse {
		s.ordered.Descend(r.To, func(k txn.Key, l *versions) bool {
			return k == r.To || k >= r.From && take(k, l)
		})
		return
	}
	s.ordered.Ascend(r.From, func(k txn.Key, l *versions) bool { return k < r.To && take(k, l) })
}

// Newest returns the version of the row's last change, that of its deletion included; 0 if it was never changed.
func (s *Versioned) Newest(k txn.Key) uint64 {
	s.ops++
	if l, found := s.find(k); found {
		return l.last.Version
	}
	return 0
}

// Load implements Store.
func (s *Versioned) Load(k txn.Key, value []byte) { s.write(k, version{Record: Record{Value: value}}) }

// Put writes a version of the row under k, which must not be older than the last one. The store owns value from then on; of k
// it keeps a copy.
func (s *Versioned) Put(k txn.Key, r Record) { s.write(k, version{Record: r}) }

// Delete writes a version that says that there is no row.
func (s *Versioned) Delete(k txn.Key, v uint64, writer txn.ID) {
	s.write(k, version{Record{Version: v, Writer: writer}, true})
}

func (s *Versioned) write(k txn.Key, v version) {
	s.ops++
	l, found := s.find(k)
	if !found {
		if v.deleted && v.Version <= s.trimmed {
			return
		}
		l = &versions{key: txn.Key(strings.Clone(string(k))), last: v}
		if k.Ordered() {
			s.ordered.Set(l.key, l)
		} else {
			s.others[l.key] = l
		}
		if v.deleted {
			s.replaced.Push(replacement{l, v.Version})
			return
		}
		s.count++
		s.bytes += int64(len(k) + len(v.Value))
		return
	}
	last := l.last
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
	l.last = v
	if v.Version <= s.trimmed { // nobody reads what was before
		if l.older = nil; v.deleted {
			s.drop(l)
		}
		return
	}
	if v.Version > last.Version && !s.newest {
		l.older = append(l.older, last)
	}
	if len(l.older) > 0 || v.deleted {
		s.replaced.Push(replacement{l, v.Version})
	}
}

// drop forgets a row.
func (s *Versioned) drop(l *versions) {
	if l.gone = true; l.key.Ordered() {
		s.ordered.Delete(l.key)
	} else {
		delete(s.others, l.key)
	}
}

// Trim forgets the versions that nobody sees who reads at version v or later, those that are written afterwards
// included.
func (s *Versioned) Trim(v uint64) {
	s.trimmed = max(s.trimmed, v)
	for s.replaced.Len() > 0 && s.replaced.Front().version <= v {
		l := s.replaced.Front().row
		s.replaced.Pop()
		switch {
		case l.gone:
		case l.last.Version > v:
			first := 0 // of those that are kept
			for first+1 < len(l.older) && l.older[first+1].Version <= v {
				first++
			}
			kept := copy(l.older, l.older[first:])
			clear(l.older[kept:])
			l.older = l.older[:kept]
		case l.last.deleted:
			s.drop(l)
		default:
			l.older = nil
		}
	}
}

// Reset implements Store. What Trim was told of is forgotten, unless it is Newest.
func (s *Versioned) Reset(rows int) {
	trimmed := s.trimmed
	*s = Versioned{others: make(map[txn.Key]*versions, rows), ops: s.ops, newest: s.newest}
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

func (s *Versioned) each(f func(*versions)) {
	s.ordered.Scan(func(_ txn.Key, l *versions) bool {
		f(l)
		return true
	})
	for _, l := range s.others {
		f(l)
	}
}

// Len implements Store.
func (s *Versioned) Len() int { return s.count }

// Bytes implements Store.
func (s *Versioned) Bytes() int64 { return s.bytes }

// Ops implements Store.
func (s *Versioned) Ops() uint64 { return s.ops }
