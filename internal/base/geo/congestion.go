package geo

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Congestion is the congestion control algorithm of the connections over a link.
type Congestion string

const (
	// CongestionOpen: the window is always open, so loss delays data but does not reduce the rate.
	CongestionOpen Congestion = ""
	// CongestionReno halves the window after a loss, and adds a segment per round trip (RFC 5681).
	CongestionReno Congestion = "Reno"
	// CongestionCubic is the default of Linux (RFC 9438).
	CongestionCubic Congestion = "Cubic"
)

const (
	// initialWindow is the window of a new connection, in segments (RFC 6928).
	initialWindow = 10
	// leastWindow is the minimum window after loss recovery, in segments.
	leastWindow = 2
	// MaxWindowBytes is the maximum window in bytes. It is the part of the default receive buffer (6 MiB) that Linux
	// advertises.
	MaxWindowBytes = 3 << 20
	// probeSlack is the time that Linux adds to two round trips before it sends a probe for a lost tail of several
	// segments.
	probeSlack = 2 * time.Millisecond
	// tick is a jiffy of a Linux kernel with a 250 Hz clock, the default of common distributions.
	tick = 4 * time.Millisecond

	// Constants of RFC 9438, section 5. cubicC is the growth of the window, in segments per second cubed. cubicBeta is the
	// share of the window that remains after a loss. With a growth of cubicAlpha segments per round trip, the window grows
	// as fast as with Reno.
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// window models the sender of a TCP connection in Linux: slow start, Reno or CUBIC, a probe for a lost tail, and
// timeouts that double. The sender detects a loss when segments that it sent later are acknowledged (RACK, RFC 8985).
//
// The model computes the fate of a segment when the segment is sent. It assumes that later segments follow at the same
// rate as earlier segments. A frame that waits for the window enters the link when the window opens.
type window struct {
	congestion Congestion
	size       float64 // size of the window in segments
	threshold  float64 // threshold of slow start, in segments
	flight     int     // number of segments sent and not acknowledged
	events     events
	sent       time.Duration // when the last segment entered the link
	gap        time.Duration // time between the last two different entry times; -1 if there is none
	blocked    time.Duration // when a segment last had to wait for the window
	most       [2]int        // maximum number of segments in flight in the last and in the current round trip
	round      time.Duration // start of the current round trip
	reduced    time.Duration // when the window was last reduced
	recovered  time.Duration // when the loss that caused this reduction is repaired

	// The curve of CUBIC starts at epoch (-1 if it has not started). k seconds later it is flat, at origin segments.
	epoch  time.Duration
	k      float64
	origin float64
	last   float64 // window at the last loss
	reno   float64 // the window that Reno would have at this time
	// step is the growth per acknowledged segment, computed at the last CUBIC update. looked is the time of that update,
	// and lookedSize the window at that time, in whole segments.
	step       float64
	looked     time.Duration
	lookedSize int

	// tail is the last segment while it waits for the window. Frames that are sent in the meantime are added to it until
	// it is full.
	tail struct {
		room   int
		leaves time.Duration
	}
	// free is the time at which the last segment leaves the link. queue contains the times at which segments enter and
	// leave the link, for all segments that may still be in it.
	free  time.Duration
	queue []passage
}

type passage struct{ enters, leaves time.Duration }

func newWindow(c Congestion) *window {
	return &window{congestion: c, size: initialWindow, threshold: math.Inf(1), sent: -1, gap: -1, blocked: math.MinInt64 / 2, reduced: -1, recovered: -1, epoch: -1}
}

// event is the acknowledgement of a segment, or the detection of the loss of a segment that entered the link at left.
type event struct {
	at, left time.Duration
	kind     eventKind
}

type eventKind uint8

const (
	acknowledged eventKind = iota
	lost                   // the loss of the segment was detected
	timedOut
)

// events is a heap ordered by time, because a repaired segment is acknowledged after segments that were sent later.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// send sends a frame. It returns the time when the whole frame has arrived, and the time when its last segment enters
// the link.
func (w *window) send(p *Path, now time.Duration, size int, rng *rand.Rand) (arrival, left time.Duration) {
	w.forget(now)
	for size = max(size, 1); size > 0; {
		// The last segment still waits for the window, so the frame fills it first.
		if now < w.tail.leaves && w.tail.room > 0 {
			n := min(size, w.tail.room)
			w.tail.room -= n
			size -= n
			arrival = max(arrival, p.arrival)
			continue
		}
		n := min(size, SegmentBytes)
		size -= n
		following := (size + SegmentBytes - 1) / SegmentBytes
		enters := w.enter(p, now)
		left = w.leave(p, enters, n)
		at := left + p.link.Delay + p.wander.At(left, rng)
		if p.lostNext(rng) {
			at = w.repair(p, enters, at-left, following, rng)
		} else {
			heap.Push(&w.events, event{at: at + p.back, kind: acknowledged})
		}
		w.tail.room, w.tail.leaves = SegmentBytes-n, enters
		// TCP delivers in order, so a frame never arrives before an earlier frame.
		arrival = max(arrival, at, p.arrival)
		p.arrival = arrival
	}
	return arrival, w.sent
}

// enter returns the time when the next segment enters the link. The segment waits until the window is open.
func (w *window) enter(p *Path, now time.Duration) time.Duration {
	t := max(now, w.sent)
	w.until(p, t)
	// After an idle period longer than a timeout, the window no longer describes the path.
	if w.flight == 0 && w.sent >= 0 && t-w.sent > p.rto {
		w.restart(t-w.sent, p.rto)
	}
	// The next event may be an acknowledgement, which leaves fewer segments in flight.
	for w.flight >= int(w.size) {
		t = max(t, w.events[0].at)
		w.until(p, t)
		w.blocked = t
	}
	if span := max(p.rtt, time.Millisecond); t >= w.round+span {
		w.most[0], w.most[1] = w.most[1], 0
		if t >= w.round+2*span {
			w.most[0] = 0
		}
		w.round = t
	}
	w.flight++
	w.most[1] = max(w.most[1], w.flight)
	if w.sent >= 0 && t > w.sent {
		w.gap = t - w.sent
	}
	w.sent = t
	return t
}

// leave returns the time when a segment that enters the link at enters leaves it.
func (w *window) leave(p *Path, enters time.Duration, size int) time.Duration {
	if p.link.BandwidthMbps == 0 {
		return enters
	}
	w.free = max(enters, w.free) + p.transmission(size, 1)
	w.queue = append(w.queue, passage{enters, w.free})
	return w.free
}

// pass returns the time when a datagram of size bytes leaves the link, after all segments that entered it earlier.
func (w *window) pass(p *Path, now time.Duration, size int) time.Duration {
	w.forget(now)
	leaves := now
	for _, q := range w.queue {
		if q.enters > now {
			break
		}
		leaves = max(now, q.leaves)
	}
	return leaves + p.transmission(size, 1)
}

// forget drops segments that have left the link, if they make up more than half of the queue.
func (w *window) forget(now time.Duration) {
	n := sort.Search(len(w.queue), func(i int) bool { return w.queue[i].leaves > now })
	if 2*n > len(w.queue) {
		w.queue = append(w.queue[:0], w.queue[n:]...)
	}
}

// repair returns the arrival time of a lost segment after its retransmission. The segment entered the link at enters.
// trip is the time that a segment takes to arrive if it is not lost. following is the number of later segments of the
// same frame.
func (w *window) repair(p *Path, enters, trip time.Duration, following int, rng *rand.Rand) time.Duration {
	rtt := trip + p.back
	// behind is the number of segments that follow within a round trip, and gap the time between them. The model assumes
	// that the next segments are as dense as the previous ones.
	behind, gap := min(following, int(w.size)-1), time.Duration(0)
	if behind < dupAcks && w.most[0] > behind {
		behind, gap = w.most[0], rtt/time.Duration(w.most[0])
		if enters-w.blocked <= rtt { // as dense as the window allows
			behind, gap = max(1, min(behind, int(w.size)-1)), 0
		}
	}
	reordering := overtaking(rtt)
	var at time.Duration
	switch {
	case behind >= dupAcks:
		at = enters + rtt + min(dupAcks*gap, reordering)
	case behind > 0 && gap > 0:
		at = enters + rtt + max(gap, reordering)
	case behind > 0:
		// Each acknowledgement allows the sender to send another segment, until three acknowledgements have arrived.
		at = enters + rtt + min(reordering, rtt*time.Duration((dupAcks-1)/behind))
	default:
		timer := p.rto
		if w.flight > 1 {
			timer = min(2*rtt+probeSlack, p.rto)
		}
		// Alternatively, the next segment reveals the loss. The model assumes that it follows after the same gap as between
		// the previous two segments.
		if w.gap >= 0 && w.flight < int(w.size) && max(w.gap, reordering)+rtt < timer {
			behind, gap = 1, max(w.gap, reordering)
			timer = rtt + gap
		}
		at = enters + timer
	}
	heap.Push(&w.events, event{at: at, left: enters, kind: lost})
	for rto := p.rto; p.lossAgain(rng); {
		if w.told(p, behind, rng) {
			at += rtt + gap
			continue
		}
		at += rto
		rto = min(2*rto, MaxRTO)
		heap.Push(&w.events, event{at: at, left: enters, kind: timedOut})
	}
	heap.Push(&w.events, event{at: at + rtt, kind: acknowledged})
	return at + trip
}

// overtaking returns the reordering window: how long the sender waits before it assumes that an overtaken segment is
// lost. The model also uses this as the minimum gap before the next segment.
func overtaking(rtt time.Duration) time.Duration { return rtt/4 + probeSlack }

// told reports whether an acknowledgement of a later segment reveals that a retransmission was lost.
func (w *window) told(p *Path, behind int, rng *rand.Rand) bool {
	for range min(behind, int(w.size*w.keeps())-1) {
		if !p.lossAgain(rng) {
			return true
		}
	}
	return false
}

// until processes the events up to t.
func (w *window) until(p *Path, t time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= t {
		e := heap.Pop(&w.events).(event)
		switch {
		case e.kind == acknowledged:
			w.flight--
			w.grow(p, e.at)
		case e.kind == timedOut:
			w.reduce(e.at, 0)
			w.size = 1
		// Segments sent before the last reduction were lost in the same congestion event, which reduces the window only once.
		case e.left > w.reduced:
			w.reduce(e.at, p.rtt)
		}
	}
}

// limited reports whether the window recently limited the sender. Otherwise the window does not grow.
func (w *window) limited(p *Path, at time.Duration) bool {
	if at-w.blocked <= max(p.rtt, time.Millisecond) {
		return true
	}
	return w.size < w.threshold && w.size < 2*float64(max(w.most[0], w.most[1]))
}

func (w *window) grow(p *Path, at time.Duration) {
	if at <= w.recovered || !w.limited(p, at) {
		return
	}
	switch {
	case w.size < w.threshold:
		w.size++
	case w.congestion == CongestionReno:
		w.size += 1 / w.size
	default:
		w.size += w.cubic(p, at)
	}
	w.size = min(w.size, float64(MaxWindowBytes/SegmentBytes))
}

// cubic returns the growth of the window per acknowledged segment. Linux updates its curve only when the window has
// grown by a whole segment, or more than a tick after the last update. So if losses are more frequent than ticks, as
// with a short round trip, the window does not recover in between.
func (w *window) cubic(p *Path, at time.Duration) float64 {
	begins := w.epoch < 0
	if begins {
		w.epoch, w.reno = at, w.size
		w.k, w.origin = 0, w.size
		if w.size < w.last {
			w.k, w.origin = math.Cbrt((w.last-w.size)/cubicC), w.last
		}
	}
	w.reno += cubicAlpha / w.size
	if !begins && int(w.size) == w.lookedSize && at-w.looked <= tick {
		return w.step
	}
	w.lookedSize, w.looked = int(w.size), at
	since := (at - w.epoch + p.rtt).Seconds() - w.k
	target := max(w.origin+cubicC*since*since*since, w.reno)
	// Growth is at least a hundredth of a segment and at most half the window per round trip.
	w.step = min(max((target-w.size)/w.size, 0.01/w.size), 0.5)
	return w.step
}

// keeps returns the share of the window that remains after a loss.
func (w *window) keeps() float64 {
	if w.congestion == CongestionReno {
		return 0.5
	}
	return cubicBeta
}

// silence records that no segment arrived until a retransmission at time until.
func (w *window) silence(until time.Duration) {
	heap.Push(&w.events, event{at: until, kind: timedOut})
}

// reduce reduces the window at time at, because the sender interprets a loss as congestion. repair is the time that the
// repair of the loss takes.
func (w *window) reduce(at, repair time.Duration) {
	last := w.size
	if last < w.last {
		// Fast convergence: if the window has not regained its size at the previous loss, leave room for other connections.
		last *= (1 + cubicBeta) / 2
	}
	w.last, w.epoch = last, -1
	w.size = max(leastWindow, math.Floor(w.size*w.keeps()))
	w.threshold = w.size
	w.reduced, w.recovered = at, at+repair
}

// restart halves the window for each timeout in an idle period, because the state of the path is unknown afterwards
// (RFC 2861).
func (w *window) restart(idle, rto time.Duration) {
	w.threshold = max(w.threshold, 0.75*w.size)
	for ; idle > rto && w.size > initialWindow; idle -= rto {
		w.size = max(initialWindow, w.size/2)
	}
	if w.epoch >= 0 {
		w.epoch += idle
	}
}
