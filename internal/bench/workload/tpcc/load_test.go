package tpcc

import (
	"flag"
	"math"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func ptr(n int32) *int32 { return &n }

// spec returns the API's defaults, with the given number of warehouses.
func spec(warehouses int32) v1alpha1.TPCC {
	return v1alpha1.TPCC{WarehousesPerPartition: warehouses,
		Mix:    v1alpha1.TPCCMix{NewOrder: 45, Payment: 43, OrderStatus: 4, Delivery: 4, StockLevel: 4},
		Remote: v1alpha1.TPCCRemote{OrderLinePercent: ptr(1), PaymentPercent: 15}, ByLastNamePercent: 60, RollbackPercent: 1,
		Districts: v1alpha1.DistrictsAny, Warehouses: v1alpha1.WarehousesOwn, RowsPercent: 100}
}

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:regions], Partitions: partitions, Replicas: 1}
}

func newTPCC(t testing.TB, spec v1alpha1.TPCC, top *geo.Topology) *TPCC {
	t.Helper()
	w, err := New(spec, 7, top)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func loaded(t testing.TB, w *TPCC) *workloadtest.Database {
	return workloadtest.New(t, Procedures()...).Load(w, w.topology)
}

// verify returns the names of the failed checks and logs the reasons.
func verify(t testing.TB, w *TPCC, ledger workload.Ledger, copies ...map[string]int64) (failed []string) {
	t.Helper()
	for _, c := range w.Verify(workloadtest.Copies(copies...), ledger) {
		if !c.Passed {
			failed = append(failed, c.Name)
			t.Logf("%s: %s", c.Name, c.Message)
		}
	}
	return failed
}

// TestRows loads two warehouses in each of two cells and checks all rows (clause 4.3.3.1).
func TestRows(t *testing.T) {
	top := topology(2, 1)
	w := newTPCC(t, spec(1), top)
	p := top.Placement()
	seen := map[txn.Table]int{}
	size, originals, bad, names := 0, map[txn.Table]int{}, 0, map[string]int{}
	once := workloadtest.New(t)
	for home := range geo.Region(2) {
		cell := geo.Cell{Home: home}
		w.Rows(cell, func(k txn.Key, v []byte) {
			if !k.Valid() || p.Cell(k) != cell || warehouseOf(k) != uint32(home)+1 {
				t.Fatalf("%v of warehouse %d is loaded into %v, not %v", k, warehouseOf(k), cell, p.Cell(k))
			}
			once.Hash.Load(k, v)
			seen[k.Table()]++
			if home == 1 {
				return
			}
			size += len(k) + len(v)
			switch k.Table() {
			case tableStock:
				if q := stockRow(v).quantity(); q < 10 || q > 100 || len(v) < stockHead+26 || len(v) > stockHead+50 {
					t.Fatalf("%s: quantity %d, %d bytes", keyName(k), q, len(v))
				}
				if isOriginal(stockRow(v).data()) {
					originals[tableStock]++
				}
			case tableCustomer:
				r := customerRow(v)
				if r.balance() != -1000 || r.ytdPayment() != 1000 || r.payments() != 1 || r.deliveries() != 0 || r.discount() > 5000 {
					t.Fatalf("%s: %v", keyName(k), r)
				}
				if n := len(r) - r.dataAt(); n < 300 || n > 500 {
					t.Fatalf("%s: C_DATA has %d characters", keyName(k), n)
				}
				if r.badCredit() {
					bad++
				}
				names[string(r.last())]++
			}
		})
	}
	// These numbers of rows are exact. Order lines are random: 5 to 15 for each of a warehouse's 30,000 orders.
	for table, want := range map[txn.Table]int{tableWarehouse: 2, tableDistrict: 20, tableCustomer: 60_000, tableStock: 200_000, tableHistory: 60_000,
		tableOrder: 60_000, tableNewOrder: 18_000, tableCustomersByName: 60_000, tableOrdersByCustomer: 60_000} {
		if seen[table] != want {
			t.Errorf("table %d has %d rows, want %d", table, seen[table], want)
		}
	}
	// The mean of 60,000 draws from 5 .. 15, whose standard deviation is 3.16.
	if mean := float64(seen[tableOrderLine]) / 60_000; math.Abs(mean-10) > 4*3.16/math.Sqrt(60_000) {
		t.Errorf("an order has %.3f lines, want 10", mean)
	}
	rows := 0
	for _, n := range seen {
		rows += n
	}
	if once.Len() != rows {
		t.Errorf("%d rows are loaded under %d keys", rows, once.Len())
	}
	if size < 65e6 || size > 80e6 {
		t.Errorf("a warehouse has %d bytes", size)
	}
	w.Everywhere(func(k txn.Key, v []byte) {
		if p := itemRow(v).price(); p < 1_00 || p > 100_00 || !k.Everywhere() {
			t.Fatalf("%s: price %d", keyName(k), p)
		}
		if isOriginal(itemRow(v).data()) {
			originals[tableItem]++
		}
	})
	workloadtest.NearShare(t, "original stock", originals[tableStock], items, 0.1)
	workloadtest.NearShare(t, "original items", originals[tableItem], items, 0.1)
	workloadtest.NearShare(t, "bad credit", bad, 30_000, 0.1)
	if least := len(names); least != lastNames {
		t.Errorf("%d last names, want %d", least, lastNames)
	}
	// Each of the ten districts has at least one customer called BARBARBAR. NURand draws the names of the other 20,000
	// customers.
	if n := names["BARBARBAR"]; n < 10 {
		t.Errorf("%d customers are called BARBARBAR, want 10 or more", n)
	}
	for name, v := range w.Audit(once.Rows()) {
		if strings.Contains(name, "/") {
			t.Errorf("a condition is violated by the loaded database: %s is %d", name, v)
		}
	}
}

// TestPermutation checks that each customer of a district has exactly one order (clause 4.3.3.1), and that the index by
// customer finds this order.
func TestPermutation(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	st := store.NewHash()
	w.Rows(geo.Cell{}, st.Load)
	of := map[uint16]uint32{}
	sorted := true
	st.Scan(txn.Prefix(txn.Key(appendGroupKey(nil, tableOrder, 1, 3))), func(k txn.Key, r store.Record) bool {
		c := orderRow(r.Value).customer()
		sorted = sorted && uint32(c) == lastUint32(k)
		of[c] = lastUint32(k)
		return true
	})
	if len(of) != customersPerDistrict || sorted {
		t.Errorf("%d customers have orders; in their own order: %v", len(of), sorted)
	}
	for c, o := range of {
		if _, ok := st.Get(txn.Key(appendOrderByCustomerKey(nil, 1, 3, c, o))); !ok {
			t.Fatalf("order %d of customer %d is not in the index", o, c)
		}
	}
}

func TestLastNames(t *testing.T) {
	// The example of clause 4.3.2.3.
	if got := string(appendLastName(nil, 371)); got != "PRICALLYOUGHT" {
		t.Errorf("371 is %s, want PRICALLYOUGHT", got)
	}
	distinct := map[string]bool{}
	for n := range lastNames {
		distinct[string(appendLastName(nil, n))] = true
	}
	if len(distinct) != lastNames {
		t.Errorf("%d names for %d numbers", len(distinct), lastNames)
	}
}

func TestConstants(t *testing.T) {
	deltas := map[int]bool{}
	for seed := range uint64(10_000) {
		c := constantsOf(seed)
		if min(c.lastLoad, c.lastRun, c.customer, c.item) < 0 || max(c.lastLoad, c.lastRun) > aLast || c.customer > aCustomer || c.item > aItem {
			t.Fatalf("seed %d: %+v", seed, c)
		}
		deltas[max(c.lastRun-c.lastLoad, c.lastLoad-c.lastRun)] = true
	}
	// Clause 2.1.6.1.
	for delta := range 256 {
		if want := delta >= 65 && delta <= 119 && delta != 96 && delta != 112; deltas[delta] != want {
			t.Errorf("a difference of %d occurs: %v, want %v", delta, deltas[delta], want)
		}
	}
}

// TestNonUniform compares draws with the distribution of the formula in clause 2.1.6. It enumerates the distribution
// and applies a chi-squared test over the values in the order of their probability.
func TestNonUniform(t *testing.T) {
	c := constantsOf(3)
	r := randomOf(5, 1, 2, 3)
	for name, d := range map[string]struct {
		a, c, x, y int
		draw       func() int
	}{
		"C_LAST when loaded": {aLast, c.lastLoad, 0, 999, func() int { return c.loadedName(&r) }},
		"C_LAST":             {aLast, c.lastRun, 0, 999, func() int { return int(c.drawName(rng, lastNames)) }},
		"C_ID":               {aCustomer, c.customer, 1, 3000, func() int { return int(c.drawCustomer(rng, customersPerDistrict)) }},
	} {
		t.Run(name, func(t *testing.T) {
			span := d.y - d.x + 1
			p := make([]float64, span)
			for first := range d.a + 1 {
				for second := d.x; second <= d.y; second++ {
					p[((first|second)+d.c)%span]++
				}
			}
			const n = 400_000
			got := make([]float64, span)
			for range n {
				v := d.draw()
				if v < d.x || v > d.y {
					t.Fatalf("%d is not in %d .. %d", v, d.x, d.y)
				}
				got[v-d.x]++
			}
			chiSquared(t, p, got, n)
		})
	}
	// There are too many combinations to enumerate for items, so the test checks only how often all bits of A are set.
	hits := 0
	const n = 100_000
	for range n {
		v := int(c.drawItem(rng, items))
		if v < 1 || v > items {
			t.Fatalf("item %d", v)
		}
		if ((v-1-c.item)%items+items)%items&aItem == aItem {
			hits++
		}
	}
	// Each of the 13 bits of A is 0 with probability 1/4, except at the upper end of the range.
	if got, want := float64(hits)/n, math.Pow(0.75, 13); math.Abs(got-want) > 0.1*want {
		t.Errorf("all bits of A are set in %.5f of the draws, want about %.5f", got, want)
	}
}

// chiSquared fails the test if counts do not follow the weights p. Values are pooled until at least 20 draws are
// expected.
func chiSquared(t *testing.T, p, got []float64, n float64) {
	t.Helper()
	order := make([]int, len(p))
	total := 0.0
	for i := range order {
		order[i] = i
		total += p[i]
	}
	sort.Slice(order, func(i, j int) bool { return p[order[i]] < p[order[j]] })
	sum, degrees, expected, seen := 0.0, -1.0, 0.0, 0.0
	for _, i := range order {
		expected += p[i] / total * n
		seen += got[i]
		if expected >= 20 {
			sum += (seen - expected) * (seen - expected) / expected
			degrees++
			expected, seen = 0, 0
		}
	}
	if sum > degrees+5*math.Sqrt(2*degrees) {
		t.Errorf("chi-squared is %.0f with %.0f degrees of freedom", sum, degrees)
	}
}

func TestKeyNames(t *testing.T) {
	for want, key := range map[string][]byte{
		"item(70000)":                             appendItemKey(nil, 70_000),
		"warehouse(3)":                            appendWarehouseKey(nil, 3),
		"district(3, 10)":                         appendDistrictKey(nil, 3, 10),
		"customer(3, 4, 2999)":                    appendCustomerKey(nil, 3, 4, 2999),
		"stock(3, 99999)":                         appendStockKey(nil, 3, 99_999),
		"history(3, 4, 17)":                       appendLoadedHistoryKey(nil, 3, 4, 17),
		"history(3, payment 00000a0000000001)":    appendHistoryKey(nil, 3, 0x0a0000000001),
		"order(3, 4, 3001)":                       appendOrderKey(nil, tableOrder, 3, 4, 3001),
		"new order(3, 4, 3001)":                   appendOrderKey(nil, tableNewOrder, 3, 4, 3001),
		"order line(3, 4, 3001, 15)":              appendOrderLineKey(nil, 3, 4, 3001, 15),
		"order lines(3, 4)":                       appendGroupKey(nil, tableOrderLine, 3, 4),
		"customers by name(3, 4)":                 appendGroupKey(nil, tableCustomersByName, 3, 4),
		"customer by name(3, 4, BARBAROUGHT abc)": appendCustomerByNameKey(nil, 3, 4, 1, []byte("abc"), 5),
		"customer by name(3, 4, BARBAROUGHT)":     appendNameKey(nil, 3, 4, 1),
		"order by customer(3, 4, 17, 3001)":       appendOrderByCustomerKey(nil, 3, 4, 17, 3001),
		"balance(3)":                              appendBalanceKey(nil, 3),
		"t12/5":                                   []byte(txn.IntKey(12, 5)),
	} {
		if got := keyName(txn.Key(key)); got != want {
			t.Errorf("%v is %q, want %q", txn.Key(key), got, want)
		}
	}
	for _, k := range []txn.Key{"", "x", txn.Key(appendCustomerKey(nil, 3, 4, 5)[:11]), txn.IntKey(tableHistory, 3), txn.OrderedKey(tableOrder, 1, []byte{1, 2}, nil)} {
		if got := keyName(k); got == "" {
			t.Errorf("%x has no name", string(k))
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change              func(*v1alpha1.TPCC)
		regions, partitions int
		want                string
	}{
		"mix":               {func(s *v1alpha1.TPCC) { s.Mix.NewOrder = 46 }, 2, 2, "mix: the shares sum to 101"},
		"no warehouse":      {func(s *v1alpha1.TPCC) { s.WarehousesPerPartition = 0 }, 2, 2, "warehousesPerPartition: 0 is not"},
		"no rows":           {func(s *v1alpha1.TPCC) { s.RowsPercent = 0 }, 2, 2, "rowsPercent: 0 is not between 1 and 100"},
		"too many rows":     {func(s *v1alpha1.TPCC) { s.RowsPercent = 101 }, 2, 2, "rowsPercent: 101 is not between 1 and 100"},
		"warehouses":        {func(s *v1alpha1.TPCC) { s.Warehouses = "Each" }, 2, 2, `warehouses: "Each" is not one of Own, Any`},
		"percent":           {func(s *v1alpha1.TPCC) { s.ByLastNamePercent = 101 }, 2, 2, "byLastNamePercent: 101 is not between 0 and 100"},
		"remote twice":      {func(s *v1alpha1.TPCC) { s.Remote.NewOrderPercent = ptr(5) }, 2, 2, "remote: exactly one of orderLinePercent"},
		"no remote":         {func(s *v1alpha1.TPCC) { s.Remote.OrderLinePercent = nil }, 2, 2, "remote: exactly one of orderLinePercent"},
		"one region":        {func(s *v1alpha1.TPCC) { s.Remote.MultiHomePercent = ptr(1) }, 1, 2, "remote.multiHomePercent: 1 needs two regions"},
		"one partition":     {func(s *v1alpha1.TPCC) { s.Remote.MultiPartitionPercent = ptr(1) }, 2, 1, "remote.multiPartitionPercent: 1 needs two partitions"},
		"no neighbour":      {func(s *v1alpha1.TPCC) { s.Remote.MultiHomePercent = ptr(99) }, 2, 2, "warehousesPerPartition: 1 is too few"},
		"unknown districts": {func(s *v1alpha1.TPCC) { s.Districts = "Some" }, 2, 2, `districts: "Some" is not one of`},
		"negative keying":   {func(s *v1alpha1.TPCC) { s.KeyingAndThinkTimePercent = -1 }, 2, 2, "keyingAndThinkTimePercent: -1 is not"},
		"nobody needs neighbour": {func(s *v1alpha1.TPCC) {
			s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(0), MultiHomePercent: ptr(0)}
		}, 1, 1, ""},
		"one warehouse": {func(*v1alpha1.TPCC) {}, 1, 1, ""},
		"mix of a phase": {func(s *v1alpha1.TPCC) { s.MixPhases = []v1alpha1.TPCCMix{{NewOrder: 100}, {Payment: 99}} }, 2, 2,
			"mixPhases[1]: the shares sum to 99"},
		"ratio alone": {func(s *v1alpha1.TPCC) { s.Remote = v1alpha1.TPCCRemote{DistributionRatioPercent: ptr(10)} }, 2, 2,
			"remote: distributionRatioPercent and distributionDegree go together"},
		"ratio and lines": {func(s *v1alpha1.TPCC) { s.Remote.DistributionRatioPercent = ptr(10) }, 2, 2, "remote: exactly one of"},
		"degree": {func(s *v1alpha1.TPCC) {
			s.Remote = v1alpha1.TPCCRemote{DistributionRatioPercent: ptr(10), DistributionDegree: ptr(5)}
		}, 2, 2, "remote.distributionDegree: 5 is more than the partitions of all regions (4)"},
		"nobody contends": {func(s *v1alpha1.TPCC) {
			s.Mix, s.Dike = v1alpha1.TPCCMix{Payment: 100}, &v1alpha1.TPCCDike{ContentionIntensities: []int32{3}}
		}, 2, 2, "dike.contentionIntensities: new orders contend"},
		"no contention": {func(s *v1alpha1.TPCC) { s.Dike = &v1alpha1.TPCCDike{ContentionIntensities: []int32{3, 0}} }, 2, 2,
			"dike.contentionIntensities[1]: 0 is not at least 1"},
		"balances": {func(s *v1alpha1.TPCC) { s.Mix = v1alpha1.TPCCMix{SelectBalance: 100} }, 1, 3, "dike.balanceGroup: 4 is not between 2 and the number of warehouses (3)"},
		"co-access": {func(s *v1alpha1.TPCC) {
			s.Mix, s.Dike = v1alpha1.TPCCMix{UpdateStock: 100}, &v1alpha1.TPCCDike{CoAccessPercent: 5, CoAccessPartitions: 3}
		}, 2, 1, "dike.coAccessPartitions: 3 is not between 2 and the partitions of all regions (2)"},
		"uneven and placed": {func(s *v1alpha1.TPCC) {
			s.Remote.MultiHomePercent, s.Dike = ptr(100), &v1alpha1.TPCCDike{WarehousesThetaPercent: ptr(99)}
		}, 2, 2, "dike.warehousesThetaPercent: remote.multiHomePercent"},
		"theta": {func(s *v1alpha1.TPCC) { s.Dike = &v1alpha1.TPCCDike{PartitionsThetaPercent: ptr(1001)} }, 2, 2,
			"dike.partitionsThetaPercent: 1001 is not between 0 and 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(1)
			c.change(&s)
			_, err := New(s, 1, topology(c.regions, c.partitions))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "spec.workload.tpcc."+c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

var warehouses = flag.Int("warehouses", 10, "how many warehouses BenchmarkLoad loads; each takes 130 MB")

// BenchmarkLoad loads warehouses into an empty store.
func BenchmarkLoad(b *testing.B) {
	w := newTPCC(b, spec(int32(*warehouses)), topology(1, 1))
	var s *store.Hash
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	from := cpuTime(b)
	for b.Loop() {
		s = store.NewHash()
		w.Rows(geo.Cell{}, s.Load)
	}
	cpu := cpuTime(b) - from
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := float64(b.N) * float64(*warehouses)
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/n, "ms/warehouse")
	b.ReportMetric(float64(cpu.Milliseconds())/n, "cpu-ms/warehouse")
	b.ReportMetric(float64(s.Len())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(s.Bytes())/float64(*warehouses)/1e6, "data-MB/warehouse")
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(*warehouses)/1e6, "memory-MB/warehouse")
}

// cpuTime is the CPU time of this process, including the garbage collector.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRows generates the rows of a warehouse and discards them.
func BenchmarkRows(b *testing.B) {
	w := newTPCC(b, spec(1), topology(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		w.Rows(geo.Cell{}, func(txn.Key, []byte) {})
	}
}
