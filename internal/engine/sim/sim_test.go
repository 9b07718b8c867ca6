package sim_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/sim"
)

// echo is a protocol without consistency: the first region executes transactions and answers them, and all other
// regions forward transactions to it.
type echo struct {
	c       protocol.Config
	pending int
}

type note struct {
	kind uint8
	body []byte
}

func (m *note) Kind() uint8              { return m.kind }
func (m *note) Size() int                { return len(m.body) }
func (m *note) AppendTo(b []byte) []byte { return append(b, m.body...) }

func (e *echo) Start() {}
func (e *echo) Submit(t *txn.Transaction) {
	e.pending++
	if e.c.Self == 0 {
		e.c.Store.Get(t.Accesses[0].Key)
		e.c.Env.After(0, protocol.Timer{Arg: uint64(t.ID)})
		return
	}
	body := make([]byte, 984) // 1000 bytes including the frame
	for i := range 8 {
		body[i] = byte(t.ID >> (8 * i))
	}
	e.c.Env.Send(0, &note{1, body})
}
func (e *echo) Receive(from geo.NodeID, m protocol.Message) {
	n := m.(*note)
	if n.kind == 1 {
		e.c.Env.Send(from, &note{2, n.body[:8]})
		return
	}
	var id txn.ID
	for i := range 8 {
		id |= txn.ID(n.body[i]) << (8 * i)
	}
	e.Fire(protocol.Timer{Arg: uint64(id)})
}
func (e *echo) Fire(t protocol.Timer) {
	e.pending--
	e.c.Env.Reply(txn.Outcome{ID: txn.ID(t.Arg), Status: txn.Committed})
}
func (e *echo) Pending() int                                     { return e.pending }
func (e *echo) Readings(d []protocol.Reading) []protocol.Reading { return d }

var echoEngine = &protocol.Engine{
	Name: "echo",
	New:  func(c protocol.Config) protocol.Replica { return &echo{c: c} },
	Decode: func(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
		return &note{kind, body}, nil
	},
}

func read(*rand.Rand) string { return "r0" }

// Without load, a round trip takes exactly the sum of its delays and CPU times.
func TestTimes(t *testing.T) {
	costs := sim.Costs{Message: 10 * time.Microsecond, Kilobyte: 100 * time.Microsecond, Key: time.Microsecond}
	const hop = 400 * time.Microsecond // client to node and back
	request := time.Duration(16+2+1+1+1+2) * 100 * time.Nanosecond
	answer := time.Duration(16+2+1+1+1) * 100 * time.Nanosecond
	for name, tc := range map[string]struct {
		region geo.Region
		costs  sim.Costs
		want   time.Duration
	}{
		"free CPU, local":  {0, sim.Costs{}, hop},
		"free CPU, remote": {1, sim.Costs{}, hop + 100*time.Millisecond},
		// The submission, with one key operation, is one step. The timer, with the answer, is another.
		"local": {0, costs, hop + (10*time.Microsecond + request + time.Microsecond) + (20*time.Microsecond + answer)},
		// The node of the client handles a submission of 20 bytes and sends a message of 1000 bytes. The first region
		// receives this message and sends a message of 24 bytes. The client's node receives that message and sends an answer.
		"remote": {1, costs, hop + 100*time.Millisecond + (20*time.Microsecond + request + 100*time.Microsecond) +
			(20*time.Microsecond + 102400*time.Nanosecond) + (20*time.Microsecond + 2400*time.Nanosecond + answer)},
	} {
		t.Run(name, func(t *testing.T) {
			s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures, Costs: tc.costs, CheckCodec: true})
			l := simload.Add(s, tc.region, 1, simload.Load{Clients: 1, Next: read, Think: time.Millisecond, Until: time.Second})
			s.Run(2 * time.Second)
			if got := l.Percentile(50); (got - tc.want).Abs() > 2*time.Microsecond {
				t.Errorf("median %v, want %v", got, tc.want)
			}
			if l.Percentile(0) < tc.want-2*time.Microsecond {
				t.Errorf("minimum %v, want %v", l.Percentile(0), tc.want)
			}
		})
	}
}

