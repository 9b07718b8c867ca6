package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/sim"
)

var procedures = simload.Traced

// clients are the closed-loop clients of a region.
type clients struct {
	env    protocol.ClientEnv
	rng    *rand.Rand
	region geo.Region
	n      int
	until  time.Duration
	next   func(*rand.Rand) string
	sent   []uint64
	done   map[txn.Status]int
}

func (c *clients) Start() {
	for i := range c.n {
		c.env.After(time.Duration(c.rng.IntN(10_000_000)), protocol.Timer{Arg: uint64(i)})
	}
}

func (c *clients) Fire(t protocol.Timer) { c.send(int(t.Arg)) }

func (c *clients) send(i int) {
	if c.env.Now() < c.until {
		c.env.Submit(simload.Txn(txn.MakeID(uint32(c.region)+1, c.sent[i]*uint64(c.n)+uint64(i)+1), c.next(c.rng)))
		c.sent[i]++
	}
}

func (c *clients) clientOf(id txn.ID) uint32 { return uint32((uint64(id)&(1<<40-1) - 1) % uint64(c.n)) }

func (c *clients) Complete(o txn.Outcome) {
	c.done[o.Status]++
	if o.Status > txn.Aborted {
		c.env.After(10*time.Millisecond, protocol.Timer{Arg: uint64(c.clientOf(o.ID))})
		return
	}
	c.send(int(c.clientOf(o.ID)))
}

// hot returns a generator of conflicting transactions on few rows: reads, transfers, blind writes and deletions.
func hot(rows int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		p := r.Perm(rows)
		switch r.IntN(8) {
		case 0:
			return fmt.Sprintf("r%d r%d r%d", p[0], p[1], p[2])
		case 1:
			return fmt.Sprintf("r%d r%d", p[0], p[1])
		case 2:
			return fmt.Sprintf("r%d w%d=%d", p[0], p[1], r.IntN(100))
		case 3:
			return fmt.Sprintf("d%d a%d+1", p[0], p[1])
		case 4:
			return fmt.Sprintf("s%d-%d a%d+5 r%d", p[0], r.IntN(90), p[1], p[2])
		default:
			return fmt.Sprintf("a%d-1 a%d+1", p[0], p[1])
		}
	}
}

// record runs clients in every region against an engine and returns the history that they recorded.
func record(t testing.TB, c sim.Config, perRegion, rows int, until time.Duration, faults func(*sim.Sim)) (*history.History, *sim.Sim) {
	t.Helper()
	c.Procedures = procedures
	s := sim.New(c)
	simload.Fill(c.Topology, uint64(rows), 100, s.Store)
	taps := &history.Taps{Placement: c.Topology.Placement(), Procedures: procedures}
	for r, name := range c.Topology.Regions {
		cl := &clients{
			rng: rand.New(rand.NewPCG(c.Seed, uint64(r)+500)), region: geo.Region(r), n: perRegion, until: until,
			next: hot(rows), sent: make([]uint64, perRegion), done: map[txn.Status]int{},
		}
		s.AddClient(geo.Region(r), taps.Client(name, cl.clientOf, func(env protocol.ClientEnv) protocol.Client {
			cl.env = env
			return cl
		}))
	}
	if faults != nil {
		faults(s)
	}
	s.Run(until + 30*time.Second)
	if err := taps.Finish(); err != nil {
		t.Fatal(err)
	}
	return &taps.History, s
}

// converged compares the copies of all live nodes.
func converged(t *geo.Topology, s *sim.Sim) workload.Check {
	var copies []history.Copy
	for n := range geo.NodeID(t.Nodes()) {
		if !s.Node(n).Dead {
			st := s.Store(n)
			copies = append(copies, history.Copy{
				Name: t.NodeName(n), Partition: t.PartitionOf(n), Digest: store.Digest(st), Rows: int64(st.Len()),
				Sums: map[string]int64{"money": simload.Sum(plain(st))},
			})
		}
	}
	return history.Converged(copies)
}

