package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/postgres"
	"github.com/geobench/geobench/internal/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/sqlform"
)

// formed are the options of a database whose transactions are SQL, in a schema of its own.
func formed(level string) postgres.Options {
	o := options(level)
	o.Form, o.ForeignKeys, o.Place = sqltarget.FormSQL, true, "geobench_a"
	return o
}

// open opens a database for a plan, and closes it when the test ends.
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

// client runs one transaction after the other.
type client struct {
	session target.Session
	done    chan txn.Outcome
}

func newClient(t testing.TB, db target.Database) *client {
	t.Helper()
	c := &client{done: make(chan txn.Outcome, 1)}
	clients := db.Clients(0).(*target.Statements)
	clients.Connections = 1
	var err error
	c.session, err = clients.Open(t.Context(), func(outcomes []txn.Outcome) {
		for _, o := range outcomes {
			o.Result = slices.Clone(o.Result)
			c.done <- o
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.session.Close() })
	return c
}

func (c *client) run(x *txn.Transaction) txn.Outcome {
	c.session.Submit(x)
	c.session.Flush()
	return <-c.done
}

// specs are workloads with all of their transactions, as in spec.workload.
var formSpecs = map[string]string{
	"smallbank": "{smallbank: {customers: 100, multiHomePercent: 30, hotPercent: 50}}",
	"tpcc": "{tpcc: {rowsPercent: 2, warehousesPerPartition: 2, rollbackPercent: 10, remote: {distributionRatioPercent: 30, distributionDegree: 2, paymentPercent: 30}, " +
		"mix: {newOrder: 30, payment: 20, orderStatus: 8, delivery: 20, stockLevel: 7, updateStock: 5, updateBalance: 5, selectBalance: 5}, dike: {balanceGroup: 2}}}",
}

// The same calls have the same outcomes as procedures and as SQL, and leave the same rows.
func TestFormsAgree(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	for name, spec := range formSpecs {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s together %v", name, together), func(t *testing.T) {
				database := fmt.Sprintf("%s_%v", name, together)
				s.Database(t, database)
				p := targettest.Plan(t, "postgres", spec, isolation.Serializable)
				procedures, o := options(postgres.Serializable), formed(postgres.Serializable)
				procedures.Together, o.Together = true, together
				dbs := []sqltarget.Database{open(t, s, p, database, procedures), open(t, s, p, database, o)}
				var clients []*client
				for _, db := range dbs {
					if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
						t.Fatal(err)
					}
					clients = append(clients, newClient(t, db))
				}
				const terminals, transactions = 20, 1500
				seen := map[string]int{}
				generator := p.Workload.NewGenerator(workload.GeneratorConfig{Clients: terminals, RegionClients: terminals, Stream: 1, Measured: time.Minute})
				for i := range transactions {
					x := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
					r := generator.Next(i%terminals, 0, x)
					want, got := clients[0].run(x), clients[1].run(x)
					if want.Status != got.Status || want.Cause != got.Cause || want.Reason != got.Reason || want.Class != got.Class || !bytes.Equal(want.Result, got.Result) {
						t.Fatalf("transaction %d, %s with arguments %x:\nprocedure %+v\nSQL       %+v", i, p.Workload.Types()[r.Type], x.Args, want, got)
					}
					seen[p.Workload.Types()[r.Type]+" "+strings.TrimSpace(want.Status.String()+" "+want.Reason)]++
					generator.Done(i%terminals, want)
				}
				t.Logf("%v", seen)
				for _, kind := range p.Workload.Types() {
					if seen[kind+" committed"] < 10 {
						t.Errorf("%d of %s were committed", seen[kind+" committed"], kind)
					}
				}
				if name == "tpcc" && seen["newOrder aborted unused-item"] < 10 {
					t.Error("next to no order had an unused item")
				}
				want, got := columns(t, s, p.Workload, database), tables(t, s, p.Workload, database)
				for _, table := range slices.Sorted(maps.Keys(want)) {
					if len(got[table]) != len(want[table]) {
						t.Errorf("%s has %d rows, not %d", table, len(got[table]), len(want[table]))
						continue
					}
					for i := range want[table] {
						if got[table][i] != want[table][i] {
							t.Errorf("%s has the row\n%s\nnot\n%s", table, got[table][i], want[table][i])
							break
						}
					}
				}
				var sums []map[string]int64
				for _, db := range dbs {
					a, err := db.Audit(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, shard := range a[0] {
						if shard.Sums != nil {
							sums = append(sums, shard.Sums)
						}
					}
				}
				if len(sums) != 2 || !maps.Equal(sums[0], sums[1]) {
					t.Errorf("the audits differ: %v", sums)
				}
			})
		}
	}
}

