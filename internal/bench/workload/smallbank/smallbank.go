// Package smallbank is the banking workload of Alomari et al., "The Cost of Serializability on Platforms That Use
// Snapshot Isolation" (ICDE 2008). It follows the adaptation in "Benchmarking geo-distributed databases: evaluating
// performance using the SmallBank benchmark" (Cirtog, TU Delft 2025, section 3).
//
// The adaptation supports databases that need the read and write set in advance. Every transaction is split into
// phases, each of which is a separate transaction. Helper phases ("lookup") find a customer's ID by name. The final
// phase works on accounts by ID; the multi-home and multi-partition parameters apply to it. docs/workloads.md has the
// formulas. Each transaction is in a separate file.
package smallbank

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// The transaction types, in the order of Types.
const (
	typeLookup = iota
	typeBalance
	typeWriteCheck
	typeDepositChecking
	typeTransactSavings
	typeAmalgamate
	numTypes
)

var typeNames = []string{"lookup", "balance", "writeCheck", "depositChecking", "transactSavings", "amalgamate"}

// Names in ledgers and audits.
const (
	ledgerTotal        = "smallbank-total"
	ledgerWrongLookups = "smallbank-wrong-lookups"
	auditTotal         = "total"
	auditRows          = "rows"
)

// maxInitial is the largest initial balance; the smallest is 1 (SmallBank on Detock, listing 5).
const maxInitial = 10000

// maxPadding is the maximum value of the manifest's field paddingBytes.
const maxPadding = 10000

// rowsPerCustomer counts a customer's name, checking and savings rows.
const rowsPerCustomer = 3

// SmallBank is the workload bound to a topology. It implements workload.Workload.
type SmallBank struct {
	spec     v1alpha1.SmallBank
	seed     uint64
	topology *geo.Topology
	targets  []target  // of the sunflower
	mixes    [][]int32 // of the final phases, in percent
	// index is computed for the first generator, and names when the first row is loaded. Nodes only load rows, so they
	// never compute index.
	index func() *customers
	names func() map[geo.Cell][]uint32
}

