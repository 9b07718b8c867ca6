package raftgroup

import (
	"cmp"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Endings stores the finished transactions of a group with their outcomes. It is part of the group's replicated state.
// An outcome is kept while another node may ask for it. It may be dropped once the coordinator reports that all its
// transactions below a higher number have finished in all their groups.
type Endings[O any] map[source]*endings[O]

// source is an incarnation of a coordinator. Each incarnation numbers its transactions in a separate range, so its
// finished transactions say nothing about the transactions of an earlier incarnation.
type source struct {
	coordinator geo.NodeID
	incarnation uint32
}

// First returns the number of the first transaction of an incarnation of a coordinator.
func First(incarnation uint32) uint64 { return protocol.NumbersBefore(incarnation) + 1 }

func (s source) compare(o source) int {
	return cmp.Or(cmp.Compare(s.coordinator, o.coordinator), cmp.Compare(s.incarnation, o.incarnation))
}

// endings holds the outcomes of the transactions of one source. Outcomes of transactions below done may have been
// dropped.
type endings[O any] struct {
	done   uint64
	recent queue.Queue[ending[O]]
}

// ending is the outcome of a transaction.
type ending[O any] struct {
	number  uint64
	outcome O
}

// of returns the endings of coordinator c's incarnation that assigned the given number.
func (s Endings[O]) of(c geo.NodeID, number uint64) *endings[O] {
	from := source{c, protocol.IncarnationOf(number)}
	e := s[from]
	if e == nil {
		e = &endings[O]{done: protocol.NumbersBefore(from.incarnation)}
		s[from] = e
	}
	return e
}

// Finish records the outcome of a transaction.
func (s Endings[O]) Finish(n Name, o O) {
	s.of(n.Coordinator, n.Number).recent.Push(ending[O]{n.Number, o})
}

// Forget drops the outcomes of a coordinator's transactions below number done, and passes the name of every dropped
// transaction to the function each.
func (s Endings[O]) Forget(c geo.NodeID, done uint64, each func(Name)) {
	e := s.of(c, done)
	e.done = max(e.done, done)
	// Transactions finish in any order, so a number at the front that is still needed may delay the removal of smaller
	// numbers. This only costs memory.
	for e.recent.Len() > 0 && e.recent.Front().number < e.done {
		each(Name{c, e.recent.Front().number})
		e.recent.Pop()
	}
}

// Look returns the outcome of a transaction if it has finished. forgotten reports that the outcome may have been
// dropped. Look searches all outcomes stored for the coordinator; there are few unless one of its transactions takes a
// long time.
func (s Endings[O]) Look(n Name) (o O, over, forgotten bool) {
	e := s.of(n.Coordinator, n.Number)
	e.recent.Each(func(x ending[O]) {
		if x.number == n.Number {
			over, o = true, x.outcome
		}
	})
	return o, over, !over && n.Number < e.done
}

// Len returns the number of stored outcomes.
func (s Endings[O]) Len() (n int) {
	for _, e := range s {
		n += e.recent.Len()
	}
	return n
}

// AppendTo appends the endings. It calls one to append each outcome.
func (s Endings[O]) AppendTo(b []byte, one func([]byte, O) []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(s)))
	// Members of a group must produce identical snapshots, so the order is fixed.
	for _, from := range slices.SortedFunc(maps.Keys(s), source.compare) {
		e := s[from]
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(from.coordinator)), e.done)
		b = codec.AppendUvarint(b, uint64(e.recent.Len()))
		e.recent.Each(func(x ending[O]) { b = one(codec.AppendUvarint(b, x.number), x.outcome) })
	}
	return b
}

// ReadEndings decodes the output of AppendTo. It calls one to decode each outcome, which has at least one byte.
func ReadEndings[O any](r *codec.Reader, one func(*codec.Reader) O) Endings[O] {
	s := Endings[O]{}
	for range r.Count(3) {
		c, done := geo.NodeID(r.UvarintMax(MaxNode)), r.Uvarint()
		e := s.of(c, done)
		e.done = done
		for range r.Count(2) {
			e.recent.Push(ending[O]{r.Uvarint(), one(r)})
		}
	}
	return s
}