// At SERIALIZABLE the histories of SQL are serializable and the money adds up, recorded or not, with COMMIT together with the last statements or
// after them.
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
		"dike":               {formSpecs["tpcc"], true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Database(t, name)
			p := targettest.Plan(t, "postgres", tc.spec, isolation.Serializable)
			o := formed(postgres.Serializable)
			o.Together = tc.together
			d, err := local.On(t.Context(), p, open(t, s, p, name, o), nil)
			if err != nil {
				t.Fatal(err)
			}
			targettest.Judge(t, d)
			t.Logf("%d committed", d.Summary.Committed)
			if want := "SQL, foreign keys"; d.Target.Form != want {
				t.Errorf("the form is %q, not %q", d.Target.Form, want)
			}
		})
	}
}

// At READ COMMITTED money is lost, by amalgamate, which writes what it has read before: the sums and the history both say so.
func TestFormLosesMoneyAtReadCommitted(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100, hotPercent: 90}}", isolation.Serializable)
	d, err := local.On(t.Context(), p, open(t, s, p, "postgres", formed(postgres.ReadCommitted)), nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]string{}
	for _, c := range d.Checks {
		if t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message); !c.Passed {
			failed[c.Name] = c.Message
		}
	}
	if failed["smallbank-total"] == "" || failed["serializable"] == "" {
		t.Errorf("of the checks failed %v", failed)
	}
}

// columns takes the rows of the procedures apart, as COPY would print them, and sorts them by table.
func columns(t testing.TB, s *postgrestest.Server, w workload.Workload, database string) map[string][]string {
	t.Helper()
	form := w.(sqlform.Workload).Form()
	rows := map[string][]string{}
	var key []byte
	for i, v := range lines(t, s, database, "select unnest(array[encode(k, 'hex'), encode(v, 'hex')]) from geobench.rows") {
		b := make([]byte, len(v)/2)
		if _, err := fmt.Sscanf(v+"\n", "%x", &b); err != nil && v != "" {
			t.Fatal(err)
		}
		if i%2 == 0 {
			key = b
			continue
		}
		var c sqlform.Columns
		table, err := form.Row(txn.Key(key), b, &c)
		if err != nil {
			t.Fatal(err)
		}
		if table != sqlform.NoTable {
			name := form.Tables[table].Name
			rows[name] = append(rows[name], string(c.Bytes))
		}
	}
	for _, r := range rows {
		slices.Sort(r)
	}
	return rows
}

// tables are the rows of the form.
func tables(t testing.TB, s *postgrestest.Server, w workload.Workload, database string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range w.(sqlform.Workload).Form().Tables {
		rows[table.Name] = lines(t, s, database, "select "+table.ColumnNames()+" from geobench_a."+table.Name)
		slices.Sort(rows[table.Name])
	}
	return rows
}

// lines are what COPY prints of a query.
func lines(t testing.TB, s *postgrestest.Server, database, query string) []string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", postgrestest.User, postgrestest.Password, s.Address, database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // it was read
	var out bytes.Buffer
	if _, err := c.CopyTo(t.Context(), &out, "copy ("+query+") to stdout"); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}
