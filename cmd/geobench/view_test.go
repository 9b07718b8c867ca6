package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/plan"
)

func viewedPlan() *plan.Plan {
	p := &plan.Plan{Run: &v1alpha1.BenchmarkRun{}, Topology: geo.Topology{Regions: []string{"east", "west"}}}
	p.Run.Name = "r"
	duration := v1alpha1.DurationOf(5 * time.Second)
	p.Run.Spec.Load = v1alpha1.Load{Warmup: v1alpha1.DurationOf(5 * time.Second), Duration: v1alpha1.DurationOf(30 * time.Second), Repetitions: 1}
	p.Run.Spec.Faults = []v1alpha1.Fault{{Name: "cut", At: v1alpha1.DurationOf(4 * time.Second), Duration: &duration}}
	return p
}

// progressAt is a load of 100 transactions per second of 20 ms in each region.
func progressAt(stage string, elapsed time.Duration) local.Progress {
	n := int64(elapsed / (10 * time.Millisecond))
	r := load.Progress{Committed: n, Latency: time.Duration(n) * 20 * time.Millisecond}
	return local.Progress{Stage: stage, Elapsed: elapsed, Total: 35 * time.Second, Regions: []load.Progress{r, r}}
}

func TestViewElsewhereIsPlain(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out, viewedPlan(), 0, 1, false)
	v.show(local.Progress{Stage: "starting 4 nodes"})
	v.show(progressAt("warmup", 2*time.Second))
	v.show(progressAt("warmup", 3*time.Second)) // too soon for another line
	v.show(progressAt("measure", 10*time.Second))
	v.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if strings.Contains(out.String(), "\x1b") || len(lines) != 3 || lines[0] != "r: starting 4 nodes" {
		t.Fatalf("%q", out.String())
	}
	for _, want := range []string{"r: measure 10s of 35s", "east 100/s 20.0ms mean 1000 committed", "west 100/s", "fault cut, 4s left"} {
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
