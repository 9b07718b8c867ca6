package explore

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	faults "github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/fault/simulated"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// maxTimeline is the maximum number of faults in a timeline, without faults that stop processes. maxShutdowns is the
	// maximum number of shutdowns.
	maxTimeline, maxShutdowns = 6, 3
	// maxSkew is the maximum offset by which a fault changes a clock, for engines without a bound on clock differences.
	maxSkew = 500 * time.Millisecond
	// mostLossPPM is the maximum packet loss of a link, apart from total loss. With a loss of 50%, some scenarios would
	// not finish in time.
	mostLossPPM = 300_000
)

// makeTimeline replaces the scenario's faults with a timeline like spec.faults of a BenchmarkRun. It draws every kind
// of fault that a simulation supports, with any target that a manifest can name. Faults may overlap.
func (w *world) makeTimeline(c Config, r *rand.Rand, long bool) {
	d := drawer{w, r, long}
	kinds := []string{faults.CPUStress, faults.MemoryStress, faults.DiskReadLoad, faults.DiskWriteLoad, faults.IODelay, faults.ClockSkew}
	if len(w.topology.Regions) > 1 {
		// List partitions several times, so that they are as likely as all other network faults together.
		kinds = append(kinds, faults.NetworkDelay, faults.NetworkLoss, faults.NetworkBandwidth, faults.NetworkPartition, faults.NetworkPartition, faults.NetworkPartition)
	}
	db, survival := w.database(c.Engine), c.Engine.Tolerance(w.topology, w.params)
	switch ends := r.IntN(4); {
	case ends == 0:
		for range 1 + r.IntN(maxShutdowns) {
			d.add(d.shutdown())
		}
	case ends == 1 && len(survival.Regions) > 0:
		kill := &v1alpha1.PodKillFault{Target: v1alpha1.NodeTarget{
			Regions: []string{w.topology.Regions[survival.Regions[r.IntN(len(survival.Regions))]]},
		}}
		// A new incarnation succeeds a killed pod. So the kill must be permanent unless the engine can replace every node.
		kill.Lasting = r.IntN(2) == 0 || !c.Engine.ReplacesAll(w.topology, w.params)
		d.add(v1alpha1.Fault{PodKill: kill})
	case ends == 2 && c.Engine.ReplacesAll(w.topology, w.params):
		one := int32(1)
		d.add(v1alpha1.Fault{ContainerKill: &v1alpha1.ContainerKillFault{Target: v1alpha1.NodeTarget{Count: &one}}})
	}
	// A partition may hold back messages from nodes that are then killed. Such messages are lost; see makeFaults.
	if len(w.killed()) > 0 && !survival.InFlight {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == faults.NetworkPartition })
	}
	skew := maxSkew
	if c.Engine.ClockBound != nil {
		skew = c.Engine.ClockBound(w.params) / 2 / maxTimeline // all skews may affect the same node
	}
	for range 1 + r.IntN(maxTimeline) {
		d.add(d.fault(kinds[r.IntN(len(kinds))], skew, c.Engine.Roles))
	}
	plan := faults.NewPlan(w.timeline, w.topology, w.seed)
	// LogsSimulated decides whether the faults require nodes with logs, as in simulated runs.
	w.durable = db.LogsSimulated(plan)
	w.settle()
}

// Timeline draws faults for a run on a real database. It draws up to maxTimeline faults of the given kinds on the nodes
// and links of a topology. They start before until and may overlap.
func Timeline(seed uint64, t *geo.Topology, kinds []string, until time.Duration) []v1alpha1.Fault {
	r := newRNG(seed, streamTimeline)
	d := drawer{w: &world{topology: t, load: load{until: until}}, r: r}
	for range 1 + r.IntN(maxTimeline) {
		d.add(d.fault(kinds[r.IntN(len(kinds))], maxSkew, nil))
	}
	return d.w.timeline
}

// drawer draws the faults of a timeline.
type drawer struct {
	w    *world
	r    *rand.Rand
	long bool
}

// add appends a fault to the timeline, with a name, a start and a duration.
func (d *drawer) add(f v1alpha1.Fault) {
	f.Name = fmt.Sprintf("fault-%d", len(d.w.timeline)+1)
	f.At = v1alpha1.DurationOf(upTo(d.r, d.w.load.until))
	length := 10 * time.Millisecond << d.r.IntN(7)
	if d.long {
		length *= 16
	}
	length += upTo(d.r, length)
	f.Duration = &v1alpha1.Duration{Duration: length}
	// Kills have no duration: the process restarts on its own, or never.
	if f.PodKill != nil || f.ContainerKill != nil {
		f.Duration = nil
	}
	d.w.timeline = append(d.w.timeline, f)
}

