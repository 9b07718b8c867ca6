package protocoltest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	benchRows  = 100_000
	benchValue = 100
	benchKeys  = 10
)

// Overwrite is a procedure that reads and overwrites rows of 100 bytes. Its arguments are the number of rows in one
// byte, the row numbers with 8 bytes each, and the values.
var Overwrite = txn.NewRegistry(&txn.Procedure{
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
		// All keys share one allocation, and each key below is a slice of it.
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
			if _, err := c.Get(k); err == txn.ErrNotFound {
				return nil, txn.Abort("missing")
			} else if err != nil {
				return nil, err
			}
			from := 1 + 8*n + size*i
			// The capacity ends with the value, so that an append to the value cannot overwrite the next value in args.
			c.Put(k, args[from:from+size:from+size])
		}
		return nil, nil
	},
})

// BenchmarkCPU measures the CPU cost of a transaction with 10 reads and writes of 100 bytes, per copy. The database has
// two regions with one partition each, and runs in the simulator. The cost is the CPU time of the whole database
// divided by its two copies. It includes encoding and decoding every message, and the simulator itself. A transaction
// that aborts because of a conflict is retried after a pause and counts once.
//
// multiHome is the percentage of transactions with rows of both homes. The other transactions use rows whose home is
// their client's region. hot is the number of rows per home from which two of the ten rows are drawn. With 0, all rows
// are drawn from the whole table.
func BenchmarkCPU(b *testing.B, engine *protocol.Engine, given map[string]string, multiHome, hot int) {
	s := benchWorld(b, engine, given)
	var clients []*benchClient
	for r := range 2 {
		c := addBenchClient(s, geo.Region(r), (b.N+1)/2)
		// The arguments are drawn before the timer starts, so their generation is not measured.
		for range 5000 {
			c.pool = append(c.pool, benchTxn(c.rng, r, multiHome, hot))
		}
		clients = append(clients, c)
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
	from := s.Now()
	// left reaches 0 while transactions are still in flight or wait for a retry. open counts both.
	for clients[0].left+clients[1].left+clients[0].open+clients[1].open > 0 {
		s.Run(s.Now() + 100*time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(2*b.N), "cpu-ns/txn/copy")
	b.ReportMetric(float64(b.N)/(s.Now()-from).Seconds(), "virtual-txn/s")
	// A value of 0 removes ns/op from the output. It would be wall time, which depends on other work on the machine.
	b.ReportMetric(0, "ns/op")
}

// benchWorld returns the loaded database of BenchmarkCPU, without clients.
func benchWorld(tb testing.TB, engine *protocol.Engine, given map[string]string) *sim.Sim {
	topology := simload.Topology(1, 1, [][]float64{{0, 10}, {10, 0}})
	p := Params(tb, engine, given)
	mustAccept(tb, engine, topology, p)
	s := sim.New(sim.Config{
		Topology: topology, Engine: engine, Procedures: Overwrite, Seed: 1, Params: p, CheckCodec: true,
	})
	layout := engine.Layout(topology, p)
	for i := range uint64(benchRows) {
		k := txn.IntKey(0, i)
		for _, n := range layout.Group(layout.Shard(k)).Members {
			s.Store(n).Load(k, make([]byte, benchValue))
		}
	}
	return s
}

func benchTxn(r *rand.Rand, region, multiHome, hot int) []byte {
	args := []byte{benchKeys}
	both := r.IntN(100) < multiHome
	seen := map[uint64]bool{}
	for i := 0; i < benchKeys; i++ {
		rows := benchRows / 2
		if hot > 0 && i < 2 {
			rows = hot
		}
		home := region
		// Odd positions use the other region, so one of the two hot rows (positions 0 and 1) is there, too.
		if both && i%2 == 1 {
			home = 1 - region
		}
		// With one partition and two regions, the home of a row is its number modulo 2.
		row := uint64(2*r.IntN(rows) + home)
		// Every transaction must have exactly benchKeys different rows, so draw again.
		if seen[row] {
			i--
			continue
		}
		seen[row] = true
		args = binary.BigEndian.AppendUint64(args, row)
	}
	return append(args, make([]byte, benchKeys*benchValue)...)
}

// benchPause is the maximum pause of a client after the first abort of a transaction. benchPauses is the number of
// times that the maximum doubles: from 1 to 64 ms.
const (
	benchPause  = time.Millisecond
	benchPauses = 6
)

// benchClient is a client machine with up to 500 transactions in flight. If a transaction aborts because of a conflict,
// the client retries it after a random pause. Without the pause, transactions that have aborted each other would be
// retried together. They would abort each other again, as long as the network delays them equally.
type benchClient struct {
	env        protocol.ClientEnv
	rng        *rand.Rand
	pool       [][]byte
	stream     uint32
	n          uint64
	left, open int
	sent       map[txn.ID]*txn.Transaction
}

// addBenchClient adds a client that sends the given number of transactions from its pool. The caller must fill the
// pool.
func addBenchClient(s *sim.Sim, region geo.Region, transactions int) *benchClient {
	c := &benchClient{stream: uint32(region) + 1, left: transactions, rng: rand.New(rand.NewPCG(1, uint64(region))), sent: map[txn.ID]*txn.Transaction{}}
	s.AddClient(region, func(env protocol.ClientEnv) protocol.Client { c.env = env; return c })
	return c
}

func (c *benchClient) Start() {
	for range 500 {
		c.submit()
	}
}

func (c *benchClient) submit() {
	if c.left == 0 {
		return
	}
	c.left--
	c.open++
	c.send(c.pool[c.rng.IntN(len(c.pool))], 0)
}

func (c *benchClient) send(args []byte, attempt uint8) {
	c.n++
	t := &txn.Transaction{ID: txn.MakeID(c.stream, c.n), Proc: 1, Args: args, Attempt: attempt}
	if err := Overwrite.Prepare(t); err != nil {
		panic(err)
	}
	c.sent[t.ID] = t
	c.env.Submit(t)
}

func (c *benchClient) Complete(o txn.Outcome) {
	// Only transactions that abort because of a conflict are retried. open still counts the transaction, so BenchmarkCPU
	// does not stop before the retry commits.
	if o.Cause == txn.CauseConflict {
		most := benchPause << min(c.sent[o.ID].Attempt, benchPauses)
		c.env.After(time.Duration(c.rng.Int64N(int64(most))), protocol.Timer{Arg: uint64(o.ID)})
		return
	}
	delete(c.sent, o.ID)
	c.open--
	c.submit()
}

// Fire retries a transaction.
func (c *benchClient) Fire(timer protocol.Timer) {
	t := c.sent[txn.ID(timer.Arg)]
	delete(c.sent, t.ID)
	c.send(t.Args, max(t.Attempt, t.Attempt+1)) // saturates instead of overflowing
}

// cpuTime returns the CPU time of the process in nanoseconds, including garbage collection. Unlike wall time, it is
// meaningful on a machine with other work.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
