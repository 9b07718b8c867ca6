package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// server returns the location of a server for the clients of these regions.
func server(s *postgrestest.Server, database string, regions ...string) sqltarget.Server {
	to := sqltarget.Server{Database: database, User: postgrestest.User, Password: postgrestest.Password, CAFile: s.CAFile}
	for _, r := range regions {
		to.Endpoints = append(to.Endpoints, sqltarget.Endpoint{Region: r, Address: s.Address})
	}
	return to
}

func options(level string) postgres.Options {
	return postgres.Options{Options: sqltarget.Options{Isolation: level, Connections: 8, TLS: "disable", Place: "geobench"}}
}

// PostgreSQL satisfies the contract of a target at each level, with the guarantees of the levels' names.
func TestConform(t *testing.T) {
	s := postgrestest.Start(t)
	for name, tc := range map[string]struct {
		level    string
		together bool
		promises isolation.Level
	}{
		"readcommitted":  {postgres.ReadCommitted, false, isolation.ReadCommitted},
		"repeatableread": {postgres.RepeatableRead, false, isolation.SnapshotIsolation},
		"serializable":   {postgres.Serializable, false, isolation.Serializable},
		"together":       {postgres.Serializable, true, isolation.Serializable},
	} {
		t.Run(name, func(t *testing.T) {
			s.Database(t, name)
			open := func(t *testing.T, p *plan.Plan) target.Database {
				o := options(tc.level)
				o.Together = tc.together
				db, err := postgres.Open(t.Context(), &p.Topology, server(s, name, p.Topology.Regions...), o, sqltarget.Session())
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
			if name == "serializable" {
				targettest.Conform(t, "postgres", tc.promises, open)
				return
			}
			p := targettest.Plan(t, "postgres", "{smallbank: {customers: 200}}", tc.promises)
			if err := targettest.Statements(t.Context(), p, open(t, p)); err != nil {
				t.Error(err)
			}
		})
	}
	s.AwaitNoSessions(t, "geobench-")
}

func TestClassify(t *testing.T) {
	answer := func(severity, code string) error {
		return fmt.Errorf("in a transaction: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for name, tc := range map[string]struct {
		err  error
		want target.Failure
	}{
		"serialization failure": {answer("ERROR", "40001"), target.Failure{Cause: txn.CauseConflict, Reason: "serialization-failure", RolledBack: true}},
		"deadlock":              {answer("ERROR", "40P01"), target.Failure{Cause: txn.CauseConflict, Reason: "deadlock", RolledBack: true}},
		"lock timeout":          {answer("ERROR", "55P03"), target.Failure{Cause: txn.CauseConflict, Reason: "lock-timeout", RolledBack: true}},
		"read-only":             {answer("ERROR", "25006"), target.Failure{Cause: txn.CauseNode, Reason: "read-only", RolledBack: true}},
		"canceled":              {answer("ERROR", "57014"), target.Failure{Cause: txn.CauseNode, Reason: "canceled", RolledBack: true}},
		"disk full":             {answer("ERROR", "53100"), target.Failure{Cause: txn.CauseNode, Reason: "out-of-resources", RolledBack: true}},
		"a constraint":          {answer("ERROR", "23505"), target.Failure{Cause: txn.CauseNode, Reason: "constraint", RolledBack: true}},
		"any other":             {answer("ERROR", "42P01"), target.Failure{Cause: txn.CauseNode, Reason: "sqlstate-42", RolledBack: true}},
		"completion unknown":    {answer("ERROR", "40003"), target.Failure{Cause: txn.CauseNode, Reason: "completion-unknown", Broken: true}},
		"shutdown":              {answer("FATAL", "57P01"), target.Failure{Cause: txn.CauseNode, Reason: "shutdown", Broken: true}},
		"connection":            {&net.OpError{Op: "read", Err: errors.New("reset")}, target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}},
		"closed before":         {pgconn.ErrConnClosed, target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := postgres.Classify(tc.err); got != tc.want {
				t.Errorf("%+v, not %+v", got, tc.want)
			}
		})
	}
}

