package explore

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// world is a scenario, generated from a seed.
type world struct {
	seed     uint64 // seed of the simulator's random numbers
	topology *geo.Topology
	params   protocol.Params
	// coordinators determines to which node a client sends each transaction.
	coordinators geo.Coordinators
	offsets      []time.Duration // clock offsets by node
	costs        sim.Costs
	codec        bool // messages are encoded and decoded between nodes
	durable      bool // nodes keep logs, so that crashed nodes can restart
	faults       []fault
	calm         time.Duration // time at which the last fault is over
	load         load
	// calls are the transactions that clients send, ordered by time; nil if clients draw their transactions.
	calls []call
	core  core
	// rare is the plan of rare actions of replicas; nil if they take none.
	rare  *buggify.Plan
	disks disks
	// timeline has faults in the form of spec.faults of a run.
	timeline []v1alpha1.Fault
	// wide holds the additional settings of a Config.Wide scenario. isWide is set if the scenario is wide.
	wide   wide
	isWide bool
}

// fault is a fault of a link, a node, a clock or a region.
type fault struct {
	at   time.Duration
	kind faultKind
	a, b geo.Region    // b is used only for cuts and heals
	node geo.NodeID    // for crashes, restarts, clock jumps and unreadable logs
	by   time.Duration // change of the clock in a jump; in vanish, time from the loss to the next incarnation
	// region is set if all nodes of region a lose their state, rather than only node.
	region bool
	// loses is the percentage of its unsynced data that a crashing node loses.
	loses int
}

type faultKind uint8

const (
	cut faultKind = iota
	heal
	lose
	crash
	restart
	jump       // the clock of a node jumps
	vanish     // a node, or all nodes of a region, lose their processes and memory; new incarnations replace them
	unreadable // a restarting node cannot read its log, so its region is lost
)

// loss reports whether a region is lost permanently.
func (k faultKind) loss() bool { return k == lose || k == unreadable }

func (f fault) describe(t *geo.Topology) string {
	switch f.kind {
	case cut:
		return fmt.Sprintf("cut %s-%s", t.Regions[f.a], t.Regions[f.b])
	case heal:
		return fmt.Sprintf("heal %s-%s", t.Regions[f.a], t.Regions[f.b])
	case crash:
		if f.loses > 0 {
			return fmt.Sprintf("crash %s, %d%% of what it has not synced is lost", t.NodeName(f.node), f.loses)
		}
		return "crash " + t.NodeName(f.node)
	case restart:
		return "restart " + t.NodeName(f.node)
	case vanish:
		if f.region {
			return fmt.Sprintf("the nodes of region %s lose their processes and memory, new incarnations take their places after %v", t.Regions[f.a], f.by)
		}
		return fmt.Sprintf("%s loses its process and memory, a new incarnation takes its place after %v", t.NodeName(f.node), f.by)
	case unreadable:
		return fmt.Sprintf("%s cannot read its log, lose region %s", t.NodeName(f.node), t.Regions[f.a])
	case jump:
		return fmt.Sprintf("the clock of %s jumps by %v", t.NodeName(f.node), f.by)
	default:
		return "lose region " + t.Regions[f.a]
	}
}

// Streams of a scenario's random numbers. Draws that do not depend on the engine are the same for all engines. Every
// new kind of draw has a new stream, so that the scenarios of existing seeds do not change.
const (
	streamTopology = iota + 1
	streamParams
	streamFaults
	streamLoad
	streamClients     // region r uses streamClients+r
	streamCrashes     = 100
	streamLength      = 101
	streamGroups      = 102
	streamPlaces      = 103
	streamClocks      = 104
	streamAppends     = 105
	streamCore        = 110
	streamShakes      = 111
	streamTurns       = 112
	streamDisks       = 113
	streamSyncs       = 114
	streamLosses      = 115
	streamTimeline    = 116
	streamRuns        = 117
	streamCheckpoints = 118
	streamNextLosses  = 119
	streamLags        = 120
	streamWide        = 121
	streamHomes       = 109 // 106 to 108 would change the scenarios of seeds in TestSeedsThatFailed
)

func newRNG(seed uint64, of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }

const (
	// maxNodes is the maximum number of nodes in a scenario. With more nodes, protocols with all-to-all messages would be
	// slow.
	maxNodes = 12
	// maxRegions and maxHostileRegions are the maximum numbers of regions. With five regions, a protocol that tolerates
	// the loss of a minority can lose two.
	maxRegions, maxHostileRegions = 4, 5
	// maxCuts and maxHostileCuts limit the number of cuts of single links in a scenario.
	maxCuts, maxHostileCuts = 4, 12
)

