package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// formed returns the options of a database whose transactions are SQL, in a separate schema.
func formed(level string) postgres.Options {
	o := options(level)
	o.Form, o.ForeignKeys, o.Place = sqltarget.FormSQL, true, "geobench_a"
	return o
}

// open opens a database for a plan, and closes it at the end of the test.
func open(t testing.TB, s *postgrestest.Server, p *plan.Plan, database string, o postgres.Options) sqltarget.Database {
	t.Helper()
	db, err := postgres.Open(t.Context(), &p.Topology, server(s, database, p.Topology.Regions...), o, sqltarget.Session())
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

// Procedures and SQL agree: the same transactions have the same outcomes and leave the same rows in both forms.
func TestFormsAgree(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	for name, spec := range targettest.FormSpecs {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s together %v", name, together), func(t *testing.T) {
				database := fmt.Sprintf("%s_%v", name, together)
				s.Database(t, database)
				p := targettest.Plan(t, "postgres", spec, isolation.Serializable)
				procedures, o := options(postgres.Serializable), formed(postgres.Serializable)
				procedures.Together, o.Together = true, together
				targettest.FormsAgree(t, p, open(t, s, p, database, procedures), open(t, s, p, database, o), func(put func(k, value string)) map[string][]string {
					rows := lines(t, s, database, "select unnest(array[encode(k, 'hex'), encode(v, 'hex')]) from geobench.rows")
					for i := 0; i+1 < len(rows); i += 2 {
						put(rows[i], rows[i+1])
					}
					return tables(t, s, p.Workload, database)
				})
			})
		}
	}
}

// A transaction in SQL takes no more round trips than in a handwritten application.
func TestRoundTripsOfForms(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	proxy := postgrestest.NewProxy(t, s.Address)
	for name, spec := range targettest.FormSpecs {
		for more, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s BEGIN alone %v", name, alone), func(t *testing.T) {
				database := fmt.Sprintf("%s_%v", name, alone)
				s.Database(t, database)
				p := targettest.Plan(t, "postgres", spec, isolation.Serializable)
				to := server(s, database, p.Topology.Regions...)
				for i := range to.Endpoints {
					to.Endpoints[i].Address = proxy.Address
				}
				o := formed(postgres.Serializable)
				o.BeginAlone = alone
				db, err := postgres.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close() //nolint:errcheck // the server stops with the test
				if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
					t.Fatal(err)
				}
				targettest.FormRoundTrips(t, p, db.Clients(0).(*target.Statements), int64(more), proxy.Count())
			})
		}
	}
}

// At SERIALIZABLE, the histories of SQL transactions are serializable and the total balance is correct. This holds with
// and without recording, and whether COMMIT is sent with or after the last statements.
func TestFormIsSerializable(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	for name, tc := range map[string]struct {
		spec     string
		together bool
	}{
		"smallbank":          {"{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}", false},
		"smallbank_together": {"{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}", true},
		"tpcc":               {"{tpcc: {rowsPercent: 2}}", false},
		"tpcc_together":      {"{tpcc: {rowsPercent: 2}}", true},
		"dike":               {targettest.FormSpecs["tpcc"], true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Database(t, name)
			p := targettest.Plan(t, "postgres", tc.spec, isolation.Serializable)
			o := formed(postgres.Serializable)
			o.Together = tc.together
			targettest.FormHolds(t, p, open(t, s, p, name, o))
		})
	}
}

// At READ COMMITTED, amalgamate loses money, because it writes values that it has computed from earlier reads. Both the
// sums and the history show the loss.
func TestFormLosesMoneyAtReadCommitted(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	for name, spec := range targettest.LosingSpecs {
		t.Run(name, func(t *testing.T) {
			s.Database(t, name+"_of_them")
			p := targettest.Plan(t, "postgres", spec, isolation.Serializable)
			targettest.FormLosesMoney(t, p, open(t, s, p, name+"_of_them", formed(postgres.ReadCommitted)))
		})
	}
}

