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

// Endings are the transactions that have ended in a group, and how: a part of the state that its log makes. They are
// remembered for as long as somebody may ask for them: until the coordinator says that all its transactions below a
// number have ended in all their groups.
type Endings[O any] map[source]*endings[O]

// source is an incarnation of a coordinator. Finished transactions of a later incarnation say nothing about unfinished
// ones of an earlier incarnation.
type source struct {
	coordinator geo.NodeID
	incarnation uint32
}

// First is the number of the first transaction that an incarnation of a coordinator names.
func First(incarnation uint32) uint64 { return protocol.NumbersBefore(incarnation) + 1 }

func (s source) compare(o source) int {
	return cmp.Or(cmp.Compare(s.coordinator, o.coordinator), cmp.Compare(s.incarnation, o.incarnation))
}

// endings holds the outcomes of a source's transactions.
type endings[O any] struct {
	done   uint64
	recent queue.Queue[ending[O]]
}

// ending is the outcome of a transaction.
type ending[O any] struct {
	number  uint64
	outcome O
}

// of returns the endings of the coordinator's incarnation to which number belongs.
func (s Endings[O]) of(c geo.NodeID, number uint64) *endings[O] {
	from := source{c, protocol.IncarnationOf(number)}
	e := s[from]
	if e == nil {
		e = &endings[O]{done: protocol.NumbersBefore(from.incarnation)}
		s[from] = e
	}
	return e
}

// Finish notes how a transaction ended.
func (s Endings[O]) Finish(n Name, o O) {
	s.of(n.Coordinator, n.Number).recent.Push(ending[O]{n.Number, o})
}

// Forget forgets a coordinator's transactions below a number, and calls each for them.
func (s Endings[O]) Forget(c geo.NodeID, done uint64, each func(Name)) {
	e := s.of(c, done)
	e.done = max(e.done, done)
	for e.recent.Len() > 0 && e.recent.Front().number < e.done {
		each(Name{c, e.recent.Front().number})
		e.recent.Pop()
	}
}

// Look returns the outcome of a transaction if it has finished, or reports that its outcome may have been forgotten. It
// searches all endings stored for the coordinator, which are few unless one of its transactions takes long.
func (s Endings[O]) Look(n Name) (o O, over, forgotten bool) {
	e := s.of(n.Coordinator, n.Number)
	e.recent.Each(func(x ending[O]) {
		if x.number == n.Number {
			over, o = true, x.outcome
		}
	})
	return o, over, !over && n.Number < e.done
}

// Len is the number of transactions that are remembered.
func (s Endings[O]) Len() (n int) {
	for _, e := range s {
		n += e.recent.Len()
	}
	return n
}

// AppendTo appends the endings; one appends a single outcome.
func (s Endings[O]) AppendTo(b []byte, one func([]byte, O) []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(s)))
	for _, from := range slices.SortedFunc(maps.Keys(s), source.compare) {
		e := s[from]
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(from.coordinator)), e.done)
		b = codec.AppendUvarint(b, uint64(e.recent.Len()))
		e.recent.Each(func(x ending[O]) { b = one(codec.AppendUvarint(b, x.number), x.outcome) })
	}
	return b
}

// ReadEndings reads the output of AppendTo; one reads an outcome of at least one byte.
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
