package geo

import (
	"math"
	"math/rand/v2"
	"time"
)

// Wander is jitter without reordering. It draws deviations from the mean delay, uniformly and with mean 0, at intervals
// of max(10 ms, 5 standard deviations), and interpolates linearly between them. The deviation never falls faster than
// time passes. The zero Wander has no deviation.
type Wander struct {
	amplitude float64 // in nanoseconds
	interval  time.Duration
	slot      int64 // index of the interval between from and to; -1 for none yet
	from, to  float64
}

// widest is the maximum deviation, in standard deviations. Averaged over time, a straight line between two independent
// draws has 2/3 of the variance of a draw. A uniform draw from [-w, w] has the variance w^2 / 3. Hence w = sqrt(3/2)
// sqrt(3) jitter.
const widest = 1.5 * math.Sqrt2

// deviation returns the standard deviation over time, in nanoseconds.
func (w *Wander) deviation() float64 { return w.amplitude / widest }

// NewWander returns a Wander around delay with the standard deviation jitter. The standard deviation is limited to
// delay / 2.13, so that delay plus deviation is never negative.
func NewWander(delay, jitter time.Duration) Wander {
	deviation := min(float64(jitter), float64(delay)/widest)
	return Wander{
		amplitude: widest * deviation,
		// The steepest fall is 2 w per interval, which must be less than the interval.
		interval: max(10*time.Millisecond, time.Duration(5*deviation)),
		slot:     -1,
	}
}

// At returns the deviation at time now. now is measured from any fixed origin and must not decrease.
func (w *Wander) At(now time.Duration, rng *rand.Rand) time.Duration {
	if w.amplitude == 0 {
		return 0
	}
	slot := int64(now / w.interval)
	if slot != w.slot {
		draw := func() float64 { return (2*rng.Float64() - 1) * w.amplitude }
		// Consecutive intervals share a draw, so that the deviation is continuous.
		if w.slot >= 0 && slot == w.slot+1 {
			w.from = w.to
		} else {
			w.from = draw()
		}
		w.to = draw()
		w.slot = slot
	}
	share := float64(now%w.interval) / float64(w.interval)
	return time.Duration(w.from + (w.to-w.from)*share)
}
