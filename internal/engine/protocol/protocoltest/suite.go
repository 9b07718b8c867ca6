package protocoltest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	suiteRows = 40
	suiteEach = 50

	// skewRows is the number of rows that skews uses, starting at firstSkewRow. They are not loaded, and stay 0.
	firstSkewRow, skewRows = 1000, 4

	// leastAudits is the number of audits that must commit in each region, and leastCommits the number of other
	// transactions.
	leastAudits, leastCommits = 2, 10
)

// disturb adds jitter and loss to the links of a topology.
func disturb(t *geo.Topology, jitter float64, lossPPM int64) {
	for _, row := range t.Links {
		for c := range row {
			row[c].Jitter, row[c].LossPPM = time.Duration(jitter*float64(row[c].Delay)), lossPPM
		}
	}
}

// shape is a named topology. Each scenario creates its own instance of it.
type shape struct {
	name     string
	topology func() *geo.Topology
}

// refusal returns the error with which the engine refuses a topology, or nil if the engine accepts it. It fails the
// test if the error names no field of a manifest.
func refusal(t testing.TB, engine *protocol.Engine, topology *geo.Topology, p protocol.Params) error {
	t.Helper()
	err := engine.Accepts(topology, p)
	var refused *protocol.TopologyError
	if errors.As(err, &refused) && !strings.HasPrefix(refused.Field, "spec.") {
		t.Errorf("engine %s refuses a topology by %q (%v); Field must be as in a manifest, such as spec.replicasPerPartition", engine.Name, refused.Field, err)
	}
	return err
}

// accepted runs a test on each shape that the engine accepts with these parameters. It fails if the engine accepts no
// shape, because nothing was tested in that case.
func accepted(t *testing.T, engine *protocol.Engine, p protocol.Params, shapes []shape, test func(t *testing.T, topology func() *geo.Topology)) {
	t.Helper()
	numbered(t, engine, p, shapes, func(t *testing.T, _ int, topology func() *geo.Topology) { test(t, topology) })
}

// numbered is like accepted, for tests that need the number of the shape among the accepted shapes, counted from 0.
func numbered(t *testing.T, engine *protocol.Engine, p protocol.Params, shapes []shape, test func(t *testing.T, n int, topology func() *geo.Topology)) {
	t.Helper()
	taken := 0
	for _, s := range shapes {
		err, n := refusal(t, engine, s.topology(), p), taken
		// Refused topologies are not counted, so that seedsOf rotates through the seeds without gaps.
		if err == nil {
			taken++
		}
		t.Run(s.name, func(t *testing.T) {
			if err != nil {
				t.Skipf("engine %s does not take this topology: %v", engine.Name, err)
			}
			test(t, n, s.topology)
		})
	}
	if taken == 0 {
		t.Errorf("engine %s takes none of the %d topologies of %s", engine.Name, len(shapes), t.Name())
	}
}

// mustAccept fails if the engine refuses the single topology of a test.
func mustAccept(t testing.TB, engine *protocol.Engine, topology *geo.Topology, p protocol.Params) {
	t.Helper()
	if err := refusal(t, engine, topology, p); err != nil {
		t.Fatalf("engine %s does not take the topology of %s: %v", engine.Name, t.Name(), err)
	}
}

// loadTime returns the time for which clients send transactions. It suffices for twenty sequential transactions of the
// slowest kind, or for sixty in thorough suites. If these transactions hold locks during all of that time, few
// transactions on contended rows complete.
func loadTime(engine *protocol.Engine, t *geo.Topology, p protocol.Params, least time.Duration) time.Duration {
	turns := time.Duration(20)
	if thorough {
		turns = 60
	}
	// The slowest region determines the time, because clients of all regions stop at the same time.
	return max(least, turns*slices.Max(lawsOfAll(engine, t, p)))
}

// eager is the number of transactions of a region that run without pauses. A transaction of one region may take a
// thousandth of the time of another region's transaction. Without the limit, the fast region would run hundreds of
// thousands of transactions before the slow region has run a few dozen. All transactions after the first few thousand
// would test nothing new.
const eager = 1500

// addLoad adds a load to a region. After the region has sent its eager transactions, its clients pause after each
// transaction, so that some transactions still run when the load stops.
func addLoad(s simload.World, region geo.Region, seed uint64, l simload.Load) *simload.Clients {
	var c *simload.Clients
	sent, next := 0, l.Next
	l.Next = func(r *rand.Rand) string {
		// c is set by then, because clients call Next only once the simulation runs.
		if sent++; sent == eager {
			c.Think = max(c.Think, restful(l.Until))
		}
		return next(r)
	}
	c = simload.Add(s, region, seed, l)
	return c
}

