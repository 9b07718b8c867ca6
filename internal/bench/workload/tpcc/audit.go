package tpcc

import (
	"maps"
	"slices"
	"strconv"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Audit checks the consistency conditions 3.3.2.1 to 3.3.2.12 on a shard. All returned sums can be added over the
// shards of a copy. Totals have plain names. Each violation of a condition at a warehouse or district is a sum whose
// name comes from workload.FindingName.
//
// A customer's payments may lie in the shards of other warehouses (clause 2.5.1.2), so a single shard cannot check
// conditions 10 and 12. Both sides of these conditions are linear in the rows, so Audit sums the differences: see
// workload.Imbalance. The memory does not grow with the number of rows, except for the orders of one district at a
// time.
func (t *TPCC) Audit(rows workload.Rows) map[string]int64 {
	a := &audit{t: t, rows: rows, delivered: int64(t.size.firstUndelivered - 1), warehouses: map[uint32]*warehouseAudit{}, sums: map[string]int64{}}
	rows.Each(a.row)
	for _, w := range slices.Sorted(maps.Keys(a.warehouses)) {
		a.judge(w)
	}
	for i, n := range a.totals {
		a.sums[totalNames[i]] = n
	}
	return a.sums
}

// Totals of an audit, in addition to the totals of ledgers.
const (
	totalWarehouses = numSums + iota
	totalDistricts
	totalCustomers
	totalStock
	totalCustomersByName
	totalHistory
	totalNewOrders
	totalOrderLines
	totalOrdersByCustomer
	numTotals
)

// totalNames starts with the totals that ledgers also have, in the ledgers' order.
var totalNames = [numTotals]string{"W_YTD", "orders", "S_YTD", "deliveries",
	"warehouses", "districts", "customers", "stock", "customers-by-name", "history", "new-orders", "order-lines", "orders-by-customer"}

type audit struct {
	t          *TPCC
	rows       workload.Rows
	delivered  int64 // orders of a district that were loaded as delivered
	warehouses map[uint32]*warehouseAudit
	last       *warehouseAudit // the warehouse of the previous row, with its number
	lastNumber uint32
	totals     [numTotals]int64
	sums       map[string]int64

	// Orders of the district that is being checked.
	orders    []orderAudit
	newOrders []uint32
}

// warehouseAudit contains the sums over all rows of one warehouse.
type warehouseAudit struct {
	here         bool // the shard stores its row or a row of its districts
	ytd, history int64
	districts    [districtsPerWarehouse]districtAudit
}

type districtAudit struct {
	here                bool
	ytd, history        int64
	nextOrder           int64
	deliveries          int64              // sum of C_DELIVERY_CNT
	balance, ytdPayment workload.Imbalance // of conditions 10 and 12
}

type orderAudit struct {
	o        uint32
	customer uint16
	carrier  bool
	lines    int
	found    int // number of its rows in ORDER-LINE
}

func (a *audit) of(w uint32) *warehouseAudit {
	if a.last == nil || a.lastNumber != w {
		x := a.warehouses[w]
		if x == nil {
			x = &warehouseAudit{}
			a.warehouses[w] = x
		}
		a.last, a.lastNumber = x, w
	}
	return a.last
}

// district returns the state of a district, or nil if the number is invalid.
func (x *warehouseAudit) district(d uint8) *districtAudit {
	if d < 1 || d > districtsPerWarehouse {
		return nil
	}
	return &x.districts[d-1]
}

// row adds a row of the shard. Rows may come in any order. A damaged row counts as missing.
func (a *audit) row(k txn.Key, v []byte) {
	switch k.Table() {
	case tableWarehouse:
		if len(k) == warehouseKeySize && len(v) >= warehouseHead {
			x := a.of(warehouseOf(k))
			x.here, x.ytd = true, warehouseRow(v).ytd()
			a.totals[totalWarehouses]++
			a.totals[sumPayments] += x.ytd
		}
	case tableDistrict:
		if len(k) != districtKeySize || len(v) < districtHead {
			return
		}
		x := a.of(warehouseOf(k))
		a.totals[totalDistricts]++
		if d := x.district(districtOf(k)); d != nil {
			x.here, d.here = true, true
			d.ytd, d.nextOrder = districtRow(v).ytd(), int64(districtRow(v).nextOrder())
		}
	case tableCustomer:
		if len(k) != customerKeySize || len(v) < customerHead {
			return
		}
		w, c, r := warehouseOf(k), uint64(customerOf(k)), customerRow(v)
		a.totals[totalCustomers]++
		if d := a.of(w).district(districtOf(k)); d != nil {
			d.balance.Add(c, r.balance())
			d.ytdPayment.Add(c, r.balance()+r.ytdPayment())
			d.deliveries += int64(r.deliveries())
			a.totals[sumDeliveries] += int64(r.deliveries())
		}
	case tableStock:
		if len(v) >= stockHead {
			a.totals[sumQuantity] += int64(stockRow(v).ytd())
			a.totals[totalStock]++
		}
	case tableHistory:
		if len(v) >= historyHead {
			a.history(warehouseOf(k), v)
		}
	case tableCustomersByName:
		a.totals[totalCustomersByName]++
	case tableOrdersByCustomer:
		a.totals[totalOrdersByCustomer]++
	case tableBalance:
		if len(k) == warehouseKeySize && len(v) == balanceSize && a.t.balances() {
			a.t.auditBalance(a.sums, warehouseOf(k), int64(be.Uint64(v)))
		}
	}
}

func (a *audit) history(w uint32, r historyRow) {
	a.totals[totalHistory]++
	x := a.of(w)
	x.history += r.amount()
	if d := x.district(r.district()); d != nil {
		d.history += r.amount()
	}
	cw, cd := r.customersWarehouse(), r.customersDistrict()
	if d := a.of(cw).district(cd); d != nil {
		d.balance.Add(uint64(r.customer()), r.amount())
	}
}

// judge checks the conditions of a warehouse, and records the violations.
func (a *audit) judge(w uint32) {
	x := a.warehouses[w]
	if x.here {
		districts := int64(0)
		for i := range x.districts {
			districts += x.districts[i].ytd
		}
		a.note(1, w, 0, "", x.ytd-districts)
		a.note(8, w, 0, "", x.ytd-x.history)
	}
	for d := uint8(1); d <= districtsPerWarehouse; d++ {
		y := x.district(d)
		if y.here {
			a.note(9, w, d, "", y.ytd-y.history)
			a.scanOrders(w, d, y)
		}
		a.noteCustomers(10, w, d, &y.balance)
		a.noteCustomers(12, w, d, &y.ytdPayment)
	}
}

// scanOrders records violations in the orders of a district, and subtracts delivered amounts from the balances of its
// customers.
func (a *audit) scanOrders(w uint32, d uint8, y *districtAudit) {
	var room [groupKeySize]byte
	group := func(table txn.Table) txn.Range { return txn.Prefix(txn.Key(appendGroupKey(room[:0], table, w, d))) }

	a.newOrders = a.newOrders[:0]
	a.rows.Scan(group(tableNewOrder), func(k txn.Key, _ []byte) bool {
		a.newOrders = append(a.newOrders, lastUint32(k))
		return true
	})
	n := int64(len(a.newOrders))
	a.totals[totalNewOrders] += n
	if n > 0 {
		last := int64(a.newOrders[n-1])
		a.note(2, w, d, newOrders, y.nextOrder-1-last)
		a.note(3, w, d, "", n-(last-int64(a.newOrders[0])+1))
	}

	a.orders = a.orders[:0]
	last, lines := int64(0), int64(0)
	a.rows.Scan(group(tableOrder), func(k txn.Key, v []byte) bool {
		if r := orderRow(v); len(r) >= orderSize {
			o := orderAudit{o: lastUint32(k), customer: r.customer(), carrier: r.carrier() != 0, lines: r.lines()}
			a.orders = append(a.orders, o)
			last = int64(o.o)
			lines += int64(o.lines)
		}
		return true
	})
	a.totals[sumOrders] += int64(len(a.orders))
	a.note(2, w, d, "", y.nextOrder-1-last)
	a.note(11, w, d, "", int64(len(a.orders))-n-a.delivered-y.deliveries)

	rows, undated := a.scanLines(group(tableOrderLine), w, d, y)
	a.totals[totalOrderLines] += rows
	a.note(4, w, d, "", rows-lines)
	a.noteOrders(7, w, d, undated)
	var carriers, numbers wrongOrders
	open := a.newOrders
	for i := range a.orders {
		x := &a.orders[i]
		for len(open) > 0 && open[0] < x.o {
			open = open[1:]
		}
		if isNew := len(open) > 0 && open[0] == x.o; isNew == x.carrier {
			carriers.add(x.o)
		}
		if x.found != x.lines {
			numbers.add(x.o)
		}
	}
	a.noteOrders(5, w, d, carriers)
	a.noteOrders(6, w, d, numbers)
}

// scanLines counts the lines of a district, in total and per order. It also counts the orders that have a line whose
// date does not match the order's carrier.
func (a *audit) scanLines(r txn.Range, w uint32, d uint8, y *districtAudit) (rows int64, undated wrongOrders) {
	i := 0
	a.rows.Scan(r, func(k txn.Key, v []byte) bool {
		line := orderLineRow(v)
		if len(line) < orderLineSize {
			return true
		}
		rows++
		o, _ := lineOf(k)
		for i < len(a.orders) && a.orders[i].o < o {
			i++
		}
		if i == len(a.orders) || a.orders[i].o != o {
			return true // conditions 4 and 6 report it
		}
		order := &a.orders[i]
		order.found++
		if (line.delivered() != 0) != order.carrier {
			undated.add(o)
		}
		if line.delivered() != 0 {
			y.balance.Add(uint64(order.customer), -line.amount())
			y.ytdPayment.Add(uint64(order.customer), -line.amount())
		}
		return true
	})
	return rows, undated
}

// wrongOrders counts incorrect orders and remembers the number of the first incorrect order.
type wrongOrders struct{ count, first int64 }

func (x *wrongOrders) add(o uint32) {
	if x.count == 0 {
		x.first = int64(o)
	}
	x.count++
}

// note adds a violation of a condition at a district, or at the warehouse if d is 0.
func (a *audit) note(condition int, w uint32, d uint8, what string, value int64) {
	if value != 0 {
		a.sums[workload.FindingName(strconv.Itoa(condition), what, uint64(w), uint64(d))] += value
	}
}

func (a *audit) noteOrders(condition int, w uint32, d uint8, x wrongOrders) {
	a.note(condition, w, d, "", x.count)
	a.note(condition, w, d, first, x.first)
}

func (a *audit) noteCustomers(condition int, w uint32, d uint8, b *workload.Imbalance) {
	b.Each(func(what string, value int64) { a.note(condition, w, d, what, value) })
}

// Names of the sums of conditions with several sums, other than the sums of an Imbalance.
const (
	first     = "first"
	newOrders = "new-orders"
)
