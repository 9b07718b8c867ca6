package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/sim"
)

// disturbed runs a closed loop with a single client in the second region, which is 100 ms away from the first region.
// It returns the client's median latency in the seconds before, during and after the change.
func disturbed(costs sim.Costs, change func(s *sim.Sim, on bool)) (p50 [3]time.Duration) {
	for i := range p50 {
		s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures, Costs: costs})
		from := time.Duration(2*i+1) * time.Second
		l := simload.Add(s, 1, 1, simload.Load{Clients: 1, Next: func(*rand.Rand) string { return "r0" }, From: from, Until: from + time.Second})
		s.At(2*time.Second, func() { change(s, true) })
		s.At(4*time.Second, func() { change(s, false) })
		s.Run(10 * time.Second)
		p50[i] = l.Percentile(50)
	}
	return p50
}

func near(got, want time.Duration) bool { return (got - want).Abs() <= want/50+50*time.Microsecond }

func TestDisturbances(t *testing.T) {
	const hop = 400 * time.Microsecond
	busy := sim.Costs{Message: time.Millisecond}
	for name, tc := range map[string]struct {
		costs         sim.Costs
		change        func(s *sim.Sim, on bool)
		normal, under time.Duration
	}{
		"a longer link": {
			change: func(s *sim.Sim, on bool) {
				links := [][]geo.Link{{{Delay: hop / 2}, {Delay: 50 * time.Millisecond}}, {{Delay: 50 * time.Millisecond}, {Delay: hop / 2}}}
				if on {
					links[1][0].Delay = 80 * time.Millisecond
				}
				s.SetLinks(links)
			},
			normal: 100*time.Millisecond + hop, under: 130*time.Millisecond + hop,
		},
		// The request is a step that sends a message and takes 2 ms. The first node's answer takes another 2 ms, and so does
		// the answer to the client.
		"a slow CPU": {
			costs:  busy,
			change: func(s *sim.Sim, on bool) { s.Slow(0, map[bool]int64{true: 300, false: 100}[on]) },
			normal: 100*time.Millisecond + hop + 6*time.Millisecond, under: 100*time.Millisecond + hop + 10*time.Millisecond,
		},
		"held output": {
			change: func(s *sim.Sim, on bool) {
				d := time.Duration(0)
				if on {
					d = 7 * time.Millisecond
				}
				s.HoldOutput(0, d, 100)
			},
			normal: 100*time.Millisecond + hop, under: 107*time.Millisecond + hop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := disturbed(tc.costs, tc.change)
			if !near(got[0], tc.normal) || !near(got[1], tc.under) || !near(got[2], tc.normal) {
				t.Errorf("medians before, while and after: %v; want %v, %v and %v again", got, tc.normal, tc.under, tc.normal)
			}
		})
	}
}

// A cut in a single direction delays only messages in that direction.
func TestCutNodesOneWay(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(2), Engine: echoEngine, Procedures: simload.Procedures})
	l := simload.Add(s, 1, 1, simload.Load{Clients: 4, Next: func(r *rand.Rand) string { return [...]string{"r0", "r1"}[r.IntN(2)] }, Until: 5 * time.Second})
	s.At(time.Second, func() { s.CutNodes(2, 0, true) })
	s.At(3*time.Second, func() {
		if to, back := s.Traffic(1, 0), s.Traffic(0, 1); to.Messages <= back.Messages || l.Open() == 0 {
			t.Errorf("%d requests, %d answers, %d wait", to.Messages, back.Messages, l.Open())
		}
		s.CutNodes(2, 0, false)
	})
	s.Run(8 * time.Second)
	if l.Open() > 0 || l.Percentile(100) < 1800*time.Millisecond || l.Percentile(90) > 101*time.Millisecond {
		t.Errorf("%d open, longest %v, p90 %v", l.Open(), l.Percentile(100), l.Percentile(90))
	}
}

// When a link's bandwidth is restored, its queue drains at the new rate.
func TestBandwidthComesBack(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures})
	l := simload.Add(s, 1, 1, simload.Load{Clients: 200, Next: func(*rand.Rand) string { return "r0" }, Until: 10 * time.Second})
	set := func(mbps int64) {
		far := geo.Link{Delay: 50 * time.Millisecond, BandwidthMbps: mbps}
		s.SetLinks([][]geo.Link{{{Delay: 200 * time.Microsecond}, far}, {far, {Delay: 200 * time.Microsecond}}})
	}
	var before, under int
	s.At(2*time.Second, func() { before = l.Outcomes[1]; set(1) })
	s.At(5*time.Second, func() { under = l.Outcomes[1] - before; set(0) })
	s.At(5300*time.Millisecond, func() {
		if queued := 200 - (l.Outcomes[1] - before - under); queued > 0 {
			t.Errorf("%d of 200 requests still wait 300 ms after the link got its bandwidth back", queued)
		}
	})
	s.Run(12 * time.Second)
	// At 1 Mbit/s, 1000 bytes and a header of 54 bytes take 8.4 ms, so 356 messages fit into 3 s.
	if before < 3600 || under < 330 || under > 360+200 {
		t.Errorf("%d in 2 s, %d in 3 s at 1 Mbit/s", before, under)
	}
}

// A clock that is set back stands still, and never reads earlier than before.
func TestClockNeverGoesBack(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures})
	s.At(time.Second, func() { s.SetClock(0, 300*time.Millisecond) })
	s.At(2*time.Second, func() { s.SetClock(0, 0) })
	for _, tc := range []struct{ at, want time.Duration }{
		{900, 900}, {1500, 1800}, {2100, 2300}, {2250, 2300}, {2400, 2400},
	} {
		s.Run(tc.at * time.Millisecond)
		if got := s.NodeNow(0); got != tc.want*time.Millisecond {
			t.Errorf("at %d ms the clock shows %v, want %d ms", tc.at, got, tc.want)
		}
	}
}
