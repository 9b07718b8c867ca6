package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/chaoswatch"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/pack"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/wan"
)

// What whoever may write objects of the namespace, but reads none of its Secrets, can do to a run. docs/security.md has the table.

// invalid fails the test unless the run is Invalid for the reason, and its message says what.
func invalid(t *testing.T, run *v1alpha1.BenchmarkRun, reason string, says ...string) {
	t.Helper()
	st := &run.Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != reason {
		t.Errorf("the run ended %s %s: %s; want Invalid %s", st.Verdict, st.Reason, st.Message, reason)
	}
	for _, s := range says {
		if !strings.Contains(st.Message, s) {
			t.Errorf("message %q does not say %q", st.Message, s)
		}
	}
}

// passed tells how a run ended that was to pass.
func passed(t *testing.T, run *v1alpha1.BenchmarkRun) {
	t.Helper()
	if st := &run.Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s %s: %s; want Passed", st.Verdict, st.Reason, st.Message)
	}
}

// readJSON reads a key of a ConfigMap.
func (w *world) readJSON(configMap, key string, into any) {
	w.t.Helper()
	w.must(json.Unmarshal([]byte(w.get(configMap, &corev1.ConfigMap{}).(*corev1.ConfigMap).Data[key]), into))
}

// profile is a network of the regions that databases of tests have.
func (w *world) profile(name string, rtt time.Duration) *v1alpha1.NetworkProfile {
	spec := *makeDatabase("x").Spec.Network.Profile
	spec.Links[0].RTT = v1alpha1.DurationOf(rtt)
	return &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (w *world) editProfile(name string, rtt time.Duration) {
	w.t.Helper()
	p := w.get(name, &v1alpha1.NetworkProfile{}).(*v1alpha1.NetworkProfile)
	p.Spec.Links[0].RTT = v1alpha1.DurationOf(rtt)
	w.must(w.client.Update(w.ctx, p))
}

// forgery is a document with figures that nobody has measured, as the result of a run.
func (w *world) forgery(run *v1alpha1.BenchmarkRun, owned bool) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ResultName(run), Namespace: w.namespace, Labels: kube.RunLabels(run, kube.RoleResult)},
		Data: map[string]string{results.Key: `{"apiVersion": "geobench.dev/v1alpha1", "kind": "RunResult", "name": "r", "verdict": "Passed",
			"summary": {"throughputPerSecond": 999999, "latencyMicroseconds": {"p50": 1, "p99": 2}}}`},
	}
	if owned {
		cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BenchmarkRun", Name: run.Name, UID: run.UID, Controller: ptr.To(true)}}
	}
	return cm
}

func TestResultMadeBeforehandIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	run := w.untilStage("r", v1alpha1.StageMeasure)
	w.must(w.client.Create(w.ctx, w.forgery(run, true)))
	run = w.untilOver("r")
	invalid(t, run, "ResultForged", "ConfigMap r-result")
	if run.Status.Summary != nil || run.Status.ReportRef != nil {
		t.Errorf("the status shows %+v of %+v", run.Status.Summary, run.Status.ReportRef)
	}
}

// A ConfigMap of the result's name that is nobody's, or another's, is not overwritten, and the run says so before it begins.
func TestResultOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := makeRun("r").database("d").obj()
	foreign := w.forgery(run, false)
	w.create(makeDatabase("d").obj(), foreign, run)
	now := w.untilOver("r")
	if st := now.Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || !strings.Contains(st.Message, "ConfigMap r-result exists and does not belong to this object") {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NameTaken" {
		t.Errorf("condition %+v", c)
	}
	if w.get("r-result", &corev1.ConfigMap{}).GetResourceVersion() != foreign.ResourceVersion {
		t.Error("it was written to")
	}
}

// A result cannot be changed, and one that took its place is not taken for it.
func TestResultIsImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	run := w.untilOver("r")
	cm := w.get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if cm.Immutable == nil || !*cm.Immutable {
		t.Error("the result can be changed")
	}
	w.must(w.client.Delete(w.ctx, cm))
	w.must(w.client.Create(w.ctx, w.forgery(run, true)))
	second := makeRun("s").database("d")
	second.Spec.BaselineRef = &v1alpha1.LocalReference{Name: "r"}
	w.create(second.obj())
	st := w.untilOver("s").Status
	if st.Baseline == nil || st.Baseline.Verdict != v1alpha1.ChangeUndecided || !strings.Contains(st.Baseline.Message, "it is not the one that its BenchmarkRun has left") {
		t.Errorf("baseline %+v", st.Baseline)
	}
}

