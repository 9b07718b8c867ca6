package oceanvista

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// functors are the functors of this node's partition.
type functors struct {
	r *Replica
	// invisible are those above the visibility watermark, the lowest timestamp first.
	invisible invisible
	// recent are, by server, the functors that some replica may lack, in the order of timestamps, evaluated or not. If the
	// server is lost, other replicas receive them from this node.
	recent []queue.Queue[Functor]
	// replicated is, by server, its second watermark: all replicas have all its functors up to there.
	replicated []Timestamp
	kept       int   // in recent
	keptBytes  int64 // of them in a message

	// floor: the rows that this node has received from another node include the effects of all functors up to floor.
	floor Timestamp

	received int64
}

// stored is a functor that waits to become visible.
type stored struct {
	Functor
	arrival int64 // the order in which functors have arrived, for a mistake
}

type invisible []stored

func (h invisible) Len() int           { return len(h) }
func (h invisible) Less(i, j int) bool { return h[i].Timestamp < h[j].Timestamp }
func (h invisible) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *invisible) Push(x any)        { *h = append(*h, x.(stored)) }

func (h *invisible) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = stored{}
	*h = (*h)[:last]
	return f
}

func (s *functors) init(r *Replica, nodes int) {
	s.r = r
	s.recent, s.replicated = make([]queue.Queue[Functor], nodes), make([]Timestamp, nodes)
}

// receive stores another server's functor and says so, unless the server was suspected when it had sent it: its
// watermark may have been taken over.
func (s *functors) receive(from geo.NodeID, m *Write) {
	server := &s.r.membership.servers[from]
	if m.Functor.Server() != from || (server.status != active || server.epoch != m.Epoch) && s.r.wrong != lateSPhase {
		s.r.env.Mark(writeOfSuspect)
		return
	}
	s.enter(m.Functor)
	s.r.env.Send(from, &Stored{m.Timestamp})
}

// enter stores a functor. An abandoned server lacks functors and evaluates nothing any more, or the other partitions of
// its copy would receive wrong reads. It still stores functors for others.
func (s *functors) enter(f Functor) {
	s.received++
	if !s.r.behind && f.Timestamp > s.floor {
		heap.Push(&s.invisible, stored{f, s.received})
	}
	s.recent[f.Server()].Push(f)
	s.kept++
	s.keptBytes += int64(f.size())
}

// collect forgets the functors of a server that all replicas have.
func (s *functors) collect(server geo.NodeID, up Timestamp) {
	s.replicated[server] = max(s.replicated[server], up)
	for q := &s.recent[server]; q.Len() > 0 && q.Front().Timestamp <= up; q.Pop() {
		s.forget(q.Front())
	}
}

// forget counts a functor out of recent.
func (s *functors) forget(f Functor) {
	s.kept--
	s.keptBytes -= int64(f.size())
}

// decided handles the decision about a server's functors beyond the functors that all replicas have. The survivors, in
// the order of their timestamps, were written, and all others were not. None of these others is visible anywhere.
// decided returns the number of them that this node has held.
func (s *functors) decided(server geo.NodeID, beyond Timestamp, survivors []Functor) (dropped int) {
	dropped = len(s.invisible)
	s.invisible = slices.DeleteFunc(s.invisible, func(f stored) bool {
		return f.Server() == server && f.Timestamp > beyond && !survives(survivors, f.Timestamp)
	})
	dropped -= len(s.invisible)
	if dropped > 0 {
		s.r.env.Mark(functorDropped)
	}
	heap.Init(&s.invisible)
	have := map[Timestamp]bool{}
	s.recent[server].Each(func(f Functor) { have[f.Timestamp] = true })
	for _, f := range survivors {
		if !have[f.Timestamp] && f.Timestamp > s.replicated[server] && slices.Contains(s.r.partitionsOf(f.T), s.r.partition) {
			s.r.env.Mark(functorLearned)
			s.enter(f)
		}
		beyond = max(beyond, f.Timestamp)
	}
	// A replica that lacks any of them receives them with the same decision.
	s.collect(server, beyond)
	s.clear(server)
	return dropped
}

// clear forgets all functors of a server.
func (s *functors) clear(server geo.NodeID) {
	for q := &s.recent[server]; q.Len() > 0; q.Pop() {
		s.forget(q.Front())
	}
}

// survives reports whether a sorted list of survivors has a functor with timestamp t.
func survives(survivors []Functor, t Timestamp) bool {
	_, found := slices.BinarySearchFunc(survivors, t, func(f Functor, t Timestamp) int { return cmp.Compare(f.Timestamp, t) })
	return found
}

// evaluate passes the functors up to the visibility watermark to the executor, in the order of timestamps (E-phase). It
// withholds functors after the mark of a new incarnation until this node has taken its rows for that incarnation.
func (s *functors) evaluate(visible Timestamp) {
	if s.r.replace.lacking {
		return
	}
	if s.r.wrong == arrivalOrder {
		s.evaluateOnArrival(visible)
		return
	}
	for more := true; more; more = s.r.replace.passes(visible) {
		upTo := s.r.replace.upTo(visible)
		for len(s.invisible) > 0 && s.invisible[0].Timestamp <= upTo {
			s.run(heap.Pop(&s.invisible).(stored).Functor)
		}
	}
}

func (s *functors) run(f Functor) {
	s.r.executor.Run(deterministic.Place{Position: uint64(f.Timestamp)}, f.T, f.Server())
}

// evaluateOnArrival is evaluate with a mistake.
func (s *functors) evaluateOnArrival(visible Timestamp) {
	var seen []stored
	for len(s.invisible) > 0 && s.invisible[0].Timestamp <= visible {
		seen = append(seen, heap.Pop(&s.invisible).(stored))
	}
	slices.SortFunc(seen, func(a, b stored) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, f := range seen {
		s.run(f.Functor)
	}
}
