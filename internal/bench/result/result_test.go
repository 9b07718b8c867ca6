package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/admin"
)

var sixTypes = []string{"lookup", "balance", "writeCheck", "depositChecking", "transactSavings", "amalgamate"}

func empty(types ...string) *Report {
	return &Report{Kind: ReportKind, Version: ReportVersion, Workload: "smallbank", Types: types, Arrival: "Closed",
		DurationMicroseconds: 10e6, Repetitions: 1, Ledger: workload.Ledger{}}
}

// TestMergeIsLossless records the same values in one report and in many, and compares the results.
func TestMergeIsLossless(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const parts = 5
	var whole tally
	var second SecondHistogram
	tallies := make([]tally, parts)
	seconds := make([]SecondHistogram, parts)
	for i := range 20_000 {
		one := latencies(rng, 1)
		whole.add(txn.Committed.String(), &Distribution{Count: 1, SumMicroseconds: one.sum, MaxMicroseconds: one.max}, one.histogram)
		tallies[i%parts].add(txn.Committed.String(), &Distribution{Count: 1, SumMicroseconds: one.sum, MaxMicroseconds: one.max}, one.histogram)
		second.Record(one.max)
		seconds[i%parts].Record(one.max)
	}
	report := func(d Distribution, s SecondHistogram, n int64) *Report {
		r := empty("balance")
		failures := func(n int64) Failures {
			return Failures{Reasons: map[string]int64{"deadlock": n}, Causes: map[string]int64{"conflict": n}}
		}
		r.Series = []Series{
			{Region: "a", Repetition: 1, Type: "balance", Class: "SH-SP", Outcome: "aborted", Failures: failures(n), Attempts: SeriesAttempts{Count: 3 * n, Failures: failures(3 * n)}, Latency: d},
			{Region: "a", Repetition: 1, Type: "balance", Class: "SH-SP", Outcome: "committed", Attempts: SeriesAttempts{Count: n}, Latency: d, Service: &d},
		}
		r.Timeline = []Second{{Region: "a", Repetition: 1, Second: 3, Committed: n, Aborted: n, Attempts: 4 * n, Latency: s.AppendTo(nil)}}
		r.Windows = []Window{{Region: "a", Repetition: 1, Sent: n, Retried: 2 * n, CommittedAfter: []int64{n, 0, 2 * n}, Classified: n}}
		r.Workers = []LoadGenerator{{Region: "a", Clients: int(n)}}
		r.Ledger["x"] = workload.Interval{Low: n, High: 2 * n}
		r.Shares = []workload.Count{{Hits: n, Of: 3 * n}, {Of: n}}
		r.Total.Committed = n
		r.Misclassified, r.MisclassifiedExample = n, "transaction 1.1"
		return r
	}
	var reports []*Report
	for i := range parts {
		reports = append(reports, report(tallies[i].distribution(), seconds[i], tallies[i].count))
	}
	want := report(whole.distribution(), second, whole.count)
	for range 3 {
		rng.Shuffle(parts, func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		left, err := Merge(reports[:2])
		if err != nil {
			t.Fatal(err)
		}
		got, err := Merge(append([]*Report{left}, reports[2:]...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	other := empty("balance")
	other.Repetitions = 2
	if _, err := Merge([]*Report{want, other}); err == nil {
		t.Error("reports of different runs are merged")
	}
	if _, err := Merge(nil); err == nil {
		t.Error("no report is merged")
	}
}

func TestSecondHistogram(t *testing.T) {
	for us := int64(0); us <= HistogramHighest; us = us + 1 + us/50 {
		i := secondBucket(us)
		if v := secondValue(i); i >= secondBuckets || float64(max(v-us, us-v)) > 0.032*float64(us)+0.5 {
			t.Fatalf("%d us is shown as %d us", us, v)
		}
	}
	var h SecondHistogram
	for i := range int64(1000) {
		h.Record(i * 100)
	}
	if p := h.Percentile(50, 0).Least(); p < 48_000 || p > 52_000 {
		t.Errorf("p50 is %d", p)
	}
	if p := (&SecondHistogram{}).Percentile(99, 0); p != v1alpha1.Observed(0) {
		t.Errorf("the percentile of nothing is %v", p)
	}
}

// large returns reports of a run of the largest size that must fit into a ConfigMap.
func large(regions []string, repetitions, seconds int) []*Report {
	rng := rand.New(rand.NewPCG(1, 3))
	var out []*Report
	var pool []Distribution
	for range 40 {
		d := latencies(rng, 20_000)
		pool = append(pool, d.distribution())
	}
	for _, region := range regions {
		r := empty(sixTypes...)
		r.Repetitions, r.DurationMicroseconds = repetitions, int64(seconds)*1e6
		r.Workers = []LoadGenerator{{Region: region, Clients: 100}}
		for rep := 1; rep <= repetitions; rep++ {
			var sent int64
			for _, typ := range sixTypes {
				for class := range txn.NumClasses {
					if typ == "lookup" && class != 0 {
						continue
					}
					d := pool[rng.IntN(len(pool))]
					sent += d.Count
					r.Series = append(r.Series, Series{Region: region, Repetition: rep, Type: typ, Class: class.String(), Outcome: "committed", Attempts: SeriesAttempts{Count: d.Count}, Latency: d})
				}
			}
			for s := range seconds {
				var h SecondHistogram
				for range 1000 {
					h.Record(int64(2000 + rng.ExpFloat64()*float64(1000+99_000*(s%2))))
				}
				r.Timeline = append(r.Timeline, Second{Region: region, Repetition: rep, Second: s, Committed: 1000, Attempts: 1100 + rng.Int64N(100), Latency: h.AppendTo(nil)})
			}
			r.Windows = append(r.Windows, Window{Region: region, Repetition: rep, Sent: sent})
			r.Total.Committed += sent
		}
		out = append(out, r)
	}
	return out
}

func TestSizes(t *testing.T) {
	regions := []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}
	reports := large(regions, 3, 600)
	b, err := reports[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, values, err := DecodeReport(b, 50_000)
	if err != nil {
		t.Errorf("a worker's report is not read: %v", err)
	}
	if _, _, err := DecodeReport(b, values-1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it has %d values, more than the %d", values, values-1)) {
		t.Errorf("%v, want that it has too many values", err)
	}
	t.Logf("a worker's report: %d bytes, %d values", len(b), values)
	if len(b) > 600_000 {
		t.Errorf("a worker's report has %d bytes, which is not well under a ConfigMap's 900 kB", len(b))
	}
	d, err := Build(inputs(reports, regions))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := compress.JSON(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the document: %d bytes", len(packed))
	if len(packed) > 700_000 {
		t.Errorf("the document has %d bytes, which is not well under a ConfigMap's 900 kB", len(packed))
	}
	text, err := compress.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(text)
	if err != nil || !cmp.Equal(back.Summary, d.Summary) {
		t.Errorf("unpacked: %v", err)
	}
}

func inputs(reports []*Report, regions []string) Inputs {
	n := len(regions)
	links := make([][]geo.Link, n)
	for i := range links {
		links[i] = make([]geo.Link, n)
		for j := range links[i] {
			links[i][j].Delay = 200 * time.Microsecond
			if i != j {
				links[i][j].Delay = 50 * time.Millisecond
			}
		}
	}
	return Inputs{Name: "quickstart", Engine: "calvin", Seed: 1, Measured: Measured{Simulated: true, Reports: reports},
		Topology: &geo.Topology{Regions: regions, Partitions: 2, Replicas: 1, Links: links}}
}

// small returns the inputs of a run with two regions. Transactions in region b are ten times slower, and some of them
// abort.
func small() Inputs {
	a, b := empty("balance", "amalgamate"), empty("balance", "amalgamate")
	add := func(r *Report, region, typ string, class txn.Class, outcome string, n int, scale int64, reasons map[string]int64) {
		var d tally
		d.histogram = NewHistogram()
		for i := range n {
			v := scale * int64(1000+i%100)
			_ = d.histogram.RecordValue(v)
			d.count++
			d.sum += v
			d.max = max(d.max, v)
		}
		f := Failures{Reasons: reasons}
		r.Series = append(r.Series, Series{Region: region, Repetition: 1, Type: typ, Class: class.String(), Outcome: outcome, Latency: d.distribution(), Failures: f,
			Attempts: SeriesAttempts{Count: d.count, Failures: f}})
	}
	add(a, "a", "balance", 0, "committed", 8000, 1, nil)
	add(a, "a", "balance", 2, "committed", 1000, 10, nil)
	add(a, "a", "amalgamate", 0, "committed", 990, 2, nil)
	add(b, "b", "balance", 0, "committed", 900, 10, nil)
	add(b, "b", "balance", 0, "aborted", 100, 10, map[string]int64{"deadlock": 60, "conflict": 40})
	add(b, "b", "balance", 0, "unknown", 7, 100, map[string]int64{"timeout": 5, "connection": 2})
	// Add the attempts of the 10 transactions that region a carried in, and 200 retried attempts in region b that ended
	// with deadlocks.
	a.Series[0].Attempts.Count += 10
	b.Series[1].Causes = map[string]int64{"conflict": 100}
	b.Series[1].Attempts = SeriesAttempts{Count: 300, Failures: Failures{
		Reasons: map[string]int64{"deadlock": 260, "conflict": 40}, Causes: map[string]int64{"conflict": 300}}}
	b.Series[2].Causes = map[string]int64{"client": 5, "node": 2}
	b.Series[2].Attempts.Causes = b.Series[2].Causes
	a.Windows = []Window{{Region: "a", Repetition: 1, Sent: 10_000, CarriedIn: 10, Unfinished: 10, Classified: 10_000, MultiHome: 1000, MultiPartition: 40,
		CommittedAfter: []int64{9990, 0, 0}}}
	b.Windows = []Window{{Region: "b", Repetition: 1, Sent: 1007, Classified: 1007, Retried: 201, CommittedAfter: []int64{750, 100, 50}}}
	a.Shares = []workload.Count{{Hits: 1000, Of: 4000}, {Hits: 40, Of: 4000}}
	b.Shares = make([]workload.Count, 2)
	a.Workers = []LoadGenerator{{Region: "a", Clients: 10}}
	b.Workers = []LoadGenerator{{Region: "b", Clients: 10}}
	a.Total.Committed, b.Total.Committed = 11_000, 1000
	in := inputs([]*Report{a, b}, []string{"a", "b"})
	in.Shares = workload.LocalityShares("final phases", 25, 1)
	in.Checks = []workload.Check{{Name: "smallbank-total", Passed: true, Message: "initial 5 and committed +3 make 8, and 2 of 2 copies hold it"}}
	status := func(node string, id int, bytes int64) admin.Status {
		return admin.Status{Node: node, ID: id, Process: "p", Incarnation: "i", Links: []admin.LinkStatus{
			{To: "a", Traffic: geo.Traffic{Bytes: bytes, Segments: bytes / 1000}}, {To: "b", Traffic: geo.Traffic{Bytes: 2 * bytes, Segments: bytes / 500}}},
			Requests: geo.Traffic{Bytes: bytes / 10, Messages: bytes / 400, Segments: bytes / 400}, Answers: geo.Traffic{Bytes: bytes / 20, Messages: bytes / 400, Segments: bytes / 400}}
	}
	for id, node := range []string{"a/0/0", "a/1/0", "b/0/0", "b/1/0"} {
		in.Before = append(in.Before, status(node, id, 1000))
		in.After = append(in.After, status(node, id, 1_201_000))
	}
	for _, l := range [][2]string{{"a", "b"}, {"b", "a"}} {
		in.RTTs = append(in.RTTs, MeasuredRTT{From: l[0], To: l[1], RTT: RTT{100_300, 101_000}, Samples: 50})
	}
	for _, region := range in.Topology.Regions {
		in.RTTs = append(in.RTTs, MeasuredRTT{From: region, To: region, RTT: RTT{400, 500}, Samples: 50})
	}
	return in
}

func TestBuild(t *testing.T) {
	d, err := Build(evident(small()))
	if err != nil {
		t.Fatal(err)
	}
	s := d.Summary
	if d.Verdict != v1alpha1.VerdictPassed || len(d.Reasons) > 0 {
		t.Errorf("%s: %+v", d.Verdict, d.Reasons)
	}
	for what, c := range map[string][2]int64{
		"committed":  {s.Committed, 10_890},
		"aborted":    {s.Aborted, 100},
		"unknown":    {s.Unknown, 7},
		"timeouts":   {s.Timeouts, 5},
		"throughput": {s.ThroughputPerSecond, 1090}, // 10890 and 10 carried in, over 10 s
		"a":          {d.Regions[0].ThroughputPerSecond, 1000},
		"abort ppm":  {s.AbortPPM, 9093}, // 100 of 10997
		"multi-home": {s.Realised.Shares[0].RealisedPPM, 250_000},
		"mh of all":  {s.Realised.AllMultiHomePPM, 90_851},
		// 4 nodes x (1.2 MB to a + 2.4 MB to b), over 12000 transactions.
		"bytes":       {s.BytesPerTransaction, 1200},
		"cross bytes": {s.CrossRegionBytesPerTransaction, 600},
		// 4 x 0.768 USD/h for 10 s / 10900 x 10^6, and 7.2 MB / 12000 x 10^6 at 0.02 USD/GB.
		"machines": {int64(s.Cost.MachinesPerMillionTransactions), 782_875},
		"transfer": {int64(s.Cost.TransferPerMillionTransactions), 12_000},
		// Four nodes receive 120 kB each from clients and send 60 kB to them. Each of 4 x (1200 + 2400 + 2 x 3000) segments
		// adds 54 B.
		"requests":    {s.Wire.RequestBytesPerTransaction, 40},
		"answers":     {s.Wire.AnswerBytesPerTransaction, 20},
		"headers":     {s.Wire.HeaderBytesPerTransaction, 173},
		"on the wire": {s.Wire.BytesPerTransaction, 1433},
		"sent":        {s.Wire.SentBytesPerTransaction, 1339}, // without requests and their 54 B
		// 4 x 0.768 USD, and 1339 B (1338.8 before rounding) x 1090/s x 3600 s at 0.02 USD/GB.
		"an hour":                  {int64(s.Wire.CostPerHour), 3_177_069},
		"a-b bytes":                {d.Links[1].Bytes, 4_800_000},
		"declared":                 {d.Links[1].DeclaredRTTMicroseconds, 100_000},
		"timeline length":          {int64(len(d.Timeline)), 10},
		"rows":                     {int64(len(d.Transactions)), 4},
		"aborts by reason":         {d.Transactions[1].Aborted["deadlock"], 60},
		"aborts by cause":          {d.Transactions[1].Causes["conflict"], 100},
		"failures by cause":        {s.Causes["conflict"] + s.Causes["client"]*1000 + s.Causes["node"]*1_000_000, 2_005_100},
		"attempts that committed":  {s.Attempts.Committed, 10_900}, // 10890 and 10 carried in
		"attempts aborted":         {s.Attempts.Aborted, 300},
		"attempts unknown":         {s.Attempts.Unknown, 7},
		"attempts timed out":       {s.Attempts.Timeouts, 5},
		"attempts per second":      {s.Attempts.PerSecond, 1121}, // 11207 in 10 s, rounded half up
		"attempts abort ppm":       {s.Attempts.AbortPPM, 26_769},
		"attempts by cause":        {s.Attempts.Causes["conflict"], 300},
		"attempts by reason":       {d.Transactions[1].Attempts.Aborted["deadlock"], 260},
		"attempts of b":            {d.Regions[1].Attempts.PerSecond, 121},
		"attempts of a repetition": {d.Repetitions[0].Attempts.Aborted, 300},
		"retried":                  {s.Attempts.Retried, 201},
		"committed at once":        {s.Attempts.CommittedAfter[0], 10_740},
		"committed after three":    {s.Attempts.CommittedAfter[2], 50},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", what, c[0], c[1])
		}
	}
	if l := d.Regions[0].LatencyMicroseconds; l.Max != v1alpha1.Observed(10_990) || l.P50.Least() < 1040 || l.P50.Least() > 1070 || l.P99.Least() < 10_800 {
		t.Errorf("region a: %+v", l)
	}
	// The same inputs must yield the same bytes, whatever the order of the reports.
	in := small()
	in.Reports[0], in.Reports[1] = in.Reports[1], in.Reports[0]
	e, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	var x, y bytes.Buffer
	if err := d.Write(&x); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(&y); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.String(), y.String()); diff != "" {
		t.Error(diff)
	}
	back, err := Parse(x.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	if err := back.Write(&z); err != nil || z.String() != x.String() {
		t.Errorf("reading and writing a document changes it: %v %s", err, cmp.Diff(x.String(), z.String()))
	}
	for _, bad := range []string{"", "[]", `{"kind": "RunResult"}`, `{"apiVersion": "geobench.dev/v1alpha1", "kind": "BenchmarkRun"}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is read as a result", bad)
		}
	}
}

// TestTpmC checks the new orders per minute, and that other workloads have no tpmC.
func TestTpmC(t *testing.T) {
	in := small()
	for _, r := range in.Reports {
		r.Types[0] = "newOrder"
		for i := range r.Series {
			if r.Series[i].Type == "balance" {
				r.Series[i].Type = "newOrder"
			}
		}
	}
	for typ, want := range map[string]string{"newOrder": "tpmC 59400:", "": ""} { // 9900 in 10 s
		in.TpmCType = typ
		d, err := Build(evident(in))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Table(&b, d, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "tpmC") != (want != "") {
			t.Errorf("of type %q: %s", typ, b.String())
		}
	}
}

// TestRepetitionsByRegion compares the figures of a region in one window with its figures in all windows.
func TestRepetitionsByRegion(t *testing.T) {
	in := small()
	in.Reports = large([]string{"a", "b"}, 2, 10)
	in.Shares, in.Objectives = nil, nil
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range d.Regions {
		var sum int64
		for _, repetition := range d.Repetitions {
			got := repetition.Regions[i]
			sum += got.ThroughputPerSecond
			if got.Name != r.Name || got.LatencyMicroseconds.P50.Least() == 0 || got.LatencyMicroseconds.Max.Least() > r.LatencyMicroseconds.Max.Least() {
				t.Errorf("repetition %d: %+v", repetition.Index, got)
			}
		}
		if off := sum/2 - r.ThroughputPerSecond; off < -1 || off > 1 {
			t.Errorf("%s: the windows' throughputs add up to %d, the run's is %d", r.Name, sum, r.ThroughputPerSecond)
		}
	}
}

// TestMergeNamesAllVersions checks that the document names all versions of workers, in any order of the reports,
// because it sums the figures of different programs.
func TestMergeNamesAllVersions(t *testing.T) {
	in := small()
	builds := []string{"v2", "v1", "v2"}
	for i, r := range in.Reports {
		r.Build = builds[i%len(builds)]
	}
	for range 2 {
		m, err := Merge(in.Reports)
		if err != nil {
			t.Fatal(err)
		}
		if m.Build != "v1, v2" {
			t.Errorf("the build is %q, not v1, v2", m.Build)
		}
		slices.Reverse(in.Reports)
	}
}

// TestMergeRefusesNamesakes checks that two workers with the same name are refused, because the later report would hide
// the CPU usage of the other worker.
func TestMergeRefusesNamesakes(t *testing.T) {
	in := small()
	for i, cpu := range []int64{950, 10} {
		w := &in.Reports[i].Workers[0]
		w.Region, w.Index, w.Driver = "a", 0, &Driver{CPUMicroseconds: cpu, MeasuredMicroseconds: 1000, AllowanceMilliCPU: 1000}
	}
	if _, err := Merge(in.Reports); err == nil || !strings.Contains(err.Error(), "report 1 is a second one of worker 0 in a") {
		t.Errorf("%v", err)
	}
}

// late returns a load generator whose lateness exceeds the limits for the latencies of report i's region by median and
// tail microseconds.
func late(in *Inputs, i int, median, tail int64) *Driver {
	clean := *in
	clean.Driver = nil
	d, err := Build(clean)
	if err != nil {
		panic(err)
	}
	for _, r := range d.Regions {
		if r.Name == in.Reports[i].Workers[0].Region {
			return &Driver{LateMicroseconds: &Lateness{P50: d.committedLatency(r.Name).P50*5/100 + 1000 + median, P99: d.committedLatency(r.Name).P99*50/100 + 5000 + tail}}
		}
	}
	panic("there is no such region")
}

// TestLateTailIsNoted checks that lateness only in the tail is noted, and that the run remains valid.
func TestLateTailIsNoted(t *testing.T) {
	in := small()
	in.Simulated = false
	in.Reports[1].Workers[0].Driver = late(&in, 1, -1000, 0)
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	late := d.Workers[1].LateMicroseconds
	want := fmt.Sprintf("worker 0 in %s was late for what was due by %s in the 99th percentile", d.Workers[1].Region, formatMicroseconds(late.P99))
	if d.Verdict != v1alpha1.VerdictPassed || len(d.Notes) != 1 || !strings.HasPrefix(d.Notes[0], want) {
		t.Errorf("%s %v, notes %q; want %q", d.Verdict, d.Reasons, d.Notes, want)
	}
	in.Reports[1].Workers[0].Driver.LateMicroseconds.P99 = 1000
	if d, err = Build(evident(in)); err != nil || len(d.Notes) > 0 {
		t.Errorf("%v, notes %q", err, d.Notes)
	}
}

func TestVerdict(t *testing.T) {
	bound := func(s string) *v1alpha1.Bound { b := intstr.Parse(s); return &b }
	jittery := func(in *Inputs) {
		in.Topology.Links[0][1].Jitter, in.Topology.Links[1][0].Jitter = 5*time.Millisecond, 5*time.Millisecond
	}
	for name, c := range map[string]struct {
		change  func(*Inputs)
		verdict v1alpha1.Verdict
		reason  string
	}{
		"all well":           {func(*Inputs) {}, "Passed", ""},
		"objective held":     {func(in *Inputs) { in.Objectives = []v1alpha1.Objective{{Metric: "throughput", Min: bound("1090")}} }, "Passed", ""},
		"objective missed":   {func(in *Inputs) { in.Objectives = []v1alpha1.Objective{{Metric: "throughput", Min: bound("1091")}} }, "Failed", ReasonObjectiveMissed},
		"check failed":       {func(in *Inputs) { in.Checks[0].Passed = false }, "Failed", ReasonCheckFailed},
		"wrong leads":        {func(in *Inputs) { in.Checks[0].Passed = false; in.Shares[0].ConfiguredPPM = 500_000 }, "Invalid", ReasonCheckFailed},
		"share in noise":     {func(in *Inputs) { in.Shares[0].ConfiguredPPM = 270_000 }, "Passed", ""}, // 25% of 4000: 1 point + 3 x 0.70
		"multi-home off":     {func(in *Inputs) { in.Shares[0].ConfiguredPPM = 290_000 }, "Invalid", ReasonShareMismatch},
		"partitions off":     {func(in *Inputs) { in.Shares[1].ConfiguredPPM = 40_000 }, "Invalid", ReasonShareMismatch},
		"faster network":     {func(in *Inputs) { in.RTTs[0].P50 = 93_999 }, "Invalid", ReasonNetworkNotVerified},
		"wrong network":      {func(in *Inputs) { in.RTTs[0].P50 = 106_001 }, "Invalid", ReasonNetworkNotVerified},
		"network in bounds":  {func(in *Inputs) { in.RTTs[0].P50 = 106_000 }, "Passed", ""},
		"chance with jitter": {func(in *Inputs) { jittery(in); in.RTTs[0].P50 = 108_000 }, "Passed", ""},
		"more than chance":   {func(in *Inputs) { jittery(in); in.RTTs[0].P50 = 113_000 }, "Invalid", ReasonNetworkNotVerified},
		"unmeasured":         {func(in *Inputs) { in.Simulated, in.RTTs = false, nil }, "Invalid", ReasonNetworkNotVerified},
		"driver-bound": {func(in *Inputs) {
			in.Simulated, in.Driver = false, &Driver{CPUMicroseconds: 81, MeasuredMicroseconds: 100, AllowanceMilliCPU: 1000}
		}, "Invalid", ReasonDriverBound},
		"busy driver": {func(in *Inputs) {
			in.Simulated, in.Driver = false, &Driver{CPUMicroseconds: 80, MeasuredMicroseconds: 100, AllowanceMilliCPU: 1000}
		}, "Passed", ""},
		"bound worker": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = &Driver{CPUMicroseconds: 900, MeasuredMicroseconds: 500, AllowanceMilliCPU: 2000}
		}, "Invalid", ReasonDriverBound},
		"worker bound in one window": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = &Driver{CPUMicroseconds: 400, MeasuredMicroseconds: 1000, AllowanceMilliCPU: 1000, BusiestPPM: 800_001}
		}, "Invalid", ReasonDriverBound},
		"worker throttled": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = &Driver{CPUMicroseconds: 400, MeasuredMicroseconds: 1000, AllowanceMilliCPU: 1000, Periods: 1000, ThrottledPeriods: 51}
		}, "Invalid", ReasonDriverBound},
		"worker hardly throttled": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = &Driver{CPUMicroseconds: 400, MeasuredMicroseconds: 1000, AllowanceMilliCPU: 1000, Periods: 1000, ThrottledPeriods: 50}
		}, "Passed", ""},
		"worker late": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = late(in, 1, 1, 0)
		}, "Invalid", ReasonDriverBound},
		"worker hardly late": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = late(in, 1, 0, 0)
		}, "Passed", ""},
		"worker late for the slowest": {func(in *Inputs) {
			in.Simulated = false
			in.Reports[1].Workers[0].Driver = late(in, 1, 0, 1)
		}, "Invalid", ReasonDriverBound},
		// A 99th percentile that is a lower bound of 10 s would allow a lateness of 5 s. The lateness is 2 s.
		"late where much is unanswered": {func(in *Inputs) {
			b := in.Reports[1]
			b.Series[2].Latency = Distribution{Count: 90, SumMicroseconds: 900e6, MaxMicroseconds: 10e6, Histogram: b.Series[2].Latency.Histogram}
			h := NewHistogram()
			_ = h.RecordValues(10e6, 90)
			b.Series[2].Latency.Histogram = EncodeHistogram(h)
			b.Series[2].Attempts.Count = 90
			in.Simulated, in.Driver = false, &Driver{MeasuredMicroseconds: 100, AllowanceMilliCPU: 1000, LateMicroseconds: &Lateness{P99: 2e6, Max: 2e6}}
		}, "Invalid", ReasonDriverBound},
		"process late":             {func(in *Inputs) { in.Simulated, in.Driver = false, late(in, 0, 1, 0) }, "Invalid", ReasonDriverBound},
		"a simulation is not late": {func(in *Inputs) { in.Driver = late(in, 0, 1, 1) }, "Passed", ""},
		"node restarted":           {func(in *Inputs) { in.After[2].Process = "q" }, "Invalid", ReasonNodeRestarted},
		"node replaced by a fault": {func(in *Inputs) {
			node := in.After[2].Node
			in.After[2].Process = "q"
			in.Faults = []Fault{over(Fault{Name: "f", Kind: "containerKill", Restarted: []string{node}, Replaced: []string{node}})}
			in.Reports[0].Incidents = []Incident{{Node: node, Reason: Reason{ReasonNodeRestarted, "another process"}}}
		}, "Passed", ""},
		"another node than a fault has replaced": {func(in *Inputs) {
			in.After[2].Process = "q"
			in.Faults = []Fault{{Name: "f", Kind: "containerKill", Restarted: []string{in.After[1].Node}, Replaced: []string{in.After[1].Node}}}
			in.Faults[0] = over(in.Faults[0])
		}, "Invalid", ReasonNodeRestarted},
		"node gone": {func(in *Inputs) { in.After = in.After[:3] }, "Invalid", ReasonNodeRestarted},
		"worker lost": {func(in *Inputs) {
			in.Reports[0].Incidents = []Incident{{Reason: Reason{ReasonWorkerLost, "a worker in a stopped early"}}}
		}, "Invalid", ReasonWorkerLost},
		"incident": {func(in *Inputs) { in.Incidents = []Reason{{"Something", "happened"}} }, "Invalid", "Something"},
		"wrong class": {func(in *Inputs) {
			in.Reports[1].Misclassified, in.Reports[1].MisclassifiedExample = 1, "transaction 1.1 was answered with class SH-SP; the rows that it has used make it MH-SP"
		}, "Invalid", ReasonClassMismatch},
		"undeclared rows": {func(in *Inputs) {
			in.Reports[1].Series[1].Attempts.Reasons = map[string]int64{"deadlock": 259, "undeclared-access": 1, "conflict": 40}
		}, "Invalid", ReasonWorkloadBroken},
		"broken procedure": {func(in *Inputs) {
			in.Reports[1].Series[1].Attempts.Reasons = map[string]int64{"procedure-error": 300}
		}, "Invalid", ReasonWorkloadBroken},
		"nothing happened": {func(in *Inputs) {
			for _, r := range in.Reports {
				r.Series = nil
			}
		}, "Invalid", ReasonNoTransactions},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			c.change(&in)
			d, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(d.Reasons) > 0 {
				got = d.Reasons[0].Reason
			}
			if d.Verdict != c.verdict || got != c.reason {
				t.Errorf("%s %+v, want %s %s", d.Verdict, d.Reasons, c.verdict, c.reason)
			}
		})
	}
}

// TestOneUnknownOfMillions checks that an objective that allows no unknown outcome fails with one among millions,
// although its share rounds to 0 ppm.
func TestOneUnknownOfMillions(t *testing.T) {
	none := intstr.FromInt32(0)
	o := []v1alpha1.Objective{{Metric: v1alpha1.MetricUnknownPPM, Max: &none}}
	for unknown, want := range map[int64]int64{0: 0, 1: 1, 9: 1, 31: 3} {
		f := figures{Counts: Counts{Committed: 10_000_000 - unknown, Unknown: unknown}}
		got := evaluate(o, new(Document).measures(o, []figures{f}, &Report{}))
		if got[0].Value.Least() != want || got[0].Holds != (unknown == 0) {
			t.Errorf("%d of 10,000,000 are unknown: %+v", unknown, got[0])
		}
	}
}

func TestObjectives(t *testing.T) {
	r, err := Merge(small().Reports)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *v1alpha1.Bound { b := intstr.FromString(s); return &b }
	number := func(n int) *v1alpha1.Bound { b := intstr.FromInt(n); return &b }
	for name, c := range map[string]struct {
		o    v1alpha1.Objective
		want Objective
	}{
		"all":         {v1alpha1.Objective{Metric: "throughput", Min: number(1000)}, Objective{Name: "throughput >= 1000", Measured: "1090/s", Value: v1alpha1.Observed(1090), Holds: true}},
		"region":      {v1alpha1.Objective{Metric: "throughput", Region: "b", Min: number(91)}, Objective{Name: "throughput(b) >= 91", Measured: "90/s", Value: v1alpha1.Observed(90), Holds: false}},
		"type":        {v1alpha1.Objective{Metric: "throughput", Transaction: "amalgamate", Max: number(99)}, Objective{Name: "throughput(amalgamate) <= 99", Measured: "99/s", Value: v1alpha1.Observed(99), Holds: true}},
		"between":     {v1alpha1.Objective{Metric: "throughput", Min: number(1), Max: number(2)}, Objective{Name: "1 <= throughput <= 2", Measured: "1090/s", Value: v1alpha1.Observed(1090), Holds: false}},
		"aborts":      {v1alpha1.Objective{Metric: "abortPPM", Region: "b", Max: number(100_000)}, Objective{Name: "abortPPM(b) <= 100000", Measured: "99305 ppm", Value: v1alpha1.Observed(99305), Holds: true}},
		"unknown":     {v1alpha1.Objective{Metric: "unknownPPM", Max: number(0)}, Objective{Name: "unknownPPM <= 0", Measured: "636 ppm", Value: v1alpha1.Observed(636), Holds: false}},
		"latency":     {v1alpha1.Objective{Metric: "latencyP99", Transaction: "balance", Region: "b", Max: text("11ms")}, Objective{Name: "latencyP99(balance, b) <= 11ms", Measured: "11.0ms of 907 transactions", Value: v1alpha1.Observed(10983), Samples: 907, Holds: true}},
		"too slow":    {v1alpha1.Objective{Metric: "latencyP50", Region: "b", Max: text("1ms")}, Objective{Name: "latencyP50(b) <= 1ms", Measured: "10.5ms of 907 transactions", Value: v1alpha1.Observed(10495), Samples: 907, Holds: false}},
		"no such":     {v1alpha1.Objective{Metric: "latencyP50", Transaction: "amalgamate", Region: "b", Max: text("1s")}, Objective{Name: "latencyP50(amalgamate, b) <= 1s", Measured: "no transactions", Value: v1alpha1.Observed(0), Holds: false}},
		"bad bound":   {v1alpha1.Objective{Metric: "latencyP50", Max: text("soon")}, Objective{Name: "latencyP50 <= soon", Measured: `the bound "soon" is not a duration such as 250ms`, Holds: false}},
		"wrong bound": {v1alpha1.Objective{Metric: "throughput", Max: text("1ms")}, Objective{Name: "throughput <= 1ms", Measured: `the bound "1ms" is not an integer`, Holds: false}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Objectives(r, &v1alpha1.Load{}, []string{"a", "b"}, []v1alpha1.Objective{c.o})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(c.o.Metric), "latency") && c.want.Value.Least() > 0 {
				if off := got[0].Value.Least() - c.want.Value.Least(); off > 15 || off < -15 {
					t.Errorf("measured %d, want about %d", got[0].Value.Least(), c.want.Value.Least())
				}
				got[0].Value = c.want.Value
			}
			if diff := cmp.Diff(c.want, got[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseReport(f *testing.F) {
	r, err := Merge(small().Reports)
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"kind":"WorkerReport","version":1,"durationMicroseconds":1,"repetitions":1,"types":["x"],"timeline":[{"repetition":1,"latency":"AQI="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReport(b)
		if err != nil {
			return
		}
		if _, err := Merge([]*Report{r, r}); err != nil {
			return
		}
		if r.Repetitions*int(r.DurationMicroseconds/1e6+1) > 1000 {
			return // a long timeline takes a long time
		}
		in := inputs([]*Report{r}, []string{"a", "b"})
		if d, err := Build(evident(in)); err == nil {
			if err := Table(&bytes.Buffer{}, d, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// over returns f with all actual times set to the start of measuring.
func over(f Fault) Fault {
	f.FromMicroseconds, f.InjectedMicroseconds, f.RecoveringMicroseconds, f.ToMicroseconds = new(int64), new(int64), new(int64), new(int64)
	return f
}