// newWorld generates the scenario of a seed. It fails if the engine rejects all topologies and parameters that newWorld
// draws.
func newWorld(c Config) (*world, error) {
	w := &world{seed: c.Seed, isWide: c.Wide}
	scale, r, err := w.draw(c)
	if err != nil {
		return nil, err
	}
	if c.Replace {
		w.preferReplaceable(c)
	}
	// Use round-robin coordinators only if nodes query the masters of rows, because they make no difference otherwise.
	// This restriction also preserves the scenarios of seeds that failed earlier.
	if w.params[locallog.MastersParameter.Name] != "" && newRNG(c.Seed, streamTurns).IntN(2) == 0 && locallog.AsksMasters(w.params) {
		w.coordinators = geo.RoundRobin
	}
	w.costs = []sim.Costs{{}, sim.DefaultCosts, times(sim.DefaultCosts, 10)}[r.IntN(3)]
	w.codec = r.IntN(4) == 0 && c.Engine.Decode != nil
	skew := []time.Duration{0, time.Millisecond, 100 * time.Millisecond}[r.IntN(3)]
	for range w.topology.Nodes() {
		w.offsets = append(w.offsets, upTo(r, skew))
	}
	w.load = newLoad(newRNG(c.Seed, streamLoad), scale)
	if c.Slow {
		w.load.readers = true
		w.load.until *= slowness
		w.load.think = w.load.until / maxSent
	}
	w.load.groups = !w.load.bank && newRNG(c.Seed, streamGroups).IntN(2) == 0
	w.load.appends = w.load.groups && newRNG(c.Seed, streamAppends).IntN(2) == 0
	if c.Wide {
		w.makeWide(newRNG(c.Seed, streamWide))
	}
	long := newRNG(c.Seed, streamLength).IntN(8) == 0 || c.Slow
	if c.Runs {
		if err := w.makeRunLoad(newRNG(c.Seed, streamRuns)); err != nil {
			return nil, err
		}
		w.makeTimeline(c, newRNG(c.Seed, streamTimeline), long)
	} else {
		w.makeFaults(c, newRNG(c.Seed, streamFaults), long)
		w.makeCrashes(c.Engine, newRNG(c.Seed, streamCrashes))
		w.makeJumps(c.Engine, newRNG(c.Seed, streamClocks))
	}
	// Add disks and losses after the faults: makeDisks changes the crashes in the schedule, and makeLosses removes them.
	if c.Disk {
		w.makeDisks(c.Engine, newRNG(c.Seed, streamDisks))
	}
	if c.Replace {
		w.makeLosses(c.Engine, newRNG(c.Seed, streamLosses))
	}
	if c.Buggify {
		// Rare actions stop when faults and load are over: with rare actions, a database might never become quiescent.
		w.rare = buggify.NewPlan(c.Seed, max(w.calm, w.load.until))
	}
	if c.Core {
		w.makeCore(c.Engine, newRNG(c.Seed, streamCore))
	}
	return w, nil
}

// loses reports whether the database may lose acknowledged transactions by design, like primary with failover:
// Unplanned. The explorer then checks everything except the history.
func (w *world) loses(e *protocol.Engine) bool { return e.Loses != nil && e.Loses(w.params) }

// maxDraws is the maximum number of draws of the topology and the parameters of a scenario.
const maxDraws = 1000

// draw draws the topology and the parameters until the engine accepts them. The first draw is the same for all engines.
// draw returns the scale of the topology's delays and the random generator for the remaining draws.
func (w *world) draw(c Config) (scale time.Duration, r *rand.Rand, err error) {
	for n := range uint64(maxDraws) {
		again := n << 32 // in the high bits, so that no two attempts use the same stream
		r = newRNG(c.Seed, streamTopology+again)
		scale = []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}[r.IntN(4)]
		w.topology = newTopology(c, r, scale)
		if c.Engine.TakesGroups {
			w.topology.Homes = newHomes(w.topology, newRNG(c.Seed, streamHomes+again))
			w.topology.Groups = newGroups(w.topology, newRNG(c.Seed, streamPlaces+again))
		}
		w.params = newParams(c, newRNG(c.Seed, streamParams+again))
		w.drawLags(c, newRNG(c.Seed, streamLags+again))
		// If a database may lose acknowledged transactions, its histories would fail the check. Wide scenarios accept such a
		// database, and skip the check.
		if w.loses(c.Engine) && !c.Wide {
			err = fmt.Errorf("that it may lose what it has answered")
			continue
		}
		// If an idle database may use a quarter of the event budget, too few events are left for the load and the recovery.
		if c.Wide && idleEvents(c.Engine, w.topology, w.params) > maxEvents/4 {
			err = fmt.Errorf("that its nodes exchange too many messages during the longest of its durations")
			continue
		}
		if err = c.Engine.Accepts(w.topology, w.params); err == nil {
			return scale, r, nil
		}
	}
	return 0, nil, fmt.Errorf("engine %s takes none of the %d topologies and parameters that seed %d draws; of the last one it says %w",
		c.Engine.Name, maxDraws, c.Seed, err)
}

