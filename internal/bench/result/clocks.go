package result

import (
	"fmt"
	"time"
)

// MaxClockOffset is the largest allowed offset between a load generator's clock and the operator's clock, which sets
// the common start time.
const MaxClockOffset = 100 * time.Millisecond

// Clock is a measurement of a load generator's clock against the operator's clock, which sets the start times.
type Clock struct {
	Region string `json:"region"`
	Index  int    `json:"index"`
	// AheadMicroseconds is the offset by which the load generator's clock is ahead, with an error of at most
	// WithinMicroseconds. A negative offset means that this clock lags.
	AheadMicroseconds  int64 `json:"aheadMicroseconds"`
	WithinMicroseconds int64 `json:"withinMicroseconds"`
}

// ClocksApart returns a reason for each load generator whose clock differs by more than MaxClockOffset, even if the
// measurement error is deducted. The windows of such a load generator differ from the windows of the others, and it
// records faults at wrong times.
func ClocksApart(clocks []Clock) (out []Reason) {
	for _, c := range clocks {
		off, side := c.AheadMicroseconds, "ahead of"
		if off < 0 {
			off, side = -off, "behind"
		}
		// The error of the measurement counts in favour of the clock: an offset that may be within the limit is accepted.
		if off-c.WithinMicroseconds > MaxClockOffset.Microseconds() {
			out = append(out, Reason{ReasonClocksApart, fmt.Sprintf("the clock of worker %d of region %s is %s %s the operator's (within %s); at most %s is allowed: synchronise the clocks of the Kubernetes nodes",
				c.Index, c.Region, time.Duration(off)*time.Microsecond, side, formatMicroseconds(c.WithinMicroseconds), MaxClockOffset)})
		}
	}
	return out
}

func clocksApart(_ *Document, in *Inputs, _ *Report) []Reason { return ClocksApart(in.Clocks) }

// clockOf returns the measurement of a worker's clock with the largest offset; nil if there is none.
func clockOf(clocks []Clock, region string, index int) (worst *Clock) {
	for i := range clocks {
		c := &clocks[i]
		if c.Region == region && c.Index == index && (worst == nil || max(c.AheadMicroseconds, -c.AheadMicroseconds) > max(worst.AheadMicroseconds, -worst.AheadMicroseconds)) {
			worst = c
		}
	}
	return worst
}
