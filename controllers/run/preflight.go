package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// preflight checks whether the run is possible, waits until the run is first in the queue, and reserves the database.
func (s *scope) preflight(ctx context.Context) error {
	st := &s.run.Status
	s.again = kube.PollFast
	// The time in the queue does not count toward the deadline.
	waits := queued(s.run) || s.reason(v1alpha1.ConditionAccepted) == reasonTesting
	late := !waits && s.Clock.Now().Sub(st.StageStartTime.Time) > preflightDeadline
	if s.db == nil {
		if late {
			return s.refuse(kube.Refuse("DatabaseNotFound", "spec.databaseRef.name: namespace %s has no GeoDatabase %q; create it", s.run.Namespace, s.run.Spec.DatabaseRef.Name))
		}
		s.condition(v1alpha1.ConditionAccepted, false, "DatabaseNotFound",
			fmt.Sprintf("waiting for GeoDatabase %s to be created", s.run.Spec.DatabaseRef.Name))
		return nil
	}
	plan, err := database.NewPlan(ctx, s.Live, s.Live, s.Abilities, s.Choose, s.db, s.Image)
	var pending *database.PendingError
	if errors.As(err, &pending) {
		s.condition(v1alpha1.ConditionAccepted, false, "Probing", pending.Message)
		return nil
	}
	if err != nil {
		return s.refuse(err)
	}
	if problems := check.Run(s.run, s.db, s.Abilities); len(problems) > 0 { // the same checks as geobench validate
		return s.refuse(kube.Refuse("InvalidSpec", "%s", problems))
	}
	if err := s.checkCapacity(ctx); err != nil {
		return s.refuse(err)
	}
	if _, err := s.resultObject(ctx); err != nil {
		return s.refuse(err)
	}
	err = s.checkInjection(ctx, plan)
	if errors.As(err, &pending) {
		s.condition(v1alpha1.ConditionAccepted, false, "Probing", pending.Message)
		return nil
	}
	if err != nil {
		return s.refuse(err)
	}
	// The database's UID must be in the status before the run reserves the database, so that a recreated database is
	// detected.
	if st.DatabaseUID != string(s.db.UID) {
		st.DatabaseUID = string(s.db.UID)
		s.again = time.Millisecond
		return nil
	}
	// With outdated caches, two runs could each consider itself first, so the queue is read from the API server.
	ahead, err := s.ahead(ctx, s.Live)
	if err != nil {
		return err
	}
	if len(ahead) > 0 {
		s.queue(ahead)
		return nil
	}
	passed, done, err := s.playTests(ctx, plan)
	if !done || err != nil {
		return s.refuse(err)
	}
	// While a run uses the database, a new spec of the database is not deployed. So the run must not reserve nodes of an
	// earlier spec.
	if s.db.Status.TopologyHash != plan.Hash {
		if late {
			return s.refuse(kube.Refuse("DatabaseChanging", "GeoDatabase %s was not brought to its present spec within %s; see its conditions",
				s.db.Name, v1alpha1.DurationOf(preflightDeadline)))
		}
		s.condition(v1alpha1.ConditionAccepted, false, "DatabaseChanging",
			fmt.Sprintf("waiting for GeoDatabase %s to be brought to its present spec", s.db.Name))
		return nil
	}
	// From here on, the run creates objects that must be cleaned up.
	if err := s.addFinalizer(ctx); err != nil {
		return err
	}
	if kept, err := s.keepManifests(ctx, takeManifests(s.run, s.db, plan)); err != nil || !kept {
		s.again = time.Millisecond
		return s.refuse(err)
	}
	if err := s.noteTests(ctx, passed); err != nil {
		return err
	}
	if s.db.Status.ActiveRun != s.run.Name {
		// The lock on the resource version ensures that the database is unchanged since the checks, and that only one run
		// reserves it.
		base, spec := s.db.DeepCopy(), s.db.Spec.DeepCopy() // the spec may be rendered, but the patch returns the original
		s.db.Status.ActiveRun = s.run.Name
		if err := s.Client.Status().Patch(ctx, s.db, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
		s.db.Spec = *spec
	}
	s.condition(v1alpha1.ConditionAccepted, true, "Possible", fmt.Sprintf("GeoDatabase %s is this run's", s.db.Name))
	s.enter(v1alpha1.StageProvision)
	return nil
}
