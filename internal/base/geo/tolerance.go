package geo

import (
	"math"
	"time"
)

// probeInterval is the shortest interval at which any driver probes a connection.
const probeInterval = 100 * time.Millisecond

// RTTTolerance is how far the median of so many round trips from a to b may be from the declared round trip if the
// network is to count as the declared one: 5% + 1 ms for what emulating and measuring add, and three standard errors
// for what chance does to the median of the declared jitter.
func (t *Topology) RTTTolerance(a, b Region, samples int64) time.Duration {
	return t.RTT(a, b)/20 + time.Millisecond + 3*t.medianError(a, b, samples)
}

// medianError bounds the standard error of the median of n round trips.
//
// Of n independent values whose density at the median is f, the median has the standard error 1 / (2 f sqrt(n))
// (Cramér, Mathematical Methods of Statistics, 1946, section 28.5). The deviation of each direction is symmetric and
// unimodal, that of Wander as well as netem's, and so is their sum (Wintner 1938), whose variance s^2 is that of both.
// No unimodal density is lower at its mode than the uniform one of the same variance, 1 / (sqrt(12) s). So the error is
// at most sqrt(3) s / sqrt(n). (It is 1.25 s / sqrt(n) for a normal distribution, and 1.36 for two equal directions of
// Wander.)
//
// Round trips that follow each other over a connection are not independent: Wander draws a deviation per interval I and
// goes in a straight line in between, so two instants u I apart have the correlation of the cubic B-spline. n values at
// intervals of d carry as much as n / (1 + 2 sum over k of correlation(k d / I)) independent ones. Both directions
// count with the longer I.
//
// Packets that are lost only leave fewer samples, since probes are sent beside the connections (Path.Datagram).
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

// lineCorrelation is the correlation of two values u intervals apart on straight lines between independent draws,
// averaged over where in its interval the first one is: the cubic B-spline, 1 at 0.
func lineCorrelation(u float64) float64 {
	if u < 1 {
		return 1 - 1.5*u*u + 0.75*u*u*u
	}
	return (2 - u) * (2 - u) * (2 - u) / 4
}
