package tpcc

import (
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Minimum keying times and mean think times by type (clause 5.2.5.7). Dike's types have neither.
var (
	keyingTimes = [allTypes]time.Duration{typeNewOrder: 18 * time.Second, typePayment: 3 * time.Second, typeOrderStatus: 2 * time.Second,
		typeDelivery: 2 * time.Second, typeStockLevel: 2 * time.Second}
	thinkTimes = [allTypes]time.Duration{typeNewOrder: 12 * time.Second, typePayment: 12 * time.Second, typeOrderStatus: 10 * time.Second,
		typeDelivery: 5 * time.Second, typeStockLevel: 5 * time.Second}
)

// maxThink is the maximum think time, as a multiple of its mean (clause 5.2.5.4).
const maxThink = 10

// terminal is the state of a client: its warehouse and district, and its transaction in flight. The type is small,
// because there may be 100,000 terminals.
type terminal struct {
	warehouse uint32
	amount    int32 // the payment in cents, the quantity taken by the order, or the number of changed balances
	district  uint8
	kind      uint8 // of the transaction in flight
	underway  bool
	rollback  bool // the order in flight requests an unused item
	contends  bool // its transaction in flight is on the contended row
}

type generator struct {
	t                  *TPCC
	place              geo.Placement
	rng                *rand.Rand
	mixes              []workload.Mix // of types, in each part of the measured time
	measured           time.Duration
	partition, balance *workload.Zipf
	contention         contention
	first              bool // the run's first generator, which counts events that all generators observe
	terminals          []terminal
	stream             uint32
	payments           uint64 // number of payments so far
	// counts are the counts for TPCC.Shares. warmup receives the counts of the warm-up, which are discarded.
	counts, warmup []workload.Count

	total   sums
	unknown map[txn.ID]terminal
	// unduly is the number of committed orders that contain an unused item and should have rolled back.
	unduly int64
	// unequal is the number of committed selectBalance transactions that read different balances.
	unequal int64
	args    workload.Slab
	chosen  []int // cells
}

var procedures = [allTypes]*txn.Procedure{typeNewOrder: newOrder, typePayment: payment, typeOrderStatus: orderStatus,
	typeDelivery: delivery, typeStockLevel: stockLevel, typeUpdateStock: updateStock, typeUpdateBalance: updateBalance,
	typeSelectBalance: selectBalance}

// NewGenerator implements workload.Workload. It assigns the clients of a region to its warehouses in turn, and after
// each round to the next district. This follows clauses 2.4.1.1 and 2.8.1.1 of the specification. With more than ten
// clients per warehouse, several clients share a district.
func (t *TPCC) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	g := &generator{
		t: t, place: t.topology.Placement(), stream: c.Stream, measured: c.Measured,
		rng:        rand.New(rand.NewPCG(t.seed, uint64(c.Stream))),
		terminals:  make([]terminal, c.Clients),
		counts:     make([]workload.Count, t.numCounts()),
		warmup:     make([]workload.Count, t.numCounts()),
		unknown:    map[txn.ID]terminal{},
		balance:    workload.NewZipf(float64(*t.dike.BalancesThetaPercent) / 100),
		contention: newContention(t, c),
		first:      c.Region == 0 && c.FirstClient == 0,
	}
	for _, m := range t.phases {
		g.mixes = append(g.mixes, workload.NewMix(m[:]...))
	}
	if theta := t.dike.PartitionsThetaPercent; theta != nil {
		g.partition = workload.NewZipf(float64(*theta) / 100)
	}
	own := t.own(c.Region)
	for i := range g.terminals {
		n := c.FirstClient + i
		g.terminals[i].warehouse = own[n%len(own)]
		g.terminals[i].district = uint8(n/len(own)%districtsPerWarehouse) + 1
	}
	return g
}

