package locallog

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// stage is a node of a database of three regions with two partitions each. It has home logs 0 to 2 and two orders, logs
// 3 and 4, led from regions 0 and 1. The test itself sends the leaders' messages.
type stage struct {
	*Node
	rows    *store.Hash
	replies []string
	sent    []protocol.Message
	known   [5]uint64
}

func (s *stage) Now() time.Duration                    { return 0 }
func (s *stage) Send(_ geo.NodeID, m protocol.Message) { s.sent = append(s.sent, m) }
func (s *stage) After(time.Duration, protocol.Timer)   {}
func (s *stage) Offload(func() int64, protocol.Timer)  {}
func (s *stage) Reply(o txn.Outcome) {
	s.replies = append(s.replies, fmt.Sprintf("t%v %v", o.ID, o.Status))
}
func (*stage) Mark(*coverage.Mark)         {}
func (*stage) Buggify(*buggify.Point) bool { return false }
func (*stage) Rand() *rand.Rand            { return rand.New(rand.NewPCG(1, 1)) }

func newStage(self geo.NodeID, incarnation uint32) *stage {
	s := &stage{rows: store.NewHash()}
	for row := uint64(self) % 2; row < 6 && incarnation == 0; row += 2 {
		s.rows.Put(simload.Key(row), binary.BigEndian.AppendUint64(nil, 10), 0)
	}
	s.Node = New(Config{
		Config: protocol.Config{
			Self: self, Incarnation: incarnation, Topology: simload.Topology(2, 1, [][]float64{{0, 10, 20}, {10, 0, 10}, {20, 10, 0}}), Procedures: simload.Procedures, Store: s.rows, Env: s,
			Params: protocol.Params{HomeLogsParameter.Name: logsRegions, batchlog.CopiesParameter.Name: "2", "reconnaissances": "1", "replication": Full},
		},
		Orders: []geo.Region{0, 1}, Rejoins: true,
		MultiHome: func(e Entry) { s.AddToOrder(0, e) },
		Again:     func(from geo.NodeID, m protocol.Message) { s.Receive(from, m) },
	})
	s.Start()
	return s
}

// order delivers the next entries of a log from its leader.
func (s *stage) order(log uint64, entries ...batchlog.Ordered) {
	s.Receive(s.Logs[log].c.Members[0], &batchlog.Positions{Log: log, Term: 2, First: s.known[log], Entries: entries})
	s.known[log] += uint64(len(entries))
	s.Flush()
}

// data delivers a batch of node 0 for a log.
func (s *stage) data(log, number uint64, t *txn.Transaction, part bool) {
	s.Receive(0, newBatch(log, number, []Entry{{Txn: t, Part: part}}))
	s.Flush()
}

func mark(n geo.NodeID) batchlog.Ordered {
	return batchlog.Ordered{Batch: batchlog.BatchID{Sequencer: n, Number: batchlog.FirstBatch(1) - 1}}
}

func batch(n geo.NodeID, number uint64) batchlog.Ordered {
	return batchlog.Ordered{Batch: batchlog.BatchID{Sequencer: n, Number: number}, Readers: 3}
}

// takes returns the entry by which a home log takes an order up to a position.
func takes(order int, upto uint64) batchlog.Ordered {
	return batchlog.Ordered{Batch: batchlog.BatchID{Sequencer: geo.NodeID(1<<16 - 1 - order), Number: upto}, Readers: 1}
}

func (s *stage) value(row uint64) []byte {
	v, _ := s.rows.Value(simload.Key(row))
	return v
}

func (s *stage) positions() string {
	var at []string
	for _, l := range s.Logs {
		at = append(at, fmt.Sprint(l.Order.Position()))
	}
	return strings.Join(at, " ")
}

func (s *stage) is(t *testing.T, what, positions string) {
	t.Helper()
	if got := s.positions(); got != positions {
		t.Errorf("%s: the logs stand at %s, want %s", what, got, positions)
	}
}

// marks appends a node's mark to all home logs.
func (s *stage) marks(n geo.NodeID) {
	for h := range uint64(3) {
		s.order(h, mark(n))
	}
}

