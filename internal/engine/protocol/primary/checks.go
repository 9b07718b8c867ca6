package primary

import "github.com/geobench/geobench/internal/base/invariant"

var (
	oneWriterOf = invariant.New("primary.one-writer", "a term has one writer")
	appliedUp   = invariant.New("primary.applied-grows", "the terms that a node knows never go back, and within one neither does what it has applied")
	logOrder    = invariant.New("primary.log-order", "what the storage is told to be committed is committed, and what is committed was sent")
	oneBase     = invariant.New("primary.one-base", "a term's log begins behind one entry")
	sameEntry   = invariant.New("primary.same-entry", "copies that have applied as many entries have applied the same last one")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	l, w := &r.log, &r.writer
	c.Agree(oneWriterOf, l.term, l.writer)
	c.Grows(appliedUp, "the term", l.term)
	c.Grows(appliedUp, termOf{l.term}, l.applied)
	if news := r.failover.news; news != nil {
		c.Agree(oneBase, termOf{news.Term}, news.Base)
	}
	if !r.writes() && l.last.Number > 0 {
		c.Agree(sameEntry, l.applied, l.last)
	}
	if l.writer == r.self {
		c.That(logOrder, w.told <= w.committed && w.committed <= l.applied && w.shipped <= l.applied,
			"%d told, %d committed, %d shipped, %d applied", w.told, w.committed, w.shipped, l.applied)
	}
}

type termOf struct{ Term uint64 }
