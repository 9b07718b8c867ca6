package result

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/admin"
)

// onCluster returns the inputs of small as if its nodes ran on a cluster.
func onCluster(facts ...NodeFacts) Inputs {
	in := small()
	in.Simulated = false
	in.Before, in.After = nil, nil
	for id, name := range []string{"a/0/0", "a/1/0", "b/0/0", "b/1/0"} {
		in.Before = append(in.Before, admin.Status{Node: name, ID: id, Process: "p"})
		in.After = append(in.After, admin.Status{Node: name, ID: id, Process: "p"})
	}
	in.NodeFacts = facts
	return in
}

func TestNodeStarved(t *testing.T) {
	ms := func(n int64) int64 { return n * 1000 }
	limited := func(in *Inputs) {
		in.Manifests = &Manifests{Database: &v1alpha1.GeoDatabaseSpec{}}
		in.Manifests.Database.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	}
	throttle := func(in *Inputs) { in.After[0].QuotaPeriods, in.After[0].ThrottledPeriods = 100, 30 }
	for name, tt := range map[string]struct {
		facts  []NodeFacts
		change func(*Inputs)
		says   string // text of the reason; empty if there is none
		note   string
	}{
		"nobody knows":             {},
		"on time":                  {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{50, 900, 2000}}}},
		"in the tail":              {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{0, ms(2850), ms(3000)}}}, says: "node a/0/0 waited for the CPU or stood still: it was up to 3000.0ms late"},
		"in the median":            {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{ms(8), ms(9), ms(9)}}}, says: "node a/0/0"},
		"a sidecar":                {facts: []NodeFacts{{Node: "b/0/0", SidecarLate: &Lateness{0, ms(2850), ms(3000)}}}, says: "the sidecar of node b/0/0"},
		"as little as latencies":   {facts: []NodeFacts{{Node: "b/0/0", Late: &Lateness{ms(1), ms(8), ms(20)}}}},
		"in one process":           {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{0, ms(2850), ms(3000)}}}, change: func(in *Inputs) { in.SharedProcess = true }},
		"simulated":                {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{0, ms(2850), ms(3000)}}}, change: func(in *Inputs) { in.Simulated = true }},
		"a quota of somebody's":    {change: throttle, says: "30 of 100 periods"},
		"a declared quota":         {change: func(in *Inputs) { throttle(in); limited(in) }, note: "30 of 100 periods"},
		"late by a declared quota": {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{ms(30), ms(90), ms(100)}}}, change: func(in *Inputs) { throttle(in); limited(in) }, note: "30 of 100 periods"},
		"stood still beside a declared quota": {facts: []NodeFacts{{Node: "a/0/0", Late: &Lateness{ms(30), ms(90), ms(3000)}}},
			change: func(in *Inputs) { throttle(in); limited(in) }, says: "node a/0/0", note: "30 of 100 periods"},
		"its quota is another process's": {change: func(in *Inputs) { throttle(in); in.After[0].QuotaPeriods = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			in := onCluster(tt.facts...)
			if tt.change != nil {
				tt.change(&in)
			}
			d, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, r := range d.Reasons {
				if r.Reason == ReasonNodeStarved {
					said += r.Message + "\n"
				}
			}
			if tt.says == "" && said != "" || !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
			if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q lack %q", notes, tt.note)
			}
		})
	}
}

func TestNodeClocks(t *testing.T) {
	clock := func(ahead, within time.Duration) []NodeClock {
		return []NodeClock{{0, 1000}, {ahead.Microseconds(), within.Microseconds()}}
	}
	for name, tt := range map[string]struct {
		bound  time.Duration
		clocks [][]NodeClock // clocks of the first nodes
		apart  bool
		note   bool
	}{
		"one alone":                   {250 * time.Millisecond, [][]NodeClock{clock(time.Hour, 0)}, false, false},
		"together":                    {250 * time.Millisecond, [][]NodeClock{clock(time.Millisecond, 0), clock(0, 0)}, false, false},
		"both far from the operator":  {250 * time.Millisecond, [][]NodeClock{clock(time.Hour, 0), clock(time.Hour, 0)}, false, false},
		"beyond the bound":            {250 * time.Millisecond, [][]NodeClock{clock(-200*time.Millisecond, time.Millisecond), clock(100*time.Millisecond, time.Millisecond)}, true, false},
		"beyond it, but not for sure": {250 * time.Millisecond, [][]NodeClock{clock(-200*time.Millisecond, 30*time.Millisecond), clock(100*time.Millisecond, 30*time.Millisecond)}, false, false},
		"without a bound":             {0, [][]NodeClock{clock(-200*time.Millisecond, 0), clock(100*time.Millisecond, 0)}, false, true},
	} {
		var facts []NodeFacts
		for i, c := range tt.clocks {
			facts = append(facts, NodeFacts{Node: []string{"a/0/0", "b/0/0"}[i], Clocks: c})
		}
		in := onCluster(facts...)
		in.ClockBound = tt.bound
		d, err := Build(evident(in))
		if err != nil {
			t.Fatal(err)
		}
		apart := false
		for _, r := range d.Reasons {
			apart = apart || r.Reason == ReasonClocksApart
		}
		if note := strings.Contains(strings.Join(d.Notes, "\n"), "the clock of node"); apart != tt.apart || note != tt.note {
			t.Errorf("%s: %v, notes %q", name, d.Reasons, d.Notes)
		}
	}
}

func TestFarWorkers(t *testing.T) {
	for name, tt := range map[string]struct {
		micros int64
		note   bool
	}{"unknown": {0, false}, "near": {300, false}, "in another zone": {2500, true}} {
		in := onCluster()
		in.Reports[0].Workers[0].NodeRTTMicroseconds = tt.micros
		d, err := Build(evident(in))
		if err != nil {
			t.Fatal(err)
		}
		if note := strings.Contains(strings.Join(d.Notes, "\n"), "shortest round trip"); note != tt.note || max(d.Workers[0].NodeRTTMicroseconds, d.Workers[1].NodeRTTMicroseconds) != tt.micros {
			t.Errorf("%s: notes %q, workers %+v", name, d.Notes, d.Workers)
		}
	}
}
