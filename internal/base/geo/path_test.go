package geo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestPathTimes(t *testing.T) {
	type frame struct {
		at     time.Duration
		size   int
		arrive time.Duration
	}
	tests := map[string]struct {
		link   Link
		frames []frame
	}{
		"the delay alone": {
			link:   Link{Delay: 50 * ms},
			frames: []frame{{0, 100, 50 * ms}, {ms, 1 << 20, 51 * ms}, {ms, 1, 51 * ms}},
		},
		"8 Mbit/s carry a byte per microsecond, headers included": {
			link:   Link{Delay: 10 * ms, BandwidthMbps: 8},
			frames: []frame{{0, 946, 11 * ms}, {0, 946, 12 * ms}, {5 * ms, 946, 16 * ms}},
		},
		"a frame of three segments has three headers": {
			link:   Link{Delay: 10 * ms, BandwidthMbps: 8},
			frames: []frame{{0, 2*SegmentBytes + 1, 10*ms + (2*SegmentBytes+1+3*HeaderBytes)*time.Microsecond}},
		},
		"a wire without delay": {
			link:   Link{},
			frames: []frame{{3 * ms, 100, 3 * ms}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, r := NewPath(tc.link, tc.link), rng(1)
			for i, f := range tc.frames {
				if got, ok := p.Send(f.at, f.size, r); !ok || got != f.arrive {
					t.Errorf("frame %d sent at %v arrives at %v, %v; want %v", i, f.at, got, ok, f.arrive)
				}
			}
		})
	}
}

// A datagram queues for the bandwidth but does not wait for lost segments. It is itself lost as often as declared.
func TestPathDatagrams(t *testing.T) {
	for name, tc := range map[string]struct {
		link Link
		// The test sends a datagram right after a frame of frame bytes.
		frame     int
		late      time.Duration
		lostShare float64
	}{
		"idle":                 {link: Link{Delay: 50 * ms}},
		"behind a frame":       {link: Link{Delay: 50 * ms, BandwidthMbps: 8}, frame: 946, late: ms + 86*time.Microsecond},
		"loss":                 {link: Link{Delay: 50 * ms, LossPPM: 100_000}, lostShare: 0.1},
		"loss, behind one":     {link: Link{Delay: 50 * ms, LossPPM: 100_000}, frame: 100, lostShare: 0.1},
		"nothing gets through": {link: Link{Delay: 50 * ms, LossPPM: 1e6}, lostShare: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := NewPath(tc.link, tc.link), rng(3)
			const n = 10_000
			lost := 0
			for i := range n {
				now := time.Duration(i) * 10 * ms
				if tc.frame > 0 {
					p.Send(now, tc.frame, r)
				}
				switch at, ok := p.Datagram(now, 32, r); {
				case !ok:
					lost++
				case at != now+tc.link.Delay+tc.late:
					t.Fatalf("sent at %v, it arrives after %v", now, at-now)
				}
			}
			if share := float64(lost) / n; math.Abs(share-tc.lostShare) > 0.012 {
				t.Errorf("%.1f%% are lost", 100*share)
			}
		})
	}
	p := NewPath(Link{Delay: ms}, Link{Delay: ms})
	p.Cut()
	if _, ok := p.Datagram(0, 32, rng(1)); ok {
		t.Error("one got through a cut")
	}
	if at := p.Heal(5 * ms); at != 5*ms {
		t.Errorf("a lost datagram keeps the connection silent until %v", at)
	}
}

// TestPathJitter checks that the mean, the median and the standard deviation of the delay are as declared, at any rate
// of frames. Frames stay in order.
func TestPathJitter(t *testing.T) {
	for name, tc := range map[string]struct {
		link  Link
		every time.Duration
	}{
		"busy":             {Link{Delay: 50 * ms, Jitter: 1 * ms}, 20 * time.Microsecond},
		"idle":             {Link{Delay: 50 * ms, Jitter: 1 * ms}, 17 * ms},
		"busy, unsteady":   {Link{Delay: 50 * ms, Jitter: 15 * ms}, 100 * time.Microsecond},
		"steadier than it": {Link{Delay: 50 * ms, Jitter: 100 * time.Microsecond}, ms},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := NewPath(tc.link, tc.link), rng(7)
			var sum, squares float64
			var delays []time.Duration
			last, now := time.Duration(0), time.Duration(0)
			n := int(max(200_000, min(4_000_000, 400*p.wander.interval/tc.every*10)))
			for range n {
				now += tc.every
				at, _ := p.Send(now, 100, r)
				if at < last || at < now {
					t.Fatalf("a frame sent at %v arrives at %v, the one before at %v", now, at, last)
				}
				last = at
				d := at - now
				delays = append(delays, d)
				x := float64(d - tc.link.Delay)
				sum += x
				squares += x * x
			}
			slices.Sort(delays)
			mean := sum / float64(n)
			sd := math.Sqrt(squares/float64(n) - mean*mean)
			j := float64(tc.link.Jitter)
			if math.Abs(mean) > 0.05*j {
				t.Errorf("mean deviation %v for jitter %v", time.Duration(mean), tc.link.Jitter)
			}
			if math.Abs(sd-j) > 0.05*j {
				t.Errorf("standard deviation %v for jitter %v", time.Duration(sd), tc.link.Jitter)
			}
			if m := delays[n/2] - tc.link.Delay; m.Abs() > tc.link.Jitter/10 {
				t.Errorf("the median is off by %v", m)
			}
		})
	}
}

