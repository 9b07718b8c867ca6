package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// thinker offloads two pieces of work at its start, with 30 and 20 steps. In the meantime, a timer fires every 10 ms,
// six times in total.
type thinker struct {
	c       protocol.Config
	counted int
	seen    *[]thought
}

// thought records the completion of piece arg of the work. If arg is 0, it records that the 10 ms timer fired.
type thought struct {
	at  time.Duration
	arg uint64
}

func (k *thinker) Start() {
	for i, steps := range []int64{30, 20} {
		k.c.Env.Offload(func() int64 { return steps }, protocol.Timer{Kind: 1, Arg: uint64(i + 1)})
	}
	k.c.Env.After(10*time.Millisecond, protocol.Timer{})
}

func (k *thinker) Fire(t protocol.Timer) {
	if t.Kind == 0 {
		if k.counted++; k.counted < 6 {
			k.c.Env.After(10*time.Millisecond, t)
		}
	}
	*k.seen = append(*k.seen, thought{k.c.Env.Now(), t.Arg})
}
func (k *thinker) Submit(*txn.Transaction)                          {}
func (k *thinker) Receive(geo.NodeID, protocol.Message)             {}
func (k *thinker) Pending() int                                     { return 0 }
func (k *thinker) Readings(d []protocol.Reading) []protocol.Reading { return d }

// Offloaded work takes the time of its steps, runs one piece after another, and delays nothing else. On a slow node,
// both cores are slow. If a node restarts from its log, it repeats the work, and is notified when unfinished pieces are
// complete.
func TestBeside(t *testing.T) {
	const ms = time.Millisecond
	topology := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{{{}}}}
	started := func(ends ...thought) (all []thought) {
		for i := range time.Duration(6) {
			all = append(all, thought{at: (i + 1) * 10 * ms})
		}
		return append(all, ends...)
	}
	for name, tc := range map[string]struct {
		disturb func(s *sim.Sim)
		durable bool
		want    []thought
	}{
		"alone": {want: started(thought{30 * ms, 1}, thought{50 * ms, 2})},
		"slow":  {disturb: func(s *sim.Sim) { s.Slow(0, 150) }, want: started(thought{45 * ms, 1}, thought{75 * ms, 2})},
		"restarted": {durable: true,
			disturb: func(s *sim.Sim) {
				s.At(35*ms, func() { s.Crash(0) })
				s.At(55*ms, func() { s.Restart(0) })
			},
			// The replay repeats the inputs at 10 to 30 ms. Events that were due while the node was down happen once it has
			// restarted.
			want: []thought{{10 * ms, 0}, {20 * ms, 0}, {30 * ms, 1}, {30 * ms, 0},
				{10 * ms, 0}, {20 * ms, 0}, {30 * ms, 1}, {30 * ms, 0},
				{55 * ms, 2}, {55 * ms, 0}, {65 * ms, 0}, {75 * ms, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []thought
			engine := &protocol.Engine{Name: "thinker", New: func(c protocol.Config) protocol.Replica { return &thinker{c: c, seen: &seen} }}
			s := sim.New(sim.Config{Topology: topology, Engine: engine, Procedures: simload.Procedures, Costs: sim.Costs{Step: ms}, Durable: tc.durable})
			if tc.disturb != nil {
				tc.disturb(s)
			}
			s.Run(time.Second)
			byTime := func(a, b thought) int { return int(a.at-b.at)*10 + int(a.arg) - int(b.arg) }
			if !tc.durable {
				slices.SortFunc(seen, byTime)
				slices.SortFunc(tc.want, byTime)
			}
			if !slices.Equal(seen, tc.want) {
				t.Errorf("%v, want %v", seen, tc.want)
			}
		})
	}
}
