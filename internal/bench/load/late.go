package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/bench/result"
)

// beat is the interval at which the lateness of this process is measured.
const beat = 5 * time.Millisecond

// ignoreLateness is set by tests alone.
var ignoreLateness bool

// IgnoreLateness makes runs in this process report that they were never late, and that their clients started in time.
// It is for tests, whose machine may be busy. Call it before any run.
func IgnoreLateness() { ignoreLateness = true }

// lateness measures the lateness of this process in a window. A goroutine that wakes up every beat waits for the CPU
// like the code that sends transactions and takes answers (Tene's jHiccup). The reason may be a busy machine, a quota,
// or other work of this process. now returns the time. sleep waits until a time, or returns false early; complete
// reports whether it never did.
func lateness(from, to time.Duration, now func() time.Duration, sleep func(until time.Duration) bool) (late result.Lateness, complete bool) {
	h := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	complete = true
	for at := from; complete && at < to; {
		due := min(at+beat, to)
		if complete = sleep(due); complete {
			at = now()
			// A late wake-up stands for all wake-ups that were due meanwhile.
			_ = h.RecordCorrectedValue(min(max(0, at-due), time.Hour).Microseconds(), beat.Microseconds())
		}
	}
	return result.Lateness{P50: h.ValueAtPercentile(50), P99: h.ValueAtPercentile(99), Max: h.Max()}, complete
}

// Standstill reports a worker whose clock was set while it measured, or whose machine stood still, for example a
// suspended virtual machine. wall is the elapsed time by the wall clock. elapsed is the time of a clock that is never
// set and that stands still with the machine. The windows follow elapsed, and did not match the windows of other
// workers.
func Standstill(region string, wall, elapsed time.Duration) []result.Incident {
	off := wall - elapsed
	if off.Abs() <= result.MaxClockOffset {
		return nil
	}
	return []result.Incident{{Reason: result.Reason{Reason: result.ReasonClocksApart, Message: fmt.Sprintf(
		"while a worker in %s measured for %v, the clock of its machine went on by %v: it was set, or the machine stood still", region, elapsed.Round(time.Millisecond), wall.Round(time.Millisecond))}}}
}
