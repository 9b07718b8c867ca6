package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/play"
	"github.com/geobench/geobench/internal/run/inprocess"
)

func viewedPlan() *plan.Plan {
	p := &plan.Plan{Run: &v1alpha1.BenchmarkRun{}, Topology: geo.Topology{Regions: []string{"east", "west"}}}
	p.Run.Name = "r"
	duration := v1alpha1.DurationOf(5 * time.Second)
	p.Run.Spec.Load = v1alpha1.Load{Warmup: v1alpha1.DurationOf(5 * time.Second), Duration: v1alpha1.DurationOf(30 * time.Second), Repetitions: 1}
	p.Run.Spec.Faults = []v1alpha1.Fault{{Name: "cut", At: v1alpha1.DurationOf(4 * time.Second), Duration: &duration}}
	return p
}

// progressAt returns the progress of a load that commits 100 transactions per second in each region, each with a
// latency of 20 ms.
func progressAt(stage string, elapsed time.Duration) inprocess.Progress {
	n := int64(elapsed / (10 * time.Millisecond))
	r := load.Progress{Committed: n, Latency: time.Duration(n) * 20 * time.Millisecond}
	return inprocess.Progress{Stage: stage, Elapsed: elapsed, Total: 35 * time.Second, Regions: []load.Progress{r, r}}
}

func TestViewElsewhereIsPlain(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out, viewedPlan(), 0, 1, false)
	v.show(inprocess.Progress{Stage: "starting 4 nodes"})
	v.show(progressAt("warmup", 2*time.Second))
	v.show(progressAt("warmup", 3*time.Second)) // too early for another line
	p := progressAt("measure", 10*time.Second)
	p.Regions[1].Aborted, p.Regions[1].Retried = 4, 9
	v.show(p)
	v.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if strings.Contains(out.String(), "\x1b") || len(lines) != 3 || lines[0] != "r: starting 4 nodes" {
		t.Fatalf("%q", out.String())
	}
	for _, want := range []string{"r: measure 10s of 35s", "east 100/s 20.0ms mean 1000 committed", "west 100/s", "committed 4 aborted 9 retried", "fault cut, 4s left"} {
		if !strings.Contains(lines[2], want) {
			t.Errorf("no %q in %q", want, lines[2])
		}
	}
}

func TestViewOnATerminalIsWrittenOver(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out, viewedPlan(), 1, 3, false)
	v.terminal, v.width = true, 40
	v.show(progressAt("warmup", 2*time.Second))
	v.show(progressAt("measure", 20*time.Second))
	v.end()
	text := out.String()
	if !strings.Contains(text, "r (2 of 3): measure [#############---") || strings.Count(text, "\x1b[3A\x1b[J") != 2 || !strings.HasSuffix(text, "\x1b[J") {
		t.Errorf("%q", text)
	}
	for _, l := range strings.Split(text, "\n") {
		if i := strings.LastIndex(l, "\x1b[J"); i >= 0 {
			l = l[i+3:]
		}
		if n := len([]rune(strings.TrimSuffix(l, "\x1b[K"))); n >= 40 {
			t.Errorf("a line of %d columns on a terminal of 40: %q", n, l)
		}
	}
	quiet := newView(&out, viewedPlan(), 0, 1, true)
	out.Reset()
	quiet.show(progressAt("measure", time.Second))
	if out.Len() > 0 {
		t.Errorf("--quiet says %q", out.String())
	}
}

// TestExperimentView follows two concurrent runs of an experiment.
func TestExperimentView(t *testing.T) {
	one, two := &experiment.Run{Label: "calvin clients=2"}, &experiment.Run{Label: "calvin clients=4"}
	for _, r := range []*experiment.Run{one, two} {
		r.Run, r.Database = viewedPlan().Run, &v1alpha1.GeoDatabase{}
		r.Database.Spec.Regions = []v1alpha1.Region{{Name: "east"}, {Name: "west"}}
	}
	story := []play.Progress{
		{Total: 3, Label: one.Label, Event: play.Began, Playing: []play.Playing{{Run: one}}},
		{Total: 3, Label: one.Label, Event: play.Moved, Share: 0.3, Playing: []play.Playing{
			{Run: one, At: progressAt("simulating", 10*time.Second)}, {Run: two}}},
		{Total: 3, Done: 1, Label: one.Label, Event: play.Ended, Share: 0.5, Playing: []play.Playing{
			{Run: two, At: progressAt("simulating", 10*time.Second)}}},
		{Total: 3, Done: 2, Kept: 1, Failed: 1, Label: "calvin clients=8", Event: play.Ended, Share: 0.9},
	}
	var out bytes.Buffer
	v := newExperimentView(&out, false)
	var now time.Time
	for i, at := range []time.Duration{0, 6 * time.Second, 10 * time.Second, 18 * time.Second} {
		v.showAt(story[i], now.Add(time.Hour+at))
	}
	want := "running calvin clients=2\n1 of 3: calvin clients=2, ETA 10s\n2 of 3: calvin clients=8 (1 kept from before) (1 could not run!), ETA 2s\n"
	if out.String() != want {
		t.Errorf("elsewhere it says %q, want %q", out.String(), want)
	}

	out.Reset()
	v = newExperimentView(&out, false)
	v.terminal, v.width, v.height = true, 80, 6
	v.showAt(story[0], now.Add(time.Hour))
	v.showAt(story[1], now.Add(time.Hour+6*time.Second))
	lines := v.lines(now.Add(time.Hour + 6*time.Second))
	for i, want := range []string{"[#######-----------------] 0 of 3 runs, ETA 14s", "calvin clients=2: simulating 10s of 35s", "  east", "  west", "  fault cut, 4s left", "calvin clients=4: preparing"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d is not %q in %q", i, want, lines)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 2+5 || !strings.Contains(out.String(), "  east                  100/s     20.0ms mean        1000 committed") {
		t.Errorf("%d lines, want 2 and then 5 on a terminal of 6 lines: %q", n, out.String())
	}
	v.close()
	if !strings.HasSuffix(out.String(), "\x1b[5A\x1b[J") {
		t.Errorf("the lines are not taken off: %q", out.String())
	}
}