func TestForgedReports(t *testing.T) {
	committed := func(w *world, n int64) []byte {
		r := w.getRun("r")
		var dw deploy.Worker
		w.readJSON(kube.WorkerName(r, "us-west-2"), run.WorkerKey, &dw)
		was := w.committed
		w.committed = n
		packed, err := w.report(&dw, &r.Spec.Load, 0).Encode()
		w.committed = was
		w.must(err)
		return packed
	}
	tests := map[string]struct {
		when   v1alpha1.Stage
		attack func(w *world, cm *corev1.ConfigMap)
		says   string
	}{
		"a report is replaced": {v1alpha1.StageEvaluate, func(w *world, cm *corev1.ConfigMap) {
			cm.BinaryData[deploy.KeyReport] = committed(w, 2*w.committed)
		}, "worker 0 of region us-west-2"},
		"a report comes before the worker's": {v1alpha1.StageMeasure, func(w *world, cm *corev1.ConfigMap) {
			cm.Data[deploy.KeyState] = deploy.StateDone
			cm.BinaryData = map[string][]byte{deploy.KeyReport: committed(w, 2*w.committed)}
		}, "worker 0 of region us-west-2"},
		"the report is that of another worker": {v1alpha1.StageEvaluate, func(w *world, cm *corev1.ConfigMap) {
			other := w.get(kube.ReportName(w.getRun("r"), "ap-northeast-1", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			cm.Data, cm.BinaryData = other.Data, other.BinaryData
		}, "worker 0 of region us-west-2"},
		"a worker is told another start": {v1alpha1.StageMeasure, func(w *world, cm *corev1.ConfigMap) {
			start, err := time.Parse(time.RFC3339Nano, cm.Data[deploy.KeyStartAt])
			w.must(err)
			cm.Data[deploy.KeyStartAt] = start.Add(-time.Second).Format(time.RFC3339Nano)
		}, "start"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.pending = 1 // so that stage Evaluate waits
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			w.untilStage("r", tt.when)
			cm := w.get(kube.ReportName(w.getRun("r"), "us-west-2", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			tt.attack(w, cm)
			w.must(w.client.Update(w.ctx, cm))
			w.pending = 0
			invalid(t, w.untilOver("r"), "ReportForged", tt.says, kube.ReportName(w.getRun("r"), "us-west-2", 0))
		})
	}
}

// What workers are told is what the run says: who changes it before they read it is found out by what they report.
func TestWorkersAreToldSomethingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.workersHang = ptr.To("")
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.until("the workers are made", func() bool {
		return w.client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: kube.WorkerName(w.getRun("r"), "us-west-2")}, &corev1.ConfigMap{}) == nil
	})
	cm := w.get(kube.WorkerName(w.getRun("r"), "us-west-2"), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	w.must(w.client.Delete(w.ctx, cm))
	cm.ResourceVersion, cm.UID = "", ""
	cm.Data[run.WorkerKey] = strings.Replace(cm.Data[run.WorkerKey], `"seed":1`, `"seed":7`, 1)
	w.must(w.client.Create(w.ctx, cm))
	w.workersHang = nil
	invalid(t, w.untilOver("r"), "ReportForged", "worker 0 of region us-west-2", "configuration")
}

// What the operator notes of the nodes is its own.
func TestSnapshotsAreSealed(t *testing.T) {
	for name, attack := range map[string]func(w *world, cm *corev1.ConfigMap){
		"changed": func(w *world, cm *corev1.ConfigMap) {
			const snapshotBefore = "before.json.gz"
			var s map[string]any
			w.must(pack.UnpackJSON(cm.BinaryData[snapshotBefore], &s))
			for _, node := range s["nodes"].([]any) {
				node.(map[string]any)["cpuSeconds"] = -1000
			}
			b, err := pack.JSON(s)
			w.must(err)
			cm.BinaryData[snapshotBefore] = b
			w.must(w.client.Update(w.ctx, cm))
		},
		"deleted": func(w *world, cm *corev1.ConfigMap) { w.must(w.client.Delete(w.ctx, cm)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			run := w.untilStage("r", v1alpha1.StageMeasure)
			attack(w, w.get(kube.SnapshotName(run), &corev1.ConfigMap{}).(*corev1.ConfigMap))
			invalid(t, w.untilOver("r"), "SnapshotForged", kube.SnapshotName(run))
		})
	}
}

// Workers whose clocks are apart do not begin together, whoever is ahead.
func TestClocksAreApart(t *testing.T) {
	for name, tt := range map[string]struct {
		behind  time.Duration
		after   v1alpha1.Stage
		invalid bool
	}{
		"a little":            {30 * time.Millisecond, "", false},
		"behind":              {400 * time.Millisecond, "", true},
		"ahead":               {-400 * time.Millisecond, "", true},
		"behind by the end":   {400 * time.Millisecond, v1alpha1.StageMeasure, true},
		"a little by the end": {30 * time.Millisecond, v1alpha1.StageMeasure, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			if tt.after != "" {
				w.untilStage("r", tt.after)
			}
			w.clockBehind = map[string]time.Duration{"ap-northeast-1": tt.behind}
			run := w.untilOver("r")
			if tt.invalid {
				invalid(t, run, "ClocksApart", "worker 0 of region ap-northeast-1", "400ms")
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// The result shows the network that was measured, not what its profile says by then.
func TestProfileIsEditedDuringARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(w.profile("wan", 100*time.Millisecond), makeDatabase("d").profileRef("wan").obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	w.editProfile("wan", 10*time.Millisecond)
	w.patchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	run := w.untilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	m := w.document("r").Manifests
	if rtt := m.Network.Links[0].RTT.Duration; rtt != 100*time.Millisecond {
		t.Errorf("the result shows a network of %s", rtt)
	}
	if m.Database.PartitionsPerRegion != 1 {
		t.Errorf("the result shows %d partitions", m.Database.PartitionsPerRegion)
	}
	// Whoever looks at the run learns that something was edited, and that the run has gone on as it began.
	c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionManifestsUnchanged)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "NetworkProfile wan") || !strings.Contains(c.Message, "GeoDatabase d") {
		t.Errorf("condition %+v", c)
	}
}

// The database's nodes are made anew with an edited profile before the run is tied to them: it would measure another network
// than the one that it was let in for.
func TestProfileIsEditedWhenARunBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(w.profile("wan", 100*time.Millisecond), makeDatabase("d").profileRef("wan").obj())
	w.untilReady("d")
	w.create(makeRun("r").database("d").obj())
	for w.getRun("r").Status.Stage != v1alpha1.StageProvision {
		w.reconcile(w.run, w.getRun("r"))
	}
	// The database looked before the run had taken it.
	w.editProfile("wan", 10*time.Millisecond)
	db := w.getDatabase("d")
	db.Status.ActiveRun = ""
	w.must(w.client.Status().Update(w.ctx, db))
	w.reconcile(w.database, db)
	db = w.getDatabase("d")
	db.Status.ActiveRun = "r"
	w.must(w.client.Status().Update(w.ctx, db))
	invalid(t, w.untilOver("r"), "ManifestEdited", "NetworkProfile wan")
}

// The snapshot of the manifests cannot be edited, and one that took its place shows.
func TestManifestsAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	run := w.untilStage("r", v1alpha1.StageMeasure)
	cm := w.get(deploy.JoinName(253, run.Name, "manifests", kube.Attempt(run)), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if cm.Immutable == nil || !*cm.Immutable {
		t.Error("the snapshot can be changed")
	}
	m := &result.Manifests{}
	w.must(pack.UnpackJSON(cm.BinaryData["manifests.json.gz"], m))
	w.must(w.client.Delete(w.ctx, cm))
	m.Database.Engine.Name = "slog"
	b, err := pack.JSON(m)
	w.must(err)
	cm.ResourceVersion, cm.UID, cm.BinaryData = "", "", map[string][]byte{"manifests.json.gz": b}
	w.must(w.client.Create(w.ctx, cm))
	invalid(t, w.untilOver("r"), "SnapshotForged", cm.Name)
}

// onTime fails the test unless a fault had its true times within the tolerance of its plan.
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

// Nodes and sidecars keep the time of their faults by themselves: whatever keeps the operator busy, or the API server away, they begin
// and end when they should.
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
			w := newWorld(t)
			w.create(makeDatabase("d").emulation(tt.emulation).obj(), makeRun("r").database("d").duration(40*time.Second).faults(tt.faults).obj())
			w.untilStage("r", v1alpha1.StageMeasure)
			start := w.getRun("r").Status.MeasureStartTime.Time
			w.until("it is time", func() bool { return w.clock.Since(start) >= tt.until })
			w.away(tt.for_)
			run := w.untilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
			doc := w.document("r")
			for i := range doc.Faults {
				onTime(t, &doc.Faults[i], 5*time.Millisecond)
			}
			if len(doc.Deviations) > 0 {
				t.Errorf("%+v", doc.Deviations)
			}
		})
	}
}

