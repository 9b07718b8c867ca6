package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
)

// ordered returns the key of a row in the given group (0, 1, ...) of a table.
func ordered(group, row int) txn.Key {
	return txn.OrderedKey(4, 7, []byte{byte(group)}, []byte{byte(row)})
}

// TestHashIsAMap checks that the hash table behaves like a Go map for any keys in any order.
func TestHashIsAMap(t *testing.T) {
	keys := map[string]func(*rand.Rand) txn.Key{
		"few":       func(r *rand.Rand) txn.Key { return txn.IntKey(txn.Table(r.IntN(2)), uint64(r.IntN(20))) },
		"many":      func(r *rand.Rand) txn.Key { return txn.IntKey(1, uint64(r.IntN(5000))) },
		"far apart": func(r *rand.Rand) txn.Key { return txn.IntKey(31, uint64(r.IntN(500))<<40) },
		"strings":   func(r *rand.Rand) txn.Key { return txn.StringKey(3, string(rune('a'+r.IntN(500)))) },
		"8 letters": func(r *rand.Rand) txn.Key { return txn.StringKey(0, "client"+string(rune('0'+r.IntN(70)))) },
		"composite": func(r *rand.Rand) txn.Key {
			return txn.CompositeKey(2, uint64(r.IntN(30)), make([]byte, r.IntN(5)))
		},
		"everywhere": func(r *rand.Rand) txn.Key { return txn.EverywhereKey(1, make([]byte, r.IntN(50))) },
		"ordered":    func(r *rand.Rand) txn.Key { return ordered(r.IntN(3), r.IntN(200)) },
		"all kinds": func(r *rand.Rand) txn.Key {
			n := r.IntN(100)
			return []txn.Key{txn.IntKey(4, uint64(n)), ordered(n%3, n), txn.EverywhereKey(4, []byte{byte(n)}), txn.StringKey(4, fmt.Sprint(n))}[r.IntN(4)]
		},
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			s, want := NewHash(), map[txn.Key]Record{}
			for i := range 40_000 {
				k := key(r)
				switch r.IntN(5) {
				case 0, 1:
					v := make([]byte, r.IntN(4))
					s.Put(k, v, txn.ID(i))
					want[k] = Record{Value: v, Writer: txn.ID(i)}
				case 2:
					s.Delete(k)
					delete(want, k)
				default:
					got, ok := s.Get(k)
					w, wok := want[k]
					if ok != wok || got.Writer != w.Writer || !bytes.Equal(got.Value, w.Value) {
						t.Fatalf("step %d: %v is %v, %v; want %v, %v", i, k, got, ok, w, wok)
					}
				}
				if i == 20_000 {
					s.Reset(r.IntN(1000))
					clear(want)
				}
			}
			size := int64(0)
			for k, w := range want {
				size += int64(len(k) + len(w.Value))
			}
			if s.Len() != len(want) || s.Bytes() != size || s.Ops() != 40_000 {
				t.Errorf("%d rows, %d bytes, %d operations; want %d, %d, 40000", s.Len(), s.Bytes(), s.Ops(), len(want), size)
			}
			other, seen := NewHash(), 0
			s.Each(func(k txn.Key, rec Record) {
				seen++
				if w, ok := want[k]; !ok || w.Writer != rec.Writer {
					t.Errorf("%v: %v, want %v", k, rec, w)
				}
			})
			for k, w := range want {
				other.Load(k, w.Value)
			}
			if seen != len(want) || Digest(s) != Digest(other) {
				t.Errorf("%d rows seen, digests %x and %x", seen, Digest(s), Digest(other))
			}
			other.Load(txn.IntKey(9, 9), nil)
			if Digest(s) == Digest(other) {
				t.Error("another row, but the same digest")
			}
		})
	}
}

// model is a simple versioned store, which keeps every version of every row that was ever written.
type model map[txn.Key][]version

