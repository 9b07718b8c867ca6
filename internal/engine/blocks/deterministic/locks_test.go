package deterministic

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
)

// Each script is a sequence of steps on one key, together with the locks that each step grants. r1 and w1 are the
// requests of transaction 1 for a shared and an exclusive lock; -1 is its release.
func TestLockTable(t *testing.T) {
	tests := map[string]struct{ steps, granted string }{
		"readers share":                         {"r1 r2 r3", "1 | 2 | 3"},
		"a writer excludes":                     {"w1 r2 w3 r4", "1 | - | - | -"},
		"a writer waits for all readers":        {"r1 r2 w3 -1 -2", "1 | 2 | - | - | 3"},
		"a reader does not overtake a writer":   {"r1 w2 r3 -1 -2", "1 | - | - | 2 | 3"},
		"readers behind a writer come together": {"w1 r2 r3 w4 r5 -1 -3 -2 -4", "1 | - | - | - | - | 2 3 | - | 4 | 5"},
		"one writer at a time":                  {"w1 w2 w3 -1 -2", "1 | - | - | 2 | 3"},
		"the last reader may leave first":       {"r1 r2 -2 w3 -1", "1 | 2 | - | - | 3"},
		"a freed key starts anew":               {"w1 -1 w2 -2 r3", "1 | - | 2 | - | 3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			table := newLockTable()
			key := txn.IntKey(0, 1)
			owners := map[byte]*execution{}
			names := map[*execution]byte{}
			var got []string
			for step := range strings.FieldsSeq(tc.steps) {
				who := step[1]
				e := owners[who]
				if e == nil {
					e = &execution{}
					owners[who], names[e] = e, who
				}
				var granted []string
				if step[0] == '-' {
					table.release(e, key, func(e *execution) { granted = append(granted, string(names[e])) })
				} else if table.acquire(e, key, step[0] == 'w') {
					granted = append(granted, string(who))
				}
				if len(granted) == 0 {
					granted = []string{"-"}
				}
				got = append(got, strings.Join(granted, " "))
			}
			if s := strings.Join(got, " | "); s != tc.granted {
				t.Errorf("granted %q, want %q", s, tc.granted)
			}
		})
	}
}

// At any time, a key is held by either one writer or any number of readers. Every request is granted eventually, and
// the table is empty at the end.
func TestLockTableRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		table := newLockTable()
		type holder struct {
			e     *execution
			key   txn.Key
			write bool
		}
		var holding, waiting []holder
		check := func() {
			writers, readers := map[txn.Key]int{}, map[txn.Key]int{}
			for _, h := range holding {
				if h.write {
					writers[h.key]++
				} else {
					readers[h.key]++
				}
			}
			for k, n := range writers {
				if n > 1 || readers[k] > 0 {
					t.Fatalf("seed %d: %d writers and %d readers hold %v", seed, n, readers[k], k)
				}
			}
		}
		for range 2000 {
			if len(holding)+len(waiting) < 20 && r.IntN(2) == 0 {
				h := holder{&execution{}, txn.IntKey(0, uint64(r.IntN(3))), r.IntN(3) == 0}
				if table.acquire(h.e, h.key, h.write) {
					holding = append(holding, h)
				} else {
					waiting = append(waiting, h)
				}
			} else if len(holding) > 0 {
				i := r.IntN(len(holding))
				h := holding[i]
				holding = append(holding[:i], holding[i+1:]...)
				table.release(h.e, h.key, func(e *execution) {
					for j, w := range waiting {
						if w.e == e {
							holding = append(holding, w)
							waiting = append(waiting[:j], waiting[j+1:]...)
							return
						}
					}
					t.Fatal("granted to one who does not wait")
				})
			} else if len(waiting) > 0 {
				t.Fatalf("seed %d: %d wait and nobody holds", seed, len(waiting))
			}
			check()
			if table.empty() != (len(holding)+len(waiting) == 0) {
				t.Fatal("empty is wrong")
			}
		}
	}
}

func BenchmarkLockTable(b *testing.B) {
	table := newLockTable()
	var keys []txn.Key
	for i := range uint64(1000) {
		keys = append(keys, txn.IntKey(0, i))
	}
	e, f := &execution{}, &execution{}
	b.ReportAllocs()
	for i := range b.N {
		k := keys[i%len(keys)]
		table.acquire(e, k, true)
		table.acquire(f, k, false)
		table.release(e, k, func(*execution) {})
		table.release(f, k, func(*execution) {})
	}
}
