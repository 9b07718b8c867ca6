package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// The node of the set engine that receives a transaction writes a key and sends the key to all other nodes. It replies
// once all nodes have written the key. It never answers a transaction without arguments.

const setProc txn.ProcID = 1

var procedures = txn.NewRegistry(&txn.Procedure{
	ID: setProc, Name: "set",
	Declare: func(args []byte, f *txn.Footprint) error {
		if len(args) > 1 {
			return errors.New("one byte, please")
		}
		f.Add(txn.IntKey(0, 0), txn.Write)
		f.Exact = true
		return nil
	},
})

type setMessage struct {
	kind  uint8 // 1: write, 2: written
	id    txn.ID
	value byte
}

func (m setMessage) Kind() uint8 { return m.kind }
func (m setMessage) Size() int   { return 9 }
func (m setMessage) AppendTo(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(m.id)), m.value)
}

type setReplica struct {
	protocol.Config
	waiting map[txn.ID]int
	fired   []time.Duration
}

func (r *setReplica) Start() {
	for _, d := range []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond} {
		r.Env.After(d, protocol.Timer{Arg: uint64(r.Env.Now() + d)})
	}
}

func (r *setReplica) others(f func(geo.NodeID)) {
	for i := range r.Topology.Nodes() {
		if id := geo.NodeID(i); id != r.Self {
			f(id)
		}
	}
}

func (r *setReplica) Submit(t *txn.Transaction) {
	if self := r.Topology.RegionOf(r.Self); t.Home != uint16(self) {
		panic(fmt.Sprintf("a transaction of clients of region %d at a node of region %d", t.Home, self))
	}
	r.waiting[t.ID] = r.Topology.Nodes() - 1
	if len(t.Args) == 0 {
		return
	}
	r.Store.(*store.Hash).Put(t.Accesses[0].Key, t.Args, t.ID)
	r.others(func(id geo.NodeID) { r.Env.Send(id, setMessage{1, t.ID, t.Args[0]}) })
}

func (r *setReplica) Receive(from geo.NodeID, m protocol.Message) {
	x := m.(setMessage)
	if x.kind == 1 {
		r.Store.(*store.Hash).Put(txn.IntKey(0, 0), []byte{x.value}, x.id)
		r.Env.Send(from, setMessage{2, x.id, 0})
		return
	}
	if r.waiting[x.id]--; r.waiting[x.id] == 0 {
		delete(r.waiting, x.id)
		r.Env.Reply(txn.Outcome{ID: x.id, Status: txn.Committed})
	}
}

func (r *setReplica) Fire(t protocol.Timer) {
	if now := r.Env.Now(); now < time.Duration(t.Arg) {
		panic(fmt.Sprintf("the timer for %v fires at %v", time.Duration(t.Arg), now))
	}
	r.fired = append(r.fired, time.Duration(t.Arg))
}

func (r *setReplica) Pending() int { return len(r.waiting) }
func (r *setReplica) Readings(dst []protocol.Reading) []protocol.Reading {
	ordered := int64(1)
	for i := 1; i < len(r.fired); i++ {
		if r.fired[i] < r.fired[i-1] {
			ordered = 0
		}
	}
	return append(dst, protocol.Reading{Name: "fired", Value: int64(len(r.fired))}, protocol.Reading{Name: "in_order", Value: ordered})
}

var setEngine = &protocol.Engine{
	Name:    "set",
	Figures: []protocol.Figure{{Name: "fired", Kind: protocol.Counter}, {Name: "in_order", Kind: protocol.Gauge}},
	New:     func(c protocol.Config) protocol.Replica { return &setReplica{Config: c, waiting: map[txn.ID]int{}} },
	Decode: func(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
		if len(body) != 9 {
			return nil, fmt.Errorf("%d bytes, not 9", len(body))
		}
		return setMessage{kind, txn.ID(binary.LittleEndian.Uint64(body)), body[8]}, nil
	},
}

// tenRows is a workload without transactions: it has only a data set.
type tenRows struct {
	workload.Workload
	place     geo.Placement
	misplaced bool // all rows are put into every cell
}

func (w tenRows) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	for i := range uint64(10) {
		if k := txn.IntKey(0, i); w.misplaced || w.place.Cell(k) == c {
			put(k, []byte{byte(c.Partition)})
		}
	}
}
func (tenRows) Name() string                     { return "ten" }
func (tenRows) KeyName(k txn.Key) string         { return k.String() }
func (tenRows) Everywhere(func(txn.Key, []byte)) {}
func (tenRows) Audit(rows workload.Rows) map[string]int64 {
	n := int64(0)
	rows.Each(func(txn.Key, []byte) { n++ })
	return map[string]int64{"rows": n}
}

