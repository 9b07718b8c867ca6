package explore

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

// runProcedures returns the procedures of all workloads of runs.
var runProcedures = sync.OnceValue(catalog.Procedures)

const (
	// openClients is the number of clients per region in an open loop, and thus the maximum number of transactions in
	// flight there.
	openClients = 20
	// leastRows is the number of rows of a workload in each cell. It is small, so that transactions conflict. If a
	// workload requires more rows, makeRunLoad doubles the number, up to mostRows. SmallBank may require more, because the
	// names of customers determine their home regions.
	leastRows, mostRows = 6, 400
	// maxWarehouses is the maximum number of TPC-C warehouses. Each has a few thousand rows even in its small form.
	maxWarehouses = 4
)

// makeRunLoad gives half of the scenarios an open loop, in which arrivals do not depend on answers. Independently, it
// gives half of the scenarios a workload of runs with few rows.
func (w *world) makeRunLoad(r *rand.Rand) error {
	if r.IntN(2) == 0 {
		w.load.every = max(w.load.until/maxSent/4, 1)
		w.load.clients = openClients
	}
	if r.IntN(2) == 0 {
		return nil
	}
	w.load.bank, w.load.groups, w.load.appends, w.load.readers = false, false, false, false
	w.wide.padding = 0   // workloads require that there are no other rows
	w.wide.plain = false // audits of workloads need traced rows
	var err error
	// A workload may reject a small number of rows, so double it. Each attempt draws further parameters from the same
	// stream.
	for rows := int64(leastRows); rows <= mostRows; rows *= 2 {
		if w.load.run, err = catalog.New(w.drawWorkload(r, rows), w.seed, w.topology); err == nil {
			return nil
		}
	}
	return fmt.Errorf("workload: %w", err)
}

// drawWorkload draws a workload with parameters that are valid in the topology. Each cell has about the given number of
// rows.
func (w *world) drawWorkload(r *rand.Rand, rows int64) (spec v1alpha1.Workload) {
	place := w.topology.Placement()
	cells := int64(place.Cells())
	share := func(possible bool) int32 {
		if !possible {
			return 0
		}
		return int32(r.IntN(101))
	}
	homes, partitions := share(place.Regions > 1), share(place.Partitions > 1)
	kinds := 4
	// TPC-C is the last case, so a smaller number of kinds excludes it if there are too many cells.
	if cells > maxWarehouses {
		kinds = 3
	}
	switch r.IntN(kinds) {
	case 0:
		spec.SmallBank = &v1alpha1.SmallBank{
			Customers: rows * cells, Mix: v1alpha1.SmallBankMix{Balance: 30, WriteCheck: 20, DepositChecking: 15, TransactSavings: 15, Amalgamate: 20},
			MultiHomePercent: homes, MultiPartitionPercent: partitions, HotPercent: int32(r.IntN(101)), DependentPercent: int32(r.IntN(50)),
		}
	case 1:
		records := int32(2 + r.IntN(3))
		spec.RMW = &v1alpha1.RMW{
			Records: 2 * rows * cells, RecordsPerTransaction: records, WritesPerTransaction: int32(r.IntN(int(records) + 1)), ValueBytes: 16,
			MultiHomePercent: homes, HomesPerMultiHome: 2, MultiPartitionPercent: partitions, PartitionsPerMultiPartition: 2,
			HotRecords: 2, HotRecordsPerTransaction: 1, DependentPercent: int32(r.IntN(50)),
		}
	case 2:
		spec.YCSB = &v1alpha1.YCSB{
			Mix:     &v1alpha1.YCSBMix{Read: 30, Update: 20, Insert: 5, Scan: 15, ReadModifyWrite: 30},
			Records: 2 * rows * cells, FieldCount: 2, FieldBytes: 8, OperationsPerTransaction: int32(2 + r.IntN(2)),
			Distribution: v1alpha1.YCSBZipfian, ThetaPercent: 80, MaxScanRecords: 5, Locality: v1alpha1.YCSBHome,
			MultiHomePercent: homes, HomesPerMultiHome: 2, MultiPartitionPercent: partitions, PartitionsPerMultiPartition: 2,
		}
	default:
		lines := int32(r.IntN(50))
		spec.TPCC = &v1alpha1.TPCC{
			WarehousesPerPartition: 1, Mix: v1alpha1.TPCCMix{NewOrder: 45, Payment: 43, OrderStatus: 4, Delivery: 4, StockLevel: 4},
			Remote: v1alpha1.TPCCRemote{OrderLinePercent: &lines, PaymentPercent: 15}, ByLastNamePercent: 60, RollbackPercent: 1,
			Districts: v1alpha1.DistrictsAny, Warehouses: v1alpha1.WarehousesOwn, RowsPercent: 1,
		}
	}
	return spec
}

// newGenerator returns the generator of a region's clients, or nil if the explorer generates the transactions.
func (w *world) newGenerator(r geo.Region) workload.Generator {
	if w.load.run == nil {
		return nil
	}
	t, before, all := w.topology, 0, 0
	for o := range t.Regions {
		// A region that is not a home sends transactions of a home region. Regions that share a home number their clients
		// consecutively, so that the numbers are unique.
		if t.HomeOf(geo.Region(o)) != t.HomeOf(r) {
			continue
		}
		if all++; geo.Region(o) < r {
			before++
		}
	}
	return w.load.run.NewGenerator(workload.GeneratorConfig{
		Region: t.HomeOf(r), Clients: w.load.clients, FirstClient: before * w.load.clients, RegionClients: all * w.load.clients,
		Stream: uint32(r) + 1, Measured: w.load.until,
	})
}

// judgeRun checks the invariants of the workload on the final data. It does so only if the engine promises
// serializability, because weaker levels do not preserve the invariants.
func (e *execution) judgeRun(res *Result, promised isolation.Level) {
	// A scripted scenario has no ledger, because the generators did not generate its calls.
	if e.load.run == nil || e.calls != nil || !isolation.Implies(promised, isolation.Serializable) {
		return
	}
	a, ledger := e.audits(func(n geo.NodeID) []store.ShardSums { return audit.Of(n, &e.layout, e.sim.Store(n), e.load.run, true) }), workload.Ledger{}
	for _, c := range e.clients {
		ledger.Merge(c.generator.Ledger())
	}
	for _, check := range audit.Verify(&e.layout, e.load.run, a, ledger, []v1alpha1.Verification{v1alpha1.VerifyInvariants}) {
		if !check.Passed {
			res.problem(Unsound, "workload: %s: %s", check.Name, check.Message)
		}
	}
}
