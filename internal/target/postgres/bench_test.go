package postgres_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
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

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/postgres"
	"github.com/geobench/geobench/internal/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
)

// The transaction of pgbench, TPC-B-like, on a table of keys and values: three rows are read and written, one is read again, and a
// row of the history is written. Both clients send the same statements, and BEGIN together with the first one.
const (
	accounts, tellers, branches, histories txn.Table = 1, 2, 3, 4
	accountRows, tellerRows, branchRows              = 100_000, 10, 10
)

// step is a statement of that transaction: a row of a table is read, or written with a value; id and value are variables of pgbench. The zero value is BEGIN.
type step struct {
	table     txn.Table
	id, value string
}

// begin and commit are the steps of no row.
var begin, commit = step{}, step{value: "commit"}

// roundTrips are the steps of the transaction, those together that are sent together.
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

// pgbenchScript is the transaction for pgbench.
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

// tpcb is the transaction as a procedure; what the branch and the teller are chosen by does not matter.
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

// BenchmarkClientCPU compares the CPU time that this client and pgbench take for a transaction of the same statements, on the same
// server, in alternating pairs. It counts connections, procedures and outcomes, and not what a workload takes to make transactions up.
// The third side is bare: the same messages, sent and skipped by goroutines without a driver. No client in Go takes less.
func BenchmarkClientCPU(b *testing.B) {
	b.Run(postgres.WritesEach, func(b *testing.B) { clientCPU(b, false) })
	b.Run(postgres.WritesTogether, func(b *testing.B) { clientCPU(b, true) })
}

func clientCPU(b *testing.B, together bool) {
	const connections, pairs, lasts = 4, 6, 4 * time.Second
	program := postgrestest.Program(b, "pgbench")
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off")
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	to, o := server(s, "postgres", "east"), options(postgres.ReadCommitted)
	o.Connections, o.Together = connections, together
	db, err := postgres.Open(b.Context(), &topology, to, o, sqltarget.Session())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server goes
	for table, rows := range map[txn.Table]int{accounts: accountRows, tellers: tellerRows, branches: branchRows} {
		s.Query(b, "postgres", fmt.Sprintf(`insert into geobench.rows select '\x%02x'::bytea || int8send(n), int8send(0) from generate_series(1, %d) n`, table, rows))
	}
	s.Query(b, "postgres", "analyze geobench.rows")
	trips, script := roundTrips(together), filepath.Join(b.TempDir(), "tpcb.sql")
	if err := os.WriteFile(script, []byte(pgbenchScript(trips)), 0o600); err != nil {
		b.Fatal(err)
	}
	var ours, bares, theirs, ratios, least []float64
	for range pairs {
		a, aRate := drive(b, db, lasts)
		l, lRate := bare(b, s.Address, trips, connections, lasts)
		p, pRate := pgbench(b, program, script, s.Address, connections, lasts)
		ours, bares, theirs, ratios, least = append(ours, a), append(bares, l), append(theirs, p), append(ratios, a/p), append(least, l/p)
		b.Logf("geobench %.1f us, %.0f txn/s; bare %.1f us, %.0f txn/s; pgbench %.1f us, %.0f txn/s: %.2fx, bare %.2fx", a, aRate, l, lRate, p, pRate, a/p, l/p)
	}
	b.ReportMetric(targettest.Median(ours), "geobench-us/txn")
	b.ReportMetric(targettest.Median(bares), "bare-us/txn")
	b.ReportMetric(targettest.Median(theirs), "pgbench-us/txn")
	b.ReportMetric(targettest.Median(ratios), "ratio")
	b.ReportMetric(targettest.Median(least), "bare-ratio")
	b.ReportMetric(0, "ns/op")
}

