package protocoltest

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

// askMasters makes nodes ask other nodes for the homes of rows.
var askMasters = map[string]string{"masters": "partition"}

// Masters runs suites on an engine whose nodes ask the partitions of their region for the homes of rows. The guarantees
// are the same as without these lookups, whether rows move or not.
func Masters(t *testing.T, engine *protocol.Engine) {
	t.Run("rows stay", func(t *testing.T) { Serializable(t, engine, askMasters, 2) })
	t.Run("rows move", func(t *testing.T) { Remastering(t, engine, askMasters) })
}

// MastersLaw measures how the choice of the coordinator affects the latency. If the coordinator holds the key, there is
// no extra latency. If the coordinators alternate, half of the transactions arrive at the partition without the key.
// The latency of these transactions increases by the result of lookup, which is locallog.LookupLaw.
func MastersLaw(t *testing.T, engine *protocol.Engine, lookup func(*geo.Topology, protocol.Params, geo.Region) time.Duration) {
	topology := simload.TwoRegions(2)
	p := Params(t, engine, askMasters)
	mustAccept(t, engine, topology, p)
	run := func(c geo.Coordinators, next func(r *rand.Rand) string) (l *simload.Clients, lookups int64) {
		s := sim.New(sim.Config{
			Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts, Coordinators: c,
		})
		simload.Fill(topology, 4000, 0, s.Store)
		l = simload.Add(s, 1, 1, simload.Load{Clients: 3, Think: 50 * time.Millisecond, From: time.Second, Until: 20 * time.Second, Next: next})
		s.Run(22 * time.Second)
		return l, Counter(s, topology, "master_lookups")
	}
	// The last two of every four rows have region b as their home. The second of these two is in partition 1.
	single := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", 4*r.IntN(1000)+2+r.IntN(2)) }
	both := func(r *rand.Rand) string {
		n := 4*r.IntN(1000) + 2
		return fmt.Sprintf("a%d+1 a%d+1", n, n+1)
	}
	law := engine.Law(topology, p, 1, []geo.Region{1})
	near := func(what string, got, want time.Duration) {
		if off := 100 * (float64(got)/float64(want) - 1); off > 5 || off < -5 {
			t.Errorf("%s: %v, the law says %v (%+.1f%%)", what, got, want, off)
		}
		t.Logf("%s: %v, the law says %v", what, got, want)
	}
	l, lookups := run(geo.FirstKey, single)
	near("by the first key", l.Percentile(50), law)
	if lookups > 0 {
		t.Errorf("%d lookups, though all coordinators have the key", lookups)
	}
	l, lookups = run(geo.RoundRobin, single)
	// Half of the transactions need no lookup and are faster. The 25th percentile lies in that half, and the 75th in the
	// slower half.
	near("by turns, who has the key", l.Percentile(25), law)
	near("by turns, who has not", l.Percentile(75), law+lookup(topology, p, 1))
	if share := float64(lookups) / float64(l.Sent()); share < 0.47 || share > 0.53 {
		t.Errorf("%d lookups of %d transactions, want half", lookups, l.Sent())
	}
	l, lookups = run(geo.FirstKey, both)
	// Either partition holds only one of the two rows, so every transaction needs a lookup regardless of its coordinator.
	if lookups != int64(l.Sent()) {
		t.Errorf("%d lookups of %d transactions in two partitions, want all", lookups, l.Sent())
	}
}
