package run_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/chaosaudit"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// onTime fails the test unless the actual times of a fault are within the tolerance of its plan.
func onTime(t *testing.T, f *result.Fault, tolerance time.Duration) {
	t.Helper()
	for _, x := range []struct {
		planned int64
		at      []*int64
	}{
		{f.AtMicroseconds, []*int64{f.FromMicroseconds, f.InjectedMicroseconds}},
		{f.AtMicroseconds + f.DurationMicroseconds, []*int64{f.RecoveringMicroseconds, f.ToMicroseconds}},
	} {
		for _, at := range x.at {
			if at == nil || (time.Duration(*at-x.planned)*time.Microsecond).Abs() > tolerance {
				t.Errorf("fault %s, planned for %d us: %+v", f.Name, x.planned, f)
				return
			}
		}
	}
}

// Nodes and sidecars start and stop their faults themselves. So the faults are on time even if the operator is busy or
// the API server is unavailable.
func TestFaultsKeepTheirTimeWithoutTheOperator(t *testing.T) {
	const cut = "[{name: cut, at: 15s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}}}]"
	for name, tt := range map[string]struct {
		emulation   v1alpha1.Emulation
		faults      string
		until, for_ time.Duration
	}{
		"busy when it begins":               {v1alpha1.EmulationBuiltIn, cut, 5 * time.Second, 17 * time.Second},
		"busy all the time":                 {v1alpha1.EmulationBuiltIn, cut, 5 * time.Second, 27 * time.Second},
		"away when it ends":                 {v1alpha1.EmulationBuiltIn, cut, 20 * time.Second, 18 * time.Second},
		"sidecars, busy when it begins":     {v1alpha1.EmulationSidecar, cut, 5 * time.Second, 17 * time.Second},
		"sidecars, away when it ends":       {v1alpha1.EmulationSidecar, cut, 20 * time.Second, 18 * time.Second},
		"whoever has the role":              {v1alpha1.EmulationBuiltIn, "[{name: busy, at: 15s, duration: 10s, cpuStress: {target: {role: leader}}}]", 13 * time.Second, 16 * time.Second},
		"two at once, one within the other": {v1alpha1.EmulationBuiltIn, "[{name: slow, at: 8s, duration: 20s, networkDelay: {between: {}, delay: 20ms}}, {name: cut, at: 15s, duration: 2s, networkPartition: {from: {regions: [us-west-2]}}}]", 3 * time.Second, 33 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Emulation(tt.emulation).Obj(), worldtest.MakeRun("r").Database("d").Duration(40*time.Second).Faults(tt.faults).Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			start := w.GetRun("r").Status.MeasureStartTime.Time
			w.Until("it is time", func() bool { return w.FakeClock.Since(start) >= tt.until })
			w.Away(tt.for_)
			run := w.UntilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
			doc := w.Document("r")
			for i := range doc.Faults {
				onTime(t, &doc.Faults[i], 5*time.Millisecond)
			}
			if len(doc.Deviations) > 0 {
				t.Errorf("%+v", doc.Deviations)
			}
		})
	}
}

