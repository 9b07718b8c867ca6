package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// chaosFaults covers all four kinds of Chaos Mesh objects. Only the fault slow is injected by nodes.
const chaosFaults = `
- {name: busy, at: 1s, duration: 2s, cpuStress: {target: {regions: [us-west-2]}}}
- {name: cut, at: 1s, duration: 2s, networkPartition: {from: {regions: [us-west-2]}}}
- {name: skew, at: 1s, duration: 2s, clockSkew: {target: {}, offset: 1s}}
- {name: full, at: 1s, duration: 2s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}
- {name: slow, at: 4s, duration: 1s, networkDelay: {between: {}, delay: 30ms}}
- {name: kill, at: 6s, podKill: {target: {regions: [ap-northeast-1]}}}
`

// Chaos Mesh limits the bandwidth to some pods with a queueing discipline below the discipline prio. A kernel without
// prio would reject this, and the pod would be unusable for all later objects, so the operator does not create the
// object.
func TestBandwidthByChaosMeshAsksTheKernel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kernel, refused string }{
		"without prio":  {`{"missing":{"prio":"no such file or directory"}}`, "the kernel of node n1 cannot limit what goes to some pods only: no queueing discipline prio: no such file or directory"},
		"without netem": {`{"missing":{"netem":"no such file or directory"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.ChaosMesh, w.Kernel = true, test.kernel
			w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationNone).Obj(), worldtest.MakeRun("r").Database("d").Duration(30*time.Second).Faults(
				"- {name: thin, at: 2s, duration: 4s, networkBandwidth: {between: {}, bandwidthMbps: 10}}").Obj())
			w.Until("it is refused or goes on", func() bool {
				return w.GetRun("r").Status.Stage == v1alpha1.StageFailed || w.GetRun("r").Status.Stage == v1alpha1.StageProvision
			})
			st := w.GetRun("r").Status
			if test.refused == "" && st.Stage == v1alpha1.StageFailed || test.refused != "" && (st.Reason != "FaultUnsupported" || !strings.Contains(st.Message, test.refused)) {
				t.Errorf("%s: %s", st.Reason, st.Message)
			}
			if left := w.ChaosLeft(); len(left) > 0 {
				t.Errorf("objects were made: %v", left)
			}
		})
	}
}

// A fault that Chaos Mesh is slow to inject does not affect other faults: neither their start times nor the check that
// they last.
func TestEachFaultOfChaosMeshHasItsTimes(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").By(v1alpha1.FaultInjectionChaosMesh).Duration(10*time.Second).Faults(`
- {name: before, at: 1s, duration: 7s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}
- {name: cut, at: 1s, duration: 7s, networkPartition: {from: {regions: [us-west-2]}}}
- {name: slow, at: 3s, duration: 3s, clockSkew: {target: {regions: [us-west-2]}, offset: 1s}}
- {name: beside, at: 3s, duration: 3s, memoryStress: {target: {regions: [ap-northeast-1]}, size: 16Mi}}
`).Obj())
	start := func() time.Time { return w.GetRun("r").Status.MeasureStartTime.Time }
	w.ChaosWaits = func(o *unstructured.Unstructured) bool {
		return o.GetKind() == chaosmesh.TimeChaos && w.FakeClock.Now().Before(start().Add(4*time.Second))
	}
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	for i, want := range []time.Duration{time.Second, time.Second, 4 * time.Second, 3 * time.Second} {
		f := run.Status.Faults[i]
		if late := f.InjectedTime.Sub(start()) - want; late < 0 || late >= time.Second || f.Message != "" {
			t.Errorf("fault %s was injected %v after the start, want %v: %s", f.Name, f.InjectedTime.Sub(start()), want, f.Message)
		}
	}
}

// If Chaos Mesh is removed during a fault, its objects are removed, too, but their effects stay in the pods. The run
// reports this and is Invalid, and the pods are replaced.
func TestChaosMeshIsRemovedDuringAFault(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	removed := false
	w.OperatorClient = func() client.Client {
		return interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if gvk := list.GetObjectKind().GroupVersionKind(); removed && gvk.Group == chaosmesh.GroupVersion.Group {
					return &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
				}
				return c.List(ctx, list, opts...)
			},
		})
	}
	w.RestartOperator()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(8*time.Second).
		Faults("[{name: full, at: 1s, duration: 4s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}]").Obj())
	w.Until("the fault lasts", func() bool { return faultIn(w.GetRun("r"), fault.Active) })
	removed = true
	for _, o := range w.Chaos(chaosmesh.StressChaos).Items {
		o.SetFinalizers(nil)
		w.Must(w.Client.Update(w.Ctx, &o))
		w.Must(w.Client.Delete(w.Ctx, &o))
	}
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictInvalid || run.Status.Reason != result.ReasonFaultFailed || !strings.Contains(run.Status.Message, "Chaos Mesh was removed while the fault lasted") {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != run.Status.DatabaseIncarnation })
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionCleanupFailed); c != nil && c.Status == metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

// If Chaos Mesh emulates the links, a link fault replaces its set of objects. The time between the two sets is a gap.
func TestChaosMeshLinkFaults(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Kernel, w.ChaosMesh = "{}", true
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationChaosMesh).Obj(), worldtest.MakeRun("r").Database("d").Duration(8*time.Second).
		Faults("[{name: lossy, at: 1s, duration: 3s, networkLoss: {between: {from: [us-west-2], oneWay: true}, lossPPM: 20000, correlationPercent: 25}}]").Obj())
	rules := func() (out []string) {
		for _, o := range w.NetworkChaos().Items {
			latency, _, _ := unstructured.NestedString(o.Object, "spec", "delay", "latency")
			loss, _, _ := unstructured.NestedMap(o.Object, "spec", "loss")
			out = append(out, fmt.Sprintf("%s %s %v", o.GetLabels()[chaosmesh.LabelSource], latency, loss))
		}
		slices.Sort(out)
		return out
	}
	w.Until("the fault lasts", func() bool { return faultIn(w.GetRun("r"), fault.Active) })
	if got, want := rules(), []string{"ap-northeast-1 50000us map[]", "us-west-2 50000us map[correlation:25 loss:2]"}; !slices.Equal(got, want) {
		t.Errorf("Chaos Mesh does %q, want %q", got, want)
	}
	run := w.UntilOver("r")
	if got, want := rules(), []string{"ap-northeast-1 50000us map[]", "us-west-2 50000us map[]"}; !slices.Equal(got, want) {
		t.Errorf("Chaos Mesh does %q, want %q", got, want)
	}
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	doc := w.Document("r")
	injected(t, doc, "ChaosMesh")
	if len(doc.EmulationGaps) != 2 || doc.EmulationGaps[0].FromMicroseconds != *doc.Faults[0].FromMicroseconds || doc.EmulationGaps[1].ToMicroseconds != *doc.Faults[0].ToMicroseconds ||
		doc.EmulationGapSeconds < 2 || !doc.Timeline[1].Gap || doc.Timeline[7].Gap {
		t.Errorf("gaps %+v, %d seconds", doc.EmulationGaps, doc.EmulationGapSeconds)
	}
}
