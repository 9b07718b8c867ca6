package target_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// TestEndToEnd drives Calvin over an emulated network. It checks that every transaction is answered exactly once, that
// the copies agree, and that no state remains.
func TestEndToEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				b := make([]byte, 1<<16)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
				return
			}
			runtime.Gosched()
		}
	})
	const clients, transactions, rtt = 20, 600, 20 * time.Millisecond
	local := startLocal(t, twoRegions(rtt, true))
	w, err := catalog.Parse(json.RawMessage(rmwSpec), 1, &local.Database().Topology)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var loops []*closedLoop
	var targets []*target.Native
	for r := range geo.Region(2) {
		tg := target.NewNative(local.Database(), r, geo.FirstKey)
		c := newClosedLoop(t, w, tg, r, clients)
		c.measured = true
		loops, targets = append(loops, c), append(targets, tg)
		wg.Add(1)
		go func() {
			defer wg.Done()
			var budget atomic.Int64
			budget.Store(transactions)
			c.run(clients, &budget)
		}()
	}
	wg.Wait()
	for r, c := range loops {
		if c.results[txn.Committed] != transactions {
			t.Errorf("region %d: %v, %v; want %d committed", r, c.results, c.reasons, transactions)
		}
		slices.Sort(c.latency)
		// The leader of the log is in the first region, so the other region's transactions take an additional round trip.
		least := time.Duration(r)*rtt + 400*time.Microsecond
		if c.latency[0] < least {
			t.Errorf("region %d: a latency of %v is less than the network's %v", r, c.latency[0], least)
		}
		t.Logf("region %d: latency p50 %v", r, c.latency[len(c.latency)/2])
		if took := targets[r].RoundTrip(); took <= 0 || took > c.latency[len(c.latency)-1] {
			t.Errorf("region %d: a round trip to its nodes takes %v", r, took)
		}
		if i := targets[r].Incidents(); len(i) > 0 {
			t.Errorf("region %d: incidents %v", r, i)
		}
		id := local.Database().Topology.Node(geo.Region(r), 0, 0)
		name := local.Database().Topology.NodeName(id)
		if p := targets[r].Processes(); len(p) != 1 || p[name] != local.Node(id).Process() {
			t.Errorf("region %d: processes %v", r, p)
		}
		if err := targets[r].Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var audits [][]store.ShardSums
	for {
		if audits, err = local.Audit(ctx, nil); !errors.Is(err, admin.ErrBusy) {
			break
		}
		<-time.After(5 * time.Millisecond) // the other region's copy lags behind
	}
	if err != nil {
		t.Fatal(err)
	}
	if a, b := audits[0][1], audits[1][1]; a.Digest != b.Digest || a.Sums["writes"] != 2*transactions*10 {
		t.Errorf("audits %+v and %+v: want equal ones with %d writes", audits[0], audits[1], 2*transactions*10)
	}
}

// collect is a sink that checks that each outcome arrives exactly once.
type collect struct {
	t    testing.TB
	mu   sync.Mutex
	seen map[txn.ID]txn.Outcome
	some chan struct{}
}

func newCollect(t testing.TB) *collect {
	return &collect{t: t, seen: map[txn.ID]txn.Outcome{}, some: make(chan struct{}, 1)}
}

func (c *collect) put(outcomes []txn.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range outcomes {
		if was, ok := c.seen[o.ID]; ok {
			c.t.Errorf("transaction %v has two outcomes, %v and %v", o.ID, was, o)
		}
		c.seen[o.ID] = o
	}
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// await waits for n outcomes and returns all outcomes so far.
func (c *collect) await(n int) map[txn.ID]txn.Outcome {
	c.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		if len(c.seen) >= n {
			defer c.mu.Unlock()
			return c.seen
		}
		c.mu.Unlock()
		select {
		case <-c.some:
		case <-limit:
			c.t.Fatalf("only %d of %d outcomes", len(c.seen), n)
		}
	}
}

