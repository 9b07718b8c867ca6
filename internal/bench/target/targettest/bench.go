package targettest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// Median returns the median of x. If len(x) is even, it is the upper of the two middle values.
func Median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// CPU returns the CPU time of this process or of its terminated children. who selects between them, as in getrusage(2).
func CPU(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FormClients is the number of clients in CompareForms. Each client has its own connection.
const FormClients = 8

// FormPlan returns a plan of TPC-C with two warehouses of full size.
func FormPlan(b *testing.B) *plan.Plan {
	b.Helper()
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	var spec v1alpha1.Workload
	if err := json.Unmarshal([]byte(`{"tpcc": {"warehousesPerPartition": 2, "rowsPercent": 100, "byLastNamePercent": 60, "rollbackPercent": 1, "warehouses": "Own", "districts": "Any",
		"remote": {"orderLinePercent": 1, "paymentPercent": 15}, "mix": {"newOrder": 45, "payment": 43, "orderStatus": 4, "delivery": 4, "stockLevel": 4}}}`), &spec); err != nil {
		b.Fatal(err)
	}
	w, err := catalog.New(spec, 1, &topology)
	if err != nil {
		b.Fatal(err)
	}
	return &plan.Plan{Topology: topology, Workload: w}
}

// TerminalPlan returns a plan of FormPlan's TPC-C with the given number of clients. The clients have the keying and
// think times of the specification's terminals (5.2.5.7), from the first transaction on.
func TerminalPlan(b *testing.B, engine string, terminals int, lasts time.Duration) *plan.Plan {
	b.Helper()
	documents, problems := manifest.Split("terminals", fmt.Appendf(nil, `apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: terminals}
spec:
  databaseRef: {name: %s}
  workload:
    tpcc:
      warehousesPerPartition: 2
      remote: {orderLinePercent: 1, paymentPercent: 15}
      mix: {newOrder: 45, payment: 43, orderStatus: 4, delivery: 4, stockLevel: 4}
      keyingAndThinkTimePercent: 100
  load: {clientsPerRegion: %d, warmup: 0s, duration: %s}
`, engine, terminals, lasts))
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	bundle, problems := manifest.Build(documents)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	p, err := inprocess.PlanOn(bundle.Runs[0], engine, isolation.ReadCommitted, geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// MeasureClient runs a plan on a database. It returns the result and this process's CPU time in microseconds per
// committed transaction, from the start of the load to its end. It calls begun at the start of the load.
func MeasureClient(b *testing.B, p *plan.Plan, db sqltarget.Database, begun func()) (d *result.Document, us float64) {
	b.Helper()
	var before, after time.Duration
	d, err := inprocess.On(b.Context(), p, db, func(at inprocess.Progress) {
		// Regions is nil until the load starts, so the loading of rows does not count.
		if at.Regions == nil {
			return
		}
		if after = CPU(b, syscall.RUSAGE_SELF); before == 0 {
			before = after
			begun()
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return d, float64((after - before).Microseconds()) / float64(d.Summary.Committed)
}

// CompareForms loads TPC-C into each of the named databases. In each of five rounds, it runs the clients of the
// databases one after another. It reports the medians of client CPU time and throughput.
func CompareForms(b *testing.B, p *plan.Plan, dbs map[string]sqltarget.Database) {
	b.Helper()
	const rounds, lasts = 5, 4 * time.Second
	type side struct {
		name      string
		us, rates []float64
	}
	var sides []*side
	for _, name := range slices.Sorted(maps.Keys(dbs)) {
		began := time.Now()
		if err := dbs[name].Load(b.Context(), target.Dataset{Workload: p.Workload}); err != nil {
			b.Fatal(err)
		}
		b.Logf("%s: loaded in %v", name, time.Since(began).Round(100*time.Millisecond))
		sides = append(sides, &side{name: name})
	}
	// Alternate between the databases, so that a slow phase of the machine affects all of them.
	for round := range rounds {
		line := fmt.Sprintf("round %d:", round)
		for _, x := range sides {
			us, rate, _ := DriveWorkload(b, dbs[x.name], p, uint32(round+1), lasts)
			x.us, x.rates = append(x.us, us), append(x.rates, rate)
			line += fmt.Sprintf(" %s %.0f us, %.0f txn/s;", x.name, us, rate)
		}
		b.Log(line)
	}
	for _, x := range sides {
		b.ReportMetric(Median(x.us), x.name+"-us/txn")
		b.ReportMetric(Median(x.rates), x.name+"-txn/s")
	}
	b.ReportMetric(0, "ns/op")
}

// DriveWorkload makes each client run transactions back to back. us is this process's CPU time in microseconds per
// committed transaction. rate is the number of committed transactions per second. tpmC is the number of committed
// transactions of the first type (TPC-C's new orders) per minute.
func DriveWorkload(b *testing.B, db sqltarget.Database, p *plan.Plan, stream uint32, lasts time.Duration) (us, rate, tpmC float64) {
	b.Helper()
	done := make(chan txn.Outcome, FormClients)
	session, err := db.Clients(0).Open(context.Background(), func(outcomes []txn.Outcome) {
		for _, o := range outcomes {
			done <- o
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	generator := p.Workload.NewGenerator(workload.GeneratorConfig{Clients: FormClients, RegionClients: FormClients, Stream: stream, Measured: lasts})
	client := map[txn.ID]int{}
	submitted := uint64(0)
	var types [FormClients]uint8
	submit := func(c int) {
		submitted++
		x := &txn.Transaction{ID: txn.MakeID(stream, submitted)}
		types[c] = generator.Next(c, 0, x).Type
		client[x.ID] = c
		session.Submit(x)
		session.Flush()
	}
	committed, orders := 0, 0
	finish := func(o txn.Outcome) int {
		c := client[o.ID]
		delete(client, o.ID)
		generator.Done(c, o)
		if o.Status == txn.Committed {
			committed++
			if types[c] == 0 {
				orders++
			}
		}
		return c
	}
	before, begin := CPU(b, syscall.RUSAGE_SELF), time.Now()
	for c := range FormClients {
		submit(c)
	}
	for time.Since(begin) < lasts {
		submit(finish(<-done))
	}
	for len(client) > 0 {
		finish(<-done)
	}
	took, elapsed := CPU(b, syscall.RUSAGE_SELF)-before, time.Since(begin)
	if err := session.Close(); err != nil {
		b.Fatal(err)
	}
	if float64(committed) < 0.8*float64(submitted) {
		b.Fatalf("%d of %d committed", committed, submitted)
	}
	return float64(took.Microseconds()) / float64(committed), float64(committed) / elapsed.Seconds(), float64(orders) / elapsed.Minutes()
}
