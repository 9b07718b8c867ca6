package worldtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/bench/result"
)

// ActiveStages lists all stages that are not final, in order.
var ActiveStages = []v1alpha1.Stage{
	v1alpha1.StagePreflight, v1alpha1.StageProvision, v1alpha1.StageEmulate, v1alpha1.StageLoad, v1alpha1.StageWarmup,
	v1alpha1.StageMeasure, v1alpha1.StageRecover, v1alpha1.StageCollect, v1alpha1.StageEvaluate,
}

// RanOnce checks that every worker ran once and that all workers received the same start time.
func (w *World) RanOnce() {
	w.T.Helper()
	for job, n := range w.JobsRun {
		if n != 1 {
			w.T.Errorf("worker %s ran %d times", job, n)
		}
	}
	w.StartedOnce()
}

// StartedOnce checks that all workers of each run received the same start time.
func (w *World) StartedOnce() {
	w.T.Helper()
	for run, starts := range w.Starts {
		if len(slices.Compact(slices.Clone(starts))) != 1 {
			w.T.Errorf("workers of run %s were told different starts: %v", run, starts)
		}
	}
}

// UntilAtLeast steps until the run has reached the given stage or a later stage. Short stages may pass within one step.
func (w *World) UntilAtLeast(name string, stage v1alpha1.Stage) *v1alpha1.BenchmarkRun {
	w.T.Helper()
	w.Until(fmt.Sprintf("run %s reaches stage %s", name, stage), func() bool {
		run := w.GetRun(name)
		return kube.Over(run) || slices.Index(ActiveStages, run.Status.Stage) >= slices.Index(ActiveStages, stage)
	})
	return w.GetRun(name)
}

func (w *World) WorkerPod(run, region string) *corev1.Pod {
	w.T.Helper()
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRun: run, kube.LabelRegion: region}))
	if len(pods.Items) == 0 {
		w.T.Fatalf("run %s has no worker in %s", run, region)
	}
	return &pods.Items[0]
}

func (w *World) PatchReport(run, region string, data map[string]string) {
	w.T.Helper()
	cm := w.Get(kube.ReportName(w.GetRun(run), region, 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	base := cm.DeepCopy()
	for k, v := range data {
		cm.Data[k] = v
	}
	w.Must(w.Client.Patch(w.Ctx, cm, client.MergeFrom(base)))
}

func (w *World) LoadsAre(n int) {
	w.T.Helper()
	if w.Loads != n {
		w.T.Errorf("data was loaded %d times, want %d", w.Loads, n)
	}
}

// Rerun changes the runID of run r and waits until the new execution is over.
func (w *World) Rerun(runID string, change ...func(*v1alpha1.BenchmarkRunSpec)) *v1alpha1.BenchmarkRun {
	w.T.Helper()
	was := w.GetRun("r").Status.Execution
	w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) {
		s.RunID, s.Cancel = runID, false
		for _, c := range change {
			c(s)
		}
	})
	w.Until("run r is over for runID "+runID, func() bool {
		run := w.GetRun("r")
		return run.Status.ObservedGeneration == run.Generation && kube.Settled(run) && run.Status.Execution != was
	})
	return w.GetRun("r")
}

// PutBack replaces the ConfigMap of the same name with the given copy.
func (w *World) PutBack(cm *corev1.ConfigMap) {
	w.T.Helper()
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace}}
	_ = w.Client.Delete(w.Ctx, old) // it may not exist
	w.Must(w.Client.Create(w.Ctx, cm))
}

// Tests adds functional tests to a run: first snapshots, then deadlocks.
func (b *RunBuilder) Tests() *RunBuilder {
	b.Spec.FunctionalTests = []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalSnapshot, v1alpha1.FunctionalGlobalDeadlock}
	return b
}

// MaybeRun returns the run with the given name, or nil if there is none.
func (w *World) MaybeRun(name string) *v1alpha1.BenchmarkRun {
	w.T.Helper()
	run := &v1alpha1.BenchmarkRun{}
	err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, run)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Must(err)
	return run
}

// Takers steps until the run named last is over. It returns the names of the runs that used the database, in order.
func (w *World) Takers(last string) (out []string) {
	w.T.Helper()
	w.Until("run "+last+" is over", func() bool {
		if active := w.GetDatabase("d").Status.ActiveRun; active != "" && (len(out) == 0 || out[len(out)-1] != active) {
			out = append(out, active)
		}
		run := w.MaybeRun(last)
		return run != nil && kube.Over(run) && len(run.Finalizers) == 0
	})
	return out
}

// InTest steps until the first functional test of r has reached a stage.
func (w *World) InTest(stage v1alpha1.Stage) {
	w.T.Helper()
	w.Until("the test is in "+string(stage), func() bool {
		test := w.MaybeRun("r-snapshot")
		return test != nil && (kube.Over(test) || slices.Index(ActiveStages, test.Status.Stage) >= slices.Index(ActiveStages, stage))
	})
}

