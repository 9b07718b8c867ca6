package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// likeCitus creates replacements for the objects that Citus clients query at the coordinator. A row in the table
// pending stands for a prepared transaction at a worker.
const likeCitus = `
create table made (name text);
create table pending ();
create function citus_version() returns text language sql as $$ select 'Citus 14.1.0 on x86_64-pc-linux-gnu' $$;
create function create_distributed_table(name regclass, by text) returns void language sql as $$ insert into made values (name::text || ' by ' || by) $$;
create function run_command_on_workers(command text, out success boolean, out result text) returns setof record language sql
as $$ select true, (select count(*)::text from pending) from generate_series(1, 2) $$`

func asked(t *testing.T, s *postgrestest.Server, database, sql string) string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), "postgres://"+postgrestest.User+":"+postgrestest.Password+"@"+s.Address+"/"+database+"?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // its answers have been read
	results, err := c.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if last := results[len(results)-1]; len(last.Rows) > 0 {
		return string(last.Rows[0][0])
	}
	return ""
}

// Citus's clients run on a PostgreSQL that answers like a coordinator. The contract holds, and the table becomes a
// distributed table. The database is not quiescent while a worker has a prepared transaction.
func TestCitus(t *testing.T) {
	s := postgrestest.Start(t)
	s.Database(t, "citus")
	asked(t, s, "citus", likeCitus)
	open := func(t *testing.T, p *plan.Plan) target.Database {
		o := options(postgres.ReadCommitted)
		o.Product = postgres.Citus
		db, err := postgres.Open(t.Context(), &p.Topology, server(s, "citus", p.Topology.Regions...), o, sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	}
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100}}", isolation.ReadCommitted)
	if err := targettest.Statements(t.Context(), p, open(t, p)); err != nil {
		t.Error(err)
	}
	if made := asked(t, s, "citus", "select name from made"); made != "geobench.rows by k" {
		t.Errorf("%q was made a distributed table", made)
	}
	db := open(t, p)
	if d := db.(target.Described).Describe(); d.Server != "Citus 14.1.0" {
		t.Errorf("the server is %q", d.Server)
	}
	asked(t, s, "citus", "insert into pending default values")
	if a, err := db.Activity(t.Context()); err != nil || a.Pending != 2 {
		t.Errorf("%d pending, %v: want the one of each of two workers", a.Pending, err)
	}
	asked(t, s, "citus", "truncate pending")
	if a, err := db.Activity(t.Context()); err != nil || a.Pending != 0 {
		t.Errorf("%d pending, %v", a.Pending, err)
	}
}

// A server of another product is refused before anything is created, with an error that names the server's product. A
// level that the product does not support is refused, too.
func TestProductsRefuse(t *testing.T) {
	s := postgrestest.Start(t)
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100}}", isolation.ReadCommitted)
	for _, product := range []*postgres.Product{postgres.CockroachDB, postgres.YugabyteDB, postgres.Citus} {
		o := options(postgres.ReadCommitted)
		o.Product = product
		_, err := postgres.Open(t.Context(), &p.Topology, server(s, "postgres", p.Topology.Regions...), o, sqltarget.Session())
		if err == nil || !strings.Contains(err.Error(), `spec.external.endpoints[0].address`) || !strings.Contains(err.Error(), `the server is "PostgreSQL `) {
			t.Errorf("%s on PostgreSQL: %v", product.Engine.Name, err)
		}
		levels := 0
		for _, level := range []string{postgres.ReadCommitted, postgres.RepeatableRead, postgres.Serializable} {
			if _, errs := product.Engine.Resolve(map[string]string{sqltarget.IsolationParameter: level}); len(errs) == 0 {
				levels++
				continue
			}
			o.Isolation = level
			if _, err := postgres.Open(t.Context(), &p.Topology, server(s, "postgres", p.Topology.Regions...), o, sqltarget.Session()); err == nil || !strings.Contains(err.Error(), "isolation") {
				t.Errorf("%s at %s: %v", product.Engine.Name, level, err)
			}
		}
		if want := map[string]int{"citus": 1, "cockroachdb": 2, "yugabytedb": 3}[product.Engine.Name]; levels != want {
			t.Errorf("%s has %d levels, want %d", product.Engine.Name, levels, want)
		}
	}
	if there := asked(t, s, "postgres", "select to_regnamespace('geobench') is null"); there != "t" {
		t.Error("something was made")
	}
}
