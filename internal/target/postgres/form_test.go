package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/postgres"
	"github.com/geobench/geobench/internal/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/sqlform"
	"github.com/geobench/geobench/internal/workload/tpcc"
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
				const terminals, transactions = 20, 800
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
	for name, mix := range map[string]string{
		"all":      "",
		"deposits": ", mix: {balance: 0, writeCheck: 0, depositChecking: 40, transactSavings: 20, amalgamate: 40}",
	} {
		t.Run(name, func(t *testing.T) {
			s.Database(t, name+"_of_them")
			p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100, hotPercent: 90"+mix+"}}", isolation.Serializable)
			d, err := local.On(t.Context(), p, open(t, s, p, name+"_of_them", formed(postgres.ReadCommitted)), nil)
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
		})
	}
}

// Nobody is told how a commit of SQL has ended whose connection was cut, and what the next one finds is what has become of it.
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
			c := newClient(t, db)
			deposits := uint64(0)
			deposit := func() txn.Outcome {
				deposits++
				args := binary.BigEndian.AppendUint64(make([]byte, 0, 24), 1)
				args = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(args, 1), 5)
				return c.run(&txn.Transaction{ID: txn.MakeID(1, deposits), Proc: 4, Args: args}) // depositChecking of 5 to customer 1
			}
			balance := func() (n int) {
				rows := s.Query(t, "postgres", "select balance from geobench_a.checking where customer_id = 1")
				_, _ = fmt.Sscan(rows[0][0], &n)
				return n
			}
			for _, served := range []bool{false, true, true, false} {
				before := balance()
				proxy.CutOnce("geobench_commit", served)
				if o := deposit(); o.Status != txn.Unknown || o.Cause != txn.CauseNode || o.Reason != "connection-lost" {
					t.Errorf("a commit that was cut (served: %v) ended as %+v", served, o)
				}
				want := before
				if served {
					want += 5
				}
				if o := deposit(); o.Status != txn.Committed {
					t.Errorf("after a commit that was cut: %+v", o)
				}
				if got := balance(); got != want+5 {
					t.Errorf("after a commit that was cut (served: %v) and one that was not, %d became %d", served, before, got)
				}
			}
			// What is lost before COMMIT was sent is refused.
			proxy.CutOnce("geobench_begin", false)
			if o := deposit(); o.Status != txn.Refused && !together || o.Status == txn.Committed {
				t.Errorf("a transaction that was cut before COMMIT ended as %+v", o)
			}
		})
	}
}

// Only the tables that Geobench has made are replaced and dropped, and a load of another form or workload leaves none of the last one's.
func TestTablesOfForms(t *testing.T) {
	s := postgrestest.Start(t)
	bank := targettest.Plan(t, "postgres", formSpecs["smallbank"], isolation.Serializable)
	shop := targettest.Plan(t, "postgres", "{tpcc: {rowsPercent: 1}}", isolation.Serializable)
	there := func() string {
		var names []string
		for _, r := range s.Query(t, "postgres", "select relname from pg_class where relnamespace = to_regnamespace('geobench_a') and relkind = 'r' order by relname") {
			names = append(names, r[0])
		}
		return strings.Join(names, " ")
	}
	use := func(p *plan.Plan, change func(*postgres.Options), meanwhile string) error {
		t.Helper()
		o := formed(postgres.Serializable)
		change(&o)
		db, err := postgres.Open(t.Context(), &p.Topology, server(s, "postgres", p.Topology.Regions...), o, sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		if meanwhile != "" {
			s.Query(t, "postgres", meanwhile)
		}
		return errors.Join(db.Load(t.Context(), target.Dataset{Workload: p.Workload, Traced: true}), db.Close())
	}
	keep, drop := func(*postgres.Options) {}, func(o *postgres.Options) { o.Drop = true }
	procedures := func(o *postgres.Options) { o.Form = sqltarget.FormProcedures }
	const shopTables = "customer district history item new_order order_line orders rows stock warehouse"
	for _, tc := range []struct {
		what      string
		plan      *plan.Plan
		change    func(*postgres.Options)
		meanwhile string
		refused   string
		want      string
	}{
		{"a bank", bank, keep, "", "", "account checking rows savings"},
		{"a shop", shop, keep, "", "", shopTables},
		{"a shop again", shop, keep, "", "", shopTables},
		{"procedures", bank, procedures, "", "", "rows"},
		{"somebody's table", bank, keep, "create table geobench_a.checking (mine int)", "making the tables: spec.engine.parameters.schema: geobench_a: the table geobench_a.checking there is not Geobench's", "checking rows"},
		{"a shop beside it, dropped", shop, drop, "", "", "checking"},
		{"a shop that somebody's table refers to", shop, keep, "", "", "checking " + shopTables},
		{"referred to", bank, drop, "create table geobench_a.mine (w int references geobench_a.warehouse)", "constraint mine_w_fkey on table geobench_a.mine depends on table geobench_a.warehouse): drop that, or use another schema", "checking " + strings.Replace(shopTables, "item", "item mine", 1)},
	} {
		err := use(tc.plan, tc.change, tc.meanwhile)
		if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s: %v, not %q", tc.what, err, tc.refused)
		}
		if got := there(); got != tc.want {
			t.Errorf("%s: there are %s, not %s", tc.what, got, tc.want)
		}
	}
	rmw := targettest.Plan(t, "postgres", "{rmw: {records: 100}}", isolation.Serializable)
	var wrong *target.FieldError
	if err := use(rmw, keep, "drop table geobench_a.mine"); !errors.As(err, &wrong) || wrong.Field != "spec.engine.parameters.form" || !strings.Contains(err.Error(), "one of the workloads smallbank, tpcc") {
		t.Errorf("%v", err)
	}
}

