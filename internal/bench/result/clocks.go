package result

import (
	"fmt"
	"time"
)

// MaxClockOffset is how far the clock of a load generator may be from the clock that named the common start.
const MaxClockOffset = 100 * time.Millisecond

// Clock is what the clock of a load generator showed beside the one that names starts: the operator's.
type Clock struct {
	Region string `json:"region"`
	Index  int    `json:"index"`
	// AheadMicroseconds is how far it is ahead, give or take WithinMicroseconds; negative is behind.
	AheadMicroseconds  int64 `json:"aheadMicroseconds"`
	WithinMicroseconds int64 `json:"withinMicroseconds"`
}

// ClocksApart says which clocks are certainly further off than MaxClockOffset: those workers did not measure when the others did,
// nor when faults began.
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
