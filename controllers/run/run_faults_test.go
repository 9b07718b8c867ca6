package run_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// builtInFaults are faults that nodes inject into themselves. Two of them overlap.
const builtInFaults = `
- {name: slow, at: 2s, duration: 4s, networkDelay: {between: {from: [us-west-2], oneWay: true}, delay: 30ms}}
- {name: busy, at: 3s, duration: 1s, cpuStress: {target: {role: leader}, workers: 2, loadPercent: 50}}
- {name: cut, at: 8s, duration: 2s, networkPartition: {from: {regions: [us-west-2]}}}
- {name: skew, at: 11s, duration: 2s, clockSkew: {target: {regions: [ap-northeast-1]}, offset: -100ms}}
`

// injected checks that the faults in a document were injected on time and without problems.
func injected(t *testing.T, doc *result.Document, by ...string) {
	t.Helper()
	if len(doc.Faults) != len(by) {
		t.Fatalf("%d faults, want %d: %+v", len(doc.Faults), len(by), doc.Faults)
	}
	for i, f := range doc.Faults {
		if f.Problem != "" || f.Injector != by[i] || f.FromMicroseconds == nil || *f.FromMicroseconds < f.AtMicroseconds {
			t.Errorf("%+v", f)
			continue
		}
		if f.InjectedMicroseconds == nil || *f.InjectedMicroseconds < *f.FromMicroseconds {
			t.Errorf("%s was injected at %v, from %v", f.Name, f.InjectedMicroseconds, f.FromMicroseconds)
		}
		if f.Lasting {
			continue
		}
		if f.RecoveringMicroseconds == nil || *f.RecoveringMicroseconds < f.AtMicroseconds+f.DurationMicroseconds || f.ToMicroseconds == nil || *f.ToMicroseconds < *f.RecoveringMicroseconds {
			t.Errorf("%s ended wrongly: %+v", f.Name, f)
		}
	}
}

