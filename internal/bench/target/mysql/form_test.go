package mysql_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// formed returns the options of a database whose transactions are SQL.
func formed(level string) mysql.Options {
	o := options(level)
	o.Form, o.ForeignKeys, o.Place = sqltarget.FormSQL, true, "geobench_rows_a"
	return o
}

// database creates a database for a test, and returns its location for the regions of a plan.
func database(t testing.TB, s *mysqltest.Server, p *plan.Plan, name string) sqltarget.Server {
	t.Helper()
	s.Query(t, mysqltest.Database, "create database "+name)
	to := server(s, p.Topology.Regions...)
	to.Database = name
	return to
}

// Procedures and SQL agree: the same transactions have the same outcomes and leave the same rows in both forms.
func TestFormsAgree(t *testing.T) {
	s := mysqltest.Start(t)
	for name, spec := range targettest.FormSpecs {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
			to := database(t, s, p, name)
			targettest.FormsAgree(t, p, open(t, p, to, options(mysql.Serializable)), open(t, p, to, formed(mysql.Serializable)), func(put func(k, value string)) map[string][]string {
				for _, row := range s.Query(t, name, "select hex(k), hex(v) from geobench_rows") {
					put(row[0], row[1])
				}
				return tables(t, s, p.Workload, name)
			})
		})
	}
}

// tables returns the rows of a form by table, in the format of PostgreSQL's COPY.
func tables(t testing.TB, s *mysqltest.Server, w workload.Workload, database string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range w.(sqlform.Workload).Form().Tables {
		var columns []string
		for _, c := range table.Columns {
			name, kind, _ := strings.Cut(c, " ")
			var width int
			if _, err := fmt.Sscanf(kind, "char(%d)", &width); err == nil { // the server omits trailing blanks
				name = fmt.Sprintf("rpad(%s, %d, ' ')", name, width)
			}
			if strings.HasPrefix(kind, "timestamp") {
				name = "trim(trailing '.' from trim(trailing '0' from " + name + "))"
			}
			columns = append(columns, "coalesce("+name+", '\\\\N')")
		}
		for _, row := range s.Query(t, database, "select concat_ws('\\t', "+strings.Join(columns, ", ")+") from "+table.Name) {
			rows[table.Name] = append(rows[table.Name], row[0])
		}
	}
	return rows
}

// At SERIALIZABLE, the histories of SQL transactions are serializable and the total balance is correct.
func TestFormIsSerializable(t *testing.T) {
	s := mysqltest.Start(t)
	for name, spec := range map[string]string{
		"smallbank": "{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}",
		"tpcc":      targettest.FormSpecs["tpcc"],
	} {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
			targettest.FormHolds(t, p, open(t, p, database(t, s, p, name), formed(mysql.Serializable)))
		})
	}
}

// At READ COMMITTED, and at InnoDB's REPEATABLE READ, money is lost.
func TestFormLosesMoney(t *testing.T) {
	s := mysqltest.Start(t)
	for _, level := range []string{mysql.ReadCommitted, mysql.RepeatableRead} {
		t.Run(level, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", targettest.LosingSpecs["deposits"], isolation.Serializable)
			targettest.FormLosesMoney(t, p, open(t, p, database(t, s, p, level), formed(level)))
		})
	}
}

// At lower levels, TPC-C loses no updates: it increments values in place, and two deliveries never deliver the same
// order.
func TestFormKeepsOrdersAtReadCommitted(t *testing.T) {
	s := mysqltest.Start(t)
	for _, level := range []string{mysql.ReadCommitted, mysql.RepeatableRead} {
		t.Run(level, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", "{tpcc: {rowsPercent: 2, mix: {newOrder: 40, payment: 30, orderStatus: 5, delivery: 20, stockLevel: 5}}}", isolation.ReadCommitted)
			targettest.FormHolds(t, p, open(t, p, database(t, s, p, level), formed(level)))
		})
	}
}

