package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// ReportKind and ReportVersion identify the reports that this version writes and reads.
const (
	ReportKind    = "WorkerReport"
	ReportVersion = 2
)

// Report holds the measurements of load generators: of one shard, of one worker or, after merging, of a whole run. It
// holds only sums and histograms, so merging is lossless and independent of the order.
type Report struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Build is the version of the worker. If reports of several versions were merged, it lists all of them: "v1, v2".
	Build string `json:"build,omitempty"`
	// Workload is the name of the workload, and Types are its transaction types.
	Workload string   `json:"workload"`
	Types    []string `json:"types"`
	// Arrival is Closed, Constant or Poisson.
	Arrival string `json:"arrival"`
	// DurationMicroseconds is the length of each repetition's window.
	DurationMicroseconds int64 `json:"durationMicroseconds"`
	Repetitions          int   `json:"repetitions"`

	Workers  []LoadGenerator `json:"workers"`
	Windows  []Window        `json:"windows"`
	Series   []Series        `json:"series"`
	Timeline []Second        `json:"timeline"`
	Ledger   workload.Ledger `json:"ledger"`
	// Shares counts the items of workload.Workload.Shares, over all windows.
	Shares []workload.Count `json:"shares,omitempty"`
	// Total counts all finished transactions, including warm-ups and drains. Late counts outcomes that arrived after the
	// client had given up.
	Total Total `json:"total"`
	Late  int64 `json:"late,omitempty"`
	// Misclassified counts the committed transactions of a recorded history for which the database reported the wrong
	// class, in all windows and warm-ups. MisclassifiedExample describes one of them.
	Misclassified        int64  `json:"misclassified,omitempty"`
	MisclassifiedExample string `json:"misclassifiedExample,omitempty"`
	// Incidents are events that make the measurement doubtful.
	Incidents []Incident `json:"incidents,omitempty"`
	// Resolution is the resolution of Timeline and Series.
	Resolution Resolution `json:"resolution,omitzero"`
}

// Incident is an event that makes a measurement doubtful, unless a fault explains it.
type Incident struct {
	Reason
	// Node is the node whose connection is affected; empty if no node is affected.
	Node string `json:"node,omitempty"`
}

// Total counts transactions by outcome.
type Total struct {
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted"`
	// Failed counts transactions that were refused or have an unknown outcome.
	Failed int64 `json:"failed"`
}

// LoadGenerator describes a load generator.
type LoadGenerator struct {
	Region string `json:"region"`
	// Index counts the workers of a region from 0.
	Index   int `json:"index"`
	Clients int `json:"clients"`
	// TargetRTTMicroseconds is the round trip between the worker's clients and their server before the run; 0 if the
	// nodes measure it.
	TargetRTTMicroseconds int64 `json:"targetRTTMicroseconds,omitempty"`
	// NodeRTTMicroseconds is the round trip between the worker's clients and the most distant node of their region,
	// without emulated delays; 0 if unknown.
	NodeRTTMicroseconds int64 `json:"nodeRTTMicroseconds,omitempty"`
	// Driver is the worker's CPU usage while measuring; nil if another process measured it.
	Driver *Driver `json:"driver,omitempty"`
}

// Driver is the CPU time that a load generator used during the measured windows, and its CPU allowance.
type Driver struct {
	CPUMicroseconds      int64 `json:"cpuMicroseconds"`
	MeasuredMicroseconds int64 `json:"measuredMicroseconds"`
	// AllowanceMilliCPU is the CPU limit in thousandths of a core.
	AllowanceMilliCPU int64 `json:"allowanceMilliCPU"`
	PeakMemoryBytes   int64 `json:"peakMemoryBytes,omitempty"`
	// BusiestPPM is the share of the allowance used in the busiest window, in parts per million.
	BusiestPPM int64 `json:"busiestPPM,omitempty"`
	// Periods counts the periods of the kernel's CPU quota in the windows in which the worker ran (100 ms each by
	// default). ThrottledPeriods counts the periods in which the worker was throttled because it had used up its quota.
	// Both are 0 without a quota.
	Periods          int64 `json:"periods,omitempty"`
	ThrottledPeriods int64 `json:"throttledPeriods,omitempty"`
	// LateMicroseconds is the lateness of the process for scheduled work. Each of its figures is the largest value over
	// all windows. It is nil in reports of earlier versions that did not measure it.
	LateMicroseconds *Lateness `json:"lateMicroseconds,omitempty"`
}

