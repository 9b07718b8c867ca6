package geo

import (
	"math"
	"testing"
	"time"
)

// rate returns the throughput, in Mbit/s, of a connection that always has data to send.
func rate(l Link, bytes int) float64 {
	p, r := NewPath(l, l), rng(1)
	const frame = 64 << 10
	for range bytes / frame {
		p.Send(0, frame, r)
	}
	return float64(bytes) * 8 / p.arrival.Seconds() / 1e6
}

// TestRateUnderLoss compares rates with the published rates of Reno (Mathis et al. 1997: sqrt(3/2) / sqrt(loss)
// segments per round trip). It also compares them with rates of Linux 6.18 over a sidecar that delays and loses packets
// (BenchmarkTCPUnderLoss).
func TestRateUnderLoss(t *testing.T) {
	const us = time.Microsecond
	for _, tc := range []struct {
		congestion Congestion
		rtt        time.Duration
		ppm        int64
		kernel     float64 // Mbit/s
	}{
		{CongestionReno, 628 * us, 50_000, 73.5},
		{CongestionReno, 20 * ms, 1000, 22.9}, {CongestionReno, 20 * ms, 10_000, 6.83}, {CongestionReno, 20 * ms, 50_000, 2.64},
		{CongestionReno, 100 * ms, 1000, 4.25}, {CongestionReno, 100 * ms, 10_000, 1.36}, {CongestionReno, 100 * ms, 50_000, 0.567},
		{CongestionCubic, 584 * us, 1000, 825}, {CongestionCubic, 544 * us, 10_000, 214},
		{CongestionCubic, 20 * ms, 1000, 21.7}, {CongestionCubic, 20 * ms, 10_000, 6.05}, {CongestionCubic, 20 * ms, 50_000, 2.16},
		{CongestionCubic, 100 * ms, 1000, 5.1}, {CongestionCubic, 100 * ms, 10_000, 1.31}, {CongestionCubic, 100 * ms, 50_000, 0.494},
	} {
		l := Link{Delay: tc.rtt / 2, LossPPM: tc.ppm, Congestion: tc.congestion}
		got := rate(l, 200<<20)
		if math.Abs(got/tc.kernel-1) > 0.2 {
			t.Errorf("%s, %v, %d ppm: %.2f Mbit/s, the kernel %.2f", tc.congestion, tc.rtt, tc.ppm, got, tc.kernel)
		}
		mathis := math.Sqrt(1.5e6/float64(tc.ppm)) * SegmentBytes * 8 / tc.rtt.Seconds() / 1e6
		// The published formula ignores timeouts, so it applies only where timeouts are rare.
		if tc.congestion == CongestionReno && tc.ppm <= 10_000 && math.Abs(got/mathis-1) > 0.2 {
			t.Errorf("%v, %d ppm: %.2f Mbit/s, published %.2f", tc.rtt, tc.ppm, got, mathis)
		}
	}
}

// TestSlowStart checks that ten segments leave in the first round trip, and twice as many in each further round trip.
// After a long pause, the connection again starts with ten segments.
func TestSlowStart(t *testing.T) {
	l := Link{Delay: 50 * ms, Congestion: CongestionCubic}
	p, r := NewPath(l, l), rng(1)
	send := func(now time.Duration, segments int) time.Duration {
		at, _ := p.Send(now, segments*SegmentBytes, r)
		return at - now
	}
	for _, tc := range []struct {
		what     string
		at       time.Duration
		segments int
		takes    time.Duration
	}{
		{"the initial window", 0, 10, 50 * ms},
		{"twenty are two windows after it", time.Minute, 20, 150 * ms},
		{"10 + 20 + 40", 2 * time.Minute, 70, 250 * ms},
		{"the window is open meanwhile", 2*time.Minute + 400*ms, 40, 50 * ms},
		{"a pause of one timeout halves it", 2*time.Minute + 900*ms, 40, 50 * ms},
		{"and long ones leave what a connection begins with", 3 * time.Minute, 11, 150 * ms},
	} {
		if got := send(tc.at, tc.segments); got != tc.takes {
			t.Errorf("%s: %v, want %v", tc.what, got, tc.takes)
		}
	}
	if got := rate(l, 1<<30); got > float64(MaxWindowBytes)*8/0.1/1e6 {
		t.Errorf("%.0f Mbit/s are more than the receiver's window allows", got)
	}
}