// restful returns a pause with which a client sends at most 300 transactions in time t.
func restful(t time.Duration) time.Duration { return t / 300 }

// lawsOfAll returns the expected latency of transactions with rows of all homes, by region of the client.
func lawsOfAll(engine *protocol.Engine, t *geo.Topology, p protocol.Params) (laws []time.Duration) {
	var homes []geo.Region
	for home := range t.Placement().Regions {
		homes = append(homes, geo.Region(home))
	}
	for r := range t.Regions {
		laws = append(laws, engine.Law(t, p, geo.Region(r), homes))
	}
	return laws
}

// quiesce runs the simulation until all transactions are answered and nothing is pending, for at most two minutes.
func quiesce(s *sim.Sim, loads []*simload.Clients, audits []*Auditor) {
	quiet := func() bool {
		// An auditor that waits for a retry has nothing in flight, so Pending does not count it.
		return s.Pending() == 0 && !slices.ContainsFunc(audits, func(a *Auditor) bool { return a.open }) &&
			!slices.ContainsFunc(loads, func(l *simload.Clients) bool { return l.Open() > 0 })
	}
	for until := s.Now() + 2*time.Minute; s.Now() < until && !quiet(); {
		s.Run(s.Now() + time.Second)
	}
}

// still fails unless the database is quiescent and its rows stay unchanged. It waits until the messages in flight have
// arrived, because one of them could still cause a write.
func still(t *testing.T, s *sim.Sim, topology *geo.Topology) {
	t.Helper()
	if n := s.Pending(); n > 0 {
		t.Errorf("%d transactions are pending on a quiet system", n)
		return
	}
	until := s.Now() + 2*time.Minute
	// Only messages that were sent before now must arrive, because nodes may send periodic messages without end.
	for sent := s.Now() + 1; s.Underway(sent); {
		if s.Now() > until {
			t.Error("messages are under way two minutes after the last answer")
			return
		}
		s.Run(s.Now() + 10*time.Millisecond)
	}
	if wrong := simload.Restless(s, topology); wrong != "" {
		t.Error(wrong)
	}
}

// allAnswered fails unless all transactions are answered.
func allAnswered(t *testing.T, loads []*simload.Clients) {
	t.Helper()
	for r, l := range loads {
		if l.Open() > 0 {
			t.Errorf("region %d: %d of %d transactions have no answer: %v", r, l.Open(), l.Sent(), l.Outcomes)
		}
	}
}

// answered fails unless all transactions are answered and at least leastCommits of them committed in every region.
func answered(t *testing.T, loads []*simload.Clients) {
	t.Helper()
	allAnswered(t, loads)
	for r, l := range loads {
		if n := l.Outcomes[txn.Committed]; n < leastCommits {
			t.Errorf("region %d: %d of %d transactions committed, which are too few to show anything: make it %d; %v %v", r, n, l.Sent(), leastCommits, l.Outcomes, l.Reasons)
		}
	}
}

// finished fails unless all transactions are answered, enough of them are committed, and the copies are equal and
// complete.
func finished(t *testing.T, s *sim.Sim, layout geo.Layout, loads []*simload.Clients, audits []*Auditor) {
	t.Helper()
	sum := int64(suiteRows * suiteEach)
	for region, a := range audits {
		sum += int64(a.Seen)
		if a.Seen < leastAudits {
			t.Errorf("region %d: %d of %d audits committed, want %d; reasons %v", region, a.Seen, a.Sent, leastAudits, a.Reasons)
		}
	}
	answered(t, loads)
	still(t, s, layout.Topology)
	CheckCopies(t, s, layout, sum)
}

// skews returns operations that read rows which other transactions are about to write, alone or together with a write.
// In the history, they expose reads that are not current at commit, and reads of outdated rows. They do not change the
// sum of the rows.
func skews(r *rand.Rand) string {
	a := r.IntN(skewRows)
	// A transaction must not name a row twice, so b must differ from a.
	b := (a + 1 + r.IntN(skewRows-1)) % skewRows
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("r%d", firstSkewRow+a)
	case 1:
		// An addition of 0 keeps the sum, but the engine treats it as a read and a write.
		return fmt.Sprintf("a%d+0 a%d+0", firstSkewRow+a, firstSkewRow+b)
	default:
		return fmt.Sprintf("r%d a%d+0", firstSkewRow+a, firstSkewRow+b)
	}
}