func TestPathJitterNeverPrecedesTheSender(t *testing.T) {
	l := Link{Delay: ms, Jitter: 10 * ms}
	p, r := NewPath(l, l), rng(3)
	for now := time.Duration(0); now < time.Second; now += ms / 3 {
		if at, _ := p.Send(now, 10, r); at < now {
			t.Fatalf("sent at %v, arrived at %v", now, at)
		}
	}
}

// TestPathLoss checks that a loss of 1% delays one frame in a hundred. On an idle connection, the delay is the
// retransmission timeout. On a busy connection, it is a round trip. At rates in between, the delay lasts until the next
// frame reveals the loss.
func TestPathLoss(t *testing.T) {
	tests := map[string]struct {
		delay, every time.Duration
		size         int
		first        time.Duration // delay of the first repair
	}{
		"idle connection waits for the timeout":           {10 * ms, 500 * ms, 100, 200 * ms},
		"idle connection, long way: the round trip rules": {150 * ms, 3 * time.Second, 100, 300 * ms},
		"busy connection repairs in a round trip":         {50 * ms, 10 * ms, 100, 100 * ms},
		"slow connection: the next frame tells":           {10 * ms, 70 * ms, 100, 90 * ms},
		"slow connection over a short way":                {ms / 5, 5 * ms, 100, 5*ms + 2*ms/5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := Link{Delay: tc.delay, LossPPM: 10_000}
			p, r := NewPath(l, l), rng(11)
			const n = 200_000
			var lost, again int
			last := time.Duration(0)
			for i := range n {
				now := time.Duration(i) * tc.every
				at, _ := p.Send(now, tc.size, r)
				if at < last {
					t.Fatal("a frame overtook another")
				}
				late := at - now - tc.delay
				if at == last && late > 0 && late%tc.every == 0 && late < tc.first {
					late = 0 // delayed by an earlier frame, but not lost itself
				}
				last = at
				switch {
				case late == tc.first:
					lost++
				case late > tc.first:
					again++
				}
			}
			if share := float64(lost+again) / n; math.Abs(share-0.01) > 0.002 && tc.every > tc.first {
				t.Errorf("%.4f of the frames were lost, want 0.01", share)
			}
			if lost == 0 || (again == 0 && tc.every > tc.first) {
				t.Errorf("%d frames late by one repair, %d by more", lost, again)
			}
		})
	}
}

func TestPathLossInsideALargeFrame(t *testing.T) {
	l := Link{Delay: 50 * ms, LossPPM: 1000}
	p, r := NewPath(l, l), rng(5)
	const n, segments = 20_000, 100
	var late int
	for i := range n {
		now := time.Duration(i) * time.Minute // idle in between
		at, _ := p.Send(now, segments*SegmentBytes, r)
		if at-now > 50*ms {
			late++
		}
	}
	want := 1 - math.Pow(1-0.001, segments)
	if got := float64(late) / n; math.Abs(got-want) > 0.01 {
		t.Errorf("%.4f of the frames were late, want %.4f", got, want)
	}
}

func TestPathCutAndHeal(t *testing.T) {
	link := Link{Delay: 50 * ms} // RTO 200 ms
	tests := map[string]struct {
		refusedAt, healAt, resume time.Duration
	}{
		"nothing waited":                          {-1, 1000 * ms, 1000 * ms},
		"healed before the first timeout":         {100 * ms, 150 * ms, 300 * ms},
		"healed at a timeout":                     {100 * ms, 300 * ms, 300 * ms},
		"the timeouts double: 300, 700, 1500, ..": {100 * ms, 701 * ms, 1500 * ms},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, r := NewPath(link, link), rng(1)
			if at, ok := p.Send(0, 10, r); !ok || at != 50*ms {
				t.Fatal("a whole path must carry")
			}
			p.Cut()
			if tc.refusedAt >= 0 {
				if _, ok := p.Send(tc.refusedAt, 10, r); ok {
					t.Fatal("a cut path must refuse")
				}
				p.Send(tc.refusedAt+10*ms, 10, r)
			}
			if got := p.Heal(tc.healAt); got != tc.resume {
				t.Fatalf("speaks again at %v, want %v", got, tc.resume)
			}
			if tc.resume > tc.healAt {
				if _, ok := p.Send(tc.resume-1, 10, r); ok {
					t.Error("must be silent until the retransmission")
				}
			}
			if at, ok := p.Send(tc.resume, 10, r); !ok || at != tc.resume+50*ms {
				t.Errorf("the first frame arrives at %v, %v", at, ok)
			}
		})
	}
}

func TestPathIsReproducible(t *testing.T) {
	run := func() (sum time.Duration) {
		l := Link{Delay: 20 * ms, Jitter: 2 * ms, LossPPM: 20_000, BandwidthMbps: 100}
		p, r := NewPath(l, l), rng(42)
		for i := range 10_000 {
			at, _ := p.Send(time.Duration(i)*ms, i%5000, r)
			sum = sum*31 + at
		}
		return sum
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs with one seed differ: %d, %d", a, b)
	}
}
