// Package ycsb is the Yahoo! Cloud Serving Benchmark (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB",
// SoCC 2010). It has the core workloads A to F and configurable mixes of reads, updates, inserts, scans and
// read-modify-writes. It also supports the transactional variant used in papers on geo-distributed databases, which
// groups several operations into a transaction (ten in Minerva, section 5.2). Records are distributed evenly over all
// cells (home region and partition). Clients access records whose home is their region, except for a configurable
// share.
//
// A mix with scans uses ordered keys in groups of 64 neighbours. Engines that order transactions before execution lock
// a group as one row. Other mixes use keys without groups, so that operations on different records never conflict.
package ycsb

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Names in ledgers and audits. Names that end with a dash are followed by the home region of the records.
const (
	ledgerWrites  = "ycsb-writes"
	ledgerInserts = "ycsb-inserts"
	ledgerWritten = "ycsb-written-"
	ledgerWriters = "ycsb-writers-"
	auditRecords  = "records"
	auditWrites   = "writes"
	auditWritten  = "written-"
)

// YCSB is the workload bound to a topology. It implements workload.Workload.
type YCSB struct {
	spec         v1alpha1.YCSB
	mix          v1alpha1.YCSBMix
	distribution v1alpha1.YCSBDistribution
	seed         uint64
	topology     *geo.Topology
	placement    geo.Placement
	ordered      bool            // records have ordered keys
	expected     func() [2]int64 // estimate, computed once
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.YCSB, seed uint64, t *geo.Topology) (*YCSB, error) {
	const field = "spec.workload.ycsb."
	w := &YCSB{spec: spec, mix: spec.Shares(), distribution: spec.Choice(), seed: seed, topology: t, placement: t.Placement()}
	w.ordered = w.mix.Scan > 0
	w.expected = sync.OnceValue(w.estimate)
	kinds, cells := shares(&w.mix), int64(t.Placement().Cells())
	fields := int64(spec.FieldCount) * int64(spec.FieldBytes)
	scanned := int64(spec.OperationsPerTransaction) * int64(spec.MaxScanRecords) * fields
	if (spec.Preset == "") == (spec.Mix == nil) {
		return nil, fmt.Errorf("spec.workload.ycsb: exactly one of preset and mix must be set")
	}
	if err := workload.CheckMix(field+"mix", kinds[:]...); err != nil {
		return nil, err
	}
	switch {
	case spec.Records < cells:
		return nil, fmt.Errorf(field+"records: %d is too few for %d regions with %d partitions each; make it at least %d",
			spec.Records, t.Placement().Regions, t.Partitions, cells)
	case spec.Records > 1_000_000_000:
		return nil, fmt.Errorf(field+"records: %d is more than 1000000000", spec.Records)
	case spec.FieldCount < 1 || spec.FieldBytes < 1 || fields > maxRecordBytes:
		return nil, fmt.Errorf(field+"fieldBytes: %d fields of %d bytes do not have 1 to %d bytes in all", spec.FieldCount, spec.FieldBytes, maxRecordBytes)
	case spec.OperationsPerTransaction < 1 || spec.OperationsPerTransaction > 100:
		return nil, fmt.Errorf(field+"operationsPerTransaction: %d is not between 1 and 100", spec.OperationsPerTransaction)
	case spec.ThetaPercent < 0 || spec.ThetaPercent > 1000:
		return nil, fmt.Errorf(field+"thetaPercent: %d is not between 0 and 1000", spec.ThetaPercent)
	case w.distribution == v1alpha1.YCSBHotspot && (spec.HotRecordsPercent < 1 || spec.HotRecordsPercent > 100):
		return nil, fmt.Errorf(field+"hotRecordsPercent: %d is not between 1 and 100", spec.HotRecordsPercent)
	case spec.HotOperationsPercent < 0 || spec.HotOperationsPercent > 100:
		return nil, fmt.Errorf(field+"hotOperationsPercent: %d is not between 0 and 100", spec.HotOperationsPercent)
	case w.ordered && (spec.MaxScanRecords < 1 || spec.MaxScanRecords > 1000):
		return nil, fmt.Errorf(field+"maxScanRecords: %d is not between 1 and 1000", spec.MaxScanRecords)
	case w.ordered && scanned > maxResultBytes:
		return nil, fmt.Errorf(field+"maxScanRecords: scans of %d records of %d bytes may return %d bytes in one transaction; make it at most %d",
			spec.MaxScanRecords, fields, scanned, maxResultBytes/fields/int64(spec.OperationsPerTransaction))
	case w.anywhere() && (spec.MultiHomePercent != 0 || spec.MultiPartitionPercent != 0):
		return nil, fmt.Errorf(field + "locality: None draws records wherever they live; make multiHomePercent and multiPartitionPercent 0, or make it Home")
	case w.anywhere() && spec.ForeignSingleHomePercent != 0:
		return nil, fmt.Errorf(field+"foreignSingleHomePercent: %d, but locality None draws records wherever they live; make it 0, or locality Home", spec.ForeignSingleHomePercent)
	case w.anywhere() && (w.distribution == v1alpha1.YCSBLatest || w.distribution == v1alpha1.YCSBOneHotPerHome):
		return nil, fmt.Errorf(field+"distribution: %s needs locality Home", w.distribution)
	case w.anywhere() && spec.HomesThetaPercent != nil:
		return nil, fmt.Errorf(field + "homesThetaPercent: it needs locality Home")
	case (w.distribution == v1alpha1.YCSBOneHotPerHome) != (spec.HotRecords != nil):
		return nil, fmt.Errorf(field + "hotRecords: it goes with the distribution OneHotPerHome; set both or neither")
	case spec.HotRecords != nil && (*spec.HotRecords < 1 || *spec.HotRecords >= spec.Records/cells):
		return nil, fmt.Errorf(field+"hotRecords: %d is not between 1 and %d, and each home and partition has %d records", *spec.HotRecords, spec.Records/cells-1, spec.Records/cells)
	}
	l, operations := w.locality(), int64(spec.OperationsPerTransaction)
	if err := cmp.Or(l.Validate(t, "spec.workload.ycsb"), l.ValidateItems(t, field+"operationsPerTransaction", operations, "operations")); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *YCSB) locality() workload.Locality {
	s := &w.spec
	return workload.Locality{MultiHomePercent: s.MultiHomePercent, HomesPerMultiHome: s.HomesPerMultiHome,
		HomesThetaPercent: s.HomesThetaPercent, MultiPartitionPercent: s.MultiPartitionPercent, PartitionsPerMultiPartition: s.PartitionsPerMultiPartition,
		ForeignSingleHomePercent: s.ForeignSingleHomePercent}
}

