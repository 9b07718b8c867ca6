package tpcc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// dikeSpec returns a TPC-C with 1% of the rows, the given mix, and no remote accesses.
func dikeSpec(warehouses int32, m v1alpha1.TPCCMix) v1alpha1.TPCC {
	s := spec(warehouses)
	s.Mix, s.RowsPercent, s.RollbackPercent = m, 1, 0
	s.Remote = v1alpha1.TPCCRemote{OrderLinePercent: ptr(0)}
	return s
}

// TestDikeSuite runs the suite with Dike's transaction types and all TPC-C types together.
func TestDikeSuite(t *testing.T) {
	s := dikeSpec(1, v1alpha1.TPCCMix{NewOrder: 30, Payment: 20, OrderStatus: 2, Delivery: 3, StockLevel: 5, UpdateStock: 20, UpdateBalance: 10, SelectBalance: 10})
	s.Remote = v1alpha1.TPCCRemote{DistributionRatioPercent: ptr(30), DistributionDegree: ptr(3), PaymentPercent: 15}
	s.Dike = &v1alpha1.TPCCDike{PartitionsThetaPercent: ptr(99), CoAccessPercent: 40, CoAccessPartitions: 3}
	c := workloadtest.Bind(t, New, s, topology(2, 2), Procedures())
	c.AnyHome = "updateStock goes where its skew says"
	workloadtest.Rows(t, c)
	workloadtest.Shares(t, c, 1500, nil)
	workloadtest.Ledger(t, c, 1000)
	workloadtest.Invariants(t, c, 100, "t1 altered at its end", "t2 altered at its end", "t3 altered at its end", "t4 altered at its end",
		"t5 altered at its end", "t6 altered at its start", "t6 altered at its end", "t8 altered at its end")
}

// TestUnevenSuite runs the suite with warehouses distributed over partitions by Zipf's law.
func TestUnevenSuite(t *testing.T) {
	s := dikeSpec(4, v1alpha1.TPCCMix{NewOrder: 50, Payment: 40, UpdateBalance: 5, SelectBalance: 5})
	s.Remote = v1alpha1.TPCCRemote{OrderLinePercent: ptr(5), PaymentPercent: 15}
	s.Dike = &v1alpha1.TPCCDike{WarehousesThetaPercent: ptr(150)}
	for _, warehouses := range []v1alpha1.TPCCWarehouses{v1alpha1.WarehousesOwn, v1alpha1.WarehousesAny} {
		s.Warehouses = warehouses
		c := workloadtest.Bind(t, New, s, topology(2, 2), Procedures())
		c.AnyHome = "balances are in groups of warehouses of all regions"
		workloadtest.Rows(t, c)
		workloadtest.Shares(t, c, 500, nil)
	}
}

// TestDistribution compares the numbers of cells that new orders and stock levels access with the configured numbers
// (figure 17(a)).
func TestDistribution(t *testing.T) {
	top := topology(3, 3)
	for _, degree := range []int32{3, 5} {
		for _, ratio := range []int32{1, 10, 20, 40, 80, 100} {
			s := dikeSpec(20, v1alpha1.TPCCMix{NewOrder: 90, StockLevel: 10})
			s.Remote = v1alpha1.TPCCRemote{DistributionRatioPercent: &ratio, DistributionDegree: &degree}
			w := newTPCC(t, s, top)
			g := w.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 20, RegionClients: 20, Stream: 1, Measured: time.Hour})
			var all, distributed, touched [numTypes]int
			for i := range 10_000 {
				tx := &txn.Transaction{ID: txn.ID(i + 1)}
				r := g.Next(i%20, 0, tx)
				cells := map[geo.Cell]bool{}
				for _, a := range tx.Accesses {
					cells[top.Placement().Cell(a.Key)] = true
				}
				if n := len(cells); n > 1 {
					distributed[r.Type]++
					touched[r.Type] += n
				}
				all[r.Type]++
				g.Done(i%20, txn.Outcome{ID: tx.ID, Status: txn.Aborted})
			}
			for _, kind := range []int{typeNewOrder, typeStockLevel} {
				what := fmt.Sprintf("%s, ratio %d%%, degree %d", typeNames[kind], ratio, degree)
				workloadtest.NearShare(t, what, distributed[kind], all[kind], float64(ratio)/100)
				if distributed[kind] > 0 && touched[kind] != int(degree)*distributed[kind] {
					t.Errorf("%s: %d partitions in %d transactions", what, touched[kind], distributed[kind])
				}
			}
			workloadtest.Near(t, w.Shares(), g.Realised())
			t.Logf("ratio %d%%, degree %d: newOrder %.2f%%, %.2f partitions", ratio, degree,
				100*float64(distributed[typeNewOrder])/float64(all[typeNewOrder]), float64(touched[typeNewOrder])/float64(distributed[typeNewOrder]))
		}
	}
}

