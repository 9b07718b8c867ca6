// Package tpcc is the order-entry workload of TPC Benchmark C, revision 5.11 (February 2010): terminals of warehouses
// enter orders, payments and deliveries. Clause numbers in comments refer to the specification. docs/workloads.md lists
// omissions and differences. Each transaction is in a separate file.
//
// Warehouses are spread over all partitions of all regions, and a terminal belongs to a warehouse of its region. An
// order line or payment is remote if it uses a warehouse other than its terminal's. The manifest sets the share of
// remote lines and payments, and the shares of remote warehouses in another region or another partition.
package tpcc

import (
	"fmt"
	"slices"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// The transaction types, in the order of Types.
const (
	typeNewOrder = iota
	typePayment
	typeOrderStatus
	typeDelivery
	typeStockLevel
	numTypes // of the specification
)

// Transaction types of Dike. Types returns these types, after the specification's types, if a mix includes one of them.
const (
	typeUpdateStock = numTypes + iota
	typeUpdateBalance
	typeSelectBalance
	allTypes
)

// NewOrder is the type that tpmC counts: committed new orders per minute (clause 5.4.2).
const NewOrder = "newOrder"

var typeNames = []string{NewOrder, "payment", "orderStatus", "delivery", "stockLevel", "updateStock", "updateBalance", "selectBalance"}

// TPCC is the workload bound to a topology. It implements workload.Workload.
type TPCC struct {
	spec      v1alpha1.TPCC
	seed      uint64
	topology  *geo.Topology
	constants constants
	size      size
	cells     cells
	phases    [][allTypes]int32 // the mixes, in percent
	dike      v1alpha1.TPCCDike
	reported  []reported    // the result of Shares
	noise     func() *noise // created with the first row
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.TPCC, seed uint64, t *geo.Topology) (*TPCC, error) {
	const field = "spec.workload.tpcc."
	r, d := spec.Remote, dikeOf(spec.Dike)
	for _, p := range []struct {
		name string
		of   int32
	}{
		{"byLastNamePercent", spec.ByLastNamePercent}, {"rollbackPercent", spec.RollbackPercent},
		{"remote.orderLinePercent", percentOf(r.OrderLinePercent)}, {"remote.newOrderPercent", percentOf(r.NewOrderPercent)},
		{"remote.paymentPercent", r.PaymentPercent}, {"remote.distributionRatioPercent", percentOf(r.DistributionRatioPercent)},
		{"dike.coAccessPercent", d.CoAccessPercent},
	} {
		if p.of < 0 || p.of > 100 {
			return nil, fmt.Errorf(field+"%s: %d is not between 0 and 100", p.name, p.of)
		}
	}
	phases, err := phasesOf(&spec)
	if err != nil {
		return nil, err
	}
	switch {
	case spec.WarehousesPerPartition < 1 || spec.WarehousesPerPartition > 10_000:
		return nil, fmt.Errorf(field+"warehousesPerPartition: %d is not between 1 and 10000", spec.WarehousesPerPartition)
	case set(r.OrderLinePercent)+set(r.NewOrderPercent)+set(r.DistributionRatioPercent) != 1:
		return nil, fmt.Errorf(field + "remote: exactly one of orderLinePercent (1 in TPC-C), newOrderPercent and distributionRatioPercent must be set")
	case spec.KeyingAndThinkTimePercent < 0 || spec.KeyingAndThinkTimePercent > 1000:
		return nil, fmt.Errorf(field+"keyingAndThinkTimePercent: %d is not between 0 and 1000", spec.KeyingAndThinkTimePercent)
	case spec.RowsPercent < 1 || spec.RowsPercent > 100:
		return nil, fmt.Errorf(field+"rowsPercent: %d is not between 1 and 100", spec.RowsPercent)
	case spec.Warehouses != v1alpha1.WarehousesOwn && spec.Warehouses != v1alpha1.WarehousesAny:
		return nil, fmt.Errorf(field+"warehouses: %q is not one of Own, Any", spec.Warehouses)
	case spec.Districts != v1alpha1.DistrictsAny && spec.Districts != v1alpha1.DistrictsOwn:
		return nil, fmt.Errorf(field+"districts: %q is not one of Any, Own", spec.Districts)
	}
	l := workload.Locality{MultiHomePercent: percentOf(r.MultiHomePercent), MultiPartitionPercent: percentOf(r.MultiPartitionPercent)}
	if err := l.Validate(t, field+"remote"); err != nil {
		return nil, err
	}
	w := &TPCC{spec: spec, seed: seed, topology: t, constants: constantsOf(seed), size: sizeOf(spec.RowsPercent), phases: phases, dike: d,
		cells: cellsOf(t, spec.WarehousesPerPartition, d.WarehousesThetaPercent),
		noise: sync.OnceValue(func() *noise { return newNoise(seed) })}
	if w.placesRemote() && percentOf(r.MultiHomePercent) < 100 && percentOf(r.MultiPartitionPercent) < 100 && spec.WarehousesPerPartition < 2 &&
		percentOf(r.OrderLinePercent)+percentOf(r.NewOrderPercent)+r.PaymentPercent > 0 {
		return nil, fmt.Errorf(field + "warehousesPerPartition: 1 is too few: remote warehouses that are neither in another region " +
			"(remote.multiHomePercent) nor in another partition (remote.multiPartitionPercent) need a second one in each partition; " +
			"make it at least 2, or one of the two 100")
	}
	if err := w.checkDike(); err != nil {
		return nil, err
	}
	w.reported = w.shares()
	return w, nil
}

// set returns 1 if the parameter is set, else 0.
func set(p *int32) int {
	if p == nil {
		return 0
	}
	return 1
}

func percentOf(p *int32) int32 {
	if p == nil {
		return 0
	}
	return *p
}

// Name implements workload.Workload.
func (t *TPCC) Name() string { return "tpcc" }

// Types implements workload.Workload.
func (t *TPCC) Types() []string { return TypesOf(&t.spec) }

// TypesOf returns the names of the specification's five types, followed by Dike's types if a mix includes one of Dike's
// types.
func TypesOf(spec *v1alpha1.TPCC) []string {
	for _, m := range mixes(spec) {
		if m.UpdateStock+m.UpdateBalance+m.SelectBalance > 0 {
			return typeNames
		}
	}
	return typeNames[:numTypes]
}

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.TPCC, transaction string) string {
	kind := slices.Index(typeNames, transaction)
	all := mixes(spec)
	if kind < 0 || slices.ContainsFunc(all, func(m v1alpha1.TPCCMix) bool { return mix(&m)[kind] > 0 }) {
		return ""
	}
	if len(spec.MixPhases) > 0 {
		return "its share in spec.workload.tpcc.mixPhases is 0"
	}
	return "its share in spec.workload.tpcc.mix is 0"
}

