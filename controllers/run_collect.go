package controllers

import (
	"context"
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/result"
)

// collect waits until every worker has handed in a report that can be read.
func (s *runScope) collect(context.Context) error {
	s.again = pollFast
	if done := s.inState(deploy.StateDone); done < len(s.workers) {
		s.condition(v1alpha1.ConditionMeasured, false, "Collecting", fmt.Sprintf("%d of %d workers have reported", done, len(s.workers)))
		return nil
	}
	for i := range s.workers {
		w := &s.workers[i]
		if _, err := result.DecodeReport(w.report.BinaryData[deploy.KeyReport]); err != nil {
			s.invalidate("ReportUnreadable", "the report of %s cannot be read: %s", w.name(), err)
			return nil
		}
	}
	s.condition(v1alpha1.ConditionMeasured, true, "Reported", fmt.Sprintf("all %d workers have reported", len(s.workers)))
	s.enter(v1alpha1.StageEvaluate)
	return nil
}
