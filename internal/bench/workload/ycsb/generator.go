package ycsb

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// noiseSize is the length of the random bytes from which field values are cut.
const noiseSize = 4096

type generator struct {
	w      *YCSB
	region geo.Region
	stream uint32 // stream number plus 1; 0 marks a loaded record
	rng    *rand.Rand
	mix    workload.Mix // of operation kinds
	cells  *workload.Cells
	pools  []*pool  // by cell, or a single pool for all records
	next   []uint64 // number of the next record to insert, by cell
	noise  []byte

	operations []operation // of the transaction that Next is creating
	underway   []args      // by client
	unknown    map[txn.ID]args
	tally      tally
	counts     [2]workload.Count // for YCSB.Shares
	moreHomes  workload.Count
	foreign    workload.Count
	marked     []uint64 // a bit for each loaded record that is known to be written
}

// tally sums the effects of transactions.
type tally struct {
	writes, inserts workload.Interval
	written         []workload.Interval // distinct loaded records, by home; only with blind updates
}

// NewGenerator implements workload.Workload.
func (w *YCSB) NewGenerator(c workload.GeneratorConfig) workload.Generator { return w.newGenerator(c) }

func (w *YCSB) newGenerator(c workload.GeneratorConfig) *generator {
	rng, kinds := rand.New(rand.NewPCG(w.seed, uint64(c.Stream))), shares(&w.mix)
	g := &generator{
		w:        w,
		region:   c.Region,
		stream:   c.Stream + 1,
		rng:      rng,
		mix:      workload.NewMix(kinds[:]...),
		cells:    workload.NewCells(w.locality(), w.topology, rng),
		noise:    make([]byte, noiseSize+w.recordBytes()),
		underway: make([]args, c.Clients),
		unknown:  map[txn.ID]args{},
		tally:    tally{written: make([]workload.Interval, w.placement.Regions)},
	}
	for i := range g.noise {
		g.noise[i] = byte(rng.Uint32())
	}
	for home := range geo.Region(w.placement.Regions) {
		for partition := range w.placement.Partitions {
			c := geo.Cell{Home: home, Partition: partition}
			g.next = append(g.next, w.loaded(c))
			if !w.anywhere() || len(g.pools) == 0 {
				g.pools = append(g.pools, newPool(w, rng, c))
			}
		}
	}
	return g
}

// index returns the index of a cell in next, and in pools unless a single pool serves all cells.
func (g *generator) index(c geo.Cell) int { return int(c.Home)*g.w.placement.Partitions + c.Partition }

// pool returns the pool from which operations in a cell choose their records.
func (g *generator) pool(c geo.Cell) *pool {
	if len(g.pools) == 1 {
		return g.pools[0]
	}
	return g.pools[g.index(c)]
}

// plan draws the operations of the next transaction.
func (g *generator) plan() {
	g.operations = g.operations[:0]
	anywhere, hot := g.w.anywhere(), 0
	if !anywhere {
		g.cells.Draw(g.region)
	}
	if g.w.distribution == v1alpha1.YCSBOneHotPerHome {
		hot = g.cells.Homes()
	}
	for i := range int(g.w.spec.OperationsPerTransaction) {
		var c geo.Cell
		if !anywhere {
			c = g.cells.Of(i)
		}
		switch k := kind(g.mix.Draw(g.rng)); k {
		case opInsert:
			if anywhere {
				c = g.anyCell()
			}
			n := &g.next[g.index(c)]
			g.add(opInsert, position{c, *n, g.stream}, allFields)
			// The number stays used if the insert fails: a retry is a new transaction with a new record.
			*n++
		case opScan:
			g.addScan(g.pool(c).choose(i < hot), 1+uint64(g.rng.Int32N(g.w.spec.MaxScanRecords)))
		case opRead:
			g.add(k, g.pool(c).choose(i < hot), allFields)
		default:
			field := uint16(allFields)
			if !g.w.wholeWrites() {
				field = uint16(g.rng.Int32N(g.w.spec.FieldCount))
			}
			g.add(k, g.pool(c).choose(i < hot), field)
		}
	}
}

// anyCell draws the cell of an inserted record with locality None.
func (g *generator) anyCell() geo.Cell {
	return geo.Cell{Home: geo.Region(g.rng.IntN(g.w.placement.Regions)), Partition: g.rng.IntN(g.w.placement.Partitions)}
}

// drawCell draws the cell of one operation with locality None.
func (g *generator) drawCell() geo.Cell {
	if kind(g.mix.Draw(g.rng)) == opInsert {
		return g.anyCell()
	}
	return g.pools[0].choose(false).cell
}

func (g *generator) add(k kind, at position, field uint16) {
	g.operations = append(g.operations, operation{k, field, refOf(g.w.placement, g.w.ordered, at.cell, at.n, at.stream)})
}

// addScan adds a scan of length consecutive records, starting with from, as one operation per group.
func (g *generator) addScan(from position, length uint64) {
	for n, end := from.n, from.n+length; n < end; {
		first := refOf(g.w.placement, true, from.cell, n, 0)
		to := min(groupSize, uint64(first.place)+end-n)
		g.operations = append(g.operations, operation{opScan, uint16(to), first})
		n += to - uint64(first.place)
	}
}

