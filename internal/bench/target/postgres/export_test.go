package postgres

import (
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// Play replaces the SQL transactions of all workloads with the given transactions until restore is called.
func Play(all ...*sqlform.Transaction) (restore func()) {
	before := transactions
	transactions = sqlform.NewTransactions(all...)
	return func() { transactions = before }
}

// Placed returns a product like CockroachDB that runs on PostgreSQL. Its region column has no effect on the placement
// of rows.
func Placed() *Product {
	p := *CockroachDB
	p.look, p.speaks = "select version(), ''", func(version string) bool { return strings.HasPrefix(version, "PostgreSQL") }
	p.working, p.copyIn, p.limits, p.levels = ownSessions, nil, true, levels
	p.placement = &placement{column: "public.region_of_a_row", regions: func(_ string, regions []string) []string {
		return []string{"drop type if exists public.region_of_a_row", "create type public.region_of_a_row as enum ('" + strings.Join(regions, "', '") + "')"}
	}}
	return &p
}

// PlacedStatements returns the statements that declare a database's regions to CockroachDB, and the statement that
// creates the table.
func PlacedStatements(t *geo.Topology) []string {
	d := &dialect{product: CockroachDB, homes: newHomes(t, CockroachDB.placement), table: "geobench.rows"}
	return append(CockroachDB.placement.regions("defaultdb", t.Regions), d.createTable())
}

// HomeNumber exports homeNumber to tests.
var HomeNumber = homeNumber
