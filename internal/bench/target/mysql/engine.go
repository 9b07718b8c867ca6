// Package mysql implements target.Database for MySQL, MariaDB and Galera, which it accesses with go-sql-driver/mysql.
// Procedures run statement by statement on an InnoDB table of keys and values, or a workload's own SQL runs on separate
// tables (package sqlform). All transactions of a run have the same isolation level. The package deploys nothing, and
// writes only to tables that it has created.
//
// The guarantees of the levels are InnoDB's, which differ from levels of the same names elsewhere. REPEATABLE READ
// reads from a snapshot but overwrites the newest version. Two transactions that read and then write the same row may
// therefore lose an update, so in package isolation the level counts as read committed.
//
// With innodb_snapshot_isolation (MariaDB from 10.6.18 and 10.11.8 on), such a write fails; this is snapshot isolation.
// SERIALIZABLE locks the rows that are read.
package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Names of the parameters of Engine.
const (
	tableParameter     = "table"
	dropTableParameter = "dropTable"
	syncWaitParameter  = "syncWait"
)

// The values of the parameter isolation.
const (
	ReadCommitted     = "ReadCommitted"
	RepeatableRead    = "RepeatableRead"
	SnapshotIsolation = "SnapshotIsolation"
	Serializable      = "Serializable"
)

// level is an isolation level. sql is its name in SQL, and promises the guarantee that histories satisfy. strict is set
// if a write fails when the row has a newer version than the snapshot.
type level struct {
	sql      string
	strict   bool
	promises isolation.Level
}

// name returns the name of the level in results.
func (l level) name() string {
	if l.strict {
		return l.sql + ", innodb_snapshot_isolation"
	}
	return l.sql
}

var levels = map[string]level{
	ReadCommitted:     {"read committed", false, isolation.ReadCommitted},
	RepeatableRead:    {"repeatable read", false, isolation.ReadCommitted},
	SnapshotIsolation: {"repeatable read", true, isolation.SnapshotIsolation},
	Serializable:      {"serializable", false, isolation.Serializable},
}

// tables are the allowed values of the parameter table, with the default first. They need no quotes, and are unlikely
// to collide with other tables.
var tables = []string{"geobench_rows", "geobench_rows_a", "geobench_rows_b", "geobench_rows_c"}

// Engine describes the MySQL configuration in a manifest.
var Engine = &protocol.Engine{
	Name: "mysql",
	Doc:  "MySQL, MariaDB or Galera, reached with go-sql-driver; its transactions are interactive, a statement after the other",
	Parameters: parameters(protocol.Parameter{
		Name: sqltarget.IsolationParameter, Default: Serializable, OneOf: []string{ReadCommitted, RepeatableRead, SnapshotIsolation, Serializable},
		Doc: "isolation level of all transactions; InnoDB's RepeatableRead loses updates, and SnapshotIsolation is the same with MariaDB's innodb_snapshot_isolation",
	}),
	Isolation: promises,
}

// Galera is the engine for clusters in which several nodes accept writes. It does not offer SERIALIZABLE, because its
// locks cover only a single node and guarantee nothing in such a cluster.
var Galera = &protocol.Engine{
	Name: "galera",
	Doc:  "MariaDB with Galera, a writer in every region, reached with go-sql-driver; its transactions are interactive, a statement after the other",
	Parameters: parameters(protocol.Parameter{
		Name: sqltarget.IsolationParameter, Default: SnapshotIsolation, OneOf: []string{ReadCommitted, RepeatableRead, SnapshotIsolation},
		Doc: "isolation level of all transactions; RepeatableRead loses updates, and SnapshotIsolation is the same with innodb_snapshot_isolation; SERIALIZABLE locks on one node only",
	}),
	Isolation: promises,
}

func parameters(isolation protocol.Parameter) []protocol.Parameter {
	return []protocol.Parameter{
		isolation,
		sqltarget.Connections,
		sqltarget.TLS,
		sqltarget.Begin,
		sqltarget.Form,
		sqltarget.ForeignKeys,
		{Name: syncWaitParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether statements on Galera wait until the node has applied what was committed before on any other (wsrep_sync_wait = 7)"},
		{Name: tableParameter, Default: tables[0], OneOf: tables,
			Doc: "table of the rows, made where it is not there; several let runs of procedures share a database"},
		{Name: dropTableParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether the table, and those of form SQL, are dropped after the run"},
	}
}

func promises(p protocol.Params) isolation.Level {
	return levels[p.Word(sqltarget.IsolationParameter)].promises
}

// Options configures the use of a database, except for its location.
type Options struct {
	sqltarget.Options
	// SyncWait is set if statements on Galera wait until the node has applied the earlier commits of other nodes.
	SyncWait bool
	// Galera is set if servers that are not Galera nodes are refused.
	Galera bool
	// Product is the product that the servers must be, or nil for MySQL, MariaDB and Galera.
	Product *Product
}

// OptionsOf returns the options that the parameters of Engine select. The parameters must have been checked.
func OptionsOf(p protocol.Params) Options {
	return Options{
		Options: sqltarget.Options{
			Isolation: p.Word(sqltarget.IsolationParameter), Connections: int(p.Int(sqltarget.ConnectionsParameter)), TLS: p.Word(sqltarget.TLSParameter),
			Form: p.Word(sqltarget.FormParameter), ForeignKeys: p.Word(sqltarget.ForeignKeysParameter) == "true",
			BeginAlone: p.Word(sqltarget.BeginParameter) == sqltarget.BeginAlone,
			Place:      p.Word(tableParameter), Drop: p.Word(dropTableParameter) == "true",
		},
		SyncWait: p.Word(syncWaitParameter) == "true",
	}
}

func levelOf(o *Options) (level, error) {
	known := levels
	if o.Product != nil {
		known = o.Product.levels
	}
	l, ok := known[o.Isolation]
	if !ok {
		return l, fmt.Errorf("isolation: %q is not one of %s", o.Isolation, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return l, nil
}
