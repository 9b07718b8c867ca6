package inprocess

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/fault/simulated"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/ops/admin"
)

const (
	// settle is the virtual time before the first warm-up, during which nodes elect leaders and measure round trips.
	settle = 3 * time.Second
	// step is the interval, in virtual time, at which Simulate checks the context and reports progress.
	step = 100 * time.Millisecond
	// probeEvery is the interval between two probes of the round trips.
	probeEvery = 100 * time.Millisecond
)

// Simulate runs a plan in virtual time. The same plan always yields the same document, byte for byte. Simulate handles
// cancellation like Run.
func Simulate(ctx context.Context, p *plan.Plan, report Report) (*result.Document, error) {
	return simulateWith(ctx, p, report, func(_ geo.Region, m *load.Machine) attach { return m.Attach }, judge.Document)
}

// attach is a function that creates the client for an environment.
type attach = func(protocol.ClientEnv) protocol.Client

// simulateWith is Simulate with two replaceable functions. attached returns the function that creates the clients of a
// region from its load generators. conclude creates the document of a run that has completed its schedule.
func simulateWith(ctx context.Context, p *plan.Plan, report Report, attached func(geo.Region, *load.Machine) attach,
	conclude func(*judge.Facts) (*result.Document, error)) (*result.Document, error) {
	procedures, db, timeline := catalog.Procedures(), database(p), faultsOf(p)
	s := sim.New(sim.Config{
		Topology: &p.Topology, Engine: p.Engine, Params: p.Params, Procedures: procedures, Seed: p.Seed(),
		Costs: sim.DefaultCosts.On(p.Database.Spec.Resources.Limits.Cpu().MilliValue()), ProbeEvery: probeEvery,
		Durable: db.LogsSimulated(timeline), Coordinators: load.Coordinators(&p.Run.Spec.Load),
	})
	layout := p.Engine.Layout(&p.Topology, p.Params)
	for n := range geo.NodeID(p.Topology.Nodes()) {
		if err := workload.Fill(p.Workload, &layout, n, s.Store(n).Load); err != nil {
			return nil, err
		}
	}
	rec := newRecording(p, procedures)
	machines := make([]*load.Machine, len(p.Topology.Regions))
	for r := range machines {
		m, err := load.Machines(workerConfig(p, geo.Region(r), settle, 1, rec))
		if err != nil {
			return nil, err
		}
		machines[r] = m[0]
		s.AddClient(geo.Region(r), attached(geo.Region(r), m[0]))
	}

	plan := schedule(p)
	from, _ := plan.Window(1)
	var faults *simulated.Injector
	// The timeline of faults counts from the start of the first window, as in real time.
	if len(timeline.Faults) > 0 {
		faults = simulated.Start(s, db, timeline, settle+from, nil)
	}
	tell := func(stage string) {
		if report == nil {
			return
		}
		pr := Progress{Stage: stage, Elapsed: max(0, s.Now()-settle), Total: plan.LastWindow()}
		for _, m := range machines {
			pr.Regions = append(pr.Regions, m.Progress())
		}
		report(pr)
	}
	// advance runs the simulation in steps until done returns true or the time limit is reached. It reports whether done
	// returned true.
	advance := func(stage string, limit time.Duration, done func() bool) (bool, error) {
		for !done() {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if s.Now() >= limit {
				return false, nil
			}
			s.Run(s.Now() + step)
			tell(stage)
		}
		return true, nil
	}

	s.Run(settle)
	f := &judge.Facts{Plan: p, Layout: layout}
	f.Simulated, f.Emulation = true, "Simulated"
	f.Before, f.RTTs = statuses(p, s), roundTrips(p, s)
	if faults != nil {
		f.Timeline = faults.Timeline
	}
	finished := func() bool {
		for _, m := range machines {
			if !m.Finished() {
				return false
			}
		}
		return true
	}
	// plan.End includes the last request timeout, so a client that has not finished one step later will never finish.
	if ok, err := advance("simulating", settle+plan.End()+step, finished); err != nil {
		f.After, f.Unfinished = statuses(p, s), s.Pending()
		for _, m := range machines {
			m.Stop()
			f.Reports = append(f.Reports, m.Report())
		}
		d, e := judge.Cancelled(f, s.Now()-settle)
		return d, errors.Join(err, e)
	} else if !ok {
		return nil, fmt.Errorf("clients still wait %v after the last request timeout", step)
	}
	var gone []geo.NodeID
	if faults != nil {
		// A fault may outlast the load, so continue until the timeline contains its recovery.
		if _, err := advance("recovering", s.Now()+judge.QuietWithin, faults.Over); err != nil {
			return nil, err
		}
		if faults.Err != nil {
			return nil, faults.Err
		}
		gone = faults.Timeline.Lost()
	}
	quiet, err := advance("settling", s.Now()+judge.QuietWithin, settled(s))
	if err != nil {
		return nil, err
	}
	f.After, f.Unfinished = statuses(p, s), s.Pending()
	// Skip the comparison if links have limited bandwidth: a load that fills a link delays the probes, even if the network
	// matches its declaration.
	if faults == nil && !limited(&p.Topology) {
		f.RTTs = roundTrips(p, s)
	}
	for _, m := range machines {
		m.EndTrace()
		f.Reports = append(f.Reports, m.Report())
	}
	// After a permanent loss, some nodes may wait for lost nodes indefinitely. LeftOut determines these nodes, and the
	// audit omits them.
	if quiet || len(gone) > 0 {
		f.Audits = &audit.Audits{Out: judge.LeftOut(&p.Topology, gone, func(n geo.NodeID) int { return s.Node(n).Pending })}
		for n := range geo.NodeID(p.Topology.Nodes()) {
			f.Audits.Nodes = append(f.Audits.Nodes, audit.Of(n, &layout, s.Store(n), p.Workload, rec != nil))
		}
	}
	f.History = rec.whole()
	return conclude(f)
}

