package load

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Curve describes the level of the load over a repetition, as a share of the full load. The level is constant within
// each of many equal slices of the measured window, so that the integral of the curve has an exact inverse.
type Curve struct {
	duration, warmup time.Duration
	levels           []float64 // of each slice, from 0 to 1
	// before[i] is the integral over the warm-up and all slices before slice i, in seconds of the full load. The last
	// element is the total.
	before []float64
	parts  int
}

const (
	// gaussianSlices is 1000 because Dike defines its Gaussian over thousandths of the run time.
	gaussianSlices = 1000
	// evenParts is the number of equal parts of the measured time for which the realised load is checked, for a curve
	// without steps.
	evenParts = 10
)

// NewCurve returns the curve of a run's spec.load; nil if it has none.
func NewCurve(l *v1alpha1.Load) *Curve {
	if l.Curve == nil {
		return nil
	}
	c := &Curve{duration: l.Duration.Duration, warmup: l.Warmup.Duration, parts: evenParts}
	switch l.Curve.Shape {
	case v1alpha1.LoadSteps:
		for _, p := range l.Curve.StepsPercent {
			c.levels = append(c.levels, float64(p)/100)
		}
		c.parts = len(c.levels)
	case v1alpha1.LoadGaussian:
		c.levels = make([]float64, gaussianSlices)
		peak, deviation := l.Curve.Gaussian()
		for i := range c.levels {
			x := ((float64(i)+0.5)/gaussianSlices - peak) / deviation
			c.levels[i] = math.Exp(-x * x / 2)
		}
	default:
		c.levels = slices.Repeat([]float64{1}, evenParts)
	}
	// The warm-up has the level of the first slice, so that the window starts in a steady state.
	sum := c.warmup.Seconds() * c.levels[0]
	for _, level := range c.levels {
		c.before = append(c.before, sum)
		sum += level * c.slice()
	}
	c.before = append(c.before, sum)
	return c
}

// slice returns the length of a slice in seconds.
func (c *Curve) slice() float64 { return c.duration.Seconds() / float64(len(c.levels)) }

// at returns the slice that contains elapsed, a time since the window opened. If elapsed is before or after the window,
// at returns the first or the last slice.
func (c *Curve) at(elapsed time.Duration) int {
	return place(elapsed, c.duration, len(c.levels))
}

// place divides duration into n equal parts and returns the index of the part that contains elapsed, clamped to [0,
// n-1].
func place(elapsed, duration time.Duration, n int) int {
	return min(max(0, int(float64(elapsed)/float64(duration)*float64(n))), n-1)
}

// Mean returns the mean level between from and to, which count from the opening of the window. Times after the end of
// the window do not count.
func (c *Curve) Mean(from, to time.Duration) float64 {
	to = min(to, c.duration)
	if to <= from {
		return 0
	}
	return (c.until(to) - c.until(from)) / (to - from).Seconds()
}

// until returns the integral of the curve over the warm-up and the elapsed part of the window, in seconds of the full
// load.
func (c *Curve) until(elapsed time.Duration) float64 {
	i := c.at(elapsed)
	return c.before[i] + c.levels[i]*(elapsed.Seconds()-float64(i)*c.slice())
}

// when returns the time since the start of the warm-up at which the integral of the curve reaches work, in seconds of
// the full load. ok is false if the integral does not reach work before the window closes.
func (c *Curve) when(work float64) (at time.Duration, ok bool) {
	if first := c.before[0]; work < first {
		return time.Duration(work / first * float64(c.warmup)), true
	}
	last := len(c.levels)
	if work >= c.before[last] {
		return 0, false
	}
	// Find the last slice that starts with at most this integral. This skips slices without load, in which the integral
	// is constant.
	low, high := 0, last
	for high-low > 1 {
		if middle := (low + high) / 2; c.before[middle] <= work {
			low = middle
		} else {
			high = middle
		}
	}
	seconds := float64(low)*c.slice() + (work-c.before[low])/c.levels[low]
	return c.warmup + time.Duration(seconds*float64(time.Second)), true
}

// clients returns the number of a region's clients that are active in a slice.
func (c *Curve) clients(slice, all int) int { return int(c.levels[slice]*float64(all) + 0.5) }

// start returns the time since the window opened at which a slice starts.
func (c *Curve) start(slice int) time.Duration {
	// Rounding up ensures that at() places this time in the slice, not in the previous slice.
	return time.Duration(math.Ceil(float64(slice) * float64(c.duration) / float64(len(c.levels))))
}

// Shares returns the shares that a load with a curve adds to the shares of the workload: one for each part of the
// measured time. Each is the part's share of the transactions that are due (open loop), or of the active clients' time
// (closed loop). Shares returns nil if the load has no curve.
func Shares(l *v1alpha1.Load) (out []workload.Share) {
	c := NewCurve(l)
	if c == nil {
		return nil
	}
	of := "arrivals"
	if l.Arrival == v1alpha1.ArrivalClosed {
		of = "client-milliseconds"
	}
	parts, total := make([]float64, c.parts), 0.0
	for i, level := range c.levels {
		if l.Arrival == v1alpha1.ArrivalClosed {
			level = float64(c.clients(i, int(l.ClientsPerRegion)))
		}
		parts[i*c.parts/len(c.levels)] += level
		total += level
	}
	for i, p := range parts {
		out = append(out, workload.Share{Name: fmt.Sprintf("in part %d", i+1), Of: of, ConfiguredPPM: int64(p/total*1e6 + 0.5)})
	}
	return out
}

// volume counts the load that a machine generated.
type volume struct {
	parts   []int64 // in all windows so far, by part of the measured time: arrivals or client-milliseconds
	seconds []int64 // in the open window, by second
}

// newWindow resets the counts by second.
func (v *volume) newWindow(c *Curve) {
	if v.parts == nil {
		v.parts = make([]int64, c.parts)
	}
	v.seconds = make([]int64, int((c.duration+time.Second-1)/time.Second))
}

// add adds n to the counts at elapsed, the time since the window opened. elapsed must be within the window.
func (v *volume) add(c *Curve, elapsed time.Duration, n int64) {
	v.parts[place(elapsed, c.duration, c.parts)] += n
	v.seconds[elapsed/time.Second] += n
}

// take adds the active time of the given number of clients between from and to, in milliseconds since the window
// opened.
func (v *volume) take(c *Curve, clients, from, to int64) {
	if clients == 0 {
		return
	}
	for ms := from; ms < to; {
		// Advance to the next second or part, whichever is first; max guarantees progress despite rounding.
		part := place(time.Duration(ms)*time.Millisecond, c.duration, c.parts)
		next := min(to, (ms/1000+1)*1000, max(ms+1, int64(float64(part+1)*float64(c.duration.Milliseconds())/float64(c.parts))))
		v.add(c, time.Duration(ms)*time.Millisecond, clients*(next-ms))
		ms = next
	}
}

// counts returns the realised counts for Shares.
func (v *volume) counts(c *Curve) []workload.Count {
	out, total := make([]workload.Count, c.parts), int64(0)
	for i, n := range v.parts {
		out[i].Hits = n
		total += n
	}
	for i := range out {
		out[i].Of = total
	}
	return out
}