// Serializable runs transfers and audits on contended rows, on several topologies with jitter and loss. The seeds are 0
// to seeds-1; unless suites are thorough, each topology runs one of them, in rotation. Other transactions run on a
// separate set of rows, and read rows that other transactions are about to write. The history of all transactions has
// the engine's isolation level.
func Serializable(t *testing.T, engine *protocol.Engine, given map[string]string, seeds uint64) {
	p := Params(t, engine, given)
	numbered(t, engine, p, []shape{
		{"2x1", func() *geo.Topology { return simload.TwoRegions(1) }},
		{"2x3", func() *geo.Topology { return simload.TwoRegions(3) }},
		{"3x2", func() *geo.Topology { return simload.ThreeRegions(2) }},
		{"2x2x2", func() *geo.Topology { return simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}) }},
		{"1x4", func() *geo.Topology { return simload.Topology(4, 1, [][]float64{{0}}) }},
		{"8x1", func() *geo.Topology { return simload.EightRegions(1) }},
	}, func(t *testing.T, n int, makeTopology func() *geo.Topology) {
		for _, seed := range seedsOf(n, seeds) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				topology := makeTopology()
				// Jitter and loss grow with the seed. Seed 0 has neither.
				disturb(topology, 0.1*float64(seed), int64(seed)*2000)
				offsets := make([]time.Duration, topology.Nodes())
				if seed > 1 { // clocks that disagree by up to 50 ms
					r := rand.New(rand.NewPCG(seed, 5))
					for i := range offsets {
						offsets[i] = time.Duration(r.IntN(50_000)) * time.Microsecond
					}
				}
				// With seed 2, messages are passed by reference, as drivers may do. A replica that modifies a received message then
				// changes the state of other replicas, too.
				s := sim.New(sim.Config{
					Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Traced, Seed: seed,
					Params: p, Costs: sim.DefaultCosts, CheckCodec: seed != 2, ClockOffsets: offsets,
				})
				r := newRecording(s, topology)
				layout := engine.Layout(topology, p)
				simload.FillLayout(layout, suiteRows, suiteEach, s.Store)
				var loads, skewed []*simload.Clients
				var audits []*Auditor
				until := loadTime(engine, topology, p, 2*time.Second)
				// More than 45 clients would block each other for a long time before anything commits.
				clients := min(15, 45/len(topology.Regions))
				for region := range topology.Regions {
					loads = append(loads, addLoad(r, geo.Region(region), seed, simload.Load{Clients: clients, Next: Transfers(suiteRows), Until: until, Least: leastCommits}))
					skewed = append(skewed, simload.Add(r, geo.Region(region), seed, simload.Load{
						Clients: 4, Think: 10 * time.Millisecond, Next: skews, Stream: 1, Until: until,
					}))
					audits = append(audits, AddAuditor(t, r, geo.Region(region), suiteRows, suiteRows*suiteEach, until))
				}
				s.Run(until)
				quiesce(s, append(skewed, loads...), audits)
				reasons := map[string]int{}
				for _, l := range loads {
					for reason, n := range l.Reasons {
						reasons[reason] += n
					}
				}
				// Aborts by the procedure and failures of the procedure must both occur, because engines must answer both without
				// writes.
				if reasons["funds"] == 0 || reasons["procedure-error"] == 0 {
					t.Errorf("reasons %v: not all kinds occur", reasons)
				}
				finished(t, s, layout, loads, audits)
				allAnswered(t, skewed)
				r.check(t, engine.Promises(p))
			})
		}
	})
}

// Cuts breaks and heals links between regions at random, with seeds 0 to seeds-1. Unless suites are thorough, it uses
// at most six seeds.
func Cuts(t *testing.T, engine *protocol.Engine, given map[string]string, seeds uint64) {
	p := Params(t, engine, given)
	accepted(t, engine, p, []shape{
		{"3x1", func() *geo.Topology { return simload.ThreeRegions(1) }},
		{"3x2", func() *geo.Topology { return simload.ThreeRegions(2) }},
	}, func(t *testing.T, makeTopology func() *geo.Topology) {
		cuts(t, engine, p, makeTopology, seeds)
	})
}