// TestBrokenEngines checks that each faulty variant is detected at the weakest level that rules out its defect, and at
// no weaker level.
func TestBrokenEngines(t *testing.T) {
	const seeds = 20
	for _, tc := range []struct {
		engine   *protocol.Engine
		topology *geo.Topology
		// keeps are the strongest levels that all histories of the variant satisfy. The variant must violate all levels that
		// these levels do not imply.
		keeps     []isolation.Level
		converges bool
		length    time.Duration
	}{
		{broken.ReadCommitted, simload.Topology(1, 1, [][]float64{{0}}), []isolation.Level{isolation.ReadCommitted}, true, 200 * time.Millisecond},
		{broken.Snapshot, simload.Topology(1, 1, [][]float64{{0}}), []isolation.Level{isolation.StrongSnapshotIsolation}, true, time.Second},
		{broken.ArrivalOrder, simload.TwoRegions(1), []isolation.Level{isolation.ReadCommitted}, false, 100 * time.Millisecond},
		{broken.NearbyReads, simload.ThreeRegions(1), []isolation.Level{isolation.SessionSerializable}, true, 100 * time.Millisecond},
	} {
		t.Run(tc.engine.Name, func(t *testing.T) {
			found := map[history.Anomaly]int{}
			diverged, caught := 0, 0
			for seed := range uint64(seeds) {
				h, s := record(t, sim.Config{Topology: tc.topology, Engine: tc.engine, Seed: seed, Costs: sim.DefaultCosts}, 8, 12, tc.length, nil)
				v := history.Check(h, isolation.StrictSerializable)
				if !v.Passed {
					if caught++; caught == 1 {
						t.Logf("caught with seed %d: %d transactions\n%s", seed, h.Len(), v.Check().Message)
					}
					found[v.Anomaly]++
				}
				if !slices.Equal(v.Holds, tc.keeps) {
					t.Errorf("seed %d keeps %v, not %v:\n%s", seed, v.Holds, tc.keeps, v.Explanation)
				}
				if c := converged(tc.topology, s); !c.Passed {
					if diverged++; diverged == 1 {
						t.Log(c.Message)
						for _, d := range history.Differences(s.Store(0), s.Store(1), nil, 1) {
							t.Logf("%v is %x of %v in one and %x of %v in the other", d.Key, d.A.Value, d.A.Writer, d.B.Value, d.B.Writer)
						}
					}
				}
			}
			t.Logf("%d of %d seeds caught: %v; %d diverged", caught, seeds, found, diverged)
			if caught < seeds {
				t.Errorf("%d of %d seeds were not caught", seeds-caught, seeds)
			}
			if tc.converges != (diverged == 0) {
				t.Errorf("the copies of %d of %d seeds differ", diverged, seeds)
			}
		})
	}
}

// TestCalvin checks that Calvin is strictly serializable with each ordering, under any network faults. Every
// transaction, even a read, gets its position in the order between its sending and its answer.
func TestCalvin(t *testing.T) {
	for _, ordering := range []string{"leader", "consensus", "epochs"} {
		for shape, topology := range map[string]*geo.Topology{
			"2x1":   simload.TwoRegions(1),
			"3x2":   simload.ThreeRegions(2),
			"2x2x2": simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}),
		} {
			t.Run(ordering+"/"+shape, func(t *testing.T) {
				for seed := range uint64(3) {
					params, errs := calvin.Engine.Resolve(map[string]string{"ordering": ordering})
					if len(errs) > 0 {
						t.Fatal(errs[0])
					}
					c := sim.Config{Topology: topology, Engine: calvin.Engine, Params: params, Seed: seed, Costs: sim.DefaultCosts, CheckCodec: seed == 0}
					if seed == 1 {
						for n := range topology.Nodes() {
							c.ClockOffsets = append(c.ClockOffsets, time.Duration(n)*17*time.Millisecond)
						}
					}
					h, s := record(t, c, 10, 20, 2*time.Second, func(s *sim.Sim) {
						switch {
						case seed == 1:
							s.At(500*time.Millisecond, func() { s.Cut(0, 1) })
							s.At(900*time.Millisecond, func() { s.Heal(0, 1) })
						case seed == 2 && ordering == "consensus" && shape == "3x2":
							s.At(700*time.Millisecond, func() { s.Crash(2); s.Crash(3) })
						}
					})
					v := history.Check(h, isolation.StrictSerializable)
					if !v.Passed {
						t.Errorf("seed %d: %s", seed, v.Explanation)
					}
					if v.Stats.Committed < 100 || v.Stats.Edges[history.RW] < 100 || v.Stats.Edges[history.RealTime] < 100 {
						t.Errorf("seed %d: little was checked: %+v", seed, v.Stats)
					}
					if c := converged(topology, s); !c.Passed {
						t.Errorf("seed %d: %s", seed, c.Message)
					}
					if seed == 2 {
						t.Logf("%+v", v.Stats)
					}
				}
			})
		}
	}
}
