package result

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestLowerBoundsAreShown checks that the document, its table and the status of a run mark lower bounds, for the whole
// run and for each region.
func TestLowerBoundsAreShown(t *testing.T) {
	d, err := Build(evident(small()))
	if err != nil {
		t.Fatal(err)
	}
	bound := v1alpha1.MoreThan(140_000)
	d.Summary.LatencyMicroseconds.P99 = bound
	for i := range d.Regions {
		d.Regions[i].LatencyMicroseconds.P99 = bound
	}
	var table, document bytes.Buffer
	if err := Table(&table, d, false); err != nil || strings.Count(table.String(), "> 140.0ms") < 1+len(d.Regions) {
		t.Errorf("%v: the table does not show > 140.0ms for the whole and each region:\n%s", err, table.String())
	}
	if err := d.Write(&document); err != nil {
		t.Fatal(err)
	}
	var read Document
	if err := json.Unmarshal(document.Bytes(), &read); err != nil || read.Summary.LatencyMicroseconds.P99 != bound || read.Regions[0].LatencyMicroseconds.P99 != bound {
		t.Errorf("%v: the document has %+v", err, read.Summary.LatencyMicroseconds.P99)
	}
	if q := d.RunSummary().LatencyMicroseconds.P99; q != bound {
		t.Errorf("the status of the run has %+v", q)
	}
	for _, r := range d.RunRegions() {
		if r.LatencyMicroseconds.P99 != bound {
			t.Errorf("the status of %s has %+v", r.Name, r.LatencyMicroseconds.P99)
		}
	}
}

// TestBoundsOfParts checks the median over repetitions, and a percentile of one second of the timeline. Each must be a
// lower bound if the transaction at its rank was not observed.
func TestBoundsOfParts(t *testing.T) {
	value, bound := v1alpha1.Observed, v1alpha1.MoreThan
	for _, c := range []struct {
		of   []v1alpha1.Quantile
		want v1alpha1.Quantile
	}{
		{[]v1alpha1.Quantile{value(100), bound(140), bound(200)}, bound(140)},
		{[]v1alpha1.Quantile{value(100), value(140), bound(140)}, value(140)},
		{[]v1alpha1.Quantile{bound(140), value(140), bound(140)}, bound(140)},
	} {
		var all []Latency
		for _, q := range c.of {
			all = append(all, Latency{P99: q})
		}
		if got := medianLatency(all).P99; got != c.want {
			t.Errorf("the median of %+v is %+v, want %+v", c.of, got, c.want)
		}
	}
	var second SecondHistogram
	for range 98 {
		second.Record(10)
	}
	if q := second.Percentile(99, 2); !q.IsBound() {
		t.Errorf("the p99 of 98 committed transactions and 2 refused ones is %+v, want a bound", q)
	}
	if q := second.Percentile(50, 2); q.IsBound() {
		t.Errorf("their median is %+v, want a value", q)
	}
}

// TestObjectivesOverLowerBounds checks that a lower bound at or above the limit misses an objective, and that a lower
// bound below the limit leaves it undecided.
func TestObjectivesOverLowerBounds(t *testing.T) {
	limit := func(text string) *v1alpha1.Bound { b := intstr.FromString(text); return &b }
	f := figures{latency: tallied(repeat(100_000, 1000), nil, repeat(140_000, 500))}
	f.Committed, f.Unknown = 1000, 500
	m := measure(v1alpha1.MetricLatencyP99, &f, &Report{})
	// The map value states whether the objective is undecided.
	for limited, want := range map[string]bool{"139ms": false, "140ms": false, "141ms": true} {
		o := m.judge(v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP99, Max: limit(limited)})
		if o.Holds || (o.Undecided != "") != want || !strings.Contains(o.Measured, "> 140.0ms") {
			t.Errorf("at most %s: %+v", limited, o)
		}
		o = m.judge(v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP99, Min: limit(limited)})
		if o.Holds == want || (o.Undecided != "") != want {
			t.Errorf("at least %s: %+v", limited, o)
		}
	}
}

// TestComparisonsOverLowerBounds checks that lower bounds below the other side's values are no improvement, and that
// lower bounds above these values are a regression. There is no relative change from or to a bound.
func TestComparisonsOverLowerBounds(t *testing.T) {
	with := func(qs ...v1alpha1.Quantile) []*Document {
		d := repeated(1000, 1010, 990, 1005, 995)
		for i := range d.Repetitions {
			d.Repetitions[i].LatencyMicroseconds.P99 = qs[i%len(qs)]
		}
		return []*Document{d}
	}
	values := with(v1alpha1.Observed(150_000), v1alpha1.Observed(151_000))
	for name, c := range map[string]struct {
		a, b []*Document
		want Change
	}{
		"value, then lower bounds below it":   {values, with(v1alpha1.MoreThan(140_000)), NoDifference},
		"value, then lower bounds above it":   {values, with(v1alpha1.MoreThan(160_000)), Regression},
		"lower bounds, then values above it":  {with(v1alpha1.MoreThan(140_000)), values, NoDifference},
		"lower bounds, then values below it":  {with(v1alpha1.MoreThan(160_000)), values, Improvement},
		"lower bounds, then lower bounds":     {with(v1alpha1.MoreThan(160_000)), with(v1alpha1.MoreThan(140_000)), NoDifference},
		"half lower bounds, then less values": {with(v1alpha1.MoreThan(160_000), v1alpha1.Observed(152_000)), values, Improvement},
	} {
		got := Compare(c.a, c.b, CompareOptions{})
		change := got.Verdict
		if change == Undecided && c.want == NoDifference {
			change = NoDifference
		}
		if change != c.want {
			t.Errorf("%s: %s: %s, want %s", name, got.Verdict, got.Message, c.want)
		}
		for _, f := range got.Figures {
			if f.Name == "p99" && f.Region == "" && f.ChangePPM != nil && (f.A.IsBound() || f.B.IsBound()) {
				t.Errorf("%s: a change of %d ppm from %+v to %+v", name, *f.ChangePPM, f.A, f.B)
			}
		}
	}
}
