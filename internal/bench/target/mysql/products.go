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

// Product is a distributed database that speaks MySQL's protocol. Its fields describe how its statements and answers
// differ from MySQL's, according to the vendor's documentation. The operator deploys the product for one run at a time.
// No lock is therefore needed, and the mark of the table reveals another run. Each server knows only its own sessions.
type Product struct {
	// Engine describes the product's configuration in a manifest.
	Engine *protocol.Engine
	// name is the common name of the product. version returns the product's version from the server's version() and
	// version_comment, and reports whether they identify the product.
	name    string
	version func(version, comment string) (string, bool)
	// levels are the supported isolation levels, by the values of the parameter isolation. levelName returns a level's
	// name in results.
	levels    map[string]level
	levelName func(level) string
	// clients returns the statements that set up clients' sessions for a level. others are the statements that set up all
	// other sessions, which load and query.
	clients func(level) []string
	others  []string
	// conflicts maps error numbers to reasons. After such an error the server has rolled back the transaction, or the
	// client must do so. The client may then retry.
	conflicts map[uint16]string
	// unplaced is the reason why the product cannot store rows in their home regions.
	unplaced string
	// timeouts are the numbers of errors after which the outcome of a statement is unknown.
	timeouts []uint16
}

// TiDB runs optimistic transactions at SnapshotIsolation: a transaction fails at COMMIT if it writes a row that has
// changed after its snapshot. Pessimistic transactions overwrite the newest version whatever their snapshot contained,
// and so lose updates as in InnoDB. These clients have not been run against a real TiDB yet.
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

// tidbMode returns the value of tidb_txn_mode for a level.
func tidbMode(l level) string {
	if l.strict {
		return "optimistic"
	}
	return "pessimistic"
}

// OceanBase reads from a snapshot at REPEATABLE READ, and rejects a write to a row that has changed after the snapshot.
// Its SERIALIZABLE behaves in the same way. Tests run these clients against seekdb, the vendor's single-machine server
// with the same kernel, but not yet against a cluster. A statement times out after ten seconds by default, which is too
// short for a load.
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
		6224: "rolled-back", // the client must roll back
		6235: "serialization-failure",
	},
	timeouts: []uint16{4012, 6210, 6212},
	unplaced: "a tenant has one region that leads there, for all of its rows",
}, "oceanbase", "isolation level of all transactions; SnapshotIsolation is REPEATABLE READ",
	map[string]string{
		RepeatableRead: "REPEATABLE READ refuses to write rows that have changed since the snapshot there, which is SnapshotIsolation",
		Serializable:   "OceanBase reads from a snapshot at SERIALIZABLE, and lets write skew through: use SnapshotIsolation",
	})

// Products lists all products, sorted by the names of their engines.
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

// look implements dialect.Look for a product.
func (p *Product) look(ctx context.Context, c *conn, s *sqltarget.Server, e sqltarget.Endpoint) (version, server string, err error) {
	facts, err := c.row(ctx, "select version(), @@version_comment, @@hostname, @@port")
	if err != nil {
		return "", "", err
	}
	name, ok := p.version(facts[0], facts[1])
	if !ok {
		return "", "", sqltarget.Wrong(s.Field(e), e.Address, "the server is %q, which is no %s: name a server of %[2]s, or set spec.engine.name to what it is", facts[0], p.name)
	}
	if facts[2] == "" { // the product does not identify servers: count each endpoint as a server
		facts[2] = e.Address
	}
	return p.name + " " + name, strings.Join(facts[2:], " "), nil
}

// Classify interprets an error of the product, and passes errors that all servers share to the function Classify.
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
