// Package rmw is the microbenchmark of Detock (Nguyen, Miller, Abadi: "Detock: High Performance Multi-region
// Transactions at Scale", SIGMOD 2023, section 5.1; `basic` in its repository). Transactions read and write a fixed
// number of random records. The shares of multi-home transactions, of multi-partition transactions and of hot records
// are configurable. Each value starts with a counter of its writes, which reveals lost updates after the run.
package rmw

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
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
	types    []v1alpha1.RMW // the parameters of each type
	names    []string       // of the types
	mixes    [][]int32      // of the types, in percent
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.RMW, seed uint64, t *geo.Topology) (*RMW, error) {
	const field = "spec.workload.rmw."
	w := &RMW{spec: spec, seed: seed, topology: t, names: TypesOf(&spec), mixes: mixes(&spec)}
	if len(spec.Types) == 0 {
		if len(spec.MixPhases) > 0 {
			return nil, fmt.Errorf(field+"mixPhases: %d mixes of types, but there are no types: set types, or leave mixPhases out", len(spec.MixPhases))
		}
		if err := check(&spec, field, t); err != nil {
			return nil, err
		}
		w.types = []v1alpha1.RMW{spec}
		return w, nil
	}
	for i, x := range spec.Types {
		at := fmt.Sprintf("%stypes[%d].", field, i)
		if x.Name == "" || slices.Index(w.names, x.Name) < i {
			return nil, fmt.Errorf("%sname: %q is empty or the name of another type: give each type a name of its own", at, x.Name)
		}
		one := merged(&spec, &x)
		if err := check(&one, at, t); err != nil {
			return nil, err
		}
		w.types = append(w.types, one)
	}
	for i, m := range w.mixes {
		if len(m) != len(spec.Types) {
			return nil, fmt.Errorf(field+"mixPhases[%d].percents: %d shares of %d types: give one to each", i, len(m), len(spec.Types))
		}
	}
	err := workload.CheckMix(field+"types[].percent", w.mixes[0]...)
	if len(spec.MixPhases) > 0 {
		err = workload.CheckMixes(field+"mixPhases", w.mixes...)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// mixes returns the consecutive mixes.
func mixes(spec *v1alpha1.RMW) (out [][]int32) {
	for _, m := range spec.MixPhases {
		out = append(out, m.Percents)
	}
	if len(out) > 0 {
		return out
	}
	var one []int32
	for _, x := range spec.Types {
		one = append(one, x.Percent)
	}
	if len(one) == 0 {
		one = []int32{100}
	}
	return [][]int32{one}
}

// merged returns the parameters of a type, with the workload's parameters as defaults.
func merged(spec *v1alpha1.RMW, x *v1alpha1.RMWType) v1alpha1.RMW {
	one := *spec
	for _, p := range []struct{ to, from *int32 }{
		{&one.RecordsPerTransaction, x.RecordsPerTransaction}, {&one.WritesPerTransaction, x.WritesPerTransaction},
		{&one.HotRecordsPerTransaction, x.HotRecordsPerTransaction}, {&one.MultiHomePercent, x.MultiHomePercent},
		{&one.MultiPartitionPercent, x.MultiPartitionPercent}, {&one.ForeignSingleHomePercent, x.ForeignSingleHomePercent},
		{&one.DependentPercent, x.DependentPercent},
	} {
		if p.from != nil {
			*p.to = *p.from
		}
	}
	if x.HotRecords != nil {
		one.HotRecords = *x.HotRecords
	}
	return one
}

// check checks the parameters of one type. Errors name its fields, prefixed with field.
func check(spec *v1alpha1.RMW, field string, t *geo.Topology) error {
	regions, partitions := int64(t.Placement().Regions), int64(t.Partitions)
	n := int64(spec.RecordsPerTransaction)
	hot := int64(spec.HotRecordsPerTransaction)
	// A transaction with a dependent record names two candidates for this record.
	if spec.DependentPercent > 0 {
		n++
	}
	// Every home and partition must have enough hot and enough other records for a transaction that stays inside it.
	cell := n
	if hot > 0 {
		cell = max(spec.HotRecords, hot) + n - hot
	}
	switch {
	case n < 1 || n > maxRecords:
		return fmt.Errorf(field+"recordsPerTransaction: %d is not between 1 and %d", spec.RecordsPerTransaction, maxRecords-n+int64(spec.RecordsPerTransaction))
	case spec.WritesPerTransaction < 0 || spec.WritesPerTransaction > spec.RecordsPerTransaction:
		return fmt.Errorf(field+"writesPerTransaction: %d is not between 0 and recordsPerTransaction (%d)", spec.WritesPerTransaction, spec.RecordsPerTransaction)
	case spec.DependentPercent < 0 || spec.DependentPercent > 100:
		return fmt.Errorf(field+"dependentPercent: %d is not between 0 and 100", spec.DependentPercent)
	case spec.DependentPercent > 0 && spec.RecordsPerTransaction < 2:
		return fmt.Errorf(field+"dependentPercent: %d needs a record to read and one that depends on it; make recordsPerTransaction at least 2", spec.DependentPercent)
	case spec.DependentPercent > 0 && spec.HotRecordsPerTransaction == spec.RecordsPerTransaction:
		return fmt.Errorf(field+"dependentPercent: %d needs a last record that is not hot; make hotRecordsPerTransaction less than recordsPerTransaction (%d)", spec.DependentPercent, spec.RecordsPerTransaction)
	case spec.ValueBytes < counterSize || spec.ValueBytes > 1<<16:
		return fmt.Errorf(field+"valueBytes: %d is not between %d and %d", spec.ValueBytes, counterSize, 1<<16)
	}
	l := locality(spec)
	if err := cmp.Or(l.Validate(t, strings.TrimSuffix(field, ".")), l.ValidateItems(t, field+"recordsPerTransaction", int64(spec.RecordsPerTransaction), "records")); err != nil {
		return err
	}
	switch {
	case hot < 0 || hot > int64(spec.RecordsPerTransaction):
		return fmt.Errorf(field+"hotRecordsPerTransaction: %d is not between 0 and recordsPerTransaction (%d)", hot, spec.RecordsPerTransaction)
	case hot > 0 && spec.HotRecords < hot:
		return fmt.Errorf(field+"hotRecords: %d hot records of a home and partition are fewer than hotRecordsPerTransaction (%d)", spec.HotRecords, hot)
	case spec.Records < cell*regions*partitions:
		return fmt.Errorf(field+"records: %d is too few for %d regions with %d partitions each; make it at least %d", spec.Records, regions, partitions, cell*regions*partitions)
	}
	return nil
}

func locality(s *v1alpha1.RMW) workload.Locality {
	return workload.Locality{MultiHomePercent: s.MultiHomePercent, HomesPerMultiHome: s.HomesPerMultiHome, OtherHomesThetaPercent: s.OtherHomesThetaPercent, OtherHomesRanks: s.OtherHomesRanks,
		MultiPartitionPercent: s.MultiPartitionPercent, PartitionsPerMultiPartition: s.PartitionsPerMultiPartition,
		ForeignSingleHomePercent: s.ForeignSingleHomePercent}
}

// Name implements workload.Workload.
func (w *RMW) Name() string { return "rmw" }

// Types implements workload.Workload.
func (w *RMW) Types() []string { return w.names }

// TypesOf returns the names of the types.
func TypesOf(spec *v1alpha1.RMW) (names []string) {
	for _, x := range spec.Types {
		names = append(names, x.Name)
	}
	if len(names) == 0 {
		return []string{"rmw"}
	}
	return names
}

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.RMW, transaction string) string {
	kind := slices.Index(TypesOf(spec), transaction)
	for _, m := range mixes(spec) {
		if kind < 0 || kind >= len(m) || m[kind] > 0 {
			return ""
		}
	}
	if len(spec.MixPhases) > 0 {
		return "its share in spec.workload.rmw.mixPhases is 0"
	}
	return "its percent in spec.workload.rmw.types is 0"
}

// Shares returns the shares of multi-home, multi-partition, foreign and dependent transactions of each type, and the
// shares of the types if there are several.
func (w *RMW) Shares() (out []workload.Share) {
	for i := range w.types {
		s, of := &w.types[i], "transactions"
		if len(w.types) > 1 {
			of = "transactions of type " + w.names[i]
		}
		out = append(out, workload.LocalityShares(of, s.MultiHomePercent, s.MultiPartitionPercent)...)
		out = append(out, workload.ForeignShare(of, s.ForeignSingleHomePercent)...)
		out = append(out, workload.DependentShare(of, s.DependentPercent)...)
	}
	if len(w.types) > 1 {
		out = append(out, workload.MixShares(w.names, w.mixes...)...)
	}
	return out
}

// Rows implements workload.Workload. Loaded records have a counter of 0 and a payload that derives from the seed.
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

// Size implements workload.Sized.
func (w *RMW) Size() workload.Size {
	return workload.Size{Field: "records", Value: w.spec.Records, Rows: w.spec.Records, Bytes: w.spec.Records * (9 + int64(w.spec.ValueBytes))}
}

// Everywhere implements workload.Workload. It loads nothing: each row belongs to a cell.
func (w *RMW) Everywhere(func(txn.Key, []byte)) {}

// KeyName names a record by its number, such as record(17).
func (w *RMW) KeyName(k txn.Key) string {
	if !k.Valid() || k.Table() != table {
		return k.String()
	}
	return fmt.Sprintf("record(%d)", k.Shard())
}

// Audit sums the counters and counts the records.
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

// Verify checks that every copy has all records. The sum of the counters must equal the number of committed writes, so
// that no update was lost or applied twice.
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

// noiseSize is the length of the random bytes from which payloads are cut.
const noiseSize = 4096

type generator struct {
	w       *RMW
	region  geo.Region
	rng     *rand.Rand
	mixes   *workload.Mixes
	types   []typeState
	mixed   []workload.Count // by type
	writes  workload.Interval
	clients []int32          // number of writes of each client's transaction in flight
	unknown map[txn.ID]int32 // number of writes of each transaction with an unknown outcome
	noise   []byte
	ids     []uint64 // of the transaction that Next is creating
}

// typeState is the generator's state of one type.
type typeState struct {
	cells     *workload.Cells
	locality  [2]workload.Count
	foreign   workload.Count
	dependent workload.Count
}

// NewGenerator implements workload.Workload.
func (w *RMW) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	rng := rand.New(rand.NewPCG(w.seed, uint64(c.Stream)))
	g := &generator{
		w:       w,
		region:  c.Region,
		rng:     rng,
		mixes:   workload.NewMixes(c.Measured, w.mixes...),
		mixed:   make([]workload.Count, len(w.mixes)*len(w.types)),
		clients: make([]int32, c.Clients),
		unknown: map[txn.ID]int32{},
		noise:   make([]byte, noiseSize+int(w.spec.ValueBytes)),
	}
	for i := range w.types {
		g.types = append(g.types, typeState{cells: workload.NewCells(locality(&w.types[i]), w.topology, rng)})
	}
	for i := range g.noise {
		g.noise[i] = byte(g.rng.Uint32())
	}
	return g
}

