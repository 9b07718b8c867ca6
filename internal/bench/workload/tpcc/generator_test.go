package tpcc

import (
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// nextOf returns the n-th transaction of a new generator.
func nextOf(w *TPCC, n int) (*txn.Transaction, workload.Request) {
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: uint32(n)})
	tx := &txn.Transaction{ID: txn.MakeID(uint32(n), 1)}
	return tx, g.Next(0, 0, tx)
}

// Without Dike's parameters, a seed produces the same transactions as before these parameters existed, which keeps
// published results reproducible.
func TestTransactionsStay(t *testing.T) {
	hash := fnv.New64a()
	for name, change := range map[string]func(*v1alpha1.TPCC){
		"by lines":  func(*v1alpha1.TPCC) {},
		"by orders": func(s *v1alpha1.TPCC) { s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(20), PaymentPercent: 20} },
	} {
		hash.Reset()
		s := spec(5)
		change(&s)
		g := newTPCC(t, s, topology(3, 2)).NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 10, Stream: 3})
		for i := range 10_000 {
			tx := &txn.Transaction{ID: txn.MakeID(3, uint64(i)+1)}
			g.Next(i%10, time.Duration(i)*time.Millisecond, tx)
			hash.Write(tx.Args) //nolint:errcheck // it never fails
			g.Done(i%10, txn.Outcome{ID: tx.ID, Status: txn.Aborted})
		}
		if got, want := hash.Sum64(), map[string]uint64{"by lines": 0xe273cb8ad313c681, "by orders": 0x73e2afc32191543}[name]; got != want {
			t.Errorf("%s: the transactions have hash %#x, want %#x", name, got, want)
		}
	}
}

// TestShares compares a generator's counts with the contents of the transactions, and both with the manifest.
func TestShares(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		warehouses          int32
		change              func(*v1alpha1.TPCC)
		// The expected share of remote order lines (or of remote new orders), and the expected shares of multi-home and
		// multi-partition accesses among these.
		remote, multiHome, multiPartition float64
	}{
		"standard":        {3, 2, 5, func(*v1alpha1.TPCC) {}, 0.01, 20. / 29, 15. / 29},
		"one warehouse":   {1, 1, 1, func(*v1alpha1.TPCC) {}, 0, 0, 0},
		"one, by orders":  {1, 1, 1, func(s *v1alpha1.TPCC) { s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(20), PaymentPercent: 20} }, 0, 0, 0},
		"ten in a cell":   {1, 1, 10, func(*v1alpha1.TPCC) {}, 0.01, 0, 0},
		"other region":    {3, 1, 1, func(s *v1alpha1.TPCC) { s.Remote.MultiHomePercent = ptr(100) }, 0.01, 1, 0},
		"other partition": {2, 4, 1, func(s *v1alpha1.TPCC) { s.Remote.MultiPartitionPercent = ptr(100) }, 0.01, 0, 1},
		"by transactions": {3, 1, 2, func(s *v1alpha1.TPCC) {
			s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(20), PaymentPercent: 20, MultiHomePercent: ptr(50)}
		}, 0.2, 0.5, 0},
		"both": {2, 2, 2, func(s *v1alpha1.TPCC) {
			s.Remote = v1alpha1.TPCCRemote{OrderLinePercent: ptr(50), PaymentPercent: 50, MultiHomePercent: ptr(30), MultiPartitionPercent: ptr(60)}
		}, 0.5, 0.3, 0.6},
		"fifty fifty":      {2, 1, 1, func(s *v1alpha1.TPCC) { s.Mix = v1alpha1.TPCCMix{NewOrder: 50, Payment: 50} }, 0.01, 1, 0},
		"by number":        {2, 1, 1, func(s *v1alpha1.TPCC) { s.ByLastNamePercent = 0 }, 0.01, 1, 0},
		"all roll back":    {2, 1, 1, func(s *v1alpha1.TPCC) { s.RollbackPercent = 100 }, 0.01, 1, 0},
		"all remote":       {2, 1, 1, func(s *v1alpha1.TPCC) { s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(100), PaymentPercent: 100} }, 1, 1, 0},
		"no remote at all": {2, 1, 1, func(s *v1alpha1.TPCC) { s.Remote = v1alpha1.TPCCRemote{NewOrderPercent: ptr(0)} }, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(c.warehouses)
			c.change(&s)
			top := topology(c.regions, c.partitions)
			w := newTPCC(t, s, top)
			region := geo.Region(c.regions - 1)
			g := w.NewGenerator(workload.GeneratorConfig{Region: region, Clients: 10, Stream: 3})
			place := top.Placement()
			var counts [numShares]workload.Count
			const n = 40_000
			// The warm-up is not counted.
			for i := range 1000 {
				g.Next(i%10, -time.Second, &txn.Transaction{ID: txn.ID(i + 1)})
				g.Done(i%10, txn.Outcome{Status: txn.Aborted})
			}
			for i := range n {
				tx := &txn.Transaction{ID: txn.ID(i + 1)}
				r := g.Next(i%10, time.Duration(i)*time.Millisecond, tx)
				if want := place.Class(tx.Accesses); r.Class != want {
					t.Fatalf("class %v, but the keys have class %v", r.Class, want)
				}
				if home := place.Home(tx.Accesses[0].Key); home != region && r.Type != typeOrderStatus {
					t.Fatalf("%s starts at home %d, the client is in %d", typeNames[r.Type], home, region)
				}
				for kind := range numTypes {
					counts[kind].Add(int(r.Type) == kind)
				}
				countShares(&counts, w, tx, r)
				g.Done(i%10, txn.Outcome{ID: tx.ID, Status: txn.Aborted, Cause: txn.CauseConflict})
			}
			if diff := cmp.Diff(counts[:], g.Realised()); diff != "" {
				t.Errorf("the generator counts otherwise: %s", diff)
			}
			if c := counts[0]; c.Of != n {
				t.Errorf("%d transactions are counted, want %d", c.Of, n)
			}
			workloadtest.Near(t, w.Shares(), g.Realised())
			for i, want := range map[int]float64{shareRemoteOrders: c.remote, shareOrdersMultiHome: c.multiHome, shareOrdersMultiPartition: c.multiPartition} {
				if counts[i].Of > 0 {
					workloadtest.NearShare(t, w.Shares()[i].Name+" of "+w.Shares()[i].Of, int(counts[i].Hits), int(counts[i].Of), want)
				}
			}
		})
	}
}

