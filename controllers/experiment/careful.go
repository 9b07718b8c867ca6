package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/version"
)

// mostChecks is the maximum number of operators that may exit while they work on a spec. The first exit may be due to
// other work in progress.
const mostChecks = 2

// thisOperator identifies this process in status.checks.
var thisOperator = string(uuid.NewUUID())

// carefully starts a job for work whose cost depends on the author of an experiment: expanding the spec or evaluating
// its claims.
//
// The cost is bounded. But if a bound is wrong and the operator exits during the work, its successors must not repeat
// the work forever. So status.checks records the work before it starts. An operator that finds the record of another
// operator repeats the work alone, with no other such work in progress. If the operator exits again, the next one
// refuses the work. Work that has succeeded once with the same inputs is safe and needs no record.
func (s *scope) carefully(key background.Key, budget *background.Budget, kind v1alpha1.ExperimentWork, of string, work func(context.Context) (any, error)) error {
	// The hash includes the operator's version: a new version may have fixed the cause of the exit, so its attempts are
	// counted from 1 again.
	sum := sha256.Sum256([]byte(of + version.String()))
	mark := v1alpha1.ExperimentCheck{Work: kind, Of: hex.EncodeToString(sum[:8]), Attempts: 1, Operator: thisOperator}
	marked := false
	if was := checkOf(s.experiment, kind); was != nil && was.Of == mark.Of {
		marked = was.Attempts == 0 || was.Operator == thisOperator
		mark.Attempts = was.Attempts
		if !marked {
			mark.Attempts++
		}
	}
	if mark.Attempts > mostChecks {
		return kube.Refuse("OperatorEnded", "the operator exited twice while it expanded this spec or judged its claims, the second time with no other such work in progress, and does not try again: change the spec, for example sweep fewer values or claim less")
	}
	share := int64(1)
	// After a first failure, take the whole budget, so that a second failure cannot be due to concurrent work.
	if mark.Attempts > 1 {
		share = budget.Size()
	}
	object, to := s.experiment.DeepCopy(), s.Client
	background.Go(s.Jobs, key, budget, share, func(ctx context.Context) (any, error) {
		if !marked {
			if err := setCheck(ctx, to, object, mark); err != nil {
				return nil, err
			}
		}
		out, err := work(ctx)
		if err != nil && mark.Attempts > 0 { // on success, the receiver of the outcome clears the record
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
			defer cancel()
			mark.Of = "" // the work has failed without an exit, so another operator starts with its first attempt
			_ = setCheck(after, to, object, mark)
		}
		return out, err
	})
	return nil
}

func checkOf(e *v1alpha1.Experiment, kind v1alpha1.ExperimentWork) *v1alpha1.ExperimentCheck {
	for i := range e.Status.Checks {
		if e.Status.Checks[i].Work == kind {
			return &e.Status.Checks[i]
		}
	}
	return nil
}

// survived records in status.checks that the work has finished without an exit of the operator.
func (s *scope) survived(kind v1alpha1.ExperimentWork) {
	if c := checkOf(s.experiment, kind); c != nil {
		c.Attempts, c.Operator = 0, ""
	}
}

// markTimeout bounds the time to clear a record during shutdown.
const markTimeout = 2 * time.Second

// setCheck writes status.checks, and nothing else, if the experiment still exists.
func setCheck(ctx context.Context, to client.Client, object *v1alpha1.Experiment, mark v1alpha1.ExperimentCheck) error {
	checks := []v1alpha1.ExperimentCheck{mark}
	for _, c := range object.Status.Checks {
		if c.Work != mark.Work {
			checks = append(checks, c)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID}, "status": map[string]any{"checks": checks}})
	if err != nil {
		return err
	}
	here := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	err = to.Status().Patch(ctx, here, client.RawPatch(types.MergePatchType, patch))
	// The experiment was deleted, or replaced by another one with the same name.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
