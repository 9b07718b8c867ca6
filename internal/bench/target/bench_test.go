package target_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/run/node"
)

const rmwSpec = `{"rmw":{"records":100000,"recordsPerTransaction":10,"writesPerTransaction":10,"valueBytes":100}}`

// twoRegions is a database of two regions with one partition each.
func twoRegions(rtt time.Duration, emulate bool) deploy.Database {
	local, wan := geo.Link{Delay: 200 * time.Microsecond}, geo.Link{Delay: rtt / 2}
	return deploy.Database{
		Name: "db", Engine: "calvin", Seed: 1, Emulate: emulate,
		Topology: geo.Topology{
			Regions: []string{"west", "east"}, Partitions: 1, Replicas: 1,
			Links: [][]geo.Link{{local, wan}, {wan, local}},
		},
	}
}

func startLocal(t testing.TB, db deploy.Database) *node.Local {
	t.Helper()
	engine, ok := engines.Lookup(db.Engine)
	if !ok {
		t.Fatalf("no engine %s", db.Engine)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	local, err := node.StartLocal(ctx, db, node.LocalConfig{Engine: engine, Procedures: catalog.Procedures(), ParseWorkload: catalog.Parse})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := local.Load(ctx, &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(rmwSpec), Seed: 1}); err != nil {
		t.Fatal(err)
	}
	return local
}

// closedLoop simulates clients that each send their next transaction when the previous one is answered.
type closedLoop struct {
	g       workload.Generator
	session target.Session

	mu    sync.Mutex
	inbox []txn.Outcome
	ready chan struct{}

	results  map[txn.Status]int64
	reasons  map[string]int64
	latency  []time.Duration
	started  map[txn.ID]time.Time
	client   map[txn.ID]int
	measured bool
	stream   uint32
	sent     uint64
}

func newClosedLoop(t testing.TB, w workload.Workload, tg target.Target, region geo.Region, clients int) *closedLoop {
	t.Helper()
	c := &closedLoop{
		ready: make(chan struct{}, 1), results: map[txn.Status]int64{}, reasons: map[string]int64{},
		started: map[txn.ID]time.Time{}, client: map[txn.ID]int{},
		stream: uint32(region + 1),
		g:      w.NewGenerator(workload.GeneratorConfig{Region: region, Clients: clients, Stream: uint32(region + 1), Measured: time.Minute}),
	}
	var err error
	if c.session, err = tg.Open(context.Background(), c.put); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *closedLoop) put(o []txn.Outcome) {
	c.mu.Lock()
	c.inbox = append(c.inbox, o...)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// run submits transactions until the budget is used up. It then waits for the transactions in flight.
func (c *closedLoop) run(clients int, budget *atomic.Int64) {
	open := 0
	submit := func(client int) {
		if budget.Add(-1) < 0 {
			return
		}
		t := &txn.Transaction{}
		c.g.Next(client, 0, t)
		c.sent++
		t.ID = txn.MakeID(c.stream, c.sent)
		c.client[t.ID] = client
		if c.measured {
			c.started[t.ID] = time.Now()
		}
		c.session.Submit(t)
		open++
	}
	for i := range clients {
		submit(i)
	}
	c.session.Flush()
	var batch []txn.Outcome
	for open > 0 {
		<-c.ready
		c.mu.Lock()
		batch, c.inbox = c.inbox, batch[:0]
		c.mu.Unlock()
		for _, o := range batch {
			open--
			client, ok := c.client[o.ID]
			if !ok {
				panic("an outcome came twice, or of nothing")
			}
			delete(c.client, o.ID)
			if c.measured {
				c.latency = append(c.latency, time.Since(c.started[o.ID]))
				delete(c.started, o.ID)
			}
			c.results[o.Status]++
			if o.Reason != "" {
				c.reasons[o.Reason]++
			}
			c.g.Done(client, o)
			submit(client)
		}
		c.session.Flush()
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCalvin is the standard benchmark of an engine: 2 regions with 1 partition each, no emulated delay, and 200
// closed-loop clients per region. Transactions read and write 10 rows of 100 bytes. Nodes and clients run in one
// process.
func BenchmarkCalvin(b *testing.B) {
	const clients = 200
	local := startLocal(b, twoRegions(0, false))
	w, err := catalog.Parse(json.RawMessage(rmwSpec), 1, &local.Database().Topology)
	if err != nil {
		b.Fatal(err)
	}
	var loops []*closedLoop
	for r := range geo.Region(2) {
		tg := target.NewNative(local.Database(), r, geo.FirstKey)
		defer tg.Close()
		loops = append(loops, newClosedLoop(b, w, tg, r, clients))
	}
	var budget atomic.Int64
	budget.Store(int64(b.N))
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, c := range loops {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.run(clients, &budget)
		}()
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/txn")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "txn/s")
	for _, c := range loops {
		if got := c.results[txn.Committed]; len(c.results) > 1 || got == 0 && b.N > clients {
			b.Errorf("outcomes %v, reasons %v", c.results, c.reasons)
		}
	}
}
