// Package audit inspects the rows of a quiescent database. It computes sums over the rows of each shard on each node.
// From these sums it decides whether the workload's invariants hold in every copy, and whether the copies are equal.
package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/workload"
)

// All returns all rows of a store.
func All(s store.Store) workload.Rows { return &rows{s: s} }

// Traced returns all rows of a store whose values carry versions: see history.Trace.
func Traced(s store.Store) workload.Rows { return &rows{s: s, traced: true} }

// rows is a view of the rows of one shard, or of all rows, in a node's store.
type rows struct {
	s      store.Store
	layout *geo.Layout // nil for all rows
	shard  int
	traced bool
}

func (r *rows) mine(k txn.Key) bool {
	return r.layout == nil || !k.Everywhere() && r.layout.Shard(k) == r.shard
}

func (r *rows) plain(k txn.Key, stored []byte) ([]byte, bool) {
	if !r.traced {
		return stored, true
	}
	return history.Plain(k, stored)
}

// Each implements workload.Rows.
func (r *rows) Each(f func(txn.Key, []byte)) {
	r.s.Each(func(k txn.Key, rec store.Record) {
		if !r.mine(k) {
			return
		}
		if v, there := r.plain(k, rec.Value); there {
			f(k, v)
		}
	})
}

// Scan implements workload.Rows.
func (r *rows) Scan(g txn.Range, f func(txn.Key, []byte) bool) {
	left := g.Limit
	// Deleted rows of a traced store must not count towards the limit.
	g.Limit = 0
	r.s.Scan(g, func(k txn.Key, rec store.Record) bool {
		v, there := r.plain(k, rec.Value)
		if !there {
			return true
		}
		left--
		return f(k, v) && left != 0
	})
}

// Of returns the sums over the rows of each shard on node n. traced is set if values carry versions.
func Of(n geo.NodeID, l *geo.Layout, s store.Store, w workload.Workload, traced bool) []store.ShardSums {
	shards := Digests(n, l, s, traced)
	for i := range shards {
		// Rows that every node stores are never written, so the workload has no sums over them.
		if shards[i].Shard != store.Everywhere {
			shards[i].Sums = w.Audit(&rows{s, l, shards[i].Shard, traced})
		}
	}
	return shards
}

// Digests returns the same as Of without the sums of the workload.
func Digests(n geo.NodeID, l *geo.Layout, s store.Store, traced bool) []store.ShardSums {
	held := l.ShardsOf(n)
	// The first entry is for rows that every node stores, even if there are none.
	at := map[int]int{store.Everywhere: 0}
	shards := []store.ShardSums{{Shard: store.Everywhere}}
	for _, shard := range held {
		at[shard] = len(shards)
		shards = append(shards, store.ShardSums{Shard: shard})
	}
	s.Each(func(k txn.Key, rec store.Record) {
		shard := store.Everywhere
		if !k.Everywhere() {
			shard = l.Shard(k)
		}
		i, ok := at[shard]
		if !ok {
			i = len(shards) // rows that do not belong here: no copy will match them
			at[shard] = i
			shards = append(shards, store.ShardSums{Shard: shard})
		}
		sum := &shards[i]
		// A sum of row digests does not depend on the order in which a store yields its rows.
		sum.Digest += store.DigestRow(k, rec.Value)
		// The digest includes the stamps of deleted rows, so copies must agree on deletions, too.
		if traced {
			if _, there := history.Plain(k, rec.Value); !there {
				return
			}
		}
		sum.Rows++
	})
	return shards
}

// Audits holds the audits of all nodes of a database.
type Audits struct {
	// Nodes holds the sums of each node, by geo.NodeID.
	Nodes [][]store.ShardSums
	// Out holds, for each node, the reason why it is omitted; empty if the node is included. nil includes all nodes.
	Out []string
}

// Complete returns an error if a shard is missing on a node on which the layout places it. Omitted nodes are ignored.
func (a *Audits) Complete(l *geo.Layout) error {
	for shard := range l.Shards() {
		for _, n := range l.Group(shard).Members {
			if !a.LeftOut(n) && (int(n) >= len(a.Nodes) || a.of(n, shard) == nil) {
				return fmt.Errorf("the audit tells nothing of shard %d on node %d of %d, where the layout has it", shard, n, len(a.Nodes))
			}
		}
	}
	return nil
}

