package run

import (
	"context"
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/deploy"
)

// collect waits until every worker has handed in a report that can be read.
func (s *scope) collect(ctx context.Context) error {
	s.again = kube.PollFast
	if done := s.inState(deploy.StateDone); done < len(s.workers) {
		s.condition(v1alpha1.ConditionMeasured, false, "Collecting", fmt.Sprintf("%d of %d workers have reported", done, len(s.workers)))
		return nil
	}
	if err := s.checkReports(ctx); err != nil {
		return err
	}
	s.condition(v1alpha1.ConditionMeasured, true, "Reported", fmt.Sprintf("all %d workers have reported", len(s.workers)))
	s.enter(v1alpha1.StageEvaluate)
	return nil
}

// checkReports ends the run when a report cannot be read.
func (s *scope) checkReports(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	_, err := s.readReports(ctx, s.workers)
	return err
}
