package oceanvista

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// functors holds the functors that access this node's partition.
type functors struct {
	r *Replica
	// invisible is a heap of the functors above the visibility watermark; the lowest timestamp is on top.
	invisible invisible
	// recent holds the functors that some replica may lack, by server and in timestamp order, whether evaluated or not. If
	// a server is lost, this node reports the server's functors.
	recent []queue.Queue[Functor]
	// replicated is the second watermark of each server: all replicas have all functors of the server up to it.
	replicated []Timestamp
	kept       int   // number of functors in recent
	keptBytes  int64 // their encoded size in bytes

	// floor is set once this node has restarted with rows of a donor: these rows include the effects of all functors up to
	// floor.
	floor Timestamp

	received int64
}

// stored is a functor that waits to become visible.
type stored struct {
	Functor
	arrival int64 // arrival number; used only by a faulty variant
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

// receive stores another server's functor and acknowledges it. It rejects functors of a server that is not active, or
// that was closed after it sent the functor. The decision about the server may already be based on this node's report.
func (s *functors) receive(from geo.NodeID, m *Write) {
	server := &s.r.membership.servers[from]
	if m.Functor.Server() != from || (server.status != active || server.epoch != m.Epoch) && s.r.wrong != lateSPhase {
		s.r.env.Mark(writeOfSuspect)
		return
	}
	s.enter(m.Functor)
	s.r.env.Send(from, &Stored{m.Timestamp})
}

// enter stores a functor. An abandoned server no longer evaluates functors: it lacks some of them, and would send wrong
// reads to the other partitions of its copy. It still stores functors, because other replicas may need them.
func (s *functors) enter(f Functor) {
	s.received++
	// The rows from the donor already include functors up to floor.
	if !s.r.behind && f.Timestamp > s.floor {
		heap.Push(&s.invisible, stored{f, s.received})
	}
	s.recent[f.Server()].Push(f)
	s.kept++
	s.keptBytes += int64(f.size())
}

// collect discards the functors of a server up to a timestamp that all replicas have reached.
func (s *functors) collect(server geo.NodeID, up Timestamp) {
	s.replicated[server] = max(s.replicated[server], up)
	// Functors of a server arrive in timestamp order, so collect discards a prefix.
	for q := &s.recent[server]; q.Len() > 0 && q.Front().Timestamp <= up; q.Pop() {
		s.forget(q.Front())
	}
}

// forget subtracts a functor that was removed from recent from the counts.
func (s *functors) forget(f Functor) {
	s.kept--
	s.keptBytes -= int64(f.size())
}

// decided applies the decision about a server's functors after beyond; all replicas have the functors up to beyond. The
// survivors, which are in timestamp order, count as written. All other functors count as never written, and none of
// these is visible anywhere. decided returns the number of invisible functors that it has dropped.
func (s *functors) decided(server geo.NodeID, beyond Timestamp, survivors []Functor) (dropped int) {
	dropped = len(s.invisible)
	s.invisible = slices.DeleteFunc(s.invisible, func(f stored) bool {
		// The decision does not affect functors of other servers, nor functors that all replicas have.
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
		// This node has stored and collected the survivors up to replicated before. If it entered them again, it would
		// evaluate them twice.
		if !have[f.Timestamp] && f.Timestamp > s.replicated[server] && slices.Contains(s.r.partitionsOf(f.T), s.r.partition) {
			s.r.env.Mark(functorLearned)
			s.enter(f)
		}
		beyond = max(beyond, f.Timestamp)
	}
	// A replica that lacks survivors receives them with the same decision, so no replica needs them from this node.
	s.collect(server, beyond)
	s.clear(server)
	return dropped
}

// clear discards the recent functors of a server.
func (s *functors) clear(server geo.NodeID) {
	for q := &s.recent[server]; q.Len() > 0; q.Pop() {
		s.forget(q.Front())
	}
}

// survives reports whether survivors, sorted by timestamp, contain timestamp t.
func survives(survivors []Functor, t Timestamp) bool {
	_, found := slices.BinarySearchFunc(survivors, t, func(f Functor, t Timestamp) int { return cmp.Compare(f.Timestamp, t) })
	return found
}

// evaluate passes the functors up to the visibility watermark to the executor, in timestamp order (E-phase). If this
// node is a donor, it stops at the mark of the new incarnation until it has copied its rows.
func (s *functors) evaluate(visible Timestamp) {
	// Without the donor's rows, this node would evaluate the functors on an incomplete state.
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

// evaluateOnArrival evaluates visible functors in arrival order, for a faulty variant.
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