// LeftOut reports whether a node is omitted.
func (a *Audits) LeftOut(n geo.NodeID) bool { return a.out(n) != "" }

func (a *Audits) out(n geo.NodeID) string {
	if len(a.Out) == 0 {
		return ""
	}
	return a.Out[n]
}

// of returns node n's sums of a shard, or nil.
func (a *Audits) of(n geo.NodeID, shard int) *store.ShardSums {
	for i := range a.Nodes[n] {
		if s := &a.Nodes[n][i]; s.Shard == shard {
			return s
		}
	}
	return nil
}

// Unaudited returns why a check that spec.verify requests has no rows to check, or an empty string. Invariants need a
// copy without omitted nodes, and convergence needs at least one node. A node that a fault killed proves nothing about
// the database's answers.
func (a *Audits) Unaudited(l *geo.Layout, verify []v1alpha1.Verification) string {
	copies, _, missing := a.copies(l)
	switch {
	case len(copies) > 0:
		return ""
	case slices.Contains(verify, v1alpha1.VerifyInvariants):
		return "no copy is complete, so that nothing can be said about the data: " + missing
	case slices.Contains(verify, v1alpha1.VerifyConvergence) && !a.any():
		return "no node is left, so that nothing can be said about the data: " + missing
	}
	return ""
}

// any reports whether any node was audited.
func (a *Audits) any() bool {
	for n := range a.Nodes {
		if !a.LeftOut(geo.NodeID(n)) {
			return true
		}
	}
	return false
}

// Verify runs the checks of spec.verify on the rows: invariants and convergence. For a replicated database, a request
// for invariants includes convergence. A check without rows is omitted: see Unaudited.
func Verify(l *geo.Layout, w workload.Workload, a Audits, ledger workload.Ledger, verify []v1alpha1.Verification) (checks []workload.Check) {
	wanted := slices.Contains(verify, v1alpha1.VerifyInvariants)
	if wanted {
		checks = invariants(l, w, a, ledger)
	}
	if (wanted && l.Replicated() || slices.Contains(verify, v1alpha1.VerifyConvergence)) && a.any() {
		checks = append(checks, Converged(l, a))
	}
	return checks
}

// invariants checks the workload's invariants on the sums of each copy and the ledger of the clients. It adds a failed
// check if a node lacks rows that every node must store.
func invariants(l *geo.Layout, w workload.Workload, a Audits, ledger workload.Ledger) []workload.Check {
	copies, all, missing := a.copies(l)
	var checks []workload.Check
	if len(copies) > 0 {
		checks = w.Verify(copies, ledger)
	}
	if left := all - len(copies); left > 0 {
		for i := range checks {
			checks[i].Message += fmt.Sprintf(" (%d of %d copies are left out: %s)", left, all, missing)
		}
	}
	if wrong := a.everywhere(l, w); wrong != "" {
		checks = append(checks, workload.Check{Name: "everywhere", Message: wrong})
	}
	return checks
}

// place identifies the nodes of one copy of the data, one node per shard, by region and replica number.
type place struct {
	region  geo.Region
	replica int
}

func placeOf(l *geo.Layout, n geo.NodeID) place {
	return place{l.Topology.RegionOf(n), l.Topology.ReplicaOf(n)}
}

// nodes returns the nodes of the place, one per shard; nil if the place lacks a shard.
func (p place) nodes(l *geo.Layout) (nodes []geo.NodeID) {
	for shard := range l.Shards() {
		members := l.Group(shard).Members
		i := slices.IndexFunc(members, func(n geo.NodeID) bool { return placeOf(l, n) == p })
		if i < 0 {
			return nil
		}
		nodes = append(nodes, members[i])
	}
	return nodes
}

func (p place) name(l *geo.Layout) string {
	name := l.Topology.Regions[p.region]
	if l.Topology.Replicas > 1 {
		name += fmt.Sprintf(" (replica %d)", p.replica)
	}
	return name
}