// A fault that was not when its plan has it makes the run Invalid, whoever injects it.
func TestFaultMistimed(t *testing.T) {
	const slow = "{name: slow, at: 3s, duration: 4s, cpuStress: {target: {regions: [us-west-2]}}"
	node := func(w *world) *fakeNode { return w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP] }
	for name, tt := range map[string]struct {
		emulation v1alpha1.Emulation
		faults    string
		world     func(w *world) // when measuring begins
		reason    string
		says      string
	}{
		"within the tolerance":                   {faults: "[" + slow + "}]", world: func(w *world) { node(w).late = 200 * time.Millisecond }},
		"late":                                   {faults: "[" + slow + "}]", world: func(w *world) { node(w).late = 300 * time.Millisecond }, reason: "FaultMistimed", says: "fault slow began at 3.3s, planned for 3s: 300ms late"},
		"late, within a tolerance of its own":    {faults: "[" + slow + ", tolerance: 1s}]", world: func(w *world) { node(w).late = 300 * time.Millisecond }},
		"on time, with no tolerance to speak of": {faults: "[" + slow + ", tolerance: 5ms}]", world: func(w *world) {}},
		"late, and its tolerance is less":        {faults: "[" + slow + ", tolerance: 20ms}]", world: func(w *world) { node(w).late = 30 * time.Millisecond }, reason: "FaultMistimed", says: "20ms is allowed"},
		"never":                                  {faults: "[" + slow + "}]", world: func(w *world) { node(w).idle = true }, reason: "FaultFailed", says: "fault slow"},
		"never, but in an earlier run": {faults: "[" + slow + "}]", world: func(w *world) {
			n := node(w)
			n.idle = true
			n.log.Change(time.Minute, &admin.Disturbance{SlowPercent: 100})
			n.log.Change(time.Minute+4*time.Second, nil)
		}, reason: "FaultFailed", says: "fault slow"},
		"ended by somebody": {faults: "[" + slow + "}]", world: func(w *world) {
			w.until("it lasts", func() bool { return faultIn(w.getRun("r"), fault.Active) })
			n := node(w)
			n.do(w.clock.Since(n.zero), &admin.Disturbance{})
		}, reason: "FaultMistimed", says: "fault slow ended at"},
		"sidecars are late": {emulation: v1alpha1.EmulationSidecar, faults: "[{name: slow, at: 3s, duration: 4s, networkDelay: {between: {}, delay: 10ms}}]",
			world: func(w *world) { w.sidecars.late = 400 * time.Millisecond }, reason: "FaultMistimed", says: "fault slow began at 3.4s"},
		"the operator is away when a pod is to be killed": {faults: "[{name: kill, at: 3s, podKill: {target: {regions: [ap-northeast-1]}}}]",
			world: func(w *world) { w.away(6 * time.Second) }, reason: "FaultMistimed", says: "fault kill began at 6"},
		"the operator is away, and Chaos Mesh is to begin": {faults: "[{name: full, at: 3s, duration: 3s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}]",
			world: func(w *world) { w.away(6 * time.Second) }, reason: "FaultMistimed", says: "and 2s is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.chaosMesh = true
			db := makeDatabase("d")
			if tt.emulation != "" {
				db.emulation(tt.emulation)
			}
			w.create(db.obj(), makeRun("r").database("d").duration(30*time.Second).faults(tt.faults).obj())
			w.untilStage("r", v1alpha1.StageMeasure)
			tt.world(w)
			run := w.untilOver("r")
			if tt.reason != "" {
				invalid(t, run, tt.reason, tt.says)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// What is done to nodes and links in a window that the manifest does not say makes the run Invalid, however short it is.
func TestUndeclaredDisturbances(t *testing.T) {
	faster := geo.Link{Delay: time.Millisecond}
	disturb := func(d admin.Disturbance, for_ time.Duration) func(w *world) {
		return func(w *world) {
			n := w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP]
			n.do(w.clock.Since(n.zero), &d)
			w.clock.Step(for_)
			n.do(w.clock.Since(n.zero), &admin.Disturbance{})
		}
	}
	fast := func(for_ time.Duration) func(w *world) {
		return func(w *world) {
			n := w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP]
			from := w.clock.Since(n.zero)
			w.clock.Step(for_)
			n.log.Fast = append(n.log.Fast, admin.FastLink{To: "ap-northeast-1", Node: "ap-northeast-1/0/0", From: from, Until: w.clock.Since(n.zero), Median: 20 * time.Millisecond})
		}
	}
	// A log is filled with what was done a while ago, or is being done now.
	fillNode := func(w *world, ago time.Duration) {
		n := w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP]
		at := w.clock.Since(n.zero) - ago
		for i := range time.Duration(2*admin.MaxLog + 2) {
			n.log.Change(at+i, []*admin.Disturbance{{Cut: []int{1}}, nil}[i%2])
		}
	}
	fillSidecar := func(w *world, ago time.Duration) {
		log := w.sidecars.logs[w.nodePod("d", "us-west-2", 0).UID]
		declared := log.Entries[0].Config
		other := declared
		other.QueueBytes++
		at := w.clock.Now().Add(-ago)
		log.Since = w.clock.Now().Add(-time.Hour)
		log.Entries[0].From = log.Since
		for i := range time.Duration(wan.MaxLog + 2) {
			log.Change(at.Add(i), []*wan.Config{&other, &declared}[i%2])
		}
	}
	sidecarFiles := func(w *world) {
		cm := w.get("d-network-us-west-2", &corev1.ConfigMap{}).(*corev1.ConfigMap)
		for file, text := range cm.Data {
			cm.Data[file] = strings.Replace(text, `"delayMicros": 50000`, `"delayMicros": 500`, 1)
		}
		w.must(w.client.Update(w.ctx, cm))
		w.away(time.Second) // then the operator writes them anew
	}
	for name, tt := range map[string]struct {
		emulation v1alpha1.Emulation
		faults    string
		stage     v1alpha1.Stage
		attack    func(w *world)
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
			attack: func(w *world) {
				w.until("it is over", func() bool { return faultIn(w.getRun("r"), fault.Done) })
				w.clock.Step(3 * time.Second)
				disturb(admin.Disturbance{SlowPercent: 100}, time.Second)(w) // the same once more
			}, says: []string{"slower by 100% from"}},
		"while it warms up": {stage: v1alpha1.StageWarmup, attack: func(w *world) {
			w.until("the start is known", func() bool { return w.getRun("r").Status.WarmupStartTime != nil })
			disturb(admin.Disturbance{Cut: []int{1}}, time.Millisecond)(w)
		}},
		"the sidecars' files": {emulation: v1alpha1.EmulationSidecar, attack: sidecarFiles,
			says: []string{"sidecar of pod d-us-west-2-0: link ap-northeast-1 -> us-west-2 delay 500", "which no fault of the manifest declares"}},
		"the workers' sidecars alone": {emulation: v1alpha1.EmulationSidecar, attack: func(w *world) {
			cm := w.get("d-network-us-west-2", &corev1.ConfigMap{}).(*corev1.ConfigMap)
			cm.Data["config.json"] = strings.Replace(cm.Data["config.json"], `"links"`, `"exemptPorts": [7000], "links"`, 1)
			w.must(w.client.Update(w.ctx, cm))
			w.away(time.Second)
		}, says: []string{"sidecar of pod r-us-west-2-", "other peers, ports or limits"}},
		"nobody says what was done, but a link is faster": {attack: fast(2 * time.Second), reason: "LinkTooFast",
			says: []string{"link us-west-2/0/0 -> ap-northeast-1/0/0: round trips took 20ms (median) from", "100ms is declared, and no fault"}},
		"a link is faster while a fault changes it": {faults: "[{name: slow, at: 0s, duration: 18s, networkDelay: {between: {}, delay: 10ms, jitter: 20ms}}]", attack: func(w *world) {
			w.until("it lasts", func() bool { return faultIn(w.getRun("r"), fault.Active) })
			fast(time.Second)(w)
		}},
		"a link is faster while it warms up": {stage: v1alpha1.StageWarmup, attack: func(w *world) {
			w.until("the start is known", func() bool { return w.getRun("r").Status.WarmupStartTime != nil })
			fast(time.Millisecond)(w)
		}},
		"a sidecar that starts anew": {emulation: v1alpha1.EmulationSidecar, attack: func(w *world) {
			delete(w.sidecars.logs, w.nodePod("d", "us-west-2", 0).UID)
		}, says: []string{"sidecar of pod d-us-west-2-0: started anew"}},
		"the log of a node is full, of earlier runs": {attack: func(w *world) { fillNode(w, 50*time.Minute) }},
		"a cut, and the log of the node is full": {attack: func(w *world) {
			fillNode(w, 50*time.Minute)
			disturb(admin.Disturbance{Cut: []int{1}}, time.Millisecond)(w)
		}, says: []string{"us-west-2/0/0: cut off from node ap-northeast-1/0/0 from"}},
		"more is done to a node than its log holds": {attack: func(w *world) { fillNode(w, 0) }, says: []string{"us-west-2/0/0: unknown, since it was disturbed more often than the 1000 times that its log has kept from -2s to 1ms"}},
		"the log of a sidecar is full, of earlier runs": {emulation: v1alpha1.EmulationSidecar, attack: func(w *world) { fillSidecar(w, 50*time.Minute) },
			faults: "[{name: slow, at: 2s, duration: 4s, networkDelay: {between: {}, delay: 10ms}}]"},
		"the sidecars' files, and the log of a sidecar is full": {emulation: v1alpha1.EmulationSidecar, attack: func(w *world) {
			fillSidecar(w, 50*time.Minute)
			sidecarFiles(w)
		}, says: []string{"sidecar of pod d-us-west-2-0: link ap-northeast-1 -> us-west-2 delay 500"}},
		"more is done to a sidecar than its log holds": {emulation: v1alpha1.EmulationSidecar, attack: func(w *world) { fillSidecar(w, 0) },
			says: []string{"sidecar of pod d-us-west-2-0: unknown, since its network changed more than 200 times from -2s to 1ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			db, run := makeDatabase("d"), makeRun("r").database("d").duration(20*time.Second)
			if tt.emulation != "" {
				db.emulation(tt.emulation)
			}
			if tt.faults != "" {
				run.faults(tt.faults)
			}
			if tt.stage == "" {
				tt.stage = v1alpha1.StageMeasure
			}
			w.create(db.obj(), run.obj())
			w.untilStage("r", tt.stage)
			tt.attack(w)
			if now := w.untilOver("r"); tt.says != nil {
				invalid(t, now, cmp.Or(tt.reason, "UndeclaredDisturbance"), tt.says...)
			} else if now.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", now.Status.Verdict, now.Status.Reason, now.Status.Message)
			}
		})
	}
}