// countShares counts the shares of a transaction from its arguments.
func countShares(counts *[numShares]workload.Count, w *TPCC, tx *txn.Transaction, r workload.Request) {
	place := w.topology.Placement()
	remote := func(at int, home, other uint32) {
		a, b := place.Cell(txn.Key(appendWarehouseKey(nil, home))), place.Cell(txn.Key(appendWarehouseKey(nil, other)))
		counts[at].Add(a.Home != b.Home)
		counts[at+1].Add(a.Partition != b.Partition)
	}
	switch r.Type {
	case typeNewOrder:
		a := newOrderArgs(tx.Args)
		any := false
		for i := range a.lines() {
			other := a.supplier(i) != a.warehouse()
			any = any || other
			if w.spec.Remote.OrderLinePercent != nil {
				counts[shareRemoteOrders].Add(other)
			}
			if other {
				remote(shareOrdersMultiHome, a.warehouse(), a.supplier(i))
			}
		}
		if w.spec.Remote.NewOrderPercent != nil {
			counts[shareRemoteOrders].Add(any)
		}
		counts[shareRollbacks].Add(a.item(a.lines()-1) > items)
	case typePayment:
		a := paymentArgs(tx.Args)
		counts[shareRemotePayments].Add(a.customer().w != a.warehouse())
		if a.customer().w != a.warehouse() {
			remote(sharePaymentsMultiHome, a.warehouse(), a.customer().w)
		}
		counts[shareByLastName].Add(a.customer().name)
	case typeOrderStatus:
		counts[shareByLastName].Add(readSelector(tx.Args).name)
	}
}

