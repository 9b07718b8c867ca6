package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/node"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/rtt"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/workload/catalog"
)

const (
	// startWithin bounds the start of the nodes, verifyWithin the time until the measured network is the declared one.
	startWithin  = 20 * time.Second
	verifyWithin = 60 * time.Second
	// startAhead is how far ahead the common start is set, so that every load generator is there in time.
	startAhead  = 200 * time.Millisecond
	poll        = 100 * time.Millisecond
	reportEvery = time.Second
)

// Run runs a plan in real time: every node of the database in this process, TCP on the loopback interface between them,
// their links delayed as declared, one load generator per region. It does not start to measure before every link's
// measured round trip is the declared one.
//
// When the context ends, the error is the context's, and the document holds what was measured until then, marked as Invalid
// with the reason Cancelled; it is nil when that is nothing.
func Run(ctx context.Context, p *plan.Plan, report Report) (*result.Document, error) {
	return Observed(ctx, p, report, Observer{})
}

// Observer takes the live metrics of a run.
type Observer struct {
	// Registry gets the metrics; nil for none.
	Registry prometheus.Registerer
	// Last is called when the result is there and before the database goes: the last chance to take its metrics. nil for
	// nothing.
	Last func(context.Context)
}

// Observed is Run with live metrics.
func Observed(ctx context.Context, p *plan.Plan, report Report, o Observer) (*result.Document, error) {
	if report == nil {
		report = func(Progress) {}
	}
	live := newLive(p, o.Registry)
	live.enter(v1alpha1.StageProvision)
	report(Progress{Stage: fmt.Sprintf("starting %d nodes", p.Topology.Nodes())})
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	procedures := catalog.Procedures()
	cfg := node.LocalConfig{Engine: p.Engine, Procedures: procedures, ParseWorkload: catalog.Parse}
	if p.Journals() {
		folder, err := os.MkdirTemp("", "geobench-journals-")
		if err != nil {
			return nil, err
		}
		cfg.Journals = folder
		defer os.RemoveAll(folder) //nolint:errcheck // nothing of it is needed
	}
	nodes, err := node.StartLocal(starting, *p.Deployment(time.Now(), "local"), cfg)
	if err != nil {
		return nil, err
	}
	defer nodes.Close() //nolint:errcheck // what it did is in the document already
	live.nodes(nodes)

	live.enter(v1alpha1.StageLoad)
	report(Progress{Stage: "loading the data"})
	req, err := loadRequest(p)
	if err != nil {
		return nil, err
	}
	if _, err := nodes.Load(ctx, req); err != nil {
		return nil, err
	}
	if p.Emulated() {
		live.enter(v1alpha1.StageEmulate)
		report(Progress{Stage: "measuring the network"})
		if err := verifyNetwork(ctx, p, nodes); err != nil {
			return nil, err
		}
	}

	in := inputs(p)
	in.Machine, in.SharedProcess = result.ThisMachine(), true
	in.Emulation = "None"
	if p.Emulated() {
		in.Emulation = "BuiltIn"
	}
	if in.Before, err = deref(nodes.Status(ctx)); err != nil {
		return nil, err
	}
	rec := newRecording(p, procedures)
	faults := injectProcess(p, nodes)
	if faults != nil {
		faults.observe = live.faults
	}
	start, err := playAll(ctx, p, nodes, rec, faults, &in, report, live)
	if ctx.Err() != nil {
		return cancelledRun(ctx, p, nodes, faults, &in, time.Since(start))
	}
	if err != nil {
		return nil, err
	}
	live.enter(v1alpha1.StageEvaluate)
	report(Progress{Stage: "checking the answers"})
	audits, out, err := auditQuiet(ctx, p, nodes, faults, &in)
	if ctx.Err() != nil {
		return cancelledRun(ctx, p, nodes, faults, &in, time.Since(start))
	}
	if err != nil {
		return nil, err
	}
	if in.After, err = deref(nodes.Status(ctx)); err != nil {
		return nil, err
	}
	in.Deviations, in.FastLinks = deviations(p, nodes, faults, start)
	in.Checks = verify(p, rec, audits, out, in.Reports)
	document, err := result.Build(in)
	if err == nil && o.Last != nil {
		live.enter(v1alpha1.StageCompleted)
		o.Last(ctx)
	}
	return document, err
}

// deref turns what nodes answer into what package result takes.
func deref[T any](answers []*T, err error) ([]T, error) {
	out := make([]T, len(answers))
	for i, a := range answers {
		out[i] = *a
	}
	return out, err
}

