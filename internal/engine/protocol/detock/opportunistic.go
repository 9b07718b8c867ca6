package detock

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Opportunistic ordering is described by Nguyen (2023, section 4.4). A multi-home transaction carries its expected
// arrival time at its most distant home, and each home holds it until then. If all transactions arrive in time, all
// logs contain them in the order of these times, and no deadlock occurs. A transaction is late if a latency has grown
// or clocks drift. A late transaction can only cause a deadlock, which is resolved.

const (
	// timestampBuffer is added to the largest latency, for jitter and the forwarder's batch.
	timestampBuffer = 2 * time.Millisecond
	// probeEvery is the interval between a node's probes, and window is the number of samples that are averaged.
	probeEvery = 200 * time.Millisecond
	window     = 10
)

// latencies are the one-way latencies from this node to the first nodes of the other regions. A sample is the remote
// clock at the probe's arrival minus the local clock at its sending. A home whose clock is ahead by d makes the sample
// too large by d, and inserts too early by the same time. The errors cancel out.
type latencies struct {
	r       *Replica
	samples [][]time.Duration // by region, the latest samples
	next    []int             // by region, the sample to be replaced next
}

func (l *latencies) init(r *Replica) {
	l.r = r
	l.samples = make([][]time.Duration, len(r.Topology.Regions))
	l.next = make([]int, len(r.Topology.Regions))
}

// probe sends a probe to every other region and schedules the next probes.
func (l *latencies) probe() {
	r := l.r
	// With a single region there is no other home to measure.
	if len(l.samples) == 1 {
		return
	}
	m := &Probe{Sent: r.Env.Now()}
	for region := range l.samples {
		if region := geo.Region(region); region != r.Region {
			r.Env.Send(locallog.First(r.Topology, region), m)
		}
	}
	r.Env.After(probeEvery, protocol.Timer{Kind: probeTimer})
}

// measured records the sample in the answer to a probe.
func (l *latencies) measured(region geo.Region, oneWay time.Duration) {
	// Keep a negative sample: clocks may differ by more than the latency, and the sign cancels the home's clock error.
	if oneWay < 0 {
		l.r.Env.Mark(negativeLatency)
	}
	if len(l.samples[region]) < window {
		l.samples[region] = append(l.samples[region], oneWay)
		return
	}
	l.r.Env.Mark(windowFull)
	l.samples[region][l.next[region]] = oneWay
	l.next[region] = (l.next[region] + 1) % window
}

// average returns the mean of a region's latest samples, or 0 if there are none.
func (l *latencies) average(region geo.Region) time.Duration {
	var sum time.Duration
	for _, d := range l.samples[region] {
		sum += d
	}
	return sum / time.Duration(max(1, len(l.samples[region])))
}

// largest returns the largest average latency to the given regions.
func (l *latencies) largest(regions []geo.Region) (d time.Duration) {
	for i, region := range regions {
		// All latencies may be negative, so the first region initializes the maximum.
		if a := l.average(region); i == 0 || a > d {
			d = a
		}
	}
	return d
}

// inserter holds the region's parts of multi-home transactions until their time, and then adds them to the local log.
// Only the inserter of the region's first node is used.
type inserter struct {
	r *Replica
	// held is a heap of the parts that wait for their time. Ids break ties, so that all homes use the same order.
	held []heldPart
	// armed is the time of the earliest running timer; it is valid if waiting is set.
	armed   time.Duration
	waiting bool
	late    int64
}

type heldPart struct {
	locallog.Forwarded
	coordinator geo.NodeID
}

func (p *heldPart) less(q *heldPart) bool {
	return p.NotBefore < q.NotBefore || p.NotBefore == q.NotBefore && p.Txn.ID < q.Txn.ID
}

// arrive adds a part to the log if its time has passed, and holds it otherwise.
func (s *inserter) arrive(coordinator geo.NodeID, f locallog.Forwarded) {
	now := s.r.Env.Now()
	if f.NotBefore <= now {
		// Opportunistic ordering is off, or the estimated time was not positive.
		if f.NotBefore == 0 {
			s.r.Env.Mark(unorderedPart)
		}
		// A part that arrives exactly at its time is not late.
		if f.NotBefore > 0 && f.NotBefore < now {
			s.late++
			s.r.Env.Mark(partLate)
		}
		// A late part is not refused: the logs may then differ in order, which deadlock resolution handles.
		s.r.AddPart(f.Txn, coordinator, f.Placing, f.NotBefore)
		return
	}
	s.r.Env.Mark(partHeld)
	s.push(heldPart{f, coordinator})
	s.arm()
}

// push puts a part into the heap.
func (s *inserter) push(p heldPart) {
	s.held = append(s.held, p)
	i := len(s.held) - 1
	for i > 0 && p.less(&s.held[(i-1)/2]) {
		s.held[i] = s.held[(i-1)/2]
		i = (i - 1) / 2
	}
	s.held[i] = p
}

// pop removes the first part from the heap. The heap must not be empty.
func (s *inserter) pop() heldPart {
	first, n := s.held[0], len(s.held)-1
	p := s.held[n]
	// The slot is reused only later; until then it must not keep the transaction alive.
	s.held[n] = heldPart{}
	s.held = s.held[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && s.held[child+1].less(&s.held[child]) {
			child++
		}
		if !s.held[child].less(&p) {
			break
		}
		s.held[i] = s.held[child]
		i = child
	}
	s.held[i] = p
	return first
}

// arm sets a timer for the first held part, unless a timer that fires no later is running.
func (s *inserter) arm() {
	if len(s.held) == 0 {
		return
	}
	if at := s.held[0].NotBefore; !s.waiting || at < s.armed {
		if s.waiting {
			s.r.Env.Mark(earlierTimer)
		}
		s.waiting, s.armed = true, at
		s.r.Env.After(at-s.r.Env.Now(), protocol.Timer{Kind: insertTimer, Arg: uint64(at)})
	}
}

// expire moves the held parts whose time has passed to the log. armed is the time for which the timer was set. If the
// clock was set back in the meantime, the timer fires too early according to the clock, and arm sets another timer.
func (s *inserter) expire(armed time.Duration) {
	now := s.r.Env.Now()
	if len(s.held) == 0 || s.held[0].NotBefore > now {
		s.r.Env.Mark(timerEarly)
	}
	// Parts with equal times leave in the order of their ids, as at every other home.
	for len(s.held) > 0 && s.held[0].NotBefore <= now {
		p := s.pop()
		s.r.AddPart(p.Txn, p.coordinator, p.Placing, p.NotBefore)
	}
	// Timers cannot be cancelled. A superseded timer fires as well, and must not clear the state of the timer that is
	// still running.
	if s.waiting && (s.armed == armed || s.armed <= now) {
		s.waiting = false
	}
	s.arm()
}
