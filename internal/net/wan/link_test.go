package wan

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var peerAddress = netip.MustParseAddr("10.0.0.1")

func testPath(t *testing.T, l Link) *path {
	t.Helper()
	l.From = "us"
	c := &Config{Region: "eu", Links: []Link{l}}
	c.SetDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return newPath(&c.Links[0], 1, "db-eu-0", peerAddress)
}

// delays sends n packets, with the given interval between them. It returns the delays of the delivered packets, and the
// number of dropped packets by cause.
func delays(p *path, n int, interval time.Duration, bytes int) (kept []time.Duration, dropped map[Cause]int) {
	dropped = map[Cause]int{}
	for i := range n {
		now := time.Duration(i) * interval
		arrive, cause := p.packet(now, bytes)
		if cause != Kept {
			dropped[cause]++
			continue
		}
		kept = append(kept, arrive-now)
	}
	return kept, dropped
}

func moments(ds []time.Duration) (mean, deviation float64) {
	for _, d := range ds {
		mean += d.Seconds() / float64(len(ds))
	}
	for _, d := range ds {
		deviation += (d.Seconds() - mean) * (d.Seconds() - mean) / float64(len(ds))
	}
	return mean, math.Sqrt(deviation)
}

func TestDelay(t *testing.T) {
	kept, dropped := delays(testPath(t, Link{DelayMicros: 45_000}), 1000, time.Millisecond, 1500)
	if len(dropped) != 0 {
		t.Errorf("dropped %v", dropped)
	}
	for i, d := range kept {
		if d != 45*time.Millisecond {
			t.Fatalf("packet %d took %s, want 45ms", i, d)
		}
	}
}

func TestJitter(t *testing.T) {
	for _, distribution := range []Distribution{Wander, Uniform, Normal, Pareto} {
		for _, correlation := range []int64{0, 800_000} {
			if distribution == Wander && correlation > 0 {
				continue
			}
			p := testPath(t, Link{DelayMicros: 50_000, JitterMicros: 2_000, JitterDistribution: distribution, JitterCorrelationPPM: correlation})
			kept, _ := delays(p, 400_000, time.Millisecond, 100)
			mean, deviation := moments(kept)
			if math.Abs(mean-0.050) > 0.0001 {
				t.Errorf("%s, correlation %d: mean %.3f ms, want 50 +- 0.1", distribution, correlation, mean*1e3)
			}
			// The variance of a Pareto distribution with shape 3 converges slowly: its fourth moment is infinite.
			tolerance := 0.0001
			if distribution == Pareto {
				tolerance = 0.0004
			}
			if math.Abs(deviation-0.002) > tolerance {
				t.Errorf("%s, correlation %d: deviation %.3f ms, want 2", distribution, correlation, deviation*1e3)
			}
			if distribution == Normal {
				covariance := 0.0
				for i := 1; i < len(kept); i++ {
					covariance += (kept[i].Seconds() - mean) * (kept[i-1].Seconds() - mean) / float64(len(kept)-1)
				}
				if got, want := covariance/deviation/deviation, float64(correlation)/million; math.Abs(got-want) > 0.02 {
					t.Errorf("correlation %.3f, want %.3f", got, want)
				}
			}
		}
	}
}

// Wandering delays preserve the order of packets and the median delay, even if packets follow each other closely.
func TestWanderKeepsOrder(t *testing.T) {
	p := testPath(t, Link{DelayMicros: 50_000, JitterMicros: 5_000})
	var all []time.Duration
	last := time.Duration(0)
	for i := range 500_000 {
		now := time.Duration(i) * 100 * time.Microsecond
		arrive, _ := p.packet(now, 100)
		if arrive < last {
			t.Fatalf("packet %d arrives at %s, before the one in front of it at %s", i, arrive, last)
		}
		last = arrive
		all = append(all, arrive-now)
	}
	slices.Sort(all)
	if median := all[len(all)/2]; (median - 50*time.Millisecond).Abs() > 300*time.Microsecond {
		t.Errorf("median %s, want 50ms +- 0.3ms", median)
	}
}

func TestNoPacketArrivesBeforeItWasSent(t *testing.T) {
	for _, distribution := range []Distribution{Wander, Uniform, Normal, Pareto} {
		kept, _ := delays(testPath(t, Link{DelayMicros: 100, JitterMicros: 5_000, JitterDistribution: distribution}), 20_000, time.Millisecond, 100)
		if least := slices.Min(kept); least < 0 {
			t.Errorf("%s: a packet arrives %s before it was sent", distribution, -least)
		}
	}
}

