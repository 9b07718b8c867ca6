package smallbank

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Amounts are integers, uniform over these ranges. The papers do not specify them.
const (
	maxCheck    = 100 // writeCheck: 1 .. 100
	maxDeposit  = 100 // depositChecking: 1 .. 100
	maxTransact = 100 // transactSavings: -100 .. 100 without 0
)

// client is the state of a client: its planned transaction and the transaction's progress. The type is small, because
// there may be 100,000 clients.
type client struct {
	id1, id2  uint32 // the customers
	amount    int32
	kind      uint8 // type of the final phase; 0 if nothing is planned
	phase     uint8 // number of completed helper phases
	final     bool  // the final phase is in flight
	dependent bool  // a single transaction without phases
}

// phases is the number of helper phases of each type.
var phases = [numTypes]uint8{typeBalance: 1, typeWriteCheck: 1, typeDepositChecking: 1, typeTransactSavings: 1, typeAmalgamate: 2}

type generator struct {
	s       *SmallBank
	region  geo.Region
	period  time.Duration // time for which each entry of the sunflower is active
	rng     *rand.Rand
	index   *customers
	skew    skew
	place   geo.Placement
	mixes   *workload.Mixes // of types, from typeBalance on
	clients []client

	counts             [2]workload.Count // for SmallBank.Shares, like the next two fields
	foreign, dependent workload.Count
	mixed              []workload.Count
	total              workload.Interval // of finished transactions
	wrong              int64             // number of lookups with a wrong result
	unknown            map[txn.ID]client
	procs              [numTypes]*txn.Procedure
	wholes             [numTypes]*txn.Procedure // dependent transactions
	slab               workload.Slab
	padding            []byte // appended to arguments
}

// NewGenerator implements workload.Workload.
func (s *SmallBank) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	g := &generator{
		s:       s,
		region:  c.Region,
		rng:     rand.New(rand.NewPCG(s.seed, uint64(c.Stream))),
		index:   s.index(),
		skew:    skew{s.spec.HotPercent, s.spec.HotSkew == v1alpha1.SmallBankHotSkewRange, s.seed},
		place:   s.topology.Placement(),
		mixes:   workload.NewMixes(c.Measured, s.mixes...),
		mixed:   make([]workload.Count, len(s.mixes)*(numTypes-typeBalance)),
		clients: make([]client, c.Clients),
		padding: make([]byte, s.spec.PaddingBytes),
		unknown: map[txn.ID]client{},
		procs: [numTypes]*txn.Procedure{typeLookup: lookup, typeBalance: balance, typeWriteCheck: writeCheck,
			typeDepositChecking: depositChecking, typeTransactSavings: transactSavings, typeAmalgamate: amalgamate},
		wholes: [numTypes]*txn.Procedure{typeBalance: balanceByName, typeWriteCheck: writeCheckByName,
			typeDepositChecking: depositCheckingByName, typeTransactSavings: transactSavingsByName, typeAmalgamate: amalgamateByName},
	}
	if n := len(s.targets); n > 0 {
		g.period = max(1, c.Measured/time.Duration(n))
	}
	return g
}

