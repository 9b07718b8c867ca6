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

// mostChecks is the number of operators that may exit while they work on a spec: the first exit may be due to other
// work in progress.
const mostChecks = 2

// thisOperator identifies this process in status.checks.
var thisOperator = string(uuid.NewUUID())

// carefully starts a job for work with a cost that the author of an experiment controls: expanding the spec and judging
// its claims. The cost is bounded. If a bound is wrong and the operator exits, the next operator must not repeat that
// forever, so status.checks records the work before it starts. An operator that finds another operator's record does
// the work with no other such work in progress, or refuses it if that failed before. Work that has succeeded once with
// the same inputs is safe and needs no record.
func (s *scope) carefully(key background.Key, budget *background.Budget, kind v1alpha1.ExperimentWork, of string, work func(context.Context) (any, error)) error {
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
		if err != nil && mark.Attempts > 0 { // otherwise the receiver of the outcome records that it is done
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
			defer cancel()
			mark.Of = "" // another operator begins with its first attempt
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

// survived notes that work is done.
func (s *scope) survived(kind v1alpha1.ExperimentWork) {
	if c := checkOf(s.experiment, kind); c != nil {
		c.Attempts, c.Operator = 0, ""
	}
}

// markTimeout bounds the removal of a mark by an operator that is asked to stop.
const markTimeout = 2 * time.Second

// setCheck writes status.checks, and nothing else, if the experiment is still there.
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
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted, or another experiment of its name
		return nil
	}
	return err
}