// at returns the rows of a range as of version v, in the order of the range.
func (m model) at(v uint64, r txn.Range) (out []string) {
	var keys []txn.Key
	for k := range m {
		if r.Contains(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		for _, rec := range slices.Backward(m[k]) {
			if rec.Version <= v {
				if !rec.deleted {
					out = append(out, show(k, rec.Record))
				}
				break
			}
		}
	}
	if r.Reverse {
		slices.Reverse(out)
	}
	if r.Limit > 0 && len(out) > r.Limit {
		out = out[:r.Limit]
	}
	return out
}

func show(k txn.Key, r Record) string {
	return fmt.Sprintf("%v=%s@%d by %v", k, r.Value, r.Version, r.Writer)
}

func scan(s Reader, r txn.Range) (out []string) {
	s.Scan(r, func(k txn.Key, rec Record) bool {
		out = append(out, show(k, rec))
		return true
	})
	return out
}

// randomRange returns a random range within one of the groups of the function ordered.
func randomRange(r *rand.Rand) txn.Range {
	group := r.IntN(4)
	g := txn.Range{From: ordered(group, r.IntN(40)), Reverse: r.IntN(2) == 0, Limit: r.IntN(4) * r.IntN(5)}
	if g.To = ordered(group, r.IntN(40)); g.To <= g.From {
		g.To = g.From.Unit().End()
	}
	return g
}

// TestVersionedIsAModel applies a million random operations to both the versioned store and the model. The operations
// are writes, deletions, trims, and reads and scans at versions that are not trimmed.
func TestVersionedIsAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s, m := NewVersioned(), model{}
	now, trimmed := uint64(0), uint64(0)
	key := func() txn.Key {
		if r.IntN(4) == 0 {
			return txn.IntKey(2, uint64(r.IntN(40)))
		}
		return ordered(r.IntN(4), r.IntN(40))
	}
	for i := range 1_000_000 {
		switch op := r.IntN(100); {
		case op < 35:
			if r.IntN(3) > 0 {
				now++
			}
			k := key()
			rec := Record{Value: fmt.Append(nil, i), Version: now, Writer: txn.ID(i + 1)}
			s.Put(k, rec)
			m.write(k, version{Record: rec})
		case op < 50:
			now++
			k := key()
			s.Delete(k, now, txn.ID(i+1))
			m.write(k, version{Record{Version: now, Writer: txn.ID(i + 1)}, true})
		case op < 51 && i%97 == 0:
			trimmed = max(trimmed, now-min(now, r.Uint64N(200)))
			s.Trim(trimmed)
			m.trim(trimmed)
		case op < 75:
			v := trimmed + r.Uint64N(now-trimmed+1)
			k := key()
			if got, want := scan(s.At(v), txn.Point(k)), m.at(v, txn.Point(k)); !slices.Equal(got, want) {
				t.Fatalf("step %d: at %d %v is %v, want %v", i, v, k, got, want)
			}
		case op < 78:
			v := trimmed + r.Uint64N(now-trimmed+1)
			g := randomRange(r)
			if got, want := scan(s.At(v), g), m.at(v, g); !slices.Equal(got, want) {
				t.Fatalf("step %d: at %d, trimmed to %d, %v holds\n%v, want\n%v", i, v, trimmed, &g, got, want)
			}
		case op < 80:
			k := key()
			if got, want := scan(s, txn.Point(k)), m.at(now, txn.Point(k)); !slices.Equal(got, want) {
				t.Fatalf("step %d: %v is %v, want %v", i, k, got, want)
			}
			want := uint64(0)
			if list := m[k]; len(list) > 0 {
				want = list[len(list)-1].Version
			}
			if got := s.Newest(k); got != want {
				t.Fatalf("step %d: %v was changed last by version %d, want %d", i, k, got, want)
			}
		}
	}
	rows, size := 0, int64(0)
	for k, list := range m {
		if last := list[len(list)-1]; !last.deleted {
			rows++
			size += int64(len(k) + len(last.Value))
		}
	}
	seen := 0
	s.Each(func(txn.Key, Record) { seen++ })
	if s.Len() != rows || s.Bytes() != size || seen != rows {
		t.Errorf("%d rows with %d bytes, %d seen; want %d with %d", s.Len(), s.Bytes(), seen, rows, size)
	}
	s.Trim(now)
	left := 0
	s.each(func(l *versions) { left += 1 + s.kept(l) })
	if left != rows || s.replaced.Len() > 0 {
		t.Errorf("%d versions are left of %d rows once everything is trimmed, and %d are remembered", left, rows, s.replaced.Len())
	}
	// After a Trim to Newest, the store keeps a single version of each row.
	s.Trim(Newest)
	for i := range 100_000 {
		now++
		k := key()
		if r.IntN(3) == 0 {
			s.Delete(k, now, 0)
			m.write(k, version{Record{Version: now}, true})
		} else {
			rec := Record{Value: fmt.Append(nil, i), Version: now, Writer: txn.ID(i + 1)}
			s.Put(k, rec)
			m.write(k, version{Record: rec})
		}
		m.trimRow(k, Newest)
		k = key()
		if got, want := scan(s, txn.Point(k)), m.at(Newest, txn.Point(k)); !slices.Equal(got, want) {
			t.Fatalf("%v is %v, want %v", k, got, want)
		}
	}
	left = 0
	s.each(func(l *versions) {
		if left++; l.older != 0 || l.last.deleted {
			t.Errorf("%v keeps %d older versions, deleted %v", l.key, s.kept(l), l.last.deleted)
		}
	})
	if s.replaced.Len() > 0 || left != len(m) || s.Len() != len(m) {
		t.Errorf("%d versions are remembered; there are %d and %d rows, want %d", s.replaced.Len(), left, s.Len(), len(m))
	}
}

