package tpcc

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// updateStock takes items from stock like the lines of an order. It is dUpdateStock of Dike (figure 7), with all lines
// in one transaction. Dike's code commits after each line, so its transactions never access several warehouses
// together.
//
// The result is empty.
var updateStock = &txn.Procedure{
	ID:   procUpdateStock,
	Name: "updateStock",
	Declare: func(args []byte, f *txn.Footprint) error {
		a := updateStockArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		f.Exact = true
		for i := range a.lines() {
			f.Accesses = append(f.Accesses, txn.Access{Key: a.key(i), Mode: txn.ReadWrite})
		}
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		a := updateStockArgs(args)
		for i := range a.lines() {
			v, err := get(c, a.key(i), stockHead)
			if err != nil {
				return nil, err
			}
			stock := stockRow(slices.Clone(v))
			stock.take(a.quantity(i), i > 0)
			c.Put(a.key(i), stock)
		}
		return nil, nil
	},
}

// updateStockArgs contains, for each line and with sizes in bytes: S_W_ID 4, S_I_ID 3, quantity 1. Each line has a
// different warehouse.
type updateStockArgs []byte

const stockUpdateSize = 8

func (a updateStockArgs) lines() int             { return len(a) / stockUpdateSize }
func (a updateStockArgs) line(i int) []byte      { return a[i*stockUpdateSize:][:stockUpdateSize] }
func (a updateStockArgs) warehouse(i int) uint32 { return be.Uint32(a.line(i)) }
func (a updateStockArgs) quantity(i int) int     { return int(a.line(i)[7]) }
func (a updateStockArgs) key(i int) txn.Key {
	l := a.line(i)
	return txn.Key(appendStockKey(nil, a.warehouse(i), uint32(l[4])<<16|uint32(l[5])<<8|uint32(l[6])))
}

func appendStockUpdate(b []byte, w, item uint32, quantity int) []byte {
	return append(appendItem(be.AppendUint32(b, w), item), byte(quantity))
}

func (a updateStockArgs) check() error {
	n := a.lines()
	if n < 1 || n > maxOrderLines || len(a) != n*stockUpdateSize {
		return fmt.Errorf("the arguments have %d bytes, not %d for each of 1 to %d lines", len(a), stockUpdateSize, maxOrderLines)
	}
	for i := range n {
		if a.warehouse(i) == 0 {
			return fmt.Errorf("line %d is of warehouse 0; they count from 1", i+1)
		}
		for j := range i {
			if a.warehouse(j) == a.warehouse(i) {
				return fmt.Errorf("lines %d and %d are of the same warehouse", j+1, i+1)
			}
		}
	}
	return nil
}

// updateStock draws a stock update at one warehouse of a partition, or at a co-access group (Dike, section 4.3.2).
func (g *generator) updateStock(x *terminal, counts []workload.Count) []byte {
	t, b := g.t, g.room(maxOrderLines*stockUpdateSize)
	line := func(w uint32) {
		quantity := 1 + g.rng.IntN(10)
		x.amount += int32(quantity)
		b = appendStockUpdate(b, w, t.constants.drawItem(g.rng, t.size.items), quantity)
	}
	home, _ := t.cellOf(x.warehouse)
	cell := t.cells.index(home)
	if g.partition != nil {
		cell = int(g.partition.Draw(g.rng, uint64(t.cells.number()))) - 1
	}
	together := g.draw(t.dike.CoAccessPercent)
	counts[shareCoAccess].Add(together)
	if together {
		n := int(t.dike.CoAccessPartitions)
		for i := range n {
			line(t.nth(t.cells.cell((cell/n*n+i)%t.cells.number()), 0))
		}
		return b
	}
	if g.partition == nil {
		line(x.warehouse)
		return b
	}
	for i := range t.cells.number() {
		counts[t.sharePartition(i)].Add(i == cell)
	}
	line(g.warehouseIn(cell))
	return b
}

// distribute decides randomly whether a transaction at warehouse w is distributed, and which other cells it accesses
// (Dike, section 4.2.1). It counts the transaction and the cells in counts.
//
// Dike does not know which node stores a warehouse, and draws a number of warehouses that lie in distributionDegree
// nodes on average (equation 2). Here the location is known, so a distributed transaction accesses exactly
// distributionDegree cells.
func (g *generator) distribute(w uint32, counts []workload.Count) (others []int) {
	ratio := g.t.spec.Remote.DistributionRatioPercent
	if ratio == nil {
		return nil
	}
	distributed := g.draw(*ratio)
	counts[0].Add(distributed)
	if !distributed {
		return nil
	}
	home, _ := g.t.cellOf(w)
	degree := int(*g.t.spec.Remote.DistributionDegree)
	g.chosen = g.chosen[:0]
	for i := range g.t.cells.number() {
		if i != g.t.cells.index(home) {
			g.chosen = append(g.chosen, i)
		}
	}
	for i := range degree - 1 {
		j := i + g.rng.IntN(len(g.chosen)-i)
		g.chosen[i], g.chosen[j] = g.chosen[j], g.chosen[i]
	}
	counts[1].Hits += int64(degree)
	counts[1].Of++
	return g.chosen[:degree-1]
}

// warehouseIn draws a warehouse of cell i.
func (g *generator) warehouseIn(i int) uint32 {
	c := g.t.cells.cell(i)
	return g.t.nth(c, g.rng.IntN(g.t.cells.warehouses(c)))
}

// stockLevel draws a stock-level transaction (clause 2.8.1). A distributed transaction has several warehouses.
func (g *generator) stockLevel(x *terminal, counts []workload.Count) []byte {
	threshold := uint8(10 + g.rng.IntN(11))
	cells := g.distribute(x.warehouse, counts[shareDistributedStockLevels:])
	var others []uint32
	for _, i := range cells {
		others = append(others, g.warehouseIn(i))
	}
	return appendStockLevel(g.room(stockLevelArgsSize+4*len(others)), x.warehouse, x.district, threshold, others...)
}
