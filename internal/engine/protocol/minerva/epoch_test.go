package minerva

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/minerva/mwis"
)

// world is an Env of one replica. It records the replica's messages and replies.
type world struct {
	now              time.Duration
	batches          []*Batch
	acknowledgements int
	answers          []txn.Outcome
	sent             []sent
	rare             bool // Buggify points trigger
}

// sent is a message in flight.
type sent struct {
	to geo.NodeID
	m  protocol.Message
}

// take returns the messages sent to a node, and removes all recorded messages of all nodes.
func (w *world) take(to geo.NodeID) (all []protocol.Message) {
	for _, s := range w.sent {
		if s.to == to {
			all = append(all, s.m)
		}
	}
	w.sent = nil
	return all
}

func (w *world) Now() time.Duration                   { return w.now }
func (w *world) After(time.Duration, protocol.Timer)  {}
func (w *world) Offload(func() int64, protocol.Timer) {}
func (w *world) Reply(o txn.Outcome)                  { w.answers = append(w.answers, o) }
func (*world) Mark(*coverage.Mark)                    {}
func (w *world) Buggify(*buggify.Point) bool          { return w.rare }
func (w *world) Rand() *rand.Rand                     { return rand.New(rand.NewPCG(1, 1)) }
func (w *world) Send(to geo.NodeID, m protocol.Message) {
	w.sent = append(w.sent, sent{to, m})
	switch m := m.(type) {
	case *Batch:
		if len(w.batches) == 0 || w.batches[len(w.batches)-1] != m {
			w.batches = append(w.batches, m)
		}
	case *Acknowledgement:
		w.acknowledgements++
	}
}

// ycsb reads and writes rows. Each operation has 9 bytes: the access mode and the row. It does not read the rows that
// it writes.
var ycsb = txn.NewRegistry(&txn.Procedure{
	ID: 1, Name: "ycsb",
	Declare: func(args []byte, f *txn.Footprint) error {
		for ; len(args) > 0; args = args[9:] {
			f.Accesses = append(f.Accesses, txn.Access{Key: simload.Key(binary.BigEndian.Uint64(args[1:])), Mode: txn.Mode(args[0])})
		}
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		for ; len(args) > 0; args = args[9:] {
			k := simload.Key(binary.BigEndian.Uint64(args[1:]))
			if txn.Mode(args[0]) == txn.Write {
				c.Put(k, args[:9])
			} else if _, err := c.Get(k); err != nil {
				return nil, err
			}
		}
		return nil, nil
	},
})

const ycsbRows = 200_000

// ycsbBatches returns the batches that three replicas send for n transactions, which are divided among them. Each
// transaction has 10 operations, half of them writes, on rows drawn from a Zipf distribution with exponent theta.
func ycsbBatches(tb testing.TB, n int, theta float64, rows *store.Hash) (all []*Batch) {
	zipf := workload.NewZipf(theta)
	topology := simload.ThreeRegions(1)
	for self := range geo.NodeID(3) {
		w := &world{}
		r := newReplica(benchConfig(tb, self, topology, rows, w), none)
		random := rand.New(rand.NewPCG(7, uint64(self)))
		for i := range n / 3 {
			tx := &txn.Transaction{ID: txn.MakeID(uint32(self), uint64(i+1)), Proc: 1}
			var used []uint64
			for len(used) < 10 {
				row := zipf.Draw(random, ycsbRows) - 1
				if slices.Contains(used, row) {
					continue
				}
				used = append(used, row)
				tx.Args = binary.BigEndian.AppendUint64(append(tx.Args, byte(1+random.IntN(2))), row)
			}
			if err := ycsb.Prepare(tx); err != nil {
				tb.Fatal(err)
			}
			r.Submit(tx)
		}
		if r.logs.batch != nil {
			r.logs.send()
		}
		all = append(all, w.batches...)
	}
	return all
}

func benchConfig(tb testing.TB, self geo.NodeID, t *geo.Topology, rows *store.Hash, env protocol.Env) protocol.Config {
	p, errs := Engine.Resolve(map[string]string{"commit": commitProposed})
	if len(errs) > 0 {
		tb.Fatal(errs[0])
	}
	return protocol.Config{Self: self, Topology: t, Params: p, Procedures: ycsb, Store: rows, Env: env}
}

// cpuTime returns the CPU time of the process.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEpoch measures the CPU time of each step in the commit of an epoch of 10,000 transactions, in milliseconds.
// It also reports the number of conflicting transactions.
func BenchmarkEpoch(b *testing.B) {
	for _, theta := range []float64{0.3, 0.7, 0.99, 1.5} {
		rows := store.NewHash()
		for i := range uint64(ycsbRows) {
			rows.Load(simload.Key(i), make([]byte, 9))
		}
		batches := ycsbBatches(b, 10_000, theta, rows)
		for _, solver := range []string{solverAuto, solverGreedy} {
			b.Run(fmt.Sprintf("zipf%v/%s", theta, solver), func(b *testing.B) {
				steps := map[string]time.Duration{}
				r := newReplica(benchConfig(b, 0, simload.ThreeRegions(1), rows, &world{}), none)
				e := &r.epochs
				e.method = map[string]mwis.Method{solverAuto: mwis.Auto, solverGreedy: mwis.Greedy}[solver]
				cut := make(Heads, 3)
				for _, m := range batches {
					r.logs.put(m)
					cut[m.Origin] = max(cut[m.Origin], m.Number)
				}
				for range b.N {
					start := cpuTime(b)
					step := func(name string) {
						now := cpuTime(b)
						steps[name] += now - start
						start = now
					}
					e.gather(cut)
					e.chain()
					step("chain-ms")
					e.findStale()
					step("validate-ms")
					heads := e.addChains()
					conflicting := e.conflicts.build(0)
					step("graph-ms")
					if conflicting {
						e.solve(heads)
					}
					step("solve-ms")
					e.list()
				}
				for name, d := range steps {
					b.ReportMetric(d.Seconds()*1000/float64(b.N), name)
				}
				b.ReportMetric(float64(e.conflicting)/100/float64(b.N), "%conflicting")
				b.ReportMetric(float64(e.conflicts.vertices)/float64(b.N), "vertices")
				b.ReportMetric(float64(e.conflicts.edges/2)/float64(b.N), "edges")
				b.ReportMetric(float64(e.conflicts.steps)/float64(b.N), "graph-steps")
				b.ReportMetric(float64(e.solved.Steps)/float64(b.N), "solver-steps")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