// Next implements workload.Generator.
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	g.plan()
	fieldBytes, size := int(g.w.spec.FieldBytes), g.w.recordBytes()
	length := argsHead + len(g.operations)*operationSize
	writes := false
	for i := range g.operations {
		o := &g.operations[i]
		length += o.written(fieldBytes, size)
		writes = writes || o.mode() != txn.Read
	}
	b := appendHead(make([]byte, 0, length), len(g.operations), int(g.w.spec.FieldCount), fieldBytes, uint64(t.ID))
	for i := range g.operations {
		b = appendOperation(b, g.operations[i])
	}
	for i := range g.operations {
		o := &g.operations[i]
		n := o.written(fieldBytes, size)
		if n == 0 {
			continue
		}
		at, noise := len(b), g.rng.IntN(noiseSize)
		b = append(b, g.noise[noise:noise+n]...)
		if o.blind() {
			putHeader(b[at:], 0, uint64(t.ID))
		}
	}
	p := points
	if g.w.ordered {
		p = scannable
	}
	p.Call(t, b)
	g.underway[client] = b
	r := workload.Request{Type: uint8(g.operations[0].kind), Class: g.w.placement.Class(t.Accesses)}
	if elapsed >= 0 {
		workload.CountLocality(g.counts[:], r.Class)
		workload.CountForeign(&g.foreign, r.Class, g.w.placement.Home(t.Accesses[0].Key), g.region)
	}
	switch {
	case g.w.spec.HomesThetaPercent != nil:
		homes := g.cells.Homes()
		if elapsed >= 0 && homes > 1 {
			g.moreHomes.Add(homes > 2)
		}
		r.Type = uint8(min(homes-1, typeMoreHomes))
	case g.w.spec.OperationsPerTransaction > 1:
		r.Type = typeReadOnly
		if writes {
			r.Type = typeReadWrite
		}
	}
	return r
}

// Done implements workload.Generator: it adds the effects of the transaction to the tally.
func (g *generator) Done(client int, o txn.Outcome) {
	a := g.underway[client]
	g.underway[client] = nil
	switch o.Status {
	case txn.Committed:
		g.count(&g.tally, a, 1, 1)
	case txn.Unknown:
		g.count(&g.tally, a, 0, 1)
		if len(g.unknown) < workload.MaxUnknown {
			// Only the operations matter for the ledger; the payload would keep up to 64 KiB per write.
			g.unknown[o.ID] = slices.Clone(a[:len(a)-len(a.payload())])
		}
	}
}

// Late implements workload.Generator: it replaces the bounds of an unknown transaction with its true effect.
func (g *generator) Late(o txn.Outcome) {
	a, ok := g.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	delete(g.unknown, o.ID)
	if o.Status == txn.Committed {
		g.count(&g.tally, a, 1, 0)
	} else {
		g.count(&g.tally, a, 0, -1)
	}
}

// count moves the bounds of t by low and high for each effect of a transaction. low is 1 only if the transaction is
// known to be committed.
func (g *generator) count(t *tally, a args, low, high int64) {
	for i := range a.operations() {
		o := a.operation(i)
		if o.increments() {
			t.writes.Low += low
			t.writes.High += high
		}
		switch {
		case o.kind == opInsert:
			t.inserts.Low += low
			t.inserts.High += high
			// Choose the record for later reads only after its commit is known.
			if low > 0 {
				c, n := g.locate(o.ref)
				p := g.pool(c)
				p.inserted = append(p.inserted, position{c, n, o.stream})
			}
		case o.mode()&txn.Write != 0 && o.stream == 0 && g.w.blindUpdates():
			home, _ := g.w.placement.Locate(o.shard)
			written := &t.written[home.Home]
			written.High += high
			if low > 0 && g.mark(g.w.number(o.ref)) {
				written.Low++
			} else if low > 0 {
				written.High-- // the record was counted by an earlier write
			}
		}
	}
}

// locate returns the cell of a record and the record's number in the cell. It is the inverse of refOf.
func (g *generator) locate(r ref) (geo.Cell, uint64) { return g.w.placement.Locate(g.w.number(r)) }

// mark records that a loaded record is known to be written. It reports whether this is the first write.
func (g *generator) mark(number uint64) bool {
	if g.marked == nil {
		g.marked = make([]uint64, g.w.spec.Records/64+1)
	}
	word, bit := &g.marked[number/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Ledger returns the summed effects of all transactions; transactions in flight count as unknown.
func (g *generator) Ledger() workload.Ledger {
	t := g.tally
	// Counting transactions in flight must not change the generator's own bounds.
	t.written = slices.Clone(t.written)
	for _, a := range g.underway {
		if a != nil {
			g.count(&t, a, 0, 1)
		}
	}
	l := workload.Ledger{ledgerInserts: t.inserts}
	if !g.w.blindUpdates() {
		l[ledgerWrites] = t.writes
		return l
	}
	for home, i := range t.written {
		region := g.w.topology.Regions[home]
		l[ledgerWritten+region] = i
		if i.Low > 0 {
			l[ledgerWriters+region] = workload.Interval{Low: 1, High: 1}
		}
	}
	return l
}

// Realised returns the counts for YCSB.Shares.
func (g *generator) Realised() []workload.Count {
	counts := g.counts[:2:2]
	if g.w.spec.HomesThetaPercent != nil {
		counts = append(counts, g.moreHomes)
	}
	if g.w.spec.ForeignSingleHomePercent > 0 {
		counts = append(counts, g.foreign)
	}
	return counts
}
