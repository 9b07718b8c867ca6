package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/emulation"
	"github.com/geobench/geobench/internal/fault"
)

// TestFaultsGoOnWhileOthersLoad: runs whose data takes for ever hold up no other's faults, and let go of their nodes when they are
// cancelled or deleted.
func TestFaultsGoOnWhileOthersLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hangs = map[string]bool{"slow": true, "slower": true}
	w.create(makeDatabase("slow").obj(), makeDatabase("slower").obj(), makeDatabase("d").obj(), makeRun("loads").database("slow").obj(), makeRun("too").database("slower").obj())
	for _, name := range []string{"loads", "too"} {
		w.untilStage(name, v1alpha1.StageLoad)
	}
	w.create(makeRun("r").database("d").duration(8 * time.Second).
		faults("[{name: cut, at: 2s, duration: 3s, networkPartition: {from: {regions: [us-west-2]}}}]").obj())
	st := w.untilOver("r").Status
	if st.Verdict != v1alpha1.VerdictPassed || st.Faults[0].State != string(fault.Done) {
		t.Errorf("the run ended %s: %s; its fault is %+v", st.Verdict, st.Message, st.Faults[0])
	}
	for _, name := range []string{"loads", "too"} {
		run := w.getRun(name)
		if run.Status.Stage != v1alpha1.StageLoad {
			t.Errorf("run %s is in stage %s: %s", name, run.Status.Stage, run.Status.Message)
		}
	}
	run := w.getRun("loads")
	run.Spec.Cancel = true
	w.must(w.client.Update(w.ctx, run))
	w.must(w.client.Delete(w.ctx, w.getRun("too")))
	w.until("both are gone", func() bool {
		err := w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: "too"}, run)
		return apierrors.IsNotFound(err) && kube.Over(w.getRun("loads"))
	})
	w.hangs = nil
	w.settle()
	if w.givenUp != 4 {
		t.Errorf("%d of 4 nodes know that nobody waits for their data any more", w.givenUp)
	}
}

// counting is a client that counts what it asks the API server for: reads where they count, and all writes.
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

// TestWaitingIsCheap: a run that waits for its turn costs one request, is refused at once when it is impossible, and can be deleted at
// once.
func TestWaitingIsCheap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("first").database("d").duration(time.Minute).obj())
	w.untilStage("first", v1alpha1.StageWarmup)
	requests := 0
	w.run.Client, w.run.Live = counting(w.client, false, &requests), counting(w.client, true, &requests)
	const waiting = 10
	var runs []*v1alpha1.BenchmarkRun
	for i := range waiting {
		runs = append(runs, makeRun(fmt.Sprintf("waits-%02d", i)).database("d").obj())
		w.create(runs[i])
	}
	for round, want := range []int{waiting, 0, 0} {
		requests = 0
		for _, run := range runs {
			w.reconcile(w.run, run)
		}
		if requests != want {
			t.Errorf("round %d: %d runs that wait cost %d requests, want %d", round+1, waiting, requests, want)
		}
	}
	for _, run := range runs {
		if c := meta.FindStatusCondition(w.getRun(run.Name).Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Reason != "DatabaseBusy" {
			t.Errorf("run %s: %+v", run.Name, c)
		}
	}
	impossible := makeRun("impossible").database("d").sunflower("mars").obj()
	w.create(impossible)
	w.until("the impossible one is refused", func() bool { return kube.Over(w.getRun("impossible")) })
	for _, run := range runs {
		w.must(w.client.Delete(w.ctx, run))
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(run), run); !apierrors.IsNotFound(err) {
			t.Errorf("run %s is still there: %v", run.Name, err)
		}
	}
}

// crowdPods ask the pods of one world, and those of a crowd of databases that never answer.
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

// silence are nodes that take connections and say nothing.
type silence struct{ podclient.Nodes }

func (silence) Status(ctx context.Context, addr string) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, podclient.NodeTimeout)
	defer cancel()
	<-ctx.Done()
	return nil, errors.New(addr + " does not answer")
}

// TestCrowd: a tenant's run starts while a thousand runs of another one wait for one database, and two hundred databases do not answer.
// It takes minutes of real time: GEOBENCH_CROWD=1 runs it (make crowd).
func TestCrowd(t *testing.T) {
	if os.Getenv("GEOBENCH_CROWD") == "" {
		t.Skip("GEOBENCH_CROWD is not set: make crowd runs this test")
	}
	const waiting, silent = 1000, 200
	crowd, w := newWorld(t), newWorld(t)
	var mu sync.Mutex
	hung := map[types.UID]bool{}
	var requests atomic.Int64
	config := rest.CopyConfig(apiServer)
	config.QPS, config.Burst = 50, 100 // as geobench operator has it
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { requests.Add(1); return next.RoundTrip(r) })
	})
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: kube.Scheme(), Cache: kube.CacheOptions(""), Metrics: metricsserver.Options{BindAddress: "0"}})
	w.must(err)
	w.must(SetupWithManager(mgr, Options{Namespace: w.namespace, Image: testImage, Clock: clock.RealClock{}, Events: w.recorder, Pods: &crowdPods{Clients: w, silent: func(uid types.UID) bool {
		mu.Lock()
		defer mu.Unlock()
		return hung[uid]
	}}}))
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	defer func() { stop(); w.must(<-stopped) }()

	// rate measures how many requests a second the operator makes, while the world of w plays.
	rate := func(what string, until func() bool) {
		t.Helper()
		start, before := time.Now(), requests.Load()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for !until() {
			now := <-tick.C
			w.clock.SetTime(now)
			w.playCluster()
			if now.Sub(start) > 5*time.Minute {
				t.Fatalf("gave up waiting until %s", what)
			}
		}
		took, n := time.Since(start), requests.Load()-before
		t.Logf("%s: %v, %d requests, %.0f a second", what, took.Round(100*time.Millisecond), n, float64(n)/took.Seconds())
	}
	for i := range silent {
		db := makeDatabase(fmt.Sprintf("silent-%03d", i)).obj()
		mu.Lock()
		crowd.create(db)
		hung[db.UID] = true
		mu.Unlock()
	}
	crowd.create(makeDatabase("busy").obj())
	for i := range waiting {
		crowd.create(makeRun(fmt.Sprintf("waits-%04d", i)).database("busy").duration(time.Hour).obj())
	}
	crowd.playCluster() // the pods of all these databases run, and never answer
	created := time.Now()
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").duration(10*time.Second).
		faults("[{name: busy, at: 2s, duration: 3s, cpuStress: {target: {}, workers: 1}}]").obj())
	rate("another tenant's run loads its data", func() bool {
		return slices.Contains([]v1alpha1.Stage{v1alpha1.StageLoad, v1alpha1.StageWarmup, v1alpha1.StageMeasure}, w.getRun("r").Status.Stage)
	})
	if took := time.Since(created); took > 30*time.Second {
		t.Errorf("it took %v from its creation", took)
	}
	rate("it is over", func() bool { return kube.Over(w.getRun("r")) })
	if st := w.getRun("r").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("it ended %s: %s", st.Verdict, st.Message)
	}
	begun := time.Now()
	before := requests.Load()
	rate("a minute in which nothing happens", func() bool { return time.Since(begun) > time.Minute })
	if n := requests.Load() - before; n > 50*60 {
		t.Errorf("%d requests in a minute, want at most 50 a second", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