// Clients of another process, which knows no more than the parameters, run the same SQL.
func TestFormsAreJoined(t *testing.T) {
	s := postgrestest.Start(t)
	p := targettest.Plan(t, "postgres", formSpecs["smallbank"], isolation.Serializable)
	o, session := formed(postgres.Serializable), sqltarget.Session()
	to := server(s, "postgres", p.Topology.Regions...)
	db, err := postgres.Open(t.Context(), &p.Topology, to, o, session)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server goes
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
	defer opened.Close() //nolint:errcheck // the server goes
	x := &txn.Transaction{ID: txn.MakeID(1, 1)}
	p.Workload.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1, RegionClients: 1, Stream: 1}).Next(0, 0, x)
	opened.Submit(x)
	opened.Flush()
	if got := <-done; got.Status != txn.Committed || len(got.Result) != 8 {
		t.Errorf("a lookup ended as %+v", got)
	}
}

// Keys, indexes and foreign keys are those of the specification, and foreign keys are left out where that is asked for.
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
		want := []string{"9", "0"} // history has no primary key (clause 1.3.1), and rows has one
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

// spoiled is a workload some of whose rows are wrong when they are loaded.
type spoiled struct {
	*tpcc.TPCC
	seed uint64
}

// Rows spoils about one row of a hundred: it is left out, doubled under another key, or has another number.
func (s spoiled) Rows(c geo.Cell, put func(k txn.Key, value []byte)) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(c.Home)))
	// Places of numbers in rows, by table: those that audits add up or compare.
	numbers := map[txn.Table][]int{1: {7}, 2: {7, 11}, 3: {7, 15, 23}, 4: {3}, 5: {5, 7, 23}, 6: {9, 10, 11}, 8: {11}}
	s.TPCC.Rows(c, func(k txn.Key, value []byte) {
		rare := 100
		if k.Table() == 1 || k.Table() == 2 {
			rare = 3
		}
		if rng.IntN(rare) > 0 {
			put(k, value)
			return
		}
		places := numbers[k.Table()]
		switch what := rng.IntN(3); {
		case what == 0:
		case what == 1 && (k.Table() == 6 || k.Table() == 7 || k.Table() == 8):
			put(k, value)
			b := []byte(k)
			b[14] ^= 0x80 // of O_ID
			put(txn.Key(b), value)
		case len(places) > 0:
			b := slices.Clone(value)
			b[places[rng.IntN(len(places))]] ^= 1 << rng.IntN(3)
			put(k, b)
		default:
			put(k, value)
		}
	})
}

// The database finds by SQL what Audit finds in the rows, whatever is wrong: the same sums under the same names.
func TestAuditsAgree(t *testing.T) {
	s := postgrestest.Start(t, "synchronous_commit=off")
	p := targettest.Plan(t, "postgres", "{tpcc: {rowsPercent: 2}}", isolation.Serializable)
	o := formed(postgres.Serializable)
	o.ForeignKeys = false // rows that refer to nothing can be loaded
	db := open(t, s, p, "postgres", o)
	found := map[string]bool{}
	for seed := range uint64(5) {
		w := spoiled{p.Workload.(*tpcc.TPCC), seed}
		if err := db.Load(t.Context(), target.Dataset{Workload: w}); err != nil {
			t.Fatal(err)
		}
		rows := store.NewHash()
		layout := p.Topology.Whole(0)
		if err := workload.Fill(w, &layout, 0, rows.Load); err != nil {
			t.Fatal(err)
		}
		a, err := db.Audit(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := a[0][1].Sums, w.Audit(audit.All(rows))
		for _, sums := range []map[string]int64{got, want} {
			delete(sums, "customers-by-name") // an index of the database's own misses no entry
			delete(sums, "orders-by-customer")
			maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
		}
		for name := range want {
			rule, _, _ := strings.Cut(name, "/")
			found[rule] = true
			if got[name] != want[name] {
				t.Errorf("seed %d: %s is %d, and %d by SQL", seed, name, want[name], got[name])
			}
		}
		for name := range got {
			if want[name] == 0 {
				t.Errorf("seed %d: %s is %d by SQL alone", seed, name, got[name])
			}
		}
	}
	for condition := range 12 {
		if name := fmt.Sprint(condition + 1); !found[name] {
			t.Errorf("condition %s was never broken", name)
		}
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
