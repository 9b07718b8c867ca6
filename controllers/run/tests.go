package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/identity"
)

// A run with spec.functionalTests starts once all of these tests have passed. Each test is a BenchmarkRun that the run
// owns. It goes through all stages like any other run, with the same deadlines, stewards, results and handling of
// operator restarts. The tests are created one after another once the run is first in the queue. They are directly
// ahead of the run in the queue, so no other run starts in between.

const (
	// reasonTesting is the reason of Accepted while functional tests are running. This time does not count toward the
	// run's deadline.
	reasonTesting = "FunctionalTests"
	// passedKey is the key of the passed tests in the run's snapshot ConfigMap: a []result.FunctionalTest.
	passedKey = "tests.json.gz"
)

// tested returns the owner reference of a functional test, or nil for any other run.
func tested(run metav1.Object) *metav1.OwnerReference {
	if run.GetLabels()[kube.LabelRole] != kube.RoleFunctionalTest {
		return nil
	}
	return metav1.GetControllerOf(run)
}

// testOf reports whether the operator created test as a functional test of run. The operator may neither change nor
// delete objects without its labels.
func testOf(test, run *v1alpha1.BenchmarkRun) bool {
	return kube.MadeFor(test, run) && tested(test) != nil
}

// testNames returns the names of a run's functional tests.
func testNames(run *v1alpha1.BenchmarkRun) (out []string) {
	for _, test := range acceptance.Runs(run) {
		out = append(out, test.Name)
	}
	return out
}

// playTests runs the functional tests of the run. Once all have passed, it returns their entries for the result and
// true. A finished test counts only if the database has not changed since.
func (s *scope) playTests(ctx context.Context, plan *database.Plan) ([]result.FunctionalTest, bool, error) {
	var outcomes []acceptance.Outcome
	for i, want := range acceptance.Runs(s.run) {
		name := s.run.Spec.FunctionalTests[i]
		test, err := s.ensureTest(ctx, name, want)
		if test == nil || err != nil {
			return nil, false, err
		}
		if !kube.Settled(test) {
			var progress string
			if ready := meta.FindStatusCondition(test.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				progress = ready.Reason
			}
			s.testing("BenchmarkRun %s plays functional test %s%s", test.Name, name, kube.Suffix(progress))
			return nil, false, nil
		}
		if same, err := playedOn(test, s.db, plan); err != nil || !same {
			if err == nil {
				s.testing("functional test %s is played again: GeoDatabase %s was changed since BenchmarkRun %s", name, s.db.Name, test.Name)
				err = s.deleteTest(ctx, test)
			}
			return nil, false, err
		}
		o := acceptance.Outcome{Test: name, Run: test.Name, Verdict: test.Status.Verdict, Why: test.Status.Message}
		if test.Status.Summary != nil {
			o.Committed = test.Status.Summary.Committed
		}
		outcomes = append(outcomes, o)
	}
	passed, err := acceptance.Passed(s.run.Name, outcomes)
	if unfit := (*acceptance.NotPassedError)(nil); errors.As(err, &unfit) {
		s.condition(v1alpha1.ConditionAccepted, false, result.ReasonTestNotPassed, err.Error())
		s.fail(result.ReasonTestNotPassed, "%s", err)
		return nil, false, nil
	}
	return passed, err == nil, err
}

// testing reports the progress of the functional tests.
func (s *scope) testing(format string, args ...any) {
	s.condition(v1alpha1.ConditionAccepted, false, reasonTesting, fmt.Sprintf(format, args...))
	s.again = kube.PollRun
}

// playedOn reports whether a finished functional test was accepted with the current manifests of the database. It also
// returns true for a test that was not accepted, because such a test used no database.
func playedOn(test *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, plan *database.Plan) (bool, error) {
	if test.Status.ManifestsDigest == "" {
		return true, nil
	}
	text, err := json.Marshal(takeManifests(test, db, plan))
	return identity.Digest(text) == test.Status.ManifestsDigest && test.Status.DatabaseUID == string(db.UID), err
}

// plays reports whether test runs the same functional test as want, ignoring mutable fields of the spec. Another user
// or an earlier version of the operator may have created test.
func plays(test, want *v1alpha1.BenchmarkRun) bool {
	return equality.Semantic.DeepEqual(test.Spec.Fixed(), want.Spec.Fixed())
}