// Lateness is the delay, in microseconds, with which a process wakes up when it asks to be woken every 5 ms. All work
// of the process had to wait that long for the CPU. Possible causes are a busy machine, an exhausted quota, and other
// work of the process. Transactions are sent, and answers are received, with this delay.
type Lateness struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Worst replaces each figure of l with the larger of the figures of l and other.
func (l *Lateness) Worst(other Lateness) {
	l.P50, l.P99, l.Max = max(l.P50, other.P50), max(l.P99, other.P99), max(l.Max, other.Max)
}

// ThrottledPPM returns the share of CPU quota periods in which the load generator was throttled, in parts per million.
func (d *Driver) ThrottledPPM() int64 {
	if d.Periods <= 0 {
		return 0
	}
	return int64(float64(d.ThrottledPeriods) / float64(d.Periods) * 1e6)
}

// SharePPM returns the used share of the CPU allowance, in parts per million.
func (d *Driver) SharePPM() int64 {
	allowed := d.MeasuredMicroseconds * d.AllowanceMilliCPU / 1000
	if allowed <= 0 {
		return 0
	}
	return int64(float64(d.CPUMicroseconds) / float64(allowed) * 1e6)
}

// Window sums up one repetition's window in one region: the transactions that were due in it, and how they ended.
type Window struct {
	Region string `json:"region"`
	// Repetition counts from 1.
	Repetition int `json:"repetition"`
	// Due is the number of transactions that were due in the window, counted when they became due. Each of them is part
	// of Sent, Dropped or Backlog. A sent transaction either finished in the window, so that a series counts it, or is
	// Unfinished. Due is 0 in reports of earlier versions that did not count it.
	Due int64 `json:"due,omitempty"`
	// MeasuredMicroseconds is the time for which the window was open. It is less than the report's DurationMicroseconds
	// if the window closed early.
	MeasuredMicroseconds int64 `json:"measuredMicroseconds,omitempty"`
	// Sent counts transactions that were due in the window and sent. Unfinished counts the sent transactions that were
	// still in flight when the window closed.
	Sent       int64 `json:"sent"`
	Unfinished int64 `json:"unfinished"`
	// Clients is the number of active clients when the window closed, and BusyClients the number of active clients with a
	// transaction in flight. SilentMicroseconds is the time from the last answer that any client received until the window
	// closed. Only a commit or an abort is an answer.
	Clients            int64 `json:"clients,omitempty"`
	BusyClients        int64 `json:"busyClients,omitempty"`
	SilentMicroseconds int64 `json:"silentMicroseconds,omitempty"`
	// Silences are the times of at least MinSilence in the window in which transactions were in flight but none received
	// an answer. They are in order and do not overlap. If there are more than maxSilences, the shortest are omitted.
	Silences []Silence `json:"silences,omitempty"`
	// UnsentMicroseconds is the waiting time of the first transaction of the backlog when the window closed.
	UnsentMicroseconds int64 `json:"unsentMicroseconds,omitempty"`
	// CarriedIn counts transactions that were due before the window and committed in it. Only the throughput includes
	// them.
	CarriedIn int64 `json:"carriedIn"`
	// CarriedOver counts transactions that were due before the window and in flight when it closed. They are not part of
	// Due.
	CarriedOver int64 `json:"carriedOver,omitempty"`
	// Dropped counts transactions of an open loop that were due in the window while the queue was full. Backlog counts the
	// transactions in the queue when the window closed. Discarded counts the transactions in the queue at the end of
	// the warm-up.
	Dropped   int64 `json:"dropped,omitempty"`
	Backlog   int64 `json:"backlog,omitempty"`
	Discarded int64 `json:"discarded,omitempty"`
	// Retried counts the attempts in the window, except the first attempt of each transaction. CommittedAfter[i] is the
	// number of recorded transactions that committed with i+1 attempts; empty if transactions are not retried.
	Retried        int64   `json:"retried,omitempty"`
	CommittedAfter []int64 `json:"committedAfter,omitempty"`
	// Classified counts the sent transactions with a known class. MultiHome and MultiPartition count the classified
	// transactions that use several homes and several partitions. If the footprint was only a hint, the class is known
	// once the database commits or aborts the transaction in the window.
	Classified     int64 `json:"classified"`
	MultiHome      int64 `json:"multiHome"`
	MultiPartition int64 `json:"multiPartition"`
}

