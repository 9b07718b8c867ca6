package wan

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Cause is the reason why a packet was dropped.
type Cause string

const (
	// Kept: the packet was not dropped.
	Kept Cause = ""
	// LostCause: random loss (LossPPM).
	LostCause Cause = "loss"
	// RateCause: the queue before a link's rate limit was full.
	RateCause Cause = "rate"
	// CutCause: the link is cut.
	CutCause Cause = "cut"
	// QueueCause: the sidecar's queue was full (QueueBytes), or the sidecar was too slow for the kernel.
	QueueCause Cause = "queue"
	// KernelCause: the kernel dropped a delayed packet, because its interface disappeared or another program removed a
	// chain from a hook of this network namespace.
	KernelCause Cause = "kernel"
)

// causes lists all causes of drops.
var causes = []Cause{LostCause, RateCause, CutCause, QueueCause, KernelCause}

// path is the link from one peer address to the pod: a Link and the state for this address. It reads no clock and does
// no I/O, so the same seed and the same packets always give the same results.
type path struct {
	link *Link
	rng  *rand.Rand

	wander geo.Wander
	// gauss is the last value drawn from a correlated distribution, as a standard normal variable.
	gauss float64
	// lost is set if the previous packet was lost.
	lost bool
	// free is the time at which the last packet has passed the rate limit.
	free time.Duration
	// last is the arrival time of the last packet that was not reordered. latest is the time at which the last packet
	// reached the link.
	last, latest time.Duration
}

// newPath returns the path over l from the peer at addr to a pod.
func newPath(l *Link, seed uint64, pod string, addr netip.Addr) *path {
	h := fnv.New64a()
	for _, s := range []string{pod, l.From, addr.String()} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	p := &path{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
	p.set(l)
	return p
}

// set changes the path's link to l. Packets in flight keep their arrival times; later packets may overtake them.
func (p *path) set(l *Link) {
	p.link, p.last = l, 0
	p.wander = geo.Wander{}
	if l.JitterDistribution == Wander {
		p.wander = geo.NewWander(micros(l.DelayMicros), micros(l.JitterMicros))
	}
	if l.RateBitsPerSecond == 0 {
		p.free = 0
	}
}

// packet returns the arrival time of a packet that reaches the link now, or the cause of its loss. bytes counts from
// the IP header on. now is measured from any fixed instant. It may be earlier than in the previous call, because clocks
// of processors differ; packet then uses the earlier call's time.
func (p *path) packet(now time.Duration, bytes int) (time.Duration, Cause) {
	l := p.link
	now = max(now, p.latest)
	p.latest = now
	if l.Cut {
		return 0, CutCause
	}
	if l.LossPPM > 0 && p.loses() {
		return 0, LostCause
	}
	depart := now
	if l.RateBitsPerSecond > 0 {
		free := max(now, p.free)
		perSecond := float64(l.RateBitsPerSecond) / 8
		// An idle link accepts a packet of any size, even one larger than the queue.
		if (free-now).Seconds()*perSecond+float64(bytes) > float64(max(l.RateQueueBytes, int64(bytes))) {
			return 0, RateCause
		}
		depart = free + time.Duration(float64(bytes)/perSecond*1e9)
		p.free = depart
	}
	arrive := depart + micros(l.DelayMicros)
	if l.JitterDistribution == Wander {
		arrive = max(arrive+p.wander.At(depart, p.rng), p.last)
		// A reordered packet does not raise p.last, so that the following packets can overtake it.
		if l.ReorderPPM == 0 || p.rng.Int64N(million) >= l.ReorderPPM {
			p.last = arrive
			return arrive, Kept
		}
		return arrive + micros(l.ReorderMicros), Kept
	}
	if l.JitterMicros > 0 {
		arrive += p.deviation()
	}
	if l.ReorderPPM > 0 && p.rng.Int64N(million) < l.ReorderPPM {
		arrive += micros(l.ReorderMicros)
	}
	// A negative deviation may exceed the delay, but no packet arrives before it was sent.
	return max(arrive, depart), Kept
}

// loses reports whether the next packet is lost. It draws from a two-state chain (Gilbert, "Capacity of a burst-noise
// channel", 1960). Let p be the share of lost packets and r the correlation of consecutive packets. A packet is lost
// with probability p + r (1 - p) if the previous packet was lost, and with probability p (1 - r) otherwise.
func (p *path) loses() bool {
	share := float64(p.link.LossPPM) / million
	r := float64(p.link.LossCorrelationPPM) / million
	chance := share * (1 - r)
	if p.lost {
		chance += r
	}
	p.lost = p.rng.Float64() < chance
	return p.lost
}

// deviation draws the deviation of a packet's delay from the mean. It draws a first-order autoregressive normal
// variable, so that consecutive deviations are correlated, and converts it to the requested distribution.
func (p *path) deviation() time.Duration {
	sigma := float64(micros(p.link.JitterMicros))
	r := float64(p.link.JitterCorrelationPPM) / million
	p.gauss = r*p.gauss + math.Sqrt(1-r*r)*p.rng.NormFloat64()
	if p.link.JitterDistribution == Normal {
		return time.Duration(sigma * p.gauss)
	}
	u := 0.5 * math.Erfc(-p.gauss/math.Sqrt2) // uniform in (0, 1)
	if p.link.JitterDistribution == Uniform {
		return time.Duration(sigma * math.Sqrt(3) * (2*u - 1))
	}
	// Pareto with shape 3 and scale m has the mean 3/2 m and the standard deviation sqrt(3)/2 m.
	m := sigma * 2 / math.Sqrt(3)
	return time.Duration(m/math.Cbrt(max(1-u, 1e-12)) - 1.5*m)
}

// exact reports whether the kernel must deliver packets one by one. By default, the kernel delivers up to 64 KiB of a
// TCP connection as a unit. This unit must not be lost, paced or reordered as a whole.
func (l *Link) exact() bool {
	return l.LossPPM > 0 || l.ReorderPPM > 0 || l.RateBitsPerSecond > 0 && l.RateBitsPerSecond <= exactRate
}

// exactRate is a rate at which 64 KiB take about a quarter of a millisecond. At higher rates, packets may pass as a
// unit.
const exactRate = 2_000_000_000

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
