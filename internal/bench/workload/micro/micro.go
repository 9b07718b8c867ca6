// Package micro is the microbenchmark of SDUR (Sciascia and Pedone, "Geo-Replicated Storage with Scalable Deferred
// Update Replication", section VI.A). Each transaction reads and updates two items of 4 bytes, either in one partition
// (local) or in two (global). An item counts its updates, which reveals lost and repeated updates after the run.
//
// A partition in the paper is a group of servers that store the same rows. It corresponds to a cell here: a partition
// number of a home region.
package micro

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// The transaction types, in the order of Types.
const (
	typeLocal = iota
	typeGlobal
)

var typeNames = []string{"local", "global"}

// Names in ledgers and audits.
const (
	ledgerUpdates = "micro-updates"
	auditUpdates  = "updates"
	auditItems    = "items"
)

// Micro is the workload bound to a topology. It implements workload.Workload.
type Micro struct {
	spec     v1alpha1.Micro
	seed     uint64
	topology *geo.Topology
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.Micro, seed uint64, t *geo.Topology) (*Micro, error) {
	const field = "spec.workload.micro."
	if spec.ItemsPerPartition < 2 || spec.ItemsPerPartition > 1_000_000_000 {
		return nil, fmt.Errorf(field+"itemsPerPartition: %d is not between 2 and 1000000000", spec.ItemsPerPartition)
	}
	if err := workload.CheckGlobal(field+"globalPercent", spec.GlobalPercent, t); err != nil {
		return nil, err
	}
	return &Micro{spec, seed, t}, nil
}

// Name implements workload.Workload.
func (w *Micro) Name() string { return "micro" }

// Types implements workload.Workload.
func (w *Micro) Types() []string { return typeNames }

// TypesOf returns the names of the transaction types.
func TypesOf(*v1alpha1.Micro) []string { return typeNames }

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.Micro, transaction string) string {
	switch {
	case transaction == typeNames[typeGlobal] && spec.GlobalPercent == 0, transaction == typeNames[typeLocal] && spec.GlobalPercent == 100:
		return fmt.Sprintf("spec.workload.micro.globalPercent is %d", spec.GlobalPercent)
	}
	return ""
}

// Shares returns the share of global transactions.
func (w *Micro) Shares() []workload.Share {
	return []workload.Share{workload.Percent("global", "transactions", w.spec.GlobalPercent)}
}

// Rows implements workload.Workload. Loaded items have an update count of 0.
func (w *Micro) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	p := w.topology.Placement()
	for n := range uint64(w.spec.ItemsPerPartition) {
		put(txn.IntKey(table, p.ShardNumber(c, n)), make([]byte, itemSize))
	}
}

// Size implements workload.Sized.
func (w *Micro) Size() workload.Size {
	n := w.spec.ItemsPerPartition * int64(w.topology.Placement().Cells())
	return workload.Size{Field: "itemsPerPartition", Value: w.spec.ItemsPerPartition, Rows: n, Bytes: n * (keySize + itemSize)}
}

// Everywhere implements workload.Workload. It loads nothing: each row belongs to a cell.
func (w *Micro) Everywhere(func(txn.Key, []byte)) {}

// KeyName names an item by its number, such as item(17).
func (w *Micro) KeyName(k txn.Key) string {
	if _, _, plain := k.Plain(); !plain || k.Table() != table {
		return k.String()
	}
	return fmt.Sprintf("item(%d)", k.Shard())
}

// Audit sums the update counts and counts the items.
func (w *Micro) Audit(rows workload.Rows) map[string]int64 {
	var updates, items int64
	rows.Each(func(_ txn.Key, value []byte) {
		if len(value) == itemSize {
			updates += int64(binary.BigEndian.Uint32(value))
			items++
		}
	})
	return map[string]int64{auditUpdates: updates, auditItems: items}
}

// Verify checks that every copy has all items. The sum of the update counts must equal the number of committed updates,
// so that no update was lost or applied twice.
func (w *Micro) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	checks := []workload.Check{
		workload.WithinLedger("micro-updates", auditUpdates, 0, copies, ledger[ledgerUpdates]),
		workload.CopiesAgree(copies),
	}
	all := w.spec.ItemsPerPartition * int64(w.topology.Placement().Cells())
	if items := workload.WithinLedger("micro-items", auditItems, all, copies, workload.Interval{}); !items.Passed {
		checks = append(checks, items)
	}
	return checks
}

type generator struct {
	w         *Micro
	region    geo.Region
	rng       *rand.Rand
	counts    [1]workload.Count // for Micro.Shares
	committed *workload.Committed
	slab      workload.Slab
}

// NewGenerator implements workload.Workload.
func (w *Micro) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	return &generator{w: w, region: c.Region, rng: rand.New(rand.NewPCG(w.seed, uint64(c.Stream))),
		committed: workload.NewCommitted(len(typeNames), c.Clients)}
}

// Next returns a transaction on two items. One item is in a cell of the client's region. The other item is in the same
// cell or in another cell.
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	place, items := g.w.topology.Placement(), uint64(g.w.spec.ItemsPerPartition)
	kind := typeLocal
	if g.rng.Int32N(100) < g.w.spec.GlobalPercent {
		kind = typeGlobal
	}
	first, second := workload.DrawPair(g.rng, g.w.topology, g.region, kind == typeGlobal)
	n := g.rng.Uint64N(items)
	m := g.rng.Uint64N(items)
	for kind == typeLocal && m == n {
		m = g.rng.Uint64N(items)
	}
	args := g.slab.Room(argsSize, 1024)
	args = binary.BigEndian.AppendUint64(args, place.ShardNumber(first, n))
	args = binary.BigEndian.AppendUint64(args, place.ShardNumber(second, m))
	update.Call(t, args)
	g.committed.Begin(client, kind)
	if elapsed >= 0 {
		g.counts[0].Add(kind == typeGlobal)
	}
	return workload.Request{Type: uint8(kind), Class: place.Class(t.Accesses)}
}

// Done implements workload.Generator.
func (g *generator) Done(client int, o txn.Outcome) { g.committed.Done(client, o) }

// Late implements workload.Generator.
func (g *generator) Late(o txn.Outcome) { g.committed.Late(o) }

// Ledger returns the number of updates.
func (g *generator) Ledger() workload.Ledger {
	return workload.Ledger{ledgerUpdates: g.committed.Times(itemsPerTransaction, typeLocal, typeGlobal)}
}

// Realised returns the count for Micro.Shares.
func (g *generator) Realised() []workload.Count { return g.counts[:] }
