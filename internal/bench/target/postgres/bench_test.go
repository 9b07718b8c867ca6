package postgres_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// The transaction of pgbench, which is like TPC-B, on a table of keys and values. It reads and writes three rows, reads
// one of them again, and writes a row of the history. Both clients send the same statements, and send BEGIN together
// with the first statement.
const (
	accounts, tellers, branches, histories txn.Table = 1, 2, 3, 4
	accountRows, tellerRows, branchRows              = 100_000, 10, 10
)

// step is a statement of the transaction, which reads a row of a table, or writes it if value is set. id and value are
// variables of pgbench. The zero value is BEGIN.
type step struct {
	table     txn.Table
	id, value string
}

// begin and commit are the steps that access no row.
var begin, commit = step{}, step{value: "commit"}

// roundTrips returns the steps of the transaction, grouped by round trip.
func roundTrips(together bool) [][]step {
	get := func(t txn.Table, id string) step { return step{t, id, ""} }
	put := func(t txn.Table, id, value string) step { return step{t, id, value} }
	if together {
		return [][]step{
			{begin, get(accounts, "aid")}, {put(accounts, "aid", "hid"), get(accounts, "aid")},
			{get(tellers, "tid")}, {put(tellers, "tid", "hid"), get(branches, "bid")},
			{put(branches, "bid", "hid"), put(histories, "hid", "aid"), commit},
		}
	}
	return [][]step{
		{begin, get(accounts, "aid")}, {put(accounts, "aid", "hid")}, {get(accounts, "aid")},
		{get(tellers, "tid")}, {put(tellers, "tid", "hid")}, {get(branches, "bid")}, {put(branches, "bid", "hid")},
		{put(histories, "hid", "aid")}, {commit},
	}
}

// pgbenchScript returns the transaction as a script for pgbench.
func pgbenchScript(trips [][]step) string {
	script := `\set aid random(1, 100000)
\set tid random(1, 10)
\set bid random(1, 10)
\set hid random(1, 1000000000)
`
	for _, steps := range trips {
		if len(steps) > 1 {
			script += "\\startpipeline\n"
		}
		for _, s := range steps {
			switch {
			case s == begin:
				script += beginSQL + ";\n"
			case s == commit:
				script += "commit;\n"
			case s.value == "":
				script += fmt.Sprintf("select v from geobench.rows where k = '\\x%02x'::bytea || int8send(:%s);\n", s.table, s.id)
			default:
				script += fmt.Sprintf("insert into geobench.rows (k, v) values ('\\x%02x'::bytea || int8send(:%s), int8send(:%s)) on conflict (k) do update set v = excluded.v;\n", s.table, s.id, s.value)
			}
		}
		if len(steps) > 1 {
			script += "\\endpipeline\n"
		}
	}
	return script
}

const beginSQL = "begin isolation level read committed"

// tpcb is the transaction as a procedure. The choice of branch and teller does not matter.
func tpcb(ctx txn.Ctx, _ []byte) ([]byte, error) {
	account, teller, branch := txn.IntKey(accounts, 1+rand.Uint64N(accountRows)), txn.IntKey(tellers, 1+rand.Uint64N(tellerRows)), txn.IntKey(branches, 1+rand.Uint64N(branchRows))
	for _, step := range []struct {
		key   txn.Key
		again bool
	}{{account, true}, {teller, false}, {branch, false}} {
		v, err := ctx.Get(step.key)
		if err != nil {
			return nil, err
		}
		v = append(make([]byte, 0, len(v)), v...)
		v[len(v)-1]++
		ctx.Put(step.key, v)
		if step.again {
			if _, err := ctx.Get(step.key); err != nil {
				return nil, err
			}
		}
	}
	ctx.Put(txn.IntKey(histories, rand.Uint64N(1_000_000_000)), make([]byte, 8))
	return nil, nil
}

