package mysql_test

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	driverpkg "github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// server returns the location of a server for the clients of these regions.
func server(s *mysqltest.Server, regions ...string) sqltarget.Server {
	to := sqltarget.Server{Database: mysqltest.Database, User: mysqltest.User, Password: mysqltest.Password}
	for _, r := range regions {
		to.Endpoints = append(to.Endpoints, sqltarget.Endpoint{Region: r, Address: s.Address})
	}
	return to
}

func options(level string) mysql.Options {
	return mysql.Options{Options: sqltarget.Options{Isolation: level, Connections: 8, TLS: "disable", Place: "geobench_rows"}}
}

// open opens a database for a plan, and closes it at the end of the test.
func open(t testing.TB, p *plan.Plan, to sqltarget.Server, o mysql.Options) sqltarget.Database {
	t.Helper()
	db, err := mysql.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
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

// MariaDB satisfies the contract of a target at each level, with InnoDB's guarantees.
func TestConform(t *testing.T) {
	s := mysqltest.Start(t)
	for name, promises := range map[string]isolation.Level{
		mysql.ReadCommitted: isolation.ReadCommitted, mysql.RepeatableRead: isolation.ReadCommitted,
		mysql.SnapshotIsolation: isolation.SnapshotIsolation, mysql.Serializable: isolation.Serializable,
	} {
		t.Run(name, func(t *testing.T) {
			opened := func(t *testing.T, p *plan.Plan) target.Database {
				return open(t, p, server(s, p.Topology.Regions...), options(name))
			}
			if name == mysql.Serializable {
				targettest.Conform(t, "mysql", promises, opened)
				return
			}
			p := targettest.Plan(t, "mysql", "{smallbank: {customers: 200}}", promises)
			if err := targettest.Statements(t.Context(), p, opened(t, p)); err != nil {
				t.Error(err)
			}
		})
	}
	s.AwaitNoSessions(t)
}

func TestClassify(t *testing.T) {
	answer := func(number uint16) error {
		return fmt.Errorf("in a transaction: %w", &driverpkg.MySQLError{Number: number})
	}
	for name, tc := range map[string]struct {
		err  error
		want target.Failure
	}{
		"deadlock, and Galera's certification": {answer(1213), target.Failure{Cause: txn.CauseConflict, Reason: "deadlock", RolledBack: true}},
		"lock wait timeout":                    {answer(1205), target.Failure{Cause: txn.CauseConflict, Reason: "lock-timeout", RolledBack: true}},
		"changed since the snapshot":           {answer(1020), target.Failure{Cause: txn.CauseConflict, Reason: "serialization-failure", RolledBack: true}},
		"read-only":                            {answer(1290), target.Failure{Cause: txn.CauseNode, Reason: "read-only", RolledBack: true}},
		"table full":                           {answer(1114), target.Failure{Cause: txn.CauseNode, Reason: "out-of-resources", RolledBack: true}},
		"a constraint":                         {answer(1062), target.Failure{Cause: txn.CauseNode, Reason: "constraint", RolledBack: true}},
		"a node without its cluster":           {answer(1047), target.Failure{Cause: txn.CauseNode, Reason: "not-ready"}},
		"canceled":                             {answer(1317), target.Failure{Cause: txn.CauseNode, Reason: "canceled"}},
		"error during COMMIT":                  {answer(1180), target.Failure{Cause: txn.CauseNode, Reason: "error-11xx"}},
		"shutdown":                             {answer(1053), target.Failure{Cause: txn.CauseNode, Reason: "shutdown", Broken: true}},
		"connection":                           {driverpkg.ErrInvalidConn, target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}},
		"network":                              {&net.OpError{Op: "read", Err: errors.New("reset")}, target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}},
		"nothing was sent":                     {driver.ErrBadConn, target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true, RolledBack: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mysql.Classify(tc.err); got != tc.want {
				t.Errorf("%+v, not %+v", got, tc.want)
			}
		})
	}
}

