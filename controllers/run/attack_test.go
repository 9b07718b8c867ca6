package run_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// These tests show how a user who may write objects of the namespace, but may not read its Secrets, can affect a run.
// docs/security.md contains a table of these attacks.

// invalid fails the test unless the run is Invalid for the reason and its message contains all texts.
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

// passed fails the test unless the run has passed.
func passed(t *testing.T, run *v1alpha1.BenchmarkRun) {
	t.Helper()
	if st := &run.Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s %s: %s; want Passed", st.Verdict, st.Reason, st.Message)
	}
}

func TestResultMadeBeforehandIsNotRead(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilStage("r", v1alpha1.StageMeasure)
	w.Must(w.Client.Create(w.Ctx, w.Forgery(run, true)))
	run = w.UntilOver("r")
	invalid(t, run, "ResultForged", "ConfigMap r-result")
	if run.Status.Summary != nil || run.Status.ReportRef != nil {
		t.Errorf("the status shows %+v of %+v", run.Status.Summary, run.Status.ReportRef)
	}
}

// A ConfigMap with the result's name and no owner, or another owner, is not overwritten. The run reports the conflict
// before it starts.
func TestResultOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	run := worldtest.MakeRun("r").Database("d").Obj()
	foreign := w.Forgery(run, false)
	w.Create(worldtest.MakeDatabase("d").Obj(), foreign, run)
	now := w.UntilOver("r")
	if st := now.Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || !strings.Contains(st.Message, "ConfigMap r-result exists and does not belong to this object") {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NameTaken" {
		t.Errorf("condition %+v", c)
	}
	if w.Get("r-result", &corev1.ConfigMap{}).GetResourceVersion() != foreign.ResourceVersion {
		t.Error("it was written to")
	}
}

// A result cannot be changed, and the operator does not accept a replacement.
func TestResultIsImmutable(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilOver("r")
	cm := w.Get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if cm.Immutable == nil || !*cm.Immutable {
		t.Error("the result can be changed")
	}
	w.Must(w.Client.Delete(w.Ctx, cm))
	w.Must(w.Client.Create(w.Ctx, w.Forgery(run, true)))
	second := worldtest.MakeRun("s").Database("d")
	second.Spec.BaselineRef = &v1alpha1.LocalReference{Name: "r"}
	w.Create(second.Obj())
	st := w.UntilOver("s").Status
	if st.Baseline == nil || st.Baseline.Verdict != v1alpha1.ChangeUndecided || !strings.Contains(st.Baseline.Message, "it is not the one that its BenchmarkRun has left") {
		t.Errorf("baseline %+v", st.Baseline)
	}
}