// TestLateSegments checks the delay that the loss of a single segment causes. The delay depends on the segments that
// follow.
func TestLateSegments(t *testing.T) {
	const rtt = 20 * ms
	for name, tc := range map[string]struct {
		segments int
		every    time.Duration
		cost     time.Duration
	}{
		"alone: the timeout":                          {1, 10 * time.Second, rtt + MinRTO},
		"one of many: a round trip":                   {9, 10 * time.Second, rtt},
		"on a busy connection: a round trip or a bit": {1, 4 * ms, rtt + rtt/4},
		"on a slow one: when the next has come":       {1, 60 * ms, rtt + 60*ms},
	} {
		t.Run(name, func(t *testing.T) {
			l := Link{Delay: rtt / 2, LossPPM: 2000, Congestion: CongestionCubic}
			p, r := NewPath(l, l), rng(2)
			seen, before := map[time.Duration]int{}, time.Duration(0)
			for i := range 20_000 {
				now := time.Duration(i) * tc.every
				at, _ := p.Send(now, tc.segments*SegmentBytes, r)
				late := at - now - rtt/2
				if late > 0 && before == 0 {
					seen[late.Round(ms)]++
				}
				before = late
			}
			most := time.Duration(0)
			for late, n := range seen {
				if n > seen[most] {
					most = late
				}
			}
			if (most - tc.cost).Abs() > 3*ms {
				t.Errorf("mostly %v late, want %v: %v", most, tc.cost, seen)
			}
		})
	}
}

// TestSmallFramesShareSegments checks that frames that have to wait for the window leave in full segments.
func TestSmallFramesShareSegments(t *testing.T) {
	l := Link{Delay: 50 * ms, Congestion: CongestionReno}
	p, r := NewPath(l, l), rng(1)
	var last time.Duration
	for range 10 + 10*SegmentBytes/100 { // the first ten leave immediately, each in its own segment
		last, _ = p.Send(0, 100, r)
	}
	if last != 150*ms {
		t.Errorf("the last of 1470 small frames arrives after %v, want 150 ms", last)
	}
}

// TestProbesPassTheWindow checks that a datagram waits for data that has entered the link, but not for data that waits
// for the window.
func TestProbesPassTheWindow(t *testing.T) {
	l := Link{Delay: 50 * ms, BandwidthMbps: 100, Congestion: CongestionReno}
	p, r := NewPath(l, l), rng(1)
	p.Send(0, 1000*SegmentBytes, r)
	at, ok := p.Datagram(0, 32, r)
	queued := 10 * p.transmission(SegmentBytes, 1)
	if want := 50*ms + queued + p.transmission(32, 1); !ok || at != want {
		t.Errorf("it arrives after %v, want %v", at, want)
	}
	if at, _ := p.Datagram(50*ms, 32, r); at != 100*ms+p.transmission(32, 1) {
		t.Errorf("while the sender waits for acknowledgements it arrives at %v", at)
	}
}

// TestCutClosesTheWindow checks that a connection is in slow start again after a cut.
func TestCutClosesTheWindow(t *testing.T) {
	l := Link{Delay: 50 * ms, Congestion: CongestionCubic}
	p, r := NewPath(l, l), rng(1)
	p.Send(0, 1000*SegmentBytes, r)
	p.Cut()
	p.Send(2*time.Second, 1, r)
	resume := p.Heal(3 * time.Second)
	at, ok := p.Send(resume, 11*SegmentBytes, r)
	if want := resume + 3*l.Delay*2 + l.Delay; !ok || at != want {
		t.Errorf("eleven segments take %v after a cut, want 1 + 2 + 4 + 4, %v", at-resume, want-resume)
	}
}

func TestCongestionIsReproducible(t *testing.T) {
	run := func() (sum time.Duration) {
		l := Link{Delay: 20 * ms, Jitter: 2 * ms, LossPPM: 20_000, BandwidthMbps: 100, Congestion: CongestionCubic}
		p, r := NewPath(l, l), rng(42)
		var last time.Duration
		for i := range 10_000 {
			now := time.Duration(i) * ms
			at, _ := p.Send(now, i%5000, r)
			if at < last || at < now {
				t.Fatal("a frame overtook another, or time")
			}
			last = at
			sum = sum*31 + at
		}
		return sum
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs with one seed differ: %d, %d", a, b)
	}
}