// anywhere reports whether clients access records regardless of their home.
func (w *YCSB) anywhere() bool { return w.spec.Locality == v1alpha1.YCSBAnywhere }

// wholeWrites reports whether writes replace all fields of a record.
func (w *YCSB) wholeWrites() bool { return w.spec.WriteAllFields || w.spec.FieldCount == 1 }

// blindUpdates reports whether the mix has updates that do not read their record.
func (w *YCSB) blindUpdates() bool { return w.mix.Update > 0 && w.wholeWrites() }

// recordBytes returns the size of a record in bytes.
func (w *YCSB) recordBytes() int { return headerSize + int(w.spec.FieldCount)*int(w.spec.FieldBytes) }

// loaded returns the number of records that are loaded into a cell.
func (w *YCSB) loaded(c geo.Cell) uint64 {
	return w.placement.ShardNumbersBelow(uint64(w.spec.Records), c)
}

// Name implements workload.Workload.
func (w *YCSB) Name() string { return "ycsb" }

// Types of transactions with several operations.
const (
	typeReadOnly = iota
	typeReadWrite
)

// Types of transactions if the number of homes is drawn.
const (
	typeOneHome = iota
	typeTwoHomes
	typeMoreHomes
)

// TypesOf returns the names of the transaction types. If the number of homes is drawn, the types distinguish
// transactions by the number of homes that they access. If a transaction is one operation, the types are the kinds of
// operations, in their order. Otherwise the types distinguish read-only transactions from transactions that write.
func TypesOf(spec *v1alpha1.YCSB) []string {
	if spec.HomesThetaPercent != nil {
		return []string{"oneHome", "twoHomes", "moreHomes"}
	}
	if spec.OperationsPerTransaction == 1 {
		return []string{"read", "update", "insert", "scan", "readModifyWrite"}
	}
	return []string{"readOnly", "readWrite"}
}

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.YCSB, transaction string) string {
	m, kind := spec.Shares(), slices.Index(TypesOf(spec), transaction)
	var share int32
	switch {
	case kind < 0:
		return ""
	case spec.HomesThetaPercent != nil:
		if kind == typeOneHome && spec.MultiHomePercent < 100 || kind != typeOneHome && spec.MultiHomePercent > 0 {
			return ""
		}
		return fmt.Sprintf("spec.workload.ycsb.multiHomePercent is %d", spec.MultiHomePercent)
	case spec.OperationsPerTransaction == 1:
		share = shares(&m)[kind]
	case kind == typeReadOnly:
		share = m.Read + m.Scan
	case kind == typeReadWrite:
		share = m.Update + m.Insert + m.ReadModifyWrite
	}
	if share > 0 {
		return ""
	}
	return "the preset or the mix of spec.workload.ycsb leaves it out"
}

