package load

import (
	"time"

	"github.com/geobench/geobench/internal/bench/result"
)

// ExecutionAt returns the execution with the given id, whose clients started at start and followed schedule s.
func ExecutionAt(id string, start time.Time, s Schedule) *result.Execution {
	e := &result.Execution{ID: id, WarmupStartTime: start.UTC().Truncate(time.Microsecond)}
	for rep := 1; rep <= s.Repetitions; rep++ {
		from, to := s.Window(rep)
		e.Windows = append(e.Windows, result.OpenWindow{Repetition: rep, Opened: start.Add(from).UTC().Truncate(time.Microsecond), Closed: start.Add(to).UTC().Truncate(time.Microsecond)})
	}
	return e
}
