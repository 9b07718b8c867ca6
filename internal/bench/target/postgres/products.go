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

// Product is a database of several servers that speaks PostgreSQL's protocol: what it says and asks otherwise, from its vendor's documentation.
// Nobody has run the clients of one against the vendor's servers yet. The operator deploys them and gives them to one run at a time, so that
// they need no lock that keeps other runs out; the mark of the table tells.
type Product struct {
	// Engine says what a manifest may ask of it.
	Engine *protocol.Engine
	// name is what people call it. look asks for one row: what the server calls itself, and what tells it from the other servers, each of which
	// knows its own sessions only; nothing where each knows all. speaks tells a server of the product by the former.
	name   string
	look   string
	speaks func(version string) bool
	// levels are those of its isolation levels that it has, by the values of the parameter isolation.
	levels map[string]level
	// table are the columns of the table, and afterwards a statement that makes it one of the product's, with its name for %s.
	table, afterwards string
	// working counts the sessions of the application $1 that have something under way.
	working string
	// limits: the server says how many connections it has left.
	limits bool
	// copyIn are statements before a COPY, settle one after all of them, with the table's name for %s.
	copyIn []string
	settle string
	// settings are those of the clients' sessions.
	settings map[string]string
	// placement is how rows are kept in the regions of their homes; nil where that cannot be, for the reason of unplaced.
	placement *placement
	unplaced  string
}

const plainTable = "k bytea primary key, v bytea not null"

// ownSessions counts them where a server knows its own, as PostgreSQL does.
const ownSessions = "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle' and pid <> pg_backend_pid()"

// CockroachDB shows the sessions of the whole cluster by SHOW CLUSTER SESSIONS, of which one that waits for its client has no active query;
// there is no VACUUM; COPY is one transaction, which large data do not fit into, unless it is told otherwise.
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

// YugabyteDB hashes a primary key unless that says its order, in which rows are scanned; each server of tablets knows its own sessions; there
// is nothing to vacuum. READ COMMITTED is Snapshot, which is stronger, unless the servers have yb_enable_read_committed_isolation.
var YugabyteDB = newProduct(Product{
	name:   "YugabyteDB",
	look:   "select version(), host(inet_server_addr())",
	speaks: func(version string) bool { return strings.Contains(version, yugabyte) },
	levels: levels,
	table:  "k bytea, v bytea not null, primary key (k asc)", working: ownSessions, limits: true, settle: "analyze %s", settings: indexScans,
	unplaced: "a table there is put into regions by partitions of a column of its key, and keys here have none of their home",
}, "yugabytedb", []string{RepeatableRead, Serializable, ReadCommitted}, nil)

// Citus has clients connect to the coordinator, which has their sessions; what it has told the workers to commit and has not been answered is
// prepared there. The table is made a distributed one. Each server has a snapshot of its own, so READ COMMITTED is all that holds for all.
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

// Products are all of them, sorted by their engines' names.
var Products = []*Product{Citus, CockroachDB, YugabyteDB}

// indexScans are the settings of clients' sessions: plans never read a whole table.
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

// placementOf is the parameter placement of a product.
func placementOf(p *Product) protocol.Parameter {
	if p.placement != nil {
		return sqltarget.Placement
	}
	return sqltarget.OwnershipOnly(p.unplaced)
}

// level is the one of a name.
func (p *Product) level(name string) (level, error) {
	l, ok := p.levels[name]
	if !ok {
		return l, fmt.Errorf("isolation: %q is not one of those of %s", name, p.name)
	}
	return l, nil
}

// lookAt is dialect.Look of a product.
func (p *Product) lookAt(ctx context.Context, c conn, s *sqltarget.Server, e sqltarget.Endpoint) (version, server string, err error) {
	facts, err := row(ctx, c, p.look)
	var answer *pgconn.PgError
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
	if !strings.Contains(version, p.name) {
		version = p.name + " (" + version + ")"
	}
	return version, facts[1], nil
}

// dropIn is dialect.Drop of a product.
func (p *Product) dropIn(ctx context.Context, c conn, table, schema string) error {
	if err := exec(ctx, c, "drop table if exists "+table); err != nil || schema == "" {
		return err
	}
	err := exec(ctx, c, "drop schema if exists "+schema)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == dependentObjects {
		return nil // somebody else has something there
	}
	return err
}

// createTable makes the table.
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

// steps runs statements that make something: together, which is one transaction, or one after the other, since products change their schema in
// transactions of their own.
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
