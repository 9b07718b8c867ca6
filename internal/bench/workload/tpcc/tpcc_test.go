package tpcc

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
)

// rng is the random generator of the tests. Its seed is fixed.
var rng = rand.New(rand.NewPCG(1, 2))

// date is the date of the transactions in tests.
const date = loadDate + 5e6

// run runs a procedure and fails the test unless it commits.
func run(t testing.TB, d *workloadtest.Database, p *txn.Procedure, args []byte) []byte {
	t.Helper()
	tx := &txn.Transaction{ID: 1}
	p.Call(tx, args)
	o := d.Run(tx)
	if o.Status != txn.Committed {
		t.Fatalf("%s: %+v", p.Name, o)
	}
	return o.Result
}

// at returns a copy of a row.
func at(t testing.TB, d *workloadtest.Database, key []byte) []byte {
	t.Helper()
	r, ok := d.Get(txn.Key(key))
	if !ok {
		t.Fatalf("there is no %s", keyName(txn.Key(key)))
	}
	return slices.Clone(r.Value)
}

func TestNewOrder(t *testing.T) {
	w := newTPCC(t, spec(2), topology(1, 1))
	d := loaded(t, w)
	const c, district = 17, 4
	stocks := func() (out []stockRow) {
		for _, s := range [][2]uint32{{1, 5}, {2, 6}, {1, 7}} {
			out = append(out, at(t, d, appendStockKey(nil, s[0], s[1])))
		}
		return out
	}
	// Items 5 and 7 are "original" in both the item and the stock row, which makes the first and the last line brand.
	for _, k := range [][]byte{appendItemKey(nil, 5), appendItemKey(nil, 7), appendStockKey(nil, 1, 5), appendStockKey(nil, 1, 7)} {
		v := at(t, d, k)
		copy(v[len(v)-10:], original)
		d.Hash.Load(txn.Key(k), v)
	}
	generic := at(t, d, appendItemKey(nil, 6))
	copy(generic[len(generic)-26:], bytes.Repeat([]byte("-"), 26))
	d.Hash.Load(txn.Key(appendItemKey(nil, 6)), generic)
	before := stocks()
	districtBefore := districtRow(at(t, d, appendDistrictKey(nil, 1, district)))
	args := appendNewOrder(nil, 1, district, c, date, 4)
	args = appendLine(args, 5, 1, 3)
	args = appendLine(args, 6, 2, 10)
	args = appendLine(args, 5, 1, 4) // the same item again
	args = appendLine(args, 7, 1, 1)
	result := run(t, d, newOrder, args)

	if o := districtRow(at(t, d, appendDistrictKey(nil, 1, district))).nextOrder(); o != districtBefore.nextOrder()+1 {
		t.Errorf("D_NEXT_O_ID is %d", o)
	}
	const o = 3001
	order := orderRow(at(t, d, appendOrderKey(nil, tableOrder, 1, district, o)))
	if order.customer() != c || order.carrier() != 0 || order.lines() != 4 || order.entered() != date || order[12] != 0 {
		t.Errorf("the order is %v", order)
	}
	at(t, d, appendOrderKey(nil, tableNewOrder, 1, district, o))
	at(t, d, appendOrderByCustomerKey(nil, 1, district, c, o))
	// Clause 2.4.2.2.
	expected := func(q, take int) int {
		if q-take >= 10 {
			return q - take
		}
		return q - take + 91
	}
	after := stocks()
	for i, x := range []struct{ take, orders, remote int }{{7, 2, 0}, {10, 1, 1}, {1, 1, 0}} {
		want := before[i].quantity()
		if i == 0 {
			want = expected(expected(want, 3), 4)
		} else {
			want = expected(want, x.take)
		}
		s := after[i]
		if s.quantity() != want || int(s.ytd()) != x.take || int(be.Uint32(s[4:])) != x.orders || int(be.Uint32(s[8:])) != x.remote {
			t.Errorf("stock %d: %d left, S_YTD %d, S_ORDER_CNT %d, S_REMOTE_CNT %d; want %d %+v", i, s.quantity(), s.ytd(), be.Uint32(s[4:]), be.Uint32(s[8:]), want, x)
		}
	}
	sum := int64(0)
	for i, x := range []struct {
		item, supplier uint32
		quantity       int64
	}{{5, 1, 3}, {6, 2, 10}, {5, 1, 4}, {7, 1, 1}} {
		line := orderLineRow(at(t, d, appendOrderLineKey(nil, 1, district, o, i+1)))
		amount := x.quantity * itemRow(at(t, d, appendItemKey(nil, x.item))).price()
		info := stockRow(at(t, d, appendStockKey(nil, x.supplier, x.item))).distInfo(district)
		if line.item() != x.item || be.Uint32(line[16:]) != x.supplier || int64(line[20]) != x.quantity || line.amount() != amount || line.delivered() != 0 ||
			!bytes.Equal(line[21:], info) {
			t.Errorf("line %d is %v, want %+v for %d", i+1, line, x, amount)
		}
		sum += amount
	}
	if info := stockRow(at(t, d, appendStockKey(nil, 1, 5))); bytes.Equal(info.distInfo(4), info.distInfo(5)) {
		t.Error("two districts have the same S_DIST")
	}
	discount, tax := customerRow(at(t, d, appendCustomerKey(nil, 1, district, c))).discount(), warehouseRow(at(t, d, appendWarehouseKey(nil, 1))).tax()+districtBefore.tax()
	total := int64(float64(sum) * (1 - float64(discount)/1e4) * (1 + float64(tax)/1e4))
	if got := int64(be.Uint64(result[4:])); be.Uint32(result) != o || max(got-total, total-got) > 1 {
		t.Errorf("the result is order %d for %d, want %d for %d", be.Uint32(result), got, o, total)
	}
	if brand := be.Uint16(result[12:]); brand != 0b1101 {
		t.Errorf("brand lines are %04b, want 1101", brand)
	}
	if failed := verify(t, w, ledgerOf(0, 1, 18, 0), w.Audit(d.Rows())); failed != nil {
		t.Errorf("after an order: %v", failed)
	}
}

