package mysql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	driverpkg "github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// A MariaDB that claims to be TiDB is loaded, polled until it is quiescent, and audited as a TiDB. Clients fail to
// connect, because MariaDB lacks tidb_txn_mode. Without this setting, transactions would have another level.
func TestTiDB(t *testing.T) {
	s := mysqltest.Start(t, "--version=8.0.11-TiDB-v8.5.2")
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.SnapshotIsolation)
	o := options(mysql.SnapshotIsolation)
	o.Product = mysql.TiDB
	db, err := mysql.Open(t.Context(), &p.Topology, server(s, p.Topology.Regions...), o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if d := db.Describe(); d.Server != "TiDB v8.5.2" || d.Isolation != "repeatable read, optimistic" {
		t.Errorf("the server is %q, its isolation %q", d.Server, d.Isolation)
	}
	if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		t.Fatal(err)
	}
	if a, err := db.Activity(t.Context()); err != nil || a.Pending != 0 {
		t.Errorf("%d pending, %v", a.Pending, err)
	}
	shards, err := db.Audit(t.Context(), nil)
	if err != nil || len(shards) != 1 || len(shards[0]) == 0 {
		t.Errorf("audited %v, %v", shards, err)
	}
	if _, err := db.Clients(0).(*target.Statements).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "tidb_txn_mode") {
		t.Errorf("clients connect: %v", err)
	}
}

// A server of another product is refused, and so is a level that the product does not support.
func TestProductsRefuse(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.SnapshotIsolation)
	for _, tc := range []struct {
		product     *mysql.Product
		level, want string
	}{
		{mysql.TiDB, mysql.SnapshotIsolation, "which is no TiDB: name a server of TiDB"},
		{mysql.TiDB, mysql.Serializable, `"Serializable" is not one of ReadCommitted, RepeatableRead, SnapshotIsolation`},
		{mysql.OceanBase, mysql.SnapshotIsolation, "ob_query_timeout"}, // a setting that no other server has
		{mysql.OceanBase, mysql.RepeatableRead, `"RepeatableRead" is not one of ReadCommitted, SnapshotIsolation`},
	} {
		o := options(tc.level)
		o.Product = tc.product
		if _, err := mysql.Open(t.Context(), &p.Topology, server(s, p.Topology.Regions...), o, sqltarget.Session()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s at %s: %v, want %s", tc.product.Engine.Name, tc.level, err, tc.want)
		}
	}
}

// A product's conflict errors count as conflicts, and after its timeouts the outcome is unknown. The same error numbers
// from other servers are not interpreted in this way.
func TestProductsClassify(t *testing.T) {
	conflict := func(reason string) target.Failure {
		return target.Failure{Cause: txn.CauseConflict, Reason: reason, RolledBack: true}
	}
	for number, tc := range map[uint16]struct {
		product *mysql.Product
		want    target.Failure
	}{
		8002: {mysql.TiDB, conflict("serialization-failure")}, 8005: {mysql.TiDB, conflict("serialization-failure")}, 8022: {mysql.TiDB, conflict("serialization-failure")},
		8028: {mysql.TiDB, conflict("schema-changed")}, 9007: {mysql.TiDB, conflict("serialization-failure")},
		8501: {mysql.TiDB, target.Failure{Cause: txn.CauseNode, Reason: "error-85xx"}},
		6235: {mysql.OceanBase, conflict("serialization-failure")}, 6224: {mysql.OceanBase, conflict("rolled-back")}, 6002: {mysql.OceanBase, conflict("rolled-back")},
		4012: {mysql.OceanBase, target.Failure{Cause: txn.CauseNode, Reason: "canceled"}}, 6225: {mysql.OceanBase, target.Failure{Cause: txn.CauseNode, Reason: "error-62xx"}},
		1213: {mysql.OceanBase, conflict("deadlock")}, 1205: {mysql.TiDB, conflict("lock-timeout")},
	} {
		err := fmt.Errorf("in a transaction: %w", &driverpkg.MySQLError{Number: number})
		if got := tc.product.Classify(err); got != tc.want {
			t.Errorf("%s: %d is %+v, not %+v", tc.product.Engine.Name, number, got, tc.want)
		}
		if f := mysql.Classify(err); number > 4000 && (f.RolledBack || f.Cause == txn.CauseConflict) {
			t.Errorf("%d is %+v of MySQL, too", number, f)
		}
	}
}