// A fault that is not injected at its planned time makes the run Invalid, whatever its injector.
func TestFaultMistimed(t *testing.T) {
	const slow = "{name: slow, at: 3s, duration: 4s, cpuStress: {target: {regions: [us-west-2]}}"
	node := func(w *worldtest.World) *worldtest.FakeNode {
		return w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP]
	}
	for name, tt := range map[string]struct {
		emulation v1alpha1.Emulation
		faults    string
		world     func(w *worldtest.World) // applied when measuring starts
		reason    string
		says      string
	}{
		"within the tolerance":                   {faults: "[" + slow + "}]", world: func(w *worldtest.World) { node(w).Late = 200 * time.Millisecond }},
		"late":                                   {faults: "[" + slow + "}]", world: func(w *worldtest.World) { node(w).Late = 300 * time.Millisecond }, reason: "FaultMistimed", says: "fault slow began at 3.3s, planned for 3s: 300ms late"},
		"late, within a tolerance of its own":    {faults: "[" + slow + ", tolerance: 1s}]", world: func(w *worldtest.World) { node(w).Late = 300 * time.Millisecond }},
		"on time, with no tolerance to speak of": {faults: "[" + slow + ", tolerance: 5ms}]", world: func(w *worldtest.World) {}},
		"late, and its tolerance is less":        {faults: "[" + slow + ", tolerance: 20ms}]", world: func(w *worldtest.World) { node(w).Late = 30 * time.Millisecond }, reason: "FaultMistimed", says: "20ms is allowed"},
		"never":                                  {faults: "[" + slow + "}]", world: func(w *worldtest.World) { node(w).Idle = true }, reason: "FaultFailed", says: "fault slow"},
		"never, but in an earlier run": {faults: "[" + slow + "}]", world: func(w *worldtest.World) {
			n := node(w)
			n.Idle = true
			n.Log.Change(time.Minute, &admin.Disturbance{SlowPercent: 100})
			n.Log.Change(time.Minute+4*time.Second, nil)
		}, reason: "FaultFailed", says: "fault slow"},
		"ended by somebody": {faults: "[" + slow + "}]", world: func(w *worldtest.World) {
			w.Until("it lasts", func() bool { return faultIn(w.GetRun("r"), fault.Active) })
			n := node(w)
			n.Do(w.FakeClock.Since(n.Zero), &admin.Disturbance{})
		}, reason: "FaultMistimed", says: "fault slow ended at"},
		"sidecars are late": {emulation: v1alpha1.EmulationSidecar, faults: "[{name: slow, at: 3s, duration: 4s, networkDelay: {between: {}, delay: 10ms}}]",
			world: func(w *worldtest.World) { w.PlayedSidecars.Late = 400 * time.Millisecond }, reason: "FaultMistimed", says: "fault slow began at 3.4s"},
		"the operator is away when a pod is to be killed": {faults: "[{name: kill, at: 3s, podKill: {target: {regions: [ap-northeast-1]}}}]",
			world: func(w *worldtest.World) { w.Away(6 * time.Second) }, reason: "FaultMistimed", says: "fault kill began at 6"},
		"the operator is away, and Chaos Mesh is to begin": {faults: "[{name: full, at: 3s, duration: 3s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}]",
			world: func(w *worldtest.World) { w.Away(6 * time.Second) }, reason: "FaultMistimed", says: "and 2s is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.ChaosMesh = true
			db := worldtest.MakeDatabase("d")
			if tt.emulation != "" {
				db.Emulation(tt.emulation)
			}
			w.Create(db.Obj(), worldtest.MakeRun("r").Database("d").Duration(30*time.Second).Faults(tt.faults).Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			tt.world(w)
			run := w.UntilOver("r")
			if tt.reason != "" {
				invalid(t, run, tt.reason, tt.says)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// An undeclared disturbance of nodes or links in the measured window makes the run Invalid, however short it is.
func TestUndeclaredDisturbances(t *testing.T) {
	faster := geo.Link{Delay: time.Millisecond}
	disturb := func(d admin.Disturbance, for_ time.Duration) func(w *worldtest.World) {
		return func(w *worldtest.World) {
			n := w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP]
			n.Do(w.FakeClock.Since(n.Zero), &d)
			w.FakeClock.Step(for_)
			n.Do(w.FakeClock.Since(n.Zero), &admin.Disturbance{})
		}
	}
	fast := func(for_ time.Duration) func(w *worldtest.World) {
		return func(w *worldtest.World) {
			n := w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP]
			from := w.FakeClock.Since(n.Zero)
			w.FakeClock.Step(for_)
			n.Log.Fast = append(n.Log.Fast, admin.FastLink{To: "ap-northeast-1", Node: "ap-northeast-1/0/0", From: from, Until: w.FakeClock.Since(n.Zero), Median: 20 * time.Millisecond})
		}
	}
	// These functions fill a log with past or current disturbances.
	fillNode := func(w *worldtest.World, ago time.Duration) {
		n := w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP]
		at := w.FakeClock.Since(n.Zero) - ago
		for i := range time.Duration(2*admin.MaxLog + 2) {
			n.Log.Change(at+i, []*admin.Disturbance{{Cut: []int{1}}, nil}[i%2])
		}
	}
	fillSidecar := func(w *worldtest.World, ago time.Duration) {
		log := w.PlayedSidecars.Logs[w.NodePod("d", "us-west-2", 0).UID]
		declared := log.Entries[0].Config
		other := declared
		other.QueueBytes++
		at := w.FakeClock.Now().Add(-ago)
		log.Since = w.FakeClock.Now().Add(-time.Hour)
		log.Entries[0].From = log.Since
		for i := range time.Duration(wan.MaxLog + 2) {
			log.Change(at.Add(i), []*wan.Config{&other, &declared}[i%2])
		}
	}
	sidecarFiles := func(w *worldtest.World) {
		cm := w.Get("d-network-us-west-2", &corev1.ConfigMap{}).(*corev1.ConfigMap)
		for file, text := range cm.Data {
			cm.Data[file] = strings.Replace(text, `"delayMicros": 50000`, `"delayMicros": 500`, 1)
		}
		w.Must(w.Client.Update(w.Ctx, cm))
		w.Away(time.Second) // then the operator sends its instructions again
	}
	for name, tt := range map[string]struct {
		emulation v1alpha1.Emulation
		faults    string
		stage     v1alpha1.Stage
		attack    func(w *worldtest.World)
		reason    string // UndeclaredDisturbance if empty
		says      []string
	}{
		"a faster link": {attack: disturb(admin.Disturbance{Links: []admin.DisturbedLink{{To: "ap-northeast-1", Link: faster, Back: faster}}}, 7*time.Second),
			says: []string{"us-west-2/0/0: link us-west-2 -> ap-northeast-1 delay 1ms from"}},
		"a moment's cut":  {attack: disturb(admin.Disturbance{Cut: []int{1}}, time.Millisecond), says: []string{"us-west-2/0/0: cut off from node ap-northeast-1/0/0 from"}},
		"another clock":   {attack: disturb(admin.Disturbance{ClockOffset: time.Second}, time.Second), says: []string{"clock set by 1s"}},
		"a slower node":   {attack: disturb(admin.Disturbance{SlowPercent: 10}, time.Second), says: []string{"slower by 10%"}},
		"a node given up": {attack: disturb(admin.Disturbance{Lost: []int{1}}, time.Second), says: []string{"node ap-northeast-1/0/0 given up"}},
		"beside a fault": {faults: "[{name: slow, at: 1s, duration: 1s, cpuStress: {target: {}}}]",
			attack: func(w *worldtest.World) {
				w.Until("it is over", func() bool { return faultIn(w.GetRun("r"), fault.Done) })
				w.FakeClock.Step(3 * time.Second)
				disturb(admin.Disturbance{SlowPercent: 100}, time.Second)(w) // the same disturbance again
			}, says: []string{"slower by 100% from"}},
		"while it warms up": {stage: v1alpha1.StageWarmup, attack: func(w *worldtest.World) {
			w.Until("the start is known", func() bool { return w.GetRun("r").Status.WarmupStartTime != nil })
			disturb(admin.Disturbance{Cut: []int{1}}, time.Millisecond)(w)
		}},
		"the sidecars' files": {emulation: v1alpha1.EmulationSidecar, attack: sidecarFiles,
			says: []string{"sidecar of pod d-us-west-2-0: link ap-northeast-1 -> us-west-2 delay 500", "which no fault of the manifest declares"}},
		"the workers' sidecars alone": {emulation: v1alpha1.EmulationSidecar, attack: func(w *worldtest.World) {
			cm := w.Get("d-network-us-west-2", &corev1.ConfigMap{}).(*corev1.ConfigMap)
			cm.Data["config.json"] = strings.Replace(cm.Data["config.json"], `"links"`, `"exemptPorts": [7000], "links"`, 1)
			w.Must(w.Client.Update(w.Ctx, cm))
			w.Away(time.Second)
		}, says: []string{"sidecar of pod r-us-west-2-", "other peers, ports or limits"}},
		"nobody says what was done, but a link is faster": {attack: fast(2 * time.Second), reason: "LinkTooFast",
			says: []string{"link us-west-2/0/0 -> ap-northeast-1/0/0: round trips took 20ms (median) from", "100ms is declared, and no fault"}},
		"a link is faster while a fault changes it": {faults: "[{name: slow, at: 0s, duration: 18s, networkDelay: {between: {}, delay: 10ms, jitter: 20ms}}]", attack: func(w *worldtest.World) {
			w.Until("it lasts", func() bool { return faultIn(w.GetRun("r"), fault.Active) })
			fast(time.Second)(w)
		}},
		"a link is faster while it warms up": {stage: v1alpha1.StageWarmup, attack: func(w *worldtest.World) {
			w.Until("the start is known", func() bool { return w.GetRun("r").Status.WarmupStartTime != nil })
			fast(time.Millisecond)(w)
		}},
		"a sidecar that starts anew": {emulation: v1alpha1.EmulationSidecar, attack: func(w *worldtest.World) {
			delete(w.PlayedSidecars.Logs, w.NodePod("d", "us-west-2", 0).UID)
		}, says: []string{"sidecar of pod d-us-west-2-0: started anew"}},
		"the log of a node is full, of earlier runs": {attack: func(w *worldtest.World) { fillNode(w, 50*time.Minute) }},
		"a cut, and the log of the node is full": {attack: func(w *worldtest.World) {
			fillNode(w, 50*time.Minute)
			disturb(admin.Disturbance{Cut: []int{1}}, time.Millisecond)(w)
		}, says: []string{"us-west-2/0/0: cut off from node ap-northeast-1/0/0 from"}},
		"more is done to a node than its log holds": {attack: func(w *worldtest.World) { fillNode(w, 0) }, says: []string{"us-west-2/0/0: unknown, since it was disturbed more often than the 1000 times that its log has kept from -2s to 1ms"}},
		"the log of a sidecar is full, of earlier runs": {emulation: v1alpha1.EmulationSidecar, attack: func(w *worldtest.World) { fillSidecar(w, 50*time.Minute) },
			faults: "[{name: slow, at: 2s, duration: 4s, networkDelay: {between: {}, delay: 10ms}}]"},
		"the sidecars' files, and the log of a sidecar is full": {emulation: v1alpha1.EmulationSidecar, attack: func(w *worldtest.World) {
			fillSidecar(w, 50*time.Minute)
			sidecarFiles(w)
		}, says: []string{"sidecar of pod d-us-west-2-0: link ap-northeast-1 -> us-west-2 delay 500"}},
		"more is done to a sidecar than its log holds": {emulation: v1alpha1.EmulationSidecar, attack: func(w *worldtest.World) { fillSidecar(w, 0) },
			says: []string{"sidecar of pod d-us-west-2-0: unknown, since its network changed more than 200 times from -2s to 1ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db, run := worldtest.MakeDatabase("d"), worldtest.MakeRun("r").Database("d").Duration(20*time.Second)
			if tt.emulation != "" {
				db.Emulation(tt.emulation)
			}
			if tt.faults != "" {
				run.Faults(tt.faults)
			}
			if tt.stage == "" {
				tt.stage = v1alpha1.StageMeasure
			}
			w.Create(db.Obj(), run.Obj())
			w.UntilStage("r", tt.stage)
			tt.attack(w)
			if now := w.UntilOver("r"); tt.says != nil {
				invalid(t, now, cmp.Or(tt.reason, "UndeclaredDisturbance"), tt.says...)
			} else if now.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", now.Status.Verdict, now.Status.Reason, now.Status.Message)
			}
		})
	}
}

