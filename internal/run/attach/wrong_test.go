package attach_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// keys creates a folder with a Secret pg that contains these keys.
func keys(t *testing.T, keys map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "pg"), 0o700); err != nil {
		t.Fatal(err)
	}
	for key, value := range keys {
		if err := os.WriteFile(filepath.Join(folder, "pg", key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// serve accepts connections on the loopback interface until the end of the test, and calls answer for each connection.
func serve(t *testing.T, answer func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return l.Addr().String()
}

// wrongDatabase returns a GeoDatabase of the given engine, with an endpoint or settings that may be unusable.
func wrongDatabase(engine, tls, parameters, address, database string) string {
	if database != "" {
		database = "\n    database: " + database
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: own}
spec:
  engine: {name: %s, parameters: {tls: %s, connections: "2"%s}}
  regions: [{name: east}]
  external:
    endpoints: [{region: east, address: "%s"}]%s
    secretRef: {name: pg}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: own}
spec:
  databaseRef: {name: own}
  workload: {smallbank: {customers: 100}}
  load: %s
  verify: [Invariants]
`, engine, tls, parameters, address, database, load)
}

// Whatever listens at the address of a database, an error names the object, the field, the value and a correction. No
// objects remain in the database. No password appears in an error, in the log of the server, or in the list of
// processes.
func TestDatabasesThatCannotBeUsed(t *testing.T) {
	t.Setenv("PGUSER", "")
	pg := postgrestest.Start(t, "log_connections=on", "log_disconnections=on")
	pg.Query(t, "postgres", "create role nologin nologin password 'sesame-of-nobody'; create role weak login password 'sesame-of-weak'; create role late login password 'sesame-of-late' valid until '2001-01-01'; "+
		"create role full login connection limit 0 password 'sesame-of-full'; create role frozen login password 'sesame-of-frozen'; alter role frozen set default_transaction_read_only = on")
	for _, sql := range []string{"create database closed allow_connections false", "create database private", "revoke connect on database private from public"} {
		pg.Query(t, "postgres", sql)
	}
	hostssl := postgrestest.Start(t, "ssl=on")
	hostssl.Only(t, "hostssl all all 127.0.0.1/32 scram-sha-256")
	maria, member := mysqltest.Start(t), etcdtest.Start(t, 1)[0]
	silent := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	closes := serve(t, func(c net.Conn) { _ = c.Close() })
	web := serve(t, func(c net.Conn) {
		defer c.Close()
		b := make([]byte, 512)
		_, _ = c.Read(b)
		_ = (&http.Response{StatusCode: http.StatusBadRequest, ProtoMajor: 1, ProtoMinor: 1}).Write(c)
	})
	user := func(name, password string) map[string]string {
		return map[string]string{"username": name, "password": password}
	}
	super, bench := user(postgrestest.User, postgrestest.Password), user(mysqltest.User, mysqltest.Password)
	const endpoint, secret = "spec.external.endpoints[0].address", "spec.external.secretRef"
	const tls = "spec.engine.parameters.tls"
	t.Run("at once", func(t *testing.T) {
		for name, tc := range map[string]struct {
			text  string
			keys  map[string]string
			field string
			// cure is the correction that the message suggests.
			cure string
		}{
			"PostgreSQL is MariaDB":      {wrongDatabase("postgres", "disable", "", maria.Address, "app"), super, endpoint, "see that it is PostgreSQL that listens there"},
			"PostgreSQL is etcd":         {wrongDatabase("postgres", "disable", "", member.Address, ""), super, endpoint, "see that it is PostgreSQL that listens there"},
			"PostgreSQL is a web server": {wrongDatabase("postgres", "disable", "", web, ""), super, endpoint, "see that it is PostgreSQL that listens there"},
			"PostgreSQL says nothing":    {wrongDatabase("postgres", "disable", "", silent, ""), super, endpoint, "see that"},
			"PostgreSQL closes":          {wrongDatabase("postgres", "disable", "", closes, ""), super, endpoint, "see that"},
			"MariaDB is PostgreSQL":      {wrongDatabase("mysql", "disable", "", pg.Address, "app"), bench, endpoint, "see that it is MySQL that listens there"},
			"MariaDB closes":             {wrongDatabase("mysql", "disable", "", closes, "app"), bench, endpoint, "see that"},
			"etcd is PostgreSQL":         {wrongDatabase("etcd", "disable", "", pg.Address, ""), super, endpoint, "see that it is etcd that listens there"},
			"etcd is MariaDB":            {wrongDatabase("etcd", "disable", "", maria.Address, ""), bench, endpoint, "see that it is etcd that listens there"},
			"etcd closes":                {wrongDatabase("etcd", "disable", "", closes, ""), super, endpoint, "see that"},
			"TLS to MariaDB without":     {wrongDatabase("mysql", "require", "", maria.Address, "app"), bench, tls, "disable"},
			"TLS to etcd without":        {wrongDatabase("etcd", "require", "", member.Address, ""), super, tls, "disable"},
			"no TLS where it must be":    {wrongDatabase("postgres", "disable", "", hostssl.Address, ""), super, secret, "use tls: require"},
			"nobody signed":              {wrongDatabase("postgres", "verify-full", "", hostssl.Address, ""), super, tls, "put the certificate authority's ca.crt into the Secret"},
			"ca.crt is none":             {wrongDatabase("postgres", "verify-full", "", hostssl.Address, ""), map[string]string{"username": "a", "password": "b", "ca.crt": "sesame"}, secret, "ca.crt"},
			"the user may not log in":    {wrongDatabase("postgres", "disable", "", pg.Address, ""), user("nologin", "sesame-of-nobody"), secret, "alter role nologin login"},
			"the password has expired":   {wrongDatabase("postgres", "disable", "", pg.Address, ""), user("late", "sesame-of-late"), secret, "as they are there"},
			"the user has no connection": {wrongDatabase("postgres", "disable", "", pg.Address, "postgres"), user("full", "sesame-of-full"), endpoint, "connection"},
			"the user only reads":        {wrongDatabase("postgres", "disable", "", pg.Address, "postgres"), user("frozen", "sesame-of-frozen"), endpoint, "turn it off"},
			"the user may make nothing":  {wrongDatabase("postgres", "disable", "", pg.Address, "postgres"), user("weak", "sesame-of-weak"), "spec.external.database", "create schema geobench authorization weak"},
			"the database is closed":     {wrongDatabase("postgres", "disable", "", pg.Address, "closed"), super, "spec.external.database", "allow_connections"},
			"the database is private":    {wrongDatabase("postgres", "disable", "", pg.Address, "private"), user("weak", "sesame-of-weak"), "spec.external.database", "grant connect on database private to weak"},
			"an empty password":          {wrongDatabase("postgres", "disable", "", pg.Address, ""), user(postgrestest.User, ""), secret, "password"},
			"an empty user":              {wrongDatabase("mysql", "disable", "", maria.Address, "app"), user("", "sesame-of-who"), secret, "username"},
			"a wrong password":           {wrongDatabase("mysql", "disable", "", maria.Address, "app"), user(mysqltest.User, "sesame-of-wrong"), secret, "password"},
			"no such database":           {wrongDatabase("mysql", "disable", "", maria.Address, "nope"), bench, "spec.external.database", "nope"},
			"no database":                {wrongDatabase("mysql", "disable", "", maria.Address, ""), bench, "spec.external.database", "name one that is there"},
			"sync wait without Galera":   {wrongDatabase("mysql", "disable", `, syncWait: "true"`, maria.Address, "app"), bench, "spec.engine.parameters.syncWait", "Galera"},
			"too many connections":       {strings.Replace(wrongDatabase("postgres", "disable", "", pg.Address, "postgres"), `connections: "2"`, `connections: "2000"`, 1), super, "spec.engine.parameters.connections", "take at most"},
			"etcd has no databases":      {wrongDatabase("etcd", "disable", "", member.Address, "app"), super, "spec.external.database", "leave it out"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // some cases wait for a server that does not answer
				var told strings.Builder
				d, err := attach.Play(t.Context(), planned(t, tc.text), keys(t, tc.keys), func(p inprocess.Progress) { told.WriteString(p.Stage) })
				ps, ok := check.As(err)
				switch {
				case !ok || d != nil:
					t.Fatalf("%v", err)
				case ps[0].Object != "GeoDatabase own" || !strings.HasPrefix(ps[0].Field, tc.field) || !strings.Contains(ps[0].Message, tc.cure):
					t.Errorf("%v\nnot %s: ... %s", err, tc.field, tc.cure)
				}
				told.WriteString(err.Error())
				for _, all := range []string{told.String(), processes(t)} {
					if password := tc.keys["password"]; len(password) > 1 && strings.Contains(all, password) {
						t.Errorf("the password is told: %s", all)
					}
				}
			})
		}
	})
	if rows := pg.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
	if rows := maria.Query(t, "app", "show tables"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
	if left := member.Keys(t, ""); len(left) > 0 {
		t.Errorf("the keys %q are left", left)
	}
	pg.AwaitNoSessions(t, "geobench-")
	maria.AwaitNoSessions(t)
	for _, line := range strings.Split(pg.Log(t)+hostssl.Log(t), "\n") {
		// Ignore the statements with which the test created the roles, because they contain the passwords.
		if strings.Contains(line, postgrestest.Password) || strings.Contains(line, "sesame") && !strings.Contains(line, "create role") {
			t.Errorf("a password is in the server's log: %s", line)
		}
	}
}

// processes returns the command lines of all processes, which every user of the machine can read.
func processes(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	if len(lines) == 0 {
		t.Error("no process is to be seen")
	}
	for _, path := range lines {
		text, _ := os.ReadFile(path) // empty if the process has exited
		all.Write(text)
		all.WriteByte('\n')
	}
	return all.String()
}