func TestForgedReports(t *testing.T) {
	committed := func(w *worldtest.World, n int64) []byte {
		r := w.GetRun("r")
		var dw deploy.Worker
		w.ReadJSON(kube.WorkerName(r, "us-west-2"), run.WorkerKey, &dw)
		was := w.Committed
		w.Committed = n
		packed, err := w.Report(&dw, &r.Spec.Load, 0).Encode()
		w.Committed = was
		w.Must(err)
		return packed
	}
	tests := map[string]struct {
		when   v1alpha1.Stage
		attack func(w *worldtest.World, cm *corev1.ConfigMap)
		says   string
	}{
		"a report is replaced": {v1alpha1.StageEvaluate, func(w *worldtest.World, cm *corev1.ConfigMap) {
			cm.BinaryData[deploy.KeyReport] = committed(w, 2*w.Committed)
		}, "worker 0 of region us-west-2"},
		"a report comes before the worker's": {v1alpha1.StageMeasure, func(w *worldtest.World, cm *corev1.ConfigMap) {
			cm.Data[deploy.KeyState] = deploy.StateDone
			cm.BinaryData = map[string][]byte{deploy.KeyReport: committed(w, 2*w.Committed)}
		}, "worker 0 of region us-west-2"},
		"the report is that of another worker": {v1alpha1.StageEvaluate, func(w *worldtest.World, cm *corev1.ConfigMap) {
			other := w.Get(kube.ReportName(w.GetRun("r"), "ap-northeast-1", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			cm.Data, cm.BinaryData = other.Data, other.BinaryData
		}, "worker 0 of region us-west-2"},
		"a worker is told another start": {v1alpha1.StageMeasure, func(w *worldtest.World, cm *corev1.ConfigMap) {
			start, err := time.Parse(time.RFC3339Nano, cm.Data[deploy.KeyStartAt])
			w.Must(err)
			cm.Data[deploy.KeyStartAt] = start.Add(-time.Second).Format(time.RFC3339Nano)
		}, "start"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Pending = 1 // so that stage Evaluate waits
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", tt.when)
			cm := w.Get(kube.ReportName(w.GetRun("r"), "us-west-2", 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
			tt.attack(w, cm)
			w.Must(w.Client.Update(w.Ctx, cm))
			w.Pending = 0
			invalid(t, w.UntilOver("r"), "ReportForged", tt.says, kube.ReportName(w.GetRun("r"), "us-west-2", 0))
		})
	}
}

// Workers execute the configuration that they read. If a user changes the configuration before the workers read it,
// their reports reveal the change.
func TestWorkersAreToldSomethingElse(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.WorkersHang = ptr.To("")
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.Until("the workers are made", func() bool {
		return w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: kube.WorkerName(w.GetRun("r"), "us-west-2")}, &corev1.ConfigMap{}) == nil
	})
	cm := w.Get(kube.WorkerName(w.GetRun("r"), "us-west-2"), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	w.Must(w.Client.Delete(w.Ctx, cm))
	cm.ResourceVersion, cm.UID = "", ""
	cm.Data[run.WorkerKey] = strings.Replace(cm.Data[run.WorkerKey], `"seed":1`, `"seed":7`, 1)
	w.Must(w.Client.Create(w.Ctx, cm))
	w.WorkersHang = nil
	invalid(t, w.UntilOver("r"), "ReportForged", "worker 0 of region us-west-2", "configuration")
}

// The operator accepts only snapshots of the nodes that it has written itself.
func TestSnapshotsAreSealed(t *testing.T) {
	for name, attack := range map[string]func(w *worldtest.World, cm *corev1.ConfigMap){
		"changed": func(w *worldtest.World, cm *corev1.ConfigMap) {
			const snapshotBefore = "before.json.gz"
			var s map[string]any
			w.Must(compress.UnpackJSON(cm.BinaryData[snapshotBefore], &s))
			for _, node := range s["nodes"].([]any) {
				node.(map[string]any)["cpuSeconds"] = -1000
			}
			b, err := compress.JSON(s)
			w.Must(err)
			cm.BinaryData[snapshotBefore] = b
			w.Must(w.Client.Update(w.Ctx, cm))
		},
		"deleted": func(w *worldtest.World, cm *corev1.ConfigMap) { w.Must(w.Client.Delete(w.Ctx, cm)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			run := w.UntilStage("r", v1alpha1.StageMeasure)
			attack(w, w.Get(kube.SnapshotName(run), &corev1.ConfigMap{}).(*corev1.ConfigMap))
			invalid(t, w.UntilOver("r"), "SnapshotForged", kube.SnapshotName(run))
		})
	}
}

// A run whose workers' clocks differ too much does not start, whichever clock is ahead.
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
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			if tt.after != "" {
				w.UntilStage("r", tt.after)
			}
			w.ClockBehind = map[string]time.Duration{"ap-northeast-1": tt.behind}
			run := w.UntilOver("r")
			if tt.invalid {
				invalid(t, run, "ClocksApart", "worker 0 of region ap-northeast-1", "400ms")
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}

// The result shows the network that was measured, not the profile at the end of the run.
func TestProfileIsEditedDuringARun(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(w.Profile("wan", 100*time.Millisecond), worldtest.MakeDatabase("d").ProfileRef("wan").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	w.EditProfile("wan", 10*time.Millisecond)
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	m := w.Document("r").Manifests
	if rtt := m.Network.Links[0].RTT.Duration; rtt != 100*time.Millisecond {
		t.Errorf("the result shows a network of %s", rtt)
	}
	if m.Database.PartitionsPerRegion != 1 {
		t.Errorf("the result shows %d partitions", m.Database.PartitionsPerRegion)
	}
	// The run reports that something was edited, and that it has continued with its original configuration.
	c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionManifestsUnchanged)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "NetworkProfile wan") || !strings.Contains(c.Message, "GeoDatabase d") {
		t.Errorf("condition %+v", c)
	}
}

// Before the run is tied to an incarnation, new nodes with an edited profile replace the database's nodes. Without a
// check, the run would measure a network other than the network for which it was accepted.
func TestProfileIsEditedWhenARunBegins(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(w.Profile("wan", 100*time.Millisecond), worldtest.MakeDatabase("d").ProfileRef("wan").Obj())
	w.UntilReady("d")
	w.Create(worldtest.MakeRun("r").Database("d").Obj())
	for w.GetRun("r").Status.Stage != v1alpha1.StageProvision {
		w.Reconcile(w.Run, w.GetRun("r"))
	}
	// The database was reconciled before the run reserved it.
	w.EditProfile("wan", 10*time.Millisecond)
	db := w.GetDatabase("d")
	db.Status.ActiveRun = ""
	w.Must(w.Client.Status().Update(w.Ctx, db))
	w.Reconcile(w.Database, db)
	db = w.GetDatabase("d")
	db.Status.ActiveRun = "r"
	w.Must(w.Client.Status().Update(w.Ctx, db))
	invalid(t, w.UntilOver("r"), "ManifestEdited", "NetworkProfile wan")
}

// The snapshot of the manifests cannot be edited, and the operator detects a replacement.
func TestManifestsAreSealed(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilStage("r", v1alpha1.StageMeasure)
	cm := w.Get(deploy.JoinName(253, run.Name, "manifests", kube.Attempt(run)), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if cm.Immutable == nil || !*cm.Immutable {
		t.Error("the snapshot can be changed")
	}
	m := &result.Manifests{}
	w.Must(compress.UnpackJSON(cm.BinaryData["manifests.json.gz"], m))
	w.Must(w.Client.Delete(w.Ctx, cm))
	m.Database.Engine.Name = "slog"
	b, err := compress.JSON(m)
	w.Must(err)
	cm.ResourceVersion, cm.UID, cm.BinaryData = "", "", map[string][]byte{"manifests.json.gz": b}
	w.Must(w.Client.Create(w.Ctx, cm))
	invalid(t, w.UntilOver("r"), "SnapshotForged", cm.Name)
}

// A topology that the operator did not write is rejected, because it would define the network with which the
// measurement is compared.
func TestTopologyIsSealed(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilStage("r", v1alpha1.StageMeasure)
	name := kube.TopologyName(w.GetDatabase("d"), run.Status.DatabaseIncarnation)
	cm := w.Get(name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	w.Must(w.Client.Delete(w.Ctx, cm))
	cm.ResourceVersion, cm.UID = "", ""
	cm.Data[database.TopologyKey] = strings.Replace(cm.Data[database.TopologyKey], "50000000", "5000000", 1)
	w.Must(w.Client.Create(w.Ctx, cm))
	invalid(t, w.UntilOver("r"), "DatabaseReplaced", "was made by somebody else")
	w.UntilReady("d")
	if inc := w.GetDatabase("d").Status.Incarnation; inc == run.Status.DatabaseIncarnation {
		t.Errorf("the database still is %s", inc)
	}
}

// A pod with the name of a kernel probe that does not belong to the database is neither used nor deleted.
func TestProbeOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	db := worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationChaosMesh).Obj()
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "d-kernel-n1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: worldtest.TestImage}}}}
	w.Create(db, foreign)
	foreign.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "probe", Image: worldtest.TestImage, ImageID: "x",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: "{}"}}}}}
	w.Must(w.Client.Status().Update(w.Ctx, foreign))
	for range 3 {
		w.Reconcile(w.Database, w.GetDatabase("d"))
	}
	c := meta.FindStatusCondition(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != "NameTaken" || !strings.Contains(c.Message, "Pod "+foreign.Name+" exists and does not belong to this object") {
		t.Errorf("condition %+v", c)
	}
	if w.Get(foreign.Name, &corev1.Pod{}).GetUID() != foreign.UID {
		t.Error("it was deleted")
	}
}

