// Package audit looks at the rows of a database that is quiet: it sums up what each node holds of each shard, and judges from
// that whether the workload's invariants hold in every copy and whether the copies are equal.
package audit

import (
	"fmt"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

// Shard sums up the rows of a shard that one node holds. Copies of a shard must agree on all of it.
type Shard struct {
	// Shard is its number in the layout, Everywhere for the rows that every node holds.
	Shard int `json:"shard"`
	// Sums are the workload's, by name.
	Sums map[string]int64 `json:"sums,omitempty"`
	// Digest is of all rows; in a traced run with their versions.
	Digest uint64 `json:"digest,string"`
	Rows   int64  `json:"rows"`
}

// Everywhere is the number that stands for the rows that belong to no shard.
const Everywhere = -1

// All returns all rows of a store.
func All(s store.Store) workload.Rows { return &rows{s: s} }

// Traced returns all rows of a store that carry versions: see history.Trace.
func Traced(s store.Store) workload.Rows { return &rows{s: s, traced: true} }

// rows are those of a shard in a node's store.
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

// Get implements workload.Rows.
func (r *rows) Get(k txn.Key) ([]byte, bool) {
	rec, found := r.s.Get(k)
	if !found {
		return nil, false
	}
	return r.plain(k, rec.Value)
}

// Scan implements workload.Rows.
func (r *rows) Scan(g txn.Range, f func(txn.Key, []byte) bool) {
	left := g.Limit
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

// Of sums up what node n holds. traced says that rows carry versions.
func Of(n geo.NodeID, l *geo.Layout, s store.Store, w workload.Workload, traced bool) []Shard {
	shards := Digests(n, l, s, traced)
	for i := range shards {
		if shards[i].Shard != Everywhere {
			shards[i].Sums = w.Audit(&rows{s, l, shards[i].Shard, traced})
		}
	}
	return shards
}

// Digests is Of without a workload's sums.
func Digests(n geo.NodeID, l *geo.Layout, s store.Store, traced bool) []Shard {
	held := l.ShardsOf(n)
	at := map[int]int{Everywhere: 0}
	shards := []Shard{{Shard: Everywhere}}
	for _, shard := range held {
		at[shard] = len(shards)
		shards = append(shards, Shard{Shard: shard})
	}
	s.Each(func(k txn.Key, rec store.Record) {
		shard := Everywhere
		if !k.Everywhere() {
			shard = l.Shard(k)
		}
		i, ok := at[shard]
		if !ok {
			i = len(shards) // rows that do not belong here: no other copy will agree
			at[shard] = i
			shards = append(shards, Shard{Shard: shard})
		}
		sum := &shards[i]
		sum.Digest += store.DigestRow(k, rec.Value)
		if traced {
			if _, there := history.Plain(k, rec.Value); !there {
				return
			}
		}
		sum.Rows++
	})
	if shards[0].Rows == 0 {
		shards = shards[1:]
	}
	return shards
}

// Audits are those of a database.
type Audits struct {
	// Nodes holds what each node holds, by geo.NodeID.
	Nodes [][]Shard
	// Out says for each node why it is left out, empty when it is not; nil for none.
	Out []string
}

// LeftOut reports whether a node is left out.
func (a *Audits) LeftOut(n geo.NodeID) bool { return a.out(n) != "" }

func (a *Audits) out(n geo.NodeID) string {
	if len(a.Out) == 0 {
		return ""
	}
	return a.Out[n]
}

// of returns node n's part of a shard, or nil.
func (a *Audits) of(n geo.NodeID, shard int) *Shard {
	for i := range a.Nodes[n] {
		if s := &a.Nodes[n][i]; s.Shard == shard {
			return s
		}
	}
	return nil
}

// Invariants checks the workload's invariants on the sums over the shards of each copy and what the clients know, and, in the last
// check, that the copies of each shard are equal.
func Invariants(l *geo.Layout, w workload.Workload, a Audits, ledger workload.Ledger) []workload.Check {
	var copies []map[string]int64
	missing := ""
	for c := range l.Copies() {
		sums, why := a.copySums(l, c)
		if why != "" {
			missing = why
			continue
		}
		copies = append(copies, sums)
	}
	if len(copies) == 0 {
		return []workload.Check{{Name: "invariants", Message: "no copy is complete, so that nothing can be said about the data: " + missing}, Converged(l, a)}
	}
	checks := w.Verify(copies, ledger)
	if left := l.Copies() - len(copies); left > 0 {
		for i := range checks {
			checks[i].Message += fmt.Sprintf(" (%d of %d copies are left out: %s)", left, l.Copies(), missing)
		}
	}
	return append(checks, Converged(l, a))
}

// copySums adds up the sums of a copy's shards. why says what is missing of it.
func (a *Audits) copySums(l *geo.Layout, c int) (sums map[string]int64, why string) {
	sums = map[string]int64{}
	for shard := range l.Shards() {
		n := l.Node(c, shard)
		if out := a.out(n); out != "" {
			return nil, fmt.Sprintf("node %s %s", l.Topology.NodeName(n), out)
		}
		if s := a.of(n, shard); s != nil {
			for name, v := range s.Sums {
				sums[name] += v
			}
		}
	}
	return sums, ""
}

// Converged checks that all copies of a shard hold the same rows.
func Converged(l *geo.Layout, a Audits) workload.Check {
	var copies []history.Copy
	for i, shards := range a.Nodes {
		n := geo.NodeID(i)
		if a.LeftOut(n) {
			continue
		}
		for _, s := range shards {
			name := l.Topology.NodeName(n)
			if len(shards) > 1 && s.Shard != Everywhere {
				name += " for " + l.ShardName(s.Shard)
			}
			copies = append(copies, history.Copy{Name: name, Partition: s.Shard, Digest: s.Digest, Rows: s.Rows, Sums: s.Sums})
		}
	}
	return history.Converged(copies)
}
