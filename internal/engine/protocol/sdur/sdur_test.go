package sdur

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Layouts with filters that do not fit into a node are refused; the layouts of the paper's deployments are accepted.
func TestRefusedLayouts(t *testing.T) {
	regions := func(n int) *geo.Topology {
		t := &geo.Topology{Partitions: 2, Replicas: 1}
		for r := range n {
			t.Regions = append(t.Regions, string(rune('a'+r)))
		}
		return t
	}
	wan1 := &geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 2, Groups: []geo.CellGroup{
		{Cell: geo.Cell{Home: 0}, Leader: 0, Replicas: []int{2, 1}}, {Cell: geo.Cell{Home: 1}, Leader: 1, Replicas: []int{1, 2}},
	}}
	wan2 := &geo.Topology{Regions: []string{"a", "b", "c"}, Homes: 2, Partitions: 1, Replicas: 1}
	placed := regions(5)
	for home := range geo.Region(5) {
		for partition := range 2 {
			members := make([]int, 5)
			members[home] = 1
			placed.Groups = append(placed.Groups, geo.CellGroup{Cell: geo.Cell{Home: home, Partition: partition}, Leader: home, Replicas: members})
		}
	}
	most := map[string]string{"history": "1048576", "filterBits": "1024"}
	for name, tc := range map[string]struct {
		topology *geo.Topology
		given    map[string]string
		want     string
	}{
		"one region":          {regions(1), most, ""},
		"two members":         {regions(2), nil, ""},
		"WAN 1":               {wan1, most, ""},
		"WAN 2":               {wan2, most, ""},
		"eight regions":       {regions(8), nil, ""},
		"four groups a node":  {regions(4), most, ""},
		"few groups by place": {placed, most, ""},
		"five groups a node": {regions(5), most, "spec.engine.parameters.filterBits: 1024: node a/0/0 is a member of 5 groups, each of which keeps 1048576 such filters of " +
			"each kind: make it at most 819, or history at most 838860, or place fewer partitions on a node with homes and groups"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Engine.Accepts(tc.topology, protocoltest.Params(t, Engine, tc.given)); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// The error of an invalid parameter includes a valid value.
func TestParameters(t *testing.T) {
	for name, tc := range map[string]struct {
		given map[string]string
		want  string
	}{
		"default":            {nil, ""},
		"no delay":           {map[string]string{"delay": "0s"}, ""},
		"negative delay":     {map[string]string{"delay": "-1ms"}, `delay: "-1ms" is not a duration from 0s to 1m0s`},
		"no threshold":       {map[string]string{"reorderThreshold": "-1"}, `reorderThreshold: "-1" is not a whole number from 0 to 1048576`},
		"a threshold's unit": {map[string]string{"reorderThreshold": "20ms"}, `reorderThreshold: "20ms" is not a whole number`},
		"no tick":            {map[string]string{"tick": "0s"}, `tick: "0s" is not a duration from 1ms to 200ms`},
		"long tick":          {map[string]string{"tick": "201ms"}, `tick: "201ms" is not a duration from 1ms to 200ms`},
		"read-only":          {map[string]string{"readOnly": "stale"}, `readOnly: "stale" is not one of snapshot, certified`},
		"no history":         {map[string]string{"history": "0"}, `history: "0" is not a whole number from 1 to 1048576`},
		"small filters":      {map[string]string{"filterBits": "63"}, `filterBits: "63" is not a whole number from 64 to 1048576`},
		"interactive":        {map[string]string{"interactive": "yes"}, `interactive: "yes" is not one of false, true`},
		"short election":     {map[string]string{"election": "49ms"}, `election: "49ms" is not a duration from 50ms to 1m0s`},
		"long recovery":      {map[string]string{"recovery": "11m"}, `recovery: "11m" is not a duration from 100ms to 10m0s`},
		"large filters":      {map[string]string{"history": "1024", "filterBits": "1048576"}, ""},
		"too large filters": {map[string]string{"history": "1025", "filterBits": "1048576"}, `filterBits: "1048576" is too much with history 1025, since each group ` +
			`keeps that many filters of each kind: make it at most 1047552, or history at most 1024`},
		"long wait": {map[string]string{"reorderThreshold": "6000"}, ""},
		"too long a wait": {map[string]string{"reorderThreshold": "301", "tick": "200ms"}, `reorderThreshold: "301" is too much with tick 200ms, since a ` +
			`transaction would wait for more than 1m0s in an idle group: make it at most 300`},
		"another's": {map[string]string{"staleness": "1s"}, "staleness: engine sdur has no such parameter"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Engine.Resolve(tc.given)
			got := ""
			for _, err := range errs {
				got += err.Error()
			}
			if (tc.want == "") != (got == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestIsolation(t *testing.T) {
	for readOnly, want := range map[string]isolation.Level{readOnlySnapshot: isolation.Serializable, readOnlyCertified: isolation.StrictSerializable} {
		if got := Engine.Promises(protocoltest.Params(t, Engine, map[string]string{"readOnly": readOnly})); got != want {
			t.Errorf("readOnly %s promises %v, want %v", readOnly, got, want)
		}
	}
}

// Filters that store many transactions side by side answer every lookup like separate filters, and no filter lacks an
// added hash.
func TestFilters(t *testing.T) {
	for _, size := range []int{64, 100, 1024} {
		for _, kept := range []int{1, 63, 64, 65, 200} {
			t.Run(fmt.Sprintf("%d bits of %d", size, kept), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(size), uint64(kept)))
				f, single, sets := newFilters(size, kept), map[uint64]bloom{}, map[uint64][]uint64{}
				for n := uint64(1); n <= 500; n++ {
					f.begin(n)
					single[n] = newBloom(size)
					for range r.IntN(6) {
						h := hashOf(simload.Key(uint64(r.IntN(40))))
						f.add(n, h)
						single[n].add(h, size)
						sets[n] = append(sets[n], h)
					}
					least := n - min(n-1, uint64(kept-1))
					if r.IntN(5) == 0 {
						gone := least + r.Uint64N(n-least+1)
						for _, h := range sets[gone] {
							f.remove(gone, h)
						}
						single[gone], sets[gone] = newBloom(size), nil
					}
					h, first := hashOf(simload.Key(uint64(r.IntN(60)))), least+r.Uint64N(n-least+2)
					var got, want []uint64
					for at := f.next(h, first, n); at != 0; at = f.next(h, at+1, n) {
						got = append(got, at)
					}
					for at := first; at <= n; at++ {
						if single[at].has(h, size) {
							want = append(want, at)
						} else if slices.Contains(sets[at], h) {
							t.Fatalf("the filter of %d lacks what was added", at)
						}
					}
					if !slices.Equal(got, want) {
						t.Fatalf("after %d, from %d on: %v, want %v", n, first, got, want)
					}
				}
			})
		}
	}
}

// A pending transaction may commit with an early timestamp, so versions from before that timestamp are kept.
func TestTrim(t *testing.T) {
	second := uint64(time.Second)
	g := &group{state: state{horizon: 100 * second, last: 50 * second, pending: []*delivery{{earliest: 7 * second}}}}
	r := &Replica{store: store.NewVersioned(), groups: []*group{nil, g}}
	if r.trim(); r.trimmed != 0 || g.oldest != 0 {
		t.Errorf("with a transaction pending since %d, versions up to %d are gone, and reads from %d on are answered", 7*second, r.trimmed, g.oldest)
	}
	g.pending = nil
	if r.trim(); r.trimmed != 90*second || g.oldest != 50*second {
		t.Errorf("with nothing pending, versions up to %d are gone, and reads from %d on are answered", r.trimmed, g.oldest)
	}
}

// Old versions are discarded even if one of the node's groups is idle, for all values of parameter readOnly.
func TestTrimBesideIdleGroup(t *testing.T) {
	for _, readOnly := range []string{readOnlySnapshot, readOnlyCertified} {
		e, replicas := recorded(options{})
		topology := simload.TwoRegions(1)
		p := protocoltest.Params(t, e, map[string]string{"readOnly": readOnly})
		s := sim.New(sim.Config{Topology: topology, Engine: e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
		simload.FillLayout(topology.Placed(), 2, 10, s.Store)
		c := &timed{stream: 1}
		for i := range 60 {
			c.ops, c.at = append(c.ops, "a0+1"), append(c.at, time.Duration(i+1)*time.Second/2)
		}
		s.AddClient(0, func(env protocol.ClientEnv) protocol.Client {
			c.env = env
			return c
		})
		s.Run(35 * time.Second)
		for _, r := range *replicas {
			if trimmed := time.Duration(r.trimmed); trimmed < 20*time.Second {
				t.Errorf("readOnly %s: node %d has trimmed its rows up to %v, want 20s at least", readOnly, r.self, trimmed)
			}
		}
	}
}

// A read-only transaction whose footprint is a hint may use any of the node's groups. It therefore reads at a timestamp
// that all of them have closed. With an exact footprint, only the groups that it reads matter.
func TestCutOfFootprint(t *testing.T) {
	topology := simload.TwoRegions(1) // even rows belong to group 0, odd rows to group 1
	at := func(horizon uint64) *group { return &group{state: state{horizon: horizon}} }
	r := &Replica{layout: topology.Placed(), groups: []*group{at(9), at(5)}}
	elsewhere := &Replica{layout: topology.Placed(), groups: []*group{at(9), nil}}
	for name, tc := range map[string]struct {
		replica *Replica
		exact   bool
		row     uint64
		want    uint64
	}{
		"exact":               {r, true, 0, 9},
		"hint":                {r, false, 0, 5},
		"exact, of no member": {elsewhere, true, 1, 9},
		"hint, of no member":  {elsewhere, false, 1, 9},
	} {
		x := &txn.Transaction{Footprint: txn.Footprint{Exact: tc.exact, Accesses: []txn.Access{{Key: simload.Key(tc.row)}}}}
		if got := tc.replica.cut(x); got != tc.want {
			t.Errorf("%s: the cut is at %d, want %d", name, got, tc.want)
		}
	}
}

// recorded returns the engine with a list of its replicas.
func recorded(o options) (*protocol.Engine, *[]*Replica) {
	var replicas []*Replica
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		r := newReplica(c, o)
		replicas = append(replicas, r)
		return r
	}
	return &e, &replicas
}

// idle returns the replicas of a database with two regions that has executed no transactions.
func idle(t *testing.T) []*Replica {
	e, replicas := recorded(options{})
	s := sim.New(sim.Config{
		Topology: simload.TwoRegions(1), Engine: e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: protocoltest.Params(t, e, nil), Costs: sim.DefaultCosts,
	})
	s.Run(time.Second)
	return *replicas
}

// A group with a command that waits to be proposed is not idle.
func TestPendingCountsWhatIsToBeProposed(t *testing.T) {
	r := idle(t)[0]
	if n := r.Pending(); n != 0 {
		t.Errorf("%d are pending before anything was done", n)
	}
	g := r.groups[0]
	g.Batch = append(g.Batch, commandPrevent)
	if n := r.Pending(); n != 1 {
		t.Errorf("%d are pending with a command that is to be proposed, want 1", n)
	}
}

// A group that has voted to abort an undelivered transaction may have announced that vote. It refuses the transaction
// when it is delivered.
func TestPreventedIsRefused(t *testing.T) {
	g := idle(t)[0].groups[0]
	x := &delivery{name: raftgroup.Name{Coordinator: 1, Number: 7}}
	x.Participants, x.Anchor = []int{0, 1}, 1
	g.applyPrevent(x.name)
	g.deliver(x)
	if e, over, _ := g.ended.Look(x.name); len(g.pending)+len(g.globals) > 0 || !over || e.verdict != Prevented {
		t.Errorf("%d are pending, %d are known; it has ended: %v %v", len(g.pending), len(g.globals), over, e.verdict)
	}
}

// A scan with a limit has read all rows that it returned, including the last. Of two transactions that remove the same
// first row of a group, only one commits.
func TestLastRowOfAScan(t *testing.T) {
	topology := simload.TwoRegions(1)
	s := sim.New(sim.Config{Topology: topology, Engine: Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: protocoltest.Params(t, Engine, nil), Costs: sim.DefaultCosts})
	simload.FillGroups(topology.Placed(), 1, 3, s.Store)
	var clients []*timed
	for r := range topology.Regions {
		s.AddClient(geo.Region(r), func(env protocol.ClientEnv) protocol.Client {
			c := &timed{env: env, stream: uint32(r) + 1, ops: []string{"o0"}, at: []time.Duration{time.Second}}
			clients = append(clients, c)
			return c
		})
	}
	s.Run(10 * time.Second)
	ended := slices.Concat(clients[0].ended, clients[1].ended)
	slices.Sort(ended)
	left := 0
	s.Store(0).Scan(txn.Prefix(simload.GroupKey(0, 0).Unit()), func(txn.Key, store.Record) bool { left++; return true })
	if !slices.Equal(ended, []txn.Status{txn.Committed, txn.Aborted}) || left != 2 {
		t.Errorf("the transactions have ended %v, and %d of 3 rows are left, want 2", ended, left)
	}
}

// A global transaction may complete before its outcome is in the log. A snapshot contains such a transaction, because a
// leader sends the final outcome to the coordinator only when the log contains it.
func TestSnapshotOfCompletedGlobal(t *testing.T) {
	replicas := idle(t)
	from, to := replicas[0].groups[1], replicas[1].groups[1]
	x := &delivery{name: raftgroup.Name{Coordinator: 1, Number: 7}, decided: true, verdict: Commit, timestamp: 9}
	x.Participants, x.Anchor = []int{0, 1}, 1
	from.globals[x.name] = x
	from.finish(x)
	to.Restore(from.Snapshot())
	got := to.globals[x.name]
	if got == nil || !slices.Equal(got.Participants, x.Participants) || got.Anchor != x.Anchor || got.completed != x.completed || got.timestamp != x.timestamp {
		t.Errorf("%+v comes back as %+v", x, got)
	}
}

// If the log entries that a member needs were discarded, the member receives a snapshot with rows, pending transactions
// and filters.
func TestSnapshots(t *testing.T) {
	for name, given := range map[string]map[string]string{"default": nil, "reordered": {"reorderThreshold": "8", "tick": "2ms"}} {
		t.Run(name, func(t *testing.T) {
			forgetful, replicas := recorded(options{keep: 1})
			protocoltest.Cuts(t, forgetful, given, 6)
			var restored int64
			for _, r := range *replicas {
				restored += r.counters.restored
			}
			if t.Logf("%d snapshots", restored); restored < 10 {
				t.Errorf("%d snapshots are few", restored)
			}
		})
	}
}

// Aborts are counted by reason, and false positives are distinguished from conflicts.
func TestCountersOfAbortions(t *testing.T) {
	e, replicas := recorded(options{})
	topology := simload.ThreeRegions(1)
	s := sim.New(sim.Config{
		Topology: topology, Engine: e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Params: protocoltest.Params(t, e, map[string]string{"history": "50", "filterBits": "64"}),
	})
	const rows = 2000
	simload.FillLayout(topology.Placed(), rows, 100, s.Store)
	reasons := map[string]int{}
	var loads []*simload.Clients
	next := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1 a%d-1", 200+r.IntN(rows-200), r.IntN(200)) }
	for r := range topology.Regions {
		loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 30, Next: next, Until: 10 * time.Second}))
	}
	s.Run(20 * time.Second)
	for _, l := range loads {
		for reason, n := range l.Reasons {
			reasons[reason] += n
		}
	}
	var c counters
	for _, r := range *replicas {
		c.conflicts += r.counters.conflicts
		c.falsePositives += r.counters.falsePositives
		c.tooOld += r.counters.tooOld
	}
	t.Logf("%v, and groups count %d, %d and %d", reasons, c.conflicts, c.falsePositives, c.tooOld)
	// Two groups may reject a global transaction, and its client receives one of the reasons.
	for reason, n := range map[string]int64{ReasonConflict: c.conflicts, ReasonFalsePositive: c.falsePositives, ReasonTooOld: c.tooOld} {
		if reasons[reason] == 0 || int64(reasons[reason]) > n {
			t.Errorf("clients hear %q %d times, groups count %d", reason, reasons[reason], n)
		}
	}
}

// An idle database stores only the outcomes of each coordinator's most recent transactions, and nothing is pending.
func TestBoundedMemory(t *testing.T) {
	topology := simload.ThreeRegions(2)
	e, replicas := recorded(options{})
	s := sim.New(sim.Config{
		Topology: topology, Engine: e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: protocoltest.Params(t, e, nil), Costs: sim.DefaultCosts,
	})
	const rows = 5000
	simload.FillLayout(topology.Placed(), rows, 100, s.Store)
	next := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1 a%d-1", r.IntN(rows/2), rows/2+r.IntN(rows/2)) }
	committed := 0
	var loads []*simload.Clients
	for r := range topology.Regions {
		loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 30, Next: next, Until: 30 * time.Second}))
	}
	s.Run(time.Minute)
	for _, l := range loads {
		committed += l.Outcomes[txn.Committed]
	}
	remembered := 0
	for _, r := range *replicas {
		if len(r.open) > 0 || r.Pending() > 0 {
			t.Errorf("node %d has %d transactions open and %d pending", r.self, len(r.open), r.Pending())
		}
		for _, g := range r.groups {
			if g == nil {
				continue
			}
			if left := len(g.pending) + len(g.globals) + len(g.prevented) + len(g.demands) + len(g.reads); left > 0 || !g.Idle() {
				t.Errorf("node %d, group %d: %d left", r.self, g.Shard, left)
			}
			remembered += g.ended.Len() + len(g.early)
		}
	}
	t.Logf("%d transactions, of which the %d members remember %d", committed, 6*3, remembered)
	if committed < 3000 || remembered > 18*6*20 {
		t.Errorf("of %d transactions, %d are remembered", committed, remembered)
	}
}