// Errors in the location of a database name the field, its value and a remedy. A refused Open leaves no data in the
// database.
func TestOpenRefuses(t *testing.T) {
	s := postgrestest.Start(t, "max_connections=30")
	s.Database(t, "app")
	s.Database(t, "other")
	s.Database(t, "frozen")
	s.Query(t, "postgres", "alter database frozen set default_transaction_read_only = on; create role weak login password 'weak'; revoke create on database app from public")
	s.Database(t, "taken")
	s.Query(t, "taken", "create schema geobench; create table geobench.rows (k bytea, v bytea)")
	for database, version := range map[string]string{"cockroach": "CockroachDB CCL v25.4.11 (x86_64-pc-linux-gnu)", "yugabyte": "PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu"} {
		s.Database(t, database)
		s.Query(t, database, "create schema other; create function other.version() returns text language sql as $$ select '"+version+"' $$; "+
			"alter database "+database+" set search_path = other, pg_catalog, public")
	}
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	nobody := postgrestest.FreeAddresses(t, 1)[0]
	for name, tc := range map[string]struct {
		change func(*sqltarget.Server, *postgres.Options)
		field  string
		want   string
	}{
		"a wrong password": {func(s *sqltarget.Server, _ *postgres.Options) { s.Password = "wrong-secret" }, "spec.external.secretRef", "does not let user postgres in with this password (SQLSTATE 28P01)"},
		"no such user":     {func(s *sqltarget.Server, _ *postgres.Options) { s.User = "nobody" }, "spec.external.secretRef", "does not let user nobody in with this password"},
		"no such database": {func(s *sqltarget.Server, _ *postgres.Options) { s.Database = "nope" }, "spec.external.database", "make it (createdb nope)"},
		"nobody listens":   {func(s *sqltarget.Server, _ *postgres.Options) { s.Endpoints[1].Address = nobody }, "spec.external.endpoints[1].address", "see that the server runs"},
		"no such host":     {func(s *sqltarget.Server, _ *postgres.Options) { s.Endpoints[0].Address = "no-such-host.invalid:5432" }, "spec.external.endpoints[0].address", "there is no host of this name"},
		"no TLS":           {func(_ *sqltarget.Server, o *postgres.Options) { o.TLS = "require" }, "spec.engine.parameters.tls", "takes no encrypted connections: set ssl = on in its postgresql.conf, or use tls: disable"},
		"read-only":        {func(s *sqltarget.Server, _ *postgres.Options) { s.Database = "frozen" }, "spec.external.endpoints[0].address", "the database is read-only"},
		"CockroachDB":      {func(s *sqltarget.Server, _ *postgres.Options) { s.Database = "cockroach" }, "spec.external.endpoints[0].address", `is "CockroachDB CCL v25.4.11`},
		"YugabyteDB":       {func(s *sqltarget.Server, _ *postgres.Options) { s.Database = "yugabyte" }, "spec.external.endpoints[0].address", "name a PostgreSQL"},
		"no right to make": {func(s *sqltarget.Server, _ *postgres.Options) { s.User, s.Password = "weak", "weak" }, "spec.external.database", "create schema geobench authorization weak"},
		"somebody's table": {func(s *sqltarget.Server, _ *postgres.Options) { s.Database = "taken" }, "spec.engine.parameters.schema", "the table geobench.rows there is not Geobench's"},
		"too many":         {func(_ *sqltarget.Server, o *postgres.Options) { o.Connections = 20 }, "spec.engine.parameters.connections", "2 regions x 20 connections and 1 more are 41, and the server has"},
	} {
		t.Run(name, func(t *testing.T) {
			to, o := server(s, "app", topology.Regions...), options(postgres.Serializable)
			tc.change(&to, &o)
			db, err := postgres.Open(t.Context(), &topology, to, o, sqltarget.Session())
			if err == nil {
				_ = db.Close()
			}
			var wrong *target.FieldError
			if !errors.As(err, &wrong) || wrong.Field != tc.field || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\nnot %s: ... %s", err, tc.field, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), to.Password) && to.Password != "weak" {
				t.Errorf("the password is in the message: %v", err)
			}
		})
	}
	if rows := s.Query(t, "app", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
	s.AwaitNoSessions(t, "geobench-")
}

