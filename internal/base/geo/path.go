package geo

import (
	"math"
	"math/rand/v2"
	"time"
)

// Parameters of the TCP that a Path models.
const (
	// SegmentBytes is the payload of a full segment: an Ethernet frame of 1500 bytes less the IPv4 and TCP headers.
	SegmentBytes = 1460
	// HeaderBytes is the size of a segment's headers on the wire: Ethernet 14, IPv4 20, TCP 20.
	HeaderBytes = 54
	// MinRTO is the minimum retransmission timeout. RFC 6298 specifies 1 s, but Linux uses 200 ms, and databases run on
	// Linux.
	MinRTO = 200 * time.Millisecond
	// MaxRTO bounds the doubling of the retransmission timeout (RFC 6298, section 2.5).
	MaxRTO = 60 * time.Second
)

// never is the arrival time of data on a link that loses all data.
const never = time.Duration(math.MaxInt64 / 4)

// dupAcks is the number of later segments that must arrive before a sender assumes a loss (RFC 5681, section 3.2).
const dupAcks = 3

// Path is one direction of a TCP connection over a Link. It computes when a frame that is sent now arrives. The
// simulator and the real-time driver both use it, so a link has the same meaning in both. It is not safe for concurrent
// use.
//
// Order. Frames always arrive in the order in which they were sent.
//
// Delay and jitter. A frame arrives Link.Delay after it left, plus a deviation. Every max(10 ms, 5 Jitter) a new
// deviation is drawn, uniformly and with mean 0; in between it is interpolated linearly. Over time its standard
// deviation is Link.Jitter, and it stays within 2.13 Jitter, so the mean and the median delay are as declared. Jitter
// is limited to Delay / 2.13, so that no frame arrives before it was sent.
//
// The deviation never falls faster than time passes, so jitter alone never makes a frame wait for an earlier frame.
// Independent deviations per frame would do so, and would raise the mean of a busy connection.
//
// Bandwidth. Frames leave in sequence. Each takes (bytes + HeaderBytes per segment) x 8 / BandwidthMbps microseconds.
// The queue in front of the link is unbounded.
//
// Loss. Every segment and every retransmission is lost with probability LossPPM / 10^6. All data sent later waits until
// the loss is repaired (head-of-line blocking).
//
// The sender detects a loss one round trip after the segment left if at least three more segments follow it (fast
// retransmit, RFC 5681). The model counts the later segments of the same frame, plus the number of segments that the
// connection sent during the previous round trip. A busy connection is likely to stay busy. If there are fewer than
// three, the next segment reveals the loss (RACK, RFC 8985). The model assumes that this segment follows after the same
// gap as between the last two frames.
//
// The retransmission waits for the timeout if the next segment would not follow earlier, no gap is known yet, or a
// retransmission is lost. The timeout starts at max(MinRTO, RTT + 4 RTTVAR) and doubles each time (RFC 6298).
//
// If Link.Congestion is CongestionOpen, the model omits slow start and congestion control: it assumes that the window
// of a long-lived connection is open. Otherwise the type window models both: a loss reduces the window and thereby the
// rate.
//
// Datagrams. A measurement of the link must not measure the connection. On a busy connection every lost segment delays
// hundreds of frames, and the median of round trips would reflect retransmissions. So probes travel outside the
// connection as single packets (Datagram). They queue for the bandwidth and take the delay like any segment, but they
// do not wait for earlier segments to arrive. A lost probe is not sent again.
//
// Cuts. While a path is cut, Send refuses frames, and the driver keeps them. After Heal the connection resumes at its
// next retransmission. Its timeouts have doubled since the first frame was refused.
//
// Changes. Change replaces the link of a path in use. Frames that have left the sender arrive at the times computed
// before. Frames sent after the change use the new link, but do not overtake earlier frames. After a change, the path
// refuses frames while its queue is longer than MaxQueue. Otherwise a link that regains its bandwidth would still drain
// a long queue at the old rate.
type Path struct {
	link Link
	back time.Duration // delay of acknowledgements
	rtt  time.Duration
	rto  time.Duration
	tcp  *window // nil with CongestionOpen

	free     time.Duration // departure time of the last frame or datagram
	arrival  time.Duration // arrival time of the last frame
	datagram time.Duration // arrival time of the last datagram

	wander Wander

	lossless int64 // number of segments before the next loss; -1 if not drawn yet
	window   time.Duration
	recent   [2]int64      // number of segments sent in the last and in the current round trip
	sent     time.Duration // departure time of the last frame; -1 for none
	gap      time.Duration // time between the last two frames; -1 for none

	changed bool // after a change, which bounds the queue

	cut     bool
	refused time.Duration // time when the first frame of a cut was refused; -1 for none
	resume  time.Duration // time when the connection resumes after a Heal
}

