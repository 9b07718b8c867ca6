package detock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// nowhere is an environment in which nothing happens.
type nowhere struct{}

func (nowhere) Now() time.Duration                   { return 0 }
func (nowhere) Send(geo.NodeID, protocol.Message)    {}
func (nowhere) After(time.Duration, protocol.Timer)  {}
func (nowhere) Offload(func() int64, protocol.Timer) {}
func (nowhere) Reply(txn.Outcome)                    {}
func (nowhere) Mark(*coverage.Mark)                  {}
func (nowhere) Buggify(*buggify.Point) bool          { return false }
func (nowhere) Rand() *rand.Rand                     { return rand.New(rand.NewPCG(1, 1)) }

// A node may receive a report that another partition sent after a later cut. The node keeps the report until it reaches
// that cut itself, and discards its graph there.
func TestGraphsOfLaterCuts(t *testing.T) {
	params, errs := Engine.Resolve(map[string]string{"homeLogs": "Regions", "batchCopies": "2"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	r := newReplica(protocol.Config{Self: 0, Topology: simload.ThreeRegions(2), Params: params, Procedures: simload.Procedures, Store: store.NewHash(), Env: nowhere{}}, false)
	a, b := deterministic.Place{Position: 1}, deterministic.Place{Position: 2}
	r.Receive(1, &Graph{Vertices: []deterministic.Vertex{{Place: a, Participants: 2, After: []deterministic.Place{b}}}, Since: 9})
	if n := len(r.resolver.graph.numbers); n != 0 {
		t.Errorf("the graph has %d transactions of a cut that is ahead", n)
	}
	r.Receive(1, &Graph{Vertices: []deterministic.Vertex{{Place: a, Participants: 2, After: []deterministic.Place{b}}}})
	if n := len(r.resolver.graph.numbers); n != 2 {
		t.Errorf("the graph has %d transactions, want those that it was told of", n)
	}
}

// A copy that restarts discards its graph. If a separate core is searching the graph, the graph is discarded after the
// search. Deadlocks of that search are not reported, and reports that arrive in the meantime are kept for the next
// search.
func TestResetWhileSearching(t *testing.T) {
	a, b := deterministic.Place{Position: 1}, deterministic.Place{Position: 2}
	circle := []deterministic.Vertex{{Place: a, Participants: 1, After: []deterministic.Place{b}}, {Place: b, Participants: 1, After: []deterministic.Place{a}}}
	s := &resolver{apart: true, searching: true, gathering: true, told: []Graph{{Vertices: circle}}}
	s.graph.init()
	s.search([]Graph{{Vertices: circle}})
	steps := s.graph.steps
	if len(s.found) != 1 || len(s.graph.numbers) != 2 {
		t.Fatalf("the search has found %v among %d transactions", s.found, len(s.graph.numbers))
	}
	s.reset()
	if len(s.graph.numbers) != 2 || len(s.told) != 0 {
		t.Errorf("while the search goes on %d transactions are left to it, and %v waits for the next", len(s.graph.numbers), s.told)
	}
	s.told = []Graph{{Vertices: circle[:1]}}
	s.searched()
	if len(s.graph.numbers) != 0 || s.found != nil || s.resolved != 0 || s.graph.steps != steps || len(s.told) != 1 {
		t.Errorf("after it %d transactions are left, %v is found, %d deadlocks are resolved, %d steps are made, %v waits for the next",
			len(s.graph.numbers), s.found, s.resolved, s.graph.steps, s.told)
	}
	s.search(s.told)
	s.reset()
	if len(s.graph.numbers) != 0 || s.graph.steps <= steps {
		t.Errorf("with nobody searching %d transactions are left, %d steps are made", len(s.graph.numbers), s.graph.steps)
	}
}