// A node is a single server: 100 clients in closed loops achieve the throughput of a single core, and wait for each
// other.
func TestSaturation(t *testing.T) {
	s := sim.New(sim.Config{
		Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures,
		Costs: sim.Costs{Message: 100 * time.Microsecond}, // three per transaction: submission, timer, answer
	})
	l := simload.Add(s, 0, 1, simload.Load{Clients: 100, Next: read, Until: 4 * time.Second, From: time.Second})
	s.Run(4 * time.Second)
	if got := float64(len(l.Latencies)) / 3; got < 3290 || got > 3340 {
		t.Errorf("%.0f transactions/s, want 3333", got)
	}
	if p := l.Percentile(50); p < 29*time.Millisecond || p > 31*time.Millisecond {
		t.Errorf("median %v, want 30 ms: 100 clients x 0.3 ms", p)
	}
	n := s.Node(0)
	if n.Busy < 3980*time.Millisecond || n.Busy > 4000*time.Millisecond || n.Queued < 90 {
		t.Errorf("busy for %v of 4 s, %d queued", n.Busy, n.Queued)
	}
}

// A CPU limit of less than a core makes the CPU slower, but a limit of more than a core does not make it faster.
func TestCostsOn(t *testing.T) {
	c := sim.Costs{Message: 2 * time.Microsecond, Kilobyte: time.Microsecond, Key: 300 * time.Nanosecond}
	for milliCPU, want := range map[int64]sim.Costs{
		0: c, 1000: c, 4000: c,
		500: {Message: 4 * time.Microsecond, Kilobyte: 2 * time.Microsecond, Key: 600 * time.Nanosecond},
		100: {Message: 20 * time.Microsecond, Kilobyte: 10 * time.Microsecond, Key: 3 * time.Microsecond},
	} {
		if got := c.On(milliCPU); got != want {
			t.Errorf("%d milli-CPU: %+v, want %+v", milliCPU, got, want)
		}
	}
}

func TestTraffic(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures})
	l := simload.Add(s, 1, 1, simload.Load{Clients: 3, Next: read, Until: time.Second})
	s.Run(2 * time.Second)
	n := int64(l.Sent())
	if got := s.Traffic(1, 0); got != (geo.Traffic{Bytes: 1000 * n, Messages: n, Segments: n}) {
		t.Errorf("%d transactions sent %+v there", n, got)
	}
	if got := s.Traffic(0, 1); got != (geo.Traffic{Bytes: 24 * n, Messages: n, Segments: n}) {
		t.Errorf("%d transactions sent %+v back", n, got)
	}
	requests, answers := s.ClientTraffic(1)
	none, nothing := s.ClientTraffic(0)
	if requests.Messages != n || answers.Messages != n || requests.Bytes <= answers.Bytes || none != (geo.Traffic{}) || nothing != (geo.Traffic{}) {
		t.Errorf("%d transactions: clients sent %+v and got %+v; those elsewhere %+v and %+v", n, requests, answers, none, nothing)
	}
}

// Probes measure the declared round trip, both with and without jitter.
func TestProbes(t *testing.T) {
	topology := simload.ThreeRegions(2)
	for a, row := range topology.Links {
		for b := range row {
			if a != b {
				row[b].Jitter = time.Millisecond
			}
		}
	}
	s := sim.New(sim.Config{Topology: topology, Engine: echoEngine, Procedures: simload.Procedures, ProbeEvery: 100 * time.Millisecond})
	s.Run(30 * time.Second)
	for a := range topology.Regions {
		for b := range topology.Regions {
			a, b := geo.Region(a), geo.Region(b)
			want, got := topology.RTT(a, b), s.RTT(a, b)
			if (got.P50-want).Abs() > want/20+time.Millisecond || got.Samples < 290 || got.P99 < got.P50 || got.P99 > want+6*time.Millisecond {
				t.Errorf("%v to %v: %+v, declared %v", a, b, got, want)
			}
		}
	}
	s.ResetRTT()
	if s.RTT(0, 1) != (sim.RTT{}) {
		t.Error("reset")
	}
}

// Probes measure the network itself. They are not affected by losses on a busy connection, where every lost segment
// delays all later segments.
func TestProbesOfLossyLinks(t *testing.T) {
	const loss = 50_000
	topology := simload.TwoRegions(2)
	for _, row := range topology.Links {
		for b := range row {
			row[b].LossPPM = loss
		}
	}
	s := sim.New(sim.Config{Topology: topology, Engine: echoEngine, Procedures: simload.Procedures, ProbeEvery: 10 * time.Millisecond})
	l := simload.Add(s, 1, 1, simload.Load{Clients: 100, Next: read, Until: 30 * time.Second})
	s.Run(30 * time.Second)
	if p := l.Percentile(50); p < topology.RTT(0, 1)+200*time.Millisecond {
		t.Errorf("transactions take %v in the median: their connections are not held up", p)
	}
	for a := range topology.Regions {
		for b := range topology.Regions {
			a, b := geo.Region(a), geo.Region(b)
			want, got := topology.RTT(a, b), s.RTT(a, b)
			if got.P50 != want || got.P99 != want {
				t.Errorf("%v to %v: %+v, declared %v", a, b, got, want)
			}
			// 3000 probes are sent, and 9.75% of them are lost in one direction or the other. The tolerance is four standard
			// deviations.
			if lost := 3000 - got.Samples; lost < 292-65 || lost > 292+65 {
				t.Errorf("%v to %v: %d of 3000 probes are lost", a, b, lost)
			}
		}
	}
}

