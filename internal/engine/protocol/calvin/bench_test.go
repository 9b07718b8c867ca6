package calvin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// The benchmark's transaction reads and overwrites records of 100 bytes.
const (
	benchRows  = 100_000
	benchValue = 100
)

var benchProcs = txn.NewRegistry(&txn.Procedure{
	ID: 1, Name: "overwrite",
	Declare: func(args []byte, f *txn.Footprint) error {
		if len(args) == 0 || len(args) < 1+8*int(args[0]) {
			return errors.New("the arguments are too short")
		}
		n := int(args[0])
		keys := make([]byte, 0, 9*n)
		for i := range n {
			keys = append(append(keys, 0), args[1+8*i:9+8*i]...)
		}
		all := txn.Key(keys)
		for i := range n {
			f.Accesses = append(f.Accesses, txn.Access{Key: all[9*i : 9*i+9], Mode: txn.ReadWrite})
		}
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		n := int(args[0])
		size := (len(args) - 1 - 8*n) / max(n, 1)
		for i := range n {
			var b [9]byte
			copy(b[1:], args[1+8*i:])
			k := txn.Key(b[:])
			if _, err := c.Get(k); err != nil {
				return nil, txn.Abort("missing")
			}
			from := 1 + 8*n + size*i
			c.Put(k, args[from:from+size:from+size])
		}
		return nil, nil
	},
})

func benchTxns(n, keys, value int) []*txn.Transaction {
	r := rand.New(rand.NewPCG(1, 1))
	var out []*txn.Transaction
	for i := range n {
		args := []byte{byte(keys)}
		for j := range keys {
			args = binary.BigEndian.AppendUint64(args, uint64(r.IntN(benchRows/keys)*keys+j))
		}
		args = append(args, make([]byte, keys*value)...)
		t := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1)), Proc: 1, Args: args}
		if err := benchProcs.Prepare(t); err != nil {
			panic(err)
		}
		out = append(out, t)
	}
	return out
}

// benchEnv is an environment without a network: it collects the node's messages for the benchmark.
type benchEnv struct {
	sent    []protocol.Message
	timers  []protocol.Timer
	now     time.Duration
	replies int
	rng     *rand.Rand
}

func (e *benchEnv) Now() time.Duration                      { return e.now }
func (e *benchEnv) Send(_ geo.NodeID, m protocol.Message)   { e.sent = append(e.sent, m) }
func (e *benchEnv) After(_ time.Duration, t protocol.Timer) { e.timers = append(e.timers, t) }
func (e *benchEnv) Offload(func() int64, protocol.Timer)    {}
func (e *benchEnv) Reply(txn.Outcome)                       { e.replies++ }
func (*benchEnv) Mark(*coverage.Mark)                       {}
func (*benchEnv) Buggify(*buggify.Point) bool               { return false }
func (e *benchEnv) Rand() *rand.Rand                        { return e.rng }

func benchNode(self geo.NodeID, partitions int) (*Replica, *benchEnv) {
	l := []geo.Link{{}, {}}
	t := &geo.Topology{Regions: []string{"a", "b"}, Partitions: partitions, Replicas: 1, Links: [][]geo.Link{l, l}}
	env := &benchEnv{rng: rand.New(rand.NewPCG(1, uint64(self)))}
	p, _ := Engine.Resolve(nil)
	st := store.NewHash()
	for i := range uint64(benchRows) {
		if k := txn.IntKey(0, i); t.Placement().Partition(k) == t.PartitionOf(self) {
			st.Put(k, make([]byte, benchValue), 0)
		}
	}
	r := newReplica(protocol.Config{Self: self, Topology: t, Params: p, Procedures: benchProcs, Store: st, Env: env}, false)
	r.Start()
	return r, env
}

// positions returns a message with one log entry: a batch of the sequencer, at position first.
func positions(first uint64, sequencer geo.NodeID, number uint64, readers batchlog.Set) *batchlog.Positions {
	return &batchlog.Positions{Term: 1, First: first, Entries: []batchlog.Ordered{
		{Batch: batchlog.BatchID{Sequencer: sequencer, Number: number}, Readers: readers},
	}}
}

