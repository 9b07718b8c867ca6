package batchlog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	positionGrows = invariant.New("batchlog.position-grows",
		"the read and known positions of a log never decrease at a node")
	sameOrder = invariant.New("batchlog.same-order",
		"nodes that know a log up to the same position know the same last batch of each sequencer")
	unorderedUp = invariant.New("batchlog.unordered-ascends",
		"a sequencer's batches without a log position ascend and follow its last batch with a position")
)

type positionOf struct{ Log, Position uint64 }

// Check checks the invariants of a node's view of a log.
func (l *Log) Check(c *invariant.Checker) {
	name := fmt.Sprintf("log %d", l.c.Log)
	if l.member != nil {
		l.member.group.Check(c, name)
	}
	known := l.Known()
	c.Grows(positionGrows, name+", read", l.position)
	c.Grows(positionGrows, name+", known", known)
	c.Agree(sameOrder, positionOf{l.c.Log, known}, invariant.Hash(l.settled...))
	last := l.settled[l.c.Self]
	for _, q := range l.unordered {
		c.That(unorderedUp, q.Number > last, "%s: batch %d has no place, and %d has one or is before it", name, q.Number, last)
		last = q.Number
	}
}

var (
	dataAscends = invariant.New("batchlog.data-ascends",
		"a sequencer's batches that wait at a reader ascend, and none of them is void or has been read")
	fetchedPlaced = invariant.New("batchlog.fetched-has-place",
		"data from another reader belongs to a batch that has a log position and has not been read")
	keptCount = invariant.New("batchlog.kept",
		"a reader keeps data that other readers may not have, in log order and within its size limit")
)

// Check checks the invariants of a reader.
func (r *Reader[D]) Check(c *invariant.Checker) {
	name := fmt.Sprintf("log %d", r.l.c.Log)
	for s := range r.inbox {
		least := r.done[s] + 1
		r.inbox[s].Each(func(d D) {
			c.That(dataAscends, d.BatchNumber() >= least, "%s: batch %d of node %d waits, and the next can be %d", name, d.BatchNumber(), s, least)
			least = d.BatchNumber() + 1
		})
	}
	for _, b := range slices.SortedFunc(maps.Keys(r.fetched), BatchID.compare) {
		c.That(fetchedPlaced, b.Number > r.done[b.Sequencer] && b.Number <= r.l.settled[b.Sequencer], "%s: %v is here, %d of its sequencer is read and %d has a place",
			name, b, r.done[b.Sequencer], r.l.settled[b.Sequencer])
	}
	bytes, next := 0, uint64(0)
	r.kept.Each(func(k keptData) {
		_, ok := r.copies[k.batch]
		c.That(keptCount, ok && k.position >= next, "%s: %v at position %d is kept behind %d, and its data: %v", name, k.batch, k.position, next, ok)
		next = k.position + 1
		bytes += k.bytes
	})
	c.That(keptCount, bytes == r.keptNow && bytes <= keptBytes && r.kept.Len() == len(r.copies), "%s: %d bytes of %d batches are kept and %d of %d counted",
		name, bytes, r.kept.Len(), r.keptNow, len(r.copies))
}
