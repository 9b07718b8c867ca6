package run

import (
	"context"
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// collect waits until every worker has submitted a readable report.
func (s *scope) collect(ctx context.Context) error {
	s.again = kube.PollFast
	if done := s.inState(deploy.StateDone); done < len(s.workers) {
		s.condition(v1alpha1.ConditionMeasured, false, "Collecting", fmt.Sprintf("%d of %d workers have reported", done, len(s.workers)))
		return nil
	}
	if checked, err := s.checkReports(ctx); !checked || err != nil {
		return err
	}
	s.condition(v1alpha1.ConditionMeasured, true, "Reported", fmt.Sprintf("all %d workers have reported", len(s.workers)))
	s.enter(v1alpha1.StageEvaluate)
	return nil
}

// reportsRetry is the time until a run checks again whether another run's reports are still in memory.
const reportsRetry = 200 * time.Millisecond

// checkReports reads all reports and returns an error that stops the run if a report is unreadable. checked is false
// while another run's reports are in memory.
func (s *scope) checkReports(ctx context.Context) (checked bool, err error) {
	// A reconciliation must not block: its goroutine is also needed to inject the faults of other runs.
	if !s.reading.TryLock() {
		s.again = reportsRetry
		return false, nil
	}
	defer s.reading.Unlock()
	_, err = s.readReports(ctx, s.workers)
	return true, err
}
