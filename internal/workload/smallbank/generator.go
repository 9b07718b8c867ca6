package smallbank

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

// Amounts are whole numbers, uniform over these ranges. The papers leave them open.
const (
	maxCheck    = 100 // writeCheck: 1 .. 100
	maxDeposit  = 100 // depositChecking: 1 .. 100
	maxTransact = 100 // transactSavings: -100 .. 100 without 0
)

// client is what a client does now: the transaction that it has planned, and how far it is. There may be 100,000.
type client struct {
	id1, id2 uint32 // the customers
	amount   int32
	kind     uint8 // the final phase's type, 0: nothing is planned
	phase    uint8 // helper phases that are done
	final    bool  // the final phase is under way
}

// phases is the number of helper phases of each type.
var phases = [numTypes]uint8{typeBalance: 1, typeWriteCheck: 1, typeDepositChecking: 1, typeTransactSavings: 1, typeAmalgamate: 2}

type generator struct {
	s       *SmallBank
	region  geo.Region
	period  time.Duration // for which each entry of the sunflower is active
	rng     *rand.Rand
	index   *customers
	skew    skew
	place   geo.Placement
	mix     workload.Mix // of types
	clients []client

	counts  [2]workload.Count // of SmallBank.Shares
	total   workload.Interval // of finished transactions
	wrong   int64             // lookups
	unknown map[txn.ID]client
	procs   [numTypes]*txn.Procedure
	slab    workload.Slab
}

// NewGenerator makes the transactions of the clients of one load generator.
func (s *SmallBank) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	types := shares(&s.spec.Mix)
	g := &generator{
		s:       s,
		region:  c.Region,
		rng:     rand.New(rand.NewPCG(s.seed, uint64(c.Stream))),
		index:   s.index(),
		skew:    skew{s.spec.HotPercent, s.spec.HotSkew == v1alpha1.SmallBankHotSkewRange, s.seed},
		place:   s.topology.Placement(),
		mix:     workload.NewMix(types[:]...),
		clients: make([]client, c.Clients),
		unknown: map[txn.ID]client{},
		procs: [numTypes]*txn.Procedure{typeLookup: lookup, typeBalance: balance, typeWriteCheck: writeCheck,
			typeDepositChecking: depositChecking, typeTransactSavings: transactSavings, typeAmalgamate: amalgamate},
	}
	if n := len(s.targets); n > 0 {
		g.period = max(1, c.Measured/time.Duration(n))
	}
	return g
}

// Next plans a transaction when none is under way, and makes its next phase.
func (g *generator) Next(i int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	c := &g.clients[i]
	if c.kind == 0 {
		g.plan(c, g.target(elapsed))
	}
	c.final = c.phase == phases[c.kind]
	r := workload.Request{Type: c.kind}
	var args []byte
	switch {
	case !c.final:
		id := c.id1
		if c.phase == 1 {
			id = c.id2
		}
		r.Type = typeLookup
		args = appendName(g.args(nameSize), uint64(id))
	case c.kind == typeBalance || c.kind == typeAmalgamate:
		args = appendArgs(g.args(twoIDs), uint64(c.id1), uint64(c.id2))
	default:
		b := appendArgs(g.args(twoIDsAndAmount), uint64(c.id1), uint64(c.id2))
		args = binary.BigEndian.AppendUint64(b, uint64(int64(c.amount)))
	}
	g.procs[r.Type].Call(t, args)
	r.Class = g.place.Class(t.Accesses)
	if c.final && elapsed >= 0 {
		workload.CountLocality(g.counts[:], r.Class)
	}
	return r
}

// args returns room for n bytes of arguments, which procedures keep no reference to.
func (g *generator) args(n int) []byte { return g.slab.Room(n, 1024) }

// target is the region whose data a single-home transaction that begins now works on.
func (g *generator) target(elapsed time.Duration) geo.Region {
	targets := g.s.targets
	if len(targets) == 0 {
		return g.region
	}
	t := targets[max(0, min(int(elapsed/g.period), len(targets)-1))]
	if g.rng.Int32N(100) < t.hitPercent {
		return t.region
	}
	return g.region
}