// Errors in the location of a database name the field, its value and a remedy. A refused Open leaves no data in the
// database.
func TestOpenRefuses(t *testing.T) {
	s := mysqltest.Start(t, "--max-connections=30", "--skip-ssl")
	s.Query(t, mysqltest.Database, "create user weak@'%' identified by 'weak'", "grant select on app.* to weak@'%'",
		"create table geobench_rows_b (k int)", "create database other")
	t.Setenv(mysql.UserVariable, "")
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	nobody := postgrestest.FreeAddresses(t, 1)[0]
	for name, tc := range map[string]struct {
		change func(*sqltarget.Server, *mysql.Options)
		field  string
		want   string
	}{
		"a wrong password": {func(s *sqltarget.Server, _ *mysql.Options) { s.Password = "wrong-secret" }, "spec.external.secretRef", "does not let user bench in with this password (error 1045)"},
		"no user":          {func(s *sqltarget.Server, _ *mysql.Options) { s.User = "" }, "spec.external.secretRef", "no user is named: give a Secret"},
		"no database":      {func(s *sqltarget.Server, _ *mysql.Options) { s.Database = "" }, "spec.external.database", "name one that is there"},
		"no such database": {func(s *sqltarget.Server, _ *mysql.Options) { s.Database = "nope" }, "spec.external.database", "make it (create database nope)"},
		"no right to use":  {func(s *sqltarget.Server, _ *mysql.Options) { s.User, s.Password, s.Database = "weak", "weak", "other" }, "spec.external.database", "grant all on other.* to this user"},
		"no right to make": {func(s *sqltarget.Server, _ *mysql.Options) { s.User, s.Password = "weak", "weak" }, "spec.external.database", "may not make the table geobench_rows there"},
		"nobody listens":   {func(s *sqltarget.Server, _ *mysql.Options) { s.Endpoints[1].Address = nobody }, "spec.external.endpoints[1].address", "see that the server runs"},
		"no such host":     {func(s *sqltarget.Server, _ *mysql.Options) { s.Endpoints[0].Address = "no-such-host.invalid:3306" }, "spec.external.endpoints[0].address", "there is no host of this name"},
		"no TLS":           {func(_ *sqltarget.Server, o *mysql.Options) { o.TLS = "require" }, "spec.engine.parameters.tls", "takes no encrypted connections"},
		"somebody's table": {func(_ *sqltarget.Server, o *mysql.Options) { o.Place = "geobench_rows_b" }, "spec.engine.parameters.table", "the table there is not Geobench's"},
		"too many":         {func(_ *sqltarget.Server, o *mysql.Options) { o.Connections = 20 }, "spec.engine.parameters.connections", "2 regions x 20 connections and 1 more are 41, and the server has"},
		"no Galera":        {func(_ *sqltarget.Server, o *mysql.Options) { o.SyncWait = true }, "spec.engine.parameters.syncWait", "is no node of Galera"},
	} {
		t.Run(name, func(t *testing.T) {
			to, o := server(s, topology.Regions...), options(mysql.Serializable)
			tc.change(&to, &o)
			db, err := mysql.Open(t.Context(), &topology, to, o, sqltarget.Session())
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
	if rows := s.Query(t, mysqltest.Database, "show tables like 'geobench_rows'"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
	s.AwaitNoSessions(t)
}

// Two runs cannot use the same table at the same time, because each would replace the rows of the other. The table is
// dropped after a run if so configured.
func TestTableHasOneRun(t *testing.T) {
	s := mysqltest.Start(t)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	o := options(mysql.Serializable)
	o.Drop = true
	db, err := mysql.Open(t.Context(), &topology, server(s, "east"), o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	var wrong *target.FieldError
	if _, err := mysql.Open(t.Context(), &topology, server(s, "east"), o, sqltarget.Session()); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "another run uses this table") {
		t.Errorf("%v", err)
	}
	if d := db.Describe(); !strings.HasPrefix(d.Server, "MariaDB ") || d.Isolation != "serializable" || d.Endpoints[0].RTTMicroseconds <= 0 {
		t.Errorf("%+v", d)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if rows := s.Query(t, mysqltest.Database, "show tables like 'geobench_rows'"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
}

// With TLS, the server's certificate is verified as the mode requires.
func TestTLS(t *testing.T) {
	s, ca := mysqltest.StartTLS(t)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	open := func(mode, ca string) error {
		to, o := server(s, "east"), options(mysql.Serializable)
		o.TLS, to.CAFile = mode, ca
		db, err := mysql.Open(t.Context(), &topology, to, o, sqltarget.Session())
		if err != nil {
			return err
		}
		return db.Close()
	}
	for mode, ca := range map[string]string{"require": "", "verify-ca": ca, "verify-full": ca} {
		if err := open(mode, ca); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for _, mode := range []string{"verify-ca", "verify-full"} {
		var wrong *target.FieldError
		if err := open(mode, ""); !errors.As(err, &wrong) || wrong.Field != "spec.engine.parameters.tls" || !strings.Contains(err.Error(), "is not to be trusted") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// A commit whose connection is cut has an unknown outcome.
func TestCommitIsCut(t *testing.T) {
	s := mysqltest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 200}}", isolation.Serializable)
	to, o := server(s, p.Topology.Regions...), options(mysql.Serializable)
	o.Connections = 1
	for i := range to.Endpoints {
		to.Endpoints[i].Address = proxy.Address
	}
	db, err := mysql.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()     //nolint:errcheck // the server stops with the test
	const query = "\x03" // COM_QUERY
	targettest.CutAtCommit(t, p, db, func(served bool) { proxy.CutOnce(query+"commit", served) })
}

// A transaction starts with its first statement, or with a separate message if so configured. The result states which
// of the two applies.
func TestMessages(t *testing.T) {
	s := mysqltest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	p := targettest.Plan(t, "mysql", "{smallbank: {customers: 200}}", isolation.Serializable)
	to := server(s, p.Topology.Regions...)
	for i := range to.Endpoints {
		to.Endpoints[i].Address = proxy.Address
	}
	for place, tc := range map[string]struct {
		alone bool
		want  [5]int64 // begin, read, write, read, commit
		says  string
	}{
		"geobench_rows":   {false, [5]int64{0, 1, 1, 1, 1}, "sending no BEGIN (autocommit is off), each write alone"},
		"geobench_rows_a": {true, [5]int64{1, 1, 1, 1, 1}, "sending BEGIN alone, each write alone"},
	} {
		o := options(mysql.Serializable)
		o.Place, o.BeginAlone = place, tc.alone
		db := open(t, p, to, o)
		targettest.RoundTrips(t, db.Clients(0).(*target.Statements), proxy.Count(), tc.want)
		if says := db.(target.Described).Describe(); !strings.Contains(says.String(), tc.says) {
			t.Errorf("%s\nnot %s", says.String(), tc.says)
		}
	}
}

// Another process joins a run by the run's session name. The process that opened the database counts the busy sessions
// of both processes, but no sessions of other runs.
func TestJoin(t *testing.T) {
	s := mysqltest.Start(t)
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	to, o := server(s, topology.Regions...), options(mysql.Serializable)
	elsewhere := o
	elsewhere.Place = "geobench_rows_a"
	open := func(o mysql.Options, session string) sqltarget.Database {
		db, err := mysql.Open(t.Context(), &topology, to, o, session)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	session := sqltarget.Session()
	mine, others := open(o, session), open(elsewhere, sqltarget.Session())
	var wrong *target.FieldError
	if _, _, err := mysql.Join(t.Context(), &topology, to, o, sqltarget.Session(), 0); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "is not the one of this run") {
		t.Errorf("a run that nobody has opened was joined: %v", err)
	}
	joined, _, err := mysql.Join(t.Context(), &topology, to, o, session, 1)
	if err != nil {
		t.Fatal(err)
	}
	pending := func(db target.Database) int {
		a, err := db.Activity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return a.Pending
	}
	begin := func() (target.Connection, target.Statement) {
		c, err := joined.(*target.Statements).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		statement, err := c.Begin(t.Context(), &txn.Transaction{})
		if err != nil {
			t.Fatal(err)
		}
		return c, statement
	}
	k := txn.IntKey(1, 1)
	one, first := begin()
	if err := first.Put(k, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if n := pending(mine); n != 0 {
		t.Errorf("%d sessions are at work while the only one waits for its client", n)
	}
	two, second := begin()
	done := make(chan error, 1)
	go func() { done <- errors.Join(second.Put(k, []byte("2")), second.Commit(t.Context())) }()
	for pending(mine) != 1 { // until the transaction waits for the first transaction's lock
		select {
		case err := <-done:
			t.Fatalf("the second one did not wait: %v", err)
		default:
		}
	}
	if n := pending(others); n != 0 {
		t.Errorf("another run sees %d sessions at work", n)
	}
	if err := errors.Join(first.Commit(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if n := pending(mine); n != 0 {
		t.Errorf("%d sessions are at work after all have committed", n)
	}
	if err := errors.Join(one.Close(), two.Close(), joined.Close(), mine.Close(), others.Close()); err != nil {
		t.Error(err)
	}
	s.AwaitNoSessions(t)
}