// limited reports whether any link has a limited bandwidth.
func limited(t *geo.Topology) bool {
	return slices.ContainsFunc(t.Links, func(row []geo.Link) bool {
		return slices.ContainsFunc(row, func(l geo.Link) bool { return l.BandwidthMbps > 0 })
	})
}

// roundTrips returns the round trips measured so far. In a run with faults it is called before the load starts, because
// faults change round trips.
func roundTrips(p *plan.Plan, s *sim.Sim) (out []result.MeasuredRTT) {
	for a, from := range p.Topology.Regions {
		for b, to := range p.Topology.Regions {
			if rtt := s.RTT(geo.Region(a), geo.Region(b)); rtt.Samples > 0 {
				out = append(out, result.MeasuredRTT{From: from, To: to, Samples: int64(rtt.Samples),
					RTT: result.RTT{P50: result.Microseconds(rtt.P50), P99: result.Microseconds(rtt.P99)}})
			}
		}
	}
	return out
}

// settled returns a function that reports whether the database is quiescent. No node counts messages in flight as
// pending. So once no transaction is pending, the function records the time and the number of operations. The database
// is quiescent when all messages sent before that time have arrived and the number of operations is still the same.
func settled(s *sim.Sim) func() bool {
	since, operations := time.Duration(-1), uint64(0)
	return func() bool {
		if s.Pending() > 0 {
			since = -1
			return false
		}
		if since >= 0 && s.Underway(since) {
			return false
		}
		sum := s.Operations()
		if since >= 0 && sum == operations {
			return true
		}
		since, operations = s.Now(), sum
		return false
	}
}

// statuses returns the status of the simulated nodes. The simulator counts traffic by region, so the status of the
// first node in each region contains the traffic of the whole region.
func statuses(p *plan.Plan, s *sim.Sim) []admin.Status {
	t := &p.Topology
	out := make([]admin.Status, t.Nodes())
	for id := range out {
		n := geo.NodeID(id)
		load, rows := s.Node(n), s.Store(n)
		st := admin.Status{
			Node: t.NodeName(n), ID: id, Ready: true, Pending: load.Pending, CPUSeconds: load.Busy.Seconds(),
			DataBytes: rows.Bytes(), Rows: int64(rows.Len()), Operations: int64(load.Ops),
		}
		st.Counters, st.Gauges = p.Engine.ByKind(s.Readings(n))
		if t.PartitionOf(n) == 0 && t.ReplicaOf(n) == 0 {
			st.Requests, st.Answers = s.ClientTraffic(t.RegionOf(n))
			for b, to := range t.Regions {
				st.Links = append(st.Links, admin.LinkStatus{To: to, Traffic: s.Traffic(t.RegionOf(n), geo.Region(b))})
			}
		}
		out[id] = st
	}
	return out
}