func TestBuiltInFaults(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(15*time.Second).Faults(builtInFaults).Obj())
	var seen []string
	w.Until("the run is over", func() bool {
		if now := w.Disturbances(); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		run := w.GetRun("r")
		return kube.Over(run) && len(run.Finalizers) == 0
	})
	// The fault delays only packets from us-west-2. The node in ap-northeast-1 also reports its link, with an unchanged
	// delay.
	const slowUS, slowAP = "us-west-2/0/0 to ap-northeast-1 80ms", "ap-northeast-1/0/0 to us-west-2 50ms"
	want := []string{"", slowAP + "; " + slowUS, slowAP + "; " + slowUS + " slow 100%", slowAP + "; " + slowUS, "",
		"ap-northeast-1/0/0 cut [0]; us-west-2/0/0 cut [1]", "", "ap-northeast-1/0/0 clock -100ms", ""}
	if !slices.Equal(seen, want) {
		t.Errorf("nodes did\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	run := w.GetRun("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	doc := w.Document("r")
	injected(t, doc, "BuiltIn", "BuiltIn", "BuiltIn", "BuiltIn")
	for i, f := range run.Status.Faults {
		if f.State != string(fault.Done) || f.Injector != v1alpha1.InjectorBuiltIn || f.RecoveredTime == nil {
			t.Errorf("%+v", f)
		}
		if took := *doc.Faults[i].InjectedMicroseconds - *doc.Faults[i].FromMicroseconds; took > 100_000 {
			t.Errorf("%s took %d us to inject, although nodes do at once what they are told", f.Name, took)
		}
	}
	if targets := doc.Faults[1].Targets; !slices.Equal(targets, []string{"us-west-2/0/0"}) {
		t.Errorf("the leader is %v", targets)
	}
	if marks := doc.Timeline[3].Faults; !slices.Equal(marks, []string{"slow", "busy"}) || len(doc.Timeline[14].Faults) > 0 {
		t.Errorf("second 3 is marked %v, second 14 %v", marks, doc.Timeline[14].Faults)
	}
}

// TestOperatorDiesAfterEveryWriteOfFaults covers injection by Chaos Mesh, by nodes and by the deletion of pods, with an
// operator that dies after each single write.
func TestOperatorDiesAfterEveryWriteOfFaults(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	w.DieAfterEveryWrite()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").By(v1alpha1.FaultInjectionChaosMesh).Duration(8*time.Second).Faults(chaosFaults).Obj())
	first := ""
	w.Until("the run is over", func() bool {
		w.Revive()
		run := w.GetRun("r")
		if first == "" {
			first = run.Status.DatabaseIncarnation
		}
		return kube.Over(run) && len(run.Finalizers) == 0
	})
	run := w.GetRun("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.DatabaseIncarnation != first {
		t.Fatalf("after %d deaths the run ended %s: %s", w.Deaths, run.Status.Verdict, run.Status.Message)
	}
	if w.Deaths < 60 {
		t.Errorf("the operator died only %d times", w.Deaths)
	}
	doc := w.Document("r")
	injected(t, doc, "ChaosMesh", "ChaosMesh", "ChaosMesh", "ChaosMesh", "BuiltIn", "ChaosMesh")
	if kill := doc.Faults[5]; !kill.Lasting || !slices.Equal(kill.Lost, []string{"ap-northeast-1/0/0"}) {
		t.Errorf("%+v", kill)
	}
	if c := doc.Checks[0]; !c.Passed || !strings.Contains(c.Message, "1 of 2 copies are left out: node ap-northeast-1/0/0 was lost") {
		t.Errorf("%+v", c)
	}
	var made []string
	for _, o := range w.ChaosMade {
		made = append(made, o.GetKind())
	}
	slices.Sort(made)
	if want := []string{"NetworkChaos", "PodChaos", "StressChaos", "StressChaos", "TimeChaos"}; !slices.Equal(made, want) {
		t.Errorf("Chaos Mesh was given %v, want %v", made, want)
	}
	if left := w.ChaosLeft(); len(left) > 0 || w.Disturbances() != "" {
		t.Errorf("left: %v; %s", left, w.Disturbances())
	}
	// The database has lost a node as planned, so it is replaced for the next run.
	w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != first })
	w.UntilReady("d")
	w.RanOnce()
}

// A killed pod is deleted once, without a grace period, at the planned time. The remaining nodes are notified in
// advance of the time from which they must not wait for the killed node.
func TestPodKill(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(8*time.Second).
		Faults("[{name: kill, at: 2s, podKill: {target: {regions: [ap-northeast-1]}}}]").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	victim := w.NodePod("d", "ap-northeast-1", 0).UID
	w.Until("the kill is planned", func() bool { return faultIn(w.GetRun("r"), fault.Armed, fault.Inject) })
	if d := w.Disturbances(); d != "" {
		t.Errorf("before its time nodes do %s", d)
	}
	w.Until("the pod is another", func() bool {
		pod := &corev1.Pod{}
		err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: "d-ap-northeast-1-0"}, pod)
		return err == nil && pod.UID != victim
	})
	second := w.NodePod("d", "ap-northeast-1", 0).UID
	if d := w.Disturbances(); d != "us-west-2/0/0 lost [1]" {
		t.Errorf("nodes do %s", d)
	}
	w.Until("the run is over", func() bool { return kube.Over(w.GetRun("r")) })
	if w.NodePod("d", "ap-northeast-1", 0).UID != second {
		t.Error("the pod that took its place was deleted too")
	}
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if late := run.Status.Faults[0].InjectingTime.Sub(run.Status.MeasureStartTime.Add(2 * time.Second)); late != 0 {
		t.Errorf("it was killed %v late", late)
	}
	if f := run.Status.Faults[0]; f.Injector != v1alpha1.InjectorKubernetes || !f.Lasting || f.InjectedTime == nil || f.RecoveredTime != nil || !strings.HasPrefix(f.Processes[0], string(victim)) {
		t.Errorf("%+v", f)
	}
	injected(t, w.Document("r"), "Kubernetes")
}

