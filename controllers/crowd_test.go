package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/ops/admin"
)

// TestFaultsGoOnWhileOthersLoad: runs that never finish loading do not delay the faults of other runs. When such a run
// is cancelled or deleted, it releases its nodes.
func TestFaultsGoOnWhileOthersLoad(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Hangs = map[string]bool{"slow": true, "slower": true}
	w.Create(worldtest.MakeDatabase("slow").Obj(), worldtest.MakeDatabase("slower").Obj(), worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("loads").Database("slow").Obj(), worldtest.MakeRun("too").Database("slower").Obj())
	for _, name := range []string{"loads", "too"} {
		w.UntilStage(name, v1alpha1.StageLoad)
	}
	w.Create(worldtest.MakeRun("r").Database("d").Duration(8 * time.Second).
		Faults("[{name: cut, at: 2s, duration: 3s, networkPartition: {from: {regions: [us-west-2]}}}]").Obj())
	st := w.UntilOver("r").Status
	if st.Verdict != v1alpha1.VerdictPassed || st.Faults[0].State != string(fault.Done) {
		t.Errorf("the run ended %s: %s; its fault is %+v", st.Verdict, st.Message, st.Faults[0])
	}
	for _, name := range []string{"loads", "too"} {
		run := w.GetRun(name)
		if run.Status.Stage != v1alpha1.StageLoad {
			t.Errorf("run %s is in stage %s: %s", name, run.Status.Stage, run.Status.Message)
		}
	}
	run := w.GetRun("loads")
	run.Spec.Cancel = true
	w.Must(w.Client.Update(w.Ctx, run))
	w.Must(w.Client.Delete(w.Ctx, w.GetRun("too")))
	w.Until("both are gone", func() bool {
		err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: "too"}, run)
		return apierrors.IsNotFound(err) && kube.Over(w.GetRun("loads"))
	})
	w.Mu.Lock()
	w.Hangs = nil
	w.Mu.Unlock()
	w.Settle()
	if w.GivenUp != 4 {
		t.Errorf("%d of 4 nodes know that nobody waits for their data any more", w.GivenUp)
	}
}

// counting returns a client that counts its writes to the API server and, if reads is set, its reads.
func counting(c client.Client, reads bool, n *int) client.Client {
	count := func() { *n++ }
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if reads {
				count()
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if reads {
				count()
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			count()
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			count()
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			count()
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

// TestWaitingIsCheap: a run needs one request to wait in the queue. An impossible run is refused immediately, and a
// waiting run can be deleted immediately.
func TestWaitingIsCheap(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("first").Database("d").Duration(time.Minute).Obj())
	w.UntilStage("first", v1alpha1.StageWarmup)
	requests := 0
	w.Run.Client, w.Run.Live = counting(w.Client, false, &requests), counting(w.Client, true, &requests)
	const waiting = 10
	var runs []*v1alpha1.BenchmarkRun
	for i := range waiting {
		runs = append(runs, worldtest.MakeRun(fmt.Sprintf("waits-%02d", i)).Database("d").Obj())
		w.Create(runs[i])
	}
	for round, want := range []int{waiting, 0, 0} {
		requests = 0
		for _, run := range runs {
			w.Reconcile(w.Run, run)
		}
		if requests != want {
			t.Errorf("round %d: %d runs that wait cost %d requests, want %d", round+1, waiting, requests, want)
		}
	}
	for _, run := range runs {
		if c := meta.FindStatusCondition(w.GetRun(run.Name).Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Reason != "DatabaseBusy" {
			t.Errorf("run %s: %+v", run.Name, c)
		}
	}
	impossible := worldtest.MakeRun("impossible").Database("d").Sunflower("mars").Obj()
	w.Create(impossible)
	w.Until("the impossible one is refused", func() bool { return kube.Over(w.GetRun("impossible")) })
	for _, run := range runs {
		w.Must(w.Client.Delete(w.Ctx, run))
		if err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(run), run); !apierrors.IsNotFound(err) {
			t.Errorf("run %s is still there: %v", run.Name, err)
		}
	}
}

// crowdPods sends requests to the pods of a simulated cluster. The nodes of databases for which silent returns true
// never answer.
type crowdPods struct {
	podclient.Clients
	silent func(types.UID) bool
}

func (p *crowdPods) Nodes(database types.UID) podclient.Nodes {
	if p.silent(database) {
		return silence{p.Clients.Nodes(database)}
	}
	return p.Clients.Nodes(database)
}

func (p *crowdPods) Sidecars(database types.UID) emulation.Sidecars {
	return p.Clients.Sidecars(database)
}

// silence is a client of nodes that accept connections but never answer.
type silence struct{ podclient.Nodes }

func (silence) Status(ctx context.Context, addr string) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, podclient.NodeTimeout)
	defer cancel()
	<-ctx.Done()
	return nil, errors.New(addr + " does not answer")
}

