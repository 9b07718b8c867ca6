package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/plan"
)

// faults checks that each fault can be injected in this environment, lies within the measured time, and has existing
// targets. No fault may contradict another fault.
func (r *benchmarkRun) faults(ps *Problems) {
	if len(r.Spec.Faults) == 0 {
		return
	}
	if n := r.Spec.Load.Repetitions; n > 1 {
		ps.add("spec.load.repetitions", fmt.Sprint(n), "repetitions %d with spec.faults: a fault leaves its traces in what is measured after it; "+
			"set repetitions to 1 and repeat the run, for example with the repetitions of an Experiment", n)
	}
	t := geo.Topology{Regions: r.db.Spec.RegionNames(), Partitions: int(r.db.Spec.PartitionsPerRegion), Replicas: int(max(1, r.db.Spec.ReplicasPerPartition))}
	plan.Places(&t, &r.db.Spec)
	// The rules need the links between regions, but not their delays.
	for range t.Regions {
		t.Links = append(t.Links, make([]geo.Link, len(t.Regions)))
	}
	c := faultChecks{benchmarkRun: r, topology: &t, plan: fault.NewPlan(r.Spec.Faults, &t, uint64(r.Spec.Seed))}
	before := len(*ps)
	for i := range r.Spec.Faults {
		f := &r.Spec.Faults[i]
		for _, kind := range f.Kinds() {
			c.one(ps, fmt.Sprintf("spec.faults[%d]", i), kind, f)
		}
	}
	// If a fault is wrong on its own, messages about contradictions would only be confusing.
	if len(*ps) == before {
		c.contradictions(ps)
	}
}

type faultChecks struct {
	*benchmarkRun
	topology *geo.Topology
	plan     *fault.Plan
}

// one checks a fault on its own.
func (c *faultChecks) one(ps *Problems, path, kind string, f *v1alpha1.Fault) {
	if !slices.Contains(c.Faults, kind) {
		cure := "supported are " + list(c.Faults)
		if len(c.Faults) == 0 {
			cure = "remove the fault"
		}
		ps.add(path+"."+kind, f.Name, "fault %s is a %s, which is not supported %s%s; %s", f.Name, kind, c.place(), c.whoCan(kind), cure)
		return
	}
	if c.RealTime && slices.Contains(fault.NetworkKinds, kind) && c.db.Spec.Network.Emulation == v1alpha1.EmulationNone {
		ps.add(path+"."+kind, f.Name, "fault %s is a %s, but GeoDatabase %s has spec.network.emulation None: links that are not emulated cannot be changed; "+
			"set it to Auto", f.Name, kind, c.db.Name)
		return
	}
	measured := c.Spec.Load.Duration
	switch {
	case f.At.Duration >= measured.Duration:
		ps.add(path+".at", f.At.String(), "at %s is not before the end of measuring, which lasts %s (spec.load.duration)", f.At, measured)
		return
	case f.Duration != nil && f.At.Duration+f.Duration.Duration > measured.Duration:
		ps.add(path+".duration", f.Duration.String(), "duration %s from %s on is past the end of measuring at %s (spec.load.duration)",
			f.Duration, f.At, measured)
		return
	}
	before := len(*ps)
	planned := c.planned(f.Name)
	if b := planned.Between(); b != nil {
		c.known(ps, path+"."+kind+".between.from", b.From)
		c.known(ps, path+"."+kind+".between.to", b.To)
		if len(*ps) == before && len(fault.Links(b, c.topology)) == 0 {
			ps.add(path+"."+kind+".between", "", "between names no link between two regions of GeoDatabase %s, whose regions are %s", c.db.Name, list(c.topology.Regions))
		}
		return
	}
	field := path + "." + kind + ".target"
	if kind == fault.NetworkPartition {
		field = path + "." + kind + ".from"
	}
	c.target(ps, field, planned.Target())
	if s := f.NetworkPartition; s != nil && s.To != nil {
		c.target(ps, path+"."+kind+".to", s.To)
	}
	if planned.ForGood() {
		switch d := c.database(); {
		case d == nil:
			ps.add(path+"."+kind+".lasting", "true", "fault %s: GeoDatabase %s is not one of Geobench's own engines: what becomes of a node that is killed is its own business; leave lasting out", f.Name, c.db.Name)
		case d.Restarts(planned):
			ps.add(path+"."+kind+".lasting", "true", "fault %s: with spec.durability Journal of GeoDatabase %s a container that is killed goes on from its journal; take podKill, or set durability to None", f.Name, c.db.Name)
		}
	}
	if len(*ps) > before {
		return
	}
	// Roles are known only at run time. Without roles, the targets are an upper bound.
	targets, err := c.plan.Resolve(planned, nil)
	if err != nil {
		field, message, _ := strings.Cut(err.Error(), ": ")
		ps.add(path+"."+field, "", "%s", message)
	} else if !planned.ByRole() && c.replaced(planned) {
		d := c.database()
		// The targets are known before the run. If the database cannot survive their loss, refuse the fault now instead of
		// during the run.
		if err := d.Engine.CanLose(c.topology, d.Params, targets.From); err != nil {
			ps.add(field, f.Name, "fault %s: %s; narrow the target with regions or count%s", f.Name, err, c.otherwise(kind))
		}
	}
}

