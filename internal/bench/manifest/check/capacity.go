package check

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Machine describes a machine that runs all nodes of a database. A field is 0 if its value is unknown.
type Machine struct {
	CPUs        int
	MemoryBytes int64
}

// MostNodesPerCPU is the maximum number of nodes per CPU of a machine. Every node wakes up many times a second for its
// timers and for its peers' heartbeats. With more nodes, a run would measure the scheduler.
const MostNodesPerCPU = 50

// OnThisMachine returns abilities a with the limits of the machine that this process runs on.
func OnThisMachine(a Abilities) Abilities {
	a.Machine = Machine{CPUs: runtime.GOMAXPROCS(0), MemoryBytes: memoryOf("/proc/meminfo", "/sys/fs/cgroup/memory.max")}
	return a
}

// memoryOf returns the memory of this machine, or the memory limit of its container if that is lower. It returns 0 if
// neither is known.
func memoryOf(meminfo, limit string) (bytes int64) {
	text, _ := os.ReadFile(meminfo)
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kb); n == 1 {
			bytes = kb << 10
		}
	}
	text, _ = os.ReadFile(limit)
	// Without a limit, the file contains the word max, which is not a number.
	if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (bytes == 0 || n < bytes) {
		bytes = n
	}
	return bytes
}

// machine checks that the nodes of a database do not overload the CPUs of a single machine.
func (d *database) machine(ps *Problems) {
	if d.Machine.CPUs == 0 || d.Spec.External != nil || d.Spec.RunsPrograms() {
		return
	}
	regions, partitions, replicas := len(d.Spec.Regions), int(d.Spec.PartitionsPerRegion), int(d.Spec.ReplicasPerPartition)
	if nodes, most := regions*partitions*replicas, MostNodesPerCPU*d.Machine.CPUs; nodes > most {
		ps.add("spec.partitionsPerRegion", strconv.Itoa(partitions), "%d regions x %d partitions x %d replicas are %d nodes, and this machine has %d CPUs, which take at most %d (%d each): "+
			"lower spec.partitionsPerRegion or spec.replicasPerPartition, or use geobench simulate or a cluster", regions, partitions, replicas, nodes, d.Machine.CPUs, most, MostNodesPerCPU)
	}
}

// memory checks that the loaded rows fit into the memory of the nodes that store them. The check may accept too many
// rows, because the size that a workload reports is only a lower bound.
func (r *benchmarkRun) memory(ps *Problems, w workload.Workload) {
	sized, ok := w.(workload.Sized)
	if !ok || r.db.Spec.External != nil || r.db.Spec.RunsPrograms() {
		return
	}
	e, ok := r.Engines.Lookup(r.db.Spec.Engine.Name)
	if !ok {
		return
	}
	params, errs := e.Resolve(r.db.Spec.Engine.Parameters)
	shape := geo.Topology{Regions: r.db.Spec.RegionNames(), Homes: len(r.db.Spec.Homes), Partitions: int(r.db.Spec.PartitionsPerRegion), Replicas: int(r.db.Spec.ReplicasPerPartition), Groups: plan.Groups(&r.db.Spec)}
	// Another rule reports wrong parameters and layouts.
	if len(errs) > 0 || e.Accepts(&shape, params) != nil {
		return
	}
	size, layout := sized.Size(), e.Layout(&shape, params)
	held := map[geo.NodeID]int{} // number of cells per node
	for shard := range layout.Shards() {
		for _, n := range layout.Group(shard).Members {
			held[n] += len(layout.Cells(shard))
		}
	}
	cells, most, fullest, all := shape.Placement().Cells(), 0, geo.NodeID(0), int64(0)
	for n := range geo.NodeID(shape.Nodes()) {
		if held[n] > most {
			most, fullest = held[n], n
		}
		all += size.Memory(held[n], cells)
	}
	field, value := "spec.workload."+w.Name()+"."+size.Field, strconv.FormatInt(size.Value, 10)
	fits := func(needs, has int64) int64 { return int64(float64(size.Value) * float64(has) / float64(needs)) }
	if r.Pods { // each node has a separate container
		limit := deploy.MemoryLimit(&r.db.Spec.Resources)
		has, needs := deploy.RuntimeMemory(limit.Value())/100*deploy.FullPercent, size.Memory(most, cells)
		if needs > has {
			ps.add(field, value, "%s: node %s holds rows of at least %s, and may fill %s (%d%% of what is left of its memory limit of %s for the Go runtime): take at most %d, or give GeoDatabase %s spec.resources.limits.memory of at least %s",
				value, shape.NodeName(fullest), gib(needs), gib(has), deploy.FullPercent, limit.String(), fits(needs, has), r.db.Name, limitFor(needs))
		}
	}
	if has := r.Machine.MemoryBytes; has > 0 && all > has {
		ps.add(field, value, "%s: the %d nodes hold rows of at least %s together, and this machine has %s of memory: take at most %d, or use a cluster",
			value, shape.Nodes(), gib(all), gib(has), fits(all, has))
	}
}