// Next returns a terminal's next transaction (clause 5.2.4).
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	x := &g.terminals[client]
	if g.t.spec.Warehouses == v1alpha1.WarehousesAny {
		x.warehouse = g.t.nthOfAll(g.rng.IntN(g.t.warehouses()))
	}
	phase := workload.PartOf(elapsed, g.measured, len(g.mixes))
	kind := uint8(g.mixes[phase].Draw(g.rng))
	x.kind, x.underway, x.amount, x.rollback, x.contends = kind, true, 0, false, false
	counts := g.counts
	if elapsed < 0 {
		counts = g.warmup
	}
	for i := range allTypes {
		counts[countOf(i)].Add(int(kind) == i)
		if len(g.mixes) > 1 {
			counts[g.t.sharePhase(phase, i)].Add(int(kind) == i)
		}
	}
	g.contention.observe(elapsed, g.first, counts[g.t.shareContention(0):])
	date := uint64(loadDate + elapsed.Microseconds())
	var args []byte
	switch kind {
	case typeNewOrder:
		x.contends = g.contention.wants(elapsed)
		args = g.newOrder(x, date, counts)
	case typePayment:
		args = g.payment(x, date, counts)
	case typeOrderStatus:
		by := g.customer(x.warehouse, g.district(x), counts)
		args = by.append(g.room(customerArgs))
	case typeDelivery:
		args = appendDelivery(g.room(deliveryArgsSize), x.warehouse, uint8(1+g.rng.IntN(10)), date)
	case typeStockLevel:
		args = g.stockLevel(x, counts)
	case typeUpdateStock:
		args = g.updateStock(x, counts)
	case typeUpdateBalance, typeSelectBalance:
		args = g.balances(x)
	}
	if x.contends {
		g.contention.now++
	}
	g.contention.before = g.contention.now
	procedures[kind].Call(t, args)
	r := workload.Request{Type: kind, Class: g.place.Class(t.Accesses)}
	// Keying times are constant. Think times are exponential, truncated at maxThink times their mean (clause 5.2.5.4).
	if percent := time.Duration(g.t.spec.KeyingAndThinkTimePercent); percent > 0 {
		r.Keying = keyingTimes[kind] * percent / 100
		r.Think = time.Duration(min(g.rng.ExpFloat64(), maxThink) * float64(thinkTimes[kind]*percent/100))
	}
	return r
}

// room returns an empty slice with room for n bytes of arguments.
func (g *generator) room(n int) []byte { return g.args.Room(n, 4096) }

// district draws a district of the terminal's warehouse (clause 2.4.1.2), or returns the terminal's own district.
func (g *generator) district(x *terminal) uint8 {
	d := x.district
	if g.t.spec.Districts != v1alpha1.DistrictsOwn {
		d = uint8(1 + g.rng.IntN(districtsPerWarehouse))
	}
	if len(g.contention.targets) > 0 && x.warehouse == contendedWarehouse && d == contendedDistrict {
		d++ // reserve the contended district for contending transactions
	}
	return d
}

// draw returns true with a probability of n percent.
func (g *generator) draw(n int32) bool { return g.rng.Int32N(100) < n }

// newOrder draws an order (clause 2.4.1).
func (g *generator) newOrder(x *terminal, date uint64, counts []workload.Count) []byte {
	n := 5 + g.rng.IntN(maxOrderLines-4)
	w := x.warehouse
	if x.contends {
		w = contendedWarehouse
	}
	x.rollback = g.draw(g.t.spec.RollbackPercent)
	counts[shareRollbacks].Add(x.rollback)
	// Either each line is remote with a configured probability, or a configured share of orders has one remote line.
	ofLines, remoteLine := g.t.spec.Remote.OrderLinePercent, -1
	if ofLines == nil && g.draw(percentOf(g.t.spec.Remote.NewOrderPercent)) {
		remoteLine = g.rng.IntN(n)
	}
	// In a distributed order, each of the other chosen partitions supplies one line (Dike, algorithm 1).
	others := g.distribute(w, counts[shareDistributedOrders:])
	n = max(n, len(others)+1)
	isRemote, d := false, g.district(x)
	if x.contends {
		d = contendedDistrict
	}
	b := appendNewOrder(g.room(newOrderHead+n*lineArgs), w, d, g.t.constants.drawCustomer(g.rng, g.t.size.customers), date, n)
	for i := range n {
		item := g.t.constants.drawItem(g.rng, g.t.size.items)
		if x.rollback && i == n-1 {
			item = unusedItem
		}
		supplier := w
		if ofLines != nil && g.draw(*ofLines) || i == remoteLine {
			supplier = g.other(w)
		}
		if i < len(others) {
			supplier = g.warehouseIn(others[i])
		}
		if supplier != w {
			isRemote = true
			g.locate(counts[shareOrdersMultiHome:], w, supplier)
		}
		if ofLines != nil {
			counts[shareRemoteOrders].Add(supplier != w)
		}
		quantity := 1 + g.rng.IntN(10)
		x.amount += int32(quantity)
		b = appendLine(b, item, supplier, quantity)
	}
	if ofLines == nil {
		counts[shareRemoteOrders].Add(isRemote)
	}
	return b
}

