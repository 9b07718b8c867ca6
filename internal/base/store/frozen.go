package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// Frozen contains the contents of a store at the time of its Freeze, including earlier versions that are still
// readable. One goroutine may use a Frozen while another changes the store, because the store copies chunks before it
// changes them.
type Frozen interface {
	// Append appends the next part to b and reports whether more parts follow. A part has at most limit bytes plus a row.
	Append(b []byte, limit int) (part []byte, more bool)
}

// Kinds of entries in the parts of a frozen store, by their first byte.
const (
	entryRow      = 1 // key | value | writer
	entryVersions = 2 // key | count | count versions, oldest first: version | writer | 1 if it is a deletion | value
	entryReplaced = 3 // key | version
	entryHead     = 4 // ops | for Versioned: the version of the last Trim
)

// frozenHash is the Frozen of a Hash.
type frozenHash struct {
	rows   [][]row
	used   uint32
	groups []*group
	ops    uint64

	next   uint32 // number of the next row
	from   txn.Key
	headed bool
}

// Freeze implements Store.
func (s *Hash) Freeze() Frozen {
	f := &frozenHash{rows: slices.Clone(s.rows), used: s.used, ops: s.ops}
	s.shared = allTrue(len(s.rows))
	keys := make([]txn.Key, 0, len(s.groups))
	for k := range s.groups {
		keys = append(keys, k)
	}
	// Sort, because the order of maps is random and the parts must not depend on it.
	slices.Sort(keys)
	for _, k := range keys {
		f.groups = append(f.groups, s.groups[k].Copy())
	}
	return f
}

// Append implements Frozen.
func (f *frozenHash) Append(b []byte, limit int) (part []byte, more bool) {
	full := len(b) + limit
	if !f.headed {
		f.headed = true
		b = codec.AppendUvarint(append(b, entryHead), f.ops)
	}
	for ; f.next < f.used; f.next++ {
		if len(b) >= full {
			return b, true
		}
		// Free rows have no key.
		if r := &f.rows[f.next>>chunkBits][f.next&(1<<chunkBits-1)]; r.key != "" {
			b = appendRow(b, r.key, r.value, r.writer)
		}
	}
	for len(f.groups) > 0 {
		whole := true
		f.groups[0].Ascend(f.from, func(k txn.Key, r Record) bool {
			if len(b) >= full {
				f.from, whole = k, false
				return false
			}
			b = appendRow(b, k, r.Value, r.Writer)
			return true
		})
		if !whole {
			return b, true
		}
		f.groups, f.from = f.groups[1:], ""
	}
	return b, false
}

func appendRow(b []byte, k txn.Key, value []byte, writer txn.ID) []byte {
	b = codec.AppendString(append(b, entryRow), string(k))
	return codec.AppendID(codec.AppendBytes(b, value), writer)
}

// Thaw implements Store.
func (s *Hash) Thaw(part []byte) error {
	return thaw(part, func(kind uint8, r *codec.Reader) {
		switch kind {
		case entryHead:
			s.ops = r.Uvarint()
		case entryRow:
			// Clone the value, because the store keeps it and the caller may reuse the part.
			k, value, writer := r.Key(), slices.Clone(r.Bytes()), r.ID()
			if r.Err() != nil || k == "" {
				r.Fail(errors.New("a row has no key"))
				return
			}
			s.Put(k, value, writer)
			// Undo the operation that Put counts, because the head has already set the total.
			s.ops--
		default:
			r.Fail(fmt.Errorf("a store of this kind has no entries of kind %d", kind))
		}
	})
}

// thaw decodes the entries of a part.
func thaw(part []byte, entry func(kind uint8, r *codec.Reader)) error {
	r := codec.NewReader(part)
	for r.Len() > 0 && r.Err() == nil {
		entry(r.Uint8(), &r)
	}
	return r.Done()
}

// frozenVersions is the Frozen of a Versioned.
type frozenVersions struct {
	rows         slab[versions]
	older        slab[past]
	replaced     queue.Queue[replacement]
	ops, trimmed uint64

	next   uint32 // row
	headed bool
}

