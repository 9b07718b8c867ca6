package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// recover waits until all faults are over and all nodes serve again, except nodes whose permanent loss was planned.
// Without faults, it does not wait.
func (s *scope) recover(ctx context.Context) error {
	s.again = kube.PollFast
	if over, err := s.playFaults(ctx); err != nil {
		return err
	} else if !over {
		s.condition(v1alpha1.ConditionMeasured, false, "Recovering", "faults are being taken away")
		return nil
	}
	gone := s.taken()
	for i := range s.nodes {
		if n := &s.nodes[i]; !n.Ready && !slices.Contains(gone, n.ID) {
			s.condition(v1alpha1.ConditionMeasured, false, "Recovering", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
			return nil
		}
	}
	s.enter(v1alpha1.StageCollect)
	return nil
}
