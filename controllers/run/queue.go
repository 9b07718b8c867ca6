package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/health"
)

// Runs use a database one after another, in the order of creation and then of name. Thousands of runs may wait, so
// waiting costs at most one request to the API server. A run looks up the preceding runs in the cache, and is woken up
// when it becomes the first (see wakesUp). The state in the API server decides which run is first (see preflight).

// queued reports whether, according to its status, the run waits in the queue.
func queued(run *v1alpha1.BenchmarkRun) bool {
	c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionAccepted)
	return run.Status.Stage == v1alpha1.StagePreflight && c != nil && c.Reason == health.DatabaseBusy
}

// takesTurns reports whether the run can wait in the queue: it has reserved nothing yet, and its spec is unchanged
// since it was last reconciled.
func takesTurns(run *v1alpha1.BenchmarkRun) bool {
	st := &run.Status
	return run.DeletionTimestamp == nil && !run.Spec.Cancel && !run.Held() && !controllerutil.ContainsFinalizer(run, kube.Finalizer) &&
		(st.Stage == "" || queued(run) && st.RunID == run.Spec.RunID && st.ObservedGeneration == run.Generation)
}

// waitInQueue handles a run that must keep waiting because other runs in the cache precede it. It returns false if the
// run needs a full reconciliation. A new run is marked as waiting only once its spec has passed the checks.
func (r *Reconciler) waitInQueue(ctx context.Context, name types.NamespacedName) (bool, reconcile.Result, error) {
	run, db := &v1alpha1.BenchmarkRun{}, &v1alpha1.GeoDatabase{}
	if r.Client.Get(ctx, name, run) != nil || !takesTurns(run) ||
		r.Client.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: run.Spec.DatabaseRef.Name}, db) != nil {
		return false, reconcile.Result{}, nil
	}
	if _, err := database.Render(ctx, r.Client, db); err != nil {
		return false, reconcile.Result{}, err
	}
	s := &scope{Reconciler: r, run: run, before: run.DeepCopy(), db: db}
	ahead, err := s.ahead(ctx, r.Client)
	if err != nil || len(ahead) == 0 {
		return false, reconcile.Result{}, err
	}
	if run.Status.Stage == "" {
		_, err := database.NewPlan(ctx, r.Client, r.Client, r.Abilities, r.Choose, db, r.Image)
		// Only the first run in the queue starts probes of the cluster's capabilities.
		if pending := (*database.PendingError)(nil); err != nil && !errors.As(err, &pending) || len(check.Run(run, db, r.Abilities)) > 0 {
			return false, reconcile.Result{}, nil
		}
		s.begin()
	}
	// Write the status of a waiting run only when the wait starts and when a single run is left ahead. Other changes of
	// the queue cause no write.
	if !queued(run) || len(ahead) == 1 {
		s.queue(ahead)
	}
	s.again = kube.PollQueue
	result, err := s.record(ctx, nil)
	return true, result, err
}

// queue reports in the status that the run waits in the queue.
func (s *scope) queue(ahead []string) {
	message := fmt.Sprintf("waiting for BenchmarkRun %s, which uses GeoDatabase %s or comes first", ahead[0], s.db.Name)
	if more := len(ahead) - 1; more > 0 {
		message += fmt.Sprintf("; %d more come before this run", more)
	}
	if !queued(s.run) {
		s.events = append(s.events, eventWaiting(message))
	}
	s.condition(v1alpha1.ConditionAccepted, false, health.DatabaseBusy, message)
	s.again = kube.PollQueue
}

// ahead returns the names of the runs that precede this run: first the run that uses the database, then the waiting
// runs in order. It omits the run's own functional tests, because they belong to this run.
func (s *scope) ahead(ctx context.Context, reader client.Reader) ([]string, error) {
	active := s.db.Status.ActiveRun
	if active == s.run.Name {
		return nil, nil
	}
	waiting, err := contenders(ctx, reader, s.db)
	if err != nil {
		return nil, err
	}
	own := testNames(s.run)
	var out []string
	if active != "" && !slices.Contains(own, active) {
		out = []string{active}
	}
	for _, other := range waiting {
		if other.Name == s.run.Name {
			return out, nil
		}
		if other.Name != active && !slices.Contains(own, other.Name) {
			out = append(out, other.Name)
		}
	}
	return out, nil
}

// contenders returns the unfinished runs on a database that are not held, in queue order. A functional test is directly
// ahead of the run that requested it.
func contenders(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase) ([]*v1alpha1.BenchmarkRun, error) {
	list := &v1alpha1.BenchmarkRunList{}
	// the list is only read
	if err := reader.List(ctx, list, client.InNamespace(db.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var out []*v1alpha1.BenchmarkRun
	for i := range list.Items {
		if run := &list.Items[i]; run.Spec.DatabaseRef.Name == db.Name && !kube.Over(run) && !run.Held() && run.DeletionTimestamp == nil {
			out = append(out, run)
		}
	}
	turns := make(map[*v1alpha1.BenchmarkRun]*v1alpha1.BenchmarkRun, len(out))
	for _, run := range out {
		turns[run] = turnOf(run, list.Items)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.BenchmarkRun) int {
		ta, tb := turns[a], turns[b]
		switch {
		case ta != tb:
			return byAge(ta, tb)
		// Tests precede the run that requested them and share its queue position.
		case a == ta:
			return 1
		case b == tb:
			return -1
		}
		return byAge(a, b)
	})
	return out, nil
}

// turnOf returns the run that determines the queue position of run: the run that requested it as a functional test, or
// run itself. A run that falsely claims to be a test has its own position.
func turnOf(run *v1alpha1.BenchmarkRun, all []v1alpha1.BenchmarkRun) *v1alpha1.BenchmarkRun {
	if owner := tested(run); owner != nil {
		for i := range all {
			if of := &all[i]; of.UID == owner.UID && !kube.Over(of) && slices.Contains(testNames(of), run.Name) {
				return of
			}
		}
	}
	return run
}

// byAge orders runs by creation time, then by name.
func byAge(a, b *v1alpha1.BenchmarkRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// wakesUp returns the runs to reconcile after a change of a database, or of another run on it. These are all runs that
// are not waiting in the queue. If the database is free, the first waiting run is included.
func (r *Reconciler) wakesUp(ctx context.Context, db *v1alpha1.GeoDatabase) (out []reconcile.Request) {
	runs, err := contenders(ctx, r.Client, db)
	if err != nil {
		return nil
	}
	first := true
	for _, run := range runs {
		if waits := queued(run); !waits || first && db.Status.ActiveRun == "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
			first = first && !waits
		}
	}
	return out
}

// leavesQueue passes an update if a run finishes, is held or is being deleted, so that other runs may advance.
type leavesQueue struct{ predicate.Funcs }

func (leavesQueue) Create(ctrlevent.CreateEvent) bool   { return false }
func (leavesQueue) Generic(ctrlevent.GenericEvent) bool { return false }

func (leavesQueue) Update(e ctrlevent.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*v1alpha1.BenchmarkRun)
	is, ok2 := e.ObjectNew.(*v1alpha1.BenchmarkRun)
	return ok1 && ok2 && (!kube.Over(was) && kube.Over(is) || !was.Held() && is.Held() || was.DeletionTimestamp == nil && is.DeletionTimestamp != nil)
}