// add adds the window of other clients of the same region. The region is silent only while none of its clients receives
// an answer.
func (w *Window) add(o *Window) {
	// Time counts as measured only if every client measured it.
	w.MeasuredMicroseconds = min(w.MeasuredMicroseconds, o.MeasuredMicroseconds)
	w.Due += o.Due
	w.Sent += o.Sent
	w.Clients += o.Clients
	w.BusyClients += o.BusyClients
	w.SilentMicroseconds = min(w.SilentMicroseconds, o.SilentMicroseconds)
	w.Silences = commonSilences(w.Silences, o.Silences)
	w.UnsentMicroseconds = max(w.UnsentMicroseconds, o.UnsentMicroseconds)
	w.Unfinished += o.Unfinished
	w.CarriedIn += o.CarriedIn
	w.CarriedOver += o.CarriedOver
	w.Dropped += o.Dropped
	w.Backlog += o.Backlog
	w.Discarded += o.Discarded
	w.Retried += o.Retried
	w.CommittedAfter = addEach(w.CommittedAfter, o.CommittedAfter)
	w.Classified += o.Classified
	w.MultiHome += o.MultiHome
	w.MultiPartition += o.MultiPartition
}

// addEach returns the sums of two lists by index. It modifies neither.
func addEach(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := slices.Clone(a)
	for i, n := range b {
		sum[i] += n
	}
	return sum
}

// Failures counts transactions or attempts that did not commit, by reason and by cause. The cause is procedure,
// conflict, node, client, or none if the database does not report it.
type Failures struct {
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Causes  map[string]int64 `json:"causes,omitempty"`
}

// Add adds the failures of o to f.
func (f *Failures) Add(o Failures) {
	f.Reasons = addNamed(f.Reasons, o.Reasons)
	f.Causes = addNamed(f.Causes, o.Causes)
}

// addNamed returns the sums of counts by name. It modifies neither argument, but may return a.
func addNamed(a, b map[string]int64) map[string]int64 {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(b)
	for name, n := range a {
		sum[name] += n
	}
	return sum
}

// Series holds the transactions of a region, repetition, type, class and outcome that were due and finished in the
// window.
type Series struct {
	Region     string `json:"region"`
	Repetition int    `json:"repetition"`
	Type       string `json:"type"`
	Class      string `json:"class"`
	// Outcome is the outcome of the last attempt: committed, aborted, refused or unknown. Failures has the reasons of the
	// last three. Outcome is Unfinished or CarriedOver for transactions that were in flight when the window closed. Their
	// latency is the time that they had waited until then.
	Outcome string `json:"outcome"`
	Failures
	// Attempts counts the attempts of this type, class and outcome that finished in the window, regardless of when their
	// transactions were due.
	Attempts SeriesAttempts `json:"attempts"`
	// Latency is measured from the time at which the transaction was due. Service is measured from the time at which it
	// was sent; nil in a closed loop, where both are equal.
	Latency Distribution  `json:"latency"`
	Service *Distribution `json:"service,omitempty"`
}

