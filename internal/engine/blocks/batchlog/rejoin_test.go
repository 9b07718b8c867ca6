package batchlog

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// mark returns the void entry that marks the end of the batches of a node's earlier incarnations.
func mark(n geo.NodeID, incarnation uint32) Ordered {
	return Ordered{Batch: BatchID{n, protocol.NumbersBefore(incarnation)}}
}

// A void entry is a mark if and only if its number is the last number before the numbers of an incarnation.
func TestMarks(t *testing.T) {
	for _, tc := range []struct {
		o           Ordered
		incarnation uint32
		is          bool
	}{
		{mark(3, 1), 1, true}, {mark(3, 7), 7, true},
		{Ordered{Batch: BatchID{3, 5}}, 0, false}, {Ordered{Batch: BatchID{3, FirstBatch(2)}}, 0, false}, {Ordered{BatchID{3, protocol.NumbersBefore(1)}, 1}, 0, false},
		{Ordered{}, 0, false},
	} {
		if n, incarnation, is := tc.o.Mark(); is != tc.is || is && (n != 3 || incarnation != tc.incarnation) {
			t.Errorf("%v is the mark of incarnation %d of node %d: %v", tc.o, incarnation, n, is)
		}
	}
	if FirstBatch(0) != 1 || FirstBatch(1) != protocol.NumbersBefore(1)+1 || protocol.IncarnationOf(FirstBatch(3)+1000) != 3 {
		t.Errorf("first batches %d and %d", FirstBatch(0), FirstBatch(1))
	}
}

// again replaces node 3 with a new incarnation that records the entries that it reads.
func (w *world) again(incarnation uint32) *joining {
	n := w.nodes[3]
	j := &joining{}
	n.log = New(Config{
		Self: 3, Incarnation: incarnation, Nodes: 4, Members: []geo.NodeID{0, 1, 2}, Audience: []geo.NodeID{0, 1, 2, 3}, Env: n,
		OrderTimer: 1, GroupTimer: 2, JoinTimer: 9, Advance: func() { j.Advance() },
	})
	j.Reader = NewReader(ReaderConfig[part]{
		Log: n.log, Foreign: func(geo.NodeID, part) int { return 1 },
		Read: func(o Ordered, _ part) { j.got = append(j.got, o.Batch.String()) },
		Mark: func(n geo.NodeID, incarnation uint32) bool {
			j.got = append(j.got, fmt.Sprintf("mark of %d.%d", n, incarnation))
			return !j.closed
		},
	})
	n.log.Start()
	return j
}

type joining struct {
	*Reader[part]
	got    []string
	closed bool
}

// A new incarnation makes its predecessor's batches without a position void. It requests positions only after that, and
// reads no earlier entry.
func TestNewIncarnationOfASequencer(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	w.request(3, 1)
	w.request(2, 1)
	w.run(time.Second)
	w.lose = func(from, _ geo.NodeID, m protocol.Message) bool { return from == 3 }
	w.request(3, 2) // lost with the node
	w.run(time.Second)
	w.lose = nil
	j := w.again(1)
	if l := w.nodes[3].log; l.Entered() || l.started {
		t.Fatal("it has entered before it knows anything")
	}
	w.run(time.Second)
	same(t, "what it reads", j.got, "mark of 3.1")
	if !w.nodes[3].log.Entered() {
		t.Error("it has not entered")
	}
	w.request(3, FirstBatch(1))
	j.Receive(3, part{FirstBatch(1), 1})
	w.run(time.Second)
	same(t, "what it reads then", j.got, "mark of 3.1", BatchID{3, FirstBatch(1)}.String())
	same(t, "what others read", w.read(1), "3/1", "2/1", BatchID{3, protocol.NumbersBefore(1)}.String(), BatchID{3, FirstBatch(1)}.String())
	if known := w.nodes[3].log.settled; !reflect.DeepEqual(known, w.nodes[1].log.settled) {
		t.Errorf("settled %v, elsewhere %v", known, w.nodes[1].log.settled)
	}
}

