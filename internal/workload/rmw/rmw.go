// Package rmw is the microbenchmark of Detock (Nguyen, Miller, Abadi: "Detock: High Performance Multi-region
// Transactions at Scale", SIGMOD 2023, section 5.1; `basic` in its repository): transactions that read and write a fixed
// number of random records, with a chosen share of multi-home and multi-partition ones and of hot records. Each
// value starts with a counter of its writes, so that a lost update shows at the end.
package rmw

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

const (
	ledgerWrites = "rmw-writes"
	auditWrites  = "writes"
	auditRecords = "records"
)

// RMW is the workload bound to a topology. It implements workload.Workload.
type RMW struct {
	spec     v1alpha1.RMW
	seed     uint64
	topology *geo.Topology
}

// New binds the workload to a topology. Errors name the manifest's field and what would be right.
func New(spec v1alpha1.RMW, seed uint64, t *geo.Topology) (*RMW, error) {
	const field = "spec.workload.rmw."
	regions, partitions := int64(t.Placement().Regions), int64(t.Partitions)
	n := int64(spec.RecordsPerTransaction)
	hot := int64(spec.HotRecordsPerTransaction)
	// Every home and partition must have enough records for a transaction that stays inside it, hot and cold apart.
	cell := n
	if hot > 0 {
		cell = max(spec.HotRecords, hot) + n - hot
	}
	switch {
	case n < 1 || n > maxRecords:
		return nil, fmt.Errorf(field+"recordsPerTransaction: %d is not between 1 and %d", n, maxRecords)
	case spec.WritesPerTransaction < 0 || int64(spec.WritesPerTransaction) > n:
		return nil, fmt.Errorf(field+"writesPerTransaction: %d is not between 0 and recordsPerTransaction (%d)", spec.WritesPerTransaction, n)
	case spec.ValueBytes < counterSize || spec.ValueBytes > 1<<16:
		return nil, fmt.Errorf(field+"valueBytes: %d is not between %d and %d", spec.ValueBytes, counterSize, 1<<16)
	}
	l := locality(&spec)
	if err := cmp.Or(l.Validate(t, "spec.workload.rmw"), l.ValidateItems(t, field+"recordsPerTransaction", n, "records")); err != nil {
		return nil, err
	}
	switch {
	case hot < 0 || hot > n:
		return nil, fmt.Errorf(field+"hotRecordsPerTransaction: %d is not between 0 and recordsPerTransaction (%d)", hot, n)
	case hot > 0 && spec.HotRecords < hot:
		return nil, fmt.Errorf(field+"hotRecords: %d hot records of a home and partition are fewer than hotRecordsPerTransaction (%d)", spec.HotRecords, hot)
	case spec.Records < cell*regions*partitions:
		return nil, fmt.Errorf(field+"records: %d is too few for %d regions with %d partitions each; make it at least %d", spec.Records, regions, partitions, cell*regions*partitions)
	}
	return &RMW{spec, seed, t}, nil
}

func locality(s *v1alpha1.RMW) workload.Locality {
	return workload.Locality{MultiHomePercent: s.MultiHomePercent, HomesPerMultiHome: s.HomesPerMultiHome, OtherHomesThetaPercent: s.OtherHomesThetaPercent,
		MultiPartitionPercent: s.MultiPartitionPercent, PartitionsPerMultiPartition: s.PartitionsPerMultiPartition}
}

// Name is rmw.
func (w *RMW) Name() string { return "rmw" }

// Types are those of TypesOf.
func (w *RMW) Types() []string { return TypesOf(&w.spec) }

// TypesOf returns the name of the one type.
func TypesOf(*v1alpha1.RMW) []string { return []string{"rmw"} }

// Shares are those of multi-home and multi-partition transactions.
func (w *RMW) Shares() []workload.Share {
	return workload.LocalityShares("transactions", w.spec.MultiHomePercent, w.spec.MultiPartitionPercent)
}

// Rows loads one cell: records with a counter of 0 and a payload from the seed.
func (w *RMW) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	p := w.topology.Placement()
	for n := uint64(0); ; n++ {
		id := p.ShardNumber(c, n)
		if id >= uint64(w.spec.Records) {
			return
		}
		v := make([]byte, w.spec.ValueBytes)
		x := (w.seed + id) * 0x9e3779b97f4a7c15
		for i := counterSize; i < len(v); i++ {
			v[i] = byte(x >> (8 * (i % 8)))
		}
		put(txn.IntKey(table, id), v)
	}
}

// Everywhere loads nothing: each row has a place.
func (w *RMW) Everywhere(func(txn.Key, []byte)) {}

// KeyName names a record by its number: record(17).
func (w *RMW) KeyName(k txn.Key) string {
	if !k.Valid() || k.Table() != table {
		return k.String()
	}
	return fmt.Sprintf("record(%d)", k.Shard())
}