func parse(spec json.RawMessage, _ uint64, t *geo.Topology) (workload.Workload, error) {
	if !bytes.Contains(spec, []byte("ten")) {
		return nil, errors.New("spec.workload: ten is the only one")
	}
	return tenRows{place: t.Placement(), misplaced: bytes.Contains(spec, []byte("misplaced"))}, nil
}

// If a workload puts a row into the wrong cell, loading it fails. The node then has no data set, even after a restart,
// and can load another data set.
func TestMisplacedRows(t *testing.T) {
	l := startSetWith(t, database("a", "b"), t.TempDir())
	load := func(dataset, spec string) error {
		_, err := l.Load(context.Background(), &admin.LoadRequest{Dataset: dataset, Workload: json.RawMessage(spec)})
		return err
	}
	if err := load("d", `{"ten":{"misplaced":true}}`); err == nil || !strings.Contains(err.Error(), "workload ten: Rows(a/0) put a row of b/0: t0/1") {
		t.Errorf("misplaced rows: error %v", err)
	}
	restart(t, l, 1)
	for i, s := range statuses(t, l) {
		if s.Dataset != "" {
			t.Errorf("node %d has data set %s", i, s.Dataset)
		}
	}
	if err := load("e", `{"ten":{}}`); err != nil {
		t.Error(err)
	}
}

func database(regions ...string) deploy.Database {
	t := geo.Topology{Regions: regions, Partitions: 1, Replicas: 1}
	for range regions {
		t.Links = append(t.Links, make([]geo.Link, len(regions)))
	}
	return deploy.Database{Name: "db", Engine: "set", Topology: t, Seed: 1}
}

func startSet(t testing.TB, db deploy.Database) *Local { return startSetWith(t, db, "") }

func startSetWith(t testing.TB, db deploy.Database, journals string) *Local {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := StartLocal(ctx, db, LocalConfig{Engine: setEngine, Procedures: procedures, ParseWorkload: parse, Journals: journals})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connection is a client of a node.
type connection struct {
	t testing.TB
	*wire.Conn
	outcomes chan txn.Outcome
}

func (c *connection) Receive(payload []byte) error {
	batch, err := wire.ReadOutcomes(payload, nil)
	for _, o := range batch {
		c.outcomes <- o
	}
	return err
}
func (c *connection) Turn() {}

func connect(t testing.TB, l *Local, id geo.NodeID) *connection {
	t.Helper()
	db := l.Database()
	conn, err := wire.Dial(context.Background(), db.Nodes[id].Address, wire.Hello{Database: db.Name, Incarnation: db.Incarnation, Process: "c", To: id}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{t, conn, make(chan txn.Outcome, 10_000)}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); _ = conn.Serve(c) }()
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return c
}

func (c *connection) send(id txn.ID, args ...byte) {
	c.SendTransaction(&txn.Transaction{ID: id, Proc: setProc, Args: args})
	c.Flush()
}