// cuts runs the even seeds from 0 to seeds-1 with one partition, and the odd seeds with two partitions.
func cuts(t *testing.T, engine *protocol.Engine, p protocol.Params, makeTopology func() *geo.Topology, seeds uint64) {
	if !thorough {
		seeds = min(seeds, usualCuts)
	}
	for seed := uint64(makeTopology().Partitions - 1); seed < seeds; seed += 2 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			topology := makeTopology()
			disturb(topology, 0.05, 1000)
			s := sim.New(sim.Config{
				Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts, Params: p,
			})
			layout := engine.Layout(topology, p)
			simload.FillLayout(layout, suiteRows, suiteEach, s.Store)
			var loads []*simload.Clients
			var audits []*Auditor
			until := loadTime(engine, topology, p, 10*time.Second)
			for r := range topology.Regions {
				loads = append(loads, addLoad(s, geo.Region(r), seed, simload.Load{Clients: 10, Next: Transfers(suiteRows), Until: until, Least: leastCommits}))
				audits = append(audits, AddAuditor(t, s, geo.Region(r), suiteRows, suiteRows*suiteEach, until))
			}
			r := rand.New(rand.NewPCG(seed, 99))
			for range 6 {
				a := geo.Region(r.IntN(3))
				b := (a + 1 + geo.Region(r.IntN(2))) % 3
				from := time.Duration(r.Int64N(int64(8 * time.Second)))
				s.At(from, func() { s.Cut(a, b) })
				s.At(from+time.Duration(r.Int64N(int64(3*time.Second))), func() { s.Heal(a, b) })
			}
			s.At(12*time.Second, func() { s.Heal(0, 1); s.Heal(0, 2); s.Heal(1, 2) })
			s.Run(max(until, 12*time.Second))
			quiesce(s, loads, audits)
			finished(t, s, layout, loads, audits)
		})
	}
}

// Reproducible runs twice with one seed and compares all events. It also runs once with another seed; the events of
// that run must soon differ.
func Reproducible(t *testing.T, engine *protocol.Engine, given map[string]string) {
	p := Params(t, engine, given)
	mustAccept(t, engine, simload.ThreeRegions(2), p)
	const soon = 250 * time.Millisecond
	run := func(seed uint64, until time.Duration) (first, all uint64) {
		topology := simload.ThreeRegions(2)
		disturb(topology, 0.05, 1000)
		h := fnv.New64a()
		s := sim.New(sim.Config{
			Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: seed,
			Params: p, Costs: sim.DefaultCosts, ProbeEvery: 100 * time.Millisecond,
			Trace: func(o sim.Observation) { fmt.Fprintln(h, o) },
		})
		simload.FillLayout(engine.Layout(topology, p), 100, 50, s.Store)
		for r := range topology.Regions {
			simload.Add(s, geo.Region(r), seed, simload.Load{Clients: 20, Next: Transfers(100), Until: 2 * time.Second})
		}
		s.At(time.Second, func() { s.Cut(0, 1) })
		s.At(1500*time.Millisecond, func() { s.Heal(0, 1) })
		s.Run(soon)
		// The run with another seed stops at this time, so only the first part of the trace is comparable with it.
		first = h.Sum64()
		s.Run(until)
		return first, h.Sum64()
	}
	first, all := run(1, 5*time.Second)
	if _, again := run(1, 5*time.Second); all != again {
		t.Errorf("two runs with one seed differ: %x, %x", all, again)
	}
	if other, _ := run(2, soon); first == other {
		t.Error("the seed changes nothing")
	}
}

// Law compares the median latency with the engine's latency model, for clients in every region of at least three
// topologies. The home of their transactions is the client's own region, another region, both, or two other regions.
func Law(t *testing.T, engine *protocol.Engine, given map[string]string) {
	law(t, engine, given, lawLoad{clients: 3, think: 50 * time.Millisecond, until: 20 * time.Second})
}

// SparseLaw is like Law, for engines in which a transaction may wait for another transaction even if they have no row
// in common. Only a few transactions may be in flight at a time, so each region has one client, which pauses after each
// transaction.
func SparseLaw(t *testing.T, engine *protocol.Engine, given map[string]string) {
	law(t, engine, given, lawLoad{clients: 1, think: 2 * time.Second, until: 20 * time.Second})
}

// LoneLaw is like Law, for engines in which a transaction delays all others and whose latency depends on the time of
// arrival. The whole database has a single client, which pauses after each transaction. The test is long enough for an
// accurate median.
func LoneLaw(t *testing.T, engine *protocol.Engine, given map[string]string) {
	law(t, engine, given, lawLoad{clients: 1, think: time.Second, until: 16 * time.Minute, alone: true})
}

