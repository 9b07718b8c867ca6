package result

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Inputs holds everything that Build needs for a document. Build reads neither a clock nor the environment.
type Inputs struct {
	Name       string
	Database   string
	Engine     string
	Parameters map[string]string
	Seed       int64
	Topology   *geo.Topology
	// Manifests are copied into the document unchanged.
	Manifests *Manifests
	// Workload and Load are the run's specs with their defaults filled in.
	Workload v1alpha1.Workload
	Load     v1alpha1.Load
	// Shares is the result of workload.Workload.Shares: the configured shares of the workload.
	Shares []workload.Share
	// TpmCType is the result of catalog.TpmCType: the transaction type whose commits per minute are the tpmC. It is empty
	// for a workload without such a type.
	TpmCType   string
	Prices     *Prices // nil means DefaultPrices
	Objectives []v1alpha1.Objective

	Measured
	Faults     []Fault
	Deviations []Deviation
	FastLinks  []FastLink
	Checks     []workload.Check
}

// Measured holds the observations of a run, as collected by the process or cluster that ran it.
type Measured struct {
	Simulated bool
	// Execution identifies the execution of the run and gives the times of its windows; nil for simulated documents.
	Execution *Execution
	// Machine is the machine that evaluated the run; omitted from simulated documents.
	Machine *Machine
	// Emulation is the mechanism that emulated the links: Simulated, or a v1alpha1.Emulation.
	Emulation string
	// Mesh is the service mesh of nodes and workers; nil if it was not determined.
	Mesh *v1alpha1.MeshStatus
	// Reports holds the reports of the load generators.
	Reports []*Report
	// Driver is the CPU usage of the load generators, if these did not measure their own usage. DriverName names the
	// process that used the CPU, for example a process that also runs nodes.
	Driver     *Driver
	DriverName string
	// Before and After hold one status per node, taken before the first warm-up and after the last answer. Their
	// difference covers all transactions in between.
	Before, After []admin.Status
	// SharedProcess is set if one process ran all nodes and load generators. Every status then contains the CPU time and
	// memory of the whole process, which belong to no single node.
	SharedProcess bool
	// RTTs holds measured round trips. It replaces the round trips in Before and After if the nodes do not measure round
	// trips.
	RTTs []MeasuredRTT
	// Readings are counts of the bytes between nodes by other observers, taken at the times of Before and After.
	Readings []Readings
	// Target describes a database other than Geobench's own; nil for nodes of Geobench. Unless the target was deployed,
	// its network is neither declared nor measured, so links, bytes and cost are omitted. For a deployed target, Before
	// and After are reports of the probes next to the target's nodes.
	Target *Target
	// Gaps are the times at which the emulated network differed from the declared network.
	Gaps []Gap
	// Clocks holds one entry per clock measurement of a load generator on another machine.
	Clocks []Clock
	// Pods describes how the pods of the database and of the load generators ran, on a cluster.
	Pods []Pods
	// NodeFacts holds measurements of nodes other than their counters.
	NodeFacts []NodeFacts
	// ClockBound is the clock difference between two nodes beyond which the engine's answers may be wrong; 0 if no answer
	// depends on clocks.
	ClockBound time.Duration
	// Incidents are events that make the measurement doubtful and that no worker report contains.
	Incidents []Reason
}

// MeasuredRTT is the measured round trip of one link.
type MeasuredRTT struct {
	From, To string
	RTT
	Samples int64
}