// TestRollback checks that an order with an unused item does not change the database (clause 2.4.1.4).
func TestRollback(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	d := loaded(t, w)
	digest := store.Digest(d.Hash)
	args := appendNewOrder(nil, 1, 1, 1, date, 2)
	args = appendLine(appendLine(args, 5, 1, 3), unusedItem, 1, 3)
	tx := &txn.Transaction{ID: 1}
	newOrder.Call(tx, args)
	if o := d.Run(tx); o.Status != txn.Aborted || o.Cause != txn.CauseProcedure || o.Reason != "unused-item" {
		t.Errorf("the outcome is %+v", o)
	}
	if store.Digest(d.Hash) != digest {
		t.Error("the rollback has changed the database")
	}
}

func TestPayment(t *testing.T) {
	w := newTPCC(t, spec(2), topology(1, 1))
	d := loaded(t, w)
	// Customer 5 of district 9 of warehouse 2 has good credit, customer 6 bad credit.
	for c, credit := range map[uint16]string{5: goodCredit, 6: badCredit} {
		k := appendCustomerKey(nil, 2, 9, c)
		v := at(t, d, k)
		copy(v[42:], credit)
		d.Hash.Load(txn.Key(k), v)
	}
	for i, c := range []uint16{5, 6} {
		customer := func() customerRow { return at(t, d, appendCustomerKey(nil, 2, 9, c)) }
		before := customer()
		result := run(t, d, payment, appendPayment(nil, 1, 3, selector{w: 2, d: 9, number: c}, date, 77+uint64(i), 123_45))
		after := customer()
		if after.balance() != before.balance()-12345 || after.ytdPayment() != before.ytdPayment()+12345 || after.payments() != 2 || after.deliveries() != 0 {
			t.Errorf("the customer is %v", after)
		}
		data, old := string(after[after.dataAt():]), string(before[before.dataAt():])
		want := old
		if c == 6 {
			want = "6 9 2 3 1 12345 " + old
			want = want[:min(len(want), 500)]
		}
		if data != want {
			t.Errorf("customer %d: C_DATA is %q, want %q", c, data, want)
		}
		if be.Uint16(result) != c || int64(be.Uint64(result[2:])) != after.balance() {
			t.Errorf("the result is %x", result)
		}
		h := historyRow(at(t, d, appendHistoryKey(nil, 1, 77+uint64(i))))
		warehouse, district := warehouseRow(at(t, d, appendWarehouseKey(nil, 1))), districtRow(at(t, d, appendDistrictKey(nil, 1, 3)))
		if h.customersWarehouse() != 2 || h.customersDistrict() != 9 || h.district() != 3 || h.customer() != c || h.amount() != 12345 ||
			string(h[historyHead:]) != string(warehouse.name())+"    "+string(district.name()) {
			t.Errorf("the history is %q", h)
		}
		paid := int64(i+1) * 12345
		if warehouse.ytd() != w.size.warehouseYTD()+paid || district.ytd() != w.size.districtYTD()+paid {
			t.Errorf("W_YTD %d, D_YTD %d", warehouse.ytd(), district.ytd())
		}
	}
	if failed := verify(t, w, ledgerOf(2*12345, 0, 0, 0), w.Audit(d.Rows())); failed != nil {
		t.Errorf("after payments: %v", failed)
	}
}