// Next implements workload.Generator. The records of a transaction are spread round-robin over the chosen homes and
// partitions.
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	kind := 0
	if len(g.types) > 1 { // draw random numbers only for configured features
		kind = g.mixes.Draw(g.rng, elapsed, g.mixed)
	}
	s, x, place := &g.w.types[kind], &g.types[kind], g.w.topology.Placement()
	n, writes, payload := int(s.RecordsPerTransaction), int(s.WritesPerTransaction), int(s.ValueBytes)-counterSize
	x.cells.Draw(g.region)
	named, procedure := n, readModifyWrite
	if s.DependentPercent > 0 && g.rng.Int32N(100) < s.DependentPercent {
		named, procedure = n+1, dependent
	}

	b := make([]byte, argsSize(named, writes, payload))
	binary.BigEndian.PutUint16(b, uint16(named))
	binary.BigEndian.PutUint16(b[2:], uint16(writes))
	binary.BigEndian.PutUint16(b[4:], uint16(payload))
	g.ids = g.ids[:0]
	for i := range named {
		cell := x.cells.Of(min(i, n-1)) // both candidates for the last record are in the same cell
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
	at := headSize + 8*named
	for range writes {
		at += copy(b[at:at+payload], g.noise[g.rng.IntN(noiseSize):])
	}
	procedure.Call(t, b)
	g.clients[client] = int32(writes)
	r := workload.Request{Type: uint8(kind), Class: place.Class(t.Accesses)}
	if elapsed >= 0 {
		class, home := r.Class, place.Home(t.Accesses[0].Key)
		if procedure == dependent { // its footprint lacks the last record; both candidates are in the same cell
			class = place.Class(append(slices.Clip(t.Accesses), txn.Access{Key: txn.IntKey(table, g.ids[n])}))
		}
		workload.CountLocality(x.locality[:], class)
		workload.CountForeign(&x.foreign, class, home, g.region)
		x.dependent.Add(procedure == dependent)
	}
	return r
}