// SeriesAttempts counts attempts with one outcome.
type SeriesAttempts struct {
	Count int64 `json:"count"`
	Failures
}

// Distribution holds latencies in microseconds: exact count, sum and maximum, and a histogram.
type Distribution struct {
	Count           int64  `json:"count"`
	SumMicroseconds int64  `json:"sumMicroseconds"`
	MaxMicroseconds int64  `json:"maxMicroseconds"`
	Histogram       string `json:"histogram,omitempty"`
	// Clipped is the number of latencies beyond the range of the histogram. Count and SumMicroseconds include them;
	// Histogram does not.
	Clipped int64 `json:"clipped,omitempty"`
}

func (d *Distribution) merge(o *Distribution) error {
	d.Count += o.Count
	d.SumMicroseconds += o.SumMicroseconds
	d.MaxMicroseconds = max(d.MaxMicroseconds, o.MaxMicroseconds)
	d.Clipped += o.Clipped
	if o.Histogram == "" || d.Histogram == "" {
		d.Histogram += o.Histogram
		return nil
	}
	a, err := DecodeHistogram(d.Histogram)
	if err != nil {
		return err
	}
	b, err := DecodeHistogram(o.Histogram)
	if err != nil {
		return err
	}
	if dropped := a.Merge(b); dropped > 0 {
		return fmt.Errorf("merging histograms would lose %d values", dropped)
	}
	d.Histogram = EncodeHistogram(a)
	return nil
}

// Second holds the counts of one second of a window.
type Second struct {
	Region     string `json:"region"`
	Repetition int    `json:"repetition"`
	// Second counts from 0, from the window's start.
	Second int `json:"second"`
	// Committed (including carried-in transactions), Aborted and Failed (refused or unknown) count the transactions that
	// ended in this second.
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
	// Attempts counts the attempts that ended in this second, regardless of when their transactions were due.
	Attempts int64 `json:"attempts,omitempty"`
	// Offered is the load of this second if spec.load has a curve. In an open loop, it is the number of
	// transactions that were due. In a closed loop, it is the total time of the active clients in milliseconds.
	Offered int64 `json:"offered,omitempty"`
	// Latency is a SecondHistogram of the committed transactions.
	Latency []byte `json:"latency,omitempty"`
	// Tenths splits the counts of the second into tenths; nil if tenths were not requested.
	Tenths *Tenths `json:"tenths,omitempty"`
}

// Tenths holds the counts of a second in each of its tenths.
type Tenths struct {
	Committed [10]int64 `json:"committed"`
	Aborted   [10]int64 `json:"aborted,omitzero"`
	Failed    [10]int64 `json:"failed,omitzero"`
}

// plus returns the sum of t and o, either of which may be nil.
func (t *Tenths) plus(o *Tenths) *Tenths {
	if t == nil || o == nil {
		return cmp.Or(t, o)
	}
	sum := *t
	for i := range o.Committed {
		sum.Committed[i] += o.Committed[i]
		sum.Aborted[i] += o.Aborted[i]
		sum.Failed[i] += o.Failed[i]
	}
	return &sum
}

// Unfinished is the outcome of transactions that were due in a window and in flight when the window closed. CarriedOver
// is the outcome of transactions that were due before the window opened and still in flight when it closed. They took
// longer than the whole window.
const (
	Unfinished  = "unfinished"
	CarriedOver = "carriedOver"
)

type seriesKey struct {
	region, typ, class, outcome string
	repetition                  int
}

func (s *Series) key() seriesKey {
	return seriesKey{s.Region, s.Type, s.Class, s.Outcome, s.Repetition}
}

// clone returns a copy of s that can be merged with another series without changing s.
func (s *Series) clone() Series {
	c := *s
	if s.Service != nil {
		d := *s.Service
		c.Service = &d
	}
	return c
}