// A shut-down node stays down: the replacement pod does not start before the run is over. Then the database is
// replaced.
func TestNodeShutdown(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(8*time.Second).
		Faults("[{name: down, at: 2s, duration: 2s, nodeShutdown: {target: {regions: [ap-northeast-1]}}}]").Obj())
	w.Until("it is over", func() bool { return faultIn(w.GetRun("r"), fault.Done) })
	for range 2 {
		w.Step()
		if pod := w.NodePod("d", "ap-northeast-1", 0); len(pod.Spec.SchedulingGates) != 1 || pod.Status.PodIP != "" {
			t.Errorf("the pod was started again: gates %v, address %q", pod.Spec.SchedulingGates, pod.Status.PodIP)
		}
	}
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	injected(t, w.Document("r"), "Kubernetes")
	w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != run.Status.DatabaseIncarnation })
	w.UntilReady("d")
}

// A node with a journal recovers from the kill of its container, and receives its remaining faults again.
func TestContainerKillWithJournal(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	db := worldtest.MakeDatabase("d").Obj()
	db.Spec.Durability = v1alpha1.DurabilityJournal
	w.Create(db, worldtest.MakeRun("r").Database("d").Duration(8*time.Second).Faults(`
- {name: slow, at: 1s, duration: 6s, cpuStress: {target: {}}}
- {name: kill, at: 2s, containerKill: {target: {regions: [ap-northeast-1]}}}
`).Obj())
	w.Until("the kill is over", func() bool {
		st := w.GetRun("r").Status.Faults
		return len(st) == 2 && st[1].State == string(fault.Done)
	})
	if d := w.Disturbances(); d != "ap-northeast-1/0/0 slow 100%; us-west-2/0/0 slow 100%" {
		t.Errorf("nodes do %s", d)
	}
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	doc := w.Document("r")
	injected(t, doc, "BuiltIn", "ChaosMesh")
	if kill := doc.Faults[1]; kill.Lasting || !slices.Equal(kill.Restarted, []string{"ap-northeast-1/0/0"}) || w.NodePod("d", "ap-northeast-1", 0).Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("%+v", kill)
	}
}

// replaceable returns a database of three regions with an engine that can replace lost nodes.
func replaceable() *v1alpha1.GeoDatabase {
	b := worldtest.MakeDatabase("d")
	b.Spec.Engine.Name = "sdur"
	b.Spec.Regions = append(b.Spec.Regions, v1alpha1.Region{Name: "eu-west-1"})
	links := &b.Spec.Network.Profile.Links
	for _, from := range []string{"us-west-2", "ap-northeast-1"} {
		*links = append(*links, v1alpha1.Link{From: from, To: "eu-west-1", RTT: v1alpha1.DurationOf(100 * time.Millisecond)})
	}
	return b.Obj()
}

