package tpcc

import (
	"bytes"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// loadDate is the date of all loaded rows, 1 January 2026, in microseconds since 1970. Dates of transactions are
// relative to this date, because neither generators nor procedures read a clock.
const loadDate = 1_767_225_600_000_000

// Amounts that clause 4.3.3.1 defines, in cents.
const (
	loadedPayment = 10_00
	creditLimit   = 50_000_00
)

// Rows implements workload.Workload: it loads the warehouses of one cell in ascending order (clause 4.3.3.1).
func (t *TPCC) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	l := newLoader(t, put)
	for _, w := range t.warehousesOf(c) {
		l.warehouse(w)
		if t.balances() {
			l.keys = appendBalanceKey(l.keys, w)
			l.row(l.own(be.AppendUint64(l.begin(), 0)))
		}
	}
	l.flush()
}

// Size implements workload.Sized. A full-size warehouse has 558,900 rows and 69.8 MB; an item has 70 bytes.
func (t *TPCC) Size() workload.Size {
	warehouses := int64(t.cells.ends[len(t.cells.ends)-1])
	percent := int64(t.spec.RowsPercent)
	return workload.Size{Field: "warehousesPerPartition", Value: int64(t.spec.WarehousesPerPartition), Rows: warehouses * percent * 5500, Bytes: warehouses * percent * 690_000,
		EverywhereRows: percent * 1000, EverywhereBytes: percent * 65_000}
}

// Everywhere implements workload.Workload: it loads the items.
func (t *TPCC) Everywhere(put func(txn.Key, []byte)) {
	l := newLoader(t, put)
	for i := 1; i <= t.size.items; i++ {
		l.item(uint32(i))
	}
	l.flush()
}

// loader puts rows. It allocates the keys of many rows together: a warehouse has half a million rows, and separate
// allocations would dominate the loading time.
type loader struct {
	seed  uint64
	noise *noise
	c     constants
	size  size
	put   func(txn.Key, []byte)

	keys   []byte
	ends   []int // end of each key in keys
	values [][]byte
	slab   workload.Slab // memory of small values
	draft  []byte
	orders []uint16 // customers of a district's orders
}

const (
	loaderBatch = 64
	slabSize    = 32 << 10
)

func newLoader(t *TPCC, put func(txn.Key, []byte)) *loader {
	return &loader{seed: t.seed, noise: t.noise(), c: t.constants, size: t.size, put: put, orders: make([]uint16, t.size.customers)}
}

// row puts a row with the key that was last appended to keys.
func (l *loader) row(value []byte) {
	l.ends = append(l.ends, len(l.keys))
	l.values = append(l.values, value)
	if len(l.ends) == loaderBatch {
		l.flush()
	}
}

func (l *loader) flush() {
	keys, from := txn.Key(l.keys), 0
	for i, to := range l.ends {
		l.put(keys[from:to], l.values[i])
		from = to
	}
	l.keys, l.ends, l.values = l.keys[:0], l.ends[:0], l.values[:0]
}

// begin returns an empty slice for a new value. Pass the complete value to own or share.
func (l *loader) begin() []byte { return l.draft[:0] }

// own returns a copy of v in a separate allocation, which can be freed once the value is replaced. Use it for values
// that transactions replace individually.
func (l *loader) own(v []byte) []byte {
	l.draft = v
	return bytes.Clone(v)
}

// share returns a copy of v in the slab. Use it for values that are never replaced, or that are replaced together with
// their neighbours.
func (l *loader) share(v []byte) []byte {
	l.draft = v
	return append(l.slab.Room(len(v), slabSize), v...)
}

// random returns the random generator of a row.
func (l *loader) random(table txn.Table, w uint32, d uint8, row uint32) random {
	return randomOf(l.seed, uint8(table), w, uint64(d)<<32|uint64(row))
}

// address appends two streets, a city, a state and a zip code (clause 4.3.2.7).
func (l *loader) address(b []byte, r *random) []byte {
	for range 3 {
		b = appendText(b, l.noise.letter(r, 10, 20))
	}
	b = appendText(b, l.noise.letter(r, 2, 2))
	return append(append(append(b, 9), l.noise.digit(r, 4)...), "11111"...)
}

// data appends 26 to 50 characters, which contain ORIGINAL in one of ten rows.
func (l *loader) data(b []byte, r *random) []byte {
	at := len(b)
	b = append(b, l.noise.letter(r, 26, 50)...)
	if r.percent(10) {
		copy(b[at+r.between(0, len(b)-at-len(original)):], original)
	}
	return b
}

func (l *loader) item(i uint32) {
	r := l.random(tableItem, 0, 0, i)
	b := be.AppendUint32(l.begin(), uint32(r.between(1_00, 100_00))) // I_PRICE
	b = be.AppendUint32(b, uint32(r.between(1, 10_000)))             // I_IM_ID
	b = appendText(b, l.noise.letter(&r, 14, 24))
	b = l.data(b, &r)
	l.keys = appendItemKey(l.keys, i)
	l.row(l.share(b))
}

func (l *loader) warehouse(w uint32) {
	r := l.random(tableWarehouse, w, 0, 0)
	b := be.AppendUint64(l.begin(), uint64(l.size.warehouseYTD()))
	b = be.AppendUint16(b, uint16(r.between(0, 2000))) // W_TAX
	b = appendText(b, l.noise.letter(&r, 6, 10))
	b = l.address(b, &r)
	l.keys = appendWarehouseKey(l.keys, w)
	l.row(l.own(b))
	for i := 1; i <= l.size.items; i++ {
		l.stock(w, uint32(i))
	}
	for d := uint8(1); d <= districtsPerWarehouse; d++ {
		l.district(w, d)
	}
}