// otherwise suggests alternatives to a fault that removes more nodes at once than the database tolerates.
func (c *faultChecks) otherwise(kind string) string {
	if kind == fault.ContainerKill {
		return ", or set spec.durability of the database to Journal"
	}
	return ", or take a nodeShutdown, from which nobody comes back without a journal"
}

func (c *faultChecks) place() string {
	if c.Place == "" {
		return "here"
	}
	return "by " + c.Place
}

// whoCan names the drivers that can inject this kind of fault. It returns "" if there are none, or if the database
// already runs.
func (c *faultChecks) whoCan(kind string) string {
	switch {
	case c.db.Spec.External != nil:
		return ""
	case slices.Contains(fault.BuiltInKinds, kind):
		return " (geobench simulate and geobench run can)"
	case slices.Contains(fault.SimulatorKinds, kind):
		return " (geobench simulate can)"
	}
	return ""
}

func (c *faultChecks) planned(name string) *fault.Fault {
	i := slices.IndexFunc(c.plan.Faults, func(f *fault.Fault) bool { return f.Name == name })
	return c.plan.Faults[i]
}

func (c *faultChecks) known(ps *Problems, field string, regions []string) {
	for i, region := range regions {
		if !slices.Contains(c.topology.Regions, region) {
			ps.add(fmt.Sprintf("%s[%d]", field, i), region, "region %s is not in GeoDatabase %s%s; its regions are %s",
				region, c.db.Name, didYouMean(region, c.topology.Regions), list(c.topology.Regions))
		}
	}
}

func (c *faultChecks) target(ps *Problems, field string, t *v1alpha1.NodeTarget) {
	c.known(ps, field+".regions", t.Regions)
	for i, p := range t.Partitions {
		if int(p) >= c.topology.Partitions {
			ps.add(fmt.Sprintf("%s.partitions[%d]", field, i), fmt.Sprint(p), "partition %d is not in GeoDatabase %s, which has %d, counted from 0",
				p, c.db.Name, c.topology.Partitions)
		}
	}
	if t.Role == "" {
		return
	}
	e, ok := c.Engines.Lookup(c.db.Spec.Engine.Name)
	if ok && !slices.Contains(e.Roles, t.Role) {
		ps.add(field+".role", t.Role, "no node of engine %s ever has the role %s%s; its roles are %s", e.Name, t.Role, didYouMean(t.Role, e.Roles), list(e.Roles))
	}
}

// span returns the time during which a fault has its effect. For a kill, this extends to the end of the measured time,
// unless the targets restart from their logs or are replaced.
func (c *faultChecks) span(f *fault.Fault) (from, to time.Duration) {
	switch {
	case f.Kills() && !c.startsAgain(f):
		return f.At, c.Spec.Load.Duration.Duration
	case f.Duration == 0:
		return f.At, f.At + time.Second // about the time that a start takes
	}
	return f.At, f.End()
}

// startsAgain reports whether the targets of a kill restart from their logs or are replaced, in this environment.
func (c *faultChecks) startsAgain(f *fault.Fault) bool {
	journal := c.db.Spec.Durability == v1alpha1.DurabilityJournal
	switch f.Kind {
	case fault.PodKill:
		return c.replaced(f)
	case fault.ContainerKill:
		return journal || c.replaced(f)
	case fault.NodeShutdown:
		switch {
		case c.Pods: // a journal exists as long as its pod, which only Chaos Mesh can stop without deleting it
			return journal && c.Spec.FaultInjection == v1alpha1.FaultInjectionChaosMesh
		case c.RealTime:
			return journal
		}
		return true
	}
	return f.Kind == fault.IOError
}

// replaced reports whether new incarnations without state replace the targets of a fault. In the simulator, the nodes
// have logs for all faults of a run or for none.
func (c *faultChecks) replaced(f *fault.Fault) bool {
	d := c.database()
	return d != nil && d.Replaces(f) && (c.RealTime || !d.LogsSimulated(c.plan))
}

// database returns the run's database. It returns nil if the parameters are wrong, or if the database does not use one
// of Geobench's own engines.
func (c *faultChecks) database() *fault.Database {
	e, ok := c.Engines.Lookup(c.db.Spec.Engine.Name)
	if !ok || c.db.Spec.External != nil || c.db.Spec.RunsPrograms() {
		return nil
	}
	p, errs := e.Resolve(c.db.Spec.Engine.Parameters)
	if len(errs) > 0 || e.Accepts(c.topology, p) != nil {
		return nil
	}
	return &fault.Database{Engine: e, Params: p, Topology: c.topology, Journals: c.db.Spec.Durability == v1alpha1.DurabilityJournal}
}

