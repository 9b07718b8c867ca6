package batchlog

import (
	"fmt"

	"github.com/geobench/geobench/internal/invariant"
)

var (
	positionGrows = invariant.New("batchlog.position-grows", "what a node has read of a log, and what it knows of it, never goes back")
	sameOrder     = invariant.New("batchlog.same-order", "all who know a log up to a position know the same last batch of each sequencer there")
	unorderedUp   = invariant.New("batchlog.unordered-ascends", "a sequencer's batches without a place ascend, and none of them has one")
)

type positionOf struct{ Log, Position uint64 }

// Check says what holds of a node's view of a log.
func (l *Log) Check(c *invariant.Checker) {
	name := fmt.Sprintf("log %d", l.c.Log)
	if l.member != nil {
		l.member.group.Check(c, name)
	}
	known := l.position + uint64(l.entries.Len())
	c.Grows(positionGrows, name+", read", l.position)
	c.Grows(positionGrows, name+", known", known)
	c.Agree(sameOrder, positionOf{l.c.Log, known}, invariant.Hash(l.settled...))
	last := l.settled[l.c.Self]
	for _, q := range l.unordered {
		c.That(unorderedUp, q.Number > last, "%s: batch %d has no place, and %d has one or is before it", name, q.Number, last)
		last = q.Number
	}
}
