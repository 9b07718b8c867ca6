package result

import "math"

// falseAlarmRate is an upper bound on the probability that a check of all shares, or of all links, fails for a correct
// run.
const falseAlarmRate = 1e-6

// chanceRange returns the expected range for the number of hits among n independent trials with probability p. The
// probability that any of several comparisons falls outside its range is at most falseAlarmRate. The rate is divided by
// the number of comparisons (Bonferroni) and by the two tails. Each tail is bounded by exp(-n D), where D is the
// relative entropy of the observed share and p (Chernoff 1952). Unlike a number of standard deviations, this bound also
// holds for rare hits and small n.
func chanceRange(n, p float64, comparisons int) (low, high float64) {
	limit := math.Log(2 * float64(max(1, comparisons)) / falseAlarmRate)
	edge := func(outside float64) float64 {
		// The extreme count, 0 or n, belongs to the range if it is likely enough.
		if n*relativeEntropy(outside/n, p) <= limit {
			return outside
		}
		inside := n * p
		for range 64 { // bisection works because the entropy grows with the distance from p
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
		// The limit of q log q for q -> 0 is 0; the logarithm itself would be infinite.
		if q == 0 {
			return 0
		}
		return q * math.Log(q/p)
	}
	return term(q, p) + term(1-q, 1-p)
}
