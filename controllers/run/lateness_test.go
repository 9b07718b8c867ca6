package run_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/late"
)

// standsStill returns the lateness record of a process in a window of ten seconds. The process is on time, except for
// one stall that starts at from and lasts for still. from is relative to the start of measuring, and zero is the value
// of the process's clock at that start.
func standsStill(zero, from, still time.Duration) *late.Record {
	start := zero - 5*time.Second
	r := late.NewRecorder(func() time.Duration { return start }, func() time.Duration { return 0 })
	for at := start; at < zero+12*time.Second; {
		wakes := at + late.Beat
		if still > 0 && at <= zero+from && zero+from < wakes {
			wakes += still
		}
		r.Woke(at+late.Beat, wakes, 0)
		at = wakes
	}
	return r.Record()
}

// A stall of a node or a sidecar during the measurement makes the run Invalid. A stall that a declared fault causes is
// permitted while the fault lasts.
func TestNodesStandStill(t *testing.T) {
	const busy = "[{name: busy, at: 3s, duration: 4s, cpuStress: {target: {regions: [ap-northeast-1]}}}]"
	for name, tt := range map[string]struct {
		faults      string
		sidecar     bool
		from, still time.Duration
		reason      string
		says        []string
	}{
		"on time":                           {},
		"for 3 s":                           {from: 4 * time.Second, still: 3 * time.Second, reason: "NodeStarved", says: []string{"node ap-northeast-1/0/0", "stood still"}},
		"until after the end":               {from: 8 * time.Second, still: 4 * time.Second, reason: "NodeStarved", says: []string{"node ap-northeast-1/0/0"}},
		"for 20 ms":                         {from: 4 * time.Second, still: 20 * time.Millisecond},
		"before the window":                 {from: -4 * time.Second, still: 3 * time.Second},
		"while a fault takes its CPU":       {faults: busy, from: 3500 * time.Millisecond, still: 3 * time.Second},
		"after a fault":                     {faults: busy, from: 8500 * time.Millisecond, still: time.Second, reason: "NodeStarved"},
		"from within a fault to beyond it":  {faults: busy, from: 5 * time.Second, still: 4500 * time.Millisecond, reason: "NodeStarved"},
		"while a fault takes another's CPU": {faults: "[{name: busy, at: 3s, duration: 4s, cpuStress: {target: {regions: [us-west-2]}}}]", from: 4 * time.Second, still: 2 * time.Second, reason: "NodeStarved"},
		"while a fault delays its links":    {faults: "[{name: far, at: 3s, duration: 4s, networkDelay: {between: {}, delay: 10ms}}]", from: 4 * time.Second, still: 2 * time.Second, reason: "NodeStarved"},
		"a sidecar, for 3 s":                {sidecar: true, from: 4 * time.Second, still: 3 * time.Second, reason: "NodeStarved", says: []string{"the sidecar of node ap-northeast-1/0/0"}},
		"a sidecar on time":                 {sidecar: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db, run := worldtest.MakeDatabase("d"), worldtest.MakeRun("r").Database("d")
			if tt.sidecar {
				db.Emulation(v1alpha1.EmulationSidecar)
			}
			if tt.faults != "" {
				run.Faults(tt.faults)
			}
			w.Create(db.Obj(), run.Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			start := w.GetRun("r").Status.MeasureStartTime.Time
			pod := w.NodePod("d", "ap-northeast-1", 0)
			if tt.sidecar {
				w.PlayedSidecars.Zero = start.Add(-time.Hour)
				w.PlayedSidecars.Records = map[string]*late.Record{pod.Name: standsStill(time.Hour, tt.from, tt.still)}
			} else {
				n := w.PlayedNodes[pod.Status.PodIP]
				n.Log.Late = standsStill(start.Sub(n.Zero), tt.from, tt.still)
			}
			over := w.UntilOver("r")
			if tt.reason == "" {
				passed(t, over)
			} else {
				invalid(t, over, tt.reason, tt.says...)
			}
			for _, n := range w.Document("r").Nodes {
				if l := n.LateMicroseconds; !tt.sidecar && (l == nil || n.Name != "ap-northeast-1/0/0" && l.Max > 0) {
					t.Errorf("node %s was late by %+v", n.Name, l)
				}
				if l := n.SidecarLateMicroseconds; tt.sidecar && (l != nil) != (n.Name == "ap-northeast-1/0/0") {
					t.Errorf("the sidecar of node %s was late by %+v", n.Name, l)
				}
			}
		})
	}
}

// Nodes that a CPU quota throttles make the run Invalid, unless the manifest sets the quota.
func TestNodesAreThrottled(t *testing.T) {
	for name, tt := range map[string]struct {
		limit     string
		throttled int64
		reason    string
	}{
		"by somebody's quota":          {"", 40, "NodeStarved"},
		"seldom":                       {"", 4, ""},
		"by the quota of the manifest": {"500m", 40, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db := worldtest.MakeDatabase("d").Obj()
			if tt.limit != "" {
				db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tt.limit)}
			}
			w.Create(db, worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			n := w.PlayedNodes[w.NodePod("d", "ap-northeast-1", 0).Status.PodIP]
			n.Periods, n.Throttled = 100, tt.throttled
			over := w.UntilOver("r")
			if tt.reason == "" {
				passed(t, over)
			} else {
				invalid(t, over, tt.reason, "40 of 100 periods", "LimitRange")
			}
			for _, n := range w.Document("r").Nodes {
				if n.Name == "ap-northeast-1/0/0" && (n.QuotaPeriods != 100 || n.ThrottledPeriods != tt.throttled) {
					t.Errorf("%d of %d periods", n.ThrottledPeriods, n.QuotaPeriods)
				}
			}
		})
	}
}

// The result contains the clocks of nodes. For engines whose answers depend on clocks, the operator checks the declared
// clock bound.
func TestClocksOfNodesAreApart(t *testing.T) {
	for name, tt := range map[string]struct {
		engine string
		ahead  time.Duration
		after  v1alpha1.Stage
		reason string
	}{
		"an engine that does not go by them": {"calvin", 400 * time.Millisecond, "", ""},
		"within the engine's bound":          {"spanner", 200 * time.Millisecond, "", ""},
		"beyond the engine's bound":          {"spanner", 400 * time.Millisecond, "", "ClocksApart"},
		"behind, beyond the engine's bound":  {"spanner", -400 * time.Millisecond, "", "ClocksApart"},
		"set while it is measured":           {"spanner", 400 * time.Millisecond, v1alpha1.StageMeasure, "ClocksApart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db := worldtest.MakeDatabase("d").Obj()
			db.Spec.Engine.Name, db.Spec.Engine.Parameters = tt.engine, nil
			w.Create(db)
			w.UntilReady("d")
			w.Create(worldtest.MakeRun("r").Database("d").Obj())
			if tt.after != "" {
				w.UntilStage("r", tt.after)
			}
			w.PlayedNodes[w.NodePod("d", "ap-northeast-1", 0).Status.PodIP].Ahead = tt.ahead
			over := w.UntilOver("r")
			if tt.reason == "" {
				passed(t, over)
			} else {
				invalid(t, over, tt.reason, "ap-northeast-1/0/0", "398")
			}
			for _, n := range w.Document("r").Nodes {
				want := int64(0)
				if n.Name == "ap-northeast-1/0/0" {
					want = tt.ahead.Microseconds()
				}
				if n.Clock == nil || n.Clock.AheadMicroseconds != want {
					t.Errorf("node %s: clock %+v, want %d", n.Name, n.Clock, want)
				}
			}
		})
	}
}
