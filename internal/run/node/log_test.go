package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal/journaltest"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Nodes of the gossip engine send numbered messages to random peers at random times, until each node has sent
// gossipRounds rounds. Peers answer some of the messages. The engine counts missing, duplicate and reordered messages
// as wrong.

const (
	gossipRounds = 150
	gossipKind   = 7
)

type gossip struct {
	number uint64 // sequence number of the message on its link
	rest   int    // bytes of padding
	answer bool
}

func (g gossip) Kind() uint8 { return gossipKind }
func (g gossip) Size() int   { return 9 + g.rest }
func (g gossip) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, g.number)
	b = append(b, map[bool]byte{true: 1}[g.answer])
	return append(b, make([]byte, g.rest)...)
}

type gossipReplica struct {
	protocol.Config
	sent, got []uint64
	rounds    int
	wrong     int64
	last      time.Duration
}

func (r *gossipReplica) Start() { r.Env.After(0, protocol.Timer{}) }

func (r *gossipReplica) send(to geo.NodeID, answer bool) {
	g := gossip{number: r.sent[to] + 1, answer: answer}
	if r.sent[to]++; r.Env.Rand().IntN(20) == 0 {
		g.rest = r.Env.Rand().IntN(100_000) // more than fits into a frame
	}
	r.Env.Send(to, g)
}

func (r *gossipReplica) Fire(protocol.Timer) {
	now := r.Env.Now()
	if now < r.last {
		r.wrong++
	}
	r.last = now
	for range r.Env.Rand().IntN(10) {
		to := geo.NodeID(r.Env.Rand().IntN(r.Topology.Nodes()))
		if to != r.Self {
			r.send(to, r.Env.Rand().IntN(2) == 0)
		}
	}
	if r.rounds++; r.rounds < gossipRounds {
		r.Env.After(time.Duration(r.Env.Rand().IntN(4_000_000)), protocol.Timer{})
	}
}

func (r *gossipReplica) Receive(from geo.NodeID, m protocol.Message) {
	g := m.(gossip)
	if r.got[from]++; g.number != r.got[from] {
		r.wrong++
	}
	if g.answer {
		r.send(from, false)
	}
}

func (r *gossipReplica) Submit(*txn.Transaction) {}
func (r *gossipReplica) Pending() int            { return gossipRounds - r.rounds }
func (r *gossipReplica) Readings(dst []protocol.Reading) []protocol.Reading {
	dst = append(dst, protocol.Reading{Name: "wrong", Value: r.wrong}, protocol.Reading{Name: "pending", Value: int64(r.Pending())})
	for i := range r.sent {
		dst = append(dst, protocol.Reading{Name: fmt.Sprint("sent ", i), Value: int64(r.sent[i])}, protocol.Reading{Name: fmt.Sprint("got ", i), Value: int64(r.got[i])})
	}
	return dst
}

var gossipEngine = &protocol.Engine{
	Name: "gossip", Figures: gossipFigures(3),
	New: func(c protocol.Config) protocol.Replica {
		return &gossipReplica{Config: c, sent: make([]uint64, c.Topology.Nodes()), got: make([]uint64, c.Topology.Nodes())}
	},
	Decode: func(_ uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
		return gossip{binary.LittleEndian.Uint64(body), len(body) - 9, body[8] == 1}, nil
	},
}

// gossipFigures returns the figures of a gossipReplica in a database with this number of nodes.
func gossipFigures(nodes int) []protocol.Figure {
	figures := []protocol.Figure{{Name: "wrong", Kind: protocol.Counter}, {Name: "pending", Kind: protocol.Gauge}}
	for i := range nodes {
		figures = append(figures, protocol.Figure{Name: fmt.Sprint("sent ", i), Kind: protocol.Counter}, protocol.Figure{Name: fmt.Sprint("got ", i), Kind: protocol.Counter})
	}
	return figures
}