// The audit in SQL finds the same violations as Audit over the rows.
func TestAuditsAgree(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", "{tpcc: {rowsPercent: 2}}", isolation.Serializable)
	o := formed(mysql.Serializable)
	o.ForeignKeys = false // so that rows with dangling references can be loaded
	targettest.AuditsAgree(t, p, open(t, p, server(s, p.Topology.Regions...), o))
}

// Two Galera nodes commit the concurrent transactions of both nodes' clients in one order. A transaction conflicts if
// it fails certification at COMMIT or blocks a transaction of another node. Such transactions are retried.
func TestFormsOnGalera(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 2)
	conflicts := func() (n int) {
		for _, node := range nodes {
			for _, row := range node.Query(t, mysqltest.Database, "show status where variable_name in ('wsrep_local_cert_failures', 'wsrep_local_bf_aborts')") {
				count, err := strconv.Atoi(row[1])
				if err != nil {
					t.Fatal(err)
				}
				n += count
			}
		}
		return n
	}
	before := conflicts()
	for name, spec := range map[string]string{
		"smallbank": "{smallbank: {customers: 100, multiHomePercent: 30, hotPercent: 90}}",
		"tpcc":      targettest.FormSpecs["tpcc"],
	} {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "galera", spec, isolation.SnapshotIsolation)
			to := database(t, nodes[0], p, name)
			to.Endpoints[1].Address = nodes[1].Address
			// With this setting, the query waits until the node has applied all earlier commits, including the creation of the
			// database.
			nodes[1].Query(t, mysqltest.Database, "set session wsrep_sync_wait = 15", "show databases")
			o := formed(mysql.SnapshotIsolation)
			o.Galera = true
			d, err := inprocess.On(t.Context(), p, open(t, p, to, o), nil)
			if err != nil {
				t.Fatal(err)
			}
			targettest.Judge(t, d)
			t.Logf("%d committed", d.Summary.Committed)
		})
	}
	if n := conflicts() - before; n == 0 {
		t.Error("no two transactions of different nodes were in conflict")
	} else {
		t.Logf("%d conflicts between nodes", n)
	}
}

// A load replaces and drops only tables that Geobench has created. A load of another workload drops the tables of the
// previous workload.
func TestTablesOfForms(t *testing.T) {
	s := mysqltest.Start(t)
	bank := targettest.Plan(t, "mysql", targettest.FormSpecs["smallbank"], isolation.Serializable)
	shop := targettest.Plan(t, "mysql", "{tpcc: {rowsPercent: 1}}", isolation.Serializable)
	rmw := targettest.Plan(t, "mysql", "{rmw: {records: 100}}", isolation.Serializable)
	keep, drop := func(*mysql.Options) {}, func(o *mysql.Options) { o.Drop = true }
	procedures := func(o *mysql.Options) { o.Form = sqltarget.FormProcedures }
	const shopTables = "customer district geobench_rows_a history item new_order order_line orders stock warehouse"
	cases := []targettest.FormLoad[mysql.Options]{
		{What: "a bank", Plan: bank, Change: keep, Want: "account checking geobench_rows_a savings"},
		{What: "a shop", Plan: shop, Change: keep, Want: shopTables},
		{What: "a shop again", Plan: shop, Change: keep, Want: shopTables},
		// Names are quoted, so they may contain SQL.
		{What: "one that was renamed", Plan: shop, Change: keep, Meanwhile: "rename table history to `it's \\ a``name`", Want: shopTables},
		{What: "procedures, whose run may be beside another one's", Plan: bank, Change: procedures, Want: shopTables},
		{What: "a shop that is dropped", Plan: shop, Change: drop},
		{What: "somebody's table", Plan: bank, Change: keep, Meanwhile: "create table savings (mine int)", Refused: "making the tables: spec.external.database: app: the table savings there is not Geobench's", Want: "account checking geobench_rows_a savings"},
		{What: "a shop beside it", Plan: shop, Change: keep, Want: strings.Replace(shopTables, "stock", "savings stock", 1)},
		{What: "referred to", Plan: bank, Change: drop, Meanwhile: "create table mine (w int, foreign key (w) references warehouse (w_id))", Refused: "cannot be dropped, since the tables app.mine refer to them: drop these, or name another database", Want: strings.Replace(strings.Replace(shopTables, "stock", "savings stock", 1), "new_order", "mine new_order", 1)},
		{What: "without SQL of its own", Plan: rmw, Change: keep, Meanwhile: "drop table mine", Refused: "spec.engine.parameters.form: SQL: the workload rmw has no SQL of its own", Want: strings.Replace(shopTables, "stock", "savings stock", 1)},
	}
	targettest.FormLoads(t, cases, func() mysql.Options { return formed(mysql.Serializable) }, func(p *plan.Plan, o mysql.Options) (sqltarget.Database, error) {
		return mysql.Open(t.Context(), &p.Topology, server(s, p.Topology.Regions...), o, sqltarget.Session())
	}, func(sql string) { s.Query(t, mysqltest.Database, sql) }, func() (names []string) {
		for _, row := range s.Query(t, mysqltest.Database, "select table_name from information_schema.tables where table_schema = database()") {
			names = append(names, row[0])
		}
		return names
	})
}

