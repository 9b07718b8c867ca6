// Package catalog lists all workloads. It creates a workload.Workload from a manifest's spec.workload and registers the
// stored procedures of all workloads, so that a node can run any of them.
package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/micro"
	"github.com/geobench/geobench/internal/bench/workload/rmw"
	"github.com/geobench/geobench/internal/bench/workload/smallbank"
	"github.com/geobench/geobench/internal/bench/workload/social"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
	"github.com/geobench/geobench/internal/bench/workload/tpcc"
	"github.com/geobench/geobench/internal/bench/workload/ycsb"
)

// entry describes a workload in the table.
type entry struct {
	// name is the workload's field in a manifest.
	name       string
	procedures func() []*txn.Procedure
	set        func(spec *v1alpha1.Workload) bool
	// bind, types and never require a spec for which set returns true.
	bind  func(spec *v1alpha1.Workload, seed uint64, t *geo.Topology) (workload.Workload, error)
	types func(spec *v1alpha1.Workload) []string
	never func(spec *v1alpha1.Workload, transaction string) string
	// transactions returns the workload's own SQL transactions. It is nil if the workload has none.
	transactions func() []*sqlform.Transaction
	// aborts are the reasons with which the workload's procedures abort.
	aborts []txn.Abort
}

// table has one entry for each field of v1alpha1.Workload, in field order. The numbers of procedures never change.
// Numbers 1 to 11 are for smallbank, 16 and 17 for rmw, and 32 to 39 for tpcc. Numbers 48 and 49 are for ycsb, 64 is
// for micro, and 80 to 82 are for social.
var table = []entry{
	of("smallbank", func(w *v1alpha1.Workload) *v1alpha1.SmallBank { return w.SmallBank },
		smallbank.New, smallbank.TypesOf, smallbank.Never, smallbank.Procedures, smallbank.Aborts).in(smallbank.Transactions),
	of("rmw", func(w *v1alpha1.Workload) *v1alpha1.RMW { return w.RMW },
		rmw.New, rmw.TypesOf, rmw.Never, rmw.Procedures, rmw.Aborts),
	of("ycsb", func(w *v1alpha1.Workload) *v1alpha1.YCSB { return w.YCSB },
		ycsb.New, ycsb.TypesOf, ycsb.Never, ycsb.Procedures, ycsb.Aborts),
	of("tpcc", func(w *v1alpha1.Workload) *v1alpha1.TPCC { return w.TPCC },
		tpcc.New, tpcc.TypesOf, tpcc.Never, tpcc.Procedures, tpcc.Aborts).in(tpcc.Transactions),
	of("micro", func(w *v1alpha1.Workload) *v1alpha1.Micro { return w.Micro },
		micro.New, micro.TypesOf, micro.Never, micro.Procedures, micro.Aborts),
	of("social", func(w *v1alpha1.Workload) *v1alpha1.Social { return w.Social },
		social.New, social.TypesOf, social.Never, social.Procedures, social.Aborts),
}

// of returns the entry of a workload. field selects the workload's spec. The other parameters are New, TypesOf, Never,
// Procedures and Aborts of the workload's package.
func of[S any, W workload.Workload](name string, field func(*v1alpha1.Workload) *S, bind func(S, uint64, *geo.Topology) (W, error),
	types func(*S) []string, never func(*S,
		string) string, procedures func() []*txn.Procedure, aborts []txn.Abort) entry {
	return entry{
		name:       name,
		procedures: procedures,
		aborts:     aborts,
		set:        func(w *v1alpha1.Workload) bool { return field(w) != nil },
		bind: func(w *v1alpha1.Workload, seed uint64, t *geo.Topology) (workload.Workload, error) {
			return bind(*field(w), seed, t)
		},
		types: func(w *v1alpha1.Workload) []string { return types(field(w)) },
		never: func(w *v1alpha1.Workload, transaction string) string { return never(field(w), transaction) },
	}
}

// in returns a copy of e with transactions in SQL.
func (e entry) in(sql func() []*sqlform.Transaction) entry {
	e.transactions = sql
	return e
}

// find returns the entry of the first workload that is set in spec, or nil.
func find(spec *v1alpha1.Workload) *entry {
	for i := range table {
		if table[i].set(spec) {
			return &table[i]
		}
	}
	return nil
}

// names returns the names of all workloads.
func names() (all []string) {
	for i := range table {
		all = append(all, table[i].name)
	}
	return all
}

// Procedures returns the stored procedures of all workloads, each with its traced form. The number of the traced form
// is larger by history.Traced. Only runs that record a history call the traced forms.
func Procedures() *txn.Registry {
	var all []*txn.Procedure
	for i := range table {
		all = append(all, history.TraceAll(table[i].procedures()...)...)
	}
	return txn.NewRegistry(all...)
}

// Transactions returns the transactions for which workloads provide their own SQL.
func Transactions() *sqlform.Transactions {
	var all []*sqlform.Transaction
	for i := range table {
		if table[i].transactions != nil {
			all = append(all, table[i].transactions()...)
		}
	}
	return sqlform.NewTransactions(all...)
}

// WithSQL returns the names of the workloads that provide their own SQL.
func WithSQL() (names []string) {
	for i := range table {
		if table[i].transactions != nil {
			names = append(names, table[i].name)
		}
	}
	return names
}

// Aborts returns the reasons with which the procedures of the configured workload abort. It returns nil if no workload
// is set.
func Aborts(spec *v1alpha1.Workload) (reasons []string) {
	e := find(spec)
	if e == nil {
		return nil
	}
	for _, a := range e.aborts {
		reasons = append(reasons, string(a))
	}
	return reasons
}

// New creates the workload that spec configures. The defaults of spec must be filled in. Errors name the manifest's
// field.
func New(spec v1alpha1.Workload, seed uint64, t *geo.Topology) (workload.Workload, error) {
	if set := spec.Names(); len(set) > 1 {
		return nil, fmt.Errorf("spec.workload: %s are set; keep exactly one", strings.Join(set, " and "))
	}
	e := find(&spec)
	if e == nil {
		return nil, fmt.Errorf("spec.workload: no workload is set; set exactly one of %s", strings.Join(names(), ", "))
	}
	return e.bind(&spec, seed, t)
}

// Parse decodes a BenchmarkRun's spec.workload, with its defaults filled in, and creates the workload.
func Parse(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error) {
	var w v1alpha1.Workload
	d := json.NewDecoder(bytes.NewReader(spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("spec.workload: %w", err)
	}
	return New(w, seed, t)
}

// TypesOf returns the names of a workload's transaction types, or nil if no workload is set. It needs no topology, so
// that objectives can be validated early.
func TypesOf(spec v1alpha1.Workload) []string {
	if e := find(&spec); e != nil {
		return e.types(&spec)
	}
	return nil
}

// TpmCType returns the transaction type whose commits per minute are the workload's tpmC. It returns "" for workloads
// other than TPC-C.
func TpmCType(spec v1alpha1.Workload) string {
	if spec.TPCC != nil {
		return tpcc.NewOrder
	}
	return ""
}

// Never returns the reason why no transaction of a type runs, such as "its share in spec.workload.tpcc.mix is 0". It
// returns "" if some transactions of the type run.
func Never(spec v1alpha1.Workload, transaction string) string {
	if e := find(&spec); e != nil {
		return e.never(&spec, transaction)
	}
	return ""
}