// kept returns the number of older versions that a row has.
func (s *Versioned) kept(l *versions) (n int) {
	for o := l.older; o != 0; o = s.older.at(o).before {
		n++
	}
	return n
}

// TestResetForgetsTrim checks that a Trim does not affect rows written after a later Reset, unless the store keeps no
// old versions at all.
func TestResetForgetsTrim(t *testing.T) {
	for name, tc := range map[string]struct {
		trimmed uint64
		want    string
	}{
		"old versions":   {10, "first"},
		"never kept any": {Newest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := NewVersioned(), txn.IntKey(0, 1)
			s.Trim(tc.trimmed)
			s.Reset(1)
			s.Load(k, []byte("first"))
			s.Put(k, Record{Value: []byte("second"), Version: 5, Writer: 1})
			if rec, _ := s.At(4).Get(k); string(rec.Value) != tc.want {
				t.Errorf("at version 4 the row holds %q, want %q", rec.Value, tc.want)
			}
		})
	}
}

// TestNewest checks that a store of newest versions keeps no other versions, and reports deletions until they are
// trimmed. Both must also hold after a Reset.
func TestNewest(t *testing.T) {
	s, hot, gone := NewNewest(), txn.IntKey(0, 1), ordered(1, 2)
	for range 2 {
		for v := uint64(1); v <= 100; v++ {
			s.Put(hot, Record{Value: fmt.Append(nil, v), Version: v, Writer: txn.ID(v)})
			if v == 5 {
				s.Put(gone, Record{Version: v, Writer: 5})
				s.Delete(gone, v+1, 6)
			}
		}
		s.each(func(l *versions) {
			if l.older != 0 {
				t.Errorf("%v has %d older versions", l.key, s.kept(l))
			}
		})
		if rec, _ := s.Get(hot); string(rec.Value) != "100" || s.Newest(hot) != 100 || s.Len() != 1 {
			t.Errorf("of %d rows one holds %v, of version %d", s.Len(), rec, s.Newest(hot))
		}
		s.Trim(5)
		if _, found := s.Get(gone); found || s.Newest(gone) != 6 {
			t.Errorf("the deleted row is there (%v), or of version %d, not 6", found, s.Newest(gone))
		}
		s.Trim(6)
		if left := s.Newest(gone); left != 0 || s.replaced.Len() > 0 {
			t.Errorf("the deletion by version %d is remembered, of %d", left, s.replaced.Len())
		}
		s.Reset(1)
	}
}

func (m model) write(k txn.Key, v version) {
	list := m[k]
	if n := len(list); n > 0 && list[n-1].Version == v.Version {
		list = list[:n-1]
	}
	m[k] = append(list, v)
}

func (m model) trim(v uint64) {
	for k := range m {
		m.trimRow(k, v)
	}
}

func (m model) trimRow(k txn.Key, v uint64) {
	list := m[k]
	for len(list) > 1 && list[1].Version <= v {
		list = list[1:]
	}
	if m[k] = list; len(list) == 1 && list[0].deleted && list[0].Version <= v {
		delete(m, k)
	}
}

// TestHashScan compares scans of the hash store with scans of the model, both with and without the writes of a
// transaction.
func TestHashScan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s, m := NewHash(), model{}
	for i := range 20_000 {
		k := ordered(r.IntN(4), r.IntN(40))
		switch r.IntN(3) {
		case 0:
			s.Put(k, fmt.Append(nil, i), txn.ID(i+1))
			m[k] = []version{{Record: Record{Value: fmt.Append(nil, i), Writer: txn.ID(i + 1)}}}
		case 1:
			s.Delete(k)
			delete(m, k)
		default:
			g := randomRange(r)
			if got, want := scan(s, g), m.at(0, g); !slices.Equal(got, want) {
				t.Fatalf("step %d: %v holds\n%v, want\n%v", i, &g, got, want)
			}
		}
	}
	v := View{Rows: s}
	v.Put(ordered(1, 41), []byte("new"))
	v.Delete(ordered(1, 3))
	got := 0
	if err := v.Scan(txn.Prefix(ordered(1, 0).Unit()), func(k txn.Key, _ []byte) bool {
		if k == ordered(1, 3) {
			t.Errorf("%v was deleted", k)
		}
		got++
		return true
	}); err != nil {
		t.Fatal(err)
	}
	want := len(m.at(0, txn.Prefix(ordered(1, 0).Unit()))) + 1
	if _, there := s.Get(ordered(1, 3)); there {
		want--
	}
	if got != want {
		t.Errorf("the view scans %d rows, want %d", got, want)
	}
	if err := v.Scan(txn.Range{From: txn.IntKey(1, 1), To: txn.IntKey(1, 2)}, nil); err == nil || !strings.Contains(err.Error(), "cannot be scanned") {
		t.Errorf("a scan of rows without a group: %v", err)
	}
}

