package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Product is a distributed database that speaks PostgreSQL's protocol. Its fields describe how its statements and
// answers differ from PostgreSQL's, according to the vendor's documentation. This code has not been run against any
// vendor's servers yet. The operator deploys the servers for one run at a time. No lock is therefore needed, and the
// mark of the table reveals another run.
type Product struct {
	// Engine describes the product's configuration in a manifest.
	Engine *protocol.Engine
	// name is the common name of the product. look is a query that returns one row. Its first column is the server's
	// version text, by which speaks recognizes the product. Its second column distinguishes servers that know only their
	// own sessions; it is empty if every server knows all sessions.
	name   string
	look   string
	speaks func(version string) bool
	// levels are the supported isolation levels, by the values of the parameter isolation.
	levels map[string]level
	// table is the column list of the table. afterwards is a statement that turns the new table into one of the product's
	// special tables; %s is the name of the table.
	table, afterwards string
	// working is the query that counts the busy sessions of the application $1.
	working string
	// limits is set if the server reports its limit on connections and the number in use.
	limits bool
	// copyIn are statements that run before each COPY. settle is a statement that runs after the load; %s is the table's
	// name.
	copyIn []string
	settle string
	// settings are the settings of the clients' sessions.
	settings map[string]string
	// placement is the method that stores rows in their home regions, or nil if the product has none. In that case,
	// unplaced is the reason.
	placement *placement
	unplaced  string
}

const plainTable = "k bytea primary key, v bytea not null"

// ownSessions is the query that counts the busy sessions of a server that knows only its own sessions, like PostgreSQL.
const ownSessions = "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle' and pid <> pg_backend_pid()"

// CockroachDB lists the sessions of the whole cluster with SHOW CLUSTER SESSIONS; a session that waits for its client
// has no active query. There is no VACUUM. By default COPY is a single transaction, whose size limit is too small for a
// load.
var CockroachDB = newProduct(Product{
	name:   "CockroachDB",
	look:   "select version(), ''",
	speaks: func(version string) bool { return strings.HasPrefix(version, "CockroachDB") },
	levels: map[string]level{
		Serializable:  {"serializable", isolation.Serializable},
		ReadCommitted: {"read committed", isolation.ReadCommitted},
	},
	table:   plainTable,
	working: "select count(*) from [show cluster sessions] where application_name = $1 and active_queries <> '' and lower(active_queries) not like '%cluster sessions%'",
	copyIn:  []string{"set copy_from_atomic_enabled = off"},
	settle:  "analyze %s",
	placement: &placement{
		regions: cockroachRegions, column: "public.crdb_internal_region", locality: " locality regional by row as home",
	},
}, "cockroachdb", []string{Serializable, ReadCommitted}, map[string]string{RepeatableRead: "CockroachDB runs such transactions at another level"})

// YugabyteDB hashes a primary key unless the key declares an order, which scans need. Each tablet server knows only its
// own sessions. There is no VACUUM. READ COMMITTED is executed as snapshot isolation, which is stronger, unless the
// servers set yb_enable_read_committed_isolation.
var YugabyteDB = newProduct(Product{
	name:   "YugabyteDB",
	look:   "select version(), host(inet_server_addr())",
	speaks: func(version string) bool { return strings.Contains(version, yugabyte) },
	levels: levels,
	table:  "k bytea, v bytea not null, primary key (k asc)", working: ownSessions, limits: true, settle: "analyze %s", settings: indexScans,
	unplaced: "a table there is put into regions by partitions of a column of its key, and keys here have none of their home",
}, "yugabytedb", []string{RepeatableRead, Serializable, ReadCommitted}, nil)

// Citus clients connect to the coordinator, which knows all sessions. A commit in progress is a prepared transaction on
// the workers, so prepared transactions count as work. The table becomes a distributed table. Each server has its own
// snapshot, so a transaction over several servers is guaranteed only READ COMMITTED.
var Citus = newProduct(Product{
	name:       "Citus",
	look:       "select citus_version(), ''",
	speaks:     func(version string) bool { return strings.HasPrefix(version, "Citus ") },
	levels:     map[string]level{ReadCommitted: levels[ReadCommitted]},
	table:      plainTable,
	afterwards: "select create_distributed_table('%s', 'k')",
	working:    "select (" + ownSessions + ") + (select coalesce(sum(result::bigint), 0) from run_command_on_workers('select count(*) from pg_prepared_xacts'))",
	limits:     true, settle: "vacuum (analyze) %s", settings: indexScans,
	unplaced: "rows are dealt out to the workers by hashes of their keys there",
}, "citus", []string{ReadCommitted}, map[string]string{
	RepeatableRead: "a snapshot is of one server, and a transaction of several has no common one",
	Serializable:   "conflicts are found on each server alone, and a transaction of several may be in none's order",
})