// payment draws a payment (clause 2.5.1).
func (g *generator) payment(x *terminal, date uint64, counts []workload.Count) []byte {
	d := g.district(x)
	cw, cd := x.warehouse, d
	if g.draw(g.t.spec.Remote.PaymentPercent) {
		if cw = g.other(x.warehouse); cw != x.warehouse {
			cd = uint8(1 + g.rng.IntN(districtsPerWarehouse))
			g.locate(counts[sharePaymentsMultiHome:], x.warehouse, cw)
		}
	}
	counts[shareRemotePayments].Add(cw != x.warehouse)
	by := g.customer(cw, cd, counts)
	x.amount = 1_00 + g.rng.Int32N(5000_00-1_00+1)
	g.payments++
	return appendPayment(g.room(paymentArgsSize), x.warehouse, d, by, date, g.historyNumber(), x.amount)
}

// historyNumber returns the number of the row that the payment adds to HISTORY. The number is unique, because streams
// are unique among the generators of a run.
func (g *generator) historyNumber() uint64 { return uint64(txn.MakeID(g.stream, g.payments)) }

// customer draws a customer of a district, by last name or by number (clauses 2.5.1.2 and 2.6.1.2).
func (g *generator) customer(w uint32, d uint8, counts []workload.Count) selector {
	s := selector{w: w, d: d, name: g.draw(g.t.spec.ByLastNamePercent)}
	counts[shareByLastName].Add(s.name)
	if s.name {
		s.number = g.t.constants.drawName(g.rng, g.t.size.lastNames)
	} else {
		s.number = g.t.constants.drawCustomer(g.rng, g.t.size.customers)
	}
	return s
}

// other draws a remote warehouse: any warehouse except w, or a warehouse at the location that the manifest requires. It
// returns w if there is only one warehouse.
func (g *generator) other(w uint32) uint32 {
	t := g.t
	if !t.placesRemote() {
		all := t.warehouses()
		if all == 1 {
			return w
		}
		return t.nthOfAll((t.placeOf(w) + 1 + g.rng.IntN(all-1)) % all)
	}
	c, i := t.cellOf(w)
	multiHome, multiPartition := g.draw(percentOf(t.spec.Remote.MultiHomePercent)), g.draw(percentOf(t.spec.Remote.MultiPartitionPercent))
	if multiHome {
		c.Home = other(g.rng, c.Home, t.topology.Placement().Regions)
	}
	if multiPartition {
		c.Partition = other(g.rng, c.Partition, t.topology.Partitions)
	}
	if multiHome || multiPartition {
		return t.nth(c, g.rng.IntN(int(t.spec.WarehousesPerPartition)))
	}
	return t.nth(c, other(g.rng, i, int(t.spec.WarehousesPerPartition)))
}

// other draws uniformly from 0 .. n-1 except x.
func other[T ~int](rng *rand.Rand, x T, n int) T {
	o := T(rng.IntN(n - 1))
	if o >= x {
		o++
	}
	return o
}

// locate counts whether a remote warehouse is in another region and whether it is in another partition.
func (g *generator) locate(counts []workload.Count, w, remote uint32) {
	a, _ := g.t.cellOf(w)
	b, _ := g.t.cellOf(remote)
	workload.CountLocality(counts, txn.ClassOf(a.Home != b.Home, a.Partition != b.Partition))
}