// timed is a client that submits transactions at given times.
type timed struct {
	env    protocol.ClientEnv
	stream uint32
	at     []time.Duration
	ops    []string
	ended  []txn.Status
	last   time.Duration // time of the last outcome
}

func (c *timed) Start() {
	for i, at := range c.at {
		c.env.After(at, protocol.Timer{Arg: uint64(i)})
	}
}

func (c *timed) Fire(t protocol.Timer) {
	c.env.Submit(simload.Txn(txn.MakeID(c.stream, t.Arg+1), c.ops[t.Arg]))
}

func (c *timed) Complete(o txn.Outcome) {
	c.ended, c.last = append(c.ended, o.Status), c.env.Now()
}

// Two global transactions that have no row in common are delivered in opposite orders in the two groups. Between them,
// each group delivers a local transaction. The local transaction writes a row that the group's first global transaction
// has read, and has read a row that the second global transaction writes. If a local transaction were certified only
// against transactions that it does not leap over, all four would commit, in a cycle.
func TestLeapsKeepAnOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		engine *protocol.Engine
		passes bool
	}{"right": {Engine, true}, "broken": {LeapsOverWrites, false}} {
		t.Run(name, func(t *testing.T) {
			topology := simload.TwoRegions(1) // even rows belong to group 0, odd rows to group 1
			s := sim.New(sim.Config{
				Topology: topology, Engine: tc.engine, Figures: protocoltest.Figures(t), Procedures: simload.Traced, Seed: 1,
				Params: protocoltest.Params(t, tc.engine, map[string]string{"reorderThreshold": "3"}),
			})
			simload.FillLayout(topology.Placed(), 4, 10, s.Store)
			taps := &history.Taps{Placement: topology.Placement(), Procedures: simload.Traced}
			start := time.Second
			var clients []*timed
			for r, ops := range [][]string{{"r2 a3+1", "r0 a2+1"}, {"r1 a0+1", "r3 a1+1"}} {
				number := func(id txn.ID) uint32 { return uint32(uint64(id) & 0xff) }
				s.AddClient(geo.Region(r), taps.Client(topology.Regions[r], number, func(env protocol.ClientEnv) protocol.Client {
					c := &timed{env: env, stream: uint32(r) + 1, ops: ops, at: []time.Duration{start, start + 60*time.Millisecond}}
					clients = append(clients, c)
					return c
				}))
			}
			s.Run(10 * time.Second)
			if err := taps.Finish(); err != nil {
				t.Fatal(err)
			}
			v := history.Check(&taps.History, isolation.Serializable)
			if t.Logf("%v %v: %s", clients[0].ended, clients[1].ended, v.Check().Message); v.Passed != tc.passes {
				t.Errorf("serializable: %v, want %v", v.Passed, tc.passes)
			}
			committed := 0
			for _, c := range clients {
				for _, s := range c.ended {
					if s == txn.Committed {
						committed++
					}
				}
			}
			if want := map[bool]int{true: 2, false: 4}[tc.passes]; committed != want {
				t.Errorf("%d transactions are committed, want %d", committed, want)
			}
		})
	}
}

