package janus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// quiet is an environment in which no time passes and no message arrives.
type quiet struct{ rng *rand.Rand }

func (quiet) Now() time.Duration                   { return 0 }
func (quiet) Send(geo.NodeID, protocol.Message)    {}
func (quiet) After(time.Duration, protocol.Timer)  {}
func (quiet) Offload(func() int64, protocol.Timer) {}
func (quiet) Reply(txn.Outcome)                    {}
func (quiet) Mark(*coverage.Mark)                  {}
func (quiet) Buggify(*buggify.Point) bool          { return false }
func (q quiet) Rand() *rand.Rand                   { return q.rng }

// Instances of random graphs commit in random order. After each commit, an instance is resolved if and only if all its
// direct and indirect dependencies are committed. The components are the strongly connected components of the graph.
func TestComponents(t *testing.T) {
	params, _ := Engine.Resolve(nil)
	components := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := newReplica(protocol.Config{
			Topology: simload.TwoRegions(1), Params: params, Procedures: simload.Procedures, Store: store.NewHash(), Env: quiet{rng},
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

// A decision about an instance of another partition keeps its dependencies, even if all replicas of that instance have
// ordered it. An instance of this partition that is not ordered yet may form a component with it.
func TestStableInstanceOfAnotherPartitionMayBeInACycle(t *testing.T) {
	here, elsewhere := instance(0, 1), instance(2, 1)
	s := newScripted(t, 2, 2, 1) // nodes 1 and 3 hold partition 1
	s.hear(0, preAccept(here, "a0+1 a1+1"))
	s.hear(0, &Commit{Proposal{ID: here, Deps: []Dep{{ID: elsewhere, Partition: 0}}}})
	s.sends("to 0: pre-accept ok 1: after {}", "to 0: inquire [2/1]")
	s.hear(2, &Progress{Stable: 1})
	s.hear(0, &Commit{Proposal{ID: elsewhere, Deps: []Dep{{ID: here, Partition: 0}}, T: preAccept(elsewhere, "a0+1").T}})
	if n := s.r.counters.components; n != 1 {
		t.Errorf("there are %d components of several instances, want one of the two", n)
	}
	if s.r.graph.open != 0 {
		t.Errorf("%d instances are open", s.r.graph.open)
	}
}

// A node that does not hold an instance does not know the instance's dependencies, even if it knows that all holders
// have ordered the instance. Only the answer of a holder counts.
func TestOnlyHoldersKnowAncestors(t *testing.T) {
	here, elsewhere := instance(0, 1), instance(2, 1)
	s := newScripted(t, 2, 2, 1) // nodes 1 and 3 hold partition 1
	s.hear(0, preAccept(here, "a0+1 a1+1"))
	s.hear(0, &Commit{Proposal{ID: here, Deps: []Dep{{ID: elsewhere, Partition: 0}}}})
	s.sent = nil
	s.pass(2 * time.Second)
	const prepare = "prepare 2/1, ballot 1 of 1"
	s.sends("to 0: "+prepare, "to 2: "+prepare, "to 3: "+prepare, "to 3: query rows of [0]")

	other := newScripted(t, 2, 2, 3)
	other.hear(2, &Progress{Stable: 1})
	other.hear(1, &Prepare{elsewhere, ballot(1, 1)})
	other.sends("to 1: ancestors: 2/1 after {}")

	s.hear(3, &Ancestors{[]Ancestor{{ID: elsewhere}}})
	if n := s.r.graph.open; n != 2 {
		t.Errorf("%d instances are open, want both", n)
	}
	s.hear(0, &Ancestors{[]Ancestor{{ID: elsewhere, Deps: []Dep{{ID: here, Partition: 0}}}}})
	if n := s.r.counters.components; n != 1 || s.r.graph.open != 0 {
		t.Errorf("there are %d components of several instances, want one of the two; %d are open", n, s.r.graph.open)
	}
}