// If the engine can replace lost nodes, a node rejoins as a new incarnation after its pod or container was killed. The
// run notifies the replacement process exactly once, at whatever point the operator dies. The fault is over once all
// data has its full number of copies again. All copies are audited, and the database continues.
func TestLostNodesAreReplaced(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]string{"Kubernetes": "podKill", "ChaosMesh": "containerKill"} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.ChaosMesh = true
			w.DieAfterEveryWrite()
			run := worldtest.MakeRun("r").Database("d").Duration(20 * time.Second).Faults(`
- {name: once, at: 2s, ` + kill + `: {target: {regions: [ap-northeast-1]}}}
- {name: again, at: 12s, tolerance: 8s, ` + kill + `: {target: {regions: [ap-northeast-1]}}}
`).Obj()
			w.Create(replaceable(), run)
			w.Until("the run is over", func() bool {
				w.Revive()
				run := w.GetRun("r")
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			got := w.GetRun("r")
			if got.Status.Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("after %d deaths the run ended %s %s: %s", w.Deaths, got.Status.Verdict, got.Status.Reason, got.Status.Message)
			}
			doc := w.Document("r")
			injected(t, doc, name, name)
			for _, f := range doc.Faults {
				if f.Lasting || len(f.Lost) > 0 || !slices.Equal(f.Replaced, []string{"ap-northeast-1/0/0"}) || f.ToMicroseconds == nil {
					t.Errorf("%+v", f)
				}
			}
			for _, c := range doc.Checks {
				if !c.Passed || strings.Contains(c.Message, "left out") {
					t.Errorf("%+v", c)
				}
			}
			slices.Sort(w.Joins)
			if want := []string{"ap-northeast-1/0/0 0", "ap-northeast-1/0/0 1", "ap-northeast-1/0/0 2", "eu-west-1/0/0 0", "us-west-2/0/0 0"}; !slices.Equal(w.Joins, want) {
				t.Errorf("processes were told %v, want %v", w.Joins, want)
			}
			for range 5 {
				w.Revive()
				w.Step()
			}
			w.UntilReady("d")
			if d := w.GetDatabase("d"); d.Status.Incarnation != got.Status.DatabaseIncarnation {
				t.Errorf("the database was made anew: %s after %s", d.Status.Incarnation, got.Status.DatabaseIncarnation)
			}
		})
	}
}

// A node that is lost without a fault is not replaced: the run is Invalid, and the database is recreated. The same
// holds if further nodes are lost during a replacement.
func TestUnplannedLossesAreNotReplaced(t *testing.T) {
	t.Parallel()
	lost := func(w *worldtest.World, region string) {
		w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", region, 0), client.GracePeriodSeconds(0)))
	}
	for name, tc := range map[string]struct {
		during func(*v1alpha1.BenchmarkRun) bool
		lose   func(*worldtest.World)
	}{
		"a pod": {func(r *v1alpha1.BenchmarkRun) bool {
			return r.Status.Stage == v1alpha1.StageMeasure && !faultIn(r, fault.Armed)
		}, func(w *worldtest.World) { lost(w, "us-west-2") }},
		"a container": {func(r *v1alpha1.BenchmarkRun) bool { return r.Status.Stage == v1alpha1.StageMeasure }, func(w *worldtest.World) {
			pod := w.NodePod("d", "us-west-2", 0)
			pod.Status.ContainerStatuses[0].RestartCount++
			w.Must(w.Client.Status().Update(w.Ctx, pod))
			w.Mu.Lock()
			w.Ended = append(w.Ended, w.PlayedNodes[pod.Status.PodIP])
			w.Mu.Unlock()
			w.StartNode(pod.Status.PodIP, "another", pod)
		}},
		"another node while one is replaced": {func(r *v1alpha1.BenchmarkRun) bool { return faultIn(r, fault.WaitPropagated, fault.WaitRecovered) }, func(w *worldtest.World) { lost(w, "us-west-2") }},
		"the node that was replaced":         {func(r *v1alpha1.BenchmarkRun) bool { return faultIn(r, fault.Done) }, func(w *worldtest.World) { lost(w, "ap-northeast-1") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(replaceable(), worldtest.MakeRun("r").Database("d").Duration(20*time.Second).Faults("[{name: kill, at: 6s, podKill: {target: {regions: [ap-northeast-1]}}}]").Obj())
			w.Until("it is time", func() bool { return tc.during(w.GetRun("r")) })
			tc.lose(w)
			run := w.UntilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictInvalid || run.Status.Reason != "NodeLost" && run.Status.Reason != "DatabaseReplaced" {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
			w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != run.Status.DatabaseIncarnation })
			w.UntilReady("d")
		})
	}
}