// ChangeRun changes the spec of r.
func (w *World) ChangeRun(change func(*v1alpha1.BenchmarkRunSpec)) {
	w.T.Helper()
	run := w.GetRun("r")
	base := run.DeepCopy()
	change(&run.Spec)
	w.Must(w.Client.Patch(w.Ctx, run, client.MergeFrom(base)))
}

// Disturbances describes the current disturbance of each node.
func (w *World) Disturbances() string {
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNode}))
	w.Mu.Lock()
	defer w.Mu.Unlock()
	var out []string
	for i := range pods.Items {
		n := w.PlayedNodes[pods.Items[i].Status.PodIP]
		if n == nil {
			continue
		}
		n.follow(w.FakeClock.Since(n.Zero))
		if n.now.Same(nil) {
			continue
		}
		d := n.now
		s := n.Database.Topology.NodeName(n.ID)
		for _, l := range d.Links {
			s += fmt.Sprintf(" to %s %s", l.To, l.Link.Delay)
		}
		if len(d.Cut) > 0 {
			s += fmt.Sprintf(" cut %v", d.Cut)
		}
		if len(d.Lost) > 0 {
			s += fmt.Sprintf(" lost %v", d.Lost)
		}
		if d.SlowPercent > 0 {
			s += fmt.Sprintf(" slow %d%%", d.SlowPercent)
		}
		if d.ClockOffset != 0 {
			s += fmt.Sprintf(" clock %s", d.ClockOffset)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func (w *World) Document(run string) *result.Document {
	w.T.Helper()
	doc, err := results.Read(w.GetRun(run), w.Get(kube.ResultName(w.GetRun(run)), &corev1.ConfigMap{}).(*corev1.ConfigMap))
	w.Must(err)
	return doc
}

// SidecarDelay returns the delay of packets from another region in the sidecar of a region's first node, and whether
// the link is cut.
func (w *World) SidecarDelay(region, from string) (micros int64, cut bool) {
	w.T.Helper()
	c, err := w.SidecarConfig(w.NodePod("d", region, 0))
	w.Must(err)
	c, _ = c.At(w.FakeClock.Now())
	for _, l := range c.Links {
		if l.From == from {
			micros = l.DelayMicros
		}
	}
	for _, p := range c.Peers {
		cut = cut || p.Region == from && strings.HasPrefix(p.Link, "cut")
	}
	return micros, cut
}

// DeleteRun deletes a run and waits until the run and all its objects are gone.
func (w *World) DeleteRun(name string) {
	w.T.Helper()
	run := w.GetRun(name)
	w.Must(w.Client.Delete(w.Ctx, run))
	w.Until("the run is gone", func() bool {
		return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(run), &v1alpha1.BenchmarkRun{}))
	})
	if left := append(w.Leftovers(name), w.ChaosLeft()...); len(left) > 0 {
		w.T.Errorf("left over: %v", left)
	}
}

// ReadJSON decodes the JSON in a key of a ConfigMap.
func (w *World) ReadJSON(configMap, key string, into any) {
	w.T.Helper()
	w.Must(json.Unmarshal([]byte(w.Get(configMap, &corev1.ConfigMap{}).(*corev1.ConfigMap).Data[key]), into))
}

// Profile creates a NetworkProfile for the regions of test databases.
func (w *World) Profile(name string, rtt time.Duration) *v1alpha1.NetworkProfile {
	spec := *MakeDatabase("x").Spec.Network.Profile
	spec.Links[0].RTT = v1alpha1.DurationOf(rtt)
	return &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (w *World) EditProfile(name string, rtt time.Duration) {
	w.T.Helper()
	p := w.Get(name, &v1alpha1.NetworkProfile{}).(*v1alpha1.NetworkProfile)
	p.Spec.Links[0].RTT = v1alpha1.DurationOf(rtt)
	w.Must(w.Client.Update(w.Ctx, p))
}

// Forgery returns a ConfigMap with the name of a run's result and invented figures.
func (w *World) Forgery(run *v1alpha1.BenchmarkRun, owned bool) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ResultName(run), Namespace: w.Namespace, Labels: kube.RunLabels(run, kube.RoleResult)},
		Data: map[string]string{results.Key: `{"apiVersion": "geobench.dev/v1alpha1", "kind": "RunResult", "name": "r", "verdict": "Passed",
			"summary": {"throughputPerSecond": 999999, "latencyMicroseconds": {"p50": 1, "p99": 2}}}`},
	}
	if owned {
		cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BenchmarkRun", Name: run.Name, UID: run.UID, Controller: ptr.To(true)}}
	}
	return cm
}