// A new incarnation repeats its request until it has read its mark. The leader that it knows may be lost, and no new
// leader may have announced itself.
func TestNewIncarnationAsksUntilItIsIn(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	w.lose = func(from, to geo.NodeID, _ protocol.Message) bool { return (from == 0 || to == 0) && from != to }
	w.run(5 * time.Second) // another member is elected
	lost := 0
	w.lose = func(from, to geo.NodeID, m protocol.Message) bool {
		_, void := m.(*Void)
		if void && lost < 2 {
			lost++
			return true
		}
		return from == 0 || to == 0
	}
	j := w.again(1)
	w.run(5 * time.Second)
	same(t, "what it reads", j.got, "mark of 3.1")
	if lost != 2 {
		t.Errorf("%d requests were lost", lost)
	}
	sent := len(w.sent)
	w.run(5 * time.Second)
	same(t, "what it asks for when it is in", w.sent[sent:])
}

// A new incarnation ignores positions that it receives before it knows its starting position.
func TestPositionsBeforeTheBeginning(t *testing.T) {
	w := newWorld()
	w.lose = func(geo.NodeID, geo.NodeID, protocol.Message) bool { return true }
	j := w.again(1)
	l := w.nodes[3].log
	l.Receive(1, &Positions{Term: 2, First: 0, Entries: []Ordered{placed(0, 1), placed(0, 2)}})
	l.Receive(1, &Started{Term: 2, Position: 1, Settled: []uint64{1}}) // of another database
	l.Receive(1, &Started{Term: 2, Position: 4, Settled: []uint64{3, 1, 0, 0}})
	l.Receive(2, &Started{Term: 3, Position: 9, Settled: []uint64{3, 1, 5, 0}}) // from another member, too late
	l.Receive(2, &Positions{Term: 3, First: 4, Entries: []Ordered{mark(3, 1)}})
	same(t, "what it reads", j.got, "mark of 3.1")
	if l.Position() != 5 || l.Settled(0) != 3 || l.Term() != 3 {
		t.Errorf("at %d in term %d, %d is settled", l.Position(), l.Term(), l.Settled(0))
	}
}

// A reader stays at a mark until its owner lets it continue.
func TestReaderStandsAtAMark(t *testing.T) {
	w := newWorld()
	w.run(5 * time.Second)
	j := w.again(1)
	j.closed = true
	w.run(time.Second)
	w.request(2, 1)
	j.Receive(2, part{1, 1})
	w.run(time.Second)
	if j.got = j.got[:1]; w.nodes[3].log.Entered() || w.nodes[3].log.Position() != 0 {
		t.Errorf("it has gone on to position %d", w.nodes[3].log.Position())
	}
	j.closed = false
	j.Advance()
	same(t, "what it reads then", j.got, "mark of 3.1", "mark of 3.1", "2/1")
}

// A node that skips to a later position continues there. It keeps the skipped data for other readers, and no longer
// waits for batches reported as done.
func TestSkipTo(t *testing.T) {
	r := newReading()
	for _, number := range []uint64{1, 2, 5, 6} {
		r.Receive(1, part{number, 10})
	}
	r.Receive(2, part{3, 10})
	r.l.Receive(0, &Positions{Term: 1, First: 0, Entries: []Ordered{mark(0, 1), {BatchID{1, 1}, 1}, {BatchID{1, 2}, 1}, {Batch: BatchID{1, 5}}, mark(1, 1), {BatchID{2, 3}, 1}}})
	same(t, "without anybody who stops it", r.got, "1/1", "1/2", "2/3")

	r = newReading()
	r.c.Mark = func(geo.NodeID, uint32) bool { return false }
	for _, number := range []uint64{1, 2, 5, 6} {
		r.Receive(1, part{number, 10})
	}
	for _, number := range []uint64{1, 3} { // the first is a repetition with a position before all entries known here
		r.Receive(2, part{number, 10})
	}
	r.l.Receive(0, &Positions{Term: 1, First: 0, Entries: []Ordered{mark(0, 1), {BatchID{1, 1}, 1}, {BatchID{1, 2}, 1}, {Batch: BatchID{1, 5}}, mark(3, 1), {BatchID{2, 3}, 1}}})
	r.SkipTo(4, []uint64{protocol.NumbersBefore(1), 5, 2, 0})
	same(t, "what it has read", r.got)
	if r.l.Position() != 4 || r.Done(0) != protocol.NumbersBefore(1) || r.Done(1) != 5 || r.Done(2) != 2 || r.Pending() != 2 {
		t.Errorf("at %d, done %v, %d pending", r.l.Position(), r.done, r.Pending())
	}
	r.Missing(0, &Missing{Batches: []BatchID{{1, 1}, {1, 2}, {1, 5}}})
	same(t, "what it keeps", r.told, "0: 1/1", "0: 1/2")
	r.c.Mark = nil
	r.Advance()
	same(t, "what it reads then", r.got, "2/3")
}

