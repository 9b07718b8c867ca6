package result

import "math"

// falseAlarmRate is the largest probability that a check of all shares, or of all links, of an honest run names any of
// them.
const falseAlarmRate = 1e-6

// chanceRange returns a range for the number of hits among n independent trials with probability p. With a probability
// of at most falseAlarmRate any of several comparisons is outside of its range. The rate is divided by the number of
// comparisons (Bonferroni) and of tails. A tail is bounded by exp(-n D), where D is the relative entropy of the
// observed share and p (Chernoff 1952). Unlike a
// number of standard deviations, the bound also holds where a hit is rare or n is small.
func chanceRange(n, p float64, comparisons int) (low, high float64) {
	limit := math.Log(2 * float64(max(1, comparisons)) / falseAlarmRate)
	edge := func(outside float64) float64 {
		if n*relativeEntropy(outside/n, p) <= limit {
			return outside
		}
		inside := n * p
		for range 64 { // the entropy grows with the distance from p
			if middle := (inside + outside) / 2; n*relativeEntropy(middle/n, p) <= limit {
				inside = middle
			} else {
				outside = middle
			}
		}
		return inside
	}
	return edge(0), edge(n)
}

// relativeEntropy returns the relative entropy of two Bernoulli distributions, in nats.
func relativeEntropy(q, p float64) float64 {
	term := func(q, p float64) float64 {
		if q == 0 {
			return 0
		}
		return q * math.Log(q/p)
	}
	return term(q, p) + term(1-q, 1-p)
}