// mixes returns the consecutive mixes.
func mixes(spec *v1alpha1.TPCC) []v1alpha1.TPCCMix {
	if len(spec.MixPhases) > 0 {
		return spec.MixPhases
	}
	return []v1alpha1.TPCCMix{spec.Mix}
}

// mix returns the shares of a mix by type, in percent.
func mix(m *v1alpha1.TPCCMix) [allTypes]int32 {
	return [allTypes]int32{m.NewOrder, m.Payment, m.OrderStatus, m.Delivery, m.StockLevel, m.UpdateStock, m.UpdateBalance, m.SelectBalance}
}

// KeyName implements workload.Workload: see keyName.
func (t *TPCC) KeyName(k txn.Key) string { return keyName(k) }

// warehouses returns the number of all warehouses. Warehouses are numbered from 1. The numbers have gaps if the cells
// have different numbers of warehouses.
func (t *TPCC) warehouses() int { return t.cells.all() }

// warehousesOf returns the warehouses of a cell in ascending order.
func (t *TPCC) warehousesOf(c geo.Cell) []uint32 {
	out := make([]uint32, t.cells.warehouses(c))
	for i := range out {
		out[i] = t.nth(c, i)
	}
	return out
}

// nth returns the i-th warehouse of a cell, counted from 0.
func (t *TPCC) nth(c geo.Cell, i int) uint32 {
	return uint32(t.topology.Placement().ShardNumber(c, uint64(i))) + 1
}

// cellOf returns the cell of a warehouse and the warehouse's index in the cell. It is the inverse of nth.
func (t *TPCC) cellOf(w uint32) (c geo.Cell, i int) {
	c, n := t.topology.Placement().Locate(shardOf(w))
	return c, int(n)
}

// placesRemote reports whether the manifest configures the location of remote warehouses. If not, all other warehouses
// are equally likely.
func (t *TPCC) placesRemote() bool {
	return t.spec.Remote.MultiHomePercent != nil || t.spec.Remote.MultiPartitionPercent != nil
}