// idleEvents estimates the number of events of an idle database during its longest duration parameter. It assumes that
// each node sends a message to every other node once in the shortest duration parameter. The factor of 2 allows for
// recovery, which waits for a few of the longest durations.
func idleEvents(e *protocol.Engine, t *geo.Topology, params protocol.Params) uint64 {
	var longest, shortest time.Duration
	for _, p := range e.Parameters {
		if p.Integer || len(p.OneOf) > 0 {
			continue
		}
		if d := params.Duration(p.Name); d > 0 {
			longest = max(longest, d)
			if shortest == 0 || d < shortest {
				shortest = d
			}
		}
	}
	if shortest == 0 {
		return 0
	}
	n := uint64(t.Nodes())
	return uint64(longest/shortest) * n * (n - 1) * 2
}

// replaceableDraws limits how often preferReplaceable draws other parameters.
const replaceableDraws = 16

// preferReplaceable draws other parameters for a scenario with losses until the engine can replace at least one node.
// It keeps the original parameters if replaceableDraws draws fail.
func (w *world) preferReplaceable(c Config) {
	for n := uint64(1); n <= replaceableDraws && c.Engine.Replaces != nil && len(c.Engine.Replaces(w.topology, w.params)) == 0; n++ {
		other := newParams(c, newRNG(c.Seed, streamParams+(maxDraws+n)<<32))
		if idleEvents(c.Engine, w.topology, other) <= maxEvents/4 && c.Engine.Accepts(w.topology, other) == nil &&
			(c.Engine.Loses == nil || !c.Engine.Loses(other)) && len(c.Engine.Replaces(w.topology, other)) > 0 {
			w.params = other
		}
	}
}

// upTo draws a duration from [0, d].
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

func times(c sim.Costs, n time.Duration) sim.Costs {
	return sim.Costs{Message: n * c.Message, Kilobyte: n * c.Kilobyte, Key: n * c.Key, Step: n * c.Step}
}

func newTopology(c Config, r *rand.Rand, scale time.Duration) *geo.Topology {
	t := &geo.Topology{Partitions: 1 + r.IntN(3), Replicas: []int{1, 1, 1, 1, 2, 3}[r.IntN(6)]}
	most := maxRegions
	if c.Hostile {
		most = maxHostileRegions
	}
	regions := 1 + r.IntN(most)
	if c.OnePartition {
		t.Partitions, t.Replicas = 1, 1
	}
	if regions*t.Partitions*t.Replicas > maxNodes {
		t.Replicas = 1
	}
	t.Partitions = min(t.Partitions, maxNodes/regions)
	jitter, loss, asymmetric := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(4) == 0
	var mbps int64
	if r.IntN(5) == 0 {
		mbps = 1 + r.Int64N(1000)
	}
	for a := range regions {
		t.Regions = append(t.Regions, string(rune('a'+a)))
		t.Links = append(t.Links, make([]geo.Link, regions))
	}
	for a := range regions {
		for b := range a + 1 {
			// The delay between two regions is at least a tenth of the scale, so link delays differ by at
			// most a factor of ten.
			d := scale/10 + upTo(r, scale-scale/10)
			if a == b {
				d = 50*time.Microsecond + upTo(r, 450*time.Microsecond)
			}
			there := geo.Link{Delay: d, BandwidthMbps: mbps}
			if jitter {
				there.Jitter = upTo(r, d/2)
			}
			if loss {
				there.LossPPM = r.Int64N(20_000)
			}
			back := there
			if asymmetric && a != b {
				back.Delay = scale/10 + upTo(r, scale-scale/10)
			}
			t.Links[a][b], t.Links[b][a] = there, back
		}
	}
	return t
}

