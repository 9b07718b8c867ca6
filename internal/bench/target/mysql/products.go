package mysql

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Product is a database of several servers that speaks MySQL's protocol: what it says and asks otherwise, from its vendor's documentation. The
// operator deploys it and gives it to one run at a time, so that no lock keeps other runs out; the mark of the table tells. Each of its servers
// knows its own sessions only.
type Product struct {
	// Engine says what a manifest may ask of it.
	Engine *protocol.Engine
	// name is what people call it. version is what the server calls itself, by its version() and version_comment; it tells whether that is the
	// product.
	name    string
	version func(version, comment string) (string, bool)
	// levels are those of its isolation levels that it has, by the values of the parameter isolation, and levelName is what a result calls one.
	levels    map[string]level
	levelName func(level) string
	// clients are settings of the clients' sessions at a level, others those of sessions that load and ask.
	clients func(level) []string
	others  []string
	// conflicts are errors, with their reasons, after which a transaction was rolled back, or has to be, and may be tried again.
	conflicts map[uint16]string
	// unplaced is why rows cannot be kept in the regions of their homes.
	unplaced string
	// timeouts are errors after which nobody knows what became of a statement.
	timeouts []uint16
}

// TiDB is optimistic at SnapshotIsolation: a transaction that writes a row which has changed since its snapshot fails at COMMIT. Pessimistic ones
// write the newest version, whatever their snapshot held, as InnoDB's do, and so lose updates. Nobody has run these clients against one yet.
var TiDB = newProduct(Product{
	name: "TiDB",
	version: func(version, _ string) (string, bool) {
		_, name, ok := strings.Cut(version, "-TiDB-")
		return name, ok
	},
	levels: map[string]level{
		ReadCommitted:     {"read committed", false, isolation.ReadCommitted},
		RepeatableRead:    {"repeatable read", false, isolation.ReadCommitted},
		SnapshotIsolation: {"repeatable read", true, isolation.SnapshotIsolation},
	},
	levelName: func(l level) string { return l.sql + ", " + tidbMode(l) },
	clients:   func(l level) []string { return []string{"set tidb_txn_mode = '" + tidbMode(l) + "'"} },
	conflicts: map[uint16]string{
		8002: "serialization-failure", // of SELECT FOR UPDATE
		8005: "serialization-failure",
		8022: "serialization-failure", // at COMMIT
		8028: "schema-changed",
		9007: "serialization-failure",
	},
	unplaced: "a placement policy there is of a table or of partitions by columns of its key, and keys here have no column of their home",
}, "tidb", "isolation level of all transactions; SnapshotIsolation is REPEATABLE READ of optimistic ones, RepeatableRead that of pessimistic ones, which lose updates",
	map[string]string{Serializable: "TiDB has no such transactions, and refuses them with error 8048"})

// tidbMode is what makes a client's transactions those of a level.
func tidbMode(l level) string {
	if l.strict {
		return "optimistic"
	}
	return "pessimistic"
}

// OceanBase reads from a snapshot at REPEATABLE READ, and refuses to write a row that has changed since. SERIALIZABLE is the same there. Tests
// hold these clients against the server that the vendor makes of the same kernel for one machine, seekdb; nobody has run them against a cluster.
// A statement ends after ten seconds, which is too short for a load.
var OceanBase = newProduct(Product{
	name: "OceanBase",
	version: func(version, comment string) (string, bool) {
		_, name, ok := strings.Cut(comment, "OceanBase")
		name = strings.TrimLeft(name, "_ ")
		name, _, _ = strings.Cut(name, " (")
		return strings.TrimPrefix(name, "CE "), ok
	},
	levels: map[string]level{
		ReadCommitted:     {"read committed", false, isolation.ReadCommitted},
		SnapshotIsolation: {"repeatable read", true, isolation.SnapshotIsolation},
	},
	levelName: func(l level) string { return l.sql },
	clients:   func(level) []string { return nil },
	others:    []string{"set ob_query_timeout = 3600000000"}, // µs
	conflicts: map[uint16]string{
		6002: "rolled-back",
		6224: "rolled-back", // the transaction has to be
		6235: "serialization-failure",
	},
	timeouts: []uint16{4012, 6210, 6212},
	unplaced: "a tenant has one region that leads there, for all of its rows",
}, "oceanbase", "isolation level of all transactions; SnapshotIsolation is REPEATABLE READ",
	map[string]string{
		RepeatableRead: "REPEATABLE READ refuses to write rows that have changed since the snapshot there, which is SnapshotIsolation",
		Serializable:   "OceanBase reads from a snapshot at SERIALIZABLE, and lets write skew through: use SnapshotIsolation",
	})

// Products are all of them, sorted by their engines' names.
var Products = []*Product{OceanBase, TiDB}

func newProduct(p Product, name, levels string, instead map[string]string) *Product {
	p.Engine = &protocol.Engine{
		Name: name,
		Doc:  p.name + " as the operator deploys it, reached with go-sql-driver; its transactions are interactive, a statement after the other",
		Parameters: []protocol.Parameter{
			{Name: sqltarget.IsolationParameter, Default: SnapshotIsolation, OneOf: slices.Sorted(maps.Keys(p.levels)), Instead: instead, Doc: levels},
			sqltarget.Connections,
			sqltarget.TLS,
			sqltarget.ProceduresOnly("the SQL of workloads was not written for " + p.name),
			sqltarget.OwnershipOnly(p.unplaced),
			{Name: tableParameter, Default: tables[0], OneOf: tables, Doc: "table of the rows, made where it is not there"},
			{Name: dropTableParameter, Default: "false", OneOf: []string{"false", "true"}, Doc: "whether the table is dropped after the run"},
		},
		Isolation: func(params protocol.Params) isolation.Level {
			return p.levels[params.Word(sqltarget.IsolationParameter)].promises
		},
	}
	return &p
}

// look is dialect.Look of a product.
func (p *Product) look(ctx context.Context, c *conn, s *sqltarget.Server, e sqltarget.Endpoint) (version, server string, err error) {
	facts, err := c.row(ctx, "select version(), @@version_comment, @@hostname, @@port")
	if err != nil {
		return "", "", err
	}
	name, ok := p.version(facts[0], facts[1])
	if !ok {
		return "", "", sqltarget.Wrong(s.Field(e), e.Address, "the server is %q, which is no %s: name a server of %[2]s, or set spec.engine.name to what it is", facts[0], p.name)
	}
	if facts[2] == "" { // it does not say, and each endpoint is taken for a server of its own
		facts[2] = e.Address
	}
	return p.name + " " + name, strings.Join(facts[2:], " "), nil
}

// Classify is that of a product, which has errors of its own.
func (p *Product) Classify(err error) target.Failure {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		if reason, ok := p.conflicts[answer.Number]; ok {
			return target.Failure{Cause: txn.CauseConflict, Reason: reason, RolledBack: true}
		}
		if slices.Contains(p.timeouts, answer.Number) {
			return target.Failure{Cause: txn.CauseNode, Reason: "canceled"}
		}
	}
	return Classify(err)
}