// ticker sends a numbered message every 20 ms to the first node, which records the messages that it receives.
type ticker struct {
	c    protocol.Config
	next byte
	got  *[]byte
}

func (k *ticker) Start() {
	if k.c.Self != 0 {
		k.c.Env.After(20*time.Millisecond, protocol.Timer{})
	}
}
func (k *ticker) Fire(t protocol.Timer) {
	k.c.Env.After(20*time.Millisecond, t)
	k.next++
	k.c.Env.Send(0, &note{1, []byte{k.next}})
}
func (k *ticker) Submit(*txn.Transaction) {}
func (k *ticker) Receive(_ geo.NodeID, m protocol.Message) {
	*k.got = append(*k.got, m.(*note).body[0])
}
func (k *ticker) Pending() int                                     { return 0 }
func (k *ticker) Readings(d []protocol.Reading) []protocol.Reading { return d }

// If a message is sent at the very instant at which a healed connection reopens, it arrives after the messages that
// were waiting. The message sent at 60 ms is the first that the cut delays. It is retransmitted 200 ms later, at the
// instant at which another message is sent.
func TestHealKeepsTheOrder(t *testing.T) {
	var got []byte
	engine := &protocol.Engine{Name: "ticker", New: func(c protocol.Config) protocol.Replica { return &ticker{c: c, got: &got} }}
	top := simload.Topology(1, 1, [][]float64{{0, 1}, {1, 0}})
	s := sim.New(sim.Config{Topology: top, Engine: engine, Procedures: simload.Procedures})
	s.At(50*time.Millisecond, func() { s.Cut(0, 1) })
	s.At(255*time.Millisecond, func() { s.Heal(0, 1) })
	s.Run(time.Second)
	if len(got) < 45 || !slices.IsSorted(got) {
		t.Errorf("messages arrived as %v", got)
	}
}

// Messages on a cut connection wait until the connection heals and retransmits. All other messages are unaffected.
func TestCut(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures})
	near := simload.Add(s, 0, 1, simload.Load{Clients: 1, Next: read, Until: 10 * time.Second})
	far := simload.Add(s, 1, 1, simload.Load{Clients: 1, Next: read, Until: 10 * time.Second})
	s.At(2*time.Second, func() { s.Cut(0, 1) })
	s.At(4*time.Second, func() { s.Heal(0, 1) })
	s.At(4001*time.Millisecond, func() { s.Cut(1, 0) }) // before the retransmission
	s.At(5*time.Second, func() { s.Heal(0, 1) })
	s.Run(12 * time.Second)
	if near.Percentile(100) > time.Millisecond {
		t.Errorf("a local transaction took %v", near.Percentile(100))
	}
	if got := far.Percentile(100); got < 3*time.Second || got > 7*time.Second || far.Open() > 0 {
		t.Errorf("the longest took %v, %d are open", got, far.Open())
	}
	if far.Percentile(90) > 101*time.Millisecond {
		t.Errorf("others took %v", far.Percentile(90))
	}
}

func TestCrash(t *testing.T) {
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: echoEngine, Procedures: simload.Procedures})
	near := simload.Add(s, 0, 1, simload.Load{Clients: 5, Next: read, Think: 10 * time.Millisecond, Until: 2 * time.Second})
	far := simload.Add(s, 1, 1, simload.Load{Clients: 5, Next: read, Until: 2 * time.Second})
	s.At(time.Second, func() { s.Crash(1) })
	s.Run(3 * time.Second)
	if near.Outcomes[txn.Committed] != near.Sent() {
		t.Errorf("%v of %d near the other node", near.Outcomes, near.Sent())
	}
	if far.Outcomes[txn.Unknown] != 5 || far.Reasons["node-lost"] != 5 || far.Outcomes[txn.Refused] < 100 || far.Open() != 0 {
		t.Errorf("%v, %d open", far.Outcomes, far.Open())
	}
	if !s.Node(1).Dead || s.Pending() != 0 {
		t.Errorf("%+v, %d pending", s.Node(1), s.Pending())
	}
}

