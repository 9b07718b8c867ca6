package local

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
)

// leastMeasured is the shortest window that is worth a result.
const leastMeasured = time.Second

// cancelled builds the result of a run that was cancelled when so much of its schedule was over: of the repetitions that were
// complete, or else of the first one's window as far as it came. It is nil when nothing was measured.
func cancelled(p *plan.Plan, in *result.Inputs, elapsed time.Duration) (*result.Document, error) {
	s := schedule(p)
	complete := 0
	for complete < s.Repetitions {
		if _, to := s.Window(complete + 1); to > elapsed {
			break
		}
		complete++
	}
	duration := s.Duration
	message := fmt.Sprintf("cancelled after %v of %v", elapsed.Round(100*time.Millisecond), s.LastWindow())
	if complete == 0 {
		from, _ := s.Window(1)
		if duration = elapsed - from; duration < leastMeasured {
			return nil, nil
		}
		message += fmt.Sprintf(": the figures are of the first %v of the measured window", duration.Round(100*time.Millisecond))
	} else if complete == s.Repetitions {
		message = "cancelled after the last window"
	} else {
		message += fmt.Sprintf(": the figures are of %d of %d repetitions", complete, s.Repetitions)
	}
	for _, r := range in.Reports {
		if r == nil {
			return nil, nil
		}
		r.Cut(max(1, complete), result.Microseconds(duration))
	}
	in.Incidents = append([]result.Reason{{Reason: result.ReasonCancelled, Message: message + "; the answers were not checked"}}, in.Incidents...)
	return result.Build(*in)
}