// BenchmarkClientCPU compares the CPU time per transaction of this client and of pgbench, with the same statements on
// the same server, in alternating pairs. It covers connections, procedures and outcomes, but not the generation of
// transactions by a workload.
//
// SameMessages runs the statements of procedures, which both clients send in the same messages; pgbench runs a script
// written for this purpose. The third side, bare, consists of goroutines without a driver that send the same messages
// and skip the answers. It is a lower bound for clients in Go.
//
// OwnScript is pgbench's own TPC-B-like transaction, which sends each of its seven statements alone. It is compared
// with the same seven statements as SQL of this client: each alone, BEGIN with the first, and all together. The last
// form is possible because no statement needs the answer to another.
func BenchmarkClientCPU(b *testing.B) {
	b.Run("SameMessages/"+postgres.WritesEach, func(b *testing.B) { sameMessages(b, false) })
	b.Run("SameMessages/"+postgres.WritesTogether, func(b *testing.B) { sameMessages(b, true) })
	b.Run("OwnScript", ownScript)
}

// Number of connections of each client, number of rounds, and duration of each measurement.
const (
	cpuConnections, cpuRounds = 4, 6
	cpuLasts                  = 3 * time.Second
)

func sameMessages(b *testing.B, together bool) {
	program := postgrestest.Program(b, "pgbench")
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off")
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	to, o := server(s, "postgres", "east"), options(postgres.ReadCommitted)
	o.Connections, o.Together = cpuConnections, together
	db, err := postgres.Open(b.Context(), &topology, to, o, sqltarget.Session())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server stops with the test
	for table, rows := range map[txn.Table]int{accounts: accountRows, tellers: tellerRows, branches: branchRows} {
		s.Query(b, "postgres", fmt.Sprintf(`insert into geobench.rows select '\x%02x'::bytea || int8send(n), int8send(0) from generate_series(1, %d) n`, table, rows))
	}
	s.Query(b, "postgres", "analyze geobench.rows")
	trips, script := roundTrips(together), filepath.Join(b.TempDir(), "tpcb.sql")
	if err := os.WriteFile(script, []byte(pgbenchScript(trips)), 0o600); err != nil {
		b.Fatal(err)
	}
	var ours, bares, theirs, ratios, least []float64
	for range cpuRounds {
		a, aRate := drive(b, db, tpcb)
		l, lRate := bare(b, s.Address, trips)
		p, pRate := pgbench(b, program, s.Address, "-f", script)
		ours, bares, theirs, ratios, least = append(ours, a), append(bares, l), append(theirs, p), append(ratios, a/p), append(least, l/p)
		b.Logf("in the same %d messages: geobench %.1f us, %.0f txn/s; bare %.1f us, %.0f txn/s; pgbench %.1f us, %.0f txn/s: %.2fx, bare %.2fx", len(trips), a, aRate, l, lRate, p, pRate, a/p, l/p)
	}
	b.ReportMetric(targettest.Median(ours), "geobench-us/txn")
	b.ReportMetric(targettest.Median(bares), "bare-us/txn")
	b.ReportMetric(targettest.Median(theirs), "pgbench-us/txn")
	b.ReportMetric(targettest.Median(ratios), "ratio")
	b.ReportMetric(targettest.Median(least), "bare-ratio")
	b.ReportMetric(0, "ns/op")
}

// The statements of pgbench's own script, except for BEGIN and END.
var (
	updateAccount = &sqlform.Statement{Name: "update_account", SQL: "update pgbench_accounts set abalance = abalance + $1 where aid = $2"}
	selectAccount = &sqlform.Statement{Name: "select_account", SQL: "select abalance from pgbench_accounts where aid = $1"}
	updateTeller  = &sqlform.Statement{Name: "update_teller", SQL: "update pgbench_tellers set tbalance = tbalance + $1 where tid = $2"}
	updateBranch  = &sqlform.Statement{Name: "update_branch", SQL: "update pgbench_branches set bbalance = bbalance + $1 where bid = $2"}
	insertHistory = &sqlform.Statement{Name: "insert_history", SQL: "insert into pgbench_history (tid, bid, aid, delta, mtime) values ($1, $2, $3, $4, current_timestamp)"}
)

// scale is the scale factor of pgbench's tables, which is their number of branches.
const scale = 10