// copies returns the sums of the complete copies, the number of all copies, and the reason why a copy is incomplete.
// The nodes in a place form a copy. If no place has all shards, copies are formed from any members of the shards.
func (a *Audits) copies(l *geo.Layout) (complete []workload.Copy, all int, missing string) {
	for region := range l.Topology.Regions {
		for replica := range l.Topology.Replicas {
			p := place{geo.Region(region), replica}
			nodes := p.nodes(l)
			if nodes == nil {
				continue
			}
			all++
			if out := a.lost(l, nodes...); out != "" {
				missing = out
				continue
			}
			complete = append(complete, a.sum(p.name(l), nodes))
		}
	}
	if all > 0 {
		return complete, all, missing
	}
	all = l.Copies()
	living, n := make([][]geo.NodeID, l.Shards()), all
	for shard := range living {
		for _, m := range l.Group(shard).Members {
			if out := a.lost(l, m); out != "" {
				missing = out
				continue
			}
			living[shard] = append(living[shard], m)
		}
		// A copy needs a member of every shard, so the shard with the fewest members limits the number of copies.
		n = min(n, len(living[shard]))
	}
	for c := range n {
		var members []geo.NodeID
		for shard := range living {
			members = append(members, living[shard][c])
		}
		complete = append(complete, a.sum(fmt.Sprintf("copy %d", c+1), members))
	}
	return complete, all, missing
}

// lost describes the first omitted node among the given nodes, with the reason; empty if none is omitted.
func (a *Audits) lost(l *geo.Layout, nodes ...geo.NodeID) string {
	for _, n := range nodes {
		if out := a.out(n); out != "" {
			return fmt.Sprintf("node %s %s", l.Topology.NodeName(n), out)
		}
	}
	return ""
}

// sum returns the sums over all nodes of a copy, one per shard.
func (a *Audits) sum(name string, nodes []geo.NodeID) workload.Copy {
	c := workload.Copy{Name: name, Sums: map[string]int64{}}
	for shard, n := range nodes {
		if s := a.of(n, shard); s != nil {
			for name, v := range s.Sums {
				c.Sums[name] += v
			}
		}
	}
	return c
}

// everywhere describes the nodes with a wrong number of the rows that every node stores; empty if there are none. These
// rows are never written, and the other sums exclude them.
func (a *Audits) everywhere(l *geo.Layout, w workload.Workload) string {
	loaded := int64(0)
	w.Everywhere(func(txn.Key, []byte) { loaded++ })
	var wrong []string
	for i := range a.Nodes {
		n := geo.NodeID(i)
		held := int64(0)
		if s := a.of(n, store.Everywhere); s != nil {
			held = s.Rows
		}
		if held != loaded && !a.LeftOut(n) {
			wrong = append(wrong, fmt.Sprintf("%s holds %d of the %d rows that every node holds", l.Topology.NodeName(n), held, loaded))
		}
	}
	return strings.Join(wrong, "; ")
}

// Converged checks that all copies of each shard have the same rows.
func Converged(l *geo.Layout, a Audits) workload.Check {
	var copies []history.Copy
	everywhere := slices.ContainsFunc(a.Nodes, func(shards []store.ShardSums) bool {
		return slices.ContainsFunc(shards, func(s store.ShardSums) bool { return s.Shard == store.Everywhere && s.Rows > 0 })
	})
	for i, shards := range a.Nodes {
		n := geo.NodeID(i)
		if a.LeftOut(n) {
			continue
		}
		for _, s := range shards {
			if s.Shard == store.Everywhere && !everywhere {
				continue
			}
			name := l.Topology.NodeName(n)
			if s.Shard != store.Everywhere && len(shards) > 2 { // the first shard holds the rows that every node stores
				name += " for " + l.ShardName(s.Shard)
			}
			copies = append(copies, history.Copy{Name: name, Partition: s.Shard, Digest: s.Digest, Rows: s.Rows, Sums: s.Sums})
		}
	}
	return history.Converged(copies)
}