// Chaos Mesh shuts a pod down by replacing its images, that of its sidecar too, which starts anew as planned. A sidecar
// that starts anew at another time, or does something else afterwards, is noticed.
func TestSidecarsOfPodsThatAreShutDown(t *testing.T) {
	const down = "{name: down, at: 3s, duration: 4s, nodeShutdown: {target: {regions: [us-west-2]}}}"
	const link = "name: slow, networkDelay: {between: {}, delay: 10ms}"
	forget := func(w *world, region string) { delete(w.sidecars.logs, w.nodePod("d", region, 0).UID) }
	for name, tt := range map[string]struct {
		faults string
		attack func(w *world) // once the pod runs again
		says   string         // nothing where the run passes
	}{
		"alone":                             {faults: "[" + down + "]"},
		"while a link is slower":            {faults: "[" + down + ", {" + link + ", at: 1s, duration: 12s}]"},
		"when a link becomes slower":        {faults: "[" + down + ", {" + link + ", at: 5s, duration: 8s}]"},
		"when a link is no longer slower":   {faults: "[" + down + ", {" + link + ", at: 1s, duration: 4s}]"},
		"after a link was slower":           {faults: "[" + down + ", {" + link + ", at: 0s, duration: 1s}]"},
		"and its sidecar starts once again": {faults: "[" + down + "]", attack: func(w *world) { forget(w, "us-west-2") }, says: "sidecar of pod d-us-west-2-0: started anew"},
		"and another sidecar starts anew":   {faults: "[" + down + "]", attack: func(w *world) { forget(w, "ap-northeast-1") }, says: "sidecar of pod d-ap-northeast-1-0: started anew"},
		"and its network is another afterwards": {faults: "[" + down + "]", attack: func(w *world) {
			log := w.sidecars.logs[w.nodePod("d", "us-west-2", 0).UID]
			other := log.Entries[0].Config
			other.QueueBytes++
			log.Change(w.clock.Now(), &other)
			w.clock.Step(time.Second)
		}, says: "sidecar of pod d-us-west-2-0: other peers, ports or limits from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.chaosMesh = true
			db := makeDatabase("d").emulation(v1alpha1.EmulationSidecar).obj()
			db.Spec.Durability = v1alpha1.DurabilityJournal
			w.create(db, makeRun("r").database("d").by(v1alpha1.FaultInjectionChaosMesh).duration(20*time.Second).faults(tt.faults).obj())
			w.until("the pod is shut down", func() bool { return w.shutDown["d-us-west-2-0"] })
			w.until("it runs again", func() bool {
				return slices.ContainsFunc(w.getRun("r").Status.Faults, func(f v1alpha1.FaultStatus) bool { return f.Name == "down" && f.State == string(fault.Done) })
			})
			if tt.attack != nil {
				w.away(3 * time.Second)
				tt.attack(w)
			}
			run := w.untilOver("r")
			if tt.says != "" {
				invalid(t, run, "UndeclaredDisturbance", tt.says)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// Chaos Mesh does to the pods of a run what anybody who may make its objects asks for, from whichever namespace, and they may be gone again
// when somebody looks.
func TestStrangersChaos(t *testing.T) {
	stranger := func(w *world, kind string, pods ...string) *unstructured.Unstructured {
		var of []any
		for _, p := range pods {
			of = append(of, p)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{"pods": map[string]any{w.namespace: of}}}}}
		o.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind))
		o.SetName("theirs")
		return o
	}
	const fault = "[{name: full, at: 3s, duration: 3s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}]"
	for name, tt := range map[string]struct {
		object func(w *world) *unstructured.Unstructured
		stage  v1alpha1.Stage // at which it is made and, unless it stays, deleted
		stays  bool
		says   []string // nothing where the run passes
	}{
		"a link is slowed for a moment": {stage: v1alpha1.StageMeasure, object: func(w *world) *unstructured.Unstructured {
			return stranger(w, chaosmesh.NetworkChaos, "d-us-west-2-0")
		}, says: []string{"NetworkChaos ", "/theirs, which is no fault of the manifest, was injected into pod ", "/d-us-west-2-0 from "}},
		"a link is slowed from the warm-up on": {stage: v1alpha1.StageWarmup, stays: true, object: func(w *world) *unstructured.Unstructured {
			return stranger(w, chaosmesh.NetworkChaos, "d-us-west-2-0")
		}, says: []string{"NetworkChaos ", "/d-us-west-2-0 from "}},
		"a worker is kept busy": {stage: v1alpha1.StageMeasure, object: func(w *world) *unstructured.Unstructured {
			report := w.get(kube.ReportName(w.getRun("r"), "us-west-2", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			return stranger(w, chaosmesh.StressChaos, report.Data[deploy.KeyPod])
		}, says: []string{"StressChaos ", "was injected into pod "}},
		"an object that says it is the run's": {stage: v1alpha1.StageMeasure, object: func(w *world) *unstructured.Unstructured {
			o := stranger(w, chaosmesh.StressChaos, "d-us-west-2-0")
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BenchmarkRun", Name: "r", UID: w.getRun("r").UID, Controller: ptr.To(true)}})
			return o
		}, says: []string{"StressChaos "}},
		"other pods":       {stage: v1alpha1.StageMeasure, object: func(w *world) *unstructured.Unstructured { return stranger(w, chaosmesh.StressChaos, "e-us-west-2-0") }},
		"nothing but ours": {stage: v1alpha1.StageMeasure},
		"before the run": {stage: v1alpha1.StageEmulate, object: func(w *world) *unstructured.Unstructured {
			return stranger(w, chaosmesh.StressChaos, "d-us-west-2-0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.chaosMesh = true
			ctx, stop := context.WithCancel(t.Context())
			var following sync.WaitGroup
			following.Go(func() { w.must(w.chaosLog.Start(ctx)) })
			defer following.Wait()
			defer stop()
			run := makeRun("r").database("d").duration(20 * time.Second)
			if tt.says == nil {
				run.faults(fault) // of Chaos Mesh, and the run's own
			}
			w.create(makeDatabase("d").obj(), run.obj())
			w.untilStage("r", tt.stage)
			if tt.object != nil {
				w.until("the run has a start", func() bool { return tt.stage == v1alpha1.StageEmulate || w.getRun("r").Status.WarmupStartTime != nil })
				o := tt.object(w)
				w.create(o)
				w.playChaosMesh()
				pod := w.namespace + "/" + w.chosen(o)[0]
				seen := func(over bool) {
					t.Helper()
					w.must(wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
						all := w.chaosLog.Between([]string{pod}, w.clock.Now().Add(-time.Hour), w.clock.Now().Add(time.Hour), func(*chaoswatch.Effect) bool { return false })
						return len(all) > 0 && all[0].To.IsZero() != over, nil
					}))
				}
				if seen(false); !tt.stays {
					w.clock.Step(time.Second)
					w.must(w.client.Delete(w.ctx, o))
					w.playChaosMesh()
					seen(true)
				}
				w.clock.Step(time.Second)
			}
			if got := w.untilOver("r"); tt.says != nil {
				invalid(t, got, "UndeclaredDisturbance", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}

// A topology that is not the operator's is none: it would say what the network is held to.
func TestTopologyIsSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	run := w.untilStage("r", v1alpha1.StageMeasure)
	name := kube.TopologyName(w.getDatabase("d"), run.Status.DatabaseIncarnation)
	cm := w.get(name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	w.must(w.client.Delete(w.ctx, cm))
	cm.ResourceVersion, cm.UID = "", ""
	cm.Data[database.TopologyKey] = strings.Replace(cm.Data[database.TopologyKey], "50000000", "5000000", 1)
	w.must(w.client.Create(w.ctx, cm))
	invalid(t, w.untilOver("r"), "DatabaseReplaced", "was made by somebody else")
	w.untilReady("d")
	if inc := w.getDatabase("d").Status.Incarnation; inc == run.Status.DatabaseIncarnation {
		t.Errorf("the database still is %s", inc)
	}
}

// A pod of the name of a kernel's probe that is not the database's answers for nobody, and is not deleted.
func TestProbeOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chaosMesh = true
	db := makeDatabase("d").emulation(v1alpha1.EmulationChaosMesh).obj()
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "d-kernel-n1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: testImage}}}}
	w.create(db, foreign)
	foreign.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "probe", Image: testImage, ImageID: "x",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: "{}"}}}}}
	w.must(w.client.Status().Update(w.ctx, foreign))
	for range 3 {
		w.reconcile(w.database, w.getDatabase("d"))
	}
	c := meta.FindStatusCondition(w.getDatabase("d").Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != "NameTaken" || !strings.Contains(c.Message, "Pod "+foreign.Name+" exists and does not belong to this object") {
		t.Errorf("condition %+v", c)
	}
	if w.get(foreign.Name, &corev1.Pod{}).GetUID() != foreign.UID {
		t.Error("it was deleted")
	}
}

// Where the connections of a run's pods lead is decided by Services, NetworkPolicies and EndpointSlices, which others may write: what they
// write while a run goes on is noticed, even where the operator puts it right, or waits with that until the run is over.
func TestWaysAreEdited(t *testing.T) {
	policy := func(selects map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selects}}}
	}
	turn := func(w *world) {
		s := w.get("d-us-west-2", &corev1.Service{}).(*corev1.Service)
		s.Spec.Selector = map[string]string{"app": "theirs"}
		w.must(w.client.Update(w.ctx, s))
	}
	for name, tt := range map[string]struct {
		stage  v1alpha1.Stage
		attack func(w *world)
		says   []string // nothing where the run passes
	}{
		"a Service is edited": {stage: v1alpha1.StageMeasure, attack: turn, says: []string{"Service d-us-west-2, which decides where connections of the run's pods lead, was written to"}},
		"a Service is edited while a change waits": {stage: v1alpha1.StageMeasure, attack: func(w *world) {
			w.editProfile("p", 60*time.Millisecond)
			w.reconcile(w.database, w.getDatabase("d"))
			turn(w)
		}, says: []string{"Service d-us-west-2, "}},
		"a policy is edited, and put right": {stage: v1alpha1.StageMeasure, attack: func(w *world) {
			p := w.get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
			was := p.Spec.DeepCopy()
			p.Spec.Ingress = nil
			w.must(w.client.Update(w.ctx, p))
			p.Spec = *was
			w.must(w.client.Update(w.ctx, p))
		}, says: []string{"NetworkPolicy d-nodes, ", "was written to"}},
		"a policy is made": {stage: v1alpha1.StageMeasure, attack: func(w *world) { w.create(policy(map[string]string{kube.LabelDatabase: "d"})) },
			says: []string{"NetworkPolicy theirs was made, and selects pods of the run"}},
		"a policy is deleted": {stage: v1alpha1.StageMeasure, attack: func(w *world) {
			w.must(w.client.Delete(w.ctx, w.get("d-workers", &networkingv1.NetworkPolicy{})))
		}, says: []string{"NetworkPolicy d-workers, "}},
		"a policy for other pods": {stage: v1alpha1.StageMeasure, attack: func(w *world) { w.create(policy(map[string]string{"app": "theirs"})) }},
		"a policy before the run": {stage: v1alpha1.StageEmulate, attack: func(w *world) { w.create(policy(map[string]string{kube.LabelDatabase: "d"})) }},
		"a Service leads elsewhere from the beginning": {stage: v1alpha1.StageEmulate, attack: func(w *world) {
			w.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{discoveryv1.LabelServiceName: "d-us-west-2"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}})
		}, says: []string{"EndpointSlice theirs, which Kubernetes has not made, leads those who connect to Service d-us-west-2 elsewhere"}},
		"what Kubernetes has found": {stage: v1alpha1.StageMeasure, attack: func(w *world) {
			w.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "its", Labels: map[string]string{discoveryv1.LabelServiceName: "d-us-west-2",
				discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(w.profile("p", 100*time.Millisecond), makeDatabase("d").profileRef("p").obj(), makeRun("r").database("d").obj())
			w.untilStage("r", tt.stage)
			tt.attack(w)
			if got := w.untilOver("r"); tt.says != nil {
				invalid(t, got, "NetworkEdited", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}

// A policy does not stop to be the run's while a fault has killed all the pods that it selects.
func TestWaysOfKilledPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(),
		makeRun("r").database("d").duration(20*time.Second).faults("[{name: kill, at: 4s, podKill: {target: {}}}]").obj())
	w.until("the pods are killed", func() bool { return faultIn(w.getRun("r"), fault.WaitPropagated, fault.Cleanup, fault.Done) })
	for _, region := range []string{"us-west-2", "ap-northeast-1"} { // Kubernetes takes its time to make others
		w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, w.nodePod("d", region, 0), client.GracePeriodSeconds(0))))
	}
	w.reconcile(w.run, w.getRun("r"))
	passed(t, w.untilOver("r"))
}