// ownTPCB returns the transaction of pgbench's own script. Its statements are sent one by one if alone is set,
// otherwise together.
func ownTPCB(alone bool) *sqlform.Transaction {
	return &sqlform.Transaction{Procedure: tpcbProcedure, Statements: []*sqlform.Statement{updateAccount, selectAccount, updateTeller, updateBranch, insertHistory},
		Run: func(c *sqlform.Call) ([]byte, error) {
			account, teller, branch := sqlform.Int(1+rand.Int64N(100_000*scale)), sqlform.Int(1+rand.Int64N(10*scale)), sqlform.Int(1+rand.Int64N(scale))
			delta := sqlform.Int(rand.Int64N(10_001) - 5_000)
			for _, x := range []struct {
				statement *sqlform.Statement
				args      []sqlform.Arg
			}{
				{updateAccount, []sqlform.Arg{delta, account}},
				{selectAccount, []sqlform.Arg{account}},
				{updateTeller, []sqlform.Arg{delta, teller}},
				{updateBranch, []sqlform.Arg{delta, branch}},
				{insertHistory, []sqlform.Arg{teller, branch, account, delta}},
			} {
				if c.Do(x.statement, nil, x.args...); alone {
					if err := c.Send(); err != nil {
						return nil, err
					}
				}
			}
			return nil, nil
		}}
}