// frozen returns a copy of the slab. The copy shares each chunk until the original changes that chunk.
func (s *slab[T]) frozen() slab[T] {
	s.shared = allTrue(len(s.chunks))
	return slab[T]{used: s.used, chunks: slices.Clone(s.chunks)}
}

func allTrue(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}

// Freeze implements Store.
func (s *Versioned) Freeze() Frozen {
	return &frozenVersions{rows: s.rows.frozen(), older: s.older.frozen(), replaced: s.replaced.Clone(), ops: s.ops, trimmed: s.trimmed}
}

// Append implements Frozen.
func (f *frozenVersions) Append(b []byte, limit int) (part []byte, more bool) {
	full := len(b) + limit
	if !f.headed {
		f.headed = true
		b = codec.AppendUvarint(codec.AppendUvarint(append(b, entryHead), f.ops), f.trimmed)
	}
	for ; f.next < f.rows.used; f.next++ {
		if len(b) >= full {
			return b, true
		}
		if l := f.rows.at(f.next + 1); l.key != "" {
			b = f.row(b, l)
		}
	}
	for ; f.replaced.Len() > 0; f.replaced.Pop() {
		if len(b) >= full {
			return b, true
		}
		p := f.replaced.Front()
		if l := f.rows.at(p.row); l.key != "" { // otherwise the row was dropped
			b = codec.AppendString(append(b, entryReplaced), string(l.key))
			b = codec.AppendUvarint(b, p.version)
		}
	}
	return b, false
}

// row appends the versions of a row, the oldest first.
func (f *frozenVersions) row(b []byte, l *versions) []byte {
	all := []*version{&l.last}
	for n := l.older; n != 0; {
		p := f.older.at(n)
		all = append(all, &p.version)
		n = p.before
	}
	b = codec.AppendString(append(b, entryVersions), string(l.key))
	b = codec.AppendUvarint(b, uint64(len(all)))
	// Oldest first, because thaw adds each version as the newest.
	for _, v := range slices.Backward(all) {
		b = codec.AppendID(codec.AppendUvarint(b, v.Version), v.Writer)
		b = codec.AppendBytes(append(b, codec.Flags(v.deleted, false)), v.Value)
	}
	return b
}

// Thaw implements Store.
func (s *Versioned) Thaw(part []byte) error {
	return thaw(part, func(kind uint8, r *codec.Reader) {
		switch kind {
		case entryHead:
			s.ops, s.trimmed = r.Uvarint(), r.Uvarint()
		case entryVersions:
			s.thaw(r)
		case entryReplaced:
			k, v := r.Key(), r.Uvarint()
			if n, _ := s.find(k); n != 0 {
				s.replaced.Push(replacement{n, v})
			} else {
				r.Fail(errors.New("versions are replaced of a row that is not here"))
			}
		default:
			r.Fail(fmt.Errorf("a store of this kind has no entries of kind %d", kind))
		}
	})
}

// thaw decodes the versions of a row.
func (s *Versioned) thaw(r *codec.Reader) {
	k, n := r.Key(), r.Count(4)
	if r.Err() != nil || k == "" || n == 0 {
		r.Fail(errors.New("a row has no key or no versions"))
		return
	}
	var l versions
	for i := range n {
		v := version{Record: Record{Version: r.Uvarint(), Writer: r.ID()}}
		v.deleted, _ = r.Flags()
		v.Value = slices.Clone(r.Bytes())
		if i > 0 {
			l.older = s.older.add(past{l.last, l.older})
		}
		l.last = v
	}
	l.key = txn.Key(strings.Clone(string(k)))
	if row, at := s.find(k); row != 0 {
		r.Fail(errors.New("a row comes twice"))
	} else if row = s.rows.add(l); k.Ordered() {
		s.ordered.Set(l.key, row)
	} else {
		s.index.add(l.key, row, at)
	}
	if !l.last.deleted {
		s.count++
		s.bytes += int64(len(k) + len(l.last.Value))
	}
}
