package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// measureEnd returns the time at which the last measured window closes.
func measureEnd(run *v1alpha1.BenchmarkRun) time.Time {
	return run.Status.WarmupStartTime.Add(measuredTime(&run.Spec.Load))
}

// measure waits until the last window closes, and then stores the nodes' counters and all clocks.
func (s *scope) measure(ctx context.Context) error {
	wait := measureEnd(s.run).Sub(s.Clock.Now())
	// At least 1 ms, because 0 would schedule no reconciliation.
	s.again = min(max(wait, time.Millisecond), kube.PollRun)
	if _, err := s.playFaults(ctx); err != nil {
		return err
	}
	if wait > 0 {
		s.condition(v1alpha1.ConditionMeasured, false, "Measuring", s.progress())
		return nil
	}
	// The snapshot is taken now, because nodes will discard the round trips that they measured under load.
	_, err := s.takeSnapshot(ctx, snapshotEnd)
	if ended := (*podEndedError)(nil); err == nil {
		// A worker that has submitted its report may exit.
		if err = s.noteClocks(ctx, clocksEnd); errors.As(err, &ended) && s.inState(deploy.StateDone) == len(s.workers) {
			err = nil
		}
	}
	if err == nil {
		err = s.noteNodeClocks(ctx, nodeClocksEnd)
	}
	if isTrouble(err) {
		return err
	}
	if err != nil {
		s.condition(v1alpha1.ConditionMeasured, false, "WaitingForFigures", err.Error())
		s.again = time.Second
		return nil
	}
	s.enter(v1alpha1.StageRecover)
	return nil
}

// progress summarises the progress that the workers have reported.
func (s *scope) progress() string {
	var committed, aborted, rate int64
	repetition := 0
	for i := range s.workers {
		var p deploy.Progress
		if json.Unmarshal([]byte(s.workers[i].report.Data[deploy.KeyProgress]), &p) != nil {
			continue
		}
		committed += p.Committed
		aborted += p.Aborted
		rate += p.ThroughputPerSecond
		repetition = max(repetition, p.Repetition)
	}
	return fmt.Sprintf("repetition %d of %d until %s: %d committed, %d aborted, %d/s", repetition, s.run.Spec.Load.Repetitions,
		measureEnd(s.run).UTC().Format(time.TimeOnly), committed, aborted, rate)
}