// TestCrowd: a tenant's run starts while a thousand runs of another tenant wait for one database, and two hundred
// databases do not answer. It takes minutes of real time, so it runs only with GEOBENCH_CROWD=1 (make crowd).
func TestCrowd(t *testing.T) {
	if os.Getenv("GEOBENCH_CROWD") == "" {
		t.Skip("GEOBENCH_CROWD is not set: make crowd runs this test")
	}
	const waiting, silent = 1000, 200
	crowd, w := worldtest.NewWorld(t), worldtest.NewWorld(t)
	var mu sync.Mutex
	hung := map[types.UID]bool{}
	api := w.StartManager(&crowdPods{Clients: w, silent: func(uid types.UID) bool {
		mu.Lock()
		defer mu.Unlock()
		return hung[uid]
	}})

	// rate measures the operator's requests per second while the simulated cluster of w runs.
	rate := func(what string, until func() bool) {
		t.Helper()
		start, before := time.Now(), api.Requests.Load()
		w.Play(what, until)
		took, n := time.Since(start), api.Requests.Load()-before
		t.Logf("%s: %v, %d requests, %.0f a second", what, took.Round(100*time.Millisecond), n, float64(n)/took.Seconds())
	}
	for i := range silent {
		db := worldtest.MakeDatabase(fmt.Sprintf("silent-%03d", i)).Obj()
		mu.Lock()
		crowd.Create(db)
		hung[db.UID] = true
		mu.Unlock()
	}
	crowd.Create(worldtest.MakeDatabase("busy").Obj())
	for i := range waiting {
		crowd.Create(worldtest.MakeRun(fmt.Sprintf("waits-%04d", i)).Database("busy").Duration(time.Hour).Obj())
	}
	crowd.PlayCluster() // the pods of all these databases run but never answer
	created := time.Now()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(10*time.Second).
		Faults("[{name: busy, at: 2s, duration: 3s, cpuStress: {target: {}, workers: 1}}]").Obj())
	rate("another tenant's run loads its data", func() bool {
		return slices.Contains([]v1alpha1.Stage{v1alpha1.StageLoad, v1alpha1.StageWarmup, v1alpha1.StageMeasure}, w.GetRun("r").Status.Stage)
	})
	if took := time.Since(created); took > 30*time.Second {
		t.Errorf("it took %v from its creation", took)
	}
	rate("it is over", func() bool { return kube.Over(w.GetRun("r")) })
	if st := w.GetRun("r").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("it ended %s: %s", st.Verdict, st.Message)
	}
	begun := time.Now()
	before := api.Requests.Load()
	rate("a minute in which nothing happens", func() bool { return time.Since(begun) > time.Minute })
	if n := api.Requests.Load() - before; n > 50*60 {
		t.Errorf("%d requests in a minute, want at most 50 a second", n)
	}
}