// TestDraws checks the arguments that a generator draws (clauses 2.4.1 to 2.8.1).
func TestDraws(t *testing.T) {
	for _, districts := range []v1alpha1.TPCCDistricts{v1alpha1.DistrictsAny, v1alpha1.DistrictsOwn} {
		s := spec(2)
		s.Districts = districts
		w := newTPCC(t, s, topology(2, 2))
		g := w.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1, FirstClient: 13, Stream: 3})
		x := g.(*generator).terminals[0]
		lines, suppliers, used, history := map[int]int{}, map[uint32]bool{}, map[uint8]bool{}, map[uint64]bool{}
		for range 20_000 {
			tx := &txn.Transaction{}
			switch r := g.Next(0, time.Second, tx); r.Type {
			case typeNewOrder:
				a := newOrderArgs(tx.Args)
				lines[a.lines()]++
				used[a.district()] = true
				for i := range a.lines() {
					suppliers[a.supplier(i)] = true
					if q := a.quantity(i); q < 1 || q > 10 || a.item(i) < 1 || a.item(i) > items && i < a.lines()-1 {
						t.Fatalf("line %d: item %d, quantity %d", i, a.item(i), q)
					}
				}
				if a.warehouse() != x.warehouse || a.date() != loadDate+1e6 || a.customer() < 1 || a.customer() > customersPerDistrict {
					t.Fatalf("warehouse %d, date %d, customer %d", a.warehouse(), a.date(), a.customer())
				}
			case typePayment:
				a := paymentArgs(tx.Args)
				if a.warehouse() != x.warehouse || a.amount() < 1_00 || a.amount() > 5000_00 || history[a.history()] {
					t.Fatalf("warehouse %d, amount %d, history %x", a.warehouse(), a.amount(), a.history())
				}
				if c := a.customer(); c.w == a.warehouse() && c.d != a.district() {
					t.Fatalf("a customer of district %d pays in district %d of the same warehouse", c.d, a.district())
				}
				history[a.history()] = true
			case typeStockLevel:
				a := stockLevelArgs(tx.Args)
				if a.warehouse(0) != x.warehouse || a.warehouses() != 1 || a.district() != x.district || a.threshold() < 10 || a.threshold() > 20 {
					t.Fatalf("stock level of %d, %d below %d", a.warehouse(0), a.district(), a.threshold())
				}
			case typeDelivery:
				if a := deliveryArgs(tx.Args); a.warehouse() != x.warehouse || a.carrier() < 1 || a.carrier() > 10 {
					t.Fatalf("delivery of %d by %d", a.warehouse(), a.carrier())
				}
			}
		}
		total := 0
		for _, n := range lines {
			total += n
		}
		for n := 5; n <= 15; n++ {
			workloadtest.NearShare(t, "orders of a size", lines[n], total, 1./11)
		}
		if len(suppliers) != w.warehouses() || len(lines) != 11 {
			t.Errorf("%d of %d warehouses supply, orders of %d sizes", len(suppliers), w.warehouses(), len(lines))
		}
		if want := map[v1alpha1.TPCCDistricts]int{v1alpha1.DistrictsAny: 10, v1alpha1.DistrictsOwn: 1}[districts]; len(used) != want {
			t.Errorf("%s: orders in %d districts, want %d", districts, len(used), want)
		}
	}
}

// TestTerminals checks that the clients of a region fill its warehouses evenly, regardless of their generators.
func TestTerminals(t *testing.T) {
	top := topology(2, 2)
	w := newTPCC(t, spec(3), top)
	seen := map[[2]uint32]int{}
	first := 0
	for _, clients := range []int{7, 20, 33} {
		g := w.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: clients, FirstClient: first}).(*generator)
		first += clients
		for _, x := range g.terminals {
			if home := top.Placement().Home(txn.Key(appendWarehouseKey(nil, x.warehouse))); home != 1 {
				t.Fatalf("warehouse %d is in region %d", x.warehouse, home)
			}
			seen[[2]uint32{x.warehouse, uint32(x.district)}]++
		}
	}
	if len(seen) != 60 {
		t.Errorf("60 clients are at %d places of six warehouses: %v", len(seen), seen)
	}
}

// TestAnyWarehouse checks that a client with warehouses Any uses all warehouses equally, including warehouses of other
// regions.
func TestAnyWarehouse(t *testing.T) {
	s := spec(3)
	s.Warehouses = v1alpha1.WarehousesAny
	s.Mix, s.Remote = v1alpha1.TPCCMix{NewOrder: 50, Payment: 50}, v1alpha1.TPCCRemote{NewOrderPercent: ptr(0)}
	w := newTPCC(t, s, topology(2, 1))
	g := w.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1})
	const n = 12_000
	seen := map[uint32]int{}
	for range n {
		tx := &txn.Transaction{}
		if r := g.Next(0, time.Second, tx); r.Type == typeNewOrder {
			a := newOrderArgs(tx.Args)
			seen[a.warehouse()]++
			for i := range a.lines() {
				if a.supplier(i) != a.warehouse() {
					t.Fatalf("an order at warehouse %d is supplied by %d", a.warehouse(), a.supplier(i))
				}
			}
		} else {
			seen[paymentArgs(tx.Args).warehouse()]++
		}
	}
	if len(seen) != 6 {
		t.Errorf("transactions at %d of 6 warehouses", len(seen))
	}
	for _, of := range seen {
		workloadtest.NearShare(t, "transactions at a warehouse", of, n, 1./6)
	}
}