// shares returns the shares of a mix by kind of operation, in percent.
func shares(m *v1alpha1.YCSBMix) [numKinds]int32 {
	return [numKinds]int32{opRead: m.Read, opUpdate: m.Update, opInsert: m.Insert, opScan: m.Scan, opReadModifyWrite: m.ReadModifyWrite}
}

// Types implements workload.Workload.
func (w *YCSB) Types() []string { return TypesOf(&w.spec) }

// Shares returns the configured shares of multi-home and multi-partition transactions. With locality None these shares
// follow from the distribution and are estimated.
func (w *YCSB) Shares() []workload.Share {
	shares := workload.LocalityShares("transactions", w.spec.MultiHomePercent, w.spec.MultiPartitionPercent)
	if w.spec.HomesThetaPercent != nil {
		shares = append(shares, workload.Share{Name: "more than two homes", Of: "multi-home transactions", ConfiguredPPM: w.moreHomes()})
	}
	if w.anywhere() {
		for i, ppm := range w.expected() {
			shares[i].ConfiguredPPM = ppm
		}
	}
	return append(shares, workload.ForeignShare("transactions", w.spec.ForeignSingleHomePercent)...)
}

// moreHomes returns the share of multi-home transactions that touch more than two homes, in parts per million.
func (w *YCSB) moreHomes() int64 {
	all := 0.0
	for k := 1; k < w.placement.Regions; k++ {
		all += math.Pow(float64(k), -float64(*w.spec.HomesThetaPercent)/100)
	}
	if all == 0 {
		return 0
	}
	// Zipf draws the number of further homes; rank 1 means two homes in total and has the probability 1/all.
	return int64(math.Round(1e6 * (1 - 1/all)))
}

// Rows implements workload.Workload. The write counters of loaded records are 0, and their fields derive from the seed.
func (w *YCSB) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	size := w.recordBytes()
	for n := range w.loaded(c) {
		record := make([]byte, size)
		x := (w.seed + w.placement.ShardNumber(c, n)) * 0x9e3779b97f4a7c15
		i := headerSize
		for ; i+8 <= size; i += 8 {
			binary.LittleEndian.PutUint64(record[i:], x)
		}
		for ; i < size; i++ {
			record[i] = byte(x >> (8 * (i % 8)))
		}
		var room [orderedSize]byte
		put(txn.Key(refOf(w.placement, w.ordered, c, n, 0).appendKey(room[:0], w.ordered)), record)
	}
}

// Size implements workload.Sized.
func (w *YCSB) Size() workload.Size {
	return workload.Size{Field: "records", Value: w.spec.Records, Rows: w.spec.Records, Bytes: w.spec.Records * (9 + int64(w.recordBytes()))}
}

// Everywhere implements workload.Workload. It loads nothing: every record belongs to a cell.
func (w *YCSB) Everywhere(func(txn.Key, []byte)) {}

// number returns the index of a record in the whole database, which is unique among loaded records.
func (w *YCSB) number(r ref) uint64 {
	if !w.ordered {
		return r.shard
	}
	c, group := w.placement.Locate(r.shard)
	return w.placement.ShardNumber(c, group*groupSize+uint64(r.place))
}

