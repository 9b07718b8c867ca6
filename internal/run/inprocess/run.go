package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/net/rtt"
	"github.com/geobench/geobench/internal/run/node"
)

const (
	// startWithin is the time within which all nodes must start.
	startWithin = 20 * time.Second
	// startAhead is how far ahead the common start is chosen, so that every load generator is ready by then.
	startAhead  = 200 * time.Millisecond
	poll        = 100 * time.Millisecond
	reportEvery = time.Second
)

// verifyWithin is the time within which the measured network must match the declared network. Tests of this package
// increase it, because a machine that builds and tests other packages at the same time is slower.
var verifyWithin = time.Minute

// Run runs a plan in real time, with all nodes of the database in this process. They communicate by TCP over the
// loopback interface, and messages are delayed as the declared links require. Each region has one load generator. The
// measurement starts once the measured round trip of every link matches the declared round trip.
//
// If ctx is done early, Run returns its error and a document with the measurements up to that time. This document is
// Invalid with the reason Cancelled. It is nil if there are no measurements.
func Run(ctx context.Context, p *plan.Plan, report Report) (*result.Document, error) {
	return Observed(ctx, p, report, Observer{})
}

// Observer configures the live metrics of a run.
type Observer struct {
	// Registry is where Observed registers the metrics; nil for no metrics.
	Registry prometheus.Registerer
	// Last, if not nil, is called once the result exists, while the database is still open. It is the last opportunity to
	// collect metrics.
	Last func(context.Context)

	disk       journal.Disk // for journals; nil for the operating system's file system
	cutJournal int64        // as in node.Config
}

// Observed runs a plan like Run, and exports live metrics.
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
	cfg := node.LocalConfig{Engine: p.Engine, Procedures: procedures, ParseWorkload: catalog.Parse, Disk: o.disk, CutJournal: o.cutJournal}
	if p.Journals() {
		folder, err := os.MkdirTemp("", "geobench-journals-")
		if err != nil {
			return nil, err
		}
		cfg.Journals = folder
		defer os.RemoveAll(folder) //nolint:errcheck // best effort: the run is over
	}
	nodes, err := node.StartLocal(starting, *p.Deployment(time.Now(), "local"), cfg)
	if err != nil {
		return nil, err
	}
	defer nodes.Close() //nolint:errcheck // best effort: the document already has its figures
	live.nodes(nodes)

	live.enter(v1alpha1.StageLoad)
	report(Progress{Stage: "loading the data"})
	db := native{p, nodes}
	data, err := dataset(p)
	if err != nil {
		return nil, err
	}
	if err := db.Load(ctx, data); err != nil {
		return nil, err
	}
	if p.Emulated() {
		live.enter(v1alpha1.StageEmulate)
		report(Progress{Stage: "measuring the network"})
		if err := verifyNetwork(ctx, p, nodes); err != nil {
			return nil, err
		}
	}

	faults := injectProcess(p, nodes)
	if faults != nil {
		faults.observe = live.faults
	}
	m := measurement{facts: judge.Facts{Plan: p}, db: db, nodes: nodes, faults: faults, report: report, live: live}
	m.facts.SharedProcess, m.facts.Emulation = true, "None"
	if p.Emulated() {
		m.facts.Emulation = "BuiltIn"
	}
	document, err := m.run(ctx)
	if err == nil && o.Last != nil {
		live.enter(v1alpha1.StageCompleted)
		o.Last(ctx)
	}
	return document, err
}

// measurement plays a plan on a loaded database and evaluates the result.
type measurement struct {
	db target.Database
	// nodes are the database's nodes if they run in this process, and nil otherwise. faults is nil if the plan has no
	// faults.
	nodes  *node.Local
	faults *process
	// facts are the facts for the judge. At first they contain only the plan and the kind of the database.
	facts  judge.Facts
	report Report
	live   *live
}