type target struct {
	region     geo.Region
	hitPercent int32
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.SmallBank, seed uint64, t *geo.Topology) (*SmallBank, error) {
	const field = "spec.workload.smallbank."
	all := mixes(&spec)
	err := workload.CheckMix(field+"mix", all[0]...)
	if len(spec.MixPhases) > 0 {
		err = workload.CheckMixes(field+"mixPhases", all...)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case spec.Customers < 1 || spec.Customers > 1<<32-1:
		return nil, fmt.Errorf(field+"customers: %d is not between 1 and %d", spec.Customers, uint32(1<<32-1))
	case spec.HotPercent < 0 || spec.HotPercent > 100:
		return nil, fmt.Errorf(field+"hotPercent: %d is not between 0 and 100", spec.HotPercent)
	case spec.DependentPercent < 0 || spec.DependentPercent > 100:
		return nil, fmt.Errorf(field+"dependentPercent: %d is not between 0 and 100", spec.DependentPercent)
	case spec.PaddingBytes < 0 || spec.PaddingBytes > maxPadding:
		return nil, fmt.Errorf(field+"paddingBytes: %d is not between 0 and %d (bytes)", spec.PaddingBytes, maxPadding)
	case spec.ForeignSingleHomePercent > 0 && len(spec.Sunflower) > 0:
		return nil, fmt.Errorf(field+"foreignSingleHomePercent: %d, but sunflower says already whose data single-home transactions use: leave one of them out", spec.ForeignSingleHomePercent)
	}
	if known := []v1alpha1.SmallBankHotSkew{"", v1alpha1.SmallBankHotSkewShare, v1alpha1.SmallBankHotSkewRange}; !slices.Contains(known, spec.HotSkew) {
		return nil, fmt.Errorf(field+"hotSkew: %q is not one of %v", spec.HotSkew, known[1:])
	}
	if known := []v1alpha1.SmallBankLookups{"", v1alpha1.SmallBankLookupsLocal, v1alpha1.SmallBankLookupsAnyHome}; !slices.Contains(known, spec.Lookups) {
		return nil, fmt.Errorf(field+"lookups: %q is not one of %v", spec.Lookups, known[1:])
	}
	l := workload.Locality{MultiHomePercent: spec.MultiHomePercent, MultiPartitionPercent: spec.MultiPartitionPercent,
		ForeignSingleHomePercent: spec.ForeignSingleHomePercent}
	if err := l.Validate(t, "spec.workload.smallbank"); err != nil {
		return nil, err
	}
	s := &SmallBank{spec: spec, seed: seed, topology: t, mixes: all}
	for i, f := range spec.Sunflower {
		r := t.Index(f.Region)
		if r < 0 {
			return nil, fmt.Errorf(field+"sunflower[%d].region: %q is not one of %v", i, f.Region, t.Regions)
		}
		if homes := t.Placement().Regions; int(r) >= homes {
			return nil, fmt.Errorf(field+"sunflower[%d].region: no row calls %s home; take one of %v", i, f.Region, t.Regions[:homes])
		}
		if f.HitPercent < 0 || f.HitPercent > 100 {
			return nil, fmt.Errorf(field+"sunflower[%d].hitPercent: %d is not between 0 and 100", i, f.HitPercent)
		}
		s.targets = append(s.targets, target{r, f.HitPercent})
	}
	// A dependent transaction reads its names in the same procedure as the accounts, so the names must have the same home.
	localNames := spec.MultiHomePercent > 0 && (spec.Lookups != v1alpha1.SmallBankLookupsAnyHome || spec.DependentPercent > 0)
	if err := checkCustomers(uint64(spec.Customers), t.Placement(), Never(&spec, typeNames[typeAmalgamate]) == "", localNames); err != nil {
		return nil, err
	}
	s.index = sync.OnceValue(func() *customers { return newCustomers(uint64(spec.Customers), t.Placement()) })
	s.names = sync.OnceValue(func() map[geo.Cell][]uint32 { return namesByCell(uint64(spec.Customers), t.Placement()) })
	return s, nil
}

// Name implements workload.Workload.
func (s *SmallBank) Name() string { return "smallbank" }

// Types implements workload.Workload.
func (s *SmallBank) Types() []string { return typeNames }

// TypesOf returns the names of the transaction types: lookup (helper phases) and the five final phases.
func TypesOf(*v1alpha1.SmallBank) []string { return typeNames }

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.SmallBank, transaction string) string {
	kind := slices.Index(typeNames, transaction)
	// Dependent transactions have no lookup phase.
	if kind == typeLookup && spec.DependentPercent == 100 {
		return "spec.workload.smallbank.dependentPercent is 100"
	}
	if kind <= typeLookup || slices.ContainsFunc(mixes(spec), func(m []int32) bool { return m[kind-typeBalance] > 0 }) {
		return ""
	}
	if len(spec.MixPhases) > 0 {
		return "its share in spec.workload.smallbank.mixPhases is 0"
	}
	return "its share in spec.workload.smallbank.mix is 0"
}

// mixes returns the consecutive mixes. Each mix has the shares of the types, starting with typeBalance.
func mixes(spec *v1alpha1.SmallBank) (out [][]int32) {
	all := spec.MixPhases
	if len(all) == 0 {
		all = []v1alpha1.SmallBankMix{spec.Mix}
	}
	for _, m := range all {
		out = append(out, []int32{m.Balance, m.WriteCheck, m.DepositChecking, m.TransactSavings, m.Amalgamate})
	}
	return out
}

// Shares returns the shares of multi-home, multi-partition, foreign and dependent final phases. With several mixes it
// adds the shares of the types.
func (s *SmallBank) Shares() []workload.Share {
	out := workload.LocalityShares("final phases", s.spec.MultiHomePercent, s.spec.MultiPartitionPercent)
	out = append(out, workload.ForeignShare("final phases", s.spec.ForeignSingleHomePercent)...)
	out = append(out, workload.DependentShare("final phases", s.spec.DependentPercent)...)
	if len(s.mixes) > 1 {
		out = append(out, workload.MixShares(typeNames[typeBalance:], s.mixes...)...)
	}
	return out
}