// A home log reaches the cut where it first takes any order beyond that order's mark. Before that, it takes all orders
// up to their marks, regardless of which order it takes first. Every node waits at the cut until all logs have reached
// it. Two transactions of two orders then have the same order in all home logs.
func TestCutIsClean(t *testing.T) {
	s := newStage(2, 0) // in region 1
	s.marks(5)
	s.data(3, 1, simload.Txn(1, "a0+1 a2+1"), true) // of homes 0 and 1
	s.data(4, 1, simload.Txn(2, "a0+1 a2+1"), true)
	s.order(3, batch(0, 1), mark(5))
	s.order(4, batch(0, 1), mark(5))
	s.is(t, "the orders at their marks", "1 1 1 1 1")
	s.order(0, takes(0, 2), takes(1, 2))
	s.order(1, takes(1, 2), takes(0, 2))
	s.is(t, "two home logs at the cut", "1 1 1 1 1")
	if s.Executor.Executed != 0 {
		t.Errorf("%d transactions are executed before all logs are at the cut", s.Executor.Executed)
	}
	s.order(2, takes(0, 1), takes(1, 1))
	s.is(t, "the third has taken what is before the marks, and is not at the cut", "1 1 3 1 1")
	s.order(2, takes(0, 2), takes(1, 2))
	s.is(t, "behind the cut", "3 3 5 2 2")
	if s.Executor.Executed != 2 || !slices.Equal(s.value(0), s.value(2)) {
		t.Errorf("%d of 2 transactions are executed, and rows 0 and 2 are %v and %v", s.Executor.Executed, s.value(0), s.value(2))
	}
	if s.rejoin.passed(5) != 1 || s.rejoin.passed(4) != 0 {
		t.Errorf("incarnations %d of node 5 and %d of node 4 are passed", s.rejoin.passed(5), s.rejoin.passed(4))
	}
}

// The first marks of all orders form a cut, and the second marks form another cut, regardless of the marks' nodes.
func TestMarksCross(t *testing.T) {
	s := newStage(2, 0)
	s.marks(4)
	s.marks(5)
	s.order(3, mark(4), mark(5))
	s.order(4, mark(5), mark(4))
	for h := range uint64(3) {
		s.order(h, takes(0, 1))
	}
	s.is(t, "behind the first marks", "3 3 3 1 1")
	if s.rejoin.passed(4) != 0 || s.rejoin.passed(5) != 0 {
		t.Errorf("incarnations %d and %d of the nodes are passed that have a mark ahead", s.rejoin.passed(4), s.rejoin.passed(5))
	}
	for h := range uint64(3) {
		s.order(h, takes(1, 1), takes(0, 2))
	}
	s.is(t, "behind the second ones", "5 5 5 2 2")
	if s.rejoin.passed(4) != 1 || s.rejoin.passed(5) != 1 {
		t.Errorf("incarnations %d and %d of the nodes are passed", s.rejoin.passed(4), s.rejoin.passed(5))
	}
}

// A message from a node of the copy is accepted if the sender got its rows at the same cut. A message of a later cut
// waits until this node has reached that cut. A message of an earlier cut is dropped.
func TestTimely(t *testing.T) {
	s := newStage(4, 0)
	var again []uint64
	s.c.Again = func(_ geo.NodeID, m protocol.Message) { again = append(again, m.(*ReadsSince).Since) }
	take := func(since uint64) bool { return s.Timely(5, since, &ReadsSince{since, &deterministic.Reads{}}) }
	if !take(0) || take(7) || take(9) || take(11) {
		t.Error("before its first cut a node takes what others tell of that, and of nothing later")
	}
	s.rejoin.forget(8)
	if s.Since() != 9 || take(0) || take(7) || !take(9) || take(12) {
		t.Error("behind a cut a node takes what others tell of that, and of nothing before or behind it")
	}
	if !slices.Equal(again, []uint64{7, 9, 11}) || len(s.rejoin.early) != 1 {
		t.Errorf("%v come again, and %d have come since", again, len(s.rejoin.early))
	}
	lost := newStage(5, 1)
	if lost.Timely(4, 0, &deterministic.Reads{}) || lost.Timely(4, 3, &deterministic.Reads{}) {
		t.Error("a new incarnation without rows takes what others tell")
	}
}

