package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/bench/result"
)

// beat is the interval at which the lateness of this process is measured.
const beat = 5 * time.Millisecond

// ignoreLateness is set only by tests.
var ignoreLateness bool

// IgnoreLateness makes all runs in this process report no lateness and no late start of clients. It is for tests, which
// may run on a busy machine. Call it before any run.
func IgnoreLateness() { ignoreLateness = true }

// lateness measures the lateness of this process in a window. Its goroutine wakes up every beat, and waits for the CPU
// like the code that sends transactions and receives answers (as in Tene's jHiccup). The reason for a delay may be a
// busy machine, a quota, or other work of this process. now returns the time. sleep waits until the given time, and
// returns false if it stops early; complete is then false.
func lateness(from, to time.Duration, now func() time.Duration, sleep func(until time.Duration) bool) (late result.Lateness, complete bool) {
	h := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	complete = true
	for at := from; complete && at < to; {
		due := min(at+beat, to)
		if complete = sleep(due); complete {
			at = now()
			// A late wake-up also represents the wake-ups that were due in the meantime.
			_ = h.RecordCorrectedValue(min(max(0, at-due), time.Hour).Microseconds(), beat.Microseconds())
		}
	}
	return result.Lateness{P50: h.ValueAtPercentile(50), P99: h.ValueAtPercentile(99), Max: h.Max()}, complete
}

// Standstill returns an incident if the clock of a worker's machine was set during the measurement. It also returns an
// incident if the machine stood still, like a suspended virtual machine. The argument wall is the time that elapsed on
// the wall clock. The argument elapsed is the time on a clock that is never set and stops with the machine. The
// worker's windows follow elapsed, so they did not match the windows of other workers.
func Standstill(region string, wall, elapsed time.Duration) []result.Incident {
	off := wall - elapsed
	if off.Abs() <= result.MaxClockOffset {
		return nil
	}
	return []result.Incident{{Reason: result.Reason{Reason: result.ReasonClocksApart, Message: fmt.Sprintf(
		"while a worker in %s measured for %v, the clock of its machine went on by %v: it was set, or the machine stood still", region, elapsed.Round(time.Millisecond), wall.Round(time.Millisecond))}}}
}