// shutdown returns a fault that stops nodes temporarily: a machine shutdown or a failing disk.
func (d *drawer) shutdown() v1alpha1.Fault {
	target := d.target(nil)
	if d.r.IntN(2) == 0 {
		return v1alpha1.Fault{NodeShutdown: &v1alpha1.NodeShutdownFault{Target: target}}
	}
	// Errno 5 is EIO. With 100 percent, every operation on the disk fails.
	return v1alpha1.Fault{IOError: &v1alpha1.IOErrorFault{Target: target, Errno: 5, Percent: 100}}
}

func (d *drawer) fault(kind string, skew time.Duration, roles []string) (f v1alpha1.Fault) {
	r := d.r
	switch kind {
	case faults.NetworkDelay:
		delay := time.Millisecond << r.IntN(8)
		f.NetworkDelay = &v1alpha1.NetworkDelayFault{Between: d.pair(), Delay: v1alpha1.DurationOf(delay), Jitter: v1alpha1.DurationOf(upTo(r, delay/2))}
	case faults.NetworkLoss:
		loss := int32(1 + r.IntN(mostLossPPM))
		// Total loss has the effect of a partition, so do not combine it with a permanent kill.
		if r.IntN(8) == 0 && len(d.w.killed()) == 0 {
			loss = 1e6
		}
		f.NetworkLoss = &v1alpha1.NetworkLossFault{Between: d.pair(), LossPPM: loss, CorrelationPercent: []int32{0, 0, 25, 50}[r.IntN(4)]}
	case faults.NetworkBandwidth:
		f.NetworkBandwidth = &v1alpha1.NetworkBandwidthFault{Between: d.pair(), BandwidthMbps: int32(1 + r.IntN(100))}
	case faults.NetworkPartition:
		p := &v1alpha1.NetworkPartitionFault{From: d.side(roles), OneWay: r.IntN(2) == 0}
		if others := d.others(p.From.Regions); r.IntN(2) == 0 && len(others) > 0 {
			p.To = &v1alpha1.NodeTarget{Regions: others[:1+r.IntN(len(others))]}
		}
		f.NetworkPartition = p
	case faults.NodeShutdown:
		f.NodeShutdown = &v1alpha1.NodeShutdownFault{Target: d.target(roles)}
	case faults.CPUStress:
		f.CPUStress = &v1alpha1.CPUStressFault{Target: d.target(roles), Workers: int32(1 + r.IntN(4)), LoadPercent: int32(10 + r.IntN(91))}
	case faults.MemoryStress:
		f.MemoryStress = &v1alpha1.MemoryStressFault{Target: d.target(roles), Size: resource.MustParse("64Mi")}
	case faults.DiskReadLoad:
		f.DiskReadLoad = &v1alpha1.DiskReadLoadFault{Target: d.target(roles), MegabytesPerSecond: int32(r.IntN(500))}
	case faults.DiskWriteLoad:
		f.DiskWriteLoad = &v1alpha1.DiskWriteLoadFault{Target: d.target(roles), MegabytesPerSecond: int32(r.IntN(500))}
	case faults.IODelay:
		f.IODelay = &v1alpha1.IODelayFault{Target: d.target(roles), Delay: v1alpha1.DurationOf(time.Millisecond << r.IntN(7)), Percent: int32(1 + r.IntN(100))}
	case faults.ClockSkew:
		f.ClockSkew = &v1alpha1.ClockSkewFault{Target: d.target(roles), Offset: v1alpha1.DurationOf(upTo(r, 2*skew) - skew)}
	}
	return f
}

// pair returns the links from a region to another region or, with an empty To, to all other regions. The fault affects
// one or both directions.
func (d *drawer) pair() v1alpha1.RegionPair {
	from := d.region()
	p := v1alpha1.RegionPair{From: from, OneWay: d.r.IntN(2) == 0}
	if others := d.others(from); d.r.IntN(2) == 0 {
		p.To = others[:1]
	}
	return p
}

// side returns one side of a partition: all or some of the nodes of a region.
func (d *drawer) side(roles []string) v1alpha1.NodeTarget {
	t := d.target(roles)
	t.Regions = d.region()
	return t
}

// target returns a random set of nodes: in one or all regions, in one or all partitions, and with any or a given role.
// It selects all, one or a percentage of these nodes.
func (d *drawer) target(roles []string) (t v1alpha1.NodeTarget) {
	r := d.r
	if r.IntN(2) == 0 {
		t.Regions = d.region()
	}
	if r.IntN(4) == 0 {
		t.Partitions = []int32{int32(r.IntN(d.w.topology.Partitions))}
	}
	if len(roles) > 0 && r.IntN(4) == 0 {
		t.Role = roles[r.IntN(len(roles))]
	}
	switch percent := int32(1 + r.IntN(100)); r.IntN(4) {
	case 0:
		one := int32(1)
		t.Count = &one
	case 1:
		t.Percent = &percent
	}
	return t
}

