package mysql_test

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// TestAnomaliesOfGalera reproduces anomalies between two Galera nodes, statement by statement. REPEATABLE READ loses an
// update, and snapshot isolation allows write skew. A node that has not yet applied the commits of another node returns
// stale rows, unless reads wait for these commits.
func TestAnomaliesOfGalera(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 2)
	checking, savings := txn.IntKey(1, 1), txn.IntKey(2, 1)
	names := map[txn.Key]string{checking: "checking(1)", savings: "savings(1)"}
	play := func(t *testing.T, level string) (one, two *targettest.ScriptClient, x *targettest.Script) {
		t.Helper()
		p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.ReadCommitted)
		to := server(nodes[0], p.Topology.Regions...)
		to.Endpoints[1].Address = nodes[1].Address
		db, err := mysql.Open(t.Context(), &p.Topology, to, options(level), sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		x = targettest.NewScript(t, p, db, names)
		return x.Client(0, "east"), x.Client(1, "west"), x
	}
	// applied waits until the second node has applied the commits of the first node.
	applied := func(t *testing.T) {
		t.Helper()
		nodes[1].Query(t, mysqltest.Database, "set session wsrep_sync_wait = 7", "select 1")
	}
	judge := func(t *testing.T, x *targettest.Script, promised, ruledOut isolation.Level, want string) {
		t.Helper()
		if got := x.Explain(ruledOut); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nnot\n%s", got, want)
		} else {
			t.Log(got)
		}
		if why := x.Explain(promised); why != "" {
			t.Errorf("what the level promises: %s", why)
		}
	}
	for _, tc := range []struct {
		name, level        string
		other              txn.Key // row that the second client writes
		promised, ruledOut isolation.Level
		want               string
	}{
		{"lost update", mysql.RepeatableRead, checking, isolation.ReadCommitted, isolation.SnapshotIsolation, "lost-update: two transactions read the same version and replaced it"},
		{"write skew", mysql.SnapshotIsolation, savings, isolation.SnapshotIsolation, isolation.Serializable, "G2-item (write skew): no order of these 2 transactions explains what they saw."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			one, two, x := play(t, tc.level)
			for _, c := range []*targettest.ScriptClient{one, two} {
				c.Begin()
				c.Read(checking)
				c.Read(savings)
			}
			committed := one.Write(checking) && one.Commit()
			applied(t)
			if committed = two.Write(tc.other) && two.Commit() && committed; !committed {
				t.Error("one of them was aborted")
			}
			judge(t, x, tc.promised, tc.ruledOut, tc.want)
		})
	}
	t.Run("stale read", func(t *testing.T) {
		one, two, x := play(t, mysql.SnapshotIsolation)
		applied(t)
		resume := nodes[1].HoldBack(t)
		one.Begin()
		one.Read(checking)
		one.Write(checking)
		one.Commit()
		two.Begin()
		two.Read(checking)
		two.Commit()
		resume()
		judge(t, x, isolation.SnapshotIsolation, isolation.StrongSnapshotIsolation, `G-single-item-realtime: no snapshots of these 2 transactions explain what they saw.
  T1 is 2.1: client 2 in west, sent at 5ms, committed at 7ms
  T2 is 1.1: client 1 in east, sent at 1ms, committed at 4ms`)
	})
}
