package batchlog

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// event is the delivery of a message or the firing of a timer.
type event struct {
	at       time.Duration
	number   int // sequence number, by creation
	from, to geo.NodeID
	m        protocol.Message // nil for a timer
	timer    protocol.Timer
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world has four nodes that share one log; the first three are its members. A message takes 10 ms.
type world struct {
	now    time.Duration
	queue  events
	number int
	nodes  []*node
	// lose reports whether a message is lost; nil for none.
	lose func(from, to geo.NodeID, m protocol.Message) bool
	sent []string // messages of the fourth node
}

// node is the environment of one node.
type node struct {
	*world
	self geo.NodeID
	log  *Log
	rng  *rand.Rand
}

func (n *node) Now() time.Duration { return n.now }
func (n *node) Send(to geo.NodeID, m protocol.Message) {
	if n.self == 3 {
		n.sent = append(n.sent, fmt.Sprintf("%d: %v", to, reflect.Indirect(reflect.ValueOf(m))))
	}
	n.add(event{at: n.now + 10*time.Millisecond, from: n.self, to: to, m: m})
}
func (n *node) After(d time.Duration, t protocol.Timer) {
	n.add(event{at: n.now + d, to: n.self, timer: t})
}
func (n *node) Offload(func() int64, protocol.Timer) {}
func (n *node) Reply(txn.Outcome)                    {}
func (n *node) Rand() *rand.Rand                     { return n.rng }
func (n *node) Mark(*coverage.Mark)                  {}
func (n *node) Buggify(*buggify.Point) bool          { return false }

func (w *world) add(e event) {
	w.number++
	e.number = w.number
	heap.Push(&w.queue, e)
}

func newWorld() *world {
	w := &world{}
	for self := range geo.NodeID(4) {
		n := &node{world: w, self: self, rng: rand.New(rand.NewPCG(1, uint64(self)))}
		n.log = New(Config{
			Self: self, Nodes: 4, Members: []geo.NodeID{0, 1, 2}, Audience: []geo.NodeID{0, 1, 2, 3}, Env: n,
			OrderTimer: 1, GroupTimer: 2, Advance: func() {},
		})
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		n.log.Start()
	}
	return w
}

// run advances the time by d.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		switch {
		case e.m == nil:
			w.nodes[e.to].log.Fire(e.timer)
		case w.lose == nil || !w.lose(e.from, e.to, e.m):
			w.nodes[e.to].log.Receive(e.from, e.m)
		}
	}
	w.now = end
}

// read returns the batches that a node can read now.
func (w *world) read(n geo.NodeID) (batches []string) {
	for l := w.nodes[n].log; ; l.Pass() {
		o, known := l.Next()
		if !known {
			return batches
		}
		batches = append(batches, o.Batch.String())
	}
}

// request requests positions for the next batches of a node.
func (w *world) request(n geo.NodeID, numbers ...uint64) {
	for _, number := range numbers {
		w.nodes[n].log.Ask(Request{Number: number, Readers: 1})
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// The leader fails after a batch gets its position and before a reader receives it. The next leader announces the
// length of the log, so the reader notices the gap and fetches the position.
func TestNewLeaderTellsHowFarTheLogIs(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	w.request(3, 1)
	w.run(time.Second)
	same(t, "before", w.read(3), "3/1")
	w.lose = func(from, to geo.NodeID, m protocol.Message) bool { return from == 0 && to == 3 }
	w.request(3, 2)
	w.run(50 * time.Millisecond)
	w.lose = func(from, to geo.NodeID, m protocol.Message) bool { return from == 0 || to == 0 }
	same(t, "when the leader is lost", w.read(3))
	w.run(5 * time.Second)
	same(t, "with the next leader", w.read(3), "3/2")
	if fetches := w.nodes[3].log.Fetches(); fetches != 1 {
		t.Errorf("it was fetched %d times", fetches)
	}
}

// Requests that a failed leader has lost reach the next leader, once and in order.
func TestNewLeaderIsAskedAgain(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	w.lose = func(from, to geo.NodeID, m protocol.Message) bool { return from == 0 || to == 0 }
	w.request(3, 1, 2)
	w.run(5 * time.Second)
	for n := geo.NodeID(1); n < 4; n++ {
		same(t, fmt.Sprintf("node %d", n), w.read(n), "3/1", "3/2")
	}
}

// A reader accepts only the next position. It requests missing positions once per term, since the leader that it asks
// may fail, too.
func TestMissedPositions(t *testing.T) {
	w := newWorld()
	l := w.nodes[3].log
	positions := func(from geo.NodeID, term, first uint64, numbers ...uint64) {
		m := &Positions{Term: term, First: first}
		for _, n := range numbers {
			m.Entries = append(m.Entries, Ordered{BatchID{2, n}, 1})
		}
		l.Receive(from, m)
	}
	positions(0, 1, 0, 1)
	same(t, "in order", w.read(3), "2/1")
	positions(1, 2, 3, 4)
	positions(1, 2, 4, 5)
	same(t, "behind a gap", w.read(3))
	same(t, "the leader of term 2 is asked", w.sent, "1: {0 1}")
	positions(2, 3, 5, 6)
	same(t, "the leader of term 3 is asked", w.sent, "1: {0 1}", "2: {0 1}")
	positions(2, 3, 1, 2, 3, 4, 5, 6)
	same(t, "what was missed", w.read(3), "2/2", "2/3", "2/4", "2/5", "2/6")
}

// A reader accepts positions only from the leader, because other nodes may not have all positions.
func TestPositionsComeFromTheLeader(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	w.request(3, 1)
	w.run(time.Second)
	for member, told := range []bool{true, false, false} {
		answered := false
		w.lose = func(from, to geo.NodeID, m protocol.Message) bool {
			_, positions := m.(*Positions)
			answered = answered || positions && to == 3 && from == geo.NodeID(member)
			return false
		}
		w.nodes[3].Send(geo.NodeID(member), &Fetch{First: 0})
		if w.run(time.Second); answered != told {
			t.Errorf("member %d tells positions: %v, want %v", member, answered, told)
		}
	}
}