// Products lists all products, sorted by the names of their engines.
var Products = []*Product{Citus, CockroachDB, YugabyteDB}

// indexScans are settings of clients' sessions that keep plans from scanning a whole table.
var indexScans = map[string]string{"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}

func newProduct(p Product, name string, isolations []string, instead map[string]string) *Product {
	p.Engine = &protocol.Engine{
		Name: name,
		Doc:  p.name + " as the operator deploys it, reached with pgx; its transactions are interactive, a statement after the other",
		Parameters: []protocol.Parameter{
			{Name: sqltarget.IsolationParameter, Default: isolations[0], OneOf: isolations, Instead: instead, Doc: "isolation level of all transactions"},
			sqltarget.Connections,
			sqltarget.TLS,
			sqltarget.ProceduresOnly("the SQL of workloads was written for PostgreSQL itself"),
			placementOf(&p),
			{Name: schemaParameter, Default: schemas[0], OneOf: schemas, Doc: "schema of the table, made where it is not there"},
			{Name: dropSchemaParameter, Default: "false", OneOf: []string{"false", "true"}, Doc: "whether the table, and the schema if it is empty then, are dropped after the run"},
		},
		Isolation: func(params protocol.Params) isolation.Level {
			return p.levels[params.Word(sqltarget.IsolationParameter)].promises
		},
	}
	return &p
}

// placementOf returns the parameter placement of a product.
func placementOf(p *Product) protocol.Parameter {
	if p.placement != nil {
		return sqltarget.Placement
	}
	return sqltarget.OwnershipOnly(p.unplaced)
}

// level returns the isolation level called name.
func (p *Product) level(name string) (level, error) {
	l, ok := p.levels[name]
	if !ok {
		return l, fmt.Errorf("isolation: %q is not one of those of %s", name, p.name)
	}
	return l, nil
}

// lookAt implements dialect.Look for a product.
func (p *Product) lookAt(ctx context.Context, c conn, s *sqltarget.Server, e sqltarget.Endpoint) (version, server string, err error) {
	facts, err := row(ctx, c, p.look)
	var answer *pgconn.PgError
	// A server of another kind lacks the product's version function; version() then identifies it in the error.
	if errors.As(err, &answer) && answer.Code == undefinedFunction {
		facts, err = row(ctx, c, "select version(), ''")
	}
	if err != nil {
		return "", "", err
	}
	if !p.speaks(facts[0]) {
		return "", "", sqltarget.Wrong(s.Field(e), e.Address, "the server is %q, which is no %s: name a server of %[2]s, or set spec.engine.name to what it is", facts[0], p.name)
	}
	version, _, _ = strings.Cut(facts[0], " on ")
	// The result must name the product even if its version text claims to be PostgreSQL.
	if !strings.Contains(version, p.name) {
		version = p.name + " (" + version + ")"
	}
	return version, facts[1], nil
}

// dropIn implements dialect.Drop for a product. If schema is "", only the table is dropped.
func (p *Product) dropIn(ctx context.Context, c conn, table, schema string) error {
	if err := exec(ctx, c, "drop table if exists "+table); err != nil || schema == "" {
		return err
	}
	err := exec(ctx, c, "drop schema if exists "+schema)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == dependentObjects {
		return nil // the schema has objects of other users
	}
	return err
}

// createTable returns the statement that creates the table.
func (d *dialect) createTable() string {
	columns, locality := plainTable, ""
	if d.product != nil {
		columns = d.product.table
	}
	if h := d.homes; h != nil {
		columns += ", home " + d.product.placement.column + " not null generated always as (" + h.of("k") + ") stored"
		locality = d.product.placement.locality
	}
	return "create table " + d.table + " (" + columns + ")" + locality
}

// steps runs statements that create objects. PostgreSQL runs them in one transaction. Products change their schema in
// separate transactions, so they run the statements one by one.
func (d *dialect) steps(ctx context.Context, c conn, sql []string) error {
	if d.product == nil {
		return exec(ctx, c, strings.Join(sql, "; "))
	}
	for _, s := range sql {
		if err := exec(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}