func (c *connection) expect(id txn.ID, s txn.Status, reason string) {
	c.t.Helper()
	select {
	case o := <-c.outcomes:
		if o.ID != id || o.Status != s || o.Reason != reason {
			c.t.Errorf("outcome %+v, want %v %v %q", o, id, s, reason)
		}
	case <-time.After(20 * time.Second):
		c.t.Fatalf("no outcome of %v", id)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !cond(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestTransactions(t *testing.T) {
	l := startSet(t, database("a", "b", "c"))
	c := connect(t, l, 1)
	c.send(1, 'x')
	c.expect(1, txn.Committed, "")
	c.send(2)
	c.send(2)
	c.expect(2, txn.Refused, "duplicate-id")
	c.send(3, 'x', 'y')
	c.expect(3, txn.Refused, "invalid-transaction")
	l.Node(1).box.post(func() { l.Node(1).cfg.MaxInFlight = 1 }) // transaction 2 is still in flight
	c.send(4, 'x')
	c.expect(4, txn.Refused, "overloaded")
	// A client that disconnects with transactions in flight does not affect other clients.
	other := connect(t, l, 0)
	for id := txn.ID(10); id < 100; id++ {
		other.send(id, 'z')
	}
	other.Close()
	again := connect(t, l, 0)
	again.send(5, 'w')
	again.expect(5, txn.Committed, "")
	eventually(t, "three timers fire, in order", func() bool {
		s, err := l.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range s {
			if s.Counters["fired"] != 3 || s.Gauges["in_order"] != 1 {
				return false
			}
		}
		return true
	})
}

func TestNotReadyAndBroken(t *testing.T) {
	db := database("a", "b")
	l := startSet(t, db)
	c := connect(t, l, 0)
	c.send(1) // in flight forever
	eventually(t, "transaction 1 is under way", func() bool {
		s, err := l.Node(0).Status(context.Background())
		return err == nil && s.Pending == 1
	})
	l.Node(0).breakDown("a test")
	c.expect(1, txn.Unknown, "database-broken")
	c.send(2, 'x')
	c.expect(2, txn.Refused, "database-broken")
	s, err := l.Node(0).Status(context.Background())
	if err != nil || !s.Broken {
		t.Errorf("%+v, %v", s, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	bad := database("a")
	bad.Parameters = map[string]string{"x": "y"}
	if _, err := StartLocal(ctx, bad, LocalConfig{Engine: setEngine, Procedures: procedures}); err == nil || !strings.Contains(err.Error(), "parameters.x: engine set has no such parameter") {
		t.Errorf("an unknown parameter: %v", err)
	}
}

func TestAdministration(t *testing.T) {
	l := startSet(t, database("a", "b"))
	n := l.Node(0)
	administration, public := admin.NewHandler(n), n.public()
	get := func(method, path, body string) (int, string) {
		t.Helper()
		h := administration
		if slices.Contains([]string{"/healthz", "/readyz", "/metrics"}, path) {
			h = public
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	const labels = `{database="db",engine="set",node="a/0/0",region="a"`
	eventually(t, "a round trip is measured", func() bool { return l.Node(0).endpoint.RoundTrips(1).TotalCount() > 0 })
	for _, tc := range []struct {
		method, path, body string
		code               int
		want               []string
	}{
		{"GET", "/healthz", "", 200, nil},
		{"GET", "/readyz", "", 200, nil},
		{"GET", "/audit", "", 409, []string{"nothing was loaded yet"}},
		{"POST", "/load", `{"dataset":"d","workload":{"five":{}}}`, 400, []string{"ten is the only one"}},
		{"POST", "/load", `{"workload":{"ten":{}}}`, 400, []string{"dataset"}},
		{"POST", "/load", `{"dataset":"d","workload":{"ten":{}}}`, 200, []string{`"rows":10`, `"bytes":100`}},
		{"POST", "/load", `{"dataset":"d","workload":{"ten":{}}}`, 200, []string{`"rows":10`}},
		{"GET", "/audit", "", 200, []string{`"sums":{"rows":10}`, `"rows":10`}},
		{"GET", "/status", "", 200, []string{`"node":"a/0/0"`, `"ready":true`, `"dataset":"d"`, `"rows":10`, `"to":"b"`, `"rtt":"`, `"operations":10`}},
		{"GET", "/metrics", "", 200, []string{
			`geobench_node_ready` + labels + `} 1`,
			`geobench_node_store_rows` + labels + `} 10`,
			`geobench_network_sent_bytes_total` + labels + `,to="b"}`,
			`geobench_network_declared_rtt_seconds` + labels + `,to="b"} 0`,
			`geobench_network_median_rtt_seconds` + labels + `,to="b"}`,
			`geobench_engine_events_total{database="db",engine="set",event="fired",`,
			`geobench_engine_state{database="db",engine="set",figure="in_order",`,
			"go_goroutines", "process_cpu_seconds_total",
		}},
	} {
		code, body := get(tc.method, tc.path, tc.body)
		if code != tc.code {
			t.Errorf("%s %s %s: %d %s, want %d", tc.method, tc.path, tc.body, code, body, tc.code)
		}
		for _, w := range tc.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s %s: %s does not contain %s", tc.method, tc.path, body, w)
			}
		}
	}
	c := connect(t, l, 0)
	c.send(1) // in flight forever
	eventually(t, "transaction 1 is under way", func() bool {
		s, err := l.Node(0).Status(context.Background())
		return err == nil && s.Pending == 1
	})
	if code, body := get("GET", "/audit", ""); code != 409 || !strings.Contains(body, "1 transactions are pending") {
		t.Errorf("audit while busy: %d %s", code, body)
	}
	if _, err := l.Load(context.Background(), &admin.LoadRequest{Dataset: "e", Workload: json.RawMessage(`{"ten":{}}`)}); !errors.Is(err, admin.ErrBusy) {
		t.Errorf("load while busy: %v", err)
	}
}

func TestHealth(t *testing.T) {
	l := startSet(t, database("a"))
	n := l.Node(0)
	block, running := make(chan struct{}), make(chan struct{})
	n.box.post(func() { close(running); <-block })
	<-running
	n.asked.Store(int64(wire.Now() - 2*stuck))
	if err := n.Healthy(); err == nil || !strings.Contains(err.Error(), "has not turned for 1m") {
		t.Errorf("a stuck loop: %v", err)
	}
	close(block)
	n.box.post(func() {})
	eventually(t, "the loop gives a sign of life", func() bool { return n.Healthy() == nil })
}

// manyRows is a data set with the given number of rows. afterwards is called after the last row, while the load is
// still running.
type manyRows struct {
	tenRows
	rows       int
	afterwards func()
}

func (w manyRows) Rows(_ geo.Cell, put func(txn.Key, []byte)) {
	for i := range w.rows {
		put(txn.IntKey(0, uint64(i)), nil)
	}
	w.afterwards()
}

// Loading a large data set takes longer than the time after which the loop counts as stuck. Rows count as signs of
// life, so that the node is not killed during the load.
func TestANodeThatLoadsIsHealthy(t *testing.T) {
	for rows, want := range map[int]string{rowsPerSign - 1: "has not turned for 1m", rowsPerSign: ""} {
		l := startSet(t, database("a"))
		n := l.Node(0)
		said := errors.New("nothing")
		w := manyRows{tenRows{place: n.topology.Placement()}, rows, func() { said = n.Healthy() }}
		if err := n.call(t.Context(), func() {
			n.asked.Store(int64(wire.Now() - 2*stuck))
			if err := n.loop.fill(&admin.LoadRequest{Dataset: "d"}, w, n.loop.rows(w), n.checkMemory); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if want == "" && said != nil || want != "" && (said == nil || !strings.Contains(said.Error(), want)) {
			t.Errorf("after %d rows: %v, want %q", rows, said, want)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	l := startSet(t, database("a", "b", "c"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	if _, err := l.Status(context.Background()); !errors.Is(err, errStopped) {
		t.Errorf("status of a stopped node: %v", err)
	}
}

func TestMailbox(t *testing.T) {
	var b mailbox
	b.init()
	put := make(chan struct{})
	go func() {
		b.put(make([]item, full))
		close(put)
	}()
	<-b.wake
	if items, closed := b.take(nil); len(items) != full || closed {
		t.Errorf("%d items, closed %v", len(items), closed)
	}
	<-put // room is available again
	go func() { b.put(make([]item, full)); b.close() }()
	eventually(t, "someone waits", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.waiting == 1 })
	b.close()
	if _, closed := b.take(nil); !closed {
		t.Error("not closed")
	}
}

func TestParseMemory(t *testing.T) {
	now, peak := parseMemory([]byte("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n"))
	if now != 1<<20 || peak != 2<<20 {
		t.Errorf("%d, %d", now, peak)
	}
}

// BenchmarkRoundTrip measures the latency of a single transaction at a time: from the client to a node, to the other
// node and back.
func BenchmarkRoundTrip(b *testing.B) {
	l := startSet(b, database("a", "b"))
	c := connect(b, l, 0)
	b.ResetTimer()
	for i := range b.N {
		c.send(txn.ID(i+1), 'x')
		<-c.outcomes
	}
}

// BenchmarkLoop measures 1,000 concurrent transactions on nodes with and without a journal.
func BenchmarkLoop(b *testing.B) {
	b.Run("None", func(b *testing.B) { benchmarkLoop(b, startSet(b, database("a", "b"))) })
	b.Run("Journal", func(b *testing.B) { benchmarkLoop(b, startSetWith(b, database("a", "b"), b.TempDir())) })
}

func benchmarkLoop(b *testing.B, l *Local) {
	c := connect(b, l, 0)
	before := late.CPUTime()
	b.ReportAllocs()
	b.ResetTimer()
	sent, got := 0, 0
	for got < b.N {
		for sent < b.N && sent-got < 1000 {
			sent++
			c.SendTransaction(&txn.Transaction{ID: txn.ID(sent), Proc: setProc, Args: []byte{1}})
		}
		c.Flush()
		<-c.outcomes
		for got++; len(c.outcomes) > 0; got++ {
			<-c.outcomes
		}
	}
	b.ReportMetric(float64((late.CPUTime()-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/txn")
}

// A failed start closes the logs that it has opened. Otherwise their locks would block a later start.
func TestFailedStartLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	start := func() (*Local, error) {
		return StartLocal(t.Context(), database("a", "b"), LocalConfig{Engine: setEngine, Procedures: procedures, ParseWorkload: parse, Journals: folder})
	}
	inTheWay := filepath.Join(folder, "1")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(); err == nil || !strings.Contains(err.Error(), inTheWay) {
		t.Fatalf("%v, want an error about %s", err, inTheWay)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	l, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Once a run has loaded its data, the nodes' random numbers depend on the seed of the run. They no longer depend on the
// seed with which the nodes started.
func TestChanceFollowsFromTheSeedOfTheRun(t *testing.T) {
	draws := func(started, run uint64) (out []uint64) {
		db := database("a", "b")
		db.Seed = started
		l := startSet(t, db)
		if _, err := l.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"ten":{}}`), Seed: run}); err != nil {
			t.Fatal(err)
		}
		for i := range geo.NodeID(2) {
			n := l.Node(i)
			if err := n.call(t.Context(), func() { out = append(out, n.loop.Rand().Uint64()) }); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	first := draws(1, 7)
	if again := draws(2, 7); !slices.Equal(again, first) || first[0] == first[1] {
		t.Errorf("%v, then %v: want the same, and each node its own", first, again)
	}
	if other := draws(1, 8); slices.Equal(other, first) {
		t.Errorf("%v with both seeds", other)
	}
}

// A data set that the API does not allow is rejected before any row is created, because its rows would exhaust the
// nodes' memory.
func TestLoadBeyondTheAPI(t *testing.T) {
	l, err := StartLocal(t.Context(), database("a"), LocalConfig{Engine: setEngine, Procedures: procedures, ParseWorkload: manifest.ParseWorkload})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it holds nothing
	for spec, says := range map[string]string{
		`{"rmw": {"records": 2000000000, "valueBytes": 2000000000}}`: "spec.workload.rmw.valueBytes: 2000000000: must be less than or equal to 65536",
		`{"smallbank": {"customers": 1000000000000}}`:                "spec.workload.smallbank.customers: 1000000000000: must be less than or equal to 100000000",
	} {
		w := httptest.NewRecorder()
		body := strings.NewReader(`{"dataset": "large", "seed": 1, "workload": ` + spec + `}`)
		admin.NewHandler(l.Node(0)).ServeHTTP(w, httptest.NewRequest("POST", "/load", body))
		if text := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d, %s; want %q", spec, w.Code, text, says)
		}
		if s, err := l.Node(0).Status(t.Context()); err != nil || s.Dataset != "" || s.Rows != 0 {
			t.Errorf("%s: the node holds %d rows of data set %q, %v", spec, s.Rows, s.Dataset, err)
		}
	}
}

// A data set that fills a node's memory is rejected. The error states the number of rows created by then, and the node
// continues without a data set.
func TestDataSetFillsTheMemory(t *testing.T) {
	const limit = 1000 << 20
	for name, tt := range map[string]struct {
		live  []uint64 // consecutive values of live, the last of which is repeated
		limit uint64
		want  string
	}{
		"fits":          {[]uint64{700 << 20}, limit, ""},
		"does not fit":  {[]uint64{750 << 20}, limit, "spec.workload: 65536 rows fill 750 of the 1000 MiB"},
		"garbage":       {[]uint64{900 << 20, 100 << 20}, limit, ""},
		"without bound": {[]uint64{1 << 40}, 0, ""},
	} {
		l := startSet(t, database("a"))
		n := l.Node(0)
		n.cfg.Memory = func() (uint64, uint64) {
			live := tt.live[0]
			tt.live = tt.live[min(1, len(tt.live)-1):]
			return live, tt.limit
		}
		w := manyRows{tenRows{place: n.topology.Placement()}, 2 * rowsPerSign, func() {}}
		var err error
		if callErr := n.call(t.Context(), func() { err = n.loop.fill(&admin.LoadRequest{Dataset: "d"}, w, n.loop.rows(w), n.checkMemory) }); callErr != nil {
			t.Fatal(callErr)
		}
		var refused *admin.BadRequest
		if tt.want == "" && (err != nil || n.loop.store.Len() != 2*rowsPerSign) ||
			tt.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) || n.loop.store.Len() != 0 || n.loop.dataset != "") {
			t.Errorf("%s: %v, and %d rows", name, err, n.loop.store.Len())
		}
	}
}