// TestContention simulates 180 clients (figure 17(b)). Contending transactions finish one after another, and all other
// transactions take a constant time.
func TestContention(t *testing.T) {
	const part = 4 * time.Second
	targets := []int32{30, 110, 150, 80, 50}
	for _, regions := range []int{1, 3} {
		s := dikeSpec(60, v1alpha1.TPCCMix{NewOrder: 100})
		s.Dike = &v1alpha1.TPCCDike{ContentionIntensities: targets}
		w := newTPCC(t, s, topology(regions, 3/regions))
		clients, measured := 180/regions, part*time.Duration(len(targets))
		var generators []workload.Generator
		for r := range regions {
			// Two generators per region share the region's clients.
			for half := range 2 {
				generators = append(generators, w.NewGenerator(workload.GeneratorConfig{Region: geo.Region(r), Clients: clients / 2, FirstClient: half * clients / 2,
					RegionClients: clients, Stream: uint32(2*r + half), Measured: measured}))
			}
		}
		const step = time.Millisecond
		type client struct{ generator, number int }
		var queue []client // clients that wait for the contended row; each client holds it for one step
		ends := map[time.Duration][]client{}
		row := txn.Key(appendDistrictKey(nil, contendedWarehouse, contendedDistrict))
		sums, samples := make([]int, len(targets)), make([]int, len(targets))
		id := txn.ID(0)
		next := func(c client, now time.Duration) {
			id++
			tx := &txn.Transaction{ID: id}
			generators[c.generator].Next(c.number, now, tx)
			if slices.ContainsFunc(tx.Accesses, func(a txn.Access) bool { return a.Key == row }) {
				queue = append(queue, c)
			} else {
				ends[now+10*step] = append(ends[now+10*step], c)
			}
		}
		for i := range generators {
			for n := range clients / 2 {
				next(client{i, n}, -time.Second)
			}
		}
		for now := -time.Second + step; now < measured; now += step {
			done := ends[now]
			delete(ends, now)
			if len(queue) > 0 {
				done = append(done, queue[0])
				queue = queue[1:]
			}
			for _, c := range done {
				generators[c.generator].Done(c.number, txn.Outcome{Status: txn.Committed})
				next(c, now)
			}
			if now >= 0 {
				sums[now/part] += len(queue)
				samples[now/part]++
			}
		}
		counts := make([]workload.Count, len(w.Shares()))
		for _, g := range generators {
			for i, c := range g.Realised() {
				counts[i].Hits, counts[i].Of = counts[i].Hits+c.Hits, counts[i].Of+c.Of
			}
		}
		workloadtest.Near(t, w.Shares(), counts)
		found := 0
		for i, share := range w.Shares() {
			if !share.Mean {
				continue
			}
			told, true := float64(counts[i].Hits)/float64(counts[i].Of), float64(sums[found])/float64(samples[found])
			t.Logf("%d regions, %s: asked for %d, told %.2f, was %.2f", regions, share.Of, targets[found], told, true)
			if math.Abs(true/float64(targets[found])-1) > 0.1 || math.Abs(told-true) > 2 {
				t.Errorf("%d regions, %s: asked for %d, told %.2f, was %.2f", regions, share.Of, targets[found], told, true)
			}
			found++
		}
		if found != len(targets) {
			t.Errorf("%d of %d contention intensities are reported", found, len(targets))
		}
	}
}

// TestPhases draws transactions from three consecutive mixes (figure 18(b)).
func TestPhases(t *testing.T) {
	s := dikeSpec(2, v1alpha1.TPCCMix{})
	s.MixPhases = []v1alpha1.TPCCMix{{NewOrder: 45, Payment: 43, OrderStatus: 4, StockLevel: 4, Delivery: 4},
		{NewOrder: 50, Payment: 40, OrderStatus: 6, StockLevel: 2, Delivery: 2}, {NewOrder: 40, Payment: 25, OrderStatus: 5, StockLevel: 15, Delivery: 15}}
	w := newTPCC(t, s, topology(2, 1))
	const measured = 90 * time.Second
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Measured: measured})
	var kinds [3][numTypes]int
	const n = 30_000
	for i := range n {
		tx := &txn.Transaction{ID: txn.ID(i + 1)}
		r := g.Next(0, measured*time.Duration(i)/n, tx)
		kinds[i*3/n][r.Type]++
		g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Aborted})
	}
	for phase, m := range s.MixPhases {
		for kind, percent := range mix(&m) {
			if kind < numTypes {
				workloadtest.NearShare(t, fmt.Sprintf("%s in phase %d", typeNames[kind], phase), kinds[phase][kind], n/3, float64(percent)/100)
			}
		}
	}
	workloadtest.Near(t, w.Shares(), g.Realised())
	if said := Never(&s, "delivery"); said != "" {
		t.Errorf("delivery never runs: %s", said)
	}
	if said := Never(&s, "updateStock"); said != "its share in spec.workload.tpcc.mixPhases is 0" {
		t.Errorf("updateStock never runs: %q", said)
	}
}