// startLogged starts nodes that truncate their logs after each growth by cut bytes; 0 selects the default.
func startLogged(t testing.TB, e *protocol.Engine, cut int64, regions ...string) *Local {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	db := database(regions...)
	db.Engine, db.Emulate = e.Name, true
	for i := range db.Topology.Links {
		for j := range db.Topology.Links[i] {
			db.Topology.Links[i][j] = geo.Link{Delay: time.Millisecond}
		}
	}
	l, err := StartLocal(ctx, db, LocalConfig{Engine: e, Procedures: procedures, ParseWorkload: parse, Journals: t.TempDir(), CutJournal: cut})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func restart(t *testing.T, l *Local, id geo.NodeID) {
	t.Helper()
	l.Stop(id)
	if err := l.Restart(id); err != nil {
		t.Fatal(err)
	}
}

func statuses(t *testing.T, l *Local) []*admin.Status {
	t.Helper()
	s, err := l.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mostRestarts is the maximum number of restarts in TestRestartsLoseNothing. It limits the duration of the test on a
// slow disk.
const mostRestarts = 40

// often is the growth, in bytes, after which nodes truncate their logs. It is so small that gossip nodes truncate many
// times.
const often = 1 << 14

// Every message arrives exactly once and in order, and no clock goes back, even if nodes restart from their logs many
// times. This holds with and without truncation of the logs.
func TestRestartsLoseNothing(t *testing.T) {
	generations := 0
	for seed, cut := range []int64{0, often, often} {
		l := startLogged(t, gossipEngine, cut, "a", "b", "c")
		processes := []string{l.Node(0).Process(), l.Node(1).Process(), l.Node(2).Process()}
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for n := 0; ; n++ {
			pending := 0
			for _, s := range statuses(t, l) {
				pending += s.Pending
			}
			if pending == 0 || n == mostRestarts {
				t.Logf("seed %d: %d restarts", seed, n)
				break
			}
			restart(t, l, geo.NodeID(r.IntN(3)))
		}
		eventually(t, "all that was sent is there", func() bool {
			counters, pending := make([]map[string]int64, 3), int64(0)
			for i, s := range statuses(t, l) {
				counters[i] = s.Counters
				pending += s.Gauges["pending"]
				if s.Counters["wrong"] != 0 || s.Broken {
					t.Fatalf("seed %d: node %d: %+v", seed, i, s)
				}
			}
			sum := int64(0)
			for i := range counters {
				for j := range counters {
					sent := counters[i][fmt.Sprint("sent ", j)]
					if sum += sent; sent != counters[j][fmt.Sprint("got ", i)] {
						return false
					}
				}
			}
			return sum > 3*gossipRounds && pending == 0
		})
		for i, p := range processes {
			if l.Node(geo.NodeID(i)).Process() != p {
				t.Errorf("node %d is process %s, and was %s", i, l.Node(geo.NodeID(i)).Process(), p)
			}
		}
		_ = l.Close()
		for i := range processes {
			generations += l.Node(geo.NodeID(i)).loop.log.journal.Generation()
		}
	}
	if generations < 20 {
		t.Errorf("logs were cut short %d times", generations)
	}
}

// A restarted node still has its data, and completes the transactions in flight that its peers are waiting for.
func TestRestartedNodeGoesOn(t *testing.T) {
	for name, cut := range map[string]int64{"from its inputs": 0, "from a checkpoint": 1} {
		t.Run(name, func(t *testing.T) { testRestartedNode(t, cut) })
	}
}

func testRestartedNode(t *testing.T, cut int64) {
	l := startLogged(t, setEngine, cut, "a", "b")
	if _, err := l.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"ten":{}}`)}); err != nil {
		t.Fatal(err)
	}
	c := connect(t, l, 0)
	c.send(1, 'x')
	c.expect(1, txn.Committed, "")
	l.Stop(1)
	c.send(2, 'y')
	eventually(t, "transaction 2 is under way", func() bool { return statuses(t, l)[0].Pending == 1 })
	if err := l.Restart(1); err != nil {
		t.Fatal(err)
	}
	c.expect(2, txn.Committed, "")
	other := connect(t, l, 1)
	other.send(3) // never answered
	eventually(t, "transaction 3 is under way", func() bool { return statuses(t, l)[1].Pending == 1 })
	restart(t, l, 1)
	eventually(t, "node b is ready", func() bool { return l.Node(1).Ready() == nil })
	s := statuses(t, l)[1]
	if s.Dataset != "d" || s.Rows != 10 || s.Pending != 1 {
		t.Errorf("%+v", s)
	}
	var row store.Record
	if err := l.Node(1).call(t.Context(), func() { row, _ = l.Node(1).loop.store.Get(txn.IntKey(0, 0)) }); err != nil || string(row.Value) != "y" || row.Writer != 2 {
		t.Errorf("%+v, %v", row, err)
	}
	// A client that submits a transaction with the ID of a transaction in flight gets an error.
	again := connect(t, l, 1)
	again.send(3)
	again.expect(3, txn.Refused, "duplicate-id")
}

func TestLogIsRefused(t *testing.T) {
	l := startSet(t, database("a"))
	l.Stop(0)
	if err := l.Restart(0); err == nil || !strings.Contains(err.Error(), "no log") {
		t.Errorf("a node without a log: %v", err)
	}
	db := database("a")
	db.Nodes, db.Incarnation = l.Database().Nodes, "one"
	folder := t.TempDir()
	cfg := Config{Database: &db, Engine: setEngine, Procedures: procedures, Journal: folder}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a log that is in use: %v", err)
	}
	if err := n.loop.log.journal.Close(); err != nil {
		t.Fatal(err)
	}
	db.Name = "other"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "is of {") {
		t.Errorf("another database's log: %v", err)
	}
	db.Incarnation = "two"
	if n, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	defer n.loop.log.journal.Close() //nolint:errcheck // nothing was written
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 || left[0].Name() != "two.journal" || left[1].Name() != "two.journal.synced" {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "one.journal")); !os.IsNotExist(err) {
		t.Errorf("the last incarnation's log is there: %v", err)
	}
}

// A node reports an effect only after it is in the log. If the turn of a load cannot be synced, the load fails, and the
// restarted process has no data set.
func TestLoadIsInTheLog(t *testing.T) {
	var broken atomic.Bool
	disk := &journaltest.Disk{Fail: func(op journaltest.Op) (int, error) {
		if broken.Load() && op.Kind == journaltest.Sync {
			return 0, syscall.EIO
		}
		return 0, nil
	}}
	start := func() (*Local, error) {
		return StartLocal(t.Context(), database("a"), LocalConfig{Engine: setEngine, Procedures: procedures, ParseWorkload: parse, Journals: "journals", Disk: disk})
	}
	l, err := start()
	if err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	_, err = l.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"ten":{}}`)})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("a load that is not in the log: %v", err)
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the node ended with %v", err)
	}
	broken.Store(false)
	disk.Crash(func(*rand.Rand) bool { return false }, nil)
	l, err = start()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is wrong any more
	if s := statuses(t, l)[0]; s.Dataset != "" || s.Rows != 0 {
		t.Errorf("the next process has the data set %q with %d rows", s.Dataset, s.Rows)
	}
}
