package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// A cluster that makes no pods, here since a LimitRange limits the CPU to less than they request, says so in events alone: the status repeats it.
func TestPodsThatAreRefused(t *testing.T) {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("30m")}}}}}
	const why = "the cluster makes no pod: "
	const cause = `Invalid value: "100m": must be less than or equal to cpu limit of 30m`
	says := func(conditions []metav1.Condition, kind string) bool {
		for _, c := range conditions {
			if c.Type == kind && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, why) && strings.Contains(c.Message, cause) {
				return true
			}
		}
		return false
	}
	t.Run("nodes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.create(limits.DeepCopy(), makeDatabase("d").obj())
		w.until("the database says why it has no pods", func() bool {
			return says(w.getDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady)
		})
	})
	t.Run("load generators", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		db := makeDatabase("d").obj()
		db.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
		db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		w.create(limits.DeepCopy(), db, makeRun("r").database("d").obj())
		w.until("the run says why it has no load generators", func() bool {
			return says(w.getRun("r").Status.Conditions, v1alpha1.ConditionMeasured)
		})
	})
}