// TestUnevenWarehouses compares the numbers of warehouses of nine partitions with Zipf's law (figure 17(c)).
func TestUnevenWarehouses(t *testing.T) {
	for _, theta := range []int32{0, 99, 150} {
		s := dikeSpec(20, v1alpha1.TPCCMix{NewOrder: 100})
		s.Dike = &v1alpha1.TPCCDike{WarehousesThetaPercent: &theta}
		w := newTPCC(t, s, topology(3, 3))
		said, all := "", 0
		for i, p := range zipfShares(9, theta) {
			held := len(w.warehousesOf(w.cells.cell(i)))
			all += held
			said += fmt.Sprintf(" %d (%.1f)", held, 180*p)
			if off := float64(held) - 180*p; math.Abs(off) > 1 {
				t.Errorf("theta %d%%: partition %d has %d warehouses, want %.1f", theta, i, held, 180*p)
			}
		}
		t.Logf("theta %.2f:%s", float64(theta)/100, said)
		if all != 180 {
			t.Errorf("theta %d%%: %d warehouses in all, want 180", theta, all)
		}
		for i := range all {
			if at := w.placeOf(w.nthOfAll(i)); at != i {
				t.Fatalf("theta %d%%: warehouse %d of all is at place %d", theta, i, at)
			}
		}
	}
	// Every partition has at least one warehouse.
	s := dikeSpec(1, v1alpha1.TPCCMix{NewOrder: 100})
	s.Dike = &v1alpha1.TPCCDike{WarehousesThetaPercent: ptr(1000)}
	w := newTPCC(t, s, topology(3, 3))
	for i := range w.cells.number() {
		if n := w.cells.warehouses(w.cells.cell(i)); n != 1 {
			t.Errorf("partition %d has %d warehouses, want 1", i, n)
		}
	}
}

// TestSnapshot checks that verification detects a committed selectBalance that saw an update of only one balance of its
// group.
func TestSnapshot(t *testing.T) {
	w := newTPCC(t, dikeSpec(4, v1alpha1.TPCCMix{SelectBalance: 100}), topology(1, 1))
	d := loaded(t, w)
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
	if failed := d.Verify(w, g.Ledger()); len(failed) != 0 {
		t.Fatalf("before anything was done: %v", failed)
	}
	key := txn.Key(appendBalanceKey(nil, 2))
	undo := d.Apply(1, []txn.WriteEntry{{Key: key, Value: be.AppendUint64(nil, balanceStep)}})
	tx := &txn.Transaction{ID: 2}
	g.Next(0, 0, tx)
	g.Done(0, d.Run(tx))
	if failed := d.Verify(w, g.Ledger()); !slices.ContainsFunc(failed, func(s string) bool { return strings.HasPrefix(s, "tpcc-balances-agree: ") }) ||
		!slices.ContainsFunc(failed, func(s string) bool { return strings.HasPrefix(s, "tpcc-balances: ") }) {
		t.Errorf("one balance of four is 10 more, and only %v failed", failed)
	}
	d.Apply(3, undo)
	if failed := d.Verify(w, g.Ledger()); len(failed) != 1 || !strings.HasPrefix(failed[0], "tpcc-snapshot: 1 committed selectBalance saw") {
		t.Errorf("a committed transaction saw balances that differ: %v", failed)
	}
}

// TestStockLevels checks that one stock-level transaction over several warehouses returns the sum of the results for
// each warehouse.
func TestStockLevels(t *testing.T) {
	w := newTPCC(t, dikeSpec(3, v1alpha1.TPCCMix{StockLevel: 100}), topology(1, 1))
	d := loaded(t, w)
	sum := uint32(0)
	for warehouse := uint32(1); warehouse <= 3; warehouse++ {
		sum += be.Uint32(run(t, d, stockLevel, appendStockLevel(nil, warehouse, 4, 20)))
	}
	if got := be.Uint32(run(t, d, stockLevel, appendStockLevel(nil, 1, 4, 20, 3, 2))); got != sum || sum == 0 {
		t.Errorf("%d items run short in three warehouses, %d in each of them", got, sum)
	}
}