// newHomes restricts the homes of rows to the first regions, in a quarter of the scenarios with several regions. It
// returns the number of home regions, or 0 if all regions are homes. It uses a separate stream of random numbers, so
// that other draws do not change.
func newHomes(t *geo.Topology, r *rand.Rand) int {
	if regions := len(t.Regions); regions > 1 && r.IntN(4) == 0 {
		return 1 + r.IntN(regions-1)
	}
	return 0
}

// newGroups places about half of the cells explicitly, in half of the scenarios. Such a cell has a random leader, and a
// random number of members in each region.
func newGroups(t *geo.Topology, r *rand.Rand) (groups []geo.CellGroup) {
	if r.IntN(2) == 0 {
		return nil
	}
	for cell := range len(t.Regions) * t.Partitions {
		if r.IntN(2) == 0 {
			continue
		}
		g := geo.CellGroup{
			Cell:   geo.Cell{Home: geo.Region(cell / t.Partitions), Partition: cell % t.Partitions},
			Leader: geo.Region(r.IntN(len(t.Regions))),
		}
		for range t.Regions {
			g.Replicas = append(g.Replicas, r.IntN(t.Replicas+1))
		}
		// A leader needs at least one member in its own region.
		g.Replicas[g.Leader] = max(1, g.Replicas[g.Leader])
		// Only the first Placement().Regions regions are homes of rows, so cells of later regions have no group. Draw the
		// groups of such cells anyway, so that later draws from this stream do not change.
		if int(g.Home) < t.Placement().Regions {
			groups = append(groups, g)
		}
	}
	return groups
}

// newParams draws parameters that a user might choose: any of the named values, and integers and durations near the
// default. Hostile scenarios draw durations with the function hostile. Wide scenarios draw all values with wideParam.
func newParams(c Config, r *rand.Rand) protocol.Params {
	e := c.Engine
	given := map[string]string{}
	for _, p := range e.Parameters {
		switch {
		case c.Wide:
			given[p.Name] = wideParam(p, r)
		case len(p.OneOf) > 0:
			given[p.Name] = p.OneOf[r.IntN(len(p.OneOf))]
		case p.Integer:
			if r.IntN(2) == 0 {
				given[p.Name] = fmt.Sprint(p.MinInt + r.Int64N(min(p.MaxInt-p.MinInt, 16)+1))
			}
		case c.Hostile:
			given[p.Name] = hostile(p, r).String()
		default:
			d, _ := time.ParseDuration(p.Default) // a test checks that all defaults are valid
			given[p.Name] = min(p.Max, max(p.Min, []time.Duration{d / 2, d, d, 4 * d}[r.IntN(4)])).String()
		}
	}
	params, errs := e.Resolve(given)
	for len(errs) > 0 && given[errs[0].Name] != "" { // the engine rejects some combinations
		for _, err := range errs {
			delete(given, err.Name)
		}
		params, errs = e.Resolve(given)
	}
	if len(errs) > 0 {
		panic(fmt.Sprintf("explore: the values drawn for engine %s are refused: %v", e.Name, errs[0]))
	}
	return params
}

// drawLags changes durations that are 0 by default, such as a lag or a delay. In half of the cases it draws a value
// from a log-uniform distribution, because a value above 0 enables code that the default skips. It uses a separate
// stream of random numbers, so that other draws do not change.
func (w *world) drawLags(c Config, r *rand.Rand) {
	if c.Broken || c.Wide {
		return // the scenarios that catch faulty variants must not change, and wide scenarios already draw lags
	}
	for _, p := range c.Engine.Parameters {
		d, err := time.ParseDuration(p.Default)
		if p.Integer || len(p.OneOf) > 0 || err != nil || d != 0 || p.Min != 0 {
			continue
		}
		// Draw the value unconditionally, so that later draws do not depend on the decision to keep it.
		if value := logUniform(r, leastLag, min(p.Max, mostLag)); r.IntN(2) == 0 {
			given := maps.Clone(w.params)
			given[p.Name] = value.String()
			if params, errs := c.Engine.Resolve(given); len(errs) == 0 {
				w.params = params
			}
		}
	}
}

// leastLag and mostLag are the bounds of drawn lags. A longer lag would only prolong the scenario.
const leastLag, mostLag = 100 * time.Microsecond, 4 * time.Second