// drive keeps all connections busy, and returns microseconds of CPU per transaction and transactions per second.
func drive(b *testing.B, db sqltarget.Database, lasts time.Duration) (us, rate float64) {
	b.Helper()
	const procedure txn.ProcID = 1000
	clients, ok := db.Clients(0).(*target.Statements)
	if !ok {
		b.Fatal("the clients are not Statements")
	}
	clients.Procedures = txn.NewRegistry(&txn.Procedure{ID: procedure, Name: "tpcb", Declare: func([]byte, *txn.Footprint) error { return nil }, Run: tpcb})
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
		session.Submit(&txn.Transaction{ID: txn.MakeID(1, submitted), Proc: procedure})
		session.Flush()
	}
	before, begin := targettest.CPU(b, syscall.RUSAGE_SELF), time.Now()
	for range clients.Connections {
		submit()
	}
	for time.Since(begin) < lasts {
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

// bare keeps as many connections busy with the messages that a driver would send, and skips what comes back but for its end.
func bare(b *testing.B, address string, trips [][]step, connections int, lasts time.Duration) (us, rate float64) {
	b.Helper()
	var all errgroup.Group
	var committed atomic.Int64
	sessions := make([]*pgconn.HijackedConn, connections)
	for i := range sessions {
		sessions[i] = bareSession(b, address)
	}
	before, begin := targettest.CPU(b, syscall.RUSAGE_SELF), time.Now()
	for _, session := range sessions {
		all.Go(func() error {
			messages, r := make([]byte, 0, 1024), bufio.NewReaderSize(session.Conn, 8192)
			for time.Since(begin) < lasts {
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

// bareSession is a connection with the statements of appendTo prepared.
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

// appendTo appends the messages of a step.
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

// skipAnswers reads up to the server's ReadyForQuery.
func skipAnswers(r *bufio.Reader) error {
	const errorResponse, readyForQuery = 'E', 'Z'
	var head [5]byte // type and length of a message, which counts itself
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

// plansOfRows are the settings of a session whose plans are those of this client.
const plansOfRows = "-c enable_seqscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan"

var processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)

// pgbench does the same with pgbench, whose statements are prepared, too.
func pgbench(b *testing.B, program, script, address string, connections int, lasts time.Duration) (us, rate float64) {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	before := targettest.CPU(b, syscall.RUSAGE_CHILDREN)
	c := exec.Command(program, "-n", "-M", "prepared", "-c", strconv.Itoa(connections), "-j", "2", "-T", strconv.Itoa(int(lasts.Seconds())), "-f", script, "-h", host, "-p", port, "-U", postgrestest.User, "postgres")
	c.Env = append(os.Environ(), "PGPASSWORD="+postgrestest.Password, "PGOPTIONS="+plansOfRows)
	out, err := c.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	found := processed.FindSubmatch(out)
	if found == nil {
		b.Fatalf("pgbench says %s", out)
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return float64((targettest.CPU(b, syscall.RUSAGE_CHILDREN) - before).Microseconds()) / n, n / lasts.Seconds()
}

// BenchmarkForms compares procedures, with their writes each on its own and together, with SQL, without and with foreign keys: TPC-C of two
// warehouses on the same server, one after the other in each round. It counts what a run's client does but for its records: generator, session
// and connections.
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

// BenchmarkGoTPC compares TPC-C in SQL with go-tpc (github.com/pingcap/go-tpc), whose program GEOBENCH_GO_TPC names: two warehouses, as many clients,
// no foreign keys, READ COMMITTED, on the same server, in alternating pairs. The statements are those that each has.
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

// BenchmarkGoTPCTerminals has the clients of both wait as the specification has its terminals key in and think (5.2.5.7), so that tpmC is bounded by
// that and not by the processors: both play at the same time, each on its database. There are 200 terminals for a warehouse in place of 10, since
// each sends an order in 47 s, and a few hundred orders say little. tpmC is the new orders that each counts over the time that it was given;
// go-tpc's own figure divides by the time since its first order was done, which is 18 s after its start at the least.
func BenchmarkGoTPCTerminals(b *testing.B) {
	const terminals, lasts = 400, 6 * time.Minute
	program := os.Getenv("GEOBENCH_GO_TPC")
	if program == "" {
		b.Skip("GEOBENCH_GO_TPC names no go-tpc: make bench-go-tpc builds it")
	}
	s := postgrestest.Start(b, "log_statement=none", "synchronous_commit=off", "shared_buffers=256MB", "max_wal_size=4GB", fmt.Sprintf("max_connections=%d", terminals+100))
	p := targettest.TerminalPlan(b, "postgres", terminals, lasts)
	o := options(postgres.ReadCommitted)
	o.Connections, o.Form, o.Together = targettest.FormClients, sqltarget.FormSQL, true
	s.Database(b, "ours")
	s.Database(b, "theirs")
	goTPC(b, program, s.Address, targettest.FormClients, "prepare", "--no-check")
	s.Query(b, "theirs", "analyze")
	var theirs string
	var theirCPU time.Duration
	var playing sync.WaitGroup
	document, us := targettest.MeasureClient(b, p, open(b, s, p, "ours", o), func() {
		playing.Go(func() {
			before := targettest.CPU(b, syscall.RUSAGE_CHILDREN)
			theirs = goTPC(b, program, s.Address, terminals, "run", "--time", lasts.String(), "--isolation", "2", "--ignore-error", "--silence", "--wait")
			theirCPU = targettest.CPU(b, syscall.RUSAGE_CHILDREN) - before
		})
	})
	playing.Wait()
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
	tpmC, theirTpmC := float64(*document.Summary.TpmC), counts["NEW_ORDER"]/lasts.Minutes()
	theirUs := float64(theirCPU.Microseconds()) / all
	b.Logf("geobench %.0f us of client CPU, tpmC %.0f, %d committed, %d rolled back, p50 %d us; go-tpc %.0f us, tpmC %.0f (%v); at most %.0f are possible: CPU %.2fx, tpmC %.3fx", us, tpmC,
		document.Summary.Committed, document.Summary.Aborted, document.Summary.LatencyMicroseconds.P50, theirUs, theirTpmC, counts, terminals*1.286, us/theirUs, tpmC/theirTpmC)
	b.ReportMetric(us, "geobench-us/txn")
	b.ReportMetric(theirUs, "go-tpc-us/txn")
	b.ReportMetric(us/theirUs, "cpu-ratio")
	b.ReportMetric(tpmC/theirTpmC, "tpmC-ratio")
	b.ReportMetric(0, "ns/op")
}

// tpccCount are the lines of go-tpc's summary, one for each kind of transactions, and one of that name with _ERR for those that failed.
var tpccCount = regexp.MustCompile(`(?m)^\[Summary\] ([A-Z_]+) +- Takes\(s\): [0-9.]+, Count: ([0-9]+)`)

var tpm = regexp.MustCompile(`tpmC: ([0-9.]+), tpmTotal: ([0-9.]+)`)

// goTPC runs go-tpc's TPC-C on its database.
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
