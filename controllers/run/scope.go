package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/health"
)

// scope is one reconciliation of a BenchmarkRun. Steps change run in memory; the status is written at the end.
type scope struct {
	*Reconciler
	run *v1alpha1.BenchmarkRun
	// before is the run as it was read from the API server.
	before *v1alpha1.BenchmarkRun
	// db and current are set by checkDatabase: db from stage Provision on, and current from stage Load on. In Preflight,
	// db is nil if the database does not exist.
	db      *v1alpha1.GeoDatabase
	current *database.Incarnation
	// declared is the spec of db in the API server. The spec in db itself may be rendered.
	declared *v1alpha1.GeoDatabaseSpec
	// nodes is set by checkHealth from stage Warmup on.
	nodes []database.Node
	// workers is set by checkHealth once the workers are created.
	workers []workerState
	// gone means that the run no longer exists and cannot be written.
	gone bool
	// again is the time until the next reconciliation; 0 schedules none.
	again  time.Duration
	events []kube.Event
}

// node returns the node with the given ID. The slice is sorted by ID, but has gaps where regions have different numbers
// of nodes, so the ID is not always the index.
func (s *scope) node(id geo.NodeID) *database.Node {
	if int(id) < len(s.nodes) && s.nodes[id].ID == id {
		return &s.nodes[id]
	}
	return &s.nodes[slices.IndexFunc(s.nodes, func(n database.Node) bool { return n.ID == id })]
}

func (s *scope) now() metav1.Time { return metav1.NewTime(s.Clock.Now()) }

// moved reports whether this reconciliation changed the stage. The new stage must then be written before any of its
// actions.
func (s *scope) moved() bool { return s.run.Status.Stage != s.before.Status.Stage }

// enter moves the run to a stage and reconciles it again immediately.
func (s *scope) enter(stage v1alpha1.Stage) {
	st := &s.run.Status
	now := s.now()
	if stage != v1alpha1.StageCompleted && stage != v1alpha1.StageFailed {
		s.events = append(s.events, eventStage(s.run, stage, s.whyEnter(stage), now.Time))
	}
	st.Stage, st.StageStartTime = stage, &now
	s.again = time.Millisecond
}

// whyEnter returns the reason of the condition for which the current stage has waited. For a return to an earlier
// stage, it is the reason of that stage's condition.
func (s *scope) whyEnter(next v1alpha1.Stage) string {
	now := order(s.run.Status.Stage)
	if now < 0 {
		return "Started"
	}
	return s.reason(stages()[min(now, order(next))].condition)
}

// end finishes the run with a verdict.
func (s *scope) end(stage v1alpha1.Stage, verdict v1alpha1.Verdict, reason, message string) {
	s.enter(stage)
	st := &s.run.Status
	st.CompletionTime = st.StageStartTime
	st.Verdict, st.Reason, st.Message = verdict, reason, kube.Truncate(message, 4096)
	s.condition(v1alpha1.ConditionCompleted, true, reason, message)
	s.events = append(s.events, eventCompleted(s.run, message))
}

// fail ends the run without a result. The verdict is Invalid whatever the cause: the verdict Failed would mean that a
// valid measurement missed an objective or a check.
func (s *scope) fail(reason, format string, args ...any) {
	s.end(v1alpha1.StageFailed, v1alpha1.VerdictInvalid, reason, fmt.Sprintf(format, args...))
}

// refuse ends the run if err means that the run is refused or that a name is taken. It returns every other error.
func (s *scope) refuse(err error) error {
	if r := kube.AsRefusal(err); r != nil {
		s.condition(v1alpha1.ConditionAccepted, false, r.Reason, r.Message)
		s.fail(r.Reason, "%s", r.Message)
		return nil
	}
	return err
}

func (s *scope) condition(kind string, value bool, reason, message string) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	s.say(kind, status, reason, message)
}

// say sets a condition. If the run thereby stops waiting for other runs, for whatever reason, say also restarts or
// extends the deadlines.
func (s *scope) say(kind string, status metav1.ConditionStatus, reason, message string) {
	st, now := &s.run.Status, s.now()
	switch was := s.reason(kind); {
	case was == reason || st.StageStartTime == nil:
	// The time in the queue or in functional tests does not count toward a deadline, so both deadlines start now.
	case was == health.DatabaseBusy || was == reasonTesting:
		st.StartTime, st.StageStartTime = &now, &now
	case was == reasonQueued:
		if !s.atLeast(v1alpha1.StageWarmup) { // from Warmup on, workers depend on StartTime
			start := metav1.NewTime(st.StartTime.Add(now.Sub(st.StageStartTime.Time)))
			st.StartTime = &start
		}
		st.StageStartTime = &now
	}
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: kube.Truncate(message, 4096),
		ObservedGeneration: s.run.Generation, LastTransitionTime: now})
}

func (s *scope) isTrue(kind string) bool {
	return meta.IsStatusConditionTrue(s.run.Status.Conditions, kind)
}