// logUniform draws a duration between two positive durations. The logarithm of the duration is uniformly distributed.
func logUniform(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(float64(least)*(math.Pow(float64(most)/float64(least), r.Float64())-1))
}

// hostile draws the value of a duration parameter. With probability 1/8 it returns the engine's minimum. Otherwise the
// value is log-uniform between the minimum and four times the default. The lower end of this range is at least a
// thousandth of the default, because a minimum of 0 has no logarithm.
func hostile(p protocol.Parameter, r *rand.Rand) time.Duration {
	d, _ := time.ParseDuration(p.Default)
	least, most := max(p.Min, d/1000), min(p.Max, 4*d)
	if r.IntN(8) == 0 || least == 0 || most <= least {
		return p.Min
	}
	return logUniform(r, least, most)
}

// makeFaults draws the fault schedule. Every cut heals. A cut lasts at most 1.3 s, or about 20 s if long is set.
func (w *world) makeFaults(c Config, r *rand.Rand, long bool) {
	t, until := w.topology, w.load.until
	regions := len(t.Regions)
	if regions < 2 {
		return
	}
	manyCuts := maxCuts
	if c.Hostile {
		manyCuts = maxHostileCuts
	}
	cuts, isolate, loses := r.IntN(manyCuts+1), r.IntN(4) == 0, r.IntN(3) == 0
	// Draw before the engine's tolerance is known, so that the number of draws is the same for all engines.
	choice := r.Uint64()
	survival := c.Engine.Tolerance(t, w.params)
	if may, most := survival.Regions, survival.Most; loses && len(may) > 0 {
		first := int(choice % uint64(len(may)))
		w.faults = append(w.faults, fault{at: upTo(r, until), kind: lose, a: may[first]})
		if c.Hostile && most > 1 && r.IntN(2) == 0 {
			second := (first + 1 + r.IntN(len(may)-1)) % len(may)
			w.faults = append(w.faults, fault{at: upTo(r, until), kind: lose, a: may[second]})
		}
	}
	lost := w.lost()
	breakLink := func(a, b geo.Region, from, to time.Duration) {
		// If a node is lost while a link is cut, the messages of that node on the link are lost as well. Only engines that
		// declare InFlight tolerate this.
		if (slices.Contains(lost, a) || slices.Contains(lost, b)) && !survival.InFlight {
			return
		}
		w.faults = append(w.faults, fault{at: from, kind: cut, a: a, b: b}, fault{at: to, kind: heal, a: a, b: b})
		w.calm = max(w.calm, to)
	}
	window := func() (from, to time.Duration) {
		from = upTo(r, until)
		// Short and long cuts are equally interesting, so draw the length from a roughly log-uniform distribution.
		length := 10 * time.Millisecond << r.IntN(7)
		if long {
			length *= 16
		}
		return from, from + length + upTo(r, length)
	}
	for range cuts {
		a := r.IntN(regions)
		b := (a + 1 + r.IntN(regions-1)) % regions
		from, to := window()
		// Put the region with the lower number first, because a cut and its heal must name the same pair.
		breakLink(geo.Region(min(a, b)), geo.Region(max(a, b)), from, to)
	}
	if isolate {
		a := r.IntN(regions)
		from, to := window()
		for b := range regions {
			if b != a {
				breakLink(geo.Region(a), geo.Region(b), from, to)
			}
		}
	}
	w.sortFaults()
}

// makeCrashes makes nodes crash and restart in a third of the scenarios, one node or all nodes of a region together.
// Nodes of lost regions do not crash.
//
// Messages from a lost node to a node that is down are lost, as on a link that is cut. So a scenario with a lost region
// has crashes only if the engine tolerates the loss of such messages (InFlight).
func (w *world) makeCrashes(e *protocol.Engine, r *rand.Rand) {
	lost := w.lost()
	w.durable = r.IntN(3) == 0 && (len(lost) == 0 || e.Tolerance(w.topology, w.params).InFlight)
	if w.durable {
		w.drawCrashes(r)
	}
}

func (w *world) drawCrashes(r *rand.Rand) {
	t, until, lost := w.topology, w.load.until, w.lost()
	free := make([]time.Duration, t.Nodes()) // by node, the earliest time of its next crash
	for range 1 + r.IntN(5) {
		n, together := geo.NodeID(r.IntN(t.Nodes())), r.IntN(4) == 0
		at, down := upTo(r, until), 10*time.Millisecond<<r.IntN(8)
		down += upTo(r, down)
		for m := range geo.NodeID(t.Nodes()) {
			if m != n && !(together && t.RegionOf(m) == t.RegionOf(n)) || slices.Contains(lost, t.RegionOf(m)) {
				continue
			}
			// Let a node crash again only after its restart, so that its crashes and restarts alternate.
			from := max(at, free[m])
			free[m] = from + down
			w.faults = append(w.faults, fault{at: from, kind: crash, node: m}, fault{at: free[m], kind: restart, node: m})
		}
	}
	w.sortFaults()
}

