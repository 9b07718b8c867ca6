package geo

import (
	"math"
	"time"
)

// probeInterval is the minimum interval at which any driver probes a connection.
const probeInterval = 100 * time.Millisecond

// RTTTolerance returns the maximum allowed difference between the measured and the declared round trip from a to b. The
// measured value is the median of the given number of samples. The tolerance is 5% + 1 ms for the overhead of emulation
// and measurement. Three standard errors are added for the random variation of the median under the declared jitter.
func (t *Topology) RTTTolerance(a, b Region, samples int64) time.Duration {
	return t.RTT(a, b)/20 + time.Millisecond + 3*t.medianError(a, b, samples)
}

// medianError returns a bound on the standard error of the median of n round trips; 0 for n = 0.
//
// Let n independent values have the density f at the median. Then the standard error of the median is 1 / (2 f sqrt(n))
// (Cramér, Mathematical Methods of Statistics, 1946, section 28.5). The deviation of each direction is symmetric and
// unimodal, for Wander as well as for netem. So is the sum of both directions (Wintner 1938); its variance s^2 is the
// sum of both variances. A unimodal density is at its mode at least as high as the uniform density of the same
// variance, 1 / (sqrt(12) s). So the error is at most sqrt(3) s / sqrt(n). (It is 1.25 s / sqrt(n) for a normal
// distribution, and 1.36 for two equal directions of Wander.)
//
// Consecutive round trips over a connection are not independent. Wander draws a deviation per interval I and
// interpolates linearly. So two instants u I apart have the correlation of the cubic B-spline. n values at intervals of
// d contain as much information as n / (1 + 2 sum over k of correlation(k d / I)) independent values. The longer I of
// the two directions is used for both.
//
// Lost packets only reduce the number of samples, because probes are sent outside the connections (Path.Datagram).
func (t *Topology) medianError(a, b Region, n int64) time.Duration {
	if n == 0 {
		return 0
	}
	there, back := t.Links[a][b], t.Links[b][a]
	one, other := NewWander(there.Delay, there.Jitter), NewWander(back.Delay, back.Jitter)
	deviation := math.Hypot(one.deviation(), other.deviation())
	step := float64(probeInterval) / float64(max(one.interval, other.interval))
	inflation := 1.0
	for u := step; u < 2; u += step {
		inflation += 2 * lineCorrelation(u)
	}
	return time.Duration(math.Sqrt(3*inflation/float64(n)) * deviation)
}

// lineCorrelation returns the correlation of two values that are u intervals apart on a linear interpolation between
// independent draws. The correlation is averaged over the first value's position in its interval. It is the cubic
// B-spline, scaled to 1 at u = 0.
func lineCorrelation(u float64) float64 {
	if u < 1 {
		return 1 - 1.5*u*u + 0.75*u*u*u
	}
	return (2 - u) * (2 - u) * (2 - u) / 4
}