func TestClockOffsets(t *testing.T) {
	var seen []time.Duration
	e := *echoEngine
	e.New = func(c protocol.Config) protocol.Replica {
		seen = append(seen, c.Env.Now())
		return &echo{c: c}
	}
	sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: &e, Procedures: simload.Procedures,
		ClockOffsets: []time.Duration{time.Millisecond, -time.Second}})
	if !slices.Equal(seen, []time.Duration{time.Millisecond, -time.Second}) {
		t.Error(seen)
	}
}

// Nodes with different clocks still agree on epochs; the fastest clock determines their pace.
func TestEpochsFollowTheFastestClock(t *testing.T) {
	p, _ := calvin.Engine.Resolve(map[string]string{"ordering": "epochs"})
	topology := simload.TwoRegions(1)
	s := sim.New(sim.Config{Topology: topology, Engine: calvin.Engine, Params: p, Procedures: simload.Procedures,
		ClockOffsets: []time.Duration{0, -time.Second}, Costs: sim.DefaultCosts})
	simload.Fill(topology, 10, 0, s.Store)
	var loads []*simload.Clients
	for r := range topology.Regions {
		loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
			Clients: 5, Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(10)) }, Until: 5 * time.Second,
		}))
	}
	s.Run(7 * time.Second)
	for r, l := range loads {
		if got := l.Percentile(50); got > 120*time.Millisecond || l.Open() > 0 {
			t.Errorf("region %d: median %v with a clock that is a second late, %d open", r, got, l.Open())
		}
	}
	if store.Digest(s.Store(0)) != store.Digest(s.Store(1)) {
		t.Error("the copies differ")
	}
}

// BenchmarkSimulator simulates the quickstart: 2 regions x 2 partitions, a round trip of 100 ms, 100 clients per
// region, 40 s.
func BenchmarkSimulator(b *testing.B) { benchmark(b, 100, 40*time.Second) }

// BenchmarkManyClients simulates 100,000 clients per region for a second.
func BenchmarkManyClients(b *testing.B) { benchmark(b, 100_000, time.Second) }

func benchmark(b *testing.B, clients int, length time.Duration) {
	p, _ := calvin.Engine.Resolve(nil)
	for range b.N {
		topology := simload.TwoRegions(2)
		s := sim.New(sim.Config{Topology: topology, Engine: calvin.Engine, Params: p, Procedures: simload.Procedures,
			Costs: sim.DefaultCosts, ProbeEvery: 200 * time.Millisecond, Seed: 1})
		const rows = 100_000
		simload.Fill(topology, rows, 0, s.Store)
		n := 0
		for r := range topology.Regions {
			l := simload.Add(s, geo.Region(r), 1, simload.Load{Clients: clients, Until: length, Next: func(r *rand.Rand) string {
				i := r.IntN(rows - 1)
				return fmt.Sprintf("a%d+1 a%d-1", i, i+1)
			}})
			defer func() { n += l.Sent() }()
		}
		s.Run(length)
		b.ReportMetric(float64(s.Events())/b.Elapsed().Seconds()*float64(b.N), "events/s")
	}
}

