package inprocess

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/bench/collect"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/ops/metrics"
	"github.com/geobench/geobench/internal/run/node"
)

// live exports the metrics of a run to Prometheus during the run. It does nothing if registry is nil.
type live struct {
	plan     *plan.Plan
	registry prometheus.Registerer
	stage    atomic.Pointer[func() v1alpha1.Stage]
	active   atomic.Pointer[map[string]bool] // names of faults that may currently have an effect
}

func newLive(p *plan.Plan, registry prometheus.Registerer) *live {
	l := &live{plan: p, registry: registry}
	if registry == nil {
		return l
	}
	o := collect.Object{Run: p.Run.Name, Database: p.Database.Name}
	registry.MustRegister(
		metrics.NewCollector(metrics.RunMetrics(), func(put metrics.Put) {
			if stage := l.stage.Load(); stage != nil {
				collect.PutStage(put, o, (*stage)(), time.Time{})
			}
			var active map[string]bool
			if now := l.active.Load(); now != nil {
				active = *now
			}
			for i := range p.Run.Spec.Faults {
				f := &p.Run.Spec.Faults[i]
				collect.PutFault(put, o, f, active[f.Name])
			}
			collect.PutObjectives(put, o, p.Run.Spec.Objectives)
			collect.PutPrices(put, o, p.Topology.Regions, plan.Prices(p.Profile.Prices))
		}),
		collect.NewDriver(o.Run, o.Database, "process", late.CPUTime, load.CPUAllowance("/sys/fs/cgroup", runtime.GOMAXPROCS(0))),
	)
	return l
}

// enter sets the stage of the run.
func (l *live) enter(s v1alpha1.Stage) {
	f := func() v1alpha1.Stage { return s }
	l.stage.Store(&f)
}

// faults records which faults may currently have an effect.
func (l *live) faults(lives []*fault.Life) {
	active := map[string]bool{}
	for _, f := range lives {
		active[f.Fault.Name] = f.Touches()
	}
	l.active.Store(&active)
}

// play derives the stage from the progress of the load generators from now on.
func (l *live) play(workers []*load.Worker) {
	last := schedule(l.plan).Repetitions
	f := func() v1alpha1.Stage {
		// All workers follow the same schedule, so use the stage of the first one.
		p := workers[0].Progress()
		switch {
		case p.Stage == load.Measure:
			return v1alpha1.StageMeasure
		// Only the last drain ends the load. After any other drain, the next warm-up follows.
		case p.Stage == load.Done || p.Stage == load.Drain && p.Repetition == last:
			return v1alpha1.StageCollect
		}
		return v1alpha1.StageWarmup
	}
	l.stage.Store(&f)
}

// nodes registers the metrics of the nodes.
func (l *live) nodes(nodes *node.Local) {
	if l.registry == nil {
		return
	}
	for id := range l.plan.Topology.Nodes() {
		l.registry.MustRegister(nodes.Metrics(geo.NodeID(id)))
	}
}

// observe registers the metrics of a worker and changes its configuration so that the worker updates them. It returns
// nil without a registry.
func (l *live) observe(c *load.WorkerConfig) *collect.Worker {
	if l.registry == nil {
		return nil
	}
	w := collect.NewWorker(collect.WorkerLabels{
		Run: l.plan.Run.Name, Database: l.plan.Database.Name, Region: l.plan.Topology.Regions[c.Region], Index: c.Index,
	}, c.Workload.Types())
	l.registry.MustRegister(w)
	c.Observer = w
	return w
}

func (l *live) watch(m *collect.Worker, w *load.Worker) {
	if m != nil {
		m.Watch(w.Progress)
	}
}