// limitFor returns the memory limit of a container in which rows may take the given number of bytes.
func limitFor(bytes int64) string {
	return fmt.Sprintf("%dGi", int64(math.Ceil(float64(bytes)/deploy.FullPercent*100/9*10/(1<<30))))
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// history checks that a recorded history fits into the history file of each worker (HistoryLimits.FileBytes) and into
// the operator's memory for the check. The number of transactions is known in advance only for an open loop without a
// curve.
func (r *benchmarkRun) history(ps *Problems) {
	l := &r.Spec.Load
	open := l.Arrival == v1alpha1.ArrivalConstant || l.Arrival == v1alpha1.ArrivalPoisson
	if !history.Needed(r.Spec.Verify) || !open || l.Curve != nil || l.RatePerSecond == 0 {
		return
	}
	lasts := l.Duration.Duration + l.Warmup.Duration
	perRegion := int64(lasts.Seconds() * float64(max(1, l.Repetitions)) * float64(l.RatePerSecond))
	cure := func(perRegion int64) string {
		most := time.Duration(float64(perRegion) / float64(l.RatePerSecond) / float64(max(1, l.Repetitions)) * float64(time.Second)).Truncate(time.Second)
		return fmt.Sprintf("take a duration, with its warmup, of at most %s, a lower rate, or leave checks of the history out of spec.verify", v1alpha1.DurationOf(most))
	}
	workers := int64(max(1, l.WorkersPerRegion))
	// The file would be too large even at the minimum size per transaction, so the excess is certain.
	if most := r.History.FileBytes / history.LeastRecorded; most > 0 && perRegion/workers > most {
		ps.add("spec.load.duration", l.Duration.String(), "%s x %d repetitions at spec.load.ratePerSecond %d are %d transactions for each of %d workers, and a worker records at most %d MiB of history for spec.verify, which hold fewer than %d: %s",
			v1alpha1.DurationOf(lasts), max(1, l.Repetitions), l.RatePerSecond, perRegion/workers, workers, r.History.FileBytes>>20, most, cure(most*workers))
		return
	}
	regions := int64(len(r.db.Spec.Regions))
	if needs := history.Memory(perRegion*regions, perRegion*regions); r.History.MemoryBytes > 0 && needs > r.History.MemoryBytes {
		ps.add("spec.load.duration", l.Duration.String(), "checking the history of %d transactions takes at least %d MiB, and the operator has %d MiB for it: %s, or give the operator more memory",
			perRegion*regions, needs>>20, r.History.MemoryBytes>>20, cure(r.History.MemoryBytes/history.Memory(regions, regions)))
	}
}

// samples checks that enough transactions are due for the percentiles in the objectives. Only an open loop has a known
// number of arrivals. The check adds four standard deviations of a Poisson count, so that it refuses only hopeless
// runs.
func (r *benchmarkRun) samples(ps *Problems) {
	l := &r.Spec.Load
	open := l.Arrival == v1alpha1.ArrivalConstant || l.Arrival == v1alpha1.ArrivalPoisson
	if !open || l.RatePerSecond == 0 {
		return
	}
	for i, o := range r.Spec.Objectives {
		regions, where := len(r.db.Spec.Regions), fmt.Sprintf("all %d regions", len(r.db.Spec.Regions))
		if o.Region != "" {
			regions, where = 1, "region "+o.Region
		}
		seconds := l.Duration.Seconds() * float64(max(1, l.Repetitions))
		if curve := load.NewCurve(l); curve != nil {
			seconds *= curve.Mean(0, l.Duration.Duration)
		}
		due := seconds * float64(l.RatePerSecond) * float64(regions)
		needed := result.SamplesFor(o.Metric)
		if most := due + 4*math.Sqrt(due); most >= float64(needed) {
			continue
		}
		ps.add(fmt.Sprintf("spec.objectives[%d].metric", i), string(o.Metric), "%s needs %d transactions, and about %.0f are due in %s x %d repetitions at spec.load.ratePerSecond %d in %s: take a longer duration, more repetitions, a higher rate or a lower percentile",
			o.Metric, needed, due, l.Duration, max(1, l.Repetitions), l.RatePerSecond, where)
	}
}

// HistoryLimits limits the history that is recorded and checked for spec.verify. 0 means no limit.
type HistoryLimits struct {
	// FileBytes limits the history file of a worker, and MemoryBytes limits the operator's memory for a check.
	FileBytes, MemoryBytes int64
}