// OceanBase's kernel satisfies the contract of a target at each level.
func TestOceanBaseConforms(t *testing.T) {
	s := mysqltest.StartOceanBase(t)
	opened := func(level string) func(t *testing.T, p *plan.Plan) target.Database {
		return func(t *testing.T, p *plan.Plan) target.Database {
			o := options(level)
			o.Product = mysql.OceanBase
			return open(t, p, server(s, p.Topology.Regions...), o)
		}
	}
	t.Run(mysql.SnapshotIsolation, func(t *testing.T) {
		targettest.Conform(t, "mysql", isolation.SnapshotIsolation, opened(mysql.SnapshotIsolation))
	})
	t.Run(mysql.ReadCommitted, func(t *testing.T) {
		p := targettest.Plan(t, "mysql", "{smallbank: {customers: 200}}", isolation.ReadCommitted)
		db := opened(mysql.ReadCommitted)(t, p)
		if d := db.(target.Described).Describe(); d.Server != "OceanBase 4.3.5.3 seekdb" || d.Isolation != "read committed" {
			t.Errorf("the server is %q, its isolation %q", d.Server, d.Isolation)
		}
		if err := targettest.Statements(t.Context(), p, db); err != nil {
			t.Error(err)
		}
	})
	s.AwaitNoSessions(t)
}

// TestAnomaliesOfOceanBase reproduces anomalies at OceanBase's levels, statement by statement. REPEATABLE READ prevents
// a lost update but allows write skew. READ COMMITTED loses the update.
func TestAnomaliesOfOceanBase(t *testing.T) {
	s := mysqltest.StartOceanBase(t)
	checking, savings := txn.IntKey(1, 1), txn.IntKey(2, 1)
	for _, tc := range []struct {
		name, level        string
		other              txn.Key // row that the second client writes
		refused            bool
		promised, ruledOut isolation.Level
		want               string
	}{
		{"lost update", mysql.ReadCommitted, checking, false, isolation.ReadCommitted, isolation.SnapshotIsolation, "lost-update: two transactions read the same version and replaced it"},
		{"lost update of a snapshot", mysql.SnapshotIsolation, checking, true, isolation.SnapshotIsolation, isolation.SnapshotIsolation, ""},
		{"write skew", mysql.SnapshotIsolation, savings, false, isolation.SnapshotIsolation, isolation.Serializable, "G2-item (write skew): no order of these 2 transactions explains what they saw."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.ReadCommitted)
			o := options(tc.level)
			o.Product = mysql.OceanBase
			db, err := mysql.Open(t.Context(), &p.Topology, server(s, p.Topology.Regions...), o, sqltarget.Session())
			if err != nil {
				t.Fatal(err)
			}
			x := targettest.NewScript(t, p, db, map[txn.Key]string{checking: "checking(1)", savings: "savings(1)"})
			one, two := x.Client(0, "east"), x.Client(1, "west")
			for _, c := range []*targettest.ScriptClient{one, two} {
				c.Begin()
				c.Read(checking)
				c.Read(savings)
			}
			one.Write(checking)
			if !one.Commit() {
				t.Fatal("the first client has not committed")
			}
			if wrote := two.Write(tc.other); wrote == tc.refused || wrote && !two.Commit() {
				t.Errorf("the second client's write: %t, refused is to be %t", wrote, tc.refused)
			}
			if got := x.Explain(tc.ruledOut); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("%s\nnot\n%s", got, tc.want)
			}
			if why := x.Explain(tc.promised); why != "" {
				t.Errorf("what the level promises: %s", why)
			}
		})
	}
}

// SERIALIZABLE is refused because the server allows write skew at this level.
func TestOceanBaseHasNoSerializable(t *testing.T) {
	s := mysqltest.StartOceanBase(t)
	s.Query(t, mysqltest.Database, "create table skew (k int primary key, v int)", "insert into skew values (1, 0), (2, 0)")
	sessions := []*sql.Conn{s.Session(t), s.Session(t)}
	for _, statement := range []string{"set session transaction isolation level serializable", "start transaction", "select sum(v) from skew", "update skew set v = 1 where k = $own", "commit"} {
		for i, c := range sessions {
			statement := strings.ReplaceAll(statement, "$own", fmt.Sprint(i+1))
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("session %d: %s: %v", i, statement, err)
			}
		}
	}
	if rows := s.Query(t, mysqltest.Database, "select sum(v) from skew"); rows[0][0] != "2" {
		t.Errorf("the sum is %s, so that one of the two writes is lost", rows[0][0])
	}
}