// TestByLastName checks that a lookup by last name finds the middle customer in the order of first names (clause
// 2.5.2.2).
func TestByLastName(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	d := loaded(t, w)
	type person struct {
		first string
		c     uint16
	}
	byName := map[string][]person{}
	d.Each(func(k txn.Key, r store.Record) {
		if k.Table() == tableCustomer && districtOf(k) == 2 {
			v := customerRow(r.Value)
			byName[string(v.last())] = append(byName[string(v.last())], person{string(v.first()), customerOf(k)})
		}
	})
	even := 0
	for n := range uint16(lastNames) {
		namesakes := byName[string(appendLastName(nil, int(n)))]
		slices.SortFunc(namesakes, func(a, b person) int {
			if a.first != b.first {
				if a.first < b.first {
					return -1
				}
				return 1
			}
			return int(a.c) - int(b.c)
		})
		want := namesakes[(len(namesakes)+1)/2-1].c
		if len(namesakes)%2 == 0 {
			even++
		}
		by := selector{w: 1, d: 2, name: true, number: n}
		if got := be.Uint16(run(t, d, orderStatus, by.append(nil))); got != want {
			t.Fatalf("name %d: customer %d of %v, want %d", n, got, namesakes, want)
		}
	}
	if even < 100 {
		t.Errorf("only %d names have an even number of customers", even)
	}
}

func TestOrderStatus(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	d := loaded(t, w)
	args := appendNewOrder(nil, 1, 2, 7, date, 2)
	args = appendLine(appendLine(args, 10, 1, 1), 11, 1, 2)
	run(t, d, newOrder, args)
	by := selector{w: 1, d: 2, number: 7}
	result := run(t, d, orderStatus, by.append(nil))
	if len(result) != 23+2*12 || be.Uint32(result[10:]) != 3001 || be.Uint64(result[14:]) != date || result[22] != 0 {
		t.Errorf("the last order is %x", result)
	}
	for i := range 2 {
		line := orderLineRow(at(t, d, appendOrderLineKey(nil, 1, 2, 3001, i+1)))
		if got := result[23+12*i:]; be.Uint64(got) != 0 || int64(be.Uint32(got[8:])) != line.amount() {
			t.Errorf("line %d is %x, want %d", i+1, got[:12], line.amount())
		}
	}
}

func TestDelivery(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	d := loaded(t, w)
	// District 3 has no new order: clause 2.7.4.2 skips it.
	for o := uint32(firstUndelivered); o <= customersPerDistrict; o++ {
		d.Delete(txn.Key(appendOrderKey(nil, tableNewOrder, 1, 3, o)))
	}
	customer := func(district uint8) customerRow {
		order := orderRow(at(t, d, appendOrderKey(nil, tableOrder, 1, district, firstUndelivered)))
		return at(t, d, appendCustomerKey(nil, 1, district, order.customer()))
	}
	var before [districtsPerWarehouse + 1]customerRow
	for district := uint8(1); district <= districtsPerWarehouse; district++ {
		before[district] = customer(district)
	}
	result := run(t, d, delivery, appendDelivery(nil, 1, 6, date))
	for district := uint8(1); district <= districtsPerWarehouse; district++ {
		o := be.Uint32(result[4*(district-1):])
		order := orderRow(at(t, d, appendOrderKey(nil, tableOrder, 1, district, firstUndelivered)))
		after := customer(district)
		if district == 3 {
			if o != 0 || order.carrier() != 0 || !bytes.Equal(after, before[3]) {
				t.Errorf("order %d is delivered to the district that has none", o)
			}
			continue
		}
		if _, still := d.Get(txn.Key(appendOrderKey(nil, tableNewOrder, 1, district, firstUndelivered))); o != firstUndelivered || order.carrier() != 6 || still {
			t.Errorf("district %d: order %d, carrier %d, still new: %v", district, o, order.carrier(), still)
		}
		sum := int64(0)
		for number := 1; number <= order.lines(); number++ {
			line := orderLineRow(at(t, d, appendOrderLineKey(nil, 1, district, firstUndelivered, number)))
			sum += line.amount()
			if line.delivered() != date {
				t.Errorf("line %d of district %d is delivered at %d", number, district, line.delivered())
			}
		}
		if after.balance() != before[district].balance()+sum || after.deliveries() != 1 || sum == 0 {
			t.Errorf("district %d: the balance goes from %d to %d for %d", district, before[district].balance(), after.balance(), sum)
		}
	}
	if second := run(t, d, delivery, appendDelivery(nil, 1, 6, date)); be.Uint32(second) != firstUndelivered+1 {
		t.Errorf("the second delivery is of order %d", be.Uint32(second))
	}
}