// Some faults remove more nodes at the same time than the database tolerates. If the manifest names the targets, the
// fault is refused before anything is deployed. If it names a role, the fault hits no node, and the run is Invalid.
func TestMoreThanTheDatabaseBears(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.EverybodyLeads = true
	w.Create(replaceable(),
		worldtest.MakeRun("all").Database("d").Faults("[{name: kill, at: 1s, podKill: {target: {}}}]").Obj(),
		worldtest.MakeRun("two").Database("d").Duration(40*time.Second).Faults("[{name: kill, at: 1s, podKill: {target: {role: leader}}}]").Obj())
	if run := w.UntilOver("all"); !strings.Contains(run.Status.Message, "have lost what they knew together") || !strings.Contains(run.Status.Message, "nodeShutdown") {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	run := w.UntilOver("two")
	if run.Status.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(run.Status.Message, "have lost what they knew together") {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if len(w.Joins) != 3 || w.GetDatabase("d").Status.Incarnation != run.Status.DatabaseIncarnation {
		t.Errorf("processes were told %v", w.Joins)
	}
}

// faultIn reports whether the first fault of a run is in one of the states.
func faultIn(run *v1alpha1.BenchmarkRun, states ...fault.State) bool {
	return len(run.Status.Faults) > 0 && slices.Contains(states, fault.State(run.Status.Faults[0].State))
}

// A fault on one node excuses only the loss of that node.
func TestUnplannedLossDuringAFault(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Partitions(2).Obj(), worldtest.MakeRun("r").Database("d").Duration(20*time.Second).
		Faults("[{name: kill, at: 2s, podKill: {target: {regions: [ap-northeast-1], partitions: [0]}}}]").Obj())
	w.Until("the node is gone", func() bool { return faultIn(w.GetRun("r"), fault.Done) })
	w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", "us-west-2", 1), client.GracePeriodSeconds(0)))
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(run.Status.Message, "d-us-west-2-1") {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
}

// Sidecars inject a link fault by a change of their configuration. The declared configuration is restored after every
// outcome of the run.
func TestSidecarFaults(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	const faults = `
- {name: slow, at: 2s, duration: 4s, networkDelay: {between: {}, delay: 30ms}}
- {name: cut, at: 9s, duration: 20s, networkPartition: {from: {regions: [us-west-2]}, oneWay: true}}
`
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Duration(30*time.Second).Faults(faults).Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	delayed := func() bool { us, _ := w.SidecarDelay("ap-northeast-1", "us-west-2"); return us == 80_000 }
	w.Until("the link is slower", delayed)
	w.Until("it is so everywhere", func() bool { return faultIn(w.GetRun("r"), fault.Active) })
	if !delayed() {
		t.Error("somebody took the fault back")
	}
	w.Until("it is over", func() bool { return faultIn(w.GetRun("r"), fault.Done) })
	if delayed() {
		t.Error("the link is still slower")
	}
	w.Until("it is cut", func() bool { return w.GetRun("r").Status.Faults[1].State == string(fault.Active) })
	if _, cut := w.SidecarDelay("ap-northeast-1", "us-west-2"); !cut {
		t.Error("it is not cut")
	}
	if _, cut := w.SidecarDelay("us-west-2", "ap-northeast-1"); cut {
		t.Error("the other direction is cut too")
	}
	w.DeleteRun("r")
	if us, cut := w.SidecarDelay("ap-northeast-1", "us-west-2"); us != 50_000 || cut {
		t.Errorf("the link has %d us, cut: %t", us, cut)
	}
	w.UntilReady("d")
}

// A run that is deleted during its faults reverts them, with every injector, and removes remaining objects by force.
func TestDeletionDuringFaults(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ChaosMesh = true
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(60*time.Second).Faults(`
- {name: full, at: 1s, duration: 50s, memoryStress: {target: {regions: [us-west-2]}, size: 16Mi}}
- {name: busy, at: 1s, duration: 50s, cpuStress: {target: {}}}
`).Obj())
	w.Until("both last", func() bool {
		st := w.GetRun("r").Status.Faults
		return len(st) == 2 && st[0].State == string(fault.Active) && st[1].State == string(fault.Active)
	})
	if w.Disturbances() == "" || len(w.ChaosLeft()) != 1 {
		t.Errorf("nodes do %q, Chaos Mesh %v", w.Disturbances(), w.ChaosLeft())
	}
	w.ChaosMesh = false // Chaos Mesh no longer releases its objects
	hit := w.NodePod("d", "us-west-2", 0)
	run := w.GetRun("r")
	w.Must(w.Client.Delete(w.Ctx, run))
	for range 3 {
		w.Step()
	}
	if len(w.GetRun("r").Finalizers) == 0 || len(w.ChaosLeft()) != 1 {
		t.Error("the run did not wait for what Chaos Mesh does")
	}
	w.Until("the run is gone", func() bool {
		return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(run), &v1alpha1.BenchmarkRun{}))
	})
	if left := append(w.Leftovers("r"), w.ChaosLeft()...); len(left) > 0 || w.Disturbances() != "" {
		t.Errorf("left over: %v; nodes do %s", left, w.Disturbances())
	}
	// The stressors were not removed from the pod, so the pod is deleted together with them.
	now := &corev1.Pod{}
	err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(hit), now)
	if client.IgnoreNotFound(err) != nil || err == nil && now.UID == hit.UID && now.DeletionTimestamp == nil {
		t.Errorf("the pod that was hit is still there (%v)", err)
	}
	// Effects may remain in the pods after a forced removal.
	w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != run.Status.DatabaseIncarnation })
}