// Rows implements workload.Workload. The hash of the name determines the cell of an account row. The ID determines the
// cell of the checking and savings rows.
func (s *SmallBank) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	for _, id := range s.names()[c] {
		put(nameKey(uint64(id)), binary.BigEndian.AppendUint64(make([]byte, 0, rowSize), uint64(id)))
	}
	p := s.topology.Placement()
	for _, table := range []txn.Table{tableChecking, tableSavings} {
		for n := uint64(0); ; n++ {
			id := p.ShardNumber(c, n)
			if id >= uint64(s.spec.Customers) {
				break
			}
			put(txn.IntKey(table, id), encodeAmount(initialBalance(s.seed, table, id)))
		}
	}
}

// Size implements workload.Sized. Each customer has a name and two balances.
func (s *SmallBank) Size() workload.Size {
	return workload.Size{Field: "customers", Value: int64(s.spec.Customers), Rows: rowsPerCustomer * int64(s.spec.Customers), Bytes: 60 * int64(s.spec.Customers)}
}

// Everywhere implements workload.Workload. It loads nothing: each row belongs to a cell.
func (s *SmallBank) Everywhere(func(txn.Key, []byte)) {}

// initialBalance returns a pseudorandom balance, uniform over 1 .. 10000, that depends only on its arguments.
func initialBalance(seed uint64, table txn.Table, id uint64) int64 {
	// SplitMix64's finaliser, over a value that is unique to each (seed, table, id) of a run.
	x := seed*0xd1342543de82ef95 + uint64(table)<<56 + (id+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return int64(x%maxInitial) + 1
}

// KeyName implements workload.Workload: see the function KeyName.
func (s *SmallBank) KeyName(k txn.Key) string { return KeyName(k) }

// KeyName names a row of any SmallBank database as in the paper: account("Client17"), checking(17), savings(17).
func KeyName(k txn.Key) string {
	switch {
	case !k.Valid():
		return k.String()
	case k.Table() == tableAccount:
		return fmt.Sprintf("account(%q)", strings.TrimRight(string(k[1:]), " "))
	case k.Table() == tableChecking:
		return fmt.Sprintf("checking(%d)", k.Shard())
	case k.Table() == tableSavings:
		return fmt.Sprintf("savings(%d)", k.Shard())
	}
	return k.String()
}

// Audit sums all balances and counts rows. An account row with another customer's name counts as -1, and so does a
// damaged row.
func (s *SmallBank) Audit(rows workload.Rows) map[string]int64 {
	var total, n int64
	rows.Each(func(k txn.Key, value []byte) {
		v, ok := decodeAmount(value)
		switch {
		case !ok, k.Table() == tableAccount && nameKey(uint64(v)) != k:
			n--
			return
		case k.Table() != tableAccount:
			total += v
		}
		n++
	})
	return map[string]int64{auditTotal: total, auditRows: n}
}

// Verify checks that every copy has all rows, and that no money appeared or vanished. The final total minus the initial
// total must equal the committed effects that the clients know.
func (s *SmallBank) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	var initial int64
	for id := range uint64(s.spec.Customers) {
		initial += initialBalance(s.seed, tableChecking, id) + initialBalance(s.seed, tableSavings, id)
	}
	checks := []workload.Check{
		workload.WithinLedger("smallbank-total", auditTotal, initial, copies, ledger[ledgerTotal]),
		workload.CopiesAgree(copies),
	}
	if rows := workload.WithinLedger("smallbank-rows", auditRows, rowsPerCustomer*int64(s.spec.Customers), copies, workload.Interval{}); !rows.Passed {
		checks = append(checks, rows)
	}
	if wrong := ledger[ledgerWrongLookups].High; wrong > 0 {
		checks = append(checks, workload.Check{Name: "smallbank-lookup",
			Message: fmt.Sprintf("%d lookups of a name returned another customer's id, or none", wrong)})
	}
	return checks
}
