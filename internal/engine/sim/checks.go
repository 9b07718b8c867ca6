package sim

import (
	"cmp"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Invariants of the rows in every engine.
var (
	oneValue   = invariant.New("store.one-value", "a version of a row has the same value in every copy")
	notAborted = invariant.New("store.not-aborted",
		"no copy has a row version of a transaction that was reported as aborted")
	neverBack = invariant.New("store.never-back", "a row never returns to an earlier version")
)

// checks is the simulation's state for checking the invariants of its nodes and their rows.
type checks struct {
	*invariant.Checker
	aborted map[txn.ID]bool
	wrote   []map[txn.ID]bool         // by node, the transactions that have written rows at the node
	rows    []map[txn.Key]*checkedRow // by node, the last checked version of each row
}

type checkedRow struct {
	writer   txn.ID
	digest   uint64
	replaced map[txn.ID]bool
}

// version identifies a version of a row.
type version struct {
	key    txn.Key
	writer txn.ID
}

func newChecks(c *Config) *checks {
	k := &checks{Checker: invariant.NewChecker(c.Engine.Name, c.Topology), aborted: map[txn.ID]bool{}}
	for range c.Topology.Nodes() {
		k.wrote = append(k.wrote, map[txn.ID]bool{})
		k.rows = append(k.rows, map[txn.Key]*checkedRow{})
	}
	return k
}

// Broken returns the first invariant that was violated, or nil. It needs Config.Check.
func (s *Sim) Broken() *invariant.Broken {
	if s.checks == nil {
		return nil
	}
	return s.checks.Broken()
}

// check checks a node after a step. It checks the rows only if the step has accessed the store.
func (k *checks) check(n *node, touched bool) {
	// Later violations usually follow from the first, so only the first is reported.
	if k.Broken() != nil {
		return
	}
	k.At(geo.NodeID(n.id), n.s.now)
	if touched {
		k.checkRows(n)
	}
	if c, ok := n.replica.(protocol.Checked); ok {
		c.Check(k.Checker)
	}
}

// checkRows checks the rows that have changed. It reports the violation with the smallest key.
func (k *checks) checkRows(n *node) {
	rows := k.rows[n.id]
	type row struct {
		key    txn.Key
		writer txn.ID
		digest uint64
	}
	var changed []row
	n.store.Each(func(key txn.Key, r store.Record) {
		now := row{key, r.Writer, store.DigestRow(key, r.Value)}
		if old := rows[key]; old == nil || old.writer != now.writer || old.digest != now.digest {
			changed = append(changed, now)
		}
	})
	// Sort, because the store's order is random, and the first violation must be the same in every run.
	slices.SortFunc(changed, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	for _, r := range changed {
		key, old := r.key, rows[r.key]
		if old == nil {
			old = &checkedRow{replaced: map[txn.ID]bool{}}
			rows[key] = old
		} else if old.writer != r.writer {
			old.replaced[old.writer] = true
		}
		old.writer, old.digest = r.writer, r.digest
		// Loaded rows have no writer.
		if r.writer == 0 {
			continue
		}
		k.wrote[n.id][r.writer] = true
		k.That(notAborted, !k.aborted[r.writer], "%v has the version of %v", key, r.writer)
		k.That(neverBack, !old.replaced[r.writer], "%v has the version of %v again", key, r.writer)
		k.Agree(oneValue, version{key, r.writer}, r.digest)
	}
}

// answered records an abort that leaves a node, and checks that no copy has a version of the aborted transaction.
func (k *checks) answered(n *node, o *txn.Outcome) {
	if o.Status != txn.Aborted || k.Broken() != nil {
		return
	}
	k.At(geo.NodeID(n.id), n.s.now)
	k.aborted[o.ID] = true
	// The version may be written before or after the answer. If it is written afterwards, checkRows detects it.
	wrote := slices.ContainsFunc(k.wrote, func(w map[txn.ID]bool) bool { return w[o.ID] })
	k.That(notAborted, !wrote, "%v is answered as aborted (%s), and a copy has its version of a row", o.ID, o.Reason)
}

// crashed discards the record of the node's writes, because its disk may lose these writes. The remaining rows are
// checked when the node restarts.
func (k *checks) crashed(n *node) { k.wrote[n.id] = map[txn.ID]bool{} }

// restarted discards all records of the node, which may have lost state, and checks its current rows.
func (k *checks) restarted(n *node) {
	k.Forget(geo.NodeID(n.id))
	k.rows[n.id] = map[txn.Key]*checkedRow{}
	if k.Broken() == nil {
		k.At(geo.NodeID(n.id), n.s.now)
		k.checkRows(n)
	}
}

// Checked reports whether a node's replica implements protocol.Checked.
func (s *Sim) Checked(id geo.NodeID) bool {
	_, ok := s.nodes[id].replica.(protocol.Checked)
	return ok
}
