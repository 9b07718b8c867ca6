package workload

import (
	"math"
	"math/rand/v2"
)

// Zipf draws ranks 1, 2, ... n with probabilities in proportion to 1 / rank^theta. It accepts any theta >= 0 and a
// different n in each draw, in constant time and memory. The method is rejection-inversion (Hörmann and Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996). It is exact
// up to floating-point rounding. YCSB's method (Gray et al., SIGMOD 1994) is an approximation that needs theta < 1 and
// a sum over all n.
//
// Let h(x) = x^-theta and H(x) its integral from 1 to x. The area of rank k is the area under h from k-1/2 to k+1/2.
// Since h is convex, that area is at least h(k); a draw in the excess is rejected. The area of rank 1 is cut on its
// left side to exactly h(1).
type Zipf struct {
	theta float64
	left  float64 // H(3/2) - h(1), where the area of rank 1 starts
	sure  float64 // a rank at most this far above x is accepted without evaluating H
	n     uint64  // n of the last draw
	right float64 // where the area of rank n ends
}

// NewZipf returns a Zipf for theta, which must be at least 0. With theta 0 all ranks have the same probability.
func NewZipf(theta float64) *Zipf {
	z := &Zipf{theta: theta}
	z.left = z.integral(1.5) - 1
	z.sure = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

// density is h(x).
func (z *Zipf) density(x float64) float64 { return math.Exp(-z.theta * math.Log(x)) }

// integral returns H(x) = (x^(1-theta) - 1) / (1-theta), or log(x) for theta = 1. Expm1 keeps the result precise for
// theta close to 1.
func (z *Zipf) integral(x float64) float64 {
	l := math.Log(x)
	if e := (1 - z.theta) * l; e != 0 {
		return math.Expm1(e) / e * l
	}
	return l
}

// inverse is the inverse of H.
func (z *Zipf) inverse(y float64) float64 {
	if e := (1 - z.theta) * y; e != 0 {
		// For y = H(x), e is x^(1-theta) - 1, above -1. Rounding may produce less, and Log1p would return NaN.
		return math.Exp(math.Log1p(max(e, -1)) / e * y)
	}
	return math.Exp(y)
}

// Draw returns a rank from 1 to n; n must be at least 1.
func (z *Zipf) Draw(rng *rand.Rand, n uint64) uint64 {
	// H is expensive, and most workloads draw from the same n every time.
	if z.n != n {
		z.n, z.right = n, z.integral(float64(n)+0.5)
	}
	for {
		u := z.right + rng.Float64()*(z.left-z.right)
		x := z.inverse(u)
		// Rounding may push x slightly outside [1/2, n+1/2].
		k := min(max(math.Floor(x+0.5), 1), float64(n))
		if k-x <= z.sure || u >= z.integral(k+0.5)-z.density(k) {
			return uint64(k)
		}
	}
}