// merge adds the transactions of o to s. Both series must have the same key.
func (s *Series) merge(o *Series) error {
	s.Failures.Add(o.Failures)
	s.Attempts.Count += o.Attempts.Count
	s.Attempts.Add(o.Attempts.Failures)
	if err := s.Latency.merge(&o.Latency); err != nil {
		return err
	}
	if o.Service == nil {
		return nil
	}
	if s.Service == nil {
		s.Service = &Distribution{}
	}
	return s.Service.merge(o.Service)
}

type placeKey struct {
	region             string
	repetition, second int
}

// sort sorts all lists, so that the result does not depend on the order of the reports.
func (r *Report) sort() {
	types := make(map[string]int, len(r.Types))
	for i, t := range r.Types {
		types[t] = i
	}
	slices.SortFunc(r.Workers, func(a, b LoadGenerator) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Index, b.Index))
	})
	slices.SortFunc(r.Windows, func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Repetition, b.Repetition))
	})
	slices.SortFunc(r.Series, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Repetition, b.Repetition),
			cmp.Compare(types[a.Type], types[b.Type]), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Outcome, b.Outcome))
	})
	slices.SortFunc(r.Timeline, func(a, b Second) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Repetition, b.Repetition), cmp.Compare(a.Second, b.Second))
	})
	slices.SortFunc(r.Incidents, func(a, b Incident) int { return cmp.Compare(a.Message, b.Message) })
}

// buildSeparator separates the versions in Build.
const buildSeparator = ", "

// MergeLedgers returns the sum of the ledgers of all load generators.
func MergeLedgers(reports []*Report) workload.Ledger {
	ledger := workload.Ledger{}
	for _, r := range reports {
		ledger.Merge(r.Ledger)
	}
	return ledger
}