// durable runs transfers in Calvin while nodes crash and restart. It returns the simulation, its trace and the clients.
// If crashed is not nil, it is called after each crash.
func durable(t *testing.T, offsets []time.Duration, costs sim.Costs, crashed func(*sim.Sim, geo.NodeID)) (*sim.Sim, []string, []*simload.Clients) {
	t.Helper()
	p, _ := calvin.Engine.Resolve(map[string]string{"ordering": "consensus"})
	var trace []string
	s := sim.New(sim.Config{
		Topology: simload.ThreeRegions(2), Engine: calvin.Engine, Params: p, Procedures: simload.Procedures, Costs: costs, Seed: 3,
		ClockOffsets: offsets, CheckCodec: true, Durable: true, Trace: func(o sim.Observation) { trace = append(trace, o.String()) },
	})
	simload.Fill(simload.ThreeRegions(2), 20, 50, s.Store)
	var loads []*simload.Clients
	for r := range geo.Region(3) {
		loads = append(loads, simload.Add(s, r, 7, simload.Load{Clients: 10, Until: 3 * time.Second, Think: time.Millisecond,
			Next: func(r *rand.Rand) string {
				a := r.IntN(20)
				return fmt.Sprintf("a%d-1 a%d+1", a, (a+1+r.IntN(19))%20)
			}}))
	}
	at := func(t time.Duration, f func(geo.NodeID), nodes ...geo.NodeID) {
		s.At(t, func() {
			for _, n := range nodes {
				f(n)
			}
		})
	}
	crash := func(n geo.NodeID) {
		dead := s.Node(n).Dead
		if s.Crash(n); crashed != nil && !dead {
			crashed(s, n)
		}
	}
	at(500*time.Millisecond, crash, 3)
	at(900*time.Millisecond, s.Restart, 3)
	at(950*time.Millisecond, crash, 3) // before the node's links work again
	at(time.Second, crash, 0, 1)       // region of the leader
	at(1200*time.Millisecond, s.Restart, 3)
	s.At(1300*time.Millisecond, func() { s.Cut(0, 1) })
	at(1400*time.Millisecond, s.Restart, 0, 1)
	s.At(1900*time.Millisecond, func() { s.Heal(0, 1) })
	at(2*time.Second, crash, 0, 1, 2, 3, 4, 5) // all at the same time
	at(2500*time.Millisecond, s.Restart, 0, 1, 2, 3, 4, 5)
	s.Run(30 * time.Second)
	return s, trace, loads
}

// Nodes that crash and restart from their logs lose nothing: acknowledged transactions are committed, and the copies
// are equal and complete. Only clients of a crashed node do not know the outcomes of their transactions.
func TestRestart(t *testing.T) {
	lost := 0
	slow := sim.Costs{Message: 200 * time.Microsecond, Key: 20 * time.Microsecond}
	for name, tc := range map[string]struct {
		costs   sim.Costs
		crashed func(*sim.Sim, geo.NodeID)
	}{
		"instant":                               {},
		"slow":                                  {costs: slow},
		"slow, and what was not synced is lost": {slow, func(s *sim.Sim, n geo.NodeID) { lost += s.LoseTail(n, 0) }},
		"synced in groups, of which some is lost": {sim.Costs{}, func(s *sim.Sim, n geo.NodeID) {
			s.HoldOutput(n, 20*time.Millisecond, 100) // from now on
			lost += s.LoseTail(n, 30)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := lost
			s, _, loads := durable(t, []time.Duration{0, 5e6, 1e6, 0, 9e6, 0}, tc.costs, tc.crashed)
			if tc.crashed != nil && lost == before {
				t.Error("no input was lost")
			}
			if n := s.Pending(); n > 0 {
				t.Errorf("%d transactions are pending", n)
			}
			for r, l := range loads {
				if l.Open() > 0 || l.Outcomes[txn.Committed] < 20 || l.Outcomes[txn.Unknown] == 0 || l.Outcomes[txn.Refused] == 0 {
					t.Errorf("region %d: %d open, %v", r, l.Open(), l.Outcomes)
				}
			}
			for p := range geo.NodeID(2) {
				for _, n := range []geo.NodeID{2 + p, 4 + p} {
					if a, b := store.Digest(s.Store(p)), store.Digest(s.Store(n)); a != b {
						t.Errorf("nodes %d and %d differ", p, n)
					}
				}
			}
			if sum := simload.Sum(s.Store(0)) + simload.Sum(s.Store(1)); sum != 20*50 {
				t.Errorf("the rows hold %d", sum)
			}
		})
	}
}

// A simulation with restarts is as reproducible as any other.
func TestRestartIsReproducible(t *testing.T) {
	_, one, _ := durable(t, nil, sim.DefaultCosts, nil)
	_, two, _ := durable(t, nil, sim.DefaultCosts, nil)
	if !slices.Equal(one, two) || len(one) < 1000 {
		t.Errorf("two runs of %d and %d lines differ", len(one), len(two))
	}
}

// If a node loses synced inputs, it has already sent messages that its replay does not produce. The simulation detects
// this.
func TestLosingWhatWasSynced(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "other messages than the node did") {
			t.Errorf("the replay says %v", p)
		}
	}()
	durable(t, nil, sim.DefaultCosts, func(s *sim.Sim, n geo.NodeID) { sim.ForgetSynced(s, n) })
}

