package mysql_test

import (
	"strings"
	"testing"

	driverpkg "github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/mysql"
	"github.com/geobench/geobench/internal/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
)

// A MariaDB that says that it is TiDB is loaded, asked whether it is quiet, and audited as one. It has no tidb_txn_mode, so that clients, whose
// transactions would be of another level, do not connect.
func TestTiDB(t *testing.T) {
	s := mysqltest.Start(t, "--version=8.0.11-TiDB-v8.5.2")
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.SnapshotIsolation)
	o := options(mysql.SnapshotIsolation)
	o.TiDB = true
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

// A server that is no TiDB is refused, and a level that TiDB does not have; TiDB's own conflicts are conflicts.
func TestTiDBRefuses(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 100}}", isolation.SnapshotIsolation)
	for level, want := range map[string]string{mysql.SnapshotIsolation: "which is no TiDB: name a server of TiDB", mysql.Serializable: `"Serializable" is not one of ReadCommitted, RepeatableRead, SnapshotIsolation`} {
		o := options(level)
		o.TiDB = true
		if _, err := mysql.Open(t.Context(), &p.Topology, server(s, p.Topology.Regions...), o, sqltarget.Session()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", level, err, want)
		}
	}
	for _, number := range []uint16{8002, 8005, 8022, 8028, 9007} {
		if f := mysql.Classify(&driverpkg.MySQLError{Number: number}); f.Cause != txn.CauseConflict || !f.RolledBack {
			t.Errorf("%d is %+v", number, f)
		}
	}
	if f := mysql.Classify(&driverpkg.MySQLError{Number: 8501}); f.RolledBack || f.Cause == txn.CauseConflict {
		t.Errorf("nobody knows what became of a transaction after 8501: %+v", f)
	}
}
