package wire

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// watched is the number of latest round trips of a link that are judged together: one second of a region's probes, see
// probeEvery.
const watched = 10

// maxFast is the maximum number of times that a watch keeps; after that, the last entry is extended.
const maxFast = 100

// Fast is a time in which a link was faster than declared: the median of ten consecutive round trips was below
// geo.Topology.LeastRTT. A busy machine cannot make a round trip shorter than its delays, and the median ignores the
// few round trips in flight when a link changed.
type Fast struct {
	// Region is the region of the nodes that were too near, or of a single node if Single is set.
	Region geo.Region
	Peer   geo.NodeID
	Single bool
	// From and To are the times of the first and the last round trip that was too short, by Now.
	From, To time.Duration
	// Median is the shortest of the medians.
	Median time.Duration
}

// watch finds out when a link was too fast.
type watch struct {
	least time.Duration
	ring  [watched]struct{ sent, rtt time.Duration }
	n     int
	short int // of the ring, too short
	now   bool
	spans []Fast
}

// add takes note of a round trip that ended at an instant.
func (w *watch) add(at, rtt time.Duration) {
	slot := &w.ring[w.n%watched]
	if w.n >= watched && slot.rtt < w.least {
		w.short--
	}
	slot.sent, slot.rtt = at-rtt, rtt
	w.n++
	if rtt < w.least {
		w.short++
	}
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

// fast is from when to when round trips of the ring were too short, and their median, which is too short itself.
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