// A commit in SQL whose connection is cut has an unknown outcome, and the next transaction finds the actual outcome.
func TestFormsCommitIsCut(t *testing.T) {
	s := postgrestest.Start(t)
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint(together), func(t *testing.T) {
			proxy := postgrestest.NewProxy(t, s.Address)
			o := formed(postgres.Serializable)
			o.Together = together
			p, db := throughWith(t, s, proxy, o)
			if err := load(t.Context(), p, db); err != nil {
				t.Fatal(err)
			}
			deposit := targettest.FormCutAtCommit(t, db.Clients(0).(*target.Statements), func(served bool) { proxy.CutOnce("geobench_commit", served) }, func() (n int) {
				_, _ = fmt.Sscan(s.Query(t, "postgres", "select balance from geobench_a.checking where customer_id = 1")[0][0], &n)
				return n
			})
			// A transaction whose connection is cut before COMMIT was sent is refused.
			proxy.CutOnce("geobench_begin", false)
			if o := deposit(); o.Status != txn.Refused && !together || o.Status == txn.Committed {
				t.Errorf("a transaction that was cut before COMMIT ended as %+v", o)
			}
		})
	}
}

// A load replaces and drops only tables that Geobench has created. A load of another form or workload drops the tables
// of the previous workload.
func TestTablesOfForms(t *testing.T) {
	s := postgrestest.Start(t)
	bank := targettest.Plan(t, "postgres", targettest.FormSpecs["smallbank"], isolation.Serializable)
	shop := targettest.Plan(t, "postgres", "{tpcc: {rowsPercent: 1}}", isolation.Serializable)
	keep, drop := func(*postgres.Options) {}, func(o *postgres.Options) { o.Drop = true }
	procedures := func(o *postgres.Options) { o.Form = sqltarget.FormProcedures }
	const shopTables = "customer district history item new_order order_line orders rows stock warehouse"
	rmw := targettest.Plan(t, "postgres", "{rmw: {records: 100}}", isolation.Serializable)
	cases := []targettest.FormLoad[postgres.Options]{
		{What: "a bank", Plan: bank, Change: keep, Want: "account checking rows savings"},
		{What: "a shop", Plan: shop, Change: keep, Want: shopTables},
		{What: "a shop again", Plan: shop, Change: keep, Want: shopTables},
		// Names are quoted, so they may contain SQL.
		{What: "one that was renamed", Plan: shop, Change: keep, Meanwhile: `create table public.mine (mine int); alter table geobench_a.history rename to "warehouse, public.mine"`, Want: shopTables},
		{What: "procedures", Plan: bank, Change: procedures, Want: "rows"},
		{What: "somebody's table", Plan: bank, Change: keep, Meanwhile: "create table geobench_a.checking (mine int)", Refused: "making the tables: spec.engine.parameters.schema: geobench_a: the table geobench_a.checking there is not Geobench's", Want: "checking rows"},
		{What: "a shop beside it, dropped", Plan: shop, Change: drop, Want: "checking"},
		{What: "a shop that somebody's table refers to", Plan: shop, Change: keep, Want: "checking " + shopTables},
		{What: "referred to", Plan: bank, Change: drop, Meanwhile: "create table geobench_a.mine (w int references geobench_a.warehouse)", Refused: "constraint mine_w_fkey on table geobench_a.mine depends on table geobench_a.warehouse): drop that, or use another schema", Want: "checking " + strings.Replace(shopTables, "item", "item mine", 1)},
		{What: "without SQL of its own", Plan: rmw, Change: keep, Meanwhile: "drop table geobench_a.mine", Refused: "spec.engine.parameters.form: SQL: the workload rmw has no SQL of its own: use Procedures, which runs its procedures, or one of the workloads smallbank, tpcc", Want: "checking " + shopTables},
	}
	targettest.FormLoads(t, cases, func() postgres.Options { return formed(postgres.Serializable) }, func(p *plan.Plan, o postgres.Options) (sqltarget.Database, error) {
		return postgres.Open(t.Context(), &p.Topology, server(s, "postgres", p.Topology.Regions...), o, sqltarget.Session())
	}, func(sql string) { s.Query(t, "postgres", sql) }, func() (names []string) {
		for _, r := range s.Query(t, "postgres", "select relname from pg_class where relnamespace = to_regnamespace('geobench_a') and relkind = 'r'") {
			names = append(names, r[0])
		}
		return names
	})
	if r := s.Query(t, "postgres", "select to_regclass('public.mine') is not null"); r[0][0] != "t" {
		t.Error("a table of another schema was dropped")
	}
}