func TestStockLevel(t *testing.T) {
	w := newTPCC(t, spec(1), topology(1, 1))
	d := loaded(t, w)
	for _, threshold := range []uint8{10, 15, 20} {
		low := map[uint32]bool{}
		for o := uint32(2981); o <= 3000; o++ {
			d.Scan(txn.Prefix(txn.Key(appendOrderKey(nil, tableOrderLine, 1, 5, o))), func(_ txn.Key, r store.Record) bool {
				item := orderLineRow(r.Value).item()
				if stockRow(at(t, d, appendStockKey(nil, 1, item))).quantity() < int(threshold) {
					low[item] = true
				}
				return true
			})
		}
		if got := be.Uint32(run(t, d, stockLevel, appendStockLevel(nil, 1, 5, threshold))); int(got) != len(low) {
			t.Errorf("%d items are below %d, want %d", got, threshold, len(low))
		}
	}
}

func FuzzArguments(f *testing.F) {
	w := newTPCC(f, spec(1), topology(1, 1))
	for _, s := range samples(f, w) {
		f.Add(uint8(s.Proc-procNewOrder), s.Args)
	}
	f.Fuzz(func(t *testing.T, kind uint8, args []byte) {
		p := procedures[kind%numTypes]
		var footprint txn.Footprint
		if p.Declare(args, &footprint) != nil {
			return
		}
		tx := &txn.Transaction{ID: 1, Proc: p.ID, Args: args}
		if err := txn.NewRegistry(Procedures()...).Prepare(tx); err != nil {
			t.Fatalf("%s declares what no database takes: %v", p.Name, err)
		}
		seen := map[txn.Key]bool{}
		for _, a := range footprint.Accesses {
			if seen[a.Key] {
				t.Fatalf("%v occurs twice", a.Key)
			}
			seen[a.Key] = true
		}
		// In an empty database, every procedure except delivery returns an error.
		if _, err := p.Run(&store.View{Rows: store.NewHash()}, args); err == nil && p != delivery {
			t.Fatalf("%s succeeds in an empty database", p.Name)
		}
		// A procedure returns an error on malformed rows.
		if _, err := p.Run(&store.View{Rows: damaged{}}, args); err == nil {
			t.Fatalf("%s succeeds on damaged rows", p.Name)
		}
	})
}

// damaged is a state in which every row exists, with a value that is too short.
type damaged struct{}

func (damaged) Get(txn.Key) (store.Record, bool) { return store.Record{Value: []byte{1}}, true }
func (damaged) Scan(r txn.Range, f func(txn.Key, store.Record) bool) {
	f(r.From+"\x00\x00\x00\x00\x01", store.Record{Value: []byte{1}})
}

// samples returns a transaction of each type, from a generator.
func samples(t testing.TB, w *TPCC) []*txn.Transaction {
	t.Helper()
	out := make([]*txn.Transaction, numTypes)
	for n := 0; slices.Contains(out, nil); n++ {
		tx, r := nextOf(w, n)
		if r.Type == typeNewOrder && newOrderArgs(tx.Args).item(newOrderArgs(tx.Args).lines()-1) == unusedItem {
			continue
		}
		out[r.Type] = tx
	}
	return out
}