// Endpoints that lead to different databases are refused, and the objects created in the first database are dropped.
func TestEndpointsLeadToOneDatabase(t *testing.T) {
	one, two := postgrestest.Start(t), postgrestest.Start(t)
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	to := server(one, "postgres", topology.Regions...)
	to.Endpoints[1].Address = two.Address
	_, err := postgres.Open(t.Context(), &topology, to, options(postgres.Serializable), sqltarget.Session())
	var wrong *target.FieldError
	if !errors.As(err, &wrong) || wrong.Field != "spec.external.endpoints[1].address" || !strings.Contains(err.Error(), "is not the one of this run") {
		t.Errorf("%v", err)
	}
	if rows := one.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
}

// The schema is dropped if so configured, but only if Geobench has created all objects in it.
func TestDropSchema(t *testing.T) {
	s := postgrestest.Start(t)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	use := func(drop bool, meanwhile func()) {
		t.Helper()
		o := options(postgres.Serializable)
		o.Drop = drop
		db, err := postgres.Open(t.Context(), &topology, server(s, "postgres", "east"), o, sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		if meanwhile != nil {
			meanwhile()
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	there := func() string {
		rows := s.Query(t, "postgres", "select coalesce(to_regnamespace('geobench')::text, ''), coalesce(to_regclass('geobench.rows')::text, ''), coalesce(to_regclass('geobench.mine')::text, '')")
		return strings.Join(rows[0], ",")
	}
	for _, tc := range []struct {
		what      string
		drop      bool
		meanwhile func()
		want      string
	}{
		{"not asked", false, nil, "geobench,geobench.rows,"},
		{"asked", true, nil, ",,"},
		{"something else in it", true, func() { s.Query(t, "postgres", "create table geobench.mine ()") }, "geobench,,geobench.mine"},
	} {
		use(tc.drop, tc.meanwhile)
		if got := there(); got != tc.want {
			t.Errorf("%s: %s is there, not %s", tc.what, got, tc.want)
		}
	}
}

// Two runs cannot use the same schema at the same time, because each would replace the rows of the other.
func TestSchemaHasOneRun(t *testing.T) {
	s := postgrestest.Start(t)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	db, err := postgres.Open(t.Context(), &topology, server(s, "postgres", "east"), options(postgres.Serializable), sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	var wrong *target.FieldError
	if _, err := postgres.Open(t.Context(), &topology, server(s, "postgres", "east"), options(postgres.Serializable), sqltarget.Session()); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "another run uses this schema") {
		t.Errorf("%v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = postgres.Open(t.Context(), &topology, server(s, "postgres", "east"), options(postgres.Serializable), sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
}

// With TLS, the server's certificate is verified as the mode requires, and the endpoint's round-trip time is measured.
func TestTLS(t *testing.T) {
	s := postgrestest.Start(t, "ssl=on")
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	open := func(mode, ca string) error {
		to, o := server(s, "postgres", "east"), options(postgres.Serializable)
		o.TLS, to.CAFile = mode, ca
		db, err := postgres.Open(context.Background(), &topology, to, o, sqltarget.Session())
		if err != nil {
			return err
		}
		d := db.Describe()
		if len(d.Endpoints) != 1 || d.Endpoints[0].RTTMicroseconds <= 0 || !strings.HasPrefix(d.Server, "PostgreSQL ") || d.Isolation != "serializable" {
			t.Errorf("%+v", d)
		}
		return db.Close()
	}
	for _, mode := range []string{"require", "verify-ca", "verify-full"} {
		if err := open(mode, s.CAFile); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if err := open("require", ""); err != nil {
		t.Error(err)
	}
	var wrong *target.FieldError
	if err := open("verify-full", ""); !errors.As(err, &wrong) || wrong.Field != "spec.engine.parameters.tls" || !strings.Contains(err.Error(), "is not to be trusted") {
		t.Errorf("%v", err)
	}
}
