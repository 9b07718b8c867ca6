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

// reasonQueued is the reason of a stage's condition while the run waits for other runs in the same stage. This time
// does not count toward the deadline of the stage.
const reasonQueued = "Queued"

// jobPhase identifies the attempt and stage to which background jobs of the run belong. It is empty once the run must
// be removed, cancelled or restarted, so that no job continues.
func jobPhase(run *v1alpha1.BenchmarkRun) string {
	if run.DeletionTimestamp != nil || run.Spec.Cancel || run.Status.RunID != run.Spec.RunID {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s", run.UID, kube.Attempt(run), run.Status.Stage)
}

// job returns the key of a job in the run's current stage.
func (s *scope) job(name string) background.Key {
	return background.Key{Object: types.NamespacedName(client.ObjectKeyFromObject(s.run)), Phase: jobPhase(s.run), Name: name}
}

// aside returns a copy of the scope for a background job, which continues while the run is reconciled. The job may only
// read from the cluster through this copy.
func (s *scope) aside() *scope {
	out := *s
	out.run, out.db = s.run.DeepCopy(), s.db.DeepCopy()
	return &out
}

// underway reports in a condition that a job is not finished, and schedules another reconciliation.
func (s *scope) underway(state background.State, condition string, status metav1.ConditionStatus, reason, message string) {
	s.again = kube.PollRun
	if state == background.Queued {
		reason, message = reasonQueued, "other runs, which do the same, come first"
	}
	s.say(condition, status, reason, message)
}

// notYetError means that a job must be repeated. It has the reason and the message for the condition.
type notYetError struct{ reason, message string }

func (e *notYetError) Error() string { return e.message }

func notYet(reason, format string, args ...any) error {
	return &notYetError{reason, fmt.Sprintf(format, args...)}
}