func (l *loader) stock(w, i uint32) {
	r := l.random(tableStock, w, 0, i)
	b := append(l.begin(), make([]byte, 12)...) // S_YTD, S_ORDER_CNT and S_REMOTE_CNT are 0
	b = be.AppendUint16(b, uint16(r.between(10, 100)))
	// Draw the ten S_DIST_xx columns, which are contiguous, in one call.
	const size = districtsPerWarehouse * distInfoSize
	b = append(b, l.noise.letter(&r, size, size)...)
	b = l.data(b, &r)
	l.keys = appendStockKey(l.keys, w, i)
	l.row(l.own(b))
}

func (l *loader) district(w uint32, d uint8) {
	r := l.random(tableDistrict, w, d, 0)
	b := be.AppendUint64(l.begin(), uint64(l.size.districtYTD()))
	b = be.AppendUint32(b, uint32(len(l.orders)+1))    // D_NEXT_O_ID
	b = be.AppendUint16(b, uint16(r.between(0, 2000))) // D_TAX
	b = appendText(b, l.noise.letter(&r, 6, 10))
	b = l.address(b, &r)
	l.keys = appendDistrictKey(l.keys, w, d)
	l.row(l.own(b))
	for c := uint16(1); int(c) <= l.size.customers; c++ {
		l.customer(w, d, c)
	}
	for c := uint16(1); int(c) <= l.size.customers; c++ {
		l.history(w, d, c)
	}
	// O_C_ID is a random permutation of the customers (clause 4.3.3.1).
	for i := range l.orders {
		j := r.between(0, i)
		l.orders[i] = l.orders[j]
		l.orders[j] = uint16(i + 1)
	}
	for o := uint32(1); int(o) <= len(l.orders); o++ {
		l.order(w, d, o)
	}
	for o := uint32(1); int(o) <= len(l.orders); o++ {
		l.keys = appendOrderByCustomerKey(l.keys, w, d, l.orders[o-1], o)
		l.row(nil)
	}
	for o := uint32(l.size.firstUndelivered); int(o) <= len(l.orders); o++ {
		l.keys = appendOrderKey(l.keys, tableNewOrder, w, d, o)
		l.row(nil)
	}
	for o := uint32(1); int(o) <= len(l.orders); o++ {
		l.orderLines(w, d, o)
	}
}

func (l *loader) customer(w uint32, d uint8, c uint16) {
	r := l.random(tableCustomer, w, d, uint32(c))
	name := int(c) - 1
	if c > lastNames {
		name = l.c.loadedName(&r) // every last name already has a customer
	}
	balance := int64(-loadedPayment)
	b := be.AppendUint64(l.begin(), uint64(balance))
	b = be.AppendUint64(b, loadedPayment) // C_YTD_PAYMENT
	b = be.AppendUint32(b, 1)             // C_PAYMENT_CNT
	b = be.AppendUint32(b, 0)             // C_DELIVERY_CNT
	b = be.AppendUint64(b, creditLimit)
	b = be.AppendUint64(b, loadDate)                   // C_SINCE
	b = be.AppendUint16(b, uint16(r.between(0, 5000))) // C_DISCOUNT
	credit := goodCredit
	if r.percent(10) {
		credit = badCredit
	}
	b = append(append(b, credit...), "OE"...)
	first := l.noise.letter(&r, 8, 16)
	b = appendText(b, first)
	at := len(b)
	b = appendLastName(append(b, 0), name)
	b[at] = byte(len(b) - at - 1)
	b = l.address(b, &r)
	b = appendText(b, l.noise.digit(&r, 16)) // C_PHONE
	b = append(b, l.noise.letter(&r, 300, maxData)...)
	l.keys = appendCustomerKey(l.keys, w, d, c)
	l.row(l.own(b))
	l.keys = appendCustomerByNameKey(l.keys, w, d, uint16(name), first, c)
	l.row(nil)
}

func (l *loader) history(w uint32, d uint8, c uint16) {
	r := l.random(tableHistory, w, d, uint32(c))
	b := appendHistory(l.begin(), w, d, d, c, loadDate, loadedPayment)
	b = append(b, l.noise.letter(&r, 12, 24)...)
	l.keys = appendLoadedHistoryKey(l.keys, w, d, c)
	l.row(l.share(b))
}

// loadedOrder returns the random generator of an order and its lines, after drawing the number of lines and the
// carrier.
func (l *loader) loadedOrder(w uint32, d uint8, o uint32) (r random, lines int, carrier uint8) {
	r = l.random(tableOrder, w, d, o)
	lines, carrier = r.between(5, maxOrderLines), uint8(r.between(1, 10))
	if int(o) >= l.size.firstUndelivered {
		carrier = 0
	}
	return r, lines, carrier
}

func (l *loader) order(w uint32, d uint8, o uint32) {
	_, lines, carrier := l.loadedOrder(w, d, o)
	b := appendOrder(l.slab.Room(orderSize, slabSize), loadDate, l.orders[o-1], carrier, lines)
	l.keys = appendOrderKey(l.keys, tableOrder, w, d, o)
	l.row(b)
}

func (l *loader) orderLines(w uint32, d uint8, o uint32) {
	r, lines, _ := l.loadedOrder(w, d, o)
	for number := 1; number <= lines; number++ {
		item, amount, delivered := uint32(r.between(1, l.size.items)), int64(0), uint64(loadDate)
		if int(o) >= l.size.firstUndelivered {
			amount, delivered = int64(r.between(1, 9_999_99)), 0
		}
		b := appendOrderLine(l.slab.Room(orderLineSize, slabSize), delivered, amount, item, w, 5, l.noise.letter(&r, distInfoSize, distInfoSize))
		l.keys = appendOrderLineKey(l.keys, w, d, o, number)
		l.row(b)
	}
}
