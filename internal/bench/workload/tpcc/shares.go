package tpcc

import (
	"fmt"

	"github.com/geobench/geobench/internal/bench/workload"
)

// Indexes of the counts of requests. Counts whose number depends on the manifest follow Dike's counts: first the mixes
// of phases, then the partitions of updateStock, then the contention intensities.
const (
	// The specification's types come first.
	shareRollbacks = numTypes + iota
	shareByLastName
	shareRemoteOrders
	shareOrdersMultiHome
	shareOrdersMultiPartition
	shareRemotePayments
	sharePaymentsMultiHome
	sharePaymentsMultiPartition
	numShares
)

// Dike's counts.
const (
	shareUpdateStock = numShares + iota
	shareUpdateBalance
	shareSelectBalance
	shareDistributedOrders
	shareOrdersDegree
	shareDistributedStockLevels
	shareStockLevelsDegree
	shareCoAccess
	numFixedShares
)

// Tolerances in percent of the configured value, as in Dike's evaluation (section 6.2).
const (
	distributionTolerance = 5
	contentionTolerance   = 10
)

// reported is a share with the index of its count.
type reported struct {
	at int
	workload.Share
}

// countOf returns the index of the count of a type.
func countOf(kind int) int {
	if kind < numTypes {
		return kind
	}
	return shareUpdateStock + kind - numTypes
}

// Indexes of the counts that follow the fixed counts.
func (t *TPCC) sharePhase(phase, kind int) int { return numFixedShares + phase*allTypes + kind }
func (t *TPCC) sharePartition(cell int) int    { return t.sharePhase(len(t.phases), 0) + cell }
func (t *TPCC) shareContention(part int) int   { return t.sharePartition(t.cells.number()) + part }
func (t *TPCC) numCounts() int                 { return t.shareContention(len(t.dike.ContentionIntensities)) }

// Shares implements workload.Workload. It returns the shares of the types, and the shares of random choices within
// transactions.
func (t *TPCC) Shares() []workload.Share {
	out := make([]workload.Share, len(t.reported))
	for i := range out {
		out[i] = t.reported[i].Share
	}
	return out
}

// shares returns the reported shares.
func (t *TPCC) shares() (out []reported) {
	add := func(at int, s workload.Share) { out = append(out, reported{at, s}) }
	if types := t.Types(); len(t.phases) == 1 {
		for kind := range types {
			add(countOf(kind), workload.Percent(typeNames[kind], "transactions", t.phases[0][kind]))
		}
	} else {
		for i, m := range t.phases {
			for kind := range types {
				add(t.sharePhase(i, kind), workload.Percent(typeNames[kind], fmt.Sprintf("transactions of mix %d", i+1), m[kind]))
			}
		}
	}
	add(shareRollbacks, workload.Percent("unused item", newOrdersName, t.spec.RollbackPercent))
	add(shareByLastName, workload.Percent("by last name", "payments and order statuses", t.spec.ByLastNamePercent))
	t.addRemote(add)
	if ratio := t.spec.Remote.DistributionRatioPercent; ratio != nil {
		for _, s := range []struct {
			at int
			of string
		}{{shareDistributedOrders, newOrdersName}, {shareDistributedStockLevels, "stock levels"}} {
			distributed := workload.Percent("distributed", s.of, *ratio)
			distributed.TolerancePercent = distributionTolerance
			add(s.at, distributed)
			add(s.at+1, workload.MeanOf("partitions", "distributed "+s.of, percentOf(t.spec.Remote.DistributionDegree), distributionTolerance))
		}
	}
	if t.runs(typeUpdateStock) {
		add(shareCoAccess, workload.Percent("co-access", "stock updates", t.dike.CoAccessPercent))
		if t.dike.PartitionsThetaPercent != nil {
			for i, p := range zipfShares(t.cells.number(), *t.dike.PartitionsThetaPercent) {
				add(t.sharePartition(i), workload.Share{Name: "in " + t.cells.name(i), Of: "stock updates without co-access", ConfiguredPPM: int64(p*1e6 + 0.5)})
			}
		}
	}
	for i, n := range t.dike.ContentionIntensities {
		add(t.shareContention(i), workload.MeanOf("contention intensity", fmt.Sprintf("samples of part %d", i+1), n, contentionTolerance))
	}
	return out
}

const newOrdersName = "new orders"

// addRemote adds the shares of remote orders and payments, and the shares of their warehouses' locations.
func (t *TPCC) addRemote(add func(at int, s workload.Share)) {
	r := t.spec.Remote
	orders, ordersPercent := "order lines", percentOf(r.OrderLinePercent)
	if r.NewOrderPercent != nil {
		orders, ordersPercent = newOrdersName, *r.NewOrderPercent
	}
	payments, multiHome, multiPartition := r.PaymentPercent, percentOf(r.MultiHomePercent)*10_000, percentOf(r.MultiPartitionPercent)*10_000
	if !t.placesRemote() {
		// All other warehouses are equally likely, so the numbers of warehouses in the other regions and partitions determine
		// these shares.
		all, perPartition := t.warehouses(), int(t.spec.WarehousesPerPartition)
		if all == 1 {
			ordersPercent, payments = 0, 0
		} else {
			multiHome = int32((all - perPartition*t.topology.Partitions) * 1e6 / (all - 1))
			multiPartition = int32((all - perPartition*t.topology.Placement().Regions) * 1e6 / (all - 1))
		}
	}
	for _, s := range []struct {
		at      int
		of      string
		percent int32
	}{{shareRemoteOrders, orders, ordersPercent}, {shareRemotePayments, "payments", payments}} {
		if s.at == shareRemoteOrders && r.DistributionRatioPercent != nil {
			continue
		}
		add(s.at, workload.Percent("remote", s.of, s.percent))
		if t.dike.WarehousesThetaPercent != nil && !t.placesRemote() {
			continue // the share then depends on the location of the terminals
		}
		for i, where := range []struct {
			name string
			ppm  int32
		}{{"multi-home", multiHome}, {"multi-partition", multiPartition}} {
			add(s.at+1+i, workload.Share{Name: where.name, Of: "remote " + s.of, ConfiguredPPM: int64(where.ppm)})
		}
	}
}

// Realised returns the counts for TPCC.Shares.
func (g *generator) Realised() []workload.Count {
	out := make([]workload.Count, len(g.t.reported))
	for i := range out {
		out[i] = g.counts[g.t.reported[i].at]
	}
	return out
}
