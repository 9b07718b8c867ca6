package janus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// quiet is a world in which nothing happens.
type quiet struct{ rng *rand.Rand }

func (quiet) Now() time.Duration                  { return 0 }
func (quiet) Send(geo.NodeID, protocol.Message)   {}
func (quiet) After(time.Duration, protocol.Timer) {}
func (quiet) Reply(txn.Outcome)                   {}
func (q quiet) Rand() *rand.Rand                  { return q.rng }

// Instances of random graphs commit in random order. After each, those are resolved of which everything that they depend on
// is committed, in the strongly connected components of the graph.
func TestComponents(t *testing.T) {
	params, _ := Engine.Resolve(nil)
	components := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := newReplica(protocol.Config{
			Topology: simtest.TwoRegions(1), Params: params, Procedures: simtest.Procedures, Store: store.NewHash(), Env: quiet{rng},
		})
		n := 1 + rng.IntN(16)
		density := 1 + rng.IntN(4)
		id := func(i int) Instance { return instance(geo.NodeID(i%2), uint64(i/2+1)) }
		deps := make([][]Dep, n)
		reach := make([][]bool, n)
		for i := range n {
			reach[i] = make([]bool, n)
			reach[i][i] = true
			for range rng.IntN(density + 1) {
				j := rng.IntN(n)
				if j != i {
					reach[i][j] = true
					deps[i] = append(deps[i], Dep{ID: id(j)})
				}
			}
			slices.SortFunc(deps[i], compareDeps)
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		committed := make([]bool, n)
		for _, i := range rng.Perm(n) {
			r.commit(r.know(id(i)), true, deps[i])
			committed[i] = true
			if rng.IntN(3) > 0 {
				r.graph.run()
				check(t, seed, r, id, reach, committed)
			}
		}
		r.graph.run()
		check(t, seed, r, id, reach, committed)
		components += int(r.counters.components)
		if r.graph.open != 0 {
			t.Fatalf("seed %d: %d instances are open", seed, r.graph.open)
		}
	}
	if components < 1000 {
		t.Errorf("there are %d components of several instances", components)
	}
}

func check(t *testing.T, seed uint64, r *Replica, id func(int) Instance, reach [][]bool, committed []bool) {
	t.Helper()
	for i := range reach {
		rec := r.know(id(i))
		want := true
		var members []Instance
		for j := range reach {
			want = want && (!reach[i][j] || committed[j])
			if reach[i][j] && reach[j][i] {
				members = append(members, id(j))
			}
		}
		if rec.resolved != want {
			t.Fatalf("seed %d: that %v is resolved is %v, want %v", seed, rec.id, rec.resolved, want)
		}
		if !want || len(members) == 1 && rec.scc == nil {
			continue
		}
		var got []Instance
		for j := range reach {
			if m := r.know(id(j)); m.together(rec) {
				got = append(got, m.id)
			}
		}
		slices.Sort(members)
		slices.Sort(got)
		if !slices.Equal(got, members) {
			t.Fatalf("seed %d: %v is together with %v, want %v", seed, rec.id, got, members)
		}
	}
}