// The policies of a database stay those of the nodes that run while a change of its ports waits for a run: connections of the run would be cut.
func TestPoliciesWaitWithTheChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	was := w.get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation
	db := w.getDatabase("d")
	db.Spec.Pods.Ports[0].Port++
	w.must(w.client.Update(w.ctx, db))
	w.reconcile(w.database, w.getDatabase("d"))
	if is := w.get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation; is != was {
		t.Error("the policy of the nodes that run was written to")
	}
	passed(t, w.untilOver("r"))
	w.until("the change is made", func() bool {
		return w.get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation != was
	})
}

// A tag that has moved between the times at which the machines of a database pulled it is not the same program in all regions.
func TestTagHasMoved(t *testing.T) {
	const a, b = "sha256:aaaa", "sha256:bbbb"
	for name, tt := range map[string]struct {
		first, second string // of the images of the two regions
		says          []string
	}{
		"the same":                   {"docker.io/library/db@" + a, "docker.io/library/db@" + a, nil},
		"another":                    {"docker.io/library/db@" + a, "docker.io/library/db@" + b, []string{"d-us-west-2-0", a, "d-ap-northeast-1-0", b, "name it by its digest"}},
		"another, imported":          {a, b, []string{a, b}},
		"one was imported":           {"docker.io/library/db@" + a, b, nil}, // its digest is of something else
		"the runtime does not tell":  {"", b, nil},
		"what it tells is no digest": {"x", "y", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			w.untilStage("r", v1alpha1.StageEmulate)
			for region, id := range map[string]string{"us-west-2": tt.first, "ap-northeast-1": tt.second} {
				pod := w.nodePod("d", region, 0)
				pod.Status.ContainerStatuses[0].ImageID = id
				w.must(w.client.Status().Update(w.ctx, pod))
			}
			if got := w.untilOver("r"); tt.says != nil {
				invalid(t, got, "ImagesDiffer", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}
