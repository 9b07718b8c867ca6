// Package catalog lists all workloads: it turns a manifest's spec.workload into a workload.Workload, and knows the stored
// procedures of all of them, so that a node can run any.
package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/rmw"
	"github.com/geobench/geobench/internal/workload/smallbank"
	"github.com/geobench/geobench/internal/workload/tpcc"
	"github.com/geobench/geobench/internal/workload/ycsb"
)

// Procedures returns the stored procedures of all workloads, each with its traced form, which only runs that record a
// history call. Their numbers are fixed for ever: smallbank 1 to 9, rmw 16, tpcc 32 to 36, ycsb 48 and 49, and
// history.Traced more for the traced forms.
func Procedures() *txn.Registry {
	var all []*txn.Procedure
	for _, w := range [][]*txn.Procedure{smallbank.Procedures(), rmw.Procedures(), ycsb.Procedures(), tpcc.Procedures()} {
		all = append(all, history.TraceAll(w...)...)
	}
	return txn.NewRegistry(all...)
}

// New makes the workload that spec, with its defaults filled in, asks for. Errors name the manifest's field.
func New(spec v1alpha1.Workload, seed uint64, t *geo.Topology) (workload.Workload, error) {
	switch set := spec.Names(); {
	case len(set) > 1:
		return nil, fmt.Errorf("spec.workload: %s are set; keep exactly one", strings.Join(set, " and "))
	case spec.SmallBank != nil:
		return smallbank.New(*spec.SmallBank, seed, t)
	case spec.RMW != nil:
		return rmw.New(*spec.RMW, seed, t)
	case spec.YCSB != nil:
		return ycsb.New(*spec.YCSB, seed, t)
	case spec.TPCC != nil:
		return tpcc.New(*spec.TPCC, seed, t)
	}
	return nil, fmt.Errorf("spec.workload: no workload is set; set exactly one of smallbank, rmw, ycsb, tpcc")
}

// Parse reads a BenchmarkRun's spec.workload, with its defaults filled in, and makes the workload.
func Parse(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error) {
	var w v1alpha1.Workload
	d := json.NewDecoder(bytes.NewReader(spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("spec.workload: %w", err)
	}
	return New(w, seed, t)
}

// TypesOf returns the names of the transaction types of a workload, for those who validate objectives without a topology.
func TypesOf(spec v1alpha1.Workload) []string {
	switch {
	case spec.SmallBank != nil:
		return (&smallbank.SmallBank{}).Types()
	case spec.RMW != nil:
		return (&rmw.RMW{}).Types()
	case spec.YCSB != nil:
		return ycsb.TypesOf(spec.YCSB)
	case spec.TPCC != nil:
		return (&tpcc.TPCC{}).Types()
	}
	return nil
}