// benchmarkScan scans 20 rows of a group with 3000 rows.
func benchmarkScan(b *testing.B, s Store) {
	for i := range 30_000 {
		s.Load(txn.OrderedKey(1, uint64(i%10), nil, fmt.Appendf(nil, "%06d", i)), make([]byte, 100))
	}
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		shard := uint64(r.IntN(10))
		g := txn.Range{From: txn.OrderedKey(1, shard, nil, fmt.Appendf(nil, "%06d", r.IntN(29_000))), Limit: 20}
		g.To = g.From.Unit().End()
		n := 0
		s.Scan(g, func(txn.Key, Record) bool { n++; return true })
		if n != 20 {
			b.Fatal(n)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	b.Run("hash", func(b *testing.B) { benchmarkScan(b, NewHash()) })
	b.Run("versioned", func(b *testing.B) { benchmarkScan(b, NewVersioned()) })
}

func BenchmarkUpdate(b *testing.B) {
	b.Run("hash", func(b *testing.B) {
		s := NewHash()
		benchmarkUpdate(b, s, func(k txn.Key, value []byte, _ uint64) { s.Put(k, value, 1) })
	})
	b.Run("versioned", func(b *testing.B) {
		s := NewVersioned()
		benchmarkUpdate(b, s, func(k txn.Key, value []byte, version uint64) {
			s.Put(k, Record{Value: value, Version: version, Writer: 1})
			if version%1000 == 0 {
				s.Trim(version - 10_000)
			}
		})
	})
}

func benchmarkUpdate(b *testing.B, s Store, put func(k txn.Key, value []byte, version uint64)) {
	value := make([]byte, 100)
	keys := make([]txn.Key, 100_000)
	for i := range keys {
		keys[i] = txn.IntKey(1, uint64(i))
		s.Load(keys[i], value)
	}
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for version := uint64(20_000); b.Loop(); version++ {
		k := keys[r.IntN(len(keys))]
		s.Get(k)
		put(k, value, version)
	}
}

// TestOperations checks the number of operations for which simulators charge CPU time. An access to a single row counts
// as one operation, regardless of the method.
func TestOperations(t *testing.T) {
	for name, s := range map[string]Store{"hash": NewHash(), "versioned": NewVersioned()} {
		s.Load(ordered(1, 1), []byte("v"))
		s.Load(txn.IntKey(1, 1), []byte("v"))
		for what, f := range map[string]func(){
			"a row":                   func() { s.Get(txn.IntKey(1, 1)) },
			"a row of a group":        func() { s.Get(ordered(1, 1)) },
			"a row as a range":        func() { scan(s, txn.Point(ordered(1, 1))) },
			"a row that is not there": func() { scan(s, txn.Point(ordered(1, 2))) },
		} {
			before := s.Ops()
			if f(); s.Ops() != before+1 {
				t.Errorf("%s: %s costs %d operations, want 1", name, what, s.Ops()-before)
			}
		}
	}
	h := NewHash()
	h.Load(ordered(1, 1), []byte("v"))
	h.Load(txn.IntKey(1, 1), []byte("w"))
	for _, k := range []txn.Key{ordered(1, 1), ordered(1, 2), txn.IntKey(1, 1), txn.IntKey(1, 2)} {
		before := h.Ops()
		value, found := h.Value(k)
		if h.Ops() != before+1 {
			t.Errorf("the value of %v costs %d operations, want 1", k, h.Ops()-before)
		}
		if r, there := h.Get(k); found != there || string(value) != string(r.Value) {
			t.Errorf("the value of %v is %q, %v, and its record %q, %v", k, value, found, r.Value, there)
		}
	}
}

// TestReplace checks that the new rows replace all existing rows, except rows that every node stores.
func TestReplace(t *testing.T) {
	s := NewHash()
	everywhere, kept, gone := txn.EverywhereKey(1, []byte("x")), txn.StringKey(1, "a"), ordered(1, 2)
	s.Load(everywhere, []byte("everywhere"))
	s.Put(kept, []byte("old"), 1)
	s.Put(gone, []byte("old"), 1)
	s.Replace([]Row{{kept, Record{Value: []byte("new"), Writer: 7}}})
	if r, ok := s.Get(kept); !ok || string(r.Value) != "new" || r.Writer != 7 || s.Len() != 2 {
		t.Errorf("%v, %v of %d rows", r, ok, s.Len())
	}
	if v, ok := s.Value(everywhere); !ok || string(v) != "everywhere" {
		t.Errorf("what every node holds is %q, %v", v, ok)
	}
	if _, ok := s.Get(gone); ok {
		t.Error("a row is there that did not come")
	}
}