// NewPath returns the path of a new connection over link. Acknowledgements travel over the link back.
func NewPath(link, back Link) *Path {
	p := &Path{refused: -1, sent: -1, gap: -1}
	p.set(link, back)
	return p
}

func (p *Path) set(link, back Link) {
	p.link, p.back, p.rtt, p.lossless = link, back.Delay, link.Delay+back.Delay, -1
	p.wander = NewWander(link.Delay, link.Jitter)
	// RTTVAR is a mean deviation. For a normal distribution it is sqrt(2/pi) times the standard deviation, here of both
	// directions together.
	rttvar := time.Duration(math.Sqrt(2/math.Pi) * math.Hypot(float64(link.Jitter), float64(back.Jitter)))
	if p.rto = max(MinRTO, p.rtt+4*rttvar); link.Congestion == CongestionOpen {
		p.tcp = nil
		return
	}
	p.rto = p.rtt + max(MinRTO, 4*rttvar)
	// A change of the delay or the loss does not reset the window of an open connection.
	if p.tcp == nil || p.tcp.congestion != link.Congestion {
		p.tcp = newWindow(link.Congestion)
	}
}

// MaxQueue is the maximum time that a frame waits in front of a link after a change of its path. The driver keeps
// frames that would wait longer.
const MaxQueue = 10 * time.Millisecond

// Change replaces the path's links with link and back.
func (p *Path) Change(link, back Link) {
	// Applying the same links again is not a change, so do not bound the queue.
	if link == p.link && p.rtt == link.Delay+back.Delay {
		return
	}
	p.set(link, back)
	p.changed = true
}

// Link returns the path's link.
func (p *Path) Link() Link { return p.link }

// Send sends a frame of size bytes and returns its arrival time. now is measured from any fixed instant and must not
// decrease. ok is false if the path is cut, is silent after a heal, or has a full queue. In that case the driver keeps
// the frame, in order, and sends it again once the path is Ready.
func (p *Path) Send(now time.Duration, size int, rng *rand.Rand) (arrival time.Duration, ok bool) {
	if p.Silent(now) {
		if p.refused < 0 {
			p.refused = now
		}
		return 0, false
	}
	p.refused = -1
	if p.full(now) {
		return 0, false
	}
	if p.tcp != nil {
		if p.link.LossPPM >= 1e6 {
			return never, true
		}
		arrival, p.free = p.tcp.send(p, now, size, rng)
		return arrival, true
	}
	segments := Segments(size)
	depart := p.depart(now, size, segments)
	arrival = depart + p.link.Delay + p.wander.At(depart, rng)
	if p.link.LossPPM > 0 {
		arrival += p.recovery(depart, segments, rng)
	}
	arrival = max(arrival, p.arrival)
	p.arrival = arrival
	return arrival, true
}

// Datagram sends a packet of size bytes, at most a segment, outside the connection. Datagrams arrive in order. ok is
// false if the datagram is lost, because the link loses packets or is cut. A lost datagram is not sent again.
func (p *Path) Datagram(now time.Duration, size int, rng *rand.Rand) (arrival time.Duration, ok bool) {
	if p.Silent(now) || p.link.LossPPM > 0 && rng.Int64N(1e6) < p.link.LossPPM {
		return 0, false
	}
	var depart time.Duration
	if p.tcp != nil {
		depart = p.tcp.pass(p, now, size)
	} else {
		depart = p.depart(now, size, 1)
	}
	p.datagram = max(p.datagram, depart+p.link.Delay+p.wander.At(depart, rng))
	return p.datagram, true
}

// depart returns the time when a frame that is sent now leaves the sender.
func (p *Path) depart(now time.Duration, size int, segments int64) time.Duration {
	p.free = max(now, p.free)
	p.free += p.transmission(size, segments)
	return p.free
}