func (m *measurement) run(ctx context.Context) (*result.Document, error) {
	f := &m.facts
	f.Layout, f.Machine = m.db.Layout(), result.ThisMachine()
	if m.faults != nil {
		f.Timeline = m.faults.timeline
	}
	var err error
	// Read the counters before the run, because they are cumulative and the judge needs the difference.
	if f.Before, err = m.db.Status(ctx); err != nil {
		return nil, err
	}
	if f.Target != nil {
		if f.Target.Servers, err = target.StateOf(ctx, m.db); err != nil {
			return nil, err
		}
	}
	rec := newRecording(f.Plan, catalog.Procedures())
	// Connect all clients before the common start. A slow connection would otherwise shorten the window of its region.
	players, err := m.connect(ctx, rec)
	if err != nil {
		return nil, err
	}
	start, err := m.playAll(ctx, players)
	if ctx.Err() != nil {
		return m.cancelled(ctx, start)
	}
	if err != nil {
		return nil, err
	}
	m.live.enter(v1alpha1.StageEvaluate)
	m.report(Progress{Stage: "checking the answers"})
	f.Unaudited = m.auditQuiet(ctx)
	if ctx.Err() != nil {
		return m.cancelled(ctx, start)
	}
	if f.After, err = m.db.Status(ctx); err != nil {
		// The measurement itself succeeded, so report the missing status as a fact instead of failing the run.
		f.Unaudited = errors.Join(f.Unaudited, fmt.Errorf("the figures of the nodes after the run are not known: %w", err))
	}
	if f.Target != nil && f.Unaudited == nil {
		f.Target.ServersAfter, f.Unaudited = target.StateOf(ctx, m.db)
	}
	m.deviations(start)
	f.History = rec.whole()
	return judge.Document(f)
}

// lost returns the reason why a database in this process will never become quiescent, or nil if there is none.
func (m *measurement) lost() error {
	if m.nodes == nil {
		return nil
	}
	err := m.nodes.Broken()
	if m.faults != nil {
		for id := range geo.NodeID(m.faults.t.Nodes()) {
			err = cmp.Or(err, m.faults.refused[id])
		}
	}
	if err != nil {
		return fmt.Errorf("the database has lost state: %w", err)
	}
	return nil
}

// deviations records disturbances of the nodes in this process that are not in the plan.
func (m *measurement) deviations(start time.Time) {
	if m.nodes != nil {
		m.facts.Deviations, m.facts.FastLinks = deviations(m.facts.Plan, m.nodes, m.faults, start)
	}
}

// deref copies the values to which the pointers refer into a slice. It returns err unchanged.
func deref[T any](answers []*T, err error) ([]T, error) {
	out := make([]T, len(answers))
	for i, a := range answers {
		out[i] = *a
	}
	return out, err
}

// verifyNetwork waits until the median round trip of every link matches its declaration. It returns an error if this
// takes longer than verifyWithin.
func verifyNetwork(ctx context.Context, p *plan.Plan, nodes *node.Local) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	for {
		statuses, err := deref(nodes.Status(ctx))
		if err != nil {
			return err
		}
		links, err := rtt.Measure(&p.Topology, statuses, nil)
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

// players holds the load generators and their connections, by region.
type players struct {
	workers []*load.Worker
	targets []target.Target
	stop    context.CancelFunc // cancels the context in which the connections were opened
}

func (p *players) close() {
	p.stop()
	for _, w := range p.workers {
		_ = w.Close() // the worker has finished
	}
	for _, t := range p.targets {
		_ = t.Close() // the sessions are already closed
	}
}

// connect connects the clients of all regions. The caller must play or close them.
func (m *measurement) connect(ctx context.Context, rec *recording) (*players, error) {
	p := m.facts.Plan
	regions := len(p.Topology.Regions)
	shards := 1 // one for an existing database, because each shard opens its own connections
	if m.facts.Target == nil {
		shards = max(1, runtime.GOMAXPROCS(0)/regions)
	}
	all := &players{}
	opening, stop := context.WithCancelCause(ctx)
	all.stop = func() { stop(nil) }
	for r := range geo.Region(regions) {
		cfg := workerConfig(p, r, 0, shards, rec)
		observer := m.live.observe(&cfg)
		w, err := load.NewWorker(cfg)
		if err != nil {
			all.close()
			return nil, err
		}
		m.live.watch(observer, w)
		all.workers, all.targets = append(all.workers, w), append(all.targets, m.db.Clients(r))
		if pool, ok := all.targets[r].(target.Pool); ok && m.facts.Target != nil {
			m.facts.Target.ConnectionsPerRegion = pool.PoolSize()
		}
	}
	m.report(Progress{Stage: "connecting the clients"})
	var connecting sync.WaitGroup
	for r, w := range all.workers {
		connecting.Go(func() {
			if err := w.Connect(opening, all.targets[r]); err != nil {
				// The run needs all regions, so cancel the connections of the other regions.
				stop(err)
			}
		})
	}
	connecting.Wait()
	// On success, keep the context open: the connections use it until players.close.
	if opening.Err() != nil {
		all.close()
		return nil, context.Cause(opening)
	}
	return all, nil
}

// playAll plays the clients of all regions and returns their common start.
func (m *measurement) playAll(ctx context.Context, players *players) (start time.Time, err error) {
	defer players.close()
	f, live := &m.facts, m.live
	p, workers := f.Plan, players.workers
	start = time.Now().Add(startAhead)
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		tell(telling, p, start, workers, m.report)
	}()
	live.play(workers)
	meter := make(chan *result.Driver, 1)
	go func() { meter <- load.MeasureDriver(telling, schedule(p), start) }()

	f.Reports = make([]*result.Report, len(workers))
	g, playing := errgroup.WithContext(ctx)
	for r, w := range workers {
		g.Go(func() (err error) {
			f.Reports[r], err = w.Run(playing, start)
			return err
		})
	}
	if m.faults != nil {
		from, _ := schedule(p).Window(1)
		g.Go(func() error { return m.faults.play(playing, start.Add(from), schedule(p).LastWindow()-from) })
	}
	err = g.Wait()
	f.Execution = load.ExecutionAt("", start, schedule(p))
	stop()
	// Wait for both goroutines: no progress must be reported after the run, and meter delivers the load of this process.
	<-told
	f.Driver = <-meter
	f.DriverName = "this process, which runs the nodes and the load generators,"
	if f.Target != nil {
		f.DriverName = "this process, which runs the load generators,"
	}
	for r, t := range players.targets {
		if report := f.Reports[r]; report != nil {
			report.Incidents = append(report.Incidents, t.Incidents()...)
			if native, ok := t.(*target.Native); ok {
				for i := range report.Workers {
					report.Workers[i].NodeRTTMicroseconds = result.Microseconds(native.RoundTrip())
				}
			}
		}
	}
	return start, err
}