func TestLoss(t *testing.T) {
	for name, tc := range map[string]struct{ loss, correlation int64 }{
		"2%":               {20_000, 0},
		"2%, in bursts":    {20_000, 500_000},
		"50%, correlated":  {500_000, 900_000},
		"all":              {1_000_000, 0},
		"all, in one":      {1_000_000, 300_000},
		"one in a million": {1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPath(t, Link{LossPPM: tc.loss, LossCorrelationPPM: tc.correlation})
			const n = 1_000_000
			lost, pairs, before := 0, 0, false
			for i := range n {
				_, cause := p.packet(time.Duration(i), 1500)
				if cause != Kept && cause != LostCause {
					t.Fatalf("dropped because of %q", cause)
				}
				now := cause == LostCause
				if now {
					lost++
					if before {
						pairs++
					}
				}
				before = now
			}
			share, r := float64(tc.loss)/million, float64(tc.correlation)/million
			// A correlated sample is only as accurate as a smaller independent sample.
			sigma := math.Sqrt(share * (1 - share) / n * (1 + r) / (1 - r))
			if got := float64(lost) / n; math.Abs(got-share) > 5*sigma+1e-9 {
				t.Errorf("lost %.5f, want %.5f +- %.5f", got, share, 5*sigma)
			}
			if lost > 10_000 {
				if got, want := float64(pairs)/float64(lost), share+r*(1-share); math.Abs(got-want) > 0.02 {
					t.Errorf("after a lost packet the next is lost with %.3f, want %.3f", got, want)
				}
			}
		})
	}
}

func TestRate(t *testing.T) {
	// Send 20 Mbit/s over a link of 10 Mbit/s with room for 50 packets in its queue.
	p := testPath(t, Link{DelayMicros: 10_000, RateBitsPerSecond: 10_000_000, RateQueueBytes: 75_000})
	kept, dropped := delays(p, 10_000, 600*time.Microsecond, 1500)
	if got := float64(len(kept)) * 1500 * 8 / 6; math.Abs(got-10e6) > 0.02*10e6 {
		t.Errorf("%.0f bit/s got through, want 10 million", got)
	}
	if dropped[RateCause] != 10_000-len(kept) {
		t.Errorf("dropped %v, want all because of the rate", dropped)
	}
	// A packet that finds 49 packets in the queue waits for all of them and for its own transmission: 50 x 1.2 ms.
	if longest := slices.Max(kept); longest > 70*time.Millisecond || longest < 68*time.Millisecond {
		t.Errorf("the longest delay is %s, want 10ms + 60ms", longest)
	}
	// An idle link accepts a packet of any size without queueing.
	if arrive, cause := p.packet(time.Hour, 64<<10); cause != Kept || arrive-time.Hour != 10*time.Millisecond+52_428_800 {
		t.Errorf("a large packet arrives after %s (%s)", arrive-time.Hour, cause)
	}
}

func TestReorder(t *testing.T) {
	p := testPath(t, Link{DelayMicros: 10_000, ReorderPPM: 100_000, ReorderMicros: 500})
	kept, _ := delays(p, 100_000, 100*time.Microsecond, 100)
	late := 0
	for _, d := range kept {
		switch d {
		case 10 * time.Millisecond:
		case 10*time.Millisecond + 500*time.Microsecond:
			late++
		default:
			t.Fatalf("a packet took %s", d)
		}
	}
	if math.Abs(float64(late)/100_000-0.1) > 0.005 {
		t.Errorf("%d of 100000 were held up, want a tenth", late)
	}
}

func TestCut(t *testing.T) {
	_, dropped := delays(testPath(t, Link{Cut: true}), 10, time.Second, 100)
	if dropped[CutCause] != 10 {
		t.Errorf("dropped %v, want all 10 by the cut", dropped)
	}
}

// A shorter delay takes effect immediately: packets sent before the change do not delay later packets.
func TestChange(t *testing.T) {
	p := testPath(t, Link{DelayMicros: 10_000_000})
	if arrive, _ := p.packet(0, 100); arrive != 10*time.Second {
		t.Fatalf("arrives at %s", arrive)
	}
	l := *p.link
	l.DelayMicros = 1000
	p.set(&l)
	if arrive, _ := p.packet(time.Second, 100); arrive != time.Second+time.Millisecond {
		t.Errorf("arrives at %s, want 1.001s", arrive)
	}
}

func TestSameSeedSameFates(t *testing.T) {
	link := Link{DelayMicros: 50_000, JitterMicros: 2_000, JitterDistribution: Pareto, LossPPM: 100_000}
	fates := func(pod string, seed uint64, addr string) []time.Duration {
		l := testPath(t, link).link
		kept, _ := delays(newPath(l, seed, pod, netip.MustParseAddr(addr)), 1000, time.Millisecond, 100)
		return kept
	}
	want := fates("a", 1, "10.0.0.1")
	if !slices.Equal(want, fates("a", 1, "10.0.0.1")) {
		t.Error("the same seed gave other fates")
	}
	for name, other := range map[string][]time.Duration{
		"seed": fates("a", 2, "10.0.0.1"), "pod": fates("b", 1, "10.0.0.1"), "address": fates("a", 1, "10.0.0.2"),
	} {
		if slices.Equal(want, other) {
			t.Errorf("another %s gave the same fates", name)
		}
	}
}
