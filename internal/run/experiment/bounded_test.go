package experiment_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// half returns the results of four runs. In the second run, all latencies are lower bounds. In the last run, no
// transaction committed.
func half(t *testing.T, e *experiment.Experiment) *experiment.Results {
	t.Helper()
	r, n := invented(e, 1000), 0
	each(t, e, r, func(d *result.Document) {
		n++
		switch bound := v1alpha1.MoreThan(140_000); n {
		case 2:
			d.Summary.LatencyMicroseconds = result.Latency{P50: bound, P90: bound, P95: bound, P99: bound,
				Mean: bound, Max: bound}
		case 4:
			d.Summary.Committed, d.Summary.LatencyMicroseconds = 0, result.Latency{}
		}
	})
	return r
}

func TestCurvesShowLowerBounds(t *testing.T) {
	e := mustRead(t, small)
	for _, c := range e.Curves(half(t, e)) {
		if c.Metric != "p50" || c.Region != "" {
			continue
		}
		near, far := c.Lines[0], c.Lines[1]
		if !slices.Equal(near.Y, []float64{1, 140}) || !slices.Equal(near.LowerBound, []bool{false, true}) ||
			near.Infinite != nil {
			t.Errorf("near: %+v", near)
		}
		if !slices.Equal(far.Y, []float64{1}) || far.LowerBound != nil ||
			!slices.Equal(c.Axis.Words(far.Infinite), []string{"4"}) {
			t.Errorf("far: %+v", far)
		}
		return
	}
	t.Error("there is no curve of p50")
}

func TestReportsShowLowerBounds(t *testing.T) {
	e := mustRead(t, small)
	report := experiment.NewReport(context.Background(), []*experiment.Experiment{e}, half(t, e))
	report.Round(5)
	points := report.Experiments[0].Points
	if p := points[1]; p.LowerBound["p99"] != 140 || p.Shown("p99") != "> 140" || p.Shown("tput") != "1000" ||
		slices.Contains(p.Infinite, "p99") {
		t.Errorf("the point whose latencies are lower bounds: %+v", p)
	}
	if _, ok := points[1].Median["p99"]; ok {
		t.Errorf("a lower bound is among the medians")
	}
	if p := points[3]; !slices.Contains(p.Infinite, "p99") || p.Shown("p99") != "infinite" || p.LowerBound != nil {
		t.Errorf("the point that committed nothing: %+v", p)
	}
	var b strings.Builder
	if err := report.Figures(&b); err != nil || !strings.Contains(b.String(), "> 140") ||
		!strings.Contains(b.String(), "infinite") {
		t.Errorf("%v: %s", err, b.String())
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), `"lowerBound":{`) {
		t.Errorf("%v: the document has no lower bounds", err)
	}
}

// If the latencies of some repetitions are lower bounds, the median over the repetitions is shown as a lower bound. It
// is computed from the bounds and the exact latencies.
func TestMedianOverLowerBounds(t *testing.T) {
	e := mustRead(t, replaced(t, "  sweep:", "  repetitions: 3\n  sweep:"))
	r, n := invented(e, 1000), 0
	each(t, e, r, func(d *result.Document) {
		if n++; n <= 2 { // two of the three repetitions
			d.Summary.LatencyMicroseconds.P50 = v1alpha1.MoreThan(int64(n) * 100_000)
		}
	})
	report := experiment.NewReport(context.Background(), []*experiment.Experiment{e}, r)
	if p := report.Experiments[0].Points[0]; p.Shown("p50") != "> 100" {
		t.Errorf("the median of 1 ms, > 100 ms and > 200 ms is shown as %s, want > 100", p.Shown("p50"))
	}
}