// ensureTest returns the run of a functional test for the current attempt. It creates, replaces or updates the run if
// necessary, and returns nil until it exists.
func (s *scope) ensureTest(ctx context.Context, name v1alpha1.FunctionalTest, want *v1alpha1.BenchmarkRun) (*v1alpha1.BenchmarkRun, error) {
	test := &v1alpha1.BenchmarkRun{}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(want), test)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	labels := kube.RunLabels(s.run, kube.RoleFunctionalTest)
	switch {
	case err != nil:
		// From here on, the run has objects that must be cleaned up.
		if err := s.addFinalizer(ctx); err != nil {
			return nil, err
		}
		want.Labels = labels
		err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, want)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return nil, kube.Refuse("TestRefused", "spec.functionalTests: %s cannot be played: %s", name, err)
		}
		if err == nil {
			s.events = append(s.events, eventTest(s.run, name, want))
			s.testing("BenchmarkRun %s plays functional test %s", want.Name, name)
		}
		return nil, err
	case !metav1.IsControlledBy(test, s.run):
		// The garbage collector will delete the test of a deleted run with the same name. Any other object blocks the name
		// permanently.
		if owner := tested(test); owner == nil || owner.Name != s.run.Name {
			return nil, kube.NameTaken(test)
		}
		s.testing("BenchmarkRun %s of an earlier run of this name is about to go", test.Name)
		return nil, nil
	case test.DeletionTimestamp != nil:
		s.testing("BenchmarkRun %s, which is being deleted, is made anew", test.Name)
		return nil, nil
	case !testOf(test, s.run):
		return nil, kube.NameTaken(test) // another user created it with the run as its owner
	// A run that is set back to an earlier runID must not accept the outcome of an earlier execution.
	case test.Spec.RunID == s.run.Spec.RunID && test.Labels[kube.LabelAttempt] != labels[kube.LabelAttempt]:
		s.testing("BenchmarkRun %s is made anew: an earlier execution of this run has played it", test.Name)
		return nil, s.deleteTest(ctx, test)
	case !plays(test, want):
		s.testing("BenchmarkRun %s is made anew: its spec is not that of functional test %s", test.Name, name)
		return nil, s.deleteTest(ctx, test)
	// A new attempt of the run restarts its tests with the new runID.
	case test.Spec.RunID != s.run.Spec.RunID || test.Spec.Cancel || test.Spec.Suspend:
		base := test.DeepCopy()
		test.Labels = labels
		test.Spec.RunID, test.Spec.Cancel, test.Spec.Suspend = s.run.Spec.RunID, false, false
		if err := s.addFinalizer(ctx); err != nil {
			return nil, err
		}
		s.testing("BenchmarkRun %s plays functional test %s", test.Name, name)
		return nil, s.Client.Patch(ctx, test, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	}
	return test, nil
}

// ownTest returns the run of a functional test by name, or nil if the run has no such test.
func (s *scope) ownTest(ctx context.Context, name string) (*v1alpha1.BenchmarkRun, error) {
	test := &v1alpha1.BenchmarkRun{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: name}, test)
	if err != nil || !testOf(test, s.run) {
		return nil, client.IgnoreNotFound(err)
	}
	return test, nil
}

// endTests stops the functional tests of the run. It cancels them, suspends them if the run is held, or deletes them if
// everything must be deleted. It returns the name of a test that remains, or "".
func (s *scope) endTests(ctx context.Context, everything bool) (left string, err error) {
	for _, name := range testNames(s.run) {
		test, err := s.ownTest(ctx, name)
		switch {
		case test == nil && err == nil:
			continue
		case err != nil:
			return "", err
		case everything:
			err = s.deleteTest(ctx, test)
		// A held test without a finalizer has created nothing, so it need not be stopped.
		case test.DeletionTimestamp != nil, kube.Settled(test), test.Held() && len(test.Finalizers) == 0:
			continue
		default:
			base := test.DeepCopy()
			test.Spec.Suspend = s.run.Held()
			test.Spec.Cancel = !test.Spec.Suspend
			err = s.Client.Patch(ctx, test, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
		}
		if client.IgnoreNotFound(err) != nil {
			return "", err
		}
		left = "BenchmarkRun " + name
	}
	return left, nil
}

// deleteTest deletes the run of a functional test.
func (s *scope) deleteTest(ctx context.Context, test *v1alpha1.BenchmarkRun) error {
	if test.DeletionTimestamp != nil {
		return nil
	}
	err := s.Client.Delete(ctx, test, client.Preconditions{UID: &test.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// noteTests stores the functional tests that have passed. It does not write equal contents again, so the run makes
// progress even if the operator is killed after each write.
func (s *scope) noteTests(ctx context.Context, passed []result.FunctionalTest) error {
	if len(passed) == 0 {
		return nil
	}
	var was []result.FunctionalTest
	if _, err := s.noted(ctx, passedKey, &was); err != nil || slices.Equal(was, passed) {
		return err
	}
	return s.note(ctx, passedKey, passed)
}

// passedTests returns the functional tests that had passed before the run reserved its database.
func (s *scope) passedTests(ctx context.Context) (passed []result.FunctionalTest, err error) {
	if len(s.run.Spec.FunctionalTests) == 0 {
		return nil, nil
	}
	found, err := s.noted(ctx, passedKey, &passed)
	if err == nil && !found {
		err = troubled(result.ReasonSnapshotForged, "%s of ConfigMap %s, which the operator has written, is gone", passedKey, kube.SnapshotName(s.run))
	}
	return passed, err
}