// makeJumps makes every clock jump once, within the bound that the engine tolerates. It does so in half of the
// scenarios of engines that depend on synchronized clocks.
func (w *world) makeJumps(e *protocol.Engine, r *rand.Rand) {
	if e.ClockBound == nil || r.IntN(2) == 0 {
		return
	}
	half := e.ClockBound(w.params) / 2 // two clocks may jump in opposite directions
	for n := range geo.NodeID(w.topology.Nodes()) {
		w.faults = append(w.faults, fault{at: upTo(r, w.load.until), kind: jump, node: n, by: upTo(r, 2*half) - half})
	}
	w.sortFaults()
}

func (w *world) sortFaults() {
	// Use a stable sort: if a link heals and is cut at the same instant, the drawn order matters.
	slices.SortStableFunc(w.faults, func(x, y fault) int { return int(x.at - y.at) })
	for _, f := range w.faults {
		w.calm = max(w.calm, f.at)
		if f.kind == vanish {
			w.calm = max(w.calm, f.at+f.by)
		}
	}
	for i := range w.timeline {
		w.calm = max(w.calm, ends(&w.timeline[i]))
	}
}

// lost returns the regions that are lost permanently.
func (w *world) lost() (regions []geo.Region) {
	for _, f := range w.faults {
		if f.kind.loss() {
			regions = append(regions, f.a)
		}
	}
	return append(regions, w.killed()...)
}

// String describes the scenario in a few lines.
func (w *world) String() string {
	var b strings.Builder
	w.describe(&b)
	if w.calls == nil {
		fmt.Fprintf(&b, "%v until %v\n", &w.load, w.load.until)
	} else {
		fmt.Fprintf(&b, "%d calls of %s\n", len(w.calls), w.load.what())
	}
	for _, f := range w.faults {
		fmt.Fprintf(&b, "%v: %s\n", f.at, f.describe(w.topology))
	}
	for i := range w.timeline {
		fmt.Fprintf(&b, "%v: %s\n", w.timeline[i].At.Duration, Describe(&w.timeline[i]))
	}
	w.core.describe(&b, w.topology)
	return b.String()
}

// describe writes the nodes, the parameters and the network of the scenario.
func (w *world) describe(b *strings.Builder) {
	t := w.topology
	fmt.Fprintf(b, "%d regions x %d partitions x %d replicas", len(t.Regions), t.Partitions, t.Replicas)
	for _, name := range slices.Sorted(maps.Keys(w.params)) {
		fmt.Fprintf(b, ", %s %s", name, w.params[name])
	}
	if w.coordinators == geo.RoundRobin {
		b.WriteString(", coordinators by turns")
	}
	b.WriteByte('\n')
	for x := range t.Regions {
		for y := range x + 1 {
			l := t.Links[x][y]
			fmt.Fprintf(b, "link %s-%s: %v", t.Regions[x], t.Regions[y], l.Delay)
			if back := t.Links[y][x].Delay; back != l.Delay {
				fmt.Fprintf(b, " and back %v", back)
			}
			if l.Jitter > 0 {
				fmt.Fprintf(b, ", jitter %v", l.Jitter)
			}
			if l.LossPPM > 0 {
				fmt.Fprintf(b, ", loss %d ppm", l.LossPPM)
			}
			if l.BandwidthMbps > 0 {
				fmt.Fprintf(b, ", %d Mbit/s", l.BandwidthMbps)
			}
			b.WriteByte('\n')
		}
	}
	if t.Homes > 0 {
		fmt.Fprintf(b, "rows call the first %d regions home\n", t.Homes)
	}
	for _, g := range t.Groups {
		fmt.Fprintf(b, "partition %d of %s: members by region %v, led from %s\n", g.Partition, t.Regions[g.Home], g.Replicas, t.Regions[g.Leader])
	}
	w.disks.describe(b)
	w.wide.describe(b)
	if slices.Max(w.offsets) > 0 {
		fmt.Fprintf(b, "clocks ahead by %v\n", w.offsets)
	}
}