// IdleLaw is like LoneLaw, for engines whose latency does not depend on a transaction's time of arrival.
func IdleLaw(t *testing.T, engine *protocol.Engine, given map[string]string) {
	law(t, engine, given, lawLoad{clients: 1, think: 50 * time.Millisecond, until: 20 * time.Second, alone: true})
}

// LoneNodeLaw is like Law, with one node in each region. It is for engines in which the nodes of a region have
// different latencies. Their latency model is the mean over the nodes, but Law measures a median.
func LoneNodeLaw(t *testing.T, engine *protocol.Engine, given map[string]string) {
	law(t, engine, given, lawLoad{clients: 3, think: 50 * time.Millisecond, until: 20 * time.Second, oneNode: true})
}

// lawLoad is the load of Law: the number of clients in each region, the pause after each transaction, and the time when
// the clients stop. If alone is set, only one region has clients at a time. If oneNode is set, each region has one
// node.
type lawLoad struct {
	clients      int
	think, until time.Duration
	alone        bool
	oneNode      bool
}

func law(t *testing.T, engine *protocol.Engine, given map[string]string, load lawLoad) {
	partitions := 2
	if load.oneNode {
		partitions = 1
	}
	shapes := []shape{
		{"2 regions", func() *geo.Topology { return simload.TwoRegions(partitions) }},
		{"3 regions", func() *geo.Topology { return simload.ThreeRegions(partitions) }},
		{"8 regions", func() *geo.Topology { return simload.EightRegions(1) }},
	}
	// All other engines refuse topologies with groups.
	if engine.TakesGroups {
		shapes = append(shapes,
			shape{"3 regions, led elsewhere", func() *geo.Topology { return led(simload.ThreeRegions(2), 1, 3) }},
			shape{"8 regions, led elsewhere by 3", func() *geo.Topology { return led(simload.EightRegions(1), 5, 3) }})
	}
	type home func(c, n int) int
	own := func(c, _ int) int { return c }
	next := func(c, n int) int { return (c + 1) % n }
	last := func(c, n int) int { return (c + n - 1) % n }
	classes := []struct {
		name  string
		homes []home
	}{
		{"SH at home", []home{own}},
		{"SH elsewhere", []home{last}},
		{"MH with own", []home{own, next}},
		{"MH of others", []home{next, last}},
	}
	var table strings.Builder
	p := Params(t, engine, given)
	accepted(t, engine, p, shapes, func(t *testing.T, makeTopology func() *geo.Topology) {
		for _, class := range classes {
			topology := makeTopology()
			regions := len(topology.Regions)
			// In two regions, next and last are the same region, so the class has no second home.
			if regions == 2 && class.name == "MH of others" {
				continue
			}
			t.Run(class.name, func(t *testing.T) {
				const each = 2000 // rows per home and partition
				world := func() *sim.Sim {
					s := sim.New(sim.Config{
						Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts,
					})
					rows := uint64(each * regions * topology.Partitions)
					simload.FillLayout(engine.Layout(topology, p), rows, 0, s.Store)
					return s
				}
				s := world()
				var loads []*simload.Clients
				for c := range regions {
					loads = append(loads, simload.Add(s, geo.Region(c), 1, simload.Load{
						Clients: load.clients, Think: load.think, From: 3 * time.Second, Until: load.until,
						Next: func(r *rand.Rand) string {
							// All rows of a transaction are in one partition, because Engine.Law is defined for transactions of a single
							// partition.
							partition := r.IntN(topology.Partitions)
							var ops []string
							for _, h := range class.homes {
								// Row n belongs to partition n mod partitions, and region (n div partitions) mod regions is its home.
								row := (r.IntN(each)*regions+h(c, regions))*topology.Partitions + partition
								ops = append(ops, fmt.Sprintf("a%d+1", row))
							}
							return strings.Join(ops, " ")
						},
					}))
					// Each region's client runs in a separate simulation, so that no other client delays its transactions.
					if load.alone {
						s.Run(load.until + 2*time.Second)
						s = world()
					}
				}
				if !load.alone {
					s.Run(load.until + 2*time.Second)
				}
				for c, l := range loads {
					var homes []geo.Region
					for _, h := range class.homes {
						homes = append(homes, geo.Region(h(c, regions)))
					}
					law := engine.Law(topology, p, geo.Region(c), homes)
					got := l.Percentile(50)
					off := 100 * (float64(got)/float64(law) - 1)
					fmt.Fprintf(&table, "%-10s %-13s %-2s homes %v law %8.2fms measured %8.2fms %+5.1f%%\n", path.Base(path.Dir(t.Name())), class.name,
						topology.Regions[c], homes, float64(law)/1e6, float64(got)/1e6, off)
					// The latency model excludes local work, which costs CPU time here. 5% leaves room for that.
					if off > 5 || off < -5 {
						t.Errorf("region %s: median %v, law %v: %+.1f%%", topology.Regions[c], got, law, off)
					}
				}
			})
		}
	})
	t.Logf("\n%s", &table)
}

