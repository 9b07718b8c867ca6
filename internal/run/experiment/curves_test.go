package experiment_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

func TestCurves(t *testing.T) {
	line := func(label string, system int, x, y []float64) experiment.Line {
		return experiment.Line{Label: label, System: system, X: x, Y: y}
	}
	tests := map[string]struct {
		text    string
		figures []float64
		axis    experiment.Axis
		// lines are the expected lines of the throughput.
		lines []experiment.Line
	}{
		"numbers": {small, []float64{10, 20, 30, 40}, experiment.Axis{Parameter: "clientsPerRegion", At: []float64{2, 4}}, []experiment.Line{
			line("near", 0, []float64{2, 4}, []float64{10, 20}), line("far", 1, []float64{2, 4}, []float64{30, 40})}},
		"values that do not grow": {replaced(t, "values: [2, 4]", "values: [4, 2]"), []float64{10, 20, 30, 40},
			experiment.Axis{Parameter: "clientsPerRegion", At: []float64{4, 2}}, []experiment.Line{
				line("near", 0, []float64{2, 4}, []float64{20, 10}), line("far", 1, []float64{2, 4}, []float64{40, 30})}},
		"durations": {replaced(t, sweepLine, "- {path: spec.load.thinkTime, values: [0s, 5ms]}"), []float64{10, 20, 30, 40},
			experiment.Axis{Parameter: "thinkTime", At: []float64{0, 5}, Labels: []string{"0s", "5ms"}}, []experiment.Line{
				line("near", 0, []float64{0, 5}, []float64{10, 20}), line("far", 1, []float64{0, 5}, []float64{30, 40})}},
		"names": {replaced(t, sweepLine, "- {path: database.spec.engine.parameters.ordering, values: [leader, epochs]}"), []float64{10, 20, 30, 40},
			experiment.Axis{Parameter: "ordering", At: []float64{0, 1}, Labels: []string{"leader", "epochs"}, Ordinal: true}, []experiment.Line{
				line("near", 0, []float64{0, 1}, []float64{10, 20}), line("far", 1, []float64{0, 1}, []float64{30, 40})}},
		"two parameters": {replaced(t, sweepLine, "- {path: spec.seed, values: [7]}\n    "+sweepLine+"\n    - {path: spec.load.thinkTime, values: [1ms, 2ms]}"),
			[]float64{1, 2, 3, 4, 5, 6, 7, 8}, experiment.Axis{Parameter: "clientsPerRegion", At: []float64{2, 4}}, []experiment.Line{
				line("near, thinkTime 1ms", 0, []float64{2, 4}, []float64{1, 3}), line("near, thinkTime 2ms", 0, []float64{2, 4}, []float64{2, 4}),
				line("far, thinkTime 1ms", 1, []float64{2, 4}, []float64{5, 7}), line("far, thinkTime 2ms", 1, []float64{2, 4}, []float64{6, 8})}},
		"repetitions": {replaced(t, "  sweep:", "  repetitions: 2\n  sweep:"), []float64{1, 3, 5, 5, 7, 7, 9, 9},
			experiment.Axis{Parameter: "clientsPerRegion", At: []float64{2, 4}}, []experiment.Line{
				{Label: "near", System: 0, X: []float64{2, 4}, Y: []float64{2, 5}, HalfWidth: []float64{12.7062, 0}}, // t(1) = 12.7062
				line("far", 1, []float64{2, 4}, []float64{7, 9})}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, tc.text)
			all := e.Curves(invented(e, tc.figures...))
			var metrics, regional []string
			for _, c := range all {
				if c.Region == "" {
					metrics = append(metrics, c.Metric)
				} else {
					regional = append(regional, c.Metric+" "+c.Region)
				}
				if d := cmp.Diff(tc.axis, c.Axis); d != "" {
					t.Errorf("the axis of %s (-want +got):\n%s", c.Metric, d)
				}
			}
			if want := []string{"tput", "p50", "p90", "bytes", "cost", "wireBytes", "sentPerMinute", "sentCostPerHour"}; !slices.Equal(metrics, want) {
				t.Fatalf("curves of %q, want %q", metrics, want)
			}
			if want := []string{"p50 a", "p99 a", "p50 b", "p99 b"}; !slices.Equal(regional, want) {
				t.Errorf("curves of regions' clients %q, want %q", regional, want)
			}
			if tput := all[0]; tput.Title != "small: throughput (SIMULATED)" || tput.Unit != "committed transactions/s" {
				t.Errorf("title %q, unit %q", tput.Title, tput.Unit)
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.0001 })
			if d := cmp.Diff(tc.lines, all[0].Lines, near); d != "" {
				t.Errorf("the lines (-want +got):\n%s", d)
			}
		})
	}
	t.Run("no sweep", func(t *testing.T) {
		e := mustRead(t, replaced(t, "  sweep:\n    "+sweepLine+"\n", ""))
		if all := e.Curves(invented(e, 1)); len(all) > 0 {
			t.Errorf("curves %v", all)
		}
	})
	t.Run("points without figures", func(t *testing.T) {
		e := mustRead(t, small)
		r := invented(e, 10, 20, 0, 0)
		r.Add(e.Points[0].Runs[0], nil, errors.New("it broke"))
		all := e.Curves(r)
		// The throughput of far is 0, so its latency is infinite.
		p50 := all[1]
		want := []experiment.Line{line("near", 0, []float64{4}, []float64{0.02}), line("far", 1, nil, nil)}
		want[1].Infinite = []float64{2, 4}
		if d := cmp.Diff(want, p50.Lines); d != "" {
			t.Errorf("the lines of %s (-want +got):\n%s", p50.Metric, d)
		}
	})
}

func TestTimeline(t *testing.T) {
	e := mustRead(t, small)
	r := invented(e, 1000)
	if got := e.Timeline(r); got != nil {
		t.Errorf("the timeline of runs without faults is %+v", got)
	}
	r = experimenttest.WithFaults(t, e, r)
	r.Simulated = false
	r.Add(e.Points[1].Runs[0], nil, errors.New("it broke"))
	got := e.Timeline(r)
	if got == nil {
		t.Fatal("there is no timeline")
	}
	if got.Title != "small: throughput over time" {
		t.Errorf("title %q", got.Title)
	}
	var labels []string
	for _, l := range got.Lines {
		labels = append(labels, l.Label)
		if len(l.X) != 30 || len(l.Y) != 30 {
			t.Fatalf("%s has X %v, Y %v; want the 30 tenths of 3 s", l.Label, l.X, l.Y)
		}
		for i := range l.X {
			// The moving average spreads the tenth without commits over the five tenths around it.
			want := 100.0
			if k := i % 10; 3 <= k && k <= 7 {
				want = 80
			}
			if x := 0.05 + float64(i)/10; math.Abs(l.X[i]-x) > 1e-9 || math.Abs(l.Y[i]-want) > 1e-9 {
				t.Errorf("%s has %v/s at %v s, want %v/s at %v s", l.Label, l.Y[i], l.X[i], want, x)
			}
		}
	}
	if want := []string{"near clientsPerRegion=2", "far clientsPerRegion=2", "far clientsPerRegion=4"}; !slices.Equal(labels, want) {
		t.Errorf("lines %q, want %q", labels, want)
	}
	if d := cmp.Diff([]experiment.FaultSpan{{Name: "cut", From: 0.5, To: 1.5}, {Name: "kill", From: 2, To: 2.95}}, got.Faults); d != "" {
		t.Errorf("the faults (-want +got):\n%s", d)
	}
}
