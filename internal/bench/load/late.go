package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/bench/result"
)

// beat is how often it is measured how late this process is.
const beat = 5 * time.Millisecond

// ignoreLateness is set by tests alone.
var ignoreLateness bool

// IgnoreLateness has runs in this process say that it was never late, and that its clients began in time: for tests, whose machine may be as busy as it likes.
// Call it before any run.
func IgnoreLateness() { ignoreLateness = true }

// lateness measures in a window how late this process is for what is due: what wakes up every beat waits for the CPU as
// all that sends transactions and takes answers does, be it that the machine has none left, a quota, or this process has other things to
// do (Tene's jHiccup). now is the time, and sleep waits until one, or returns false early; complete is whether it never did.
func lateness(from, to time.Duration, now func() time.Duration, sleep func(until time.Duration) bool) (late result.Lateness, complete bool) {
	h := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	complete = true
	for at := from; complete && at < to; {
		due := min(at+beat, to)
		if complete = sleep(due); complete {
			at = now()
			// A wake-up that comes late stands for those that would have come meanwhile.
			_ = h.RecordCorrectedValue(min(max(0, at-due), time.Hour).Microseconds(), beat.Microseconds())
		}
	}
	return result.Lateness{P50: h.ValueAtPercentile(50), P99: h.ValueAtPercentile(99), Max: h.Max()}, complete
}

// Standstill tells of a worker whose clock was set while it measured, or whose machine stood still, as a virtual one that is moved or
// suspended does: by wall its clock said that so much time passed, by elapsed one that nobody sets and that stands still with the machine. The
// windows go by the latter, and were not those of other workers.
func Standstill(region string, wall, elapsed time.Duration) []result.Incident {
	off := wall - elapsed
	if off.Abs() <= result.MaxClockOffset {
		return nil
	}
	return []result.Incident{{Reason: result.Reason{Reason: result.ReasonClocksApart, Message: fmt.Sprintf(
		"while a worker in %s measured for %v, the clock of its machine went on by %v: it was set, or the machine stood still", region, elapsed.Round(time.Millisecond), wall.Round(time.Millisecond))}}}
}