// Clients in another process, which know only the parameters, run the same SQL.
func TestFormsAreJoined(t *testing.T) {
	s := postgrestest.Start(t)
	p := targettest.Plan(t, "postgres", targettest.FormSpecs["smallbank"], isolation.Serializable)
	o, session := formed(postgres.Serializable), sqltarget.Session()
	to := server(s, "postgres", p.Topology.Regions...)
	db, err := postgres.Open(t.Context(), &p.Topology, to, o, session)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server stops with the test
	if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		t.Fatal(err)
	}
	o.Connections = 1
	clients, _, err := postgres.Join(t.Context(), &p.Topology, to, o, session, 1)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan txn.Outcome, 1)
	opened, err := clients.Open(t.Context(), func(outcomes []txn.Outcome) { done <- outcomes[0] })
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close() //nolint:errcheck // the server stops with the test
	x := &txn.Transaction{ID: txn.MakeID(1, 1)}
	p.Workload.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1, RegionClients: 1, Stream: 1}).Next(0, 0, x)
	opened.Submit(x)
	opened.Flush()
	if got := <-done; got.Status != txn.Committed || len(got.Result) != 8 {
		t.Errorf("a lookup ended as %+v", got)
	}
}

// Keys, indexes and foreign keys follow the specification. Foreign keys are omitted if configured.
func TestKeysOfForms(t *testing.T) {
	s := postgrestest.Start(t)
	p := targettest.Plan(t, "postgres", "{tpcc: {rowsPercent: 1}}", isolation.Serializable)
	for _, foreign := range []bool{true, false} {
		o := formed(postgres.Serializable)
		o.ForeignKeys = foreign
		db, err := postgres.Open(t.Context(), &p.Topology, server(s, "postgres", p.Topology.Regions...), o, sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		var progress int64
		if err := errors.Join(db.Load(t.Context(), target.Dataset{Workload: p.Workload, Progress: func(rows int64) { progress = rows }}), db.Close()); err != nil {
			t.Fatal(err)
		}
		counts := s.Query(t, "postgres", "select count(*) filter (where contype = 'p'), count(*) filter (where contype = 'f' and convalidated) from pg_constraint where connamespace = 'geobench_a'::regnamespace")
		want := []string{"9", "0"} // history alone has no primary key (clause 1.3.1)
		if foreign {
			want[1] = "10"
		}
		if !slices.Equal(counts[0], want) {
			t.Errorf("foreign keys %v: there are %v primary and foreign keys, not %v", foreign, counts[0], want)
		}
		if indexes := s.Query(t, "postgres", "select indexname from pg_indexes where schemaname = 'geobench_a' and indexname not like '%_pkey' order by 1"); len(indexes) != 2 {
			t.Errorf("the other indexes are %v", indexes)
		}
		rows := s.Query(t, "postgres", "select sum(n_live_tup) from pg_stat_user_tables where schemaname = 'geobench_a' and relname <> 'rows'")
		if fmt.Sprint(progress) != rows[0][0] {
			t.Errorf("progress told of %d rows in the end, and there are %s", progress, rows[0][0])
		}
	}
}

// The audit in SQL finds the same violations as Audit over the rows: the same sums under the same names.
func TestAuditsAgree(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	p := targettest.Plan(t, "postgres", "{tpcc: {rowsPercent: 2}}", isolation.Serializable)
	o := formed(postgres.Serializable)
	o.ForeignKeys = false // so that rows with dangling references can be loaded
	targettest.AuditsAgree(t, p, open(t, s, p, "postgres", o))
}

// tables returns the rows of a form by table.
func tables(t testing.TB, s *postgrestest.Server, w workload.Workload, database string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range w.(sqlform.Workload).Form().Tables {
		rows[table.Name] = lines(t, s, database, "select "+table.ColumnNames()+" from geobench_a."+table.Name)
		slices.Sort(rows[table.Name])
	}
	return rows
}

// lines returns the rows of a query in the format of COPY.
func lines(t testing.TB, s *postgrestest.Server, database, query string) []string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", postgrestest.User, postgrestest.Password, s.Address, database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // its answers have been read
	var out bytes.Buffer
	if _, err := c.CopyTo(t.Context(), &out, "copy ("+query+") to stdout"); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}
