package store

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/geobench/geobench/internal/txn"
)

// The store does what a Go map does, whatever the keys and in whatever order.
func TestStoreIsAMap(t *testing.T) {
	keys := map[string]func(*rand.Rand) txn.Key{
		"few":       func(r *rand.Rand) txn.Key { return txn.IntKey(txn.Table(r.IntN(2)), uint64(r.IntN(20))) },
		"many":      func(r *rand.Rand) txn.Key { return txn.IntKey(1, uint64(r.IntN(5000))) },
		"far apart": func(r *rand.Rand) txn.Key { return txn.IntKey(127, uint64(r.IntN(500))<<40) },
		"strings":   func(r *rand.Rand) txn.Key { return txn.StringKey(3, string(rune('a'+r.IntN(500)))) },
		"8 letters": func(r *rand.Rand) txn.Key { return txn.StringKey(0, "client"+string(rune('0'+r.IntN(70)))) },
		"composite": func(r *rand.Rand) txn.Key {
			return txn.CompositeKey(2, uint64(r.IntN(30)), make([]byte, r.IntN(5)))
		},
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			s, want := New(), map[txn.Key]Record{}
			for i := range 40_000 {
				k := key(r)
				switch r.IntN(5) {
				case 0, 1:
					v := make([]byte, r.IntN(4))
					s.Put(k, v, txn.ID(i))
					want[k] = Record{v, txn.ID(i)}
				case 2:
					s.Delete(k)
					delete(want, k)
				default:
					got, ok := s.Get(k)
					w, wok := want[k]
					if ok != wok || got.Version != w.Version || !bytes.Equal(got.Value, w.Value) {
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
			other, seen := New(), 0
			s.Each(func(k txn.Key, rec Record) {
				seen++
				if w, ok := want[k]; !ok || w.Version != rec.Version {
					t.Errorf("%v: %v, want %v", k, rec, w)
				}
			})
			for k, w := range want {
				other.Put(k, w.Value, 0)
			}
			if seen != len(want) || s.Digest() != other.Digest() {
				t.Errorf("%d rows seen, digests %x and %x", seen, s.Digest(), other.Digest())
			}
			other.Put(txn.IntKey(9, 9), nil, 0)
			if s.Digest() == other.Digest() {
				t.Error("another row, but the same digest")
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	s, value := New(), make([]byte, 100)
	keys := make([]txn.Key, 100_000)
	for i := range keys {
		keys[i] = txn.IntKey(1, uint64(i))
		s.Put(keys[i], value, 0)
	}
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		k := keys[r.IntN(len(keys))]
		s.Get(k)
		s.Put(k, value, 1)
	}
}
