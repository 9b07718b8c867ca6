package mysql_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// The lock covers all nodes of a Galera cluster, in whatever order the endpoints name the nodes. If it did not, two
// runs on one table would replace each other's rows.
func TestLockOfGalera(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 2)
	p := targettest.Plan(t, "galera", targettest.FormSpecs["smallbank"], isolation.SnapshotIsolation)
	to := database(t, nodes[0], p, "smallbank")
	to.Endpoints[1].Address = nodes[1].Address
	other := to
	other.Endpoints = slices.Clone(to.Endpoints)
	other.Endpoints[0].Address, other.Endpoints[1].Address = nodes[1].Address, nodes[0].Address
	alone := to
	alone.Endpoints = slices.Clone(to.Endpoints)
	alone.Endpoints[0].Address = nodes[1].Address
	for name, tt := range map[string]struct {
		form string
		to   sqltarget.Server
	}{
		"procedures":                 {sqltarget.FormProcedures, other},
		"procedures, by one node":    {sqltarget.FormProcedures, alone},
		"SQL, whatever the table is": {sqltarget.FormSQL, other},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(mysql.SnapshotIsolation)
			o.Form = tt.form
			first, err := mysql.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
			if err != nil {
				t.Fatal(err)
			}
			second := o
			if tt.form == sqltarget.FormSQL {
				second.Place = "geobench_rows_of_another"
			}
			db, err := mysql.Open(t.Context(), &p.Topology, tt.to, second, sqltarget.Session())
			var wrong *target.FieldError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "another run") {
				t.Errorf("%v: %v, of a table that another run uses by another node", db, err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			db, err = mysql.Open(t.Context(), &p.Topology, tt.to, second, sqltarget.Session())
			if err != nil {
				t.Fatalf("after the first run has ended: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if rows := nodes[1].Query(t, to.Database, "select * from geobench_leases"); len(rows) > 0 {
				t.Errorf("leases %v are left", rows)
			}
		})
	}
	// The lease of a run that stopped without releasing it expires.
	nodes[0].Query(t, to.Database, "replace into geobench_leases values ('table geobench_rows', 'gone', utc_timestamp(6) - interval 1 second)")
	o := options(mysql.SnapshotIsolation)
	db, err := mysql.Open(t.Context(), &p.Topology, other, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// MariaDB reports the settings that determine durability and plans, with their sources.
func TestState(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", targettest.FormSpecs["smallbank"], isolation.Serializable)
	db := open(t, p, database(t, s, p, "smallbank"), options(mysql.Serializable))
	before, err := target.StateOf(t.Context(), db)
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	v := before[0].Settings["innodb_flush_log_at_trx_commit"]
	if v.Value == "" || v.Source == "" || before[0].Started == nil || before[0].Settings["innodb_buffer_pool_size"].Value == "" || before[0].OtherSessions != 0 {
		t.Errorf("%+v", before[0])
	}
	changed := "2"
	if v.Value == changed {
		changed = "0"
	}
	s.Query(t, mysqltest.Database, "set global innodb_flush_log_at_trx_commit = "+changed)
	busy, stop := context.WithCancel(t.Context())
	session, ended := s.Session(t), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = session.ExecContext(busy, "select sleep(60)") // until it is stopped
	}()
	defer func() {
		stop()
		<-ended
	}()
	var after []result.Server
	for deadline := time.Now().Add(time.Minute); len(after) == 0 || after[0].OtherSessions == 0; {
		if after, err = target.StateOf(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody is at work: %+v", after)
		}
	}
	if got := after[0].Settings["innodb_flush_log_at_trx_commit"].Value; got != changed || after[0].OtherSessions != 1 {
		t.Errorf("%s, and %d sessions of others: %q", got, after[0].OtherSessions, after[0].Others)
	}
}
