package locallog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/base/txn"
)

var (
	parts     = invariant.New("locallog.unanswered", "a node has no more unanswered transactions than it has accepted")
	sameHome  = invariant.New("locallog.same-home", "nodes that know the same move of a row agree on the new home")
	movesGrow = invariant.New("locallog.moves-grow",
		"the known moves of a row never decrease, and a node uses only moves that it has read")
	orderKept = invariant.New("locallog.order-kept",
		"home logs take only entries of a multi-home order that were read, and entries taken by all are discarded")
	goesHome = invariant.New("locallog.goes-home",
		"a transaction is forwarded only to the home of all its rows, and a part to one of its homes")
	cleanCut = invariant.New("locallog.clean-cut",
		"nodes reach a cut at the same log positions, where home logs have taken all earlier multi-home entries")
)

// cutAt identifies a cut.
type cutAt struct{ Place uint64 }

// moveOf identifies a move of a row.
type moveOf struct {
	Row   txn.Key
	Count uint64
}

// Check checks the invariants of a node: its view of each log, its executor's locks, and the homes of rows.
func (n *Node) Check(c *invariant.Checker) {
	for _, l := range n.Logs {
		if l != nil {
			l.Order.Check(c)
			if l.reader != nil {
				l.reader.Check(c)
			}
		}
	}
	for x, o := range n.orders {
		read, end := o.log.Order.Position(), o.first+len(o.entries)
		for h := range o.taken {
			c.That(orderKept, o.upto[h] <= read && o.taken[h] <= end, "the log of region %d has taken order %d up to position %d and entry %d, of %d and %d",
				h, x, o.upto[h], o.taken[h], read, end)
			c.Grows(orderKept, fmt.Sprintf("order %d in the log of region %d", x, h), o.upto[h])
		}
		c.That(orderKept, o.first == slices.Min(o.taken) && o.foreign >= 0 && o.foreign <= len(o.entries), "of order %d entries from %d on are kept, and all have taken those before %d; %d of %d are other nodes'",
			x, o.first, slices.Min(o.taken), o.foreign, len(o.entries))
	}
	if j := n.rejoin; j != nil && len(j.stood) > 0 {
		c.Agree(cleanCut, cutAt{j.last}, invariant.Hash(j.stood...))
		for x, o := range n.orders {
			for h, upto := range o.upto {
				position := j.stood[len(n.Logs)-len(n.orders)+x]
				c.That(cleanCut, upto >= position, "the log of region %d has taken order %d up to %d, and its mark is at %d", h, x, upto, position)
			}
		}
	}
	n.Executor.Check(c)
	c.That(parts, n.unanswered >= 0 && int64(n.unanswered) <= n.transactions, "%d of %d transactions have no answer", n.unanswered, n.transactions)
	if m := n.remasterer; m != nil {
		for _, k := range slices.Sorted(maps.Keys(m.rows)) {
			at := m.rows[k]
			c.Grows(movesGrow, fmt.Sprintf("moves of %v", k), at.count)
			c.Agree(sameHome, moveOf{k, at.count}, at.home)
		}
		for _, k := range slices.Sorted(maps.Keys(m.known)) {
			known := m.known[k]
			c.Agree(sameHome, moveOf{k, known.count}, known.home)
			c.Grows(movesGrow, fmt.Sprintf("known moves of %v", k), known.count)
			c.That(movesGrow, known.count <= m.rows[k].count, "%v is known to have moved %d times, and has been read to have %d times", k, known.count, m.rows[k].count)
		}
	}
	for _, to := range slices.Sorted(maps.Keys(n.outbox)) {
		region := n.Topology.RegionOf(to)
		for i := range n.outbox[to] {
			f := &n.outbox[to][i]
			e := Entry{Txn: f.Txn, Placing: f.Placing}
			homes := n.Homes(&e, nil)
			c.That(goesHome, slices.Contains(homes, region) && (f.Part || len(homes) == 1), "%v goes to region %d, and its homes are %v", f.Txn.ID, region, homes)
		}
	}
}