// contradictions reports overlapping faults that cannot both behave as declared.
func (c *faultChecks) contradictions(ps *Problems) {
	for i, b := range c.plan.Faults {
		// Faults are sorted by start time, so b starts during a or after it.
		for _, a := range c.plan.Faults[:i] {
			aFrom, aTo := c.span(a)
			bFrom, bTo := c.span(b)
			// If one fault ends when the other starts, they do not overlap.
			if bFrom >= aTo || aFrom >= bTo {
				continue
			}
			if problem := c.contradict(a, b); problem != "" {
				index := slices.IndexFunc(c.Spec.Faults, func(f v1alpha1.Fault) bool { return f.Name == b.Name })
				ps.add(fmt.Sprintf("spec.faults[%d].%s", index, b.Kind), b.Name, "fault %s contradicts fault %s, which lasts from %s to %s: %s",
					b.Name, a.Name, v1alpha1.DurationOf(aFrom), v1alpha1.DurationOf(aTo), problem)
				break
			}
		}
	}
}

// contradict returns the reason why b, which starts during a, cannot behave as declared, or "" if it can. Targets by
// role are unknown before the run, so a fault with a role never contradicts another fault.
func (c *faultChecks) contradict(a, b *fault.Fault) string {
	if a.Between() != nil && b.Between() != nil {
		return c.linksContradict(a, b)
	}
	if a.ByRole() || b.ByRole() {
		return ""
	}
	// A network fault has no effect on connections that are already cut.
	if b.Kind == fault.NetworkPartition || b.Between() != nil {
		return c.cutAlready(a, b)
	}
	if a.Kind == fault.NetworkPartition || a.Between() != nil {
		return ""
	}
	ta, errA := c.plan.Resolve(a, nil)
	tb, errB := c.plan.Resolve(b, nil)
	if errA != nil || errB != nil {
		return "" // another rule reports this
	}
	for _, n := range tb.From {
		switch name := c.topology.NodeName(n); {
		case !slices.Contains(ta.From, n):
		case a.Kills():
			return fmt.Sprintf("node %s does not run then", name)
		case a.Kind == fault.ClockSkew && b.Kind == fault.ClockSkew:
			return fmt.Sprintf("the clock of node %s cannot have two offsets", name)
		}
	}
	return ""
}

// linksContradict is contradict for two faults of links. A link cannot have two bandwidths, and a link with total loss
// has nothing left to delay.
func (c *faultChecks) linksContradict(a, b *fault.Fault) string {
	links := fault.Links(a.Between(), c.topology)
	total := a.Spec.NetworkLoss != nil && a.Spec.NetworkLoss.LossPPM >= 1_000_000
	for _, l := range fault.Links(b.Between(), c.topology) {
		name := fmt.Sprintf("from %s to %s", c.topology.Regions[l.From], c.topology.Regions[l.To])
		switch {
		case !slices.Contains(links, l):
		case a.Kind == fault.NetworkBandwidth && b.Kind == fault.NetworkBandwidth:
			return fmt.Sprintf("the link %s cannot have two bandwidths", name)
		case total:
			return fmt.Sprintf("nothing gets through the link %s then", name)
		}
	}
	return ""
}

// cutAlready is contradict for a network fault b that starts during a. It returns "" if b affects at least one
// connection that a has not cut.
func (c *faultChecks) cutAlready(a, b *fault.Fault) string {
	resolve := func(f *fault.Fault) *fault.Conditions {
		targets, err := c.plan.Resolve(f, nil)
		if err != nil {
			return nil
		}
		return c.plan.Conditions([]*fault.Life{{Fault: f, Targets: targets}})
	}
	first, second := resolve(a), resolve(b)
	// Another rule reports targets that cannot be resolved.
	if first == nil || second == nil || !first.Cuts() {
		return ""
	}
	hits := func(i, j geo.NodeID) bool { return second.Cut(i, j) }
	if between := b.Between(); between != nil {
		links := fault.Links(between, c.topology)
		hits = func(i, j geo.NodeID) bool {
			return slices.Contains(links, fault.Link{From: c.topology.RegionOf(i), To: c.topology.RegionOf(j)})
		}
	}
	if c.topology.Nodes() > 512 {
		return "" // there are too many pairs to check all of them
	}
	for i := range c.topology.Nodes() {
		for j := range c.topology.Nodes() {
			if from, to := geo.NodeID(i), geo.NodeID(j); i != j && hits(from, to) && !first.Cut(from, to) {
				return ""
			}
		}
	}
	return "everything that it would hit is cut off already"
}