// Merge merges reports of the same run without loss: it adds counts, and adds histograms bucket by bucket. It does not
// modify its arguments. It fails if the reports belong to different runs, or if two of them contain the CPU usage of
// the same worker.
func Merge(reports []*Report) (*Report, error) {
	if len(reports) == 0 {
		return nil, fmt.Errorf("there is no report to merge")
	}
	first := reports[0]
	m := &Report{
		Kind: ReportKind, Version: ReportVersion, Workload: first.Workload, Types: first.Types,
		Arrival: first.Arrival, DurationMicroseconds: first.DurationMicroseconds, Repetitions: first.Repetitions,
		Ledger: workload.Ledger{}, Shares: make([]workload.Count, len(first.Shares)),
	}
	for _, r := range reports {
		// Only cells of equal length can be added, so every report is converted to the coarsest resolution.
		m.Resolution = m.Resolution.coarser(r.Resolution)
	}
	builds := map[string]bool{}
	workers := map[placeKey]int{}
	windows := map[placeKey]int{}
	series := map[seriesKey]int{}
	seconds := map[placeKey]int{}
	for i, r := range reports {
		if r.Workload != m.Workload || !slices.Equal(r.Types, m.Types) || len(r.Shares) != len(m.Shares) || r.Arrival != m.Arrival ||
			r.DurationMicroseconds != m.DurationMicroseconds || r.Repetitions != m.Repetitions {
			return nil, fmt.Errorf("report %d is of another run: %s %s %d x %d us, not %s %s %d x %d us", i,
				r.Workload, r.Arrival, r.Repetitions, r.DurationMicroseconds,
				m.Workload, m.Arrival, m.Repetitions, m.DurationMicroseconds)
		}
		r, err := r.at(m.Resolution)
		if err != nil {
			return nil, err
		}
		// A report that was already merged may name several versions.
		for _, build := range strings.Split(r.Build, buildSeparator) {
			builds[build] = true
		}
		for _, w := range r.Workers {
			k := placeKey{region: w.Region, repetition: w.Index}
			j, ok := workers[k]
			if !ok {
				j = len(m.Workers)
				workers[k] = j
				m.Workers = append(m.Workers, LoadGenerator{Region: w.Region, Index: w.Index})
			}
			// The shards of a worker report separately, each for some of the worker's clients.
			m.Workers[j].Clients += w.Clients
			m.Workers[j].NodeRTTMicroseconds = max(m.Workers[j].NodeRTTMicroseconds, w.NodeRTTMicroseconds)
			if w.Driver != nil {
				// Only one shard of a worker reports its CPU usage, so a second value means that a report was submitted twice.
				if m.Workers[j].Driver != nil {
					return nil, fmt.Errorf("report %d is a second one of worker %d in %s", i, w.Index, w.Region)
				}
				d := *w.Driver
				m.Workers[j].Driver = &d
			}
		}
		for _, w := range r.Windows {
			k := placeKey{region: w.Region, repetition: w.Repetition}
			j, ok := windows[k]
			if !ok {
				windows[k] = len(m.Windows)
				m.Windows = append(m.Windows, w)
				continue
			}
			m.Windows[j].add(&w)
		}
		for _, s := range r.Series {
			j, ok := series[s.key()]
			if !ok {
				series[s.key()] = len(m.Series)
				m.Series = append(m.Series, s.clone())
				continue
			}
			if err := m.Series[j].merge(&s); err != nil {
				return nil, err
			}
		}
		for _, s := range r.Timeline {
			k := placeKey{s.Region, s.Repetition, s.Second}
			j, ok := seconds[k]
			if !ok {
				seconds[k] = len(m.Timeline)
				m.Timeline = append(m.Timeline, s)
				continue
			}
			t := &m.Timeline[j]
			t.Committed += s.Committed
			t.Aborted += s.Aborted
			t.Failed += s.Failed
			t.Attempts += s.Attempts
			t.Offered += s.Offered
			t.Tenths = t.Tenths.plus(s.Tenths)
			var h SecondHistogram
			if err := h.Add(t.Latency); err != nil {
				return nil, err
			}
			if err := h.Add(s.Latency); err != nil {
				return nil, err
			}
			t.Latency = h.AppendTo(nil)
		}
		m.Ledger.Merge(r.Ledger)
		for i, c := range r.Shares {
			m.Shares[i].Hits += c.Hits
			m.Shares[i].Of += c.Of
		}
		m.Late += r.Late
		m.Total.Committed += r.Total.Committed
		m.Total.Aborted += r.Total.Aborted
		m.Total.Failed += r.Total.Failed
		m.Misclassified += r.Misclassified
		if e := r.MisclassifiedExample; e != "" && (m.MisclassifiedExample == "" || e < m.MisclassifiedExample) {
			m.MisclassifiedExample = e // the smallest one, so that the result does not depend on the order of the reports
		}
		m.Incidents = append(m.Incidents, r.Incidents...)
	}
	m.Build = strings.Join(slices.Sorted(maps.Keys(builds)), buildSeparator)
	m.sort()
	return m, nil
}

// Cut restricts the report to its first repetitions and sets the length of their windows. It drops the data of later
// repetitions.
func (r *Report) Cut(repetitions int, durationMicroseconds int64) {
	r.Repetitions, r.DurationMicroseconds = repetitions, durationMicroseconds
	r.Windows = slices.DeleteFunc(r.Windows, func(w Window) bool { return w.Repetition > repetitions })
	r.Series = slices.DeleteFunc(r.Series, func(s Series) bool { return s.Repetition > repetitions })
	r.Timeline = slices.DeleteFunc(r.Timeline, func(s Second) bool { return s.Repetition > repetitions })
}

// DecodeReport decodes the output of Encode and checks that it can be merged. It returns the number of JSON values, and
// an error if there are more than most. The limit matters because anyone with the key can send a report. A decoded
// value needs up to a hundred times the memory of its text.
func DecodeReport(b []byte, most int) (r *Report, values int, err error) {
	text, err := compress.Unpack(b)
	if err != nil {
		return nil, 0, fmt.Errorf("worker report: %w", err)
	}
	// Counting commas bounds the number of JSON values before memory is allocated for them.
	if values = bytes.Count(text, []byte{','}); values > most {
		return nil, values, fmt.Errorf("worker report: it has %d values, more than the %d that are read", values, most)
	}
	r, err = ParseReport(text)
	return r, values, err
}