// Done implements workload.Generator: it adds the outcome to the ledger and frees the terminal for a new transaction.
func (g *generator) Done(client int, o txn.Outcome) {
	x := &g.terminals[client]
	switch o.Status {
	case txn.Committed:
		g.commit(x, o.Result)
	case txn.Unknown:
		// selectBalance has no effect on sums, but a late outcome may show that it read different balances.
		if e := x.effect(); e != (sums{}) || x.kind == typeSelectBalance {
			g.total.add(&e, 1)
			if len(g.unknown) < workload.MaxUnknown {
				g.unknown[o.ID] = *x
			}
		}
	}
	if x.contends {
		g.contention.now--
	}
	x.underway = false
}

// commit adds the effect of a committed transaction to the ledger.
func (g *generator) commit(x *terminal, result []byte) {
	e := x.committed(result)
	g.total.add(&e, 1)
	// An order with an unused item must roll back (clause 2.4.1.4), so this commit is an error of the database.
	if x.rollback {
		g.unduly++
	}
	if x.kind == typeSelectBalance && len(result) == 1 && result[0] != 0 {
		g.unequal++
	}
}

// Late implements workload.Generator: it replaces the bounds of an unknown transaction with its true effect.
func (g *generator) Late(o txn.Outcome) {
	x, ok := g.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	delete(g.unknown, o.ID)
	e := x.effect()
	// Done has added the bounds of the unknown outcome; remove them before adding the true effect.
	g.total.add(&e, -1)
	if o.Status == txn.Committed {
		g.commit(&x, o.Result)
	}
}

// Ledger returns the effects of all transactions, as their clients know them.
func (g *generator) Ledger() workload.Ledger {
	all := g.total
	for i := range g.terminals {
		if x := &g.terminals[i]; x.underway {
			e := x.effect()
			all.add(&e, 1)
		}
	}
	l := workload.Ledger{ledgerUnduly: {Low: g.unduly, High: g.unduly}}
	if g.t.balances() {
		l[ledgerBalances] = all[sumBalances]
		l[ledgerUnequal] = workload.Interval{Low: g.unequal, High: g.unequal}
	}
	for i, name := range ledgerNames {
		l[name] = all[i]
	}
	return l
}

// Sums that clients can compute, with their names in ledgers and checks.
const (
	sumPayments   = iota // of W_YTD, in cents
	sumOrders            // rows of ORDER
	sumQuantity          // of S_YTD
	sumDeliveries        // of C_DELIVERY_CNT
	numSums
	sumBalances = numSums // of Dike's balances, in cents
)

var ledgerNames = [numSums]string{"tpcc-payments", "tpcc-orders", "tpcc-quantity", "tpcc-deliveries"}

// ledgerUnduly is the number of committed orders that contain an unused item and should have rolled back.
const ledgerUnduly = "tpcc-rollback"

type sums [numSums + 1]workload.Interval

func (s *sums) add(o *sums, sign int64) {
	for i := range s {
		s[i].Low += sign * o[i].Low
		s[i].High += sign * o[i].High
	}
}

// effect returns the bounds of the effect of the transaction in flight while its outcome is unknown.
func (x *terminal) effect() (e sums) {
	switch x.kind {
	case typeNewOrder:
		if !x.rollback {
			e[sumOrders].High, e[sumQuantity].High = 1, int64(x.amount)
		}
	case typePayment:
		e[sumPayments].High = int64(x.amount)
	case typeDelivery:
		e[sumDeliveries].High = districtsPerWarehouse
	case typeUpdateStock:
		e[sumQuantity].High = int64(x.amount)
	case typeUpdateBalance:
		e[sumBalances].High = int64(x.amount) * balanceStep
	}
	return e
}

// committed returns the effect of the committed transaction.
func (x *terminal) committed(result []byte) (e sums) {
	if x.kind == typeDelivery {
		if len(result) != 4*districtsPerWarehouse {
			return x.effect()
		}
		for ; len(result) > 0; result = result[4:] {
			if be.Uint32(result) != 0 {
				e[sumDeliveries].Low++
			}
		}
		e[sumDeliveries].High = e[sumDeliveries].Low
		return e
	}
	e = x.effect()
	for i := range e {
		e[i].Low = e[i].High
	}
	return e
}