// Services, NetworkPolicies and EndpointSlices route the connections of a run's pods, and other users may write them.
// The operator notices such writes during a run, whether it repairs the object immediately or only after the run.
func TestWaysAreEdited(t *testing.T) {
	policy := func(selects map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selects}}}
	}
	turn := func(w *worldtest.World) {
		s := w.Get("d-us-west-2", &corev1.Service{}).(*corev1.Service)
		s.Spec.Selector = map[string]string{"app": "theirs"}
		w.Must(w.Client.Update(w.Ctx, s))
	}
	for name, tt := range map[string]struct {
		stage  v1alpha1.Stage
		attack func(w *worldtest.World)
		says   []string // nil if the run passes
	}{
		"a Service is edited": {stage: v1alpha1.StageMeasure, attack: turn, says: []string{"Service d-us-west-2, which decides where connections of the run's pods lead, was written to"}},
		"a Service is edited while a change waits": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) {
			w.EditProfile("p", 60*time.Millisecond)
			w.Reconcile(w.Database, w.GetDatabase("d"))
			turn(w)
		}, says: []string{"Service d-us-west-2, "}},
		"a policy is edited, and put right": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) {
			p := w.Get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
			was := p.Spec.DeepCopy()
			p.Spec.Ingress = nil
			w.Must(w.Client.Update(w.Ctx, p))
			p.Spec = *was
			w.Must(w.Client.Update(w.Ctx, p))
		}, says: []string{"NetworkPolicy d-nodes, ", "was written to"}},
		"a policy is made": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) { w.Create(policy(map[string]string{kube.LabelDatabase: "d"})) },
			says: []string{"NetworkPolicy theirs was made, and selects pods of the run"}},
		"a policy is deleted": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) {
			w.Must(w.Client.Delete(w.Ctx, w.Get("d-workers", &networkingv1.NetworkPolicy{})))
		}, says: []string{"NetworkPolicy d-workers, "}},
		"a policy for other pods": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) { w.Create(policy(map[string]string{"app": "theirs"})) }},
		"a policy before the run": {stage: v1alpha1.StageEmulate, attack: func(w *worldtest.World) { w.Create(policy(map[string]string{kube.LabelDatabase: "d"})) }},
		"a Service leads elsewhere from the beginning": {stage: v1alpha1.StageEmulate, attack: func(w *worldtest.World) {
			w.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{discoveryv1.LabelServiceName: "d-us-west-2"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}})
		}, says: []string{"EndpointSlice theirs, which Kubernetes has not made, leads those who connect to Service d-us-west-2 elsewhere"}},
		"what Kubernetes has found": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World) {
			w.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "its", Labels: map[string]string{discoveryv1.LabelServiceName: "d-us-west-2",
				discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(w.Profile("p", 100*time.Millisecond), worldtest.MakeDatabase("d").ProfileRef("p").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", tt.stage)
			tt.attack(w)
			if got := w.UntilOver("r"); tt.says != nil {
				invalid(t, got, "NetworkEdited", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}

// A policy remains relevant for the run even while no selected pod exists, because a fault has killed all of them.
func TestWaysOfKilledPods(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(),
		worldtest.MakeRun("r").Database("d").Duration(20*time.Second).Faults("[{name: kill, at: 4s, podKill: {target: {}}}]").Obj())
	w.Until("the pods are killed", func() bool { return faultIn(w.GetRun("r"), fault.WaitPropagated, fault.Cleanup, fault.Done) })
	for _, region := range []string{"us-west-2", "ap-northeast-1"} { // Kubernetes takes its time to create replacements
		w.Must(client.IgnoreNotFound(w.Client.Delete(w.Ctx, w.NodePod("d", region, 0), client.GracePeriodSeconds(0))))
	}
	w.Reconcile(w.Run, w.GetRun("r"))
	passed(t, w.UntilOver("r"))
}

// The policies of a database continue to match the running nodes while a change of its ports waits for a run. Otherwise
// connections of the run would be cut.
func TestPoliciesWaitWithTheChange(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	was := w.Get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation
	db := w.GetDatabase("d")
	db.Spec.Pods.Ports[0].Port++
	w.Must(w.Client.Update(w.Ctx, db))
	w.Reconcile(w.Database, w.GetDatabase("d"))
	if is := w.Get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation; is != was {
		t.Error("the policy of the nodes that run was written to")
	}
	passed(t, w.UntilOver("r"))
	w.Until("the change is made", func() bool {
		return w.Get("d-nodes", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Generation != was
	})
}

// If a tag was moved between the pulls of a database's machines, the regions do not run the same program.
func TestTagHasMoved(t *testing.T) {
	const a, b = "sha256:aaaa", "sha256:bbbb"
	for name, tt := range map[string]struct {
		first, second string // digests of the images in the two regions
		says          []string
	}{
		"the same":                   {"docker.io/library/db@" + a, "docker.io/library/db@" + a, nil},
		"another":                    {"docker.io/library/db@" + a, "docker.io/library/db@" + b, []string{"d-us-west-2-0", a, "d-ap-northeast-1-0", b, "name it by its digest"}},
		"another, imported":          {a, b, []string{a, b}},
		"one was imported":           {"docker.io/library/db@" + a, b, nil}, // imported digests identify something else
		"the runtime does not tell":  {"", b, nil},
		"what it tells is no digest": {"x", "y", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageEmulate)
			for region, id := range map[string]string{"us-west-2": tt.first, "ap-northeast-1": tt.second} {
				pod := w.NodePod("d", region, 0)
				pod.Status.ContainerStatuses[0].ImageID = id
				w.Must(w.Client.Status().Update(w.Ctx, pod))
			}
			if got := w.UntilOver("r"); tt.says != nil {
				invalid(t, got, "ImagesDiffer", tt.says...)
			} else {
				passed(t, got)
			}
		})
	}
}