// led places the group of every cell in the given number of regions and returns t. The first of these regions leads the
// group; it follows the cell's home at distance after.
func led(t *geo.Topology, after, regions int) *geo.Topology {
	for r := range t.Regions {
		for p := range t.Partitions {
			g := geo.CellGroup{Cell: geo.Cell{Home: geo.Region(r), Partition: p}, Replicas: make([]int, len(t.Regions))}
			g.Leader = geo.Region((r + after) % len(t.Regions))
			// Regions that are not listed below keep 0 replicas of the cell.
			for i := range regions {
				g.Replicas[(int(g.Leader)+i)%len(t.Regions)] = t.Replicas
			}
			t.Groups = append(t.Groups, g)
		}
	}
	return t
}

// Shapes runs transfers and audits on extreme topologies, with each of the given sets of parameters.
func Shapes(t *testing.T, engine *protocol.Engine, params []map[string]string) {
	shapes := []shape{
		{"one node", func() *geo.Topology { return simload.Topology(1, 1, [][]float64{{0}}) }},
		{"one region", func() *geo.Topology { return simload.Topology(3, 1, [][]float64{{0}}) }},
		{"three copies in each of two places", func() *geo.Topology { return simload.Topology(2, 3, [][]float64{{0, 10}, {10, 0}}) }},
		{"delays that differ by direction", func() *geo.Topology { return simload.Topology(2, 1, [][]float64{{0, 5, 80}, {60, 0, 10}, {3, 70, 0}}) }},
	}
	if engine.TakesGroups {
		shapes = append(shapes, shape{"a region that no row calls home", func() *geo.Topology {
			t := simload.ThreeRegions(1)
			t.Homes = 2
			return t
		}})
	}
	for i, given := range params {
		all := shapes
		if i == 0 { // slow, and relevant only for sets of partitions
			all = append(all, shape{"more partitions than a set tells", func() *geo.Topology { return simload.TwoRegions(70) }})
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p := Params(t, engine, given)
			accepted(t, engine, p, all, func(t *testing.T, makeTopology func() *geo.Topology) {
				topology := makeTopology()
				s := sim.New(sim.Config{
					Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
					Params: p, CheckCodec: true,
				})
				layout := engine.Layout(topology, p)
				simload.FillLayout(layout, suiteRows, suiteEach, s.Store)
				var loads []*simload.Clients
				var audits []*Auditor
				until := loadTime(engine, topology, p, 2*time.Second)
				if topology.Partitions > 64 { // most of the work there is done by nodes that are almost idle
					until /= 15
				}
				for r := range topology.Regions {
					loads = append(loads, addLoad(s, geo.Region(r), 1, simload.Load{Clients: 10, Next: Transfers(suiteRows), Until: until, Least: leastCommits}))
					audits = append(audits, AddAuditor(t, s, geo.Region(r), suiteRows, suiteRows*suiteEach, until))
				}
				s.Run(until)
				quiesce(s, loads, audits)
				finished(t, s, layout, loads, audits)
			})
		})
	}
}

// Counter returns the sum of a counter over all nodes.
func Counter(s *sim.Sim, topology *geo.Topology, name string) (sum int64) {
	for n := range topology.Nodes() {
		sum += CounterOf(s, geo.NodeID(n), name)
	}
	return sum
}

// CounterOf returns a counter of node n. It returns 0 if the node has no counter of that name.
func CounterOf(s *sim.Sim, n geo.NodeID, name string) int64 {
	counters := s.Readings(n)
	if i := slices.IndexFunc(counters, func(c protocol.Reading) bool { return c.Name == name }); i >= 0 {
		return counters[i].Value
	}
	return 0
}