// TestFewerRows checks that a warehouse with 1% of the rows satisfies all conditions, and that every transaction finds
// the rows that it needs.
func TestFewerRows(t *testing.T) {
	s := spec(1)
	s.RowsPercent = 1
	workloadtest.Rows(t, workloadtest.Bind(t, New, s, topology(2, 1), Procedures()))
	w := newTPCC(t, s, topology(1, 1))
	d := loaded(t, w)
	if want := 1000 + 1000 + 1 + 10*(1+30*5+9); d.Len()-int(w.Audit(d.Rows())[totalNames[totalOrderLines]]) != want {
		t.Errorf("%d rows without order lines, want %d", d.Len()-int(w.Audit(d.Rows())[totalNames[totalOrderLines]]), want)
	}
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 10})
	for i := range 3000 {
		tx := &txn.Transaction{ID: txn.ID(i + 1)}
		g.Next(i%10, time.Second, tx)
		o := d.Run(tx)
		g.Done(i%10, o)
		if o.Status != txn.Committed && o.Reason != string(abortUnusedItem) {
			t.Fatalf("transaction %d: %+v", i, o)
		}
	}
	if failed := verify(t, w, g.Ledger(), w.Audit(d.Rows())); failed != nil {
		t.Errorf("failed: %v", failed)
	}
}

func TestTimes(t *testing.T) {
	s := spec(1)
	s.KeyingAndThinkTimePercent = 50
	w := newTPCC(t, s, topology(1, 1))
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
	var sum [numTypes]time.Duration
	var n [numTypes]int
	for range 50_000 {
		r := g.Next(0, 0, &txn.Transaction{})
		if r.Keying != keyingTimes[r.Type]/2 || r.Think > 5*thinkTimes[r.Type] {
			t.Fatalf("%s: %v of keying, %v of thinking", typeNames[r.Type], r.Keying, r.Think)
		}
		sum[r.Type] += r.Think
		n[r.Type]++
	}
	for kind, mean := range thinkTimes[:numTypes] {
		if got, want := sum[kind].Seconds()/float64(n[kind]), mean.Seconds()/2; got < 0.9*want || got > 1.1*want {
			t.Errorf("%s: a client thinks for %.2f s, want %.2f", typeNames[kind], got, want)
		}
	}
	if _, r := nextOf(newTPCC(t, spec(1), topology(1, 1)), 1); r.Keying != 0 || r.Think != 0 {
		t.Errorf("times by default: %+v", r)
	}
}

// ledgerOf returns a ledger without unknown outcomes.
func ledgerOf(payments, orders, quantity, deliveries int64) workload.Ledger {
	l := workload.Ledger{}
	for i, n := range [numSums]int64{payments, orders, quantity, deliveries} {
		l[ledgerNames[i]] = workload.Interval{Low: n, High: n}
	}
	return l
}

func TestSuite(t *testing.T) {
	s := spec(1)
	s.RollbackPercent = 10
	workloadtest.Rows(t, workloadtest.Bind(t, New, s, topology(2, 1), Procedures()))
	c := workloadtest.Bind(t, New, s, topology(1, 1), Procedures())
	const unused = "an item that is not used has no stock, which shows only when the item is read"
	c.Untouched = map[string]string{"newOrder: read of t4": unused, "newOrder: write of t4": unused}
	workloadtest.Shares(t, c, 6000, nil)
	workloadtest.Ledger(t, c, 3000)
	workloadtest.Streams(t, c, 500)
	// Rows end with texts. The consistency conditions do not cover these texts, nor O_ENTRY_D and O_ALL_LOCAL.
	workloadtest.Invariants(t, c, 200, "t1 altered at its end", "t2 altered at its end", "t3 altered at its end", "t4 altered at its end",
		"t5 altered at its end", "t6 altered at its start", "t6 altered at its end", "t8 altered at its end")
}

func TestCommittedRollback(t *testing.T) {
	w := newTPCC(t, spec(1), topology(2, 1))
	d := database(t, w)
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 4, Stream: 1})
	// Commit an order despite its unused item.
	for i := 0; ; i++ {
		tx := &txn.Transaction{ID: txn.ID(100_000 + i)}
		if r := g.Next(0, 0, tx); r.Type == typeNewOrder && g.(*generator).terminals[0].rollback {
			g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Committed})
			break
		}
		g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Aborted})
	}
	if failed := d.Verify(w, g.Ledger()); len(failed) != 1 || !strings.HasPrefix(failed[0], "tpcc-rollback: ") {
		t.Errorf("a rollback that was committed: %v", failed)
	}
}

func BenchmarkNext(b *testing.B) {
	w := newTPCC(b, spec(10), topology(2, 1))
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
	b.ReportAllocs()
	for b.Loop() {
		g.Next(0, 0, &txn.Transaction{})
		g.Done(0, txn.Outcome{Status: txn.Aborted})
	}
}
