package run

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// provision waits until every node of the database serves requests.
func (s *scope) provision(context.Context) error {
	s.again = kube.PollFast
	ready := meta.FindStatusCondition(s.db.Status.Conditions, v1alpha1.ConditionNodesReady)
	// A condition of an earlier generation describes the previous nodes.
	if ready == nil || s.db.Status.ObservedGeneration < s.db.Generation {
		s.condition(v1alpha1.ConditionDatabaseReady, false, "Deploying", fmt.Sprintf("GeoDatabase %s is being deployed", s.db.Name))
		return nil
	}
	if ready.Status != metav1.ConditionTrue {
		s.condition(v1alpha1.ConditionDatabaseReady, false, ready.Reason, ready.Message)
		return nil
	}
	// A database with init steps may have nodes that serve requests before its users exist.
	if steps := meta.FindStatusCondition(s.db.Status.Conditions, v1alpha1.ConditionInitialized); steps != nil && steps.Status != metav1.ConditionTrue {
		s.condition(v1alpha1.ConditionDatabaseReady, false, steps.Reason, steps.Message)
		return nil
	}
	s.condition(v1alpha1.ConditionDatabaseReady, true, ready.Reason, ready.Message)
	s.enter(v1alpha1.StageEmulate)
	return nil
}