// Build returns the document of a run, with its verdict. It fails if the reports cannot belong to one run.
func Build(in Inputs) (*Document, error) {
	r, err := Merge(in.Reports)
	if err != nil {
		return nil, err
	}
	if in.Prices == nil {
		in.Prices = DefaultPrices()
	}
	d := &Document{
		APIVersion: APIVersion, Kind: Kind, Name: in.Name, Simulated: in.Simulated, Seed: in.Seed,
		Engine: in.Engine, Parameters: in.Parameters, Database: in.Database, Emulation: in.Emulation, Mesh: in.Mesh,
		Homes: in.Topology.Homes, PartitionsPerRegion: in.Topology.Partitions, ReplicasPerPartition: in.Topology.Replicas,
		Target: in.Target, Workload: r.Workload, Version: version.String(),
		Spec:      Spec{Workload: in.Workload, Load: in.Load, WorkloadHash: hash(in.Workload), LoadHash: hash(in.Load), TopologyHash: hash(in.Topology)},
		Manifests: in.Manifests, Faults: in.Faults, Deviations: in.Deviations[:min(len(in.Deviations), maxDeviations)], FastLinks: in.FastLinks[:min(len(in.FastLinks), maxDeviations)], Checks: in.Checks, EmulationGaps: in.Gaps,
		Histograms:   Histograms{Encoding: HistogramEncoding, Estimator: Estimator, Rounded: r.Resolution.Apart || r.Resolution.Rounded, Series: []HistogramSeries{}},
		Transactions: []Transaction{}, Links: []Link{}, Nodes: []Node{}, Workers: []WorkerShare{},
	}
	if m := in.Manifests; m != nil && m.Database != nil && m.Database.Durability != v1alpha1.DurabilityNone {
		d.Durability = m.Database.Durability
	}
	// An empty list is [] in JSON, not null.
	if d.Faults == nil {
		d.Faults = []Fault{}
	}
	if d.Checks == nil {
		d.Checks = []workload.Check{}
	}
	// Simulated documents must be byte-identical for the same seed, so they must not contain any property of this machine.
	if !in.Simulated {
		d.Machine, d.Execution, d.Pods = in.Machine, in.Execution, in.Pods
	}
	if r.Build != d.Version {
		d.WorkerVersion = r.Build
	}
	a, err := aggregate(r, &in.Load, in.Topology.Regions, in.Objectives)
	if err != nil {
		return nil, err
	}
	a.fill(d, r)
	if in.TpmCType != "" {
		d.fillTpmC(r, &in)
	}
	if err := d.fillRealised(in.Shares, r); err != nil {
		return nil, err
	}
	d.fillTimeline(in.Topology.Regions, r)
	d.fillGaps(r)
	d.Objectives = evaluate(in.Objectives, d.measures(in.Objectives, a.objectives, r))
	d.fillFaults(r)
	d.fillNetwork(&in, r)
	d.fillNodes(&in)
	d.fillLoss(&in)
	for _, w := range r.Workers {
		s := WorkerShare{Region: w.Region, Index: w.Index, Clients: w.Clients, NodeRTTMicroseconds: w.NodeRTTMicroseconds}
		if w.Driver != nil && !in.Simulated {
			share := w.Driver.SharePPM()
			s.CPUSharePPM, s.AllowanceMilliCPU, s.PeakMemoryBytes = &share, w.Driver.AllowanceMilliCPU, w.Driver.PeakMemoryBytes
		}
		if driver := cmp.Or(w.Driver, in.Driver); driver != nil && !in.Simulated {
			s.LateMicroseconds = driver.LateMicroseconds
		}
		if c := clockOf(in.Clocks, w.Region, w.Index); c != nil {
			s.ClockAheadMicroseconds, s.ClockWithinMicroseconds = &c.AheadMicroseconds, &c.WithinMicroseconds
		}
		d.Workers = append(d.Workers, s)
	}
	d.noteLate(&in)
	d.noteStalled(&in, r)
	d.noteFarWorkers(&in)
	d.noteServers()
	// The verdict is last because it depends on the figures that the earlier steps fill in.
	d.judge(&in, r)
	return d, nil
}

func hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("result: %T has no JSON form: %v", v, err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// figures sums the counts and latencies of several series.
type figures struct {
	Counts
	Unanswered
	attempts         Attempts
	carriedIn        int64
	latency, service tally
}

// add adds a series, whose decoded histograms are h and service.
func (f *figures) add(s *Series, h, service *hdrhistogram.Histogram) {
	f.Counts.add(s.Outcome, s.Latency.Count, &s.Failures)
	f.attempts.Counts.add(s.Outcome, s.Attempts.Count, &s.Attempts.Failures)
	f.latency.add(s.Outcome, &s.Latency, h)
	if s.Service != nil {
		f.service.add(s.Outcome, s.Service, service)
	}
}

// addWindow adds those counts of window w that are not part of any series.
func (f *figures) addWindow(w *Window) {
	f.carriedIn += w.CarriedIn
	f.Unanswered.addWindow(w)
	f.latency.addNever(w.Dropped+w.Backlog, w.UnsentMicroseconds)
	f.attempts.Retried += w.Retried
	f.attempts.CommittedAfter = addEach(f.attempts.CommittedAfter, w.CommittedAfter)
}

// attemptsOver returns the attempts in all windows, whose total length is microseconds.
func (f *figures) attemptsOver(microseconds int64) Attempts {
	a := f.attempts
	a.PerSecond, a.AbortPPM = ratio(microseconds, 1, a.Ended(), 1e6), a.abortPPM()
	return a
}

// timeoutReason equals load.Timeout; this package cannot import load.
const timeoutReason = "timeout"

type aggregates struct {
	all          figures
	repetitions  []figures
	regions      []figures
	byRegion     [][]figures // by repetition, then region
	names        []string    // names of the regions
	transactions []*transactionFigures
	objectives   []figures
}

type transactionFigures struct {
	typ, class, region string
	figures            figures
	outcomes, attempts Outcomes
}

// aggregate sums all series in one pass, because decoding histograms is expensive.
func aggregate(r *Report, load *v1alpha1.Load, regions []string, objectives []v1alpha1.Objective) (*aggregates, error) {
	a := &aggregates{
		repetitions: make([]figures, r.Repetitions),
		regions:     make([]figures, len(regions)),
		names:       regions,
		byRegion:    make([][]figures, r.Repetitions),
		objectives:  make([]figures, len(objectives)),
	}
	for i := range a.byRegion {
		a.byRegion[i] = make([]figures, len(regions))
	}
	index := map[seriesKey]*transactionFigures{}
	for i := range r.Series {
		s := &r.Series[i]
		region := slices.Index(regions, s.Region)
		if region < 0 {
			return nil, fmt.Errorf("worker report: region %q is not one of %v", s.Region, regions)
		}
		h, err := DecodeHistogram(s.Latency.Histogram)
		if err != nil {
			return nil, err
		}
		var service *hdrhistogram.Histogram
		if s.Service != nil {
			if service, err = DecodeHistogram(s.Service.Histogram); err != nil {
				return nil, err
			}
		}
		if r.Resolution.Apart && s.Repetition > 0 { // this series covers all types and classes
			for _, f := range []*figures{&a.repetitions[s.Repetition-1], &a.byRegion[s.Repetition-1][region]} {
				f.add(s, h, service)
			}
			continue
		}
		k := seriesKey{region: s.Region, typ: s.Type, class: s.Class}
		t := index[k]
		if t == nil {
			t = &transactionFigures{typ: s.Type, class: s.Class, region: s.Region,
				outcomes: Outcomes{Aborted: map[string]int64{}}, attempts: Outcomes{Aborted: map[string]int64{}}}
			index[k] = t
			a.transactions = append(a.transactions, t)
		}
		if s.Repetition > 0 {
			for _, f := range []*figures{&a.repetitions[s.Repetition-1], &a.byRegion[s.Repetition-1][region]} {
				f.add(s, h, service)
			}
		}
		for _, f := range []*figures{&a.all, &a.regions[region], &t.figures} {
			f.add(s, h, service)
		}
		if s.Outcome == Unfinished {
			t.figures.Unfinished += s.Latency.Count
		}
		t.outcomes.add(s.Outcome, s.Latency.Count, &s.Failures)
		t.attempts.add(s.Outcome, s.Attempts.Count, &s.Attempts.Failures)
		for i, o := range objectives {
			if (o.Transaction == "" || o.Transaction == s.Type) && (o.Region == "" || o.Region == s.Region) {
				a.objectives[i].add(s, h, service)
				switch {
				case o.Transaction == "": // already counted by addWindow
				case s.Outcome == Unfinished:
					a.objectives[i].Unfinished += s.Latency.Count
				case s.Outcome == CarriedOver:
					a.objectives[i].CarriedOver += s.Latency.Count
				}
			}
		}
	}
	for i := range r.Windows {
		w := &r.Windows[i]
		region := slices.Index(regions, w.Region)
		if region < 0 {
			return nil, fmt.Errorf("worker report: region %q is not one of %v", w.Region, regions)
		}
		for _, f := range []*figures{&a.all, &a.repetitions[w.Repetition-1], &a.regions[region], &a.byRegion[w.Repetition-1][region]} {
			f.addWindow(w)
		}
		for i, o := range objectives {
			// CarriedIn is not known for single types, so objectives on a type omit the window's counts.
			if o.Transaction == "" && (o.Region == "" || o.Region == w.Region) {
				a.objectives[i].addWindow(w)
			}
		}
	}
	a.spreadUnsent(r.Windows, objectives)
	a.markGrowing(r, load, objectives)
	types := map[string]int{}
	for i, t := range r.Types {
		types[t] = i
	}
	slices.SortFunc(a.transactions, func(x, y *transactionFigures) int {
		if x.typ != y.typ {
			return types[x.typ] - types[y.typ]
		}
		if x.class != y.class {
			return slices.Index(classes, x.class) - slices.Index(classes, y.class)
		}
		return slices.Index(regions, x.region) - slices.Index(regions, y.region)
	})
	return a, nil
}

// markGrowing marks the figures of regions whose backlog grew. Closed loops are exempt, because the number of clients
// bounds their backlog.
func (a *aggregates) markGrowing(r *Report, load *v1alpha1.Load, objectives []v1alpha1.Objective) {
	if load.Arrival != v1alpha1.ArrivalConstant && load.Arrival != v1alpha1.ArrivalPoisson {
		return
	}
	for i := range a.regions {
		grows := a.regions[i].grows(r.DurationMicroseconds*int64(r.Repetitions), Microseconds(load.Warmup.Duration))
		if load.Curve != nil && load.Curve.Shape != v1alpha1.LoadUniform {
			grows = a.regions[i].growsUnderCurve(r, a.names[i])
		}
		if !grows {
			continue
		}
		// Percentiles over all regions include the growing region, so they become lower bounds too.
		a.all.latency.growing, a.regions[i].latency.growing = true, true
		for j := range a.repetitions {
			a.repetitions[j].latency.growing, a.byRegion[j][i].latency.growing = true, true
		}
		for _, t := range a.transactions {
			t.figures.latency.growing = t.figures.latency.growing || t.region == a.names[i]
		}
		for j, o := range objectives {
			if o.Region == "" || o.Region == a.names[i] {
				a.objectives[j].latency.growing = true
			}
		}
	}
}

// spreadUnsent distributes each region's unsent transactions over types, classes and the objectives of one type. The
// types of unsent transactions are unknown, so each type gets a share in proportion to its sent transactions.
func (a *aggregates) spreadUnsent(windows []Window, objectives []v1alpha1.Objective) {
	for i := range a.regions {
		unsent := a.regions[i].Unsent()
		if unsent == 0 {
			continue
		}
		// A region may have sent nothing at all; max avoids a division by zero, and every share is then 0.
		sent, longest := max(1, a.regions[i].Ended()+a.regions[i].Unfinished), int64(0)
		for _, w := range windows {
			if w.Region == a.names[i] {
				longest = max(longest, w.UnsentMicroseconds)
			}
		}
		share := func(of int64) int64 { return ratio(sent, 1, of, unsent) }
		of := map[string]int64{} // sent transactions by type
		for _, t := range a.transactions {
			if t.region == a.names[i] {
				n := t.figures.Ended() + t.figures.Unfinished
				of[t.typ] += n
				t.figures.latency.addNever(share(n), longest)
			}
		}
		for j, o := range objectives {
			// An objective without a type already has the unsent transactions from addWindow.
			if o.Transaction != "" && (o.Region == "" || o.Region == a.names[i]) {
				a.objectives[j].latency.addNever(share(of[o.Transaction]), longest)
				a.objectives[j].Backlog += share(of[o.Transaction])
			}
		}
	}
}

// perSecond returns the throughput over windows with a total length of microseconds.
func (f *figures) perSecond(microseconds int64) int64 {
	// Throughput counts commits in the window, including transactions that were due before it opened.
	return ratio(microseconds, 1, f.Committed+f.carriedIn, 1e6)
}

func (a *aggregates) fill(d *Document, r *Report) {
	measured := r.DurationMicroseconds * int64(r.Repetitions)
	s := &d.Summary
	s.Counts, s.CarriedIn, s.AbortPPM = a.all.Counts, a.all.carriedIn, a.all.abortPPM()
	s.ThroughputPerSecond = a.all.perSecond(measured)
	s.Attempts = a.all.attemptsOver(measured)
	s.LatencyMicroseconds, s.ServiceTimeMicroseconds = a.all.latency.latency(), a.all.service.optional()
	s.Late = r.Late
	s.Unanswered = a.all.Unanswered
	// Each region has a separate hang limit, so the summary adds the regions' counts of hung transactions.
	for i := range a.regions {
		s.Hung += a.regions[i].latency.hung()
	}
	for _, w := range r.Windows {
		s.Discarded += w.Discarded
	}
	// In a closed loop nothing is due before a client is free, so there is no offered rate.
	if a := d.Spec.Load.Arrival; a == v1alpha1.ArrivalConstant || a == v1alpha1.ArrivalPoisson {
		s.OfferedPerSecond = ratio(measured, 1, s.Ended()+s.Unfinished+s.Unsent(), 1e6)
	}
	for i := range a.repetitions {
		f := &a.repetitions[i]
		repetition := Repetition{
			Index: i + 1, Counts: f.Counts, CarriedIn: f.carriedIn, AbortPPM: f.abortPPM(), Attempts: f.attemptsOver(r.DurationMicroseconds),
			ThroughputPerSecond: f.perSecond(r.DurationMicroseconds), LatencyMicroseconds: f.latency.latency(),
		}
		// With one window, Document.Regions holds the same figures.
		if r.Repetitions > 1 {
			for j := range a.byRegion[i] {
				f := &a.byRegion[i][j]
				repetition.Regions = append(repetition.Regions, RepetitionRegion{
					Name: a.names[j], AbortPPM: f.abortPPM(),
					ThroughputPerSecond: f.perSecond(r.DurationMicroseconds), LatencyMicroseconds: f.latency.latency(),
				})
			}
		}
		d.Repetitions = append(d.Repetitions, repetition)
	}
	if len(d.Repetitions) > 1 {
		d.Median = medianOf(d.Repetitions)
	}
	for i := range a.regions {
		f := &a.regions[i]
		region := Region{
			Name: a.names[i], Counts: f.Counts, CarriedIn: f.carriedIn, AbortPPM: f.abortPPM(), Attempts: f.attemptsOver(measured),
			ThroughputPerSecond: f.perSecond(measured), LatencyMicroseconds: f.latency.latency(),
			ServiceTimeMicroseconds: f.service.optional(), Unanswered: f.Unanswered, Growing: f.latency.growing,
		}
		region.Hung = f.latency.hung()
		d.Regions = append(d.Regions, region)
	}
	for _, t := range a.transactions {
		d.Transactions = append(d.Transactions, Transaction{
			Type: t.typ, Class: t.class, Region: t.region, Outcomes: t.outcomes, Attempts: t.attempts,
			LatencyMicroseconds: t.figures.latency.latency(), ServiceTimeMicroseconds: t.figures.service.optional(),
		})
		if l := &t.figures.latency; l.samples() > 0 {
			d.Histograms.Series = append(d.Histograms.Series, HistogramSeries{
				Type: t.typ, Class: t.class, Region: t.region, Histogram: EncodeHistogram(l.histogram),
				SumMicroseconds: l.sum, MaxMicroseconds: l.max,
				Unfinished: EncodeHistogram(l.waiting), Never: l.never, NeverMicroseconds: l.neverSum, LongestMicroseconds: l.longest, Growing: l.growing,
			})
		}
	}
}

// medianOf returns a repetition with the median of each figure. With an even number of repetitions, the median is the
// lower of the two middle values, so that it is a measured value.
func medianOf(reps []Repetition) *Repetition {
	median := func(f func(*Repetition) int64) int64 {
		var v []int64
		for i := range reps {
			v = append(v, f(&reps[i]))
		}
		slices.Sort(v)
		return v[(len(v)-1)/2]
	}
	var latencies []Latency
	for i := range reps {
		latencies = append(latencies, reps[i].LatencyMicroseconds)
	}
	counts := func(of func(*Repetition) *Counts) Counts {
		return Counts{
			Committed: median(func(r *Repetition) int64 { return of(r).Committed }),
			Aborted:   median(func(r *Repetition) int64 { return of(r).Aborted }),
			Refused:   median(func(r *Repetition) int64 { return of(r).Refused }),
			Unknown:   median(func(r *Repetition) int64 { return of(r).Unknown }),
			Timeouts:  median(func(r *Repetition) int64 { return of(r).Timeouts }),
		}
	}
	return &Repetition{
		Counts: counts(func(r *Repetition) *Counts { return &r.Counts }),
		Attempts: Attempts{
			Counts:    counts(func(r *Repetition) *Counts { return &r.Attempts.Counts }),
			Retried:   median(func(r *Repetition) int64 { return r.Attempts.Retried }),
			PerSecond: median(func(r *Repetition) int64 { return r.Attempts.PerSecond }),
			AbortPPM:  median(func(r *Repetition) int64 { return r.Attempts.AbortPPM }),
		},
		CarriedIn:           median(func(r *Repetition) int64 { return r.CarriedIn }),
		ThroughputPerSecond: median(func(r *Repetition) int64 { return r.ThroughputPerSecond }),
		AbortPPM:            median(func(r *Repetition) int64 { return r.AbortPPM }),
		LatencyMicroseconds: medianLatency(latencies),
	}
}

// cpuPerTransaction returns the CPU time in microseconds that nodes and load generators used per committed transaction.
// transactions is the number of commits in the period over which the nodes counted their CPU time.
func (d *Document) cpuPerTransaction(r *Report, transactions int64) int64 {
	// One process ran both nodes and load generators: its CPU time already includes the workers.
	if d.Process != nil {
		return ratio(transactions, 1, d.Process.CPUMilliseconds, 1000)
	}
	var nodes, workers int64
	for _, n := range d.Nodes {
		nodes += n.CPUMilliseconds
	}
	for _, w := range r.Workers {
		if w.Driver != nil {
			workers += w.Driver.CPUMicroseconds
		}
	}
	perTransaction := ratio(transactions, 1, nodes, 1000)
	// Workers measure their CPU time only in the windows, so it is divided by the number of commits in the windows.
	if ended := d.Summary.Committed + d.Summary.CarriedIn; ended > 0 {
		perTransaction += ratio(ended, 1, workers)
	}
	return perTransaction
}

func (d *Document) fillRealised(shares []workload.Share, r *Report) error {
	if len(shares) != len(r.Shares) {
		return fmt.Errorf("worker report: it counts %d shares of the mix, workload %s has %d", len(r.Shares), r.Workload, len(shares))
	}
	var w Window
	for i := range r.Windows {
		w.add(&r.Windows[i])
	}
	ppm := func(n, of int64) int64 {
		if of == 0 {
			return 0
		}
		return ratio(of, 1, n, 1e6)
	}
	realised := &d.Summary.Realised
	*realised = Realised{
		AllMultiHomePPM: ppm(w.MultiHome, w.Classified), AllMultiPartitionPPM: ppm(w.MultiPartition, w.Classified), All: w.Classified,
		Shares: []Share{},
	}
	for i, s := range shares {
		c := r.Shares[i]
		realised.Shares = append(realised.Shares, Share{s.Name, s.Of, c.Of, ppm(c.Hits, c.Of), s.ConfiguredPPM, s.Mean, s.TolerancePercent})
	}
	return nil
}

// uncounted returns the nodes whose counters do not cover the whole run. These are nodes that a fault stopped, nodes
// that no longer answer, and nodes whose process changed. It returns nil for simulations and for targets.
func uncounted(in *Inputs) (out []string) {
	if in.Simulated || in.Target != nil {
		return nil
	}
	ended := map[string]bool{}
	for i := range in.Faults {
		// Restarted nodes are listed as well: their processes lost the counts of their earlier work.
		for _, n := range slices.Concat(in.Faults[i].Lost, in.Faults[i].Restarted) {
			ended[n] = true
		}
	}
	after := map[string]*admin.Status{}
	for i := range in.After {
		after[in.After[i].Node] = &in.After[i]
	}
	for i := range in.Before {
		b := &in.Before[i]
		if a := after[b.Node]; ended[b.Node] || a == nil || a.Process != b.Process || wentBack(b, a) {
			out = append(out, b.Node)
		}
	}
	return out
}

// wentBack reports whether a counter of a node is less than it was before the run. A node that continues from a journal
// keeps its Process, so only its counters reveal the restart. Gauges can fall without a restart, so wentBack ignores
// them.
func wentBack(before, after *admin.Status) bool {
	less := func(a, b geo.Traffic) bool {
		return a.Bytes < b.Bytes || a.Messages < b.Messages || a.Segments < b.Segments
	}
	for _, b := range before.Links {
		for _, a := range after.Links {
			if a.To == b.To && less(a.Traffic, b.Traffic) {
				return true
			}
		}
	}
	for name, b := range before.Counters { // a declared counter falls only after a replica restarted: see protocol.Counter
		if a, reported := after.Counters[name]; reported && a < b {
			return true
		}
	}
	return after.CPUSeconds < before.CPUSeconds || after.Operations < before.Operations || less(after.Requests, before.Requests) || less(after.Answers, before.Answers)
}

// countedFrom returns the baseline to subtract from the counters in s; b is the earlier status of the node. After a
// restart from a journal, a process replays the messages of its predecessor and counts them again. The message counters
// therefore keep the baseline from b. The process does not replay client requests, so the request counters get the
// baseline 0. A stopped process reports no links, and all of its counters get the baseline 0.
func countedFrom(b, s *admin.Status, restarted bool) *admin.Status {
	if b == nil || b.Process != s.Process || restarted && len(s.Links) == 0 {
		return &admin.Status{}
	}
	if !restarted {
		return b
	}
	out := *b
	// The new process did not keep the CPU time of its predecessor and did not replay the requests of clients.
	out.CPUSeconds, out.Requests, out.Answers = 0, geo.Traffic{}, geo.Traffic{}
	out.Links = slices.Clone(b.Links)
	for i := range out.Links {
		out.Links[i].Segments = 0
	}
	return &out
}

func subtract(after, before map[string]int64) map[string]int64 {
	if after == nil {
		return nil
	}
	out := maps.Clone(after)
	for name, v := range before {
		if _, ok := out[name]; ok {
			out[name] -= v
		}
	}
	return out
}