// Next returns the next phase of the client's transaction. It plans a new transaction if none is in progress.
func (g *generator) Next(i int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	c := &g.clients[i]
	if c.kind == 0 {
		g.plan(c, g.target(elapsed), elapsed)
	}
	c.final = c.dependent || c.phase == phases[c.kind]
	r := workload.Request{Type: c.kind}
	procs := &g.procs
	var args []byte
	switch {
	case c.dependent:
		procs, args = &g.wholes, g.dependentArgs(c)
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
	procs[r.Type].Call(t, append(args, g.padding...))
	r.Class = g.place.Class(t.Accesses)
	// A lookup reads a single row, so the configured shares apply only to final phases.
	if c.final && elapsed >= 0 {
		first, _ := g.place.Locate(uint64(c.id1))
		class := r.Class
		if c.dependent { // class of the accounts, which the footprint does not include
			second, _ := g.place.Locate(uint64(c.id2))
			class = txn.ClassOf(first.Home != second.Home, first.Partition != second.Partition)
		}
		workload.CountLocality(g.counts[:], class)
		workload.CountForeign(&g.foreign, class, first.Home, g.region)
		g.dependent.Add(c.dependent)
	}
	return r
}

// dependentArgs returns the arguments of a transaction that is not split into phases: see byName.
func (g *generator) dependentArgs(c *client) []byte {
	b := appendName(g.args(2*nameSize+twoIDsAndAmount), uint64(c.id1))
	switch {
	case c.kind == typeAmalgamate:
		return appendName(b, uint64(c.id2))
	case c.id2 == c.id1:
		b = binary.BigEndian.AppendUint64(b, sameID)
	default:
		b = binary.BigEndian.AppendUint64(b, uint64(c.id2))
	}
	if c.kind != typeBalance {
		b = binary.BigEndian.AppendUint64(b, uint64(int64(c.amount)))
	}
	return b
}

// args returns an empty slice with room for n bytes of arguments and their padding.
func (g *generator) args(n int) []byte {
	n += len(g.padding)
	return g.slab.Room(n, max(1024, 4*n))
}

// unpadded returns the result of a procedure without its padding.
func (g *generator) unpadded(result []byte) []byte {
	return result[:max(0, len(result)-len(g.padding))]
}

// target returns the home for a transaction that starts at elapsed. It is the sunflower's current region, with the
// configured probability, or else the client's region.
func (g *generator) target(elapsed time.Duration) geo.Region {
	targets := g.s.targets
	if len(targets) == 0 {
		return g.region
	}
	// The first entry also applies before the measured time, and the last entry after it.
	t := targets[max(0, min(int(elapsed/g.period), len(targets)-1))]
	if g.rng.Int32N(100) < t.hitPercent {
		return t.region
	}
	return g.region
}

// plan draws a transaction on data whose home is home. It draws random numbers only for configured features, so that a
// new feature does not change the transactions of workloads that do not use it.
func (g *generator) plan(c *client, home geo.Region, elapsed time.Duration) {
	rng := g.rng
	kind := typeBalance + g.mixes.Draw(rng, elapsed, g.mixed)
	multiHome := rng.Int32N(100) < g.s.spec.MultiHomePercent
	multiPartition := rng.Int32N(100) < g.s.spec.MultiPartitionPercent
	dependent := g.s.spec.DependentPercent > 0 && rng.Int32N(100) < g.s.spec.DependentPercent
	if foreign := g.s.spec.ForeignSingleHomePercent; !multiHome && foreign > 0 && rng.Int32N(100) < foreign {
		home = workload.Other(rng, home, g.place.Regions)
	}
	anywhere := multiHome && !dependent && g.s.spec.Lookups == v1alpha1.SmallBankLookupsAnyHome
	var first uint32
	if anywhere {
		first = uint32(g.skew.draw(rng, uint64(g.s.spec.Customers)))
	} else {
		locals := g.index.all(home, home)
		first = locals[g.skew.draw(rng, uint64(len(locals)))]
	}
	*c = client{id1: first, id2: first, kind: uint8(kind), dependent: dependent}

	second, _ := g.place.Locate(uint64(first)) // the cell of the second customer
	if multiHome {
		second.Home = workload.Other(rng, second.Home, g.place.Regions)
	}
	if multiPartition {
		second.Partition = workload.Other(rng, second.Partition, g.place.Partitions)
	}
	switch {
	case kind == typeAmalgamate && !anywhere:
		// The transaction looks up the second customer, too, so home must also be the home of this customer's name.
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

// effect returns the bounds of the effect of the transaction in progress on the sum of all balances.
func (c *client) effect() workload.Interval {
	a := int64(c.amount)
	switch {
	case !c.final:
		return workload.Interval{}
	case c.kind == typeDepositChecking, c.kind == typeTransactSavings:
		return workload.Interval{Low: min(a, 0), High: max(a, 0)}
	case c.kind == typeWriteCheck:
		// WriteCheck may have charged the penalty, or aborted without an effect.
		return workload.Interval{Low: -a - overdraftPenalty}
	}
	return workload.Interval{}
}

// committed returns the effect of the committed transaction on the sum of all balances.
func (c *client) committed(result []byte) workload.Interval {
	a := int64(c.amount)
	switch c.kind {
	case typeDepositChecking, typeTransactSavings:
		return workload.Interval{Low: a, High: a}
	case typeWriteCheck:
		if d, ok := decodeAmount(result); ok && (d == -a || d == -a-overdraftPenalty) {
			return workload.Interval{Low: d, High: d}
		}
		// The result is damaged or missing, but the transaction committed: only the penalty is uncertain.
		return workload.Interval{Low: -a - overdraftPenalty, High: -a}
	}
	return workload.Interval{}
}

func (g *generator) add(i workload.Interval) {
	g.total.Low += i.Low
	g.total.High += i.High
}

// Done advances the client to the next phase or to a new transaction.
func (g *generator) Done(i int, o txn.Outcome) {
	c := &g.clients[i]
	if o.Status != txn.Committed {
		// A helper phase changes nothing, so its unknown outcome needs no bounds.
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
		g.add(c.committed(g.unpadded(o.Result)))
		*c = client{}
		return
	}
	// In listing 1 of "SmallBank on Detock", the final phase uses the ID that the lookup returned.
	want := c.id1
	if c.phase == 1 {
		want = c.id2
	}
	if id, ok := decodeAmount(g.unpadded(o.Result)); !ok || id != int64(want) {
		g.wrong++
		*c = client{}
		return
	}
	c.phase++
}

// Late implements workload.Generator: it replaces the bounds of an unknown transaction with its true effect.
func (g *generator) Late(o txn.Outcome) {
	c, ok := g.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	delete(g.unknown, o.ID)
	e := c.effect()
	// Done has added the bounds of the unknown outcome; remove them before adding the true effect.
	g.add(workload.Interval{Low: -e.Low, High: -e.High})
	if o.Status == txn.Committed {
		g.add(c.committed(g.unpadded(o.Result)))
	}
}

// Ledger returns the effect on the total balance and the number of wrong lookups.
func (g *generator) Ledger() workload.Ledger {
	t := g.total
	for i := range g.clients {
		e := g.clients[i].effect()
		t.Low += e.Low
		t.High += e.High
	}
	return workload.Ledger{ledgerTotal: t, ledgerWrongLookups: {Low: g.wrong, High: g.wrong}}
}

// Realised returns the counts for SmallBank.Shares.
func (g *generator) Realised() []workload.Count {
	out := g.counts[:2:2]
	if g.s.spec.ForeignSingleHomePercent > 0 {
		out = append(out, g.foreign)
	}
	if g.s.spec.DependentPercent > 0 {
		out = append(out, g.dependent)
	}
	if len(g.s.mixes) > 1 {
		out = append(out, g.mixed...)
	}
	return out
}