// A fault without an available injector is refused before the run starts, with the field and an alternative.
func TestInjectionIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	chaosless := func(kinds ...string) { // kinds that the API server does not know
		w.OperatorClient = func() client.Client {
			return interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if gvk := list.GetObjectKind().GroupVersionKind(); slices.Contains(kinds, strings.TrimSuffix(gvk.Kind, "List")) {
						return &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
					}
					return c.List(ctx, list, opts...)
				},
			})
		}
		w.RestartOperator()
	}
	chaosless(chaosmesh.StressChaos, chaosmesh.PodChaos, chaosmesh.TimeChaos)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeDatabase("real").Emulation(v1alpha1.EmulationNone).Obj())
	w.UntilReady("d")
	for name, tt := range map[string]struct {
		database, faults string
		by               v1alpha1.FaultInjection
		says             []string
	}{
		"memory": {"d", "memoryStress: {target: {}, size: 1Mi}", "", []string{"spec.faults[0].memoryStress", "it is not installed", "geobench simulate can inject it"}},
		"kill":   {"d", "containerKill: {target: {count: 1}}", "", []string{"spec.faults[0].containerKill", "a podKill does the same"}},
		"busy":   {"d", "cpuStress: {target: {}}", v1alpha1.FaultInjectionChaosMesh, []string{"spec.faults[0].cpuStress", "leave spec.faultInjection out"}},
		"delay": {"real", "networkDelay: {between: {}, delay: 1ms}", "", []string{"spec.faults[0].networkDelay", "database with emulation None", "cannot delay packets",
			"with spec.network.emulation BuiltIn or Sidecar"}},
	} {
		w.Create(worldtest.MakeRun(name).Database(tt.database).By(tt.by).Faults("[{name: f, at: 1s, duration: 1s, " + tt.faults + "}]").Obj())
		run := w.UntilOver(name)
		if run.Status.Reason != "FaultUnsupported" {
			t.Errorf("%s: the run ended %s %s: %s", name, run.Status.Stage, run.Status.Reason, run.Status.Message)
		}
		for _, want := range tt.says {
			if !strings.Contains(run.Status.Message, want) {
				t.Errorf("%s: %q does not say %q", name, run.Status.Message, want)
			}
		}
	}
}
