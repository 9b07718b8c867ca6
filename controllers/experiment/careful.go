package experiment

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/errand"
	"github.com/geobench/geobench/controllers/kube"
)

// mostChecks is how many operators may end while they work on a spec: with the first one others were worked on, too.
const mostChecks = 2

// thisOperator tells this process from others in status.check.
var thisOperator = string(uuid.NewUUID())

// carefully starts an errand for what the author of an experiment can make large: expanding the spec and judging its claims. What it can take is
// bounded; should a bound be wrong and the operator end of it, its successor must not do the same for ever. status.check says what is
// under way before it begins, and an operator that finds the mark of another one does that work alone, or refuses it if that was in vain.
func (s *scope) carefully(key errand.Key, budget *errand.Budget, work func(context.Context) (any, error)) error {
	mark := v1alpha1.ExperimentCheck{Generation: s.experiment.Generation, Attempts: 1, Operator: thisOperator}
	if was := s.experiment.Status.Check; was != nil && was.Generation == mark.Generation {
		mark.Attempts = was.Attempts
		if was.Operator != thisOperator {
			mark.Attempts++
		}
	}
	if mark.Attempts > mostChecks {
		return kube.Refuse("OperatorEnded", "the operator ended twice while it checked this spec or judged its claims, the second time with nothing else under way, and does not try it again: change the spec, for example sweep fewer values or claim less")
	}
	share := int64(1)
	if mark.Attempts > 1 {
		share = budget.Size()
	}
	object, to := s.experiment.DeepCopy(), s.Client
	errand.Go(s.Errands, key, budget, share, func(ctx context.Context) (any, error) {
		if err := setCheck(ctx, to, object, &mark); err != nil {
			return nil, err
		}
		out, err := work(ctx)
		if err != nil { // otherwise who takes the outcome removes the mark
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
			defer cancel()
			_ = setCheck(after, to, object, nil) //nolint:errcheck // a mark of this process stands in nobody's way
		}
		return out, err
	})
	return nil
}

// markTimeout bounds the removal of a mark by an operator that is told to end.
const markTimeout = 2 * time.Second

// setCheck writes status.check, and nothing else, if the experiment is still there.
func setCheck(ctx context.Context, to client.Client, object *v1alpha1.Experiment, mark *v1alpha1.ExperimentCheck) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID}, "status": map[string]any{"check": mark}})
	if err != nil {
		return err
	}
	here := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	err = to.Status().Patch(ctx, here, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another one of its name
		return nil
	}
	return err
}
