package database_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
)

// The cluster refuses the pods, because a LimitRange allows less CPU than they request. Only events contain the reason,
// and the status repeats it.
func TestPodsThatAreRefused(t *testing.T) {
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}}
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: cpu("30m")}}
	const why = "the cluster makes no pod: "
	const cause = `Invalid value: "100m": must be less than or equal to cpu limit of 30m`
	says := func(conditions []metav1.Condition, kind string) bool {
		for _, c := range conditions {
			open := c.Type == kind && c.Status == metav1.ConditionFalse
			if open && strings.Contains(c.Message, why) && strings.Contains(c.Message, cause) {
				return true
			}
		}
		return false
	}
	t.Run("nodes", func(t *testing.T) {
		t.Parallel()
		w := worldtest.NewWorld(t)
		w.Create(limits.DeepCopy(), worldtest.MakeDatabase("d").Obj())
		w.Until("the database says why it has no pods", func() bool {
			return says(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady)
		})
	})
	t.Run("load generators", func(t *testing.T) {
		t.Parallel()
		w := worldtest.NewWorld(t)
		db := worldtest.MakeDatabase("d").Obj()
		db.Spec.Resources.Requests, db.Spec.Resources.Limits = cpu("20m"), cpu("2")
		w.Create(limits.DeepCopy(), db, worldtest.MakeRun("r").Database("d").Obj())
		w.Until("the run says why it has no load generators", func() bool {
			return says(w.GetRun("r").Status.Conditions, v1alpha1.ConditionMeasured)
		})
	})
}