// cpuTime returns the process's CPU time in nanoseconds, including garbage collection. Other load on the machine
// affects it less than wall time.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// measureCPU starts a measurement. The returned function reports the CPU time per operation since then, in nanoseconds.
func measureCPU(b *testing.B) func() {
	start := cpuTime(b)
	return func() { b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkCosts measures sim.DefaultCosts. The cost of a message is measured on a leader that answers order requests.
// The cost of a byte is the difference between transactions with values of different sizes. The remaining cost of a
// transaction is divided by its key operations, two per key. Run it with -benchtime 1000000x on an idle machine.
func BenchmarkCosts(b *testing.B) {
	message := func() float64 {
		r, env := benchNode(0, 1)
		var buf []byte
		start := cpuTime(b)
		for n := range uint64(b.N) {
			env.now += time.Second
			buf = (&batchlog.OrderRequest{Requests: []batchlog.Request{{Number: n + 1, Readers: 1}}}).AppendTo(buf[:0])
			m, err := decode(batchlog.KindOrderRequest, bytes.Clone(buf), benchProcs)
			if err != nil {
				b.Fatal(err)
			}
			r.Receive(1, m)
			for _, m := range env.sent {
				buf = m.AppendTo(buf[:0])
			}
			env.sent = env.sent[:0]
		}
		return float64(cpuTime(b)-start) / float64(b.N) / 2 // each iteration receives one message and sends one
	}()
	const keys, small, large = 10, 1, 1000
	remote := func(value int) float64 {
		var t float64
		benchRemote(b, keys, value, func(cpu float64) { t = cpu })
		return t
	}
	s, l := remote(small), remote(large)
	perByte := (l - s) / (keys * (large - small))
	size := float64(codec.SizeTransaction(benchTxns(1, keys, small)[0]))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(message, "ns/message")
	b.ReportMetric(1000*perByte, "ns/kilobyte")
	b.ReportMetric((s-size*perByte)/(2*keys), "ns/key")
}

// BenchmarkLocal measures a transaction of 10 reads and writes at its client's node, in batches of 100. The node
// accepts, sequences, encodes (for the other region), orders, executes and answers it.
func BenchmarkLocal(b *testing.B) {
	const batch = 100
	txns := benchTxns(10_000, 10, benchValue)
	r, env := benchNode(0, 1)
	var buf []byte
	b.ReportAllocs()
	defer measureCPU(b)()
	for i := 0; i < b.N; {
		for range batch {
			r.Submit(txns[i%len(txns)])
			i++
		}
		env.now += time.Second // so that every batch is ordered immediately
		for _, t := range env.timers {
			r.Fire(t)
		}
		env.timers = env.timers[:0]
		for _, m := range env.sent {
			buf = m.AppendTo(buf[:0])
		}
		env.sent = env.sent[:0]
	}
	b.StopTimer()
	if r.Pending() > batch {
		b.Fatalf("%d transactions are pending", r.Pending())
	}
}

// BenchmarkRemote measures the same transaction in another copy, which decodes and executes it.
func BenchmarkRemote(b *testing.B) {
	b.ReportAllocs()
	benchRemote(b, 10, benchValue, func(cpu float64) { b.ReportMetric(cpu, "cpu-ns/op") })
}

// benchRemote calls report with the CPU time per transaction.
func benchRemote(b *testing.B, keys, value int, report func(cpu float64)) {
	const batch = 100
	txns := benchTxns(10_000, keys, value)
	r, env := benchNode(1, 1)
	var bodies [][]byte
	indexes := make([]uint32, batch)
	for i := range indexes {
		indexes[i] = uint32(i)
	}
	b.ResetTimer()
	var spent int64
	start := cpuTime(b)
	for i, n := 0, uint64(1); i < b.N; n++ {
		if i%len(txns) == 0 {
			b.StopTimer()
			spent += cpuTime(b) - start
			bodies = bodies[:0]
			for j := 0; j < len(txns); j += batch {
				bodies = append(bodies, newSubBatch(n+uint64(j/batch), indexes, txns[j:j+batch]).AppendTo(nil))
			}
			start = cpuTime(b)
			b.StartTimer()
		}
		m, err := decode(kindSubBatch, bodies[i%len(txns)/batch], benchProcs)
		if err != nil {
			b.Fatal(err)
		}
		r.Receive(0, m)
		r.Receive(0, positions(n-1, 0, n, 1))
		env.sent = env.sent[:0]
		i += batch
	}
	b.StopTimer()
	report(float64(spent+cpuTime(b)-start) / float64(b.N))
	if r.Pending() != 0 {
		b.Fatalf("%d transactions are pending", r.Pending())
	}
}

// BenchmarkMultiPartition measures a transaction on two partitions at a node of one of them. The node decodes it, locks
// and reads its rows, exchanges the reads, and executes it.
func BenchmarkMultiPartition(b *testing.B) {
	const batch = 100
	txns := benchTxns(1000, 10, benchValue)
	r, env := benchNode(0, 2)
	peer := &deterministic.Reads{}
	for i := range batch {
		peer.Reads = append(peer.Reads, deterministic.Read{Place: deterministic.Place{Index: uint64(i)}, Values: 5})
		for range 5 {
			peer.Values = append(peer.Values, deterministic.Value{Bytes: make([]byte, benchValue), Found: true})
		}
	}
	indexes := make([]uint32, batch)
	for i := range indexes {
		indexes[i] = uint32(i)
	}
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	defer measureCPU(b)()
	for i, n := 0, uint64(1); i < b.N; n++ {
		at := i % len(txns)
		body := newSubBatch(n, indexes, txns[at:at+batch]).AppendTo(nil)
		for j := range peer.Reads {
			peer.Reads[j].Position = n - 1
		}
		reads := peer.AppendTo(nil)
		m, err := decode(kindSubBatch, body, benchProcs)
		if err != nil {
			b.Fatal(err)
		}
		r.Receive(2, m)
		r.Receive(2, positions(n-1, 2, n, 3))
		if m, err = decode(deterministic.KindReads, reads, benchProcs); err != nil {
			b.Fatal(err)
		}
		r.Receive(1, m)
		for _, m := range env.sent {
			buf = m.AppendTo(buf[:0])
		}
		env.sent = env.sent[:0]
		i += batch
	}
	b.StopTimer()
	if r.Pending() != 0 {
		b.Fatalf("%d transactions are pending", r.Pending())
	}
}

func BenchmarkEncode(b *testing.B) {
	indexes := make([]uint32, 100)
	for i := range indexes {
		indexes[i] = uint32(i)
	}
	m := newSubBatch(1, indexes, benchTxns(100, 10, benchValue))
	var buf []byte
	b.ReportAllocs()
	for range b.N / 100 {
		buf = m.AppendTo(buf[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	indexes := make([]uint32, 100)
	for i := range indexes {
		indexes[i] = uint32(i)
	}
	body := newSubBatch(1, indexes, benchTxns(100, 10, benchValue)).AppendTo(nil)
	b.ReportAllocs()
	for range b.N / 100 {
		if _, err := decode(kindSubBatch, body, benchProcs); err != nil {
			b.Fatal(err)
		}
	}
}