// plan draws a transaction on the data of the region home.
func (g *generator) plan(c *client, home geo.Region) {
	rng := g.rng
	kind := g.mix.Draw(rng)
	multiHome := rng.Int32N(100) < g.s.spec.MultiHomePercent
	multiPartition := rng.Int32N(100) < g.s.spec.MultiPartitionPercent
	anywhere := multiHome && g.s.spec.Lookups == v1alpha1.SmallBankLookupsAnyHome
	var first uint32
	if anywhere {
		first = uint32(g.skew.draw(rng, uint64(g.s.spec.Customers)))
	} else {
		locals := g.index.all(home, home)
		first = locals[g.skew.draw(rng, uint64(len(locals)))]
	}
	*c = client{id1: first, id2: first, kind: uint8(kind)}

	second, _ := g.place.Locate(uint64(first)) // the cell of the second customer
	if multiHome {
		second.Home = other(rng, second.Home, g.place.Regions)
	}
	if multiPartition {
		second.Partition = other(rng, second.Partition, g.place.Partitions)
	}
	switch {
	case kind == typeAmalgamate && !anywhere:
		// The second customer is looked up too, so its name must be local.
		cell := g.index.cell(home, second.Home, second.Partition)
		for c.id2 = first; c.id2 == first; {
			c.id2 = cell[g.skew.draw(rng, uint64(len(cell)))]
		}
	case multiHome || multiPartition:
		n := g.place.ShardNumbersBelow(uint64(g.s.spec.Customers), second)
		c.id2 = uint32(g.place.ShardNumber(second, g.skew.draw(rng, n)))
	}
	switch kind {
	case typeWriteCheck:
		c.amount = 1 + rng.Int32N(maxCheck)
	case typeDepositChecking:
		c.amount = 1 + rng.Int32N(maxDeposit)
	case typeTransactSavings:
		c.amount = 1 + rng.Int32N(maxTransact)
		if rng.Uint32()&1 == 0 {
			c.amount = -c.amount
		}
	}
}

// other draws one of 0 .. n-1 that is not x, uniformly.
func other[T ~int](rng *rand.Rand, x T, n int) T {
	o := T(rng.IntN(n - 1))
	if o >= x {
		o++
	}
	return o
}

// effect bounds what the transaction under way does to the sum of all balances.
func (c *client) effect() workload.Interval {
	a := int64(c.amount)
	switch {
	case !c.final:
		return workload.Interval{}
	case c.kind == typeDepositChecking, c.kind == typeTransactSavings:
		return workload.Interval{Low: min(a, 0), High: max(a, 0)}
	case c.kind == typeWriteCheck:
		return workload.Interval{Low: -a - overdraftPenalty}
	}
	return workload.Interval{}
}

// committed returns what the transaction did to the sum of all balances, given that it was committed.
func (c *client) committed(result []byte) workload.Interval {
	a := int64(c.amount)
	switch c.kind {
	case typeDepositChecking, typeTransactSavings:
		return workload.Interval{Low: a, High: a}
	case typeWriteCheck:
		if d, ok := decodeAmount(result); ok && (d == -a || d == -a-overdraftPenalty) {
			return workload.Interval{Low: d, High: d}
		}
		return workload.Interval{Low: -a - overdraftPenalty, High: -a}
	}
	return workload.Interval{}
}

func (g *generator) add(i workload.Interval) {
	g.total.Low += i.Low
	g.total.High += i.High
}

// Done moves the client on: to the next phase, or to a new transaction.
func (g *generator) Done(i int, o txn.Outcome) {
	c := &g.clients[i]
	if o.Status != txn.Committed {
		if e := c.effect(); o.Status == txn.Unknown && e != (workload.Interval{}) {
			g.add(e)
			if len(g.unknown) < workload.MaxUnknown {
				g.unknown[o.ID] = *c
			}
		}
		*c = client{}
		return
	}
	if c.final {
		g.add(c.committed(o.Result))
		*c = client{}
		return
	}
	// The final phase is sent to the id that the database returned (SmallBank on Detock, listing 1).
	want := c.id1
	if c.phase == 1 {
		want = c.id2
	}
	if id, ok := decodeAmount(o.Result); !ok || id != int64(want) {
		g.wrong++
		*c = client{}
		return
	}
	c.phase++
}

// Late narrows the ledger by the truth about a transaction that was unknown.
func (g *generator) Late(o txn.Outcome) {
	c, ok := g.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	delete(g.unknown, o.ID)
	e := c.effect()
	g.add(workload.Interval{Low: -e.Low, High: -e.High})
	if o.Status == txn.Committed {
		g.add(c.committed(o.Result))
	}
}

// Ledger sums up the effect on the total balance, and the lookups that went wrong.
func (g *generator) Ledger() workload.Ledger {
	t := g.total
	for i := range g.clients {
		e := g.clients[i].effect()
		t.Low += e.Low
		t.High += e.High
	}
	return workload.Ledger{ledgerTotal: t, ledgerWrongLookups: {Low: g.wrong, High: g.wrong}}
}

// Realised counts multi-home and multi-partition final phases.
func (g *generator) Realised() []workload.Count { return g.counts[:] }