// Chaos Mesh shuts a pod down by replacing its images, including the image of its sidecar, so the sidecar restarts as
// planned. The operator detects a sidecar that restarts at another time, or that disturbs the pod afterwards.
func TestSidecarsOfPodsThatAreShutDown(t *testing.T) {
	const down = "{name: down, at: 3s, duration: 4s, nodeShutdown: {target: {regions: [us-west-2]}}}"
	const link = "name: slow, networkDelay: {between: {}, delay: 10ms}"
	forget := func(w *worldtest.World, region string) { delete(w.PlayedSidecars.Logs, w.NodePod("d", region, 0).UID) }
	for name, tt := range map[string]struct {
		faults string
		attack func(w *worldtest.World) // applied once the pod runs again
		says   string                   // empty if the run passes
	}{
		"alone":                             {faults: "[" + down + "]"},
		"while a link is slower":            {faults: "[" + down + ", {" + link + ", at: 1s, duration: 12s}]"},
		"when a link becomes slower":        {faults: "[" + down + ", {" + link + ", at: 5s, duration: 8s}]"},
		"when a link is no longer slower":   {faults: "[" + down + ", {" + link + ", at: 1s, duration: 4s}]"},
		"after a link was slower":           {faults: "[" + down + ", {" + link + ", at: 0s, duration: 1s}]"},
		"and its sidecar starts once again": {faults: "[" + down + "]", attack: func(w *worldtest.World) { forget(w, "us-west-2") }, says: "sidecar of pod d-us-west-2-0: started anew"},
		"and another sidecar starts anew":   {faults: "[" + down + "]", attack: func(w *worldtest.World) { forget(w, "ap-northeast-1") }, says: "sidecar of pod d-ap-northeast-1-0: started anew"},
		"and its network is another afterwards": {faults: "[" + down + "]", attack: func(w *worldtest.World) {
			log := w.PlayedSidecars.Logs[w.NodePod("d", "us-west-2", 0).UID]
			other := log.Entries[0].Config
			other.QueueBytes++
			log.Change(w.FakeClock.Now(), &other)
			w.FakeClock.Step(time.Second)
		}, says: "sidecar of pod d-us-west-2-0: other peers, ports or limits from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.ChaosMesh = true
			db := worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj()
			db.Spec.Durability = v1alpha1.DurabilityJournal
			w.Create(db, worldtest.MakeRun("r").Database("d").By(v1alpha1.FaultInjectionChaosMesh).Duration(20*time.Second).Faults(tt.faults).Obj())
			w.Until("the pod is shut down", func() bool { return w.ShutDown["d-us-west-2-0"] })
			w.Until("it runs again", func() bool {
				return slices.ContainsFunc(w.GetRun("r").Status.Faults, func(f v1alpha1.FaultStatus) bool { return f.Name == "down" && f.State == string(fault.Done) })
			})
			if tt.attack != nil {
				w.Away(3 * time.Second)
				tt.attack(w)
			}
			run := w.UntilOver("r")
			if tt.says != "" {
				invalid(t, run, "UndeclaredDisturbance", tt.says)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// Any user who may create Chaos Mesh objects, in any namespace, can disturb the pods of a run. The user can also delete
// the objects before the operator lists them.
func TestStrangersChaos(t *testing.T) {
	stranger := func(w *worldtest.World, kind string, pods ...string) *unstructured.Unstructured {
		var of []any
		for _, p := range pods {
			of = append(of, p)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{"pods": map[string]any{w.Namespace: of}}}}}
		o.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind))
		o.SetName("theirs")
		return o
	}
	const fault = "[{name: full, at: 3s, duration: 3s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}]"
	for name, tt := range map[string]struct {
		object func(w *worldtest.World) *unstructured.Unstructured
		stage  v1alpha1.Stage // in which the object is created and, unless it stays, deleted
		stays  bool
		says   []string // nil if the run passes
	}{
		"a link is slowed for a moment": {stage: v1alpha1.StageMeasure, object: func(w *worldtest.World) *unstructured.Unstructured {
			return stranger(w, chaosmesh.NetworkChaos, "d-us-west-2-0")
		}, says: []string{"NetworkChaos ", "/theirs, which is no fault of the manifest, was injected into pod ", "/d-us-west-2-0 from "}},
		"a link is slowed from the warm-up on": {stage: v1alpha1.StageWarmup, stays: true, object: func(w *worldtest.World) *unstructured.Unstructured {
			return stranger(w, chaosmesh.NetworkChaos, "d-us-west-2-0")
		}, says: []string{"NetworkChaos ", "/d-us-west-2-0 from "}},
		"a worker is kept busy": {stage: v1alpha1.StageMeasure, object: func(w *worldtest.World) *unstructured.Unstructured {
			report := w.Get(kube.ReportName(w.GetRun("r"), "us-west-2", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			return stranger(w, chaosmesh.StressChaos, report.Data[deploy.KeyPod])
		}, says: []string{"StressChaos ", "was injected into pod "}},
		"an object that says it is the run's": {stage: v1alpha1.StageMeasure, object: func(w *worldtest.World) *unstructured.Unstructured {
			o := stranger(w, chaosmesh.StressChaos, "d-us-west-2-0")
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BenchmarkRun", Name: "r", UID: w.GetRun("r").UID, Controller: ptr.To(true)}})
			return o
		}, says: []string{"StressChaos "}},
		"other pods": {stage: v1alpha1.StageMeasure, object: func(w *worldtest.World) *unstructured.Unstructured {
			return stranger(w, chaosmesh.StressChaos, "e-us-west-2-0")
		}},
		"nothing but ours": {stage: v1alpha1.StageMeasure},
		"before the run": {stage: v1alpha1.StageEmulate, object: func(w *worldtest.World) *unstructured.Unstructured {
			return stranger(w, chaosmesh.StressChaos, "d-us-west-2-0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.ChaosMesh = true
			ctx, stop := context.WithCancel(t.Context())
			var following sync.WaitGroup
			following.Go(func() { w.Must(w.ChaosLog.Start(ctx)) })
			defer following.Wait()
			defer stop()
			run := worldtest.MakeRun("r").Database("d").Duration(20 * time.Second)
			if tt.says == nil {
				run.Faults(fault) // the run's own fault, injected by Chaos Mesh
			}
			w.Create(worldtest.MakeDatabase("d").Obj(), run.Obj())
			w.UntilStage("r", tt.stage)
			if tt.object != nil {
				w.Until("the run has a start", func() bool { return tt.stage == v1alpha1.StageEmulate || w.GetRun("r").Status.WarmupStartTime != nil })
				o := tt.object(w)
				w.Create(o)
				w.PlayChaosMesh()
				pod := w.Namespace + "/" + w.Chosen(o)[0]
				seen := func(over bool) {
					t.Helper()
					w.Must(wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
						all := w.ChaosLog.Between([]string{pod}, w.FakeClock.Now().Add(-time.Hour), w.FakeClock.Now().Add(time.Hour), func(*chaosaudit.Effect) bool { return false })
						return len(all) > 0 && all[0].To.IsZero() != over, nil
					}))
				}
				if seen(false); !tt.stays {
					w.FakeClock.Step(time.Second)
					w.Must(w.Client.Delete(w.Ctx, o))
					w.PlayChaosMesh()
					seen(true)
				}
				w.FakeClock.Step(time.Second)
			}
			if got := w.UntilOver("r"); tt.says != nil {
				invalid(t, got, "UndeclaredDisturbance", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}