// verifyNetwork waits until the median of every link's measured round trip is the declared one.
func verifyNetwork(ctx context.Context, p *plan.Plan, nodes *node.Local) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	for {
		statuses, err := deref(nodes.Status(ctx))
		if err != nil {
			return err
		}
		links, err := rtt.Measure(&p.Topology, statuses)
		if err != nil {
			return err
		}
		v := rtt.Judge(links)
		if v.Verified {
			return nil
		}
		if pause(ctx, poll) != nil {
			return fmt.Errorf("the network is not the declared one after %v: %s", verifyWithin, v.Message)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// playAll plays the clients of all regions, and says when they began.
func playAll(ctx context.Context, p *plan.Plan, nodes *node.Local, rec *recording, faults *process, in *result.Inputs, report Report, live *live) (start time.Time, err error) {
	regions := len(p.Topology.Regions)
	workers := make([]*load.Worker, regions)
	targets := make([]*target.Native, regions)
	for r := range workers {
		cfg := workerConfig(p, geo.Region(r), 0, max(1, runtime.GOMAXPROCS(0)/regions), rec)
		observer := live.observe(&cfg)
		w, err := load.NewWorker(cfg)
		if err != nil {
			return start, err
		}
		live.watch(observer, w)
		workers[r], targets[r] = w, target.NewNative(nodes.Database(), geo.Region(r))
		defer targets[r].Close() //nolint:errcheck // the sessions are closed by then
	}
	start = time.Now().Add(startAhead)
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		tell(telling, p, start, workers, report)
	}()
	live.play(workers)
	meter := make(chan *result.Driver, 1)
	go func() { meter <- load.MeasureDriver(telling, schedule(p), start) }()

	in.Reports = make([]*result.Report, regions)
	g, playing := errgroup.WithContext(ctx)
	for r, w := range workers {
		g.Go(func() (err error) {
			in.Reports[r], err = w.Run(playing, targets[r], start)
			return err
		})
	}
	if faults != nil {
		from, _ := schedule(p).Window(1)
		g.Go(func() error { return faults.play(playing, start.Add(from)) })
	}
	err = g.Wait()
	stop()
	<-told
	in.Driver = <-meter
	in.DriverName = "this process, which runs the nodes and the load generators,"
	for _, t := range targets {
		for _, what := range t.Incidents() {
			in.Incidents = append(in.Incidents, result.Reason{Reason: "ConnectionLost", Message: what})
		}
	}
	return start, err
}

// cancelledRun is the result of a run whose context has ended.
func cancelledRun(ctx context.Context, p *plan.Plan, nodes *node.Local, faults *process, in *result.Inputs, elapsed time.Duration) (*result.Document, error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	var err error
	if in.After, err = deref(nodes.Status(asking)); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if faults != nil && in.Faults == nil {
		in.Faults = Faults(faults.timeline, 0)
	}
	in.Deviations, in.FastLinks = deviations(p, nodes, faults, time.Now().Add(-elapsed))
	d, err := cancelled(p, in, elapsed)
	return d, errors.Join(ctx.Err(), err)
}

// tell reports the progress until ctx ends.
func tell(ctx context.Context, p *plan.Plan, start time.Time, workers []*load.Worker, report Report) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		pr := Progress{Elapsed: max(0, time.Since(start)), Total: schedule(p).LastWindow()}
		for _, w := range workers {
			pr.Regions = append(pr.Regions, w.Progress())
		}
		pr.Stage = pr.Regions[0].Stage.String()
		report(pr)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stalled is how long transactions stay unfinished, once nodes were lost for good, before they are held to stay so.
const stalled = 5 * time.Second

// auditQuiet waits until the database is quiet and audits all nodes. It is quiet when nothing has been pending for the
// longest round trip and no row was used: what is on its way between nodes is pending nowhere. After faults that took nodes for good, some of the
// others may wait for them for ever: they are left out, as out says.
func auditQuiet(ctx context.Context, p *plan.Plan, nodes *node.Local, faults *process, in *result.Inputs) (audits []admin.Audit, out []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	var gone []geo.NodeID
	if faults != nil {
		gone = faults.timeline.Lost()
	}
	last, operations, since, calm := -1, int64(-1), time.Now(), p.Topology.LongestRTT()
	for {
		statuses, err := nodes.Status(ctx)
		if err != nil {
			return nil, nil, err
		}
		pending, sum := 0, int64(0)
		for _, s := range statuses {
			pending += s.Pending
			sum += s.Operations
		}
		if pending != last || pending == 0 && sum != operations {
			last, operations, since = pending, sum, time.Now()
		}
		if pending == 0 && time.Since(since) > calm || len(gone) > 0 && time.Since(since) > stalled {
			out = LeftOut(&p.Topology, gone, func(n geo.NodeID) int { return statuses[n].Pending })
			if faults != nil {
				in.Faults = Faults(faults.timeline, pending)
			}
			audits, err = deref(nodes.Audit(ctx, func(n geo.NodeID) bool { return len(out) > 0 && out[n] != "" }))
			return audits, out, err
		}
		if err := pause(ctx, poll); err != nil {
			return nil, nil, fmt.Errorf("%d transactions are still unfinished %v after the last answer", pending, quietWithin)
		}
	}
}
