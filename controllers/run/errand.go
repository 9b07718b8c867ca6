package run

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/errand"
	"github.com/geobench/geobench/controllers/kube"
)

// reasonQueued is the reason of a stage's condition while the run waits for others that do the same: that is no part
// of the stage's time.
const reasonQueued = "Queued"

// errandPhase is of what part of a run's life errands can be: a stage of an attempt, and nothing once the run is to
// go or to start over.
func errandPhase(run *v1alpha1.BenchmarkRun) string {
	if run.DeletionTimestamp != nil || run.Spec.Cancel || run.Status.RunID != run.Spec.RunID {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s", run.UID, kube.Attempt(run), run.Status.Stage)
}

// errand names an errand of the run's present stage.
func (s *scope) errand(name string) errand.Key {
	return errand.Key{Object: types.NamespacedName(client.ObjectKeyFromObject(s.run)), Phase: errandPhase(s.run), Name: name}
}

// aside is a copy of the scope for an errand, which goes on while the run is looked at: it may ask, and changes
// nothing.
func (s *scope) aside() *scope {
	out := *s
	out.run, out.db = s.run.DeepCopy(), s.db.DeepCopy()
	return &out
}

// underway says in a condition that an errand is not done yet; it wakes the run up.
func (s *scope) underway(state errand.State, condition string, status metav1.ConditionStatus, reason, message string) {
	s.again = kube.PollRun
	if state == errand.Queued {
		reason, message = reasonQueued, "other runs, which do the same, come first"
	}
	s.say(condition, status, reason, message)
}

// notYetError says why an errand is to be started again: the reason of a condition, and a sentence.
type notYetError struct{ reason, message string }

func (e *notYetError) Error() string { return e.message }

func notYet(reason, format string, args ...any) error {
	return &notYetError{reason, fmt.Sprintf(format, args...)}
}
