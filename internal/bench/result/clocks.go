package result

import (
	"fmt"
	"time"
)

// MaxClockOffset is the largest allowed offset between the clock of a load generator and the clock that named the
// common start.
const MaxClockOffset = 100 * time.Millisecond

// Clock compares the clock of a load generator with the operator's clock, which names starts.
type Clock struct {
	Region string `json:"region"`
	Index  int    `json:"index"`
	// AheadMicroseconds is the offset by which the load generator's clock is ahead, with an error of at most
	// WithinMicroseconds. A negative offset means that it lags.
	AheadMicroseconds  int64 `json:"aheadMicroseconds"`
	WithinMicroseconds int64 `json:"withinMicroseconds"`
}

// ClocksApart names the clocks that certainly differ by more than MaxClockOffset. Those workers did not measure at the
// same time as the other workers, and faults did not start when they expected.
func ClocksApart(clocks []Clock) (out []Reason) {
	for _, c := range clocks {
		off, side := c.AheadMicroseconds, "ahead of"
		if off < 0 {
			off, side = -off, "behind"
		}
		if off-c.WithinMicroseconds > MaxClockOffset.Microseconds() {
			out = append(out, Reason{ReasonClocksApart, fmt.Sprintf("the clock of worker %d of region %s is %s %s the operator's (within %s); at most %s is allowed: synchronise the clocks of the Kubernetes nodes",
				c.Index, c.Region, time.Duration(off)*time.Microsecond, side, formatMicroseconds(c.WithinMicroseconds), MaxClockOffset)})
		}
	}
	return out
}

func clocksApart(_ *Document, in *Inputs, _ *Report) []Reason { return ClocksApart(in.Clocks) }

// clockOf is the measured clock of a worker that is furthest off; nil when it was not measured.
func clockOf(clocks []Clock, region string, index int) (worst *Clock) {
	for i := range clocks {
		c := &clocks[i]
		if c.Region == region && c.Index == index && (worst == nil || max(c.AheadMicroseconds, -c.AheadMicroseconds) > max(worst.AheadMicroseconds, -worst.AheadMicroseconds)) {
			worst = c
		}
	}
	return worst
}