// Data that was sent to a node's predecessor counts as missing, even if later data has arrived.
func TestDataOfThePredecessorIsMissing(t *testing.T) {
	r := newReading()
	r.Receive(1, part{3, 10}) // the first batch received by this incarnation
	r.places(0, BatchID{1, 2}, BatchID{1, 3})
	r.world.sent = nil
	r.Fire(protocol.Timer{Kind: 5})
	same(t, "what is asked for", r.world.sent, "0: {0 [1/2]}")
	r.Fetched(1, part{2, 10})
	same(t, "what is read", r.got, "1/2", "1/3")
}

// Reports of a lost node and reports from an earlier term do not count as proof.
func TestClaimsThatDoNotCount(t *testing.T) {
	for name, forget := range map[string]func(l *Log){
		"the node is lost": func(l *Log) { l.Replaced(2, 1) },
		"another term":     func(l *Log) { l.member.lead(0, 2) },
	} {
		l, placed := newLeading(t, 2)
		l.Receive(2, held(BatchID{1, 1}))
		forget(l)
		l.Receive(1, &OrderRequest{Requests: []Request{{1, 1}}})
		if l.member.flush(); len(*placed) != 0 {
			t.Errorf("%s: %v has a place", name, *placed)
		}
		l.Receive(2, held(BatchID{1, 1}))
		if l.member.flush(); len(*placed) != 1 {
			t.Errorf("%s: it has no place when it is told again", name)
		}
	}
}

// Data that a new incarnation may need does not count as read by all readers.
func TestKeptForANewIncarnation(t *testing.T) {
	l, _ := newLeading(t, 2)
	for n := range geo.NodeID(4) {
		l.Receive(n, &Held{Position: 7})
	}
	l.member.count = 9
	if all := l.member.readByAll(); all != 7 {
		t.Errorf("all have read up to %d", all)
	}
	l.Replaced(2, 1)
	if all := l.member.readByAll(); all != 0 {
		t.Errorf("all have read up to %d, and the new one nothing", all)
	}
}

// A new incarnation has caught up when it has read all batches that each sequencer sent to its predecessor. Until then
// it may lack their data, and other nodes may have the only copy.
func TestCaughtUp(t *testing.T) {
	w := newWorld()
	w.lose = func(geo.NodeID, geo.NodeID, protocol.Message) bool { return true }
	j := w.again(1)
	l := w.nodes[3].log
	l.Receive(0, &Started{Term: 2, Position: 7, Settled: []uint64{0, 0, 4, 0}})
	l.Receive(0, &Positions{Term: 2, First: 7, Entries: []Ordered{mark(3, 1), placed(2, 5)}})
	for n, number := range map[geo.NodeID]uint64{0: 0, 2: 6} {
		l.Receive(n, &Sent{Number: number})
	}
	if j.CaughtUp() {
		t.Error("a sequencer has not told")
	}
	l.Receive(1, &Sent{})
	if j.CaughtUp() {
		t.Error("batch 5 is not here, and batch 6 has no place")
	}
	j.Receive(2, part{5, 1})
	if j.CaughtUp() {
		t.Error("batch 6 has no place")
	}
	l.Receive(0, &Positions{Term: 2, First: 9, Entries: []Ordered{{Batch: BatchID{2, 6}}}})
	if !j.CaughtUp() {
		t.Error("batch 6 is void")
	}
	same(t, "what is read", j.got, "mark of 3.1", "2/5")
	if other := NewReader(ReaderConfig[part]{Log: w.nodes[2].log}); !other.CaughtUp() {
		t.Error("a first incarnation lacks something")
	}
}

// A sequencer reports to a new incarnation the last batch that it sent to the predecessor.
func TestSentToThePredecessor(t *testing.T) {
	w := newWorld()
	w.lose = func(geo.NodeID, geo.NodeID, protocol.Message) bool { return true }
	w.request(3, 1, 2, 5)
	w.sent = nil
	w.nodes[3].log.Replaced(0, 1)
	same(t, "what it says", w.sent, "0: {0 5}")
}