func ownScript(b *testing.B) {
	program := postgrestest.Program(b, "pgbench")
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off")
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	s.Query(b, "postgres", "create schema geobench")
	pgbenchProgram(b, program, s.Address, "-q", "-i", "-s", strconv.Itoa(scale))
	var theirs []float64
	ways := []struct {
		name            string
		messages        int
		alone, together bool
		us, ratios      []float64
	}{{name: "alone", messages: 7, alone: true}, {name: "begin-with-first", messages: 6}, {name: "together", messages: 1, together: true}}
	for range cpuRounds {
		p, pRate := pgbench(b, program, s.Address, "-b", "tpcb-like")
		theirs = append(theirs, p)
		line := fmt.Sprintf("pgbench's own script, 7 messages: %.1f us, %.0f txn/s;", p, pRate)
		for i := range ways {
			w := &ways[i]
			restore := postgres.Play(ownTPCB(!w.together))
			o := options(postgres.ReadCommitted)
			o.Connections, o.Together, o.BeginAlone, o.Form = cpuConnections, w.together, w.alone, sqltarget.FormSQL
			db, err := postgres.Open(b.Context(), &topology, server(s, "postgres", "east"), o, sqltarget.Session())
			if err != nil {
				b.Fatal(err)
			}
			a, aRate := drive(b, db, nil)
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			restore()
			w.us, w.ratios = append(w.us, a), append(w.ratios, a/p)
			line += fmt.Sprintf(" geobench in %d %.1f us, %.0f txn/s: %.2fx;", w.messages, a, aRate, a/p)
		}
		b.Log(line)
	}
	b.ReportMetric(targettest.Median(theirs), "pgbench-us/txn")
	for i := range ways {
		b.ReportMetric(targettest.Median(ways[i].us), ways[i].name+"-us/txn")
		b.ReportMetric(targettest.Median(ways[i].ratios), ways[i].name+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// tpcbProcedure is the procedure ID of the transaction.
const tpcbProcedure txn.ProcID = 1000

// drive keeps all connections busy with a procedure. It returns CPU time in microseconds per transaction, and
// transactions per second.
func drive(b *testing.B, db sqltarget.Database, procedure func(ctx txn.Ctx, args []byte) ([]byte, error)) (us, rate float64) {
	b.Helper()
	clients, ok := db.Clients(0).(*target.Statements)
	if !ok {
		b.Fatal("the clients are not Statements")
	}
	clients.Procedures = txn.NewRegistry(&txn.Procedure{ID: tpcbProcedure, Name: "tpcb", Declare: func([]byte, *txn.Footprint) error { return nil }, Run: procedure})
	done := make(chan struct{}, clients.Connections)
	var committed atomic.Int64
	session, err := clients.Open(context.Background(), func(outcomes []txn.Outcome) {
		for _, o := range outcomes {
			if o.Status == txn.Committed {
				committed.Add(1)
			}
			done <- struct{}{}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	submitted := uint64(0)
	submit := func() {
		submitted++
		session.Submit(&txn.Transaction{ID: txn.MakeID(1, submitted), Proc: tpcbProcedure})
		session.Flush()
	}
	before, begin := targettest.CPU(b, syscall.RUSAGE_SELF), time.Now()
	for range clients.Connections {
		submit()
	}
	for time.Since(begin) < cpuLasts {
		<-done
		submit()
	}
	for range clients.Connections {
		<-done
	}
	took, elapsed := targettest.CPU(b, syscall.RUSAGE_SELF)-before, time.Since(begin)
	if err := session.Close(); err != nil {
		b.Fatal(err)
	}
	n := float64(committed.Load())
	if n < 0.99*float64(submitted) {
		b.Fatalf("%.0f of %d committed", n, submitted)
	}
	return float64(took.Microseconds()) / n, n / elapsed.Seconds()
}

// bare keeps the same number of connections busy with the messages that a driver would send. It skips the answers, and
// only detects the end of each answer.
func bare(b *testing.B, address string, trips [][]step) (us, rate float64) {
	b.Helper()
	var all errgroup.Group
	var committed atomic.Int64
	sessions := make([]*pgconn.HijackedConn, cpuConnections)
	for i := range sessions {
		sessions[i] = bareSession(b, address)
	}
	before, begin := targettest.CPU(b, syscall.RUSAGE_SELF), time.Now()
	for _, session := range sessions {
		all.Go(func() error {
			messages, r := make([]byte, 0, 1024), bufio.NewReaderSize(session.Conn, 8192)
			for time.Since(begin) < cpuLasts {
				ids := map[string]uint64{"aid": 1 + rand.Uint64N(accountRows), "tid": 1 + rand.Uint64N(tellerRows), "bid": 1 + rand.Uint64N(branchRows), "hid": rand.Uint64N(1_000_000_000)}
				for _, steps := range trips {
					messages = messages[:0]
					for _, s := range steps {
						messages = s.appendTo(messages, ids)
					}
					messages, _ = (&pgproto3.Sync{}).Encode(messages)
					if _, err := session.Conn.Write(messages); err != nil {
						return err
					}
					if err := skipAnswers(r); err != nil {
						return err
					}
				}
				committed.Add(1)
			}
			return nil
		})
	}
	err := all.Wait()
	took, elapsed := targettest.CPU(b, syscall.RUSAGE_SELF)-before, time.Since(begin)
	for _, session := range sessions {
		_ = session.Conn.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	n := float64(committed.Load())
	return float64(took.Microseconds()) / n, n / elapsed.Seconds()
}

// bareSession returns a connection on which the statements that appendTo executes are prepared.
func bareSession(b *testing.B, address string) *pgconn.HijackedConn {
	b.Helper()
	config, err := pgconn.ParseConfig(fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", postgrestest.User, postgrestest.Password, address))
	if err != nil {
		b.Fatal(err)
	}
	config.RuntimeParams["options"] = plansOfRows
	c, err := pgconn.ConnectConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	for name, sql := range map[string]string{
		"begin": beginSQL, "commit": "commit", "get": "select v from geobench.rows where k = $1",
		"put": "insert into geobench.rows (k, v) values ($1, $2) on conflict (k) do update set v = excluded.v",
	} {
		if _, err := c.Prepare(b.Context(), name, sql, nil); err != nil {
			b.Fatal(err)
		}
	}
	session, err := c.Hijack()
	if err != nil {
		b.Fatal(err)
	}
	return session
}

// appendTo appends the protocol messages of a step.
func (s step) appendTo(messages []byte, ids map[string]uint64) []byte {
	bind := pgproto3.Bind{ParameterFormatCodes: []int16{1}, ResultFormatCodes: []int16{1}}
	switch {
	case s == begin:
		bind.PreparedStatement = "begin"
	case s == commit:
		bind.PreparedStatement = "commit"
	default:
		bind.PreparedStatement, bind.Parameters = "get", [][]byte{[]byte(txn.IntKey(s.table, ids[s.id]))}
		if s.value != "" {
			bind.PreparedStatement, bind.Parameters = "put", append(bind.Parameters, binary.BigEndian.AppendUint64(nil, ids[s.value]))
		}
	}
	for _, m := range []pgproto3.FrontendMessage{&bind, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}} {
		messages, _ = m.Encode(messages)
	}
	return messages
}

// skipAnswers reads and discards messages up to and including the server's ReadyForQuery.
func skipAnswers(r *bufio.Reader) error {
	const errorResponse, readyForQuery = 'E', 'Z'
	var head [5]byte // type and length of a message; the length includes itself
	for head[0] != readyForQuery {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		rest := int(binary.BigEndian.Uint32(head[1:])) - 4
		if head[0] == errorResponse {
			said, _ := r.Peek(min(rest, r.Size()))
			return fmt.Errorf("the server says %q", said)
		}
		if _, err := r.Discard(rest); err != nil {
			return err
		}
	}
	return nil
}

// plansOfRows are session settings that give pgbench the same plans as this client.
const plansOfRows = "-c enable_seqscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan"

var processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)

// pgbench keeps the connections busy with a pgbench script, whose statements are prepared, too. It returns the same
// figures as drive.
func pgbench(b *testing.B, program, address string, script ...string) (us, rate float64) {
	b.Helper()
	before := targettest.CPU(b, syscall.RUSAGE_CHILDREN)
	out := pgbenchProgram(b, program, address, append(script, "-n", "-M", "prepared", "-c", strconv.Itoa(cpuConnections), "-j", "2", "-T", strconv.Itoa(int(cpuLasts.Seconds())))...)
	found := processed.FindSubmatch(out)
	if found == nil {
		b.Fatalf("pgbench says %s", out)
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return float64((targettest.CPU(b, syscall.RUSAGE_CHILDREN) - before).Microseconds()) / n, n / cpuLasts.Seconds()
}

// pgbenchProgram runs pgbench. Its tables are in the schema geobench.
func pgbenchProgram(b *testing.B, program, address string, args ...string) []byte {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(program, append(args, "-h", host, "-p", port, "-U", postgrestest.User, "postgres")...)
	c.Env = append(os.Environ(), "PGPASSWORD="+postgrestest.Password, "PGOPTIONS="+plansOfRows+" -c search_path=geobench")
	out, err := c.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return out
}

// BenchmarkForms compares four variants: procedures whose writes are sent separately or together, and SQL with or
// without foreign keys. It runs TPC-C with two warehouses on one server, one variant after another in each round. It
// covers the client's generator, session and connections, but not the recording of results.
func BenchmarkForms(b *testing.B) {
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off", "shared_buffers=256MB", "max_wal_size=4GB")
	p := targettest.FormPlan(b)
	sides := map[string]sqltarget.Database{}
	for name, change := range map[string]func(*postgres.Options){
		"procedures-each":     func(*postgres.Options) {},
		"procedures-together": func(o *postgres.Options) { o.Together = true },
		"sql":                 func(o *postgres.Options) { o.Form, o.Together = sqltarget.FormSQL, true },
		"sql-foreign-keys":    func(o *postgres.Options) { o.Form, o.Together, o.ForeignKeys = sqltarget.FormSQL, true, true },
	} {
		o := options(postgres.ReadCommitted)
		o.Connections = targettest.FormClients
		change(&o)
		database := strings.ReplaceAll(name, "-", "_")
		s.Database(b, database)
		sides[name] = open(b, s, p, database, o)
	}
	targettest.CompareForms(b, p, sides)
}

// BenchmarkGoTPC compares TPC-C in SQL with go-tpc (github.com/pingcap/go-tpc), whose program is named by the
// environment variable GEOBENCH_GO_TPC. Both programs use two warehouses, the same number of clients, no foreign keys
// and READ COMMITTED. They run on one server in alternating pairs, each with its own statements.
func BenchmarkGoTPC(b *testing.B) {
	const pairs, lasts = 6, 6 * time.Second
	program := os.Getenv("GEOBENCH_GO_TPC")
	if program == "" {
		b.Skip("GEOBENCH_GO_TPC names no go-tpc: make bench-go-tpc builds it")
	}
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off", "shared_buffers=256MB", "max_wal_size=4GB")
	p := targettest.FormPlan(b)
	o := options(postgres.ReadCommitted)
	o.Connections, o.Form, o.Together = targettest.FormClients, sqltarget.FormSQL, true
	s.Database(b, "ours")
	s.Database(b, "theirs")
	db := open(b, s, p, "ours", o)
	began := time.Now()
	if err := db.Load(b.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		b.Fatal(err)
	}
	b.Logf("geobench has loaded in %v", time.Since(began).Round(100*time.Millisecond))
	began = time.Now()
	goTPC(b, program, s.Address, targettest.FormClients, "prepare", "--no-check")
	b.Logf("go-tpc has loaded in %v", time.Since(began).Round(100*time.Millisecond))
	s.Query(b, "theirs", "analyze")
	var ours, theirs, cpus, tpmCs []float64
	for pair := range pairs {
		us, rate, tpmC := targettest.DriveWorkload(b, db, p, uint32(pair+1), lasts)
		before := targettest.CPU(b, syscall.RUSAGE_CHILDREN)
		found := tpm.FindStringSubmatch(goTPC(b, program, s.Address, targettest.FormClients, "run", "--time", lasts.String(), "--isolation", "2", "--ignore-error", "--silence"))
		if found == nil {
			b.Fatal("go-tpc does not say its tpmC")
		}
		theirTpmC, _ := strconv.ParseFloat(found[1], 64)
		theirRate, _ := strconv.ParseFloat(found[2], 64)
		theirRate /= 60
		theirUs := float64((targettest.CPU(b, syscall.RUSAGE_CHILDREN) - before).Microseconds()) / (theirRate * lasts.Seconds())
		ours, theirs, cpus, tpmCs = append(ours, us), append(theirs, theirUs), append(cpus, us/theirUs), append(tpmCs, tpmC/theirTpmC)
		b.Logf("geobench %.0f us, %.0f txn/s, tpmC %.0f; go-tpc %.0f us, %.0f txn/s, tpmC %.0f: CPU %.2fx, tpmC %.2fx", us, rate, tpmC, theirUs, theirRate, theirTpmC, us/theirUs, tpmC/theirTpmC)
	}
	b.ReportMetric(targettest.Median(ours), "geobench-us/txn")
	b.ReportMetric(targettest.Median(theirs), "go-tpc-us/txn")
	b.ReportMetric(targettest.Median(cpus), "cpu-ratio")
	b.ReportMetric(targettest.Median(tpmCs), "tpmC-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkGoTPCTerminals gives the clients of both programs the keying and think times of the specification's
// terminals (5.2.5.7). The figure tpmC is then limited by these times and not by the processors. Both programs run at
// the same time, each on a separate database. Each warehouse has hundreds of terminals instead of 10. A terminal sends
// only one order every 47 s, so the orders of 10 terminals would be too small a sample.
//
// The server counts the committed orders of both programs in the same minutes, by the next order numbers of its
// districts. The clients' own counts are not comparable. At the end, go-tpc's terminals finish their current
// transaction, which for two terminals in five is an order that is still being keyed in. They also count orders that
// are rolled back, and prepare their statements before they key in the first order.
func BenchmarkGoTPCTerminals(b *testing.B) {
	const terminals, settled, lasts, end = 800, 75 * time.Second, 6 * time.Minute, 5 * time.Second
	program := os.Getenv("GEOBENCH_GO_TPC")
	if program == "" {
		b.Skip("GEOBENCH_GO_TPC names no go-tpc: make bench-go-tpc builds it")
	}
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off", "shared_buffers=256MB", "max_wal_size=4GB", fmt.Sprintf("max_connections=%d", terminals+100))
	const given = settled + lasts + end
	p := targettest.TerminalPlan(b, "postgres", terminals, given)
	o := options(postgres.ReadCommitted)
	o.Connections, o.Form, o.Together = targettest.FormClients, sqltarget.FormSQL, true
	s.Database(b, "ours")
	s.Database(b, "theirs")
	goTPC(b, program, s.Address, targettest.FormClients, "prepare", "--no-check")
	s.Query(b, "theirs", "analyze")
	type orders struct{ ours, theirs float64 }
	count := func() (n orders) {
		n.ours, n.theirs = ordersIn(b, s, "ours", "geobench.district"), ordersIn(b, s, "theirs", "district")
		return n
	}
	var began, from, to, late orders
	began.theirs = ordersIn(b, s, "theirs", "district")
	var elapsed, theirCPU time.Duration
	var theirs string
	var playing sync.WaitGroup
	document, us := targettest.MeasureClient(b, p, open(b, s, p, "ours", o), func() {
		began.ours = ordersIn(b, s, "ours", "geobench.district")
		playing.Go(func() {
			before := targettest.CPU(b, syscall.RUSAGE_CHILDREN)
			theirs = goTPC(b, program, s.Address, terminals, "run", "--time", given.String(), "--isolation", "2", "--ignore-error", "--silence", "--wait")
			theirCPU = targettest.CPU(b, syscall.RUSAGE_CHILDREN) - before
		})
		start := time.Now()
		at := func(instant time.Duration) (orders, time.Time) {
			<-time.After(time.Until(start.Add(instant)))
			return count(), time.Now()
		}
		playing.Go(func() {
			var begin, over time.Time
			from, begin = at(settled)
			to, over = at(settled + lasts)
			late, _ = at(given)
			elapsed = over.Sub(begin)
		})
	})
	playing.Wait()
	last := count()
	counts := map[string]float64{}
	all := 0.0
	for _, found := range tpccCount.FindAllStringSubmatch(theirs, -1) {
		n, _ := strconv.ParseFloat(found[2], 64)
		if counts[found[1]] = n; !strings.HasSuffix(found[1], "_ERR") {
			all += n
		}
	}
	if counts["NEW_ORDER"] == 0 {
		b.Fatalf("go-tpc does not say how many new orders there were: %s", theirs)
	}
	n, m := to.ours-from.ours, to.theirs-from.theirs
	ratio, theirUs := n/m, float64(theirCPU.Microseconds())/all
	deviation := math.Sqrt(orderDispersion * (1/n + 1/m))
	b.Logf("as the server counts: geobench %.0f new orders in %v, %.1f in a minute; go-tpc %.0f, %.1f; at most %.1f are possible: tpmC %.3fx, standard deviation %.3f", n, elapsed.Round(time.Millisecond),
		n/elapsed.Minutes(), m, m/elapsed.Minutes(), terminals*1.286, ratio, deviation)
	b.Logf("as they count: geobench tpmC %d (%.0f orders by the server), %d rolled back, p50 %d us; go-tpc counts %.0f orders, of which %.0f were rolled back, and %.0f came after its time (%v)",
		*document.Summary.TpmC, last.ours-began.ours, document.Summary.Aborted, document.Summary.LatencyMicroseconds.P50.Least(), counts["NEW_ORDER"], counts["NEW_ORDER"]-(last.theirs-began.theirs), last.theirs-late.theirs, counts)
	b.Logf("client CPU for each transaction: geobench %.0f us, go-tpc %.0f us: %.2fx", us, theirUs, us/theirUs)
	b.ReportMetric(us, "geobench-us/txn")
	b.ReportMetric(theirUs, "go-tpc-us/txn")
	b.ReportMetric(us/theirUs, "cpu-ratio")
	b.ReportMetric(ratio, "tpmC-ratio")
	b.ReportMetric(deviation, "tpmC-ratio-deviation")
	b.ReportMetric(0, "ns/op")
}

// orderDispersion is the variance of the number of new orders in an interval, divided by the mean of this number. The
// quotient would be 1 for a Poisson process, but keying and think times vary less. The value follows from a
// renewal-reward process: a cycle takes L seconds, R = 1 if the cycle is a new order, and r = E[R]/E[L]. The variance
// grows with E[(R - r L)^2] / E[L].
const orderDispersion = 0.372

// ordersIn returns the sum of the districts' next order numbers. The sum grows by one with each committed new order.
func ordersIn(b *testing.B, s *postgrestest.Server, database, district string) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(s.Query(b, database, "select sum(d_next_o_id) from "+district)[0][0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// tpccCount matches the lines of go-tpc's summary. There is one line per transaction type, and one with the suffix _ERR
// for failed transactions.
var tpccCount = regexp.MustCompile(`(?m)^\[Summary\] ([A-Z_]+) +- Takes\(s\): [0-9.]+, Count: ([0-9]+)`)

var tpm = regexp.MustCompile(`tpmC: ([0-9.]+), tpmTotal: ([0-9.]+)`)

// goTPC runs go-tpc's TPC-C on a database of the server.
func goTPC(b *testing.B, program, address string, threads int, command ...string) string {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	args := append([]string{"tpcc"}, command...)
	args = append(args, "-d", "postgres", "-H", host, "-P", port, "-U", postgrestest.User, "-p", postgrestest.Password, "-D", "theirs", "--conn-params", "sslmode=disable",
		"--warehouses", "2", "-T", strconv.Itoa(threads))
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
