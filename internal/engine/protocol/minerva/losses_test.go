package minerva_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/minerva"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Replicas are lost one after another, each as soon as all live replicas report full replication. Meanwhile, one
// replica is disconnected from all other replicas, or from all but the replica that is lost first. Once all other
// replicas are new incarnations, they have the transactions that this replica lacks only as effects in their rows.
// Therefore they must not report full replication until the disconnected replica has committed all transactions from
// before the first loss. It catches up when it is reconnected.
func TestLossesWaitForWhoIsCutOff(t *testing.T) {
	t.Run("from all", func(t *testing.T) { lossesWait(t, 0, 1, 3, 4) })
	t.Run("from all but one", func(t *testing.T) { lossesWait(t, 0, 3, 4) })
}

// lossesWait runs the test with the links between region 2 and the given regions cut.
func lossesWait(t *testing.T, others ...geo.Region) {
	const off = geo.Region(2)
	delays := make([][]float64, 5)
	for i := range delays {
		for range delays {
			delays[i] = append(delays[i], 20)
		}
	}
	topology := simload.Topology(1, 1, delays)
	params := protocoltest.Params(t, minerva.Engine, nil)
	s := sim.New(sim.Config{Topology: topology, Engine: minerva.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 3, CheckCodec: true, Params: params})
	simload.FillLayout(minerva.Engine.Layout(topology, params), 20, 100, s.Store)
	committed := 0
	var clients []*simload.Clients
	for r := range geo.Region(5) {
		clients = append(clients, simload.Add(s, r, 3, simload.Load{
			Clients: 2, Think: 20 * time.Millisecond, Until: 25 * time.Second,
			Next: func(r *rand.Rand) string { return fmt.Sprintf("s%d-1 a%d+1", r.IntN(10), 10+r.IntN(10)) },
		}))
	}
	cut := func(cut bool) {
		for _, r := range others {
			if cut {
				s.Cut(off, r)
			} else {
				s.Heal(off, r)
			}
		}
	}
	var losses []time.Duration
	victims := []geo.NodeID{1, 3, 4, 0}
	away := false
	for at := 4 * time.Second; at < 25*time.Second; at += 20 * time.Millisecond {
		s.At(at, func() {
			if away || len(victims) == 0 || !s.FullyReplicated() {
				return
			}
			n := victims[0]
			victims, away = victims[1:], true
			losses = append(losses, s.Now())
			s.Crash(n)
			s.At(s.Now()+50*time.Millisecond, func() {
				away = false
				s.Replace(n)
			})
		})
	}
	const heard = 14 * time.Second
	s.At(3*time.Second, func() { cut(true) })
	s.At(heard, func() { cut(false) })
	s.Run(60 * time.Second)

	for _, c := range clients {
		committed += c.Outcomes[txn.Committed]
		if c.Open() > 0 {
			t.Errorf("%d transactions have no answer", c.Open())
		}
	}
	if len(losses) != 4 || losses[0] >= heard || losses[1] < heard || committed < 500 {
		t.Errorf("nodes are lost at %v, want one before %v and three behind; %d transactions are committed", losses, heard, committed)
	}
	for n := range geo.NodeID(5) {
		if sum := simload.Sum(s.Store(n)); sum != 2000 {
			t.Errorf("the rows of node %d come to %d, want 2000", n, sum)
		}
		if store.Digest(s.Store(n)) != store.Digest(s.Store(0)) {
			t.Errorf("the copy of node %d is another one than that of node 0", n)
		}
	}
	if s.Pending() > 0 || !s.FullyReplicated() {
		t.Errorf("%d pending, all copies there: %v", s.Pending(), s.FullyReplicated())
	}
}
