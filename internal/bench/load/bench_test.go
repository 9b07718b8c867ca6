package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

var result8 = make([]byte, 8)

// lookupResult returns the customer ID in the argument for a lookup, and 8 bytes for everything else.
func lookupResult(t *txn.Transaction) []byte {
	if t.Proc != 1 {
		return result8
	}
	n := uint64(0)
	for _, c := range t.Args[len("Client"):] {
		if c == ' ' {
			break
		}
		n = 10*n + uint64(c-'0')
	}
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), n)
}

func twoRegions(partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b"}, Partitions: partitions, Replicas: 1, Links: make([][]geo.Link, 2)}
}

func smallBank(tb testing.TB, t *geo.Topology) workload.Workload {
	tb.Helper()
	w, err := catalog.New(v1alpha1.Workload{SmallBank: &v1alpha1.SmallBank{
		Customers: 100_000, MultiHomePercent: 25, MultiPartitionPercent: 25,
		Mix: v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5},
	}}, 1, t)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// BenchmarkWorker measures the cost of a transaction for a worker: generation, submission to a target that answers
// immediately, and recording. It reports transactions per second and per second of CPU time, with one shard and with
// two.
func BenchmarkWorker(b *testing.B) {
	for _, shards := range []int{1, 2} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			t := twoRegions(2)
			var committed int64
			var cpu time.Duration
			n := 0
			for b.Loop() {
				w, err := NewWorker(WorkerConfig{
					Workload: smallBank(b, t), Topology: t, Seed: 1, Shards: shards,
					Load: v1alpha1.Load{
						ClientsPerRegion: 1000, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
						RequestTimeout: v1alpha1.DurationOf(30 * time.Second),
						Duration:       v1alpha1.DurationOf(2 * time.Second),
					},
				})
				if err != nil {
					b.Fatal(err)
				}
				before := late.CPUTime()
				r, err := runOn(context.Background(), w, target.NewNoop(lookupResult), time.Now())
				if err != nil {
					b.Fatal(err)
				}
				cpu += late.CPUTime() - before
				for _, s := range r.Series {
					committed += s.Latency.Count
				}
				n++
			}
			b.ReportMetric(float64(committed)/cpu.Seconds(), "txn/cpu-s")
			b.ReportMetric(float64(committed)/float64(2*n), "txn/s")
		})
	}
}