// cancelled returns the result of a canceled run, which started at start.
func (m *measurement) cancelled(ctx context.Context, start time.Time) (*result.Document, error) {
	elapsed := time.Since(start)
	// ctx is already done, but the status of the nodes is still needed.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	var err error
	if m.facts.After, err = m.db.Status(asking); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	m.deviations(start)
	d, err := judge.Cancelled(&m.facts, elapsed)
	return d, errors.Join(ctx.Err(), err)
}

// tell reports the progress until ctx is done.
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

// stalled is the time after which pending work counts as permanently unfinished if it has not changed. This applies
// only if nodes were lost permanently.
const stalled = 5 * time.Second

// auditQuiet waits until the database is quiescent and then audits all nodes. It audits nothing if the database does
// not become quiescent in time.
//
// No node counts messages in flight as pending. So the database counts as quiescent only after a period in which no
// transaction was pending and no row was used. This period is as long as the longest round trip. After a permanent
// loss, some of the remaining nodes may wait for the lost nodes indefinitely. The audit omits them.
func (m *measurement) auditQuiet(ctx context.Context) error {
	f := &m.facts
	var gone []geo.NodeID
	if f.Timeline != nil {
		gone = f.Timeline.Lost()
	}
	// The distances between the nodes of an existing database are unknown. Wait for at least one poll interval, so that
	// two consecutive readings must show the same number of operations.
	calm := max(f.Plan.Topology.LongestRTT(), poll)
	begin := time.Now()
	operations, since := int64(-1), begin
	for {
		// A database that has lost state never becomes quiescent, so return the error at once.
		if err := m.lost(); err != nil {
			return err
		}
		now, err := m.db.Activity(ctx)
		if err != nil {
			return fmt.Errorf("what goes on in the database after the last answer is not known: %w", err)
		}
		// Compare the number of operations only while nothing is pending. After a loss, a constant number of pending
		// transactions counts as stalled even if rows are still used.
		if now.Pending != f.Unfinished || now.Pending == 0 && now.Operations != operations {
			f.Unfinished, operations, since = now.Pending, now.Operations, time.Now()
		}
		f.Leader, f.Elections = now.Leader, now.Elections
		if now.Pending == 0 && time.Since(since) > calm || len(gone) > 0 && time.Since(since) > stalled {
			audits := &audit.Audits{Out: judge.LeftOut(&f.Plan.Topology, gone, func(n geo.NodeID) int { return now.PendingByNode[n] })}
			if audits.Nodes, err = m.db.Audit(ctx, audits.LeftOut); err != nil {
				return fmt.Errorf("the rows could not be audited: %w", err)
			}
			f.Audits = audits
			return nil
		}
		if time.Since(begin) > judge.QuietWithin {
			return nil
		}
		if now.Pending > 0 {
			m.report(Progress{Stage: fmt.Sprintf("waiting for %d unfinished transactions", now.Pending)})
		}
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
}
