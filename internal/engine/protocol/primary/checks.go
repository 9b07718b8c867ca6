package primary

import "github.com/geobench/geobench/internal/base/invariant"

var (
	oneWriterOf = invariant.New("primary.one-writer", "a term has at most one writer")
	appliedUp   = invariant.New("primary.applied-grows",
		"a node's term never decreases, and its applied position never decreases within a term")
	logOrder = invariant.New("primary.log-order",
		"the writer announces only committed positions, and only appended entries are committed or shipped")
	oneBase   = invariant.New("primary.one-base", "all nodes agree on the entry after which the log of a term starts")
	sameEntry = invariant.New("primary.same-entry",
		"copies with the same applied position have applied the same last entry")
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