// KeyName names a record by its number, such as record(17). For an inserted record it adds the stream of the inserting
// client, such as record(1017 of stream 3).
func (w *YCSB) KeyName(k txn.Key) string {
	r, ok := parseKey(k)
	switch {
	case !ok || k.Ordered() != w.ordered:
		return k.String()
	case r.stream > 0:
		return fmt.Sprintf("record(%d of stream %d)", w.number(r), r.stream-1)
	}
	return fmt.Sprintf("record(%d)", w.number(r))
}

// Audit counts records and sums their write counters. With blind updates it instead counts, by home, the loaded records
// that were written.
func (w *YCSB) Audit(rows workload.Rows) map[string]int64 {
	var records, writes int64
	written := make([]int64, w.placement.Regions)
	rows.Each(func(k txn.Key, record []byte) {
		r, ok := parseKey(k)
		if !ok || len(record) != w.recordBytes() {
			return
		}
		records++
		writes += int64(counter(record))
		if r.stream == 0 && writer(record) != 0 {
			written[w.placement.Home(k)]++
		}
	})
	sums := map[string]int64{auditRecords: records}
	if !w.blindUpdates() {
		sums[auditWrites] = writes
		return sums
	}
	for home, n := range written {
		sums[auditWritten+w.topology.Regions[home]] = n
	}
	return sums
}

// Verify checks, in every copy, that the loaded and the inserted records exist, and that no write was lost or applied
// twice. The check of writes is exact if every transaction reads a record before writing it. A blind update overwrites
// the traces of earlier updates. With blind updates, the check therefore only compares the numbers of written records.
func (w *YCSB) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	checks := []workload.Check{workload.WithinLedger("ycsb-records", auditRecords, w.spec.Records, copies, ledger[ledgerInserts])}
	if w.blindUpdates() {
		checks = append(checks, w.verifyWritten(copies, ledger))
	} else {
		checks = append(checks, workload.WithinLedger("ycsb-writes", auditWrites, 0, copies, ledger[ledgerWrites]))
	}
	return append(checks, workload.CopiesAgree(copies))
}

// verifyWritten checks the number of written records by their home region. Each client stream knows how many distinct
// records it has written in a region. The number of written records is at most the sum of these numbers, and at least
// their average.
func (w *YCSB) verifyWritten(copies []workload.Copy, ledger workload.Ledger) workload.Check {
	var right, wrong []string
	for _, region := range w.topology.Regions[:w.placement.Regions] {
		known, streams := ledger[ledgerWritten+region], max(1, ledger[ledgerWriters+region].High)
		// Round up: the largest of these numbers is an integer that is at least the average, and it counts distinct records.
		low := (known.Low + streams - 1) / streams
		right = append(right, fmt.Sprintf("%d to %d of %s", low, known.High, region))
		for _, c := range copies {
			if n := c.Sums[auditWritten+region]; n < low || n > known.High {
				wrong = append(wrong, fmt.Sprintf("%s holds %d written records of %s", c.Name, n, region))
			}
		}
	}
	return workload.JudgeHeld("ycsb-written", copies, wrong, "clients have written "+strings.Join(right, ", "))
}

// estimate returns the shares of multi-home and of multi-partition transactions, in parts per million, if each
// operation chooses among all records. A share is 1 minus the probability that all operations choose the same home (or
// partition).
//
// estimate draws at least 400,000 operations, and enough transactions to keep four standard deviations below one
// percentage point.
func (w *YCSB) estimate() [2]int64 {
	operations := int(w.spec.OperationsPerTransaction)
	g, n := w.newGenerator(workload.GeneratorConfig{}), 40_000*max(10, operations)
	homes, partitions := make([]float64, w.placement.Regions), make([]float64, w.placement.Partitions)
	for range n {
		c := g.drawCell()
		homes[c.Home] += 1 / float64(n)
		partitions[c.Partition] += 1 / float64(n)
	}
	differ := func(chances []float64) int64 {
		same := 0.0
		for _, p := range chances {
			same += math.Pow(p, float64(operations))
		}
		return int64(math.Round(1e6 * (1 - same)))
	}
	return [2]int64{differ(homes), differ(partitions)}
}