// TestLeapersThatWaitAreCounted: a local transaction that leaps over one global transaction may still have to wait for
// another. This is the case if it arrived too late to leap over the second global transaction. Two local transactions
// leap over the first global transaction and do not wait. The third arrives too late. The fourth leaps over the second
// global transaction and, like the third, waits for the first.
func TestLeapersThatWaitAreCounted(t *testing.T) {
	topology := simload.TwoRegions(1)
	p := protocoltest.Params(t, Engine, map[string]string{"reorderThreshold": "2", "tick": "200ms"})
	s := sim.New(sim.Config{Topology: topology, Engine: Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
	simload.FillLayout(topology.Placed(), 20, 10, s.Store)
	c := &timed{stream: 1, ops: []string{"a0+1 a1+1", "a2+1", "a4+1", "a6+1", "a8+1 a3+1", "a10+1"}}
	for i := range c.ops {
		c.at = append(c.at, time.Second+time.Duration(i)*8*time.Millisecond)
	}
	s.AddClient(0, func(env protocol.ClientEnv) protocol.Client {
		c.env = env
		return c
	})
	s.Run(10 * time.Second)
	if len(c.ended) != len(c.ops) || slices.ContainsFunc(c.ended, func(s txn.Status) bool { return s != txn.Committed }) {
		t.Fatalf("the transactions have ended %v, want all committed", c.ended)
	}
	for name, want := range map[string]int64{"leap_tries": 3, "leaps": 3, "waits_behind_globals": 2} {
		if got := protocoltest.Counter(s, topology, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// No group demands a vote before a delayed submission can have arrived, for any delay.
func TestDelayBeyondRecovery(t *testing.T) {
	topology := simload.TwoRegions(1)
	p := protocoltest.Params(t, Engine, map[string]string{"delay": "3s", "recovery": "100ms"})
	s := sim.New(sim.Config{Topology: topology, Engine: Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
	simload.FillLayout(topology.Placed(), 8, 10, s.Store)
	c := &timed{stream: 1, ops: []string{"a0+1 a1+1"}, at: []time.Duration{time.Second}}
	s.AddClient(0, func(env protocol.ClientEnv) protocol.Client {
		c.env = env
		return c
	})
	if s.Run(10 * time.Second); !slices.Equal(c.ended, []txn.Status{txn.Committed}) {
		t.Errorf("the transaction has ended %v, want committed", c.ended)
	}
}

// A global transaction on an idle database waits for the ticks of its threshold, as the latency model predicts.
func TestLawOfTheThreshold(t *testing.T) {
	for name, topology := range map[string]*geo.Topology{
		"2 regions": simload.TwoRegions(1), "3 regions": simload.ThreeRegions(1), "8 regions": simload.EightRegions(1),
	} {
		for _, given := range []map[string]string{
			{"reorderThreshold": "1", "tick": "20ms"}, {"reorderThreshold": "3", "tick": "20ms"}, {"reorderThreshold": "40", "tick": "20ms"},
			{"reorderThreshold": "20", "tick": "100ms"}, {"reorderThreshold": "20", "tick": "200ms"},
		} {
			t.Run(fmt.Sprintf("%s, %s times %s", name, given["reorderThreshold"], given["tick"]), func(t *testing.T) {
				p := protocoltest.Params(t, Engine, given)
				s := sim.New(sim.Config{Topology: topology, Engine: Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
				simload.FillLayout(topology.Placed(), 8, 10, s.Store)
				start := 3 * time.Second
				c := &timed{stream: 1, ops: []string{"a0+1 a1+1"}, at: []time.Duration{start}}
				s.AddClient(0, func(env protocol.ClientEnv) protocol.Client {
					c.env = env
					return c
				})
				s.Run(10 * time.Second)
				got, law := c.last-start, Engine.Law(topology, p, 0, []geo.Region{0, 1})
				if t.Logf("law %v, measured %v", law, got); len(c.ended) != 1 || got < law*95/100 || got > law*105/100 {
					t.Errorf("measured %v, the law is %v", got, law)
				}
			})
		}
	}
}
