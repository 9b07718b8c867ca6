package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
)

// operation is a change of a store by an engine.
type operation func(Store)

// operations returns n operations on few rows and groups. In a versioned store, they write, delete and trim, at
// ascending versions that start with first.
func operations(r *rand.Rand, n int, first uint64) (ops []operation) {
	for i := range n {
		k := txn.IntKey(1, uint64(r.IntN(3000)))
		if r.IntN(3) == 0 {
			k = ordered(r.IntN(3), r.IntN(200))
		}
		version, writer := first+uint64(i), txn.MakeID(3, uint64(i))
		value := make([]byte, r.IntN(40))
		for j := range value {
			value[j] = byte(r.Uint32())
		}
		gone, trim := r.IntN(4) == 0, r.IntN(10) == 0
		ops = append(ops, func(s Store) {
			switch s := s.(type) {
			case *Hash:
				if gone {
					s.Delete(k)
				} else {
					s.Put(k, value, writer)
				}
			case *Versioned:
				if gone {
					s.Delete(k, version, writer)
				} else {
					s.Put(k, Record{value, version, writer})
				}
				if trim {
					s.Trim(version - min(version, 50))
				}
			}
		})
	}
	return ops
}

func apply(s Store, ops []operation) {
	for _, o := range ops {
		o(s)
	}
}

// contents describes the complete observable state of a store, at all versions below last.
func contents(s Store, last uint64) (lines []string) {
	lines = append(lines, fmt.Sprint(s.Len(), s.Bytes(), s.Ops()))
	note := func(what any, k txn.Key, r Record) {
		lines = append(lines, fmt.Sprint(what, k, r.Version, r.Writer, r.Value))
	}
	s.Each(func(k txn.Key, r Record) { note("row", k, r) })
	v, ok := s.(*Versioned)
	if ok {
		ops := v.ops
		defer func() { v.ops = ops }() // these reads must not count as operations
	}
	if !ok {
		slices.Sort(lines)
		return lines
	}
	v.EachChange(func(k txn.Key, r Record, deleted bool) {
		note(deleted, k, r)
		if k.Ordered() {
			return
		}
		for at := v.trimmed; v.trimmed < last && at < last; at += 97 {
			if old, ok := v.At(at).Get(k); ok {
				note(at, k, old)
			}
		}
	})
	slices.Sort(lines)
	return lines
}

// TestFrozen checks that a store made from a Frozen behaves like the original store, which changes while the Frozen is
// written.
func TestFrozen(t *testing.T) {
	for name, empty := range map[string]func() Store{
		"hash": func() Store { return NewHash() }, "versioned": func() Store { return NewVersioned() }, "newest": func() Store { return NewNewest() },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, 1))
				const n = 2000
				before, during, after := operations(r, r.IntN(n), 1), operations(r, n, n+1), operations(r, n, 2*n+1)
				s := empty()
				apply(s, before)
				apply(s, during[:n/2])
				then, frozen := contents(s, 3*n+1), s.Freeze()
				parts := make(chan [][]byte, 1)
				write := func() {
					var all [][]byte
					for more := true; more; {
						var part []byte
						part, more = frozen.Append(nil, 500)
						all = append(all, part)
					}
					parts <- all
				}
				if seed%2 == 0 {
					go write()
				}
				apply(s, during[n/2:])
				if seed%2 == 1 { // check that the Frozen does not contain later changes
					write()
				}
				thawed, most := empty(), 0
				for _, part := range <-parts {
					most = max(most, len(part))
					if err := thawed.Thaw(part); err != nil {
						t.Fatal(err)
					}
				}
				if most > 500+2000 {
					t.Errorf("a part of %d bytes", most)
				}
				compare := func(want []string) {
					t.Helper()
					got := contents(thawed, 3*n+1)
					for i := range want {
						if i >= len(got) || got[i] != want[i] {
							t.Fatalf("seed %d: line %d of %d (%d): %s, want %s", seed, i, len(got), len(want), got[min(i, len(got)-1)], want[i])
						}
					}
				}
				compare(then)
				apply(thawed, during[n/2:])
				compare(contents(s, 3*n+1))
				apply(s, after)
				apply(thawed, after)
				want := contents(s, 3*n+1)
				compare(want)
				if len(want) < 100 {
					t.Errorf("seed %d: %d lines", seed, len(want))
				}
			}
		})
	}
}

// TestThawRefuses checks that invalid parts are rejected.
func TestThawRefuses(t *testing.T) {
	hash, versions := NewHash(), NewVersioned()
	hash.Put(txn.IntKey(1, 1), []byte("x"), 1)
	versions.Put(txn.IntKey(1, 1), Record{[]byte("x"), 1, 1})
	ofHash, _ := hash.Freeze().Append(nil, 1000)
	ofVersions, _ := versions.Freeze().Append(nil, 1000)
	if NewHash().Thaw(ofVersions) == nil || NewVersioned().Thaw(ofHash) == nil {
		t.Error("the rows of another kind of store are taken")
	}
	if v := NewVersioned(); v.Thaw(ofVersions) != nil || v.Thaw(ofVersions) == nil {
		t.Error("a row is taken twice")
	}
	for n := 1; n < len(ofHash); n++ {
		if err := NewHash().Thaw(ofHash[:n:n]); err == nil && n > 3 {
			t.Errorf("%d of %d bytes are taken for a part", n, len(ofHash))
		}
	}
	for _, part := range [][]byte{ofHash, ofVersions} {
		for i := range part {
			for bit := range 8 {
				damaged := slices.Clone(part)
				damaged[i] ^= 1 << bit
				_, _ = NewHash().Thaw(damaged), NewVersioned().Thaw(damaged)
			}
		}
	}
}