// transmission returns the time that size bytes in the given number of segments take to leave the sender.
func (p *Path) transmission(size int, segments int64) time.Duration {
	if p.link.BandwidthMbps == 0 {
		return 0
	}
	return time.Duration(8 * (int64(size) + segments*HeaderBytes) * 1000 / p.link.BandwidthMbps)
}

// lostNext reports whether the next segment is lost.
func (p *Path) lostNext(rng *rand.Rand) bool {
	if p.link.LossPPM == 0 {
		return false
	}
	if p.lossless < 0 {
		p.lossless = p.nextLoss(rng)
	}
	p.lossless--
	return p.lossless < 0
}

// lossAgain reports whether a retransmission is lost.
func (p *Path) lossAgain(rng *rand.Rand) bool { return rng.Int64N(1e6) < p.link.LossPPM }

// Silent reports whether the path is cut, or has not resumed after a Heal.
func (p *Path) Silent(now time.Duration) bool { return p.cut || now < p.resume }

func (p *Path) full(now time.Duration) bool { return p.changed && p.free-now > MaxQueue }

// Ready returns the time when a frame that is refused now should be sent again. ok is false while the path is cut.
func (p *Path) Ready(now time.Duration) (at time.Duration, ok bool) {
	at = max(now, p.resume)
	if p.full(at) {
		at = p.free - MaxQueue
	}
	return at, !p.cut
}

// Cut cuts the path at the sender's end, so frames that have been sent still arrive.
func (p *Path) Cut() { p.cut = true }

// Heal reverts Cut and returns the time when the connection resumes. If no frame was refused, this is now. Otherwise it
// is the time of the first retransmission of the refused frame at or after now.
func (p *Path) Heal(now time.Duration) time.Duration {
	if !p.cut {
		return max(now, p.resume)
	}
	p.cut = false
	p.resume = now
	if p.refused >= 0 {
		p.resume = p.refused
		for rto := p.rto; p.resume < now; rto = min(2*rto, MaxRTO) {
			p.resume += rto
		}
		if p.tcp != nil {
			p.tcp.silence(p.resume)
		}
	}
	return p.resume
}

// recovery returns the time by which lost segments delay a frame that leaves at depart.
func (p *Path) recovery(depart time.Duration, segments int64, rng *rand.Rand) time.Duration {
	if p.link.LossPPM >= 1e6 {
		return never
	}
	window := max(p.rtt, time.Millisecond)
	if depart >= p.window+window {
		p.recent[0] = p.recent[1]
		if depart >= p.window+2*window {
			p.recent[0] = 0
		}
		p.recent[1], p.window = 0, depart
	}
	p.recent[1] += segments
	if p.sent >= 0 && depart > p.sent {
		p.gap = depart - p.sent
	}
	p.sent = depart
	next := max(p.gap, overtaking(p.rtt)) + p.rtt
	if p.lossless < 0 {
		p.lossless = p.nextLoss(rng)
	}
	var wait time.Duration
	for at := int64(0); at+p.lossless < segments; {
		at += p.lossless + 1 // segment at-1 of the frame is lost
		p.lossless = p.nextLoss(rng)
		rto := p.rto
		var w time.Duration
		switch {
		// Enough segments follow, in this frame or at the connection's recent rate, to detect the loss after a round trip.
		case segments-at+p.recent[0] >= dupAcks:
			w = p.rtt
		// The next segment reveals the loss before the timeout expires.
		case p.gap >= 0 && next < rto:
			w = next
		default:
			w, rto = rto, min(2*rto, MaxRTO)
		}
		for rng.Int64N(1e6) < p.link.LossPPM {
			w, rto = w+rto, min(2*rto, MaxRTO)
		}
		// Losses in a frame are repaired in parallel, so the longest repair determines the delay of the frame.
		wait = max(wait, w)
		segments, at = segments-at, 0
	}
	p.lossless -= segments
	return wait
}

// nextLoss draws the number of segments that arrive before the next loss. The distribution is geometric, so a link
// needs one draw per loss rather than one per segment.
func (p *Path) nextLoss(rng *rand.Rand) int64 {
	u := 1 - rng.Float64() // (0, 1]
	n := math.Log(u) / math.Log1p(-float64(p.link.LossPPM)/1e6)
	return int64(min(n, 1e15))
}
