package wire

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// watched is the number of consecutive round trips that a watch considers together: the round trips of one second for a
// region (see probeEvery).
const watched = 10

// maxFast is the maximum number of intervals that a watch keeps. Beyond this number, a watch extends the last interval.
const maxFast = 100

// Fast is an interval in which a link was faster than declared: geo.Topology.LeastRTT was above the median of ten
// consecutive round trips. A busy machine cannot shorten a round trip, and the median ignores the few round trips that
// were in flight when a link changed.
type Fast struct {
	// Region is the region of the peers. Single is set if the interval applies only to the link to Peer.
	Region geo.Region
	Peer   geo.NodeID
	Single bool
	// From is the start of the first round trip that was too short. To is the end of the last one. Both are on the clock
	// of Now.
	From, To time.Duration
	// Median is the lowest median in the interval.
	Median time.Duration
}

// watch finds intervals in which a link was too fast.
type watch struct {
	least time.Duration
	ring  [watched]struct{ sent, rtt time.Duration }
	n     int
	short int // number of round trips in the ring that are too short
	now   bool
	spans []Fast
}

// add records a round trip that ended at time at.
func (w *watch) add(at, rtt time.Duration) {
	slot := &w.ring[w.n%watched]
	// The oldest round trip leaves the ring.
	if w.n >= watched && slot.rtt < w.least {
		w.short--
	}
	slot.sent, slot.rtt = at-rtt, rtt
	w.n++
	if rtt < w.least {
		w.short++
	}
	// The median is too short only if more than half of the round trips are.
	if w.n < watched || w.short <= watched/2 {
		w.now = false
		return
	}
	from, to, median := w.fast()
	if !w.now && len(w.spans) < maxFast {
		w.spans = append(w.spans, Fast{From: from, Median: median})
	}
	w.now = true
	last := &w.spans[len(w.spans)-1]
	last.To, last.Median = to, min(last.Median, median)
}

// fast returns the start of the first and the end of the last round trip in the ring that was too short. It also
// returns the median of all round trips in the ring.
func (w *watch) fast() (from, to, median time.Duration) {
	var rtts [watched]time.Duration
	first := true
	for i := range w.ring {
		s := w.ring[(w.n+i)%watched]
		rtts[i] = s.rtt
		if s.rtt >= w.least {
			continue
		}
		if first {
			from, first = s.sent, false
		}
		to = s.sent + s.rtt
	}
	slices.Sort(rtts[:])
	return from, to, rtts[watched/2]
}