// Done implements workload.Generator: it adds the transaction's writes to the ledger.
func (g *generator) Done(client int, o txn.Outcome) {
	writes := g.clients[client]
	g.clients[client] = 0
	switch o.Status {
	case txn.Committed:
		g.writes.Low += int64(writes)
		g.writes.High += int64(writes)
	case txn.Unknown:
		g.writes.High += int64(writes)
		if len(g.unknown) < workload.MaxUnknown {
			g.unknown[o.ID] = writes
		}
	}
}

// Late implements workload.Generator: it replaces the bounds of an unknown transaction with its true effect.
func (g *generator) Late(o txn.Outcome) {
	writes, ok := g.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	// A second report about the same transaction must not count again.
	delete(g.unknown, o.ID)
	if o.Status == txn.Committed {
		g.writes.Low += int64(writes)
	} else {
		g.writes.High -= int64(writes)
	}
}

// Ledger returns the number of writes; transactions in flight count as unknown.
func (g *generator) Ledger() workload.Ledger {
	w := g.writes
	for _, writes := range g.clients {
		w.High += int64(writes)
	}
	return workload.Ledger{ledgerWrites: w}
}

// Realised returns the counts for RMW.Shares.
func (g *generator) Realised() (out []workload.Count) {
	for i := range g.types {
		s, x := &g.w.types[i], &g.types[i]
		out = append(out, x.locality[:]...)
		if s.ForeignSingleHomePercent > 0 {
			out = append(out, x.foreign)
		}
		if s.DependentPercent > 0 {
			out = append(out, x.dependent)
		}
	}
	if len(g.types) > 1 {
		out = append(out, g.mixed...)
	}
	return out
}