func TestLostConnection(t *testing.T) {
	local := startLocal(t, twoRegions(time.Hour, true)) // with this delay, no transaction is ever decided
	w, err := catalog.Parse(json.RawMessage(rmwSpec), 1, &local.Database().Topology)
	if err != nil {
		t.Fatal(err)
	}
	tg := target.NewNative(local.Database(), 1, geo.FirstKey)
	defer tg.Close()
	c := newCollect(t)
	s, err := tg.Open(context.Background(), c.put)
	if err != nil {
		t.Fatal(err)
	}
	l := newClosedLoop(t, w, tg, 1, 10) // only its generator is used
	submit := func(n uint64) {
		x := &txn.Transaction{}
		l.g.Next(int(n)%10, 0, x)
		x.ID = txn.MakeID(9, n)
		s.Submit(x)
	}
	for n := range uint64(5) {
		submit(n + 1)
	}
	s.Flush()
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	for id, o := range c.await(5) {
		if o.Status != txn.Unknown || o.Reason != target.ReasonConnectionLost {
			t.Errorf("transaction %v in flight: %+v", id, o)
		}
	}
	submit(6)
	s.Flush()
	if o := c.await(6)[txn.MakeID(9, 6)]; o.Status != txn.Refused || o.Reason != target.ReasonNotConnected {
		t.Errorf("a transaction without a connection: %+v", o)
	}
	submit(7)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(c.await(7)); got != 7 {
		t.Errorf("%d outcomes, want 7", got)
	}
	lost := func(i result.Incident) bool {
		return i.Reason.Reason == result.ReasonConnectionLost && i.Node != "" && strings.Contains(i.Message, "connection lost with 5 transactions in flight")
	}
	if i := tg.Incidents(); !slices.ContainsFunc(i, lost) {
		t.Errorf("incidents %+v", i)
	}
}

var oneRow = txn.Footprint{Accesses: []txn.Access{{Key: txn.IntKey(0, 1), Mode: txn.Read}}}

func TestSessionClosed(t *testing.T) {
	local := startLocal(t, twoRegions(time.Hour, true))
	tg := target.NewNative(local.Database(), 1, geo.FirstKey)
	c := newCollect(t)
	s, err := tg.Open(context.Background(), c.put)
	if err != nil {
		t.Fatal(err)
	}
	s.Submit(&txn.Transaction{ID: 1, Footprint: oneRow, Proc: 60_000})
	s.Flush()
	if o := c.await(1)[1]; o.Status != txn.Refused || o.Reason != "invalid-transaction" {
		t.Errorf("an unknown procedure: %+v", o)
	}
	s.Submit(&txn.Transaction{ID: 2, Footprint: oneRow, Args: make([]byte, 1<<26)})
	s.Flush()
	if o := c.await(2)[2]; o.Status != txn.Refused || o.Reason != target.ReasonTooLarge {
		t.Errorf("a huge transaction: %+v", o)
	}
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	if i := tg.Incidents(); len(i) > 0 {
		t.Errorf("incidents %q", i)
	}
}

func TestOpenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	db := twoRegions(0, false)
	db.Incarnation = "x"
	db.Nodes = []deploy.Node{{Address: dead}, {Address: dead}}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	for region, want := range map[geo.Region]string{
		0: "connecting to the nodes of region west: context deadline exceeded (node west/0/0 at " + dead,
		2: "region 2: the database has regions 0 to 1",
	} {
		if _, err := target.NewNative(&db, region, geo.FirstKey).Open(ctx, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestNoop(t *testing.T) {
	const n = 10_000
	tg := target.NewNoop(func(x *txn.Transaction) []byte { return x.Args })
	defer tg.Close()
	c := newCollect(t)
	s, err := tg.Open(context.Background(), c.put)
	if err != nil {
		t.Fatal(err)
	}
	for k := range txn.ID(n) {
		s.Submit(&txn.Transaction{ID: k, Args: []byte{byte(k)}})
		if k%7 == 0 {
			s.Flush()
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for id, o := range c.await(n) {
		if o.Status != txn.Committed || o.Result[0] != byte(id) {
			t.Fatalf("%+v", o)
		}
	}
}

func BenchmarkNoop(b *testing.B) {
	var got atomic.Int64
	done := make(chan struct{})
	s, err := target.NewNoop(nil).Open(context.Background(), func(o []txn.Outcome) {
		if got.Add(int64(len(o))) == int64(b.N) {
			close(done)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	t := &txn.Transaction{ID: 1}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		s.Submit(t)
		if i%100 == 99 {
			s.Flush()
		}
	}
	s.Flush()
	<-done
	b.StopTimer()
	_ = s.Close()
}
