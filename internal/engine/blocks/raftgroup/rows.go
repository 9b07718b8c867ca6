package raftgroup

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Keys returns the keys of a shard's rows, sorted.
func Keys(s store.Store, l *geo.Layout, shard int) (keys []txn.Key) {
	s.Each(func(k txn.Key, _ store.Record) {
		if !k.Everywhere() && l.Shard(k) == shard {
			keys = append(keys, k)
		}
	})
	slices.Sort(keys)
	return keys
}

// AppendRows appends the newest versions of the rows of the member's shard to a snapshot. The rows must be the last
// part of the snapshot.
func (m *Member) AppendRows(b []byte, s *store.Versioned) []byte {
	for _, k := range Keys(s, m.node.Layout, m.Shard) {
		rec, _ := s.Get(k)
		b = codec.AppendUvarint(codec.AppendString(b, string(k)), rec.Version)
		b = codec.AppendBytes(codec.AppendID(b, rec.Writer), rec.Value)
	}
	return b
}

// RestoreRows restores the rows of the member's shard from the rest of a snapshot. It deletes rows that the snapshot
// does not contain, and never replaces a row with an older version.
func (m *Member) RestoreRows(r *codec.Reader, s *store.Versioned) {
	gone := map[txn.Key]bool{}
	for _, k := range Keys(s, m.node.Layout, m.Shard) {
		gone[k] = true
	}
	for r.Len() > 0 && r.Err() == nil {
		k := txn.Key(r.String())
		rec := store.Record{Version: r.Uvarint(), Writer: r.ID(), Value: slices.Clone(r.Bytes())}
		if r.Err() != nil {
			break
		}
		// A loaded row has version 0, and so has an absent row.
		newest, there := s.Newest(k), gone[k]
		delete(gone, k)
		if rec.Version > newest || newest == 0 && !there {
			s.Put(k, rec)
		}
	}
	// Sorted, so that all replays of a seed change the store in the same order.
	for _, k := range slices.Sorted(maps.Keys(gone)) {
		s.Delete(k, s.Newest(k), 0)
	}
}

// AppendNames appends a set of names to a snapshot, sorted.
func AppendNames(b []byte, names map[Name]bool) []byte {
	b = codec.AppendUvarint(b, uint64(len(names)))
	for _, n := range slices.SortedFunc(maps.Keys(names), Name.Compare) {
		b = n.AppendTo(b)
	}
	return b
}

// ReadNames decodes the output of AppendNames.
func ReadNames(r *codec.Reader) map[Name]bool {
	names := map[Name]bool{}
	for range r.Count(2) {
		names[ReadName(r)] = true
	}
	return names
}
