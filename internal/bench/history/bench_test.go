package history

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// generate makes a history of n transactions that took effect one after another. Think times and answer times are such
// that the transactions of a client overlap all other clients' transactions. Each transaction has about 4 operations:
// reads, or a read and a write of the same row, with equal probability. Half of the operations are on a tenth of the
// keys. For unknownPercent of the transactions, only the ID is recorded.
func generate(seed uint64, n, clients, rows int, unknownPercent int, add func(region int, t *Txn)) {
	r := rand.New(rand.NewPCG(seed, 7))
	last := make([]txn.ID, rows)
	nth := make([]uint8, rows)
	free := make([]time.Duration, clients) // time at which each client may send again
	now := time.Duration(0)
	var ops []Op
	key := make([]txn.Key, rows)
	for i := range key {
		key[i] = txn.IntKey(1, uint64(i))
	}
	for i := range n {
		now += time.Duration(1 + r.Int64N(100_000))
		c := r.IntN(clients)
		for free[c] > now {
			now += time.Duration(1 + r.Int64N(1000))
		}
		id := txn.MakeID(uint32(c+1), uint64(i+1))
		ops = ops[:0]
		writes := 0
		for len(ops) < 4 {
			k := r.IntN(rows)
			if r.IntN(2) == 0 {
				k = r.IntN(1 + rows/10)
			}
			used := false
			for _, o := range ops {
				used = used || o.Key == key[k]
			}
			if used {
				continue
			}
			ops = append(ops, Op{Key: key[k], Version: last[k], Known: true, Nth: nth[k]})
			if r.IntN(2) == 0 {
				ops = append(ops, Op{Kind: Write, Key: key[k], Version: last[k], Known: true, Nth: 1})
				last[k], nth[k] = id, 1
				writes++
			}
		}
		t := Txn{ID: id, Client: uint32(c), Invoked: max(free[c], now-time.Duration(r.Int64N(20_000_000))), Status: txn.Committed, Ops: ops}
		t.Answered = now + time.Duration(r.Int64N(20_000_000))
		free[c] = t.Answered + 1
		if r.IntN(100) < unknownPercent {
			t.Status, t.Ops = txn.Unknown, nil
		}
		add(c%8, &t)
	}
}

// generateScans adds orders in districts to the history of generate. scanPercent of the transactions scan a district
// from its 20th-last order to the end. A fifth add an order, and a twentieth complete the oldest open order, which
// deletes it. Each district is loaded with five orders.
func generateScans(seed uint64, n, clients, districts, scanPercent int, add func(region int, t *Txn)) {
	type order struct {
		version txn.ID
		nth     uint8
		gone    bool
	}
	r := rand.New(rand.NewPCG(seed, 11))
	orders := make([][]order, districts)
	for d := range orders {
		orders[d] = make([]order, 5)
	}
	open := make([]int, districts)
	key := func(d, o int) txn.Key {
		return txn.CompositeKey(2, uint64(d), binary.BigEndian.AppendUint32(nil, uint32(o)))
	}
	generate(seed, n, clients, n, 0, func(region int, t *Txn) {
		d := r.IntN(districts)
		switch turn := r.IntN(100); {
		case turn < scanPercent:
			from := max(0, len(orders[d])-20)
			for o, x := range orders[d][from:] {
				t.Ops = append(t.Ops, Op{Key: key(d, from+o), Version: x.version, Known: true, Nth: x.nth, Gone: x.gone})
			}
			t.Ops = append(t.Ops, Op{Kind: Scan, Key: key(d, from), To: key(d+1, 0)})
		case turn < scanPercent+20:
			k := key(d, len(orders[d]))
			t.Ops = append(t.Ops, Op{Key: k, Known: true, Gone: true}, Op{Kind: Write, Key: k, Known: true, Nth: 1})
			orders[d] = append(orders[d], order{version: t.ID, nth: 1})
		case turn < scanPercent+25 && open[d] < len(orders[d]):
			k, x := key(d, open[d]), &orders[d][open[d]]
			t.Ops = append(t.Ops, Op{Key: k, Version: x.version, Known: true, Nth: x.nth}, Op{Kind: Write, Key: k, Version: x.version, Known: true, Nth: 1, Gone: true})
			*x = order{t.ID, 1, true}
			open[d]++
		}
		add(region, t)
	})
}