// Only one run at a time can use the form tables of a database, whatever its table parameter is. Another run's
// procedures can run concurrently.
func TestFormHasOneRun(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", targettest.FormSpecs["smallbank"], isolation.Serializable)
	to := server(s, p.Topology.Regions...)
	open(t, p, to, formed(mysql.Serializable))
	other := formed(mysql.Serializable)
	other.Place = "geobench_rows_b"
	var wrong *target.FieldError
	if _, err := mysql.Open(t.Context(), &p.Topology, to, other, sqltarget.Session()); !errors.As(err, &wrong) || wrong.Field != "spec.external.database" || !strings.Contains(err.Error(), "wait for it, or name another database") {
		t.Errorf("%v", err)
	}
	other.Form = sqltarget.FormProcedures
	open(t, p, to, other)
}

// Keys, indexes and foreign keys follow the specification. Foreign keys are omitted if configured.
func TestKeysOfForms(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", "{tpcc: {rowsPercent: 1}}", isolation.Serializable)
	for _, foreign := range []bool{true, false} {
		o := formed(mysql.Serializable)
		o.ForeignKeys = foreign
		db := open(t, p, database(t, s, p, fmt.Sprintf("foreign_%v", foreign)), o)
		var progress int64
		if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload, Progress: func(rows int64) { progress = rows }}); err != nil {
			t.Fatal(err)
		}
		const ours = " where table_schema = database() and table_name <> 'geobench_rows_a'"
		counts := s.Query(t, fmt.Sprintf("foreign_%v", foreign), "select count(case when constraint_type = 'PRIMARY KEY' then 1 end), count(case when constraint_type = 'FOREIGN KEY' then 1 end) from information_schema.table_constraints"+ours)
		want := []string{"8", "0"} // history has no primary key (clause 1.3.1)
		if foreign {
			want[1] = "10"
		}
		if !slices.Equal(counts[0], want) {
			t.Errorf("foreign keys %v: there are %v primary and foreign keys, not %v", foreign, counts[0], want)
		}
		indexes := s.Query(t, fmt.Sprintf("foreign_%v", foreign), "select distinct table_name, index_name from information_schema.statistics"+ours+" and index_name <> 'PRIMARY' order by 1")
		if want := 2; !foreign && len(indexes) != want {
			t.Errorf("the other indexes are %v", indexes)
		}
		var rows int64
		for _, table := range p.Workload.(sqlform.Workload).Form().Tables {
			n, err := strconv.ParseInt(s.Query(t, fmt.Sprintf("foreign_%v", foreign), "select count(*) from "+table.Name)[0][0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			rows += n
		}
		if progress != rows {
			t.Errorf("progress told of %d rows in the end, and there are %d", progress, rows)
		}
	}
}