// Audit sums up the counters.
func (w *RMW) Audit(rows workload.Rows) map[string]int64 {
	var writes, records int64
	rows.Each(func(_ txn.Key, value []byte) {
		if len(value) >= counterSize {
			writes += int64(binary.BigEndian.Uint64(value))
			records++
		}
	})
	return map[string]int64{auditWrites: writes, auditRecords: records}
}

// Verify checks that every copy has all records, and that the counters sum up to the committed writes: no update was
// lost or applied twice.
func (w *RMW) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	checks := []workload.Check{
		workload.WithinLedger("rmw-writes", auditWrites, 0, copies, ledger[ledgerWrites]),
		workload.CopiesAgree(copies),
	}
	if records := workload.WithinLedger("rmw-records", auditRecords, w.spec.Records, copies, workload.Interval{}); !records.Passed {
		checks = append(checks, records)
	}
	return checks
}

// noiseSize is the length of the random bytes that payloads are cut from.
const noiseSize = 4096

type generator struct {
	w        *RMW
	region   geo.Region
	rng      *rand.Rand
	cells    *workload.Cells
	counts   [2]workload.Count // of RMW.Shares
	writes   workload.Interval
	underway []bool
	unknown  map[txn.ID]struct{}
	noise    []byte
	ids      []uint64 // of the transaction being made
}

// NewGenerator makes the transactions of the clients of one load generator.
func (w *RMW) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	rng := rand.New(rand.NewPCG(w.seed, uint64(c.Stream)))
	g := &generator{
		w:        w,
		region:   c.Region,
		rng:      rng,
		cells:    workload.NewCells(locality(&w.spec), w.topology, rng),
		underway: make([]bool, c.Clients),
		unknown:  map[txn.ID]struct{}{},
		noise:    make([]byte, noiseSize+int(w.spec.ValueBytes)),
	}
	for i := range g.noise {
		g.noise[i] = byte(g.rng.Uint32())
	}
	return g
}

// Next makes a transaction. Its records go round the chosen homes and partitions by turns.
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	s, place := &g.w.spec, g.w.topology.Placement()
	n, writes, payload := int(s.RecordsPerTransaction), int(s.WritesPerTransaction), int(s.ValueBytes)-counterSize
	g.cells.Draw(g.region)

	b := make([]byte, argsSize(n, writes, payload))
	binary.BigEndian.PutUint16(b, uint16(n))
	binary.BigEndian.PutUint16(b[2:], uint16(writes))
	binary.BigEndian.PutUint16(b[4:], uint16(payload))
	g.ids = g.ids[:0]
	for i := range n {
		cell := g.cells.Of(i)
		from, to := uint64(0), place.ShardNumbersBelow(uint64(s.Records), cell)
		if hot := uint64(s.HotRecords); i < int(s.HotRecordsPerTransaction) {
			to = hot
		} else if s.HotRecordsPerTransaction > 0 {
			from = hot
		}
		var id uint64
		for {
			id = place.ShardNumber(cell, from+g.rng.Uint64N(to-from))
			if !slices.Contains(g.ids, id) {
				break
			}
		}
		g.ids = append(g.ids, id)
		binary.BigEndian.PutUint64(b[headSize+8*i:], id)
	}
	at := headSize + 8*n
	for range writes {
		at += copy(b[at:at+payload], g.noise[g.rng.IntN(noiseSize):])
	}
	readModifyWrite.Call(t, b)
	g.underway[client] = true
	class := place.Class(t.Accesses)
	if elapsed >= 0 {
		workload.CountLocality(g.counts[:], class)
	}
	return workload.Request{Class: class}
}

// Done adds up the committed writes.
func (g *generator) Done(client int, o txn.Outcome) {
	g.underway[client] = false
	writes := int64(g.w.spec.WritesPerTransaction)
	switch o.Status {
	case txn.Committed:
		g.writes.Low += writes
		g.writes.High += writes
	case txn.Unknown:
		g.writes.High += writes
		if len(g.unknown) < workload.MaxUnknown {
			g.unknown[o.ID] = struct{}{}
		}
	}
}

// Late narrows the ledger by the truth about a transaction that was unknown.
func (g *generator) Late(o txn.Outcome) {
	if _, ok := g.unknown[o.ID]; !ok || o.Status == txn.Unknown {
		return
	}
	delete(g.unknown, o.ID)
	if o.Status == txn.Committed {
		g.writes.Low += int64(g.w.spec.WritesPerTransaction)
	} else {
		g.writes.High -= int64(g.w.spec.WritesPerTransaction)
	}
}

// Ledger sums up the writes.
func (g *generator) Ledger() workload.Ledger {
	w := g.writes
	for _, u := range g.underway {
		if u {
			w.High += int64(g.w.spec.WritesPerTransaction)
		}
	}
	return workload.Ledger{ledgerWrites: w}
}

// Realised counts multi-home and multi-partition transactions.
func (g *generator) Realised() []workload.Count { return g.counts[:] }
