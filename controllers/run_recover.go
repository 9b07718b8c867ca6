package controllers

import (
	"context"
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
)

// recover waits until every node serves again after the faults. Without faults that is at once.
func (s *runScope) recover(context.Context) error {
	s.again = pollFast
	for i := range s.nodes {
		if n := &s.nodes[i]; !n.ready {
			s.condition(v1alpha1.ConditionMeasured, false, "Recovering", fmt.Sprintf("node %s: %s", n.podName, n.problem))
			return nil
		}
	}
	s.enter(v1alpha1.StageCollect)
	return nil
}
