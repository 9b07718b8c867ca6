package workload

import (
	"math"
	"math/rand/v2"
)

// Zipf draws ranks 1, 2, ... n with probabilities in proportion to 1 / rank^theta. It takes any theta >= 0 and a
// different n in each draw, in constant time and memory. The method is rejection-inversion (Hörmann and Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996). It is exact
// apart from the rounding of floating-point numbers. YCSB's method (Gray et al., SIGMOD 1994) is an approximation that
// needs theta < 1 and a sum over all n.
//
// Let h(x) = x^-theta and H(x) its integral from 1 to x. The area of rank k is the area below h, half to the left and
// half to the right of k. Since h is convex the area has room for h(k), and the excess is rejected. The area of rank 1
// is cut to h(1) from its left.
type Zipf struct {
	theta float64
	left  float64 // H(3/2) - h(1), where the area of rank 1 begins
	sure  float64 // a rank that is at most this much above x is accepted without another look
	n     uint64  // of the last draw
	right float64 // where the area of rank n ends
}

// NewZipf returns a Zipf for a theta of at least 0, which draws all ranks alike.
func NewZipf(theta float64) *Zipf {
	z := &Zipf{theta: theta}
	z.left = z.integral(1.5) - 1
	z.sure = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

// density is h(x).
func (z *Zipf) density(x float64) float64 { return math.Exp(-z.theta * math.Log(x)) }

// integral is H(x) = (x^(1-theta) - 1) / (1-theta), which is log(x) for theta = 1, and written so that it is precise
// near that.
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
		// Beyond -1 there is nothing but what rounding has put there.
		return math.Exp(math.Log1p(max(e, -1)) / e * y)
	}
	return math.Exp(y)
}

// Draw returns a rank from 1 to n, which is at least 1.
func (z *Zipf) Draw(rng *rand.Rand, n uint64) uint64 {
	if z.n != n {
		z.n, z.right = n, z.integral(float64(n)+0.5)
	}
	for {
		u := z.right + rng.Float64()*(z.left-z.right)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), float64(n))
		if k-x <= z.sure || u >= z.integral(k+0.5)-z.density(k) {
			return uint64(k)
		}
	}
}