// At the cut, a restarting copy reports to its clients that the outcomes of earlier transactions are unknown.
// Transactions after the cut, in a batch without a position or in a void batch, continue. An answer that arrives too
// late is dropped.
func TestOutcomesAreForgotten(t *testing.T) {
	s := newStage(4, 0)
	for i, n := range []txn.ID{1, 2, 3} {
		s.Submit(simload.Txn(n, "a0+1 a1+1")) // in batches 1 to 3 for log 0
		s.Flush()
		if got := s.Logs[0].number; got != uint64(i)+2 {
			t.Fatalf("batch %d is the next", got)
		}
	}
	void := batch(4, 2)
	void.Readers = 0
	s.order(0, batch(4, 1), void) // transaction 2 goes into batch 4
	s.marks(5)
	s.order(3, mark(5))
	s.order(4, mark(5))
	s.order(0, batch(4, 3), takes(0, 1))
	s.order(1, takes(0, 1))
	if len(s.replies) > 0 {
		t.Errorf("replies before the cut: %v", s.replies)
	}
	s.order(2, takes(0, 1))
	if want := []string{"t0.1 unknown", "t0.3 unknown"}; !slices.Equal(s.replies, want) {
		t.Errorf("replies at the cut: %v, want %v", s.replies, want)
	}
	s.Receive(5, &deterministic.Answers{Outcomes: []txn.Outcome{{ID: 1, Status: txn.Committed}, {ID: 2, Status: txn.Committed}}})
	if n := len(s.replies); n != 3 || s.replies[2] != "t0.2 committed" || s.unanswered != 0 {
		t.Errorf("replies %v, and %d without one", s.replies, s.unanswered)
	}
}

// A new incarnation requests its marks in the orders when it has read its marks in all home logs. It reads no home log
// beyond its mark before it has rows, and delays transactions and questions until then.
func TestMarksInHomeLogsFirst(t *testing.T) {
	s := newStage(5, 1)
	begin := func(log uint64) {
		settled := 6 // nodes, plus the streams of home logs
		if log < 3 {
			settled = 8
		}
		s.Receive(s.Logs[log].c.Members[0], &batchlog.Started{Log: log, Term: 2, Settled: make([]uint64, settled)})
		s.Flush()
	}
	for log := range uint64(5) {
		begin(log)
	}
	marked := func() (logs []uint64) {
		for _, m := range s.sent {
			if v, ok := m.(*batchlog.Void); ok {
				logs = append(logs, v.Log)
			}
		}
		s.sent = nil
		return logs
	}
	if got := marked(); !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Errorf("marks are asked for in logs %v, want those of the regions", got)
	}
	s.Submit(simload.Txn(1, "a1+1"))
	s.Receive(1, &Ask{Questions: []Question{{ID: 9, Keys: []txn.Key{simload.Key(1)}}}})
	s.order(0, mark(5), takes(0, 0))
	s.order(1, mark(5))
	if got := marked(); len(got) > 0 {
		t.Errorf("marks are asked for in logs %v before region 2's has one", got)
	}
	s.order(2, mark(5))
	if got := marked(); !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("marks are asked for in logs %v, want the orders", got)
	}
	s.is(t, "without rows", "0 0 0 0 0")
	if len(s.rejoin.submitted) != 1 || len(s.rejoin.asks) != 1 || s.FullyReplicated() || s.Pending() == 0 {
		t.Errorf("%d transactions and %d questions wait", len(s.rejoin.submitted), len(s.rejoin.asks))
	}
}

// The moves that a new incarnation starts have different IDs from the moves that its predecessor started.
func TestMovesOfIncarnations(t *testing.T) {
	met := map[txn.ID]bool{}
	for incarnation := range uint32(3) {
		m := newRemasterer(newStage(4, incarnation).Node, 1)
		for range 2 {
			m.begin(simload.Key(0), residence{}, 1)
		}
		for _, e := range m.moving {
			if met[e.Txn.ID] {
				t.Errorf("incarnation %d begins move %v, as another one did", incarnation, e.Txn.ID)
			}
			met[e.Txn.ID] = true
		}
	}
	if len(met) != 6 {
		t.Errorf("%d names for 6 moves", len(met))
	}
}

// The database is fully replicated again when all nodes have passed the marks of a new incarnation in all logs. If the
// new incarnation was a member of logs, it must be a member again, too.
func TestWholeBehindTheCut(t *testing.T) {
	for lost, whole := range map[geo.NodeID]bool{5: true, 4: false} { // 4 is a member of all logs
		s := newStage(2, 0)
		if !s.FullyReplicated() {
			t.Error("a database that has lost nothing is whole")
		}
		s.Replaced(lost, 1)
		s.marks(lost)
		s.order(3, mark(lost))
		s.order(4, mark(lost))
		for n := range geo.NodeID(6) {
			if n != s.Self {
				s.Receive(n, &deterministic.Passed{Marks: []deterministic.PassedMark{{Node: lost, Incarnation: 1}}})
			}
		}
		if s.FullyReplicated() {
			t.Errorf("node %d is lost, and this one has not passed its marks", lost)
		}
		for h := range uint64(3) {
			s.order(h, takes(0, 1))
		}
		if s.FullyReplicated() != whole {
			t.Errorf("node %d is lost, and all have passed its marks: whole %v, want %v", lost, s.FullyReplicated(), whole)
		}
	}
}
