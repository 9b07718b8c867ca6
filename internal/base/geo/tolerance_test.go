package geo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pingPong returns the median and the number of the round trips that probes measure over a connection.
func pingPong(there, back Link, probes int, seed uint64) (median time.Duration, samples int64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	out, in := NewPath(there, back), NewPath(back, there)
	var rtts []time.Duration
	for i := range probes {
		sent := time.Duration(i)*probeInterval + time.Duration(seed)*time.Millisecond
		if at, ok := out.Datagram(sent, 32, rng); ok {
			if at, ok = in.Datagram(at, 32, rng); ok {
				rtts = append(rtts, at-sent)
			}
		}
	}
	slices.Sort(rtts)
	return rtts[len(rtts)/2], int64(len(rtts))
}

func twoWays(there, back Link) *Topology {
	return &Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1, Links: [][]Link{{{}, there}, {back, {}}}}
}

// TestMedianError checks that the bound on the median's standard error holds, and is at most twice the real error. The
// cases cover small and large jitter, equal and different directions, few and many samples, and loss.
func TestMedianError(t *testing.T) {
	ms := time.Millisecond
	for name, tc := range map[string]struct {
		there, back Link
		probes      int
	}{
		"equal":             {Link{Delay: 50 * ms, Jitter: 7 * ms}, Link{Delay: 50 * ms, Jitter: 7 * ms}, 100},
		"one direction":     {Link{Delay: 50 * ms, Jitter: 10 * ms}, Link{Delay: 50 * ms}, 100},
		"unequal":           {Link{Delay: 50 * ms, Jitter: 10 * ms}, Link{Delay: 20 * ms, Jitter: 2 * ms}, 100},
		"few":               {Link{Delay: 50 * ms, Jitter: 7 * ms}, Link{Delay: 50 * ms, Jitter: 7 * ms}, 10},
		"many, with loss":   {Link{Delay: 50 * ms, Jitter: 7 * ms, LossPPM: 20_000}, Link{Delay: 50 * ms, Jitter: 7 * ms, LossPPM: 20_000}, 600},
		"large jitter":      {Link{Delay: 200 * ms, Jitter: 60 * ms}, Link{Delay: 200 * ms, Jitter: 60 * ms}, 300},
		"jitter that's cut": {Link{Delay: 10 * ms, Jitter: 9 * ms}, Link{Delay: 10 * ms, Jitter: 9 * ms}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			top := twoWays(tc.there, tc.back)
			const trials = 2000
			var squares, bound float64
			for seed := range uint64(trials) {
				median, samples := pingPong(tc.there, tc.back, tc.probes, seed)
				off := float64(median - top.RTT(0, 1))
				squares += off * off
				bound += float64(top.medianError(0, 1, samples)) / trials
			}
			deviation := math.Sqrt(squares / trials)
			t.Logf("standard error %.2f ms, bound %.2f ms", deviation/1e6, bound/1e6)
			if deviation > bound || bound > 2*deviation {
				t.Errorf("the medians have a standard deviation of %.2f ms, the bound is %.2f ms", deviation/1e6, bound/1e6)
			}
		})
	}
}

// TestRTTTolerance checks that none of 100 networks that match the declaration is rejected. If the round trip differs
// by exactly the tolerance, the network is rejected in half of the cases. If the difference is three standard errors
// larger, it is always rejected.
func TestRTTTolerance(t *testing.T) {
	ms := time.Millisecond
	declared := Link{Delay: 20 * ms, Jitter: 7 * ms, LossPPM: 10_000}
	top := twoWays(declared, declared)
	const probes = 100
	refused := func(off time.Duration) (n int) {
		actual := declared
		actual.Delay += off
		for seed := range uint64(100) {
			median, samples := pingPong(actual, declared, probes, seed)
			if (median - top.RTT(0, 1)).Abs() > top.RTTTolerance(0, 1, samples) {
				n++
			}
		}
		return n
	}
	tolerance := top.RTTTolerance(0, 1, 98) // about the number of samples that remain if 100 probes are sent
	if base := 3 * ms; tolerance <= base+4*ms || tolerance >= base+6*ms {
		t.Errorf("the tolerance is %v", tolerance)
	}
	if n := refused(0); n > 0 {
		t.Errorf("%d of 100 networks as declared are refused", n)
	}
	if n := refused(tolerance); n < 30 || n > 70 {
		t.Errorf("%d of 100 networks that are off by the tolerance are refused, want about half", n)
	}
	for _, off := range []time.Duration{tolerance + 3*top.medianError(0, 1, 98), -tolerance - 3*top.medianError(0, 1, 98)} {
		if n := refused(off); n != 100 {
			t.Errorf("of 100 networks that are off by %v, %d are refused", off, n)
		}
	}
}

// TestRTTToleranceWithoutChance checks that the tolerance includes no allowance for random variation if there is no
// jitter, or if there are no samples.
func TestRTTToleranceWithoutChance(t *testing.T) {
	plain := Link{Delay: 50 * time.Millisecond, LossPPM: 100_000}
	if got := twoWays(plain, plain).RTTTolerance(0, 1, 10); got != 6*time.Millisecond {
		t.Errorf("without jitter the tolerance is %v, want 5%% + 1 ms", got)
	}
	jitter := Link{Delay: 50 * time.Millisecond, Jitter: time.Millisecond}
	if got := twoWays(jitter, jitter).RTTTolerance(0, 1, 0); got != 6*time.Millisecond {
		t.Errorf("without samples the tolerance is %v, want 5%% + 1 ms", got)
	}
}
