package run

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
)

// reasonQueued is the reason of a stage's condition while the run waits for others that do the same: that is no part
// of the stage's time.
const reasonQueued = "Queued"

// jobPhase is of what part of a run's life jobs can be: a stage of an attempt, and nothing once the run is to
// go or to start over.
func jobPhase(run *v1alpha1.BenchmarkRun) string {
	if run.DeletionTimestamp != nil || run.Spec.Cancel || run.Status.RunID != run.Spec.RunID {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s", run.UID, kube.Attempt(run), run.Status.Stage)
}

// job names a job of the run's present stage.
func (s *scope) job(name string) background.Key {
	return background.Key{Object: types.NamespacedName(client.ObjectKeyFromObject(s.run)), Phase: jobPhase(s.run), Name: name}
}

// aside returns a copy of the scope for a job, which continues while the run is reconciled. The job may read through
// it, and changes nothing.
func (s *scope) aside() *scope {
	out := *s
	out.run, out.db = s.run.DeepCopy(), s.db.DeepCopy()
	return &out
}

// underway says in a condition that a job is not done yet; it wakes the run up.
func (s *scope) underway(state background.State, condition string, status metav1.ConditionStatus, reason, message string) {
	s.again = kube.PollRun
	if state == background.Queued {
		reason, message = reasonQueued, "other runs, which do the same, come first"
	}
	s.say(condition, status, reason, message)
}

// notYetError is the reason why a job must be started again: the reason of a condition, and a sentence.
type notYetError struct{ reason, message string }

func (e *notYetError) Error() string { return e.message }

func notYet(reason, format string, args ...any) error {
	return &notYetError{reason, fmt.Sprintf(format, args...)}
}
