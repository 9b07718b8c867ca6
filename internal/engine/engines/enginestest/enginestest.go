// Package enginestest runs engines in the simulator to test the figures that they report.
package enginestest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	// accounts is the number of rows in the load of Figures, and hot the number of contended rows among them.
	accounts, hot = 100, 5
	// sending is the time for which clients send transactions, and ends is the time at which the simulation stops.
	sending, ends = 2 * time.Second, 4 * time.Second
)

// Figures runs an engine with its default parameters, and once with each non-default word of each parameter that has a
// list of allowed words. It returns, by name, the largest final reading of all nodes and runs. It fails if a reading is
// not declared or a counter decreases.
func Figures(t *testing.T, e *protocol.Engine) map[string]protocol.Reading {
	t.Helper()
	out := map[string]protocol.Reading{}
	for _, given := range variants(e) {
		p, errs := e.Resolve(given)
		if len(errs) > 0 {
			continue // the word is incompatible with defaults of other parameters
		}
		topology := simload.ThreeRegions(2)
		if e.Accepts(topology, p) != nil {
			topology = simload.TwoRegions(2)
		}
		if err := e.Accepts(topology, p); err != nil {
			if given == nil {
				t.Fatalf("engine %s does not take the topologies of this test: %v", e.Name, err)
			}
			continue
		}
		play(t, e, p, topology, out)
	}
	return out
}

// variants returns the sets of parameters that Figures runs; nil means the defaults.
func variants(e *protocol.Engine) []map[string]string {
	out := []map[string]string{nil}
	for _, p := range e.Parameters {
		for _, word := range p.OneOf {
			if word != p.Default {
				out = append(out, map[string]string{p.Name: word})
			}
		}
	}
	return out
}

func play(t *testing.T, e *protocol.Engine, p protocol.Params, topology *geo.Topology, out map[string]protocol.Reading) {
	t.Helper()
	failed := false
	s := sim.New(sim.Config{Topology: topology, Engine: e, Params: p, Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Figures: func(err error) {
			if !failed {
				failed = true
				t.Error(err)
			}
		}})
	simload.FillLayout(e.Layout(topology, p), accounts, 50, s.Store)
	for r := range topology.Regions {
		simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 10, Until: sending, Next: transfer})
	}
	s.Run(ends)
	for n := range geo.NodeID(topology.Nodes()) {
		for _, r := range s.Readings(n) {
			if was, ok := out[r.Name]; !ok || r.Value > was.Value {
				out[r.Name] = r
			}
		}
	}
}

// transfer returns a transfer between two accounts, the first of which is often contended, or a read of one account.
func transfer(r *rand.Rand) string {
	from, to := r.IntN(accounts/2), accounts/2+r.IntN(accounts/2)
	if r.IntN(2) == 0 {
		from = r.IntN(hot)
	}
	if r.IntN(5) == 0 {
		return fmt.Sprintf("r%d", from)
	}
	return fmt.Sprintf("a%d+1 a%d-1", from, to)
}