// If the replay of a replica differs from the original run, the simulation panics.
func TestRestartNoticesChance(t *testing.T) {
	n := byte(0)
	e := &protocol.Engine{Name: "moody", New: func(c protocol.Config) protocol.Replica {
		n++
		return &moody{c: c, mood: n}
	}, Decode: func(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
		return &note{kind, body}, nil
	}}
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: e, Procedures: simload.Procedures, Durable: true, CheckCodec: true})
	s.At(time.Millisecond, func() { s.Crash(1) })
	s.At(2*time.Millisecond, func() {
		defer func() {
			if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "not deterministic") {
				t.Errorf("the replay says %v", p)
			}
		}()
		s.Restart(1)
	})
	s.Run(time.Second)
}

// If a node has lost a version with its disk, the version does not count, so its transaction may be aborted. A version
// that still exists counts.
func TestLostVersionsAreNoVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		keep int
		want string
	}{"lost": {0, ""}, "kept": {100, "store.not-aborted"}} {
		t.Run(name, func(t *testing.T) {
			e := &protocol.Engine{Name: "fickle", New: func(c protocol.Config) protocol.Replica { return &fickle{moody: moody{c: c}} },
				Decode: func(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
					return &note{kind, body}, nil
				}}
			s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: e, Procedures: simload.Procedures, Durable: true, Check: true})
			s.HoldOutput(0, time.Second, 100)
			l := simload.Add(s, 1, 1, simload.Load{Clients: 1, Next: func(*rand.Rand) string { return "a1+1" }, Until: 100 * time.Millisecond})
			s.At(300*time.Millisecond, func() {
				s.Crash(0)
				s.LoseTail(0, tc.keep)
			})
			s.At(time.Second, func() { s.Restart(0) })
			s.Run(10 * time.Second)
			got := ""
			if b := s.Broken(); b != nil {
				got = b.Name
			}
			if got != tc.want || l.Sent() != 1 {
				t.Errorf("%q is broken, want %q; %d sent", got, tc.want, l.Sent())
			}
		})
	}
}

// fickle forwards transactions to the first node, which writes a row for each transaction in the first second and
// nothing later. A node that has forwarded a transaction answers after five seconds that the transaction is aborted.
type fickle struct {
	moody
	id txn.ID
}

func (f *fickle) Start() {}

func (f *fickle) Submit(t *txn.Transaction) {
	f.id = t.ID
	f.c.Env.Send(0, &note{1, binary.BigEndian.AppendUint64(nil, uint64(t.ID))})
	f.c.Env.After(5*time.Second, protocol.Timer{})
}

func (f *fickle) Receive(_ geo.NodeID, m protocol.Message) {
	if f.c.Env.Now() < time.Second {
		f.c.Store.(*store.Hash).Put(simload.Key(1), []byte("new"), txn.ID(binary.BigEndian.Uint64(m.(*note).body)))
	}
}

func (f *fickle) Fire(protocol.Timer) {
	f.c.Env.Reply(txn.Outcome{ID: f.id, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "fickle"})
}

// A message to a node that was down counts as in flight once the node has restarted, even before the two nodes are
// connected again. No message to a node that is down counts as in flight.
func TestUnderwayToRestartedNode(t *testing.T) {
	e := &protocol.Engine{Name: "calm", New: func(c protocol.Config) protocol.Replica { return &moody{c: c, mood: 1} },
		Decode: func(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
			return &note{kind, body}, nil
		}}
	s := sim.New(sim.Config{Topology: simload.TwoRegions(1), Engine: e, Procedures: simload.Procedures, Durable: true, CheckCodec: true})
	s.At(time.Millisecond, func() { s.Crash(0) })
	s.At(200*time.Millisecond, func() { s.Restart(0) }) // the links work again at 300 ms
	for _, tc := range []struct {
		at   time.Duration
		want bool
	}{{100 * time.Millisecond, false}, {250 * time.Millisecond, true}, {320 * time.Millisecond, true}, {400 * time.Millisecond, false}} {
		s.Run(tc.at)
		if got := s.Underway(50 * time.Millisecond); got != tc.want {
			t.Errorf("at %v a message sent at the start is under way: %v, want %v", tc.at, got, tc.want)
		}
	}
}

// moody is a replica with a number that is different in each process. It sends this number to the first node, so a
// replay sends different messages than the original run.
type moody struct {
	c    protocol.Config
	mood byte
}

func (m *moody) Start() {
	if m.c.Self != 0 {
		m.c.Env.Send(0, &note{1, []byte{m.mood}})
	}
}
func (*moody) Submit(*txn.Transaction)                          {}
func (*moody) Receive(geo.NodeID, protocol.Message)             {}
func (*moody) Fire(protocol.Timer)                              {}
func (*moody) Pending() int                                     { return 0 }
func (*moody) Readings(d []protocol.Reading) []protocol.Reading { return d }