// A commit in SQL whose connection is cut has an unknown outcome, and the next transaction finds the actual outcome.
// Clients in another process, which know only the parameters, run the same SQL.
func TestFormsCommitIsCut(t *testing.T) {
	s := mysqltest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	p := targettest.Plan(t, "mysql", targettest.FormSpecs["smallbank"], isolation.Serializable)
	to, o, session := server(s, p.Topology.Regions...), formed(mysql.Serializable), sqltarget.Session()
	db, err := mysql.Open(t.Context(), &p.Topology, to, o, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		t.Fatal(err)
	}
	to.Endpoints[0].Address, o.Connections = proxy.Address, 1
	clients, _, err := mysql.Join(t.Context(), &p.Topology, to, o, session, 0)
	if err != nil {
		t.Fatal(err)
	}
	const query = "\x03" // COM_QUERY
	o.BeginAlone = true
	alone, _, err := mysql.Join(t.Context(), &p.Topology, to, o, session, 0)
	if err != nil {
		t.Fatal(err)
	}
	// If the connection breaks when a transaction starts, nothing was committed.
	targettest.FormCutAtBegin(t, alone.(*target.Statements), func(served bool) { proxy.CutOnce(query+"start transaction", served) })
	targettest.FormCutAtCommit(t, clients.(*target.Statements), func(served bool) { proxy.CutOnce(query+"commit", served) }, func() (n int) {
		_, _ = fmt.Sscan(s.Query(t, mysqltest.Database, "select balance from checking where customer_id = 1")[0][0], &n)
		return n
	})
}

// The process that opened a database sees the running SQL of another process, even if several statements were sent
// together.
func TestFormIsAtWork(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", targettest.FormSpecs["smallbank"], isolation.Serializable)
	to, o, session := server(s, p.Topology.Regions...), formed(mysql.Serializable), sqltarget.Session()
	db, err := mysql.Open(t.Context(), &p.Topology, to, o, session)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server stops with the test
	if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		t.Fatal(err)
	}
	o.Connections = 1
	joined, _, err := mysql.Join(t.Context(), &p.Topology, to, o, session, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan txn.Outcome, 1)
	client, err := joined.Open(t.Context(), func(outcomes []txn.Outcome) { done <- outcomes[0] })
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // the server stops with the test
	release := s.Hold(t, "update checking set balance = balance + 1 where customer_id = 1")
	client.Submit(targettest.Deposit(1, 5))
	client.Flush()
	for pending := 0; pending != 1; { // until it waits for the lock
		a, err := db.Activity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pending = a.Pending
		select {
		case o := <-done:
			t.Fatalf("it did not wait: %+v", o)
		default:
		}
	}
	release()
	if o := <-done; o.Status != txn.Committed {
		t.Errorf("%+v", o)
	}
	if a, err := db.Activity(t.Context()); err != nil || a.Pending != 0 {
		t.Errorf("%+v after all have committed: %v", a, err)
	}
}

// Transactions take no more round trips than on PostgreSQL.
func TestRoundTripsOfForms(t *testing.T) {
	s := mysqltest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	for name, spec := range targettest.FormSpecs {
		for more, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s BEGIN alone %v", name, alone), func(t *testing.T) {
				p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
				to := database(t, s, p, fmt.Sprintf("%s_%v", name, alone))
				for i := range to.Endpoints {
					to.Endpoints[i].Address = proxy.Address
				}
				o := formed(mysql.Serializable)
				o.BeginAlone = alone
				db := open(t, p, to, o)
				if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
					t.Fatal(err)
				}
				targettest.FormRoundTrips(t, p, db.Clients(0).(*target.Statements), int64(more), proxy.Count())
			})
		}
	}
}