// ParseReport decodes a report from JSON and checks that it can be merged.
func ParseReport(text []byte) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("worker report: %w", err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("worker report: %w", err)
	}
	return r, nil
}

func (r *Report) validate() error {
	if r.Kind != ReportKind || r.Version != ReportVersion {
		return fmt.Errorf("it is a %q of version %d, not a %s of version %d: run workers and operator of the same version",
			r.Kind, r.Version, ReportKind, ReportVersion)
	}
	if r.DurationMicroseconds <= 0 || r.Repetitions < 1 {
		return fmt.Errorf("%d repetitions of %d us are no measurement", r.Repetitions, r.DurationMicroseconds)
	}
	for i, w := range r.Windows {
		if w.Repetition < 1 || w.Repetition > r.Repetitions {
			return fmt.Errorf("windows[%d].repetition: %d is not between 1 and %d", i, w.Repetition, r.Repetitions)
		}
	}
	if err := r.Resolution.valid(); err != nil {
		return err
	}
	for i := range r.Series {
		s := &r.Series[i]
		// Series without type and class exist only if Resolution.Apart is set. Each of them belongs to one repetition.
		single := r.Resolution.Apart && s.Type == "" && s.Class == ""
		switch {
		// Series of types and classes cover all repetitions.
		case r.Resolution.Apart && !single && s.Repetition == 0:
		case r.Resolution.Apart != single, s.Repetition < 1 || s.Repetition > r.Repetitions:
			return fmt.Errorf("series[%d].repetition: %d is not between 1 and %d", i, s.Repetition, r.Repetitions)
		}
		switch {
		case single:
		case !slices.Contains(r.Types, s.Type):
			return fmt.Errorf("series[%d].type: %q is not one of %v", i, s.Type, r.Types)
		case !slices.Contains(classes, s.Class):
			return fmt.Errorf("series[%d].class: %q is not one of %v", i, s.Class, classes)
		}
		switch {
		case !slices.Contains(outcomes, s.Outcome):
			return fmt.Errorf("series[%d].outcome: %q is not one of %v", i, s.Outcome, outcomes)
		// Every finished transaction has at least one finished attempt. A transaction in flight may have none yet.
		case s.Outcome != Unfinished && s.Outcome != CarriedOver && s.Attempts.Count < s.Latency.Count:
			return fmt.Errorf("series[%d].attempts: %d attempts are fewer than their %d transactions", i, s.Attempts.Count, s.Latency.Count)
		}
		for _, d := range []*Distribution{&s.Latency, s.Service} {
			if d == nil {
				continue
			}
			h, err := DecodeHistogram(d.Histogram)
			if err != nil {
				return fmt.Errorf("series[%d]: %w", i, err)
			}
			// Percentiles come from the histogram and means from count and sum, so all three must describe the same
			// transactions.
			if h.TotalCount()+d.Clipped != d.Count || d.Clipped < 0 || d.SumMicroseconds < 0 || d.MaxMicroseconds < 0 {
				return fmt.Errorf("series[%d]: the histogram holds %d values, not %d", i, h.TotalCount(), d.Count-d.Clipped)
			}
		}
	}
	for i, s := range r.Timeline {
		if s.Repetition < 1 || s.Repetition > r.Repetitions || s.Second < 0 {
			return fmt.Errorf("timeline[%d]: repetition %d, second %d is out of range", i, s.Repetition, s.Second)
		}
		var h SecondHistogram
		if err := h.Add(s.Latency); err != nil {
			return fmt.Errorf("timeline[%d]: %w", i, err)
		}
	}
	return nil
}

var (
	classes = func() (c []string) {
		for k := range txn.NumClasses {
			c = append(c, k.String())
		}
		return c
	}()
	outcomes = []string{txn.Committed.String(), txn.Aborted.String(), txn.Refused.String(), txn.Unknown.String(), Unfinished, CarriedOver}
)
