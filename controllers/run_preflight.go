package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/health"
	"github.com/geobench/geobench/internal/manifest/check"
)

// preflight finds out whether the run is possible, waits for its turn and takes the database.
func (s *runScope) preflight(ctx context.Context) error {
	st := &s.run.Status
	s.again = pollFast
	late := s.Clock.Now().Sub(st.StageStartTime.Time) > preflightDeadline
	if s.db == nil {
		if late {
			return s.refuse(refuse("DatabaseNotFound", "spec.databaseRef.name: namespace %s has no GeoDatabase %q; create it", s.run.Namespace, s.run.Spec.DatabaseRef.Name))
		}
		s.condition(v1alpha1.ConditionAccepted, false, "DatabaseNotFound",
			fmt.Sprintf("waiting for GeoDatabase %s to be created", s.run.Spec.DatabaseRef.Name))
		return nil
	}
	plan, err := planDatabase(ctx, s.Live, s.Abilities, s.Choose, s.db, s.Image)
	var pending *pendingError
	if errors.As(err, &pending) {
		s.condition(v1alpha1.ConditionAccepted, false, "Probing", pending.message)
		return nil
	}
	if err != nil {
		return s.refuse(err)
	}
	if problems := check.Run(s.run, s.db, s.Abilities); len(problems) > 0 { // as geobench validate
		return s.refuse(refuse("InvalidSpec", "%s", problems))
	}
	if _, err := s.resultObject(ctx); err != nil {
		return s.refuse(err)
	}
	err = s.checkInjection(ctx, plan)
	if errors.As(err, &pending) {
		s.condition(v1alpha1.ConditionAccepted, false, "Probing", pending.message)
		return nil
	}
	if err != nil {
		return s.refuse(err)
	}
	// The database must know whose run it is before the run may take it.
	if st.DatabaseUID != string(s.db.UID) {
		st.DatabaseUID = string(s.db.UID)
		s.again = time.Millisecond
		return nil
	}
	ahead, err := s.aheadInQueue(ctx)
	if err != nil {
		return err
	}
	queued := s.reason(v1alpha1.ConditionAccepted) == health.DatabaseBusy
	if ahead != "" {
		message := fmt.Sprintf("waiting for BenchmarkRun %s, which uses GeoDatabase %s or comes first", ahead, s.db.Name)
		if !queued {
			s.events = append(s.events, eventWaiting(message))
		}
		s.condition(v1alpha1.ConditionAccepted, false, health.DatabaseBusy, message)
		s.again = pollRun
		return nil
	}
	if queued {
		// The run's time counts from when its turn has come.
		now := s.now()
		st.StartTime, st.StageStartTime, late = &now, &now, false
	}
	if s.db.Status.TopologyHash != plan.hash {
		if late {
			return s.refuse(refuse("DatabaseChanging", "GeoDatabase %s was not brought to its present spec within %s; see its conditions",
				s.db.Name, v1alpha1.DurationOf(preflightDeadline)))
		}
		s.condition(v1alpha1.ConditionAccepted, false, "DatabaseChanging",
			fmt.Sprintf("waiting for GeoDatabase %s to be brought to its present spec", s.db.Name))
		return nil
	}
	if kept, err := s.keepManifests(ctx, takeManifests(s.run, s.db, plan)); err != nil || !kept {
		s.again = time.Millisecond
		return s.refuse(err)
	}
	if s.db.Status.ActiveRun != s.run.Name {
		// The lock on the resource version makes sure that this is the database that was looked at.
		base := s.db.DeepCopy()
		s.db.Status.ActiveRun = s.run.Name
		if err := s.Client.Status().Patch(ctx, s.db, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	s.condition(v1alpha1.ConditionAccepted, true, "Possible", fmt.Sprintf("GeoDatabase %s is this run's", s.db.Name))
	s.enter(v1alpha1.StageProvision)
	return nil
}

// aheadInQueue names a run that uses the database or has waited for it longer. Runs take turns in the order of their
// creation, then of their names.
func (s *runScope) aheadInQueue(ctx context.Context) (string, error) {
	if active := s.db.Status.ActiveRun; active == s.run.Name {
		return "", nil
	} else if active != "" {
		return active, nil
	}
	list := &v1alpha1.BenchmarkRunList{}
	if err := s.Live.List(ctx, list, client.InNamespace(s.run.Namespace)); err != nil {
		return "", err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == s.run.Name || other.Spec.DatabaseRef.Name != s.db.Name || over(other) || other.Held() || other.DeletionTimestamp != nil {
			continue
		}
		if earlier(other, s.run) {
			return other.Name, nil
		}
	}
	return "", nil
}

func earlier(a, b metav1.Object) bool {
	if ta, tb := a.GetCreationTimestamp(), b.GetCreationTimestamp(); !ta.Equal(&tb) {
		return ta.Before(&tb)
	}
	return a.GetName() < b.GetName()
}