// TestTwentyRuns: twenty runs measure at the same time, on twenty databases with simulated nodes and workers. Nodes and
// the operator inject faults. In the second round, the API server is unavailable for five seconds. Each run passes, or
// reports that a fault was late; nothing is lost or done twice. It runs only with GEOBENCH_CROWD=1 (make crowd).
func TestTwentyRuns(t *testing.T) {
	if os.Getenv("GEOBENCH_CROWD") == "" {
		t.Skip("GEOBENCH_CROWD is not set: make crowd runs this test")
	}
	const runs = 20
	for _, outage := range []time.Duration{0, 5 * time.Second} {
		t.Run(fmt.Sprintf("API server away for %v", outage), func(t *testing.T) {
			w := worldtest.NewWorld(t)
			api := w.StartManager(w)
			for i := range runs {
				name := fmt.Sprintf("d%02d", i)
				down := 12*time.Second + time.Duration(i)*400*time.Millisecond
				w.Create(worldtest.MakeDatabase(name).Obj(), worldtest.MakeRun(name).Database(name).Duration(24*time.Second).Faults(fmt.Sprintf(`[
					{name: busy, at: 3s, duration: 4s, cpuStress: {target: {}, workers: 1}},
					{name: cut, at: 9s, duration: 2s, networkPartition: {from: {regions: [us-west-2]}}},
					{name: down, at: %s, duration: 2s, nodeShutdown: {target: {regions: [ap-northeast-1]}}}]`, down)).Obj())
			}
			measuring := func() (n int) {
				for i := range runs {
					if w.GetRun(fmt.Sprintf("d%02d", i)).Status.Stage == v1alpha1.StageMeasure {
						n++
					}
				}
				return n
			}
			if outage > 0 {
				w.Play("half of the runs measure", func() bool { return measuring() >= runs/2 })
				api.Away.Store(true)
				time.AfterFunc(outage, func() { api.Away.Store(false) })
			}
			most := 0
			w.Play("all runs are over", func() bool {
				most = max(most, measuring())
				for i := range runs {
					if r := w.GetRun(fmt.Sprintf("d%02d", i)); !kube.Over(r) || len(r.Finalizers) > 0 {
						return false
					}
				}
				return true
			})
			// A Job of the simulated cluster may recreate a pod while the operator deletes both, so the test requires only
			// that nothing was measured twice.
			w.StartedOnce()
			late := map[v1alpha1.Injector][]time.Duration{}
			verdicts := map[string]int{}
			for i := range runs {
				r := w.GetRun(fmt.Sprintf("d%02d", i))
				verdicts[fmt.Sprintf("%s %s", r.Status.Verdict, r.Status.Reason)]++
				if r.Status.Verdict != v1alpha1.VerdictPassed && r.Status.Reason != "FaultMistimed" {
					t.Errorf("run %s ended %s: %s: %s", r.Name, r.Status.Verdict, r.Status.Reason, r.Status.Message)
				}
				for k, f := range r.Status.Faults {
					if f.InjectingTime == nil {
						t.Errorf("run %s: fault %s was not injected: %s", r.Name, f.Name, f.Message)
						continue
					}
					late[f.Injector] = append(late[f.Injector], f.InjectingTime.Sub(r.Status.MeasureStartTime.Add(r.Spec.Faults[k].At.Duration)).Abs())
				}
			}
			t.Logf("at most %d runs measured at once; %v; %d requests, %d per run", most, verdicts, api.Requests.Load(), api.Requests.Load()/runs)
			for _, injector := range slices.Sorted(maps.Keys(late)) {
				d := late[injector]
				slices.Sort(d)
				p99 := d[(len(d)*99-1)/100]
				t.Logf("%s: %d faults, late by p50 %v, p99 %v", injector, len(d), d[len(d)/2].Round(time.Millisecond), p99.Round(time.Millisecond))
				if outage == 0 && p99 > 100*time.Millisecond {
					t.Errorf("%s: p99 of the lateness is %v, want at most 100ms", injector, p99)
				}
			}
		})
	}
}