func (d *drawer) region() []string {
	names := d.w.topology.Regions
	i := d.r.IntN(len(names))
	// Limit the capacity, so that an append to the result does not overwrite names of the topology.
	return names[i : i+1 : i+1]
}

// others returns the regions that are not in but, in random order.
func (d *drawer) others(but []string) []string {
	left := slices.DeleteFunc(slices.Clone(d.w.topology.Regions), func(name string) bool { return slices.Contains(but, name) })
	d.r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return left
}

// database adapts the scenario's database for fault injection. It does not set Journals: in a scenario, nodes have logs
// on simulated disks instead.
func (w *world) database(e *protocol.Engine) *faults.Database {
	return &faults.Database{Engine: e, Params: w.params, Topology: w.topology}
}

// play starts the injector of simulated runs if there is a timeline.
func (e *execution) play(c Config) {
	if len(e.timeline) > 0 {
		e.injector = simulated.Start(e.sim, e.database(c.Engine), faults.NewPlan(e.timeline, e.topology, e.seed), 0, e.offsets)
	}
}

// played reports whether all faults of the timeline have ended and the new incarnations of killed nodes have started.
func (e *execution) played() bool { return e.injector == nil || e.injector.Over() }

// ends returns the planned end of a fault. The end of a fault without a duration is its start.
func ends(f *v1alpha1.Fault) time.Duration {
	if f.Duration == nil {
		return f.At.Duration
	}
	return f.At.Duration + f.Duration.Duration
}

// killed returns the regions whose nodes the timeline kills permanently.
func (w *world) killed() (regions []geo.Region) {
	for i := range w.timeline {
		if k := w.timeline[i].PodKill; k != nil && k.Lasting {
			for _, name := range k.Target.Regions {
				regions = append(regions, geo.Region(slices.Index(w.topology.Regions, name)))
			}
		}
	}
	return regions
}

// timelineLegal implements legal for the timeline: it reports whether the engine makes promises about the scenario with
// this timeline.
func (w *world) timelineLegal(e *protocol.Engine) bool {
	db, plan := w.database(e), faults.NewPlan(w.timeline, w.topology, w.seed)
	w.durable = w.durable || db.LogsSimulated(plan)
	inFlight := e.Tolerance(w.topology, w.params).InFlight
	for _, f := range plan.Faults {
		targets, err := plan.Resolve(f, nil)
		switch {
		case err != nil:
			return false
		case f.Kind == faults.NetworkPartition && len(w.killed()) > 0 && !inFlight:
			return false
		case f.Followed() && !f.ForGood() && e.CanLose(w.topology, w.params, targets.From) != nil:
			return false
		}
	}
	return true
}

// keepTimeline removes faults whose targets refer to regions or partitions that do not exist any more.
func (w *world) keepTimeline() {
	t := w.topology
	gone := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(t.Regions, name) })
	}
	missing := func(n *v1alpha1.NodeTarget) bool {
		return n != nil && (gone(n.Regions) || slices.ContainsFunc(n.Partitions, func(p int32) bool { return int(p) >= t.Partitions }))
	}
	w.timeline = slices.DeleteFunc(w.timeline, func(spec v1alpha1.Fault) bool {
		f := faults.NewPlan([]v1alpha1.Fault{spec}, t, 0).Faults[0]
		between := f.Between()
		return missing(f.Target()) || between != nil && (gone(between.From) || gone(between.To)) ||
			spec.NetworkPartition != nil && missing(spec.NetworkPartition.To)
	})
}

// Describe returns the kind and the fields of a fault as JSON, without its name and start, and then its duration.
func Describe(f *v1alpha1.Fault) string {
	text, err := json.Marshal(f)
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return err.Error() // unreachable, because every drawn fault can be encoded
	}
	for _, field := range []string{"name", "at", "duration"} {
		delete(fields, field)
	}
	what := ""
	for _, kind := range slices.Sorted(maps.Keys(fields)) {
		what += fmt.Sprintf("%s %s", kind, fields[kind])
	}
	if f.Duration != nil {
		return fmt.Sprintf("%s for %v", what, f.Duration.Duration)
	}
	return what
}

// countReplaced adds the nodes that the timeline killed and that new incarnations replaced. A new incarnation starts
// immediately after the kill, so Injecting is the time of both events.
func (e *execution) countReplaced() {
	if e.injector == nil {
		return
	}
	for _, l := range e.injector.Timeline.Lives {
		if l.Replaced && l.Injecting != nil {
			e.replaced += len(l.Targets.From)
			if l.Recovered != nil {
				e.mended = max(e.mended, *l.Recovered-*l.Injecting)
			}
		}
	}
}
