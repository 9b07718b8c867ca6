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

// Runs take turns on a database, in the order of creation, then of name. Thousands may wait, so waiting costs only one
// request to the API server. The runs ahead are looked up in the cache, and a run is woken up when it becomes the first
// (see wakesUp). The API server's state decides the turns (see preflight).

// queued reports whether a run waits for its turn, according to its status.
func queued(run *v1alpha1.BenchmarkRun) bool {
	c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionAccepted)
	return run.Status.Stage == v1alpha1.StagePreflight && c != nil && c.Reason == health.DatabaseBusy
}

// takesTurns reports whether a run holds nothing yet and its request is unchanged since it was last reconciled.
func takesTurns(run *v1alpha1.BenchmarkRun) bool {
	st := &run.Status
	return run.DeletionTimestamp == nil && !run.Spec.Cancel && !run.Held() && !controllerutil.ContainsFinalizer(run, kube.Finalizer) &&
		(st.Stage == "" || queued(run) && st.RunID == run.Spec.RunID && st.ObservedGeneration == run.Generation)
}

// waitInQueue leaves a run waiting while other runs precede it in the cache; it returns false if the run needs a full
// reconciliation. A new run gets the waiting condition once it is known to be possible.
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
		// The capabilities of the cluster are determined for the first run in the queue.
		if pending := (*database.PendingError)(nil); err != nil && !errors.As(err, &pending) || len(check.Run(run, db, r.Abilities)) > 0 {
			return false, reconcile.Result{}, nil
		}
		s.begin()
	}
	if !queued(run) || len(ahead) == 1 {
		s.queue(ahead)
	}
	s.again = kube.PollQueue
	result, err := s.record(ctx, nil)
	return true, result, err
}

// queue says that the run waits for its turn.
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

// ahead returns the runs that use the database or have waited for it longer: the run that uses it first, then the
// waiting runs in order. It omits the run's own functional tests, because they are part of its turn.
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

// contenders are the runs on a database that are neither over nor held, in the order of their turns. A functional test
// has its turn right before the run that it is a test of.
func contenders(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase) ([]*v1alpha1.BenchmarkRun, error) {
	list := &v1alpha1.BenchmarkRunList{}
	if err := reader.List(ctx, list, client.InNamespace(db.Namespace), client.UnsafeDisableDeepCopy); err != nil { // nothing is changed of them
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
		case a == ta:
			return 1
		case b == tb:
			return -1
		}
		return byAge(a, b)
	})
	return out, nil
}

// turnOf returns the run that determines a run's turn: the run itself, or the run that it is a functional test of. A
// run that falsely claims to be a test waits like any other.
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

// byAge orders runs by their creation, then by their names.
func byAge(a, b *v1alpha1.BenchmarkRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// wakesUp returns the runs affected by a change of a database, or of another run on it. They are the run that uses the
// database, the runs that do not wait for their turn, and the first run that does.
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

// leavesQueue lets through that a run has ended, gone or is held, so that others may move up.
type leavesQueue struct{ predicate.Funcs }

func (leavesQueue) Create(ctrlevent.CreateEvent) bool   { return false }
func (leavesQueue) Generic(ctrlevent.GenericEvent) bool { return false }

func (leavesQueue) Update(e ctrlevent.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*v1alpha1.BenchmarkRun)
	is, ok2 := e.ObjectNew.(*v1alpha1.BenchmarkRun)
	return ok1 && ok2 && (!kube.Over(was) && kube.Over(is) || !was.Held() && is.Held() || was.DeletionTimestamp == nil && is.DeletionTimestamp != nil)
}