// TestForms runs the same transactions in several forms: as plain procedures, as traced procedures, and as a task that
// receives rows as it requests them. All forms must return the same results and leave the same rows.
func TestForms(t *testing.T) {
	s := spec(1)
	s.RollbackPercent = 10
	w := newTPCC(t, s, topology(2, 1))
	plain, traced := loaded(t, w), workloadtest.NewTraced(t, Procedures()...).Load(w, w.topology)
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 10, Stream: 1})
	registry := txn.NewRegistry(Procedures()...)
	// The maximum number of round trips per type, with the footprint as a hint and without.
	var hinted, interactive [numTypes]int
	for i := range 2000 {
		tx := &txn.Transaction{ID: txn.ID(i + 1)}
		r := g.Next(i%10, 0, tx)
		byTask := runTask(t, registry, tx, plain, false, &hinted[r.Type])
		alone := runTask(t, registry, tx, plain, true, &interactive[r.Type])
		o := plain.Run(tx)
		g.Done(i%10, o)
		for what, other := range map[string]txn.Outcome{"traced": traced.Run(tx), "by a task": byTask, "by an interactive task": alone} {
			if other.Status != o.Status || other.Reason != o.Reason || !bytes.Equal(other.Result, o.Result) {
				t.Fatalf("%s %s: %+v, plain %+v", typeNames[r.Type], what, other, o)
			}
		}
	}
	// A payment by name reads warehouse, district and names together, and then the customer. An order status by name reads
	// names, customer, index, order and lines. A delivery reads the oldest orders, the orders, the lines of ten orders one
	// after another, and the customers. A stock level reads district and lines, and then the stock.
	if want := [numTypes]int{typeNewOrder: 1, typePayment: 2, typeOrderStatus: 5, typeDelivery: 13, typeStockLevel: 2}; hinted != want {
		t.Errorf("with hints there are up to %v round trips, want %v", hinted, want)
	}
	if want := [numTypes]int{typeNewOrder: 4, typePayment: 4, typeOrderStatus: 5, typeDelivery: 22, typeStockLevel: 3}; interactive != want {
		t.Errorf("without hints there are up to %v round trips, want %v", interactive, want)
	}
	a, b := w.Audit(plain.Rows()), w.Audit(traced.Rows())
	if failed := verify(t, w, g.Ledger(), a, b); failed != nil {
		t.Errorf("plain and traced: %v", failed)
	}
	left := plain.Len()
	traced.Rows().Each(func(k txn.Key, v []byte) {
		left--
		if r, ok := plain.Get(k); !ok || !bytes.Equal(r.Value, v) {
			t.Errorf("%s is %x traced, %x plain", keyName(k), v, r.Value)
		}
	})
	if left != 0 {
		t.Errorf("the traced database has %d rows less", left)
	}
}

// runTask runs a transaction as a task on the database's rows. It sets trips to the maximum of trips and the number of
// round trips.
func runTask(t *testing.T, procs *txn.Registry, tx *txn.Transaction, d *workloadtest.Database, interactive bool, trips *int) txn.Outcome {
	t.Helper()
	k := rerun.New(procs, tx, d.Hash, interactive)
	n := 0
	for needs := k.Step(); len(needs) > 0; needs = k.Step() {
		n++
		for _, need := range needs {
			read := rerun.Read{Range: need.Range}
			d.Scan(need.Range, func(key txn.Key, r store.Record) bool {
				read.Rows = append(read.Rows, rerun.Row{Key: key, Record: r})
				return true
			})
			k.Supply(read)
		}
	}
	*trips = max(*trips, n)
	result, err := k.Result()
	if err != nil {
		return txn.AbortOutcome(tx.ID, err)
	}
	return txn.Outcome{ID: tx.ID, Status: txn.Committed, Result: result}
}

// BenchmarkProcedures declares and runs transactions of each type on a loaded warehouse. It discards their writes.
func BenchmarkProcedures(b *testing.B) {
	w := newTPCC(b, spec(1), topology(1, 1))
	d := loaded(b, w)
	var args [numTypes][][]byte
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: 1})
	for range 20_000 {
		tx := &txn.Transaction{}
		r := g.Next(0, 0, tx)
		kind := int(r.Type)
		if len(args[kind]) < 500 {
			args[kind] = append(args[kind], tx.Args)
		}
	}
	for kind, p := range procedures {
		b.Run(p.Name, func(b *testing.B) {
			b.ReportAllocs()
			view := &store.View{Rows: d.Hash}
			tx := &txn.Transaction{}
			from := cpuTime(b)
			for i := 0; b.Loop(); i++ {
				p.Call(tx, args[kind][i%len(args[kind])])
				view.Writes.Reset()
				if _, err := p.Run(view, tx.Args); err != nil && err != abortUnusedItem {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-from)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkAudit audits a warehouse.
func BenchmarkAudit(b *testing.B) {
	w := newTPCC(b, spec(1), topology(1, 1))
	rows := loaded(b, w).Rows()
	from := cpuTime(b)
	for b.Loop() {
		w.Audit(rows)
	}
	b.ReportMetric(float64(cpuTime(b)-from)/float64(b.N), "cpu-ns/op")
}