// reason returns the reason of a condition, or "" if there is no such condition.
func (s *scope) reason(kind string) string {
	if c := meta.FindStatusCondition(s.run.Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// recorded updates the metrics and emits the events. It must be called after the status is written, so that they report
// only stored facts.
func (s *scope) recorded(ctx context.Context) {
	observeStages(s.before, s.run)
	observeFaults(s.before, s.run)
	kube.EmitAll(ctx, s.events, s.Events, s.run)
}

// checkDeadlines ends the run if the run or its current stage has exceeded its deadline.
func (s *scope) checkDeadlines() {
	st := &s.run.Status
	now := s.Clock.Now()
	if st.Stage == v1alpha1.StagePreflight {
		return // preflight has its own limit, which excludes the time in the queue
	}
	// Once everything is measured, only the deadlines of the remaining stages apply. Otherwise a complete measurement
	// could be lost for lack of a few minutes.
	if limit := runDeadline(s.run); now.Sub(st.StartTime.Time) > limit && !s.atLeast(v1alpha1.StageRecover) {
		s.fail("DeadlineExceeded", "the run took longer than spec.deadline (%s); it was in stage %s%s",
			v1alpha1.DurationOf(limit), st.Stage, s.waitingFor())
		return
	}
	if waitsForOthers(s.run) {
		return
	}
	if limit := stageOf(s.run).deadline(s.run); now.Sub(st.StageStartTime.Time) > limit {
		s.fail("StageDeadlineExceeded", "stage %s took longer than %s%s", st.Stage, v1alpha1.DurationOf(limit), s.waitingFor())
	}
}

// waitsForOthers reports whether the run waits for other runs in the same stage. This time does not count toward the
// stage's deadline.
func waitsForOthers(run *v1alpha1.BenchmarkRun) bool {
	return slices.ContainsFunc(run.Status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == reasonQueued && (c.Type == stageOf(run).condition || c.Type == v1alpha1.ConditionNotRegressed)
	})
}

// waitingFor returns the message of the condition for which the current stage waits, as a suffix of a message.
func (s *scope) waitingFor() string {
	c := meta.FindStatusCondition(s.run.Status.Conditions, stageOf(s.run).condition)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return ": " + c.Message
}

func (s *scope) atLeast(stage v1alpha1.Stage) bool { return order(s.run.Status.Stage) >= order(stage) }

// checkDatabase reads the database, and ends the run if it is no longer the database with which the run started.
func (s *scope) checkDatabase(ctx context.Context) error {
	db := &v1alpha1.GeoDatabase{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.DatabaseRef.Name}, db)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && db.DeletionTimestamp == nil {
		s.db, s.declared = db, db.Spec.DeepCopy()
		if _, err := database.Render(ctx, s.Client, db); err != nil { // preflight refuses a spec that cannot be rendered
			return err
		}
	}
	if !s.atLeast(v1alpha1.StageProvision) {
		return nil
	}
	st := &s.run.Status
	switch {
	case apierrors.IsNotFound(err) || db.DeletionTimestamp != nil:
		s.fail("DatabaseDeleted", "GeoDatabase %s was deleted while the run was in stage %s", s.run.Spec.DatabaseRef.Name, st.Stage)
		return nil
	// A database with the same name but another UID has none of this run's data.
	case string(db.UID) != st.DatabaseUID:
		s.fail("DatabaseDeleted", "GeoDatabase %s was deleted and made anew while the run was in stage %s", db.Name, st.Stage)
		return nil
	case db.Status.ActiveRun != s.run.Name:
		s.fail("DatabaseLost", "GeoDatabase %s was given to %q while the run was in stage %s", db.Name, db.Status.ActiveRun, st.Stage)
		return nil
	}
	if !s.atLeast(v1alpha1.StageLoad) {
		return nil
	}
	if s.current, err = s.incarnation(ctx); err != nil {
		return err
	}
	// From Load on, the run depends on the data and state of exactly these processes.
	if s.current != nil && s.current.ID() == st.DatabaseIncarnation && !s.current.Foreign {
		return nil
	}
	if st.Stage == v1alpha1.StageLoad {
		// Nothing was measured yet: continue from Provision with the new nodes, within the run's deadline.
		st.DatabaseIncarnation = ""
		s.condition(v1alpha1.ConditionDatabaseReady, false, "DatabaseReplaced", "the database's nodes were made anew")
		s.enter(v1alpha1.StageProvision)
		return nil
	}
	cause := ""
	if s.current != nil && s.current.Foreign {
		cause = ": their topology was made by somebody else"
	} else if s.current != nil && s.current.Cause != "" {
		cause = ": " + s.current.Cause
	}
	s.fail("DatabaseReplaced", "the nodes of GeoDatabase %s were made anew in stage %s%s", db.Name, st.Stage, cause)
	return nil
}

// release releases the database for other runs.
func (s *scope) release(ctx context.Context) error {
	db := &v1alpha1.GeoDatabase{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.DatabaseRef.Name}, db)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	// If an earlier removal of the finalizer failed, the database may already belong to another run.
	if db.Status.ActiveRun != s.run.Name {
		return nil
	}
	base := db.DeepCopy()
	db.Status.ActiveRun = ""
	return client.IgnoreNotFound(s.Client.Status().Patch(ctx, db, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}
