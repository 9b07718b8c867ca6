// Package experimenttest provides a small experiment with results, for tests that expand, play or draw experiments.
package experimenttest

import (
	"context"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// Small is an experiment with two databases and four points, whose simulation takes little time. Tests modify its text.
const Small = `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: small}
spec:
  databases:
    - name: near
      template:
        spec:
          engine: {name: calvin}
          regions: [{name: a}, {name: b}]
          network: {profile: {intraRegion: {rtt: 400us}, links: [{from: a, to: b, rtt: 20ms}]}}
    - name: far
      template:
        spec:
          engine: {name: calvin, parameters: {ordering: epochs}}
          regions: [{name: a}, {name: b}]
          network: {profile: {intraRegion: {rtt: 400us}, links: [{from: a, to: b, rtt: 100ms}]}}
  run:
    spec:
      workload: {smallbank: {customers: 1000}}
      load: {clientsPerRegion: 2, warmup: 200ms, duration: 1s}
      verify: [Invariants]
  sweep:
    - {path: spec.load.clientsPerRegion, values: [2, 4]}
  claims:
    - {id: c-1, says: near is faster, expression: "min(tput('near')) > max(tput('far'))"}
`

// SweepLine is the sweep of Small.
const SweepLine = "- {path: spec.load.clientsPerRegion, values: [2, 4]}"

// Replaced returns Small with parts replaced. pairs alternates old and new parts.
func Replaced(t *testing.T, pairs ...string) string {
	t.Helper()
	text := Small
	for i := 0; i < len(pairs); i += 2 {
		// Fail if the old part is missing: the replacement would have no effect, and the test could still pass.
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("there is no %q to replace", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// Read expands the experiment in text, which must contain exactly one.
func Read(text string) (*experiment.Experiment, error) {
	b, err := manifest.Load(strings.NewReader(text), check.Default(nil), "-")
	if err != nil {
		return nil, err
	}
	return experiment.New(context.Background(), b, b.Experiments[0], check.Default(nil))
}

// MustRead expands the experiment in text like Read, and fails the test on an error.
func MustRead(t *testing.T, text string) *experiment.Experiment {
	t.Helper()
	e, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Invented returns results in which run i has the throughput figures[i], cyclically. The latency of a run in
// milliseconds is a thousandth of its throughput.
//
// Each region has one node. The node's counter "batches" and its operations are the throughput times the number of the
// region, counted from 1. Its data is 1,000 bytes times this number.
func Invented(e *experiment.Experiment, figures ...float64) *experiment.Results {
	r := experiment.NewResults("")
	r.Simulated = true
	for i, run := range e.Runs() {
		v := int64(figures[i%len(figures)])
		d := &result.Document{Name: run.Run.Name, Simulated: true, Verdict: "Passed", Engine: "calvin", Summary: result.Summary{
			Counts: result.Counts{Committed: v, Aborted: v / 10}, ThroughputPerSecond: v, BytesPerTransaction: v,
			LatencyMicroseconds: result.Latency{P50: v1alpha1.Observed(v), P90: v1alpha1.Observed(2 * v), P95: v1alpha1.Observed(3 * v), P99: v1alpha1.Observed(4 * v), Mean: v1alpha1.Observed(v)},
			Cost:                result.Cost{PerMillionTransactions: result.Micros(v)},
			Wire:                &result.Wire{BytesPerTransaction: 4 * v, SentBytesPerTransaction: 3 * v, CostPerHour: result.Micros(v)},
		}}
		for k, name := range run.Database.Spec.RegionNames() {
			d.Regions = append(d.Regions, result.Region{Name: name, Counts: result.Counts{Committed: v}, ThroughputPerSecond: v / int64(k+2),
				LatencyMicroseconds: result.Latency{P50: v1alpha1.Observed(v * int64(k+1))}})
			d.Nodes = append(d.Nodes, result.Node{Name: name + "/0/0", DataBytes: int64(k+1) * 1000, Operations: v * int64(k+1), Counters: map[string]int64{"batches": v * int64(k+1)}})
		}
		r.Add(run, d, nil)
	}
	return r
}

// WithTypes adds two transaction types to all documents.
//
// Half of a document's transactions are of type balance. They are spread over all regions, and their latency in
// milliseconds is a thousandth of the throughput. The other half are of type amalgamate. These transactions are all in
// the first region and take three times as long.
//
// For every four committed attempts, one attempt is aborted by certification and two are wounded.
func WithTypes(t *testing.T, e *experiment.Experiment, r *experiment.Results) *experiment.Results {
	t.Helper()
	for _, run := range e.Runs() {
		d, err := r.Document(run)
		if err != nil {
			t.Fatal(err)
		}
		d.Spec.Load, d.Repetitions = run.Run.Spec.Load, make([]result.Repetition, 1)
		d.Histograms = result.Histograms{Encoding: result.HistogramEncoding}
		add := func(typ, region string, committed, us int64) {
			h := result.NewHistogram()
			if err := h.RecordValues(us, committed); err != nil {
				t.Fatal(err)
			}
			d.Transactions = append(d.Transactions, result.Transaction{Type: typ, Class: "SH-SP", Region: region,
				Outcomes:            result.Outcomes{Committed: committed, Aborted: map[string]int64{"certification": committed / 4}},
				Attempts:            result.Outcomes{Committed: committed, Aborted: map[string]int64{"certification": committed / 4, "wounded": committed / 2}},
				LatencyMicroseconds: result.Latency{Max: v1alpha1.Observed(us), Mean: v1alpha1.Observed(us)}})
			d.Summary.Attempts.Committed += committed
			d.Summary.Attempts.Aborted += committed/4 + committed/2
			d.Histograms.Series = append(d.Histograms.Series, result.HistogramSeries{Type: typ, Class: "SH-SP", Region: region, Histogram: result.EncodeHistogram(h)})
		}
		half := d.Summary.Committed / 2
		regions := run.Database.Spec.RegionNames()
		for _, region := range regions {
			add("balance", region, half/int64(len(regions)), d.Summary.ThroughputPerSecond)
		}
		add("amalgamate", regions[0], half, 3*d.Summary.ThroughputPerSecond)
		r.Add(run, d, nil)
	}
	return r
}

// WithFaults adds three seconds of throughput to all documents. Each tenth of a second has ten commits, except the
// sixth tenth of each second, which has none. It also adds a fault "cut" from 0.5 s to 1.5 s, and a permanent fault
// "kill" at 2 s.
func WithFaults(t *testing.T, e *experiment.Experiment, r *experiment.Results) *experiment.Results {
	t.Helper()
	for _, run := range e.Runs() {
		d, err := r.Document(run)
		if err != nil {
			t.Fatal(err)
		}
		d.Faults = []result.Fault{
			{Name: "cut", AtMicroseconds: 500_000, DurationMicroseconds: 1_000_000}, {Name: "kill", AtMicroseconds: 2_000_000, Lasting: true},
		}
		for range 3 {
			d.Timeline = append(d.Timeline, result.Tick{Repetition: 1, Tenths: &result.Tenths{Committed: [10]int64{10, 10, 10, 10, 10, 0, 10, 10, 10, 10}}})
		}
	}
	return r
}

// WithFiguresOnly returns the results with the reduced documents that the operator keeps.
func WithFiguresOnly(t *testing.T, e *experiment.Experiment, full *experiment.Results) *experiment.Results {
	t.Helper()
	small := experiment.NewResults("")
	for _, run := range e.Runs() {
		d, err := full.Document(run)
		if err != nil {
			t.Fatal(err)
		}
		if d, err = d.WithFiguresOnly(); err != nil {
			t.Fatal(err)
		}
		small.Add(run, d, nil)
	}
	return small
}