func regions(h *History) {
	for _, name := range []string{"us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-2", "ap-south-1", "sa-east-1"} {
		h.Region(name)
	}
}

// BenchmarkCheck checks a million transactions of 5 to 6 operations. The peak is the memory that the process obtained
// from the system.
func BenchmarkCheck(b *testing.B) {
	for _, level := range []isolation.Level{isolation.SnapshotIsolation, isolation.StrongSnapshotIsolation, isolation.Serializable, isolation.StrictSerializable} {
		b.Run(level.String(), func(b *testing.B) {
			h := &History{}
			regions(h)
			generate(1, 1_000_000, 20_000, 1_000_000, 0, h.Add)
			b.ResetTimer()
			for b.Loop() {
				if v := Check(h, level); !v.Passed {
					b.Fatal(v.Explanation)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(h.Ops())/float64(h.Len()), "ops/txn")
			b.ReportMetric(peakMB(), "peak-MB")
		})
	}
}

// BenchmarkCheckScans checks a million transactions. A tenth of them scan 20 rows and the range of all rows that do not
// exist yet.
func BenchmarkCheckScans(b *testing.B) {
	for _, districts := range []int{10, 1000} {
		for _, level := range []isolation.Level{isolation.StrongSnapshotIsolation, isolation.StrictSerializable} {
			b.Run(fmt.Sprintf("districts=%d/%v", districts, level), func(b *testing.B) {
				h := &History{}
				regions(h)
				generateScans(1, 1_000_000, 20_000, districts, 10, h.Add)
				b.ResetTimer()
				for b.Loop() {
					v := Check(h, level)
					if !v.Passed {
						b.Fatal(v.Explanation)
					}
					b.ReportMetric(float64(v.Stats.Edges[PredicateRW])/1e6, "scan-edges/txn")
				}
				b.StopTimer()
				b.ReportMetric(float64(h.Ops())/float64(h.Len()), "ops/txn")
				b.ReportMetric(peakMB(), "peak-MB")
			})
		}
	}
}

// BenchmarkCheckBroken adds a thousand reads that are stale by one version.
func BenchmarkCheckBroken(b *testing.B) {
	h := &History{}
	regions(h)
	generate(1, 1_000_000, 20_000, 1_000_000, 0, h.Add)
	r := rand.New(rand.NewPCG(1, 1))
	for n := 0; n < 1000; {
		i := r.IntN(len(h.ops))
		o := &h.ops[i]
		if o.write() || o.version == Initial || i+1 < len(h.ops) && h.ops[i+1].key == o.key {
			continue
		}
		for j := range h.ops[:i] {
			if h.ops[j].key == o.key && h.ops[j].write() {
				o.version, o.nth = h.ops[j].version, 0
				n++
				break
			}
		}
	}
	for b.Loop() {
		v := Check(h, isolation.StrictSerializable)
		if v.Passed {
			b.Fatal("it passed")
		}
		b.Logf("%d in cycles, shortest %v\n%s", v.Stats.Cyclic, v.Stats.Shortest, v.Explanation)
	}
	b.ReportMetric(peakMB(), "peak-MB")
}

// peakMB returns the peak memory that Go has obtained from the system, including the history and memory that it has
// returned since.
func peakMB() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys) / 1e6
}

// BenchmarkFile writes and reads a history file.
func BenchmarkFile(b *testing.B) {
	const n = 100_000
	var file bytes.Buffer
	write := func() {
		file.Reset()
		w := NewWriter(&file, Header{Region: "us-east-1"})
		generate(1, n, 1000, 100_000, 0, func(_ int, t *Txn) { w.Add(t) })
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			write()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/txn")
		b.ReportMetric(float64(file.Len())/n, "B/txn")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			h := &History{}
			if err := h.ReadFile(bytes.NewReader(file.Bytes()), anySize); err != nil || h.Len() != n {
				b.Fatal(h.Len(), err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/txn")
	})
}
