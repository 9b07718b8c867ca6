package deterministic

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// standing is a node whose reader is at a place in an order. The order contains only marks of new incarnations; marks
// holds them by place. Three regions with two partitions have one copy each. Region 1 is the nearest other region of
// regions 0 and 2.
type standing struct {
	*scene
	resets *Resets
	store  *store.Hash
	self   geo.NodeID
	place  uint64
	known  uint64
	marks  map[uint64]PassedMark
	done   map[geo.NodeID]uint32
	forgot []uint64
	timers int
}

func (s *standing) Send(to geo.NodeID, m protocol.Message) {
	s.out = append(s.out, fmt.Sprintf("%d: %v", to, m))
}
func (s *standing) After(time.Duration, protocol.Timer) { s.timers++ }

func newStanding(self geo.NodeID, incarnation uint32) *standing {
	s := &standing{scene: &scene{}, self: self, store: store.NewHash(), marks: map[uint64]PassedMark{}, done: map[geo.NodeID]uint32{}}
	topology := simload.Topology(2, 1, [][]float64{{0, 10, 20}, {10, 0, 10}, {20, 10, 0}})
	layout := topology.Full()
	s.x = New(Config{Self: self, Layout: layout, Procedures: simload.Procedures, Store: s.store, Env: s, Answer: func(o txn.Outcome) { s.out = append(s.out, fmt.Sprint(o.ID)) }})
	s.resets = NewResets(ResetConfig{
		Config: protocol.Config{Self: self, Incarnation: incarnation, Topology: topology, Store: s.store, Env: s}, Layout: layout, Executor: s.x, PieceTimer: 1, AgainTimer: 2,
		Advance: s.advance, Passed: func(n geo.NodeID) uint32 { return s.done[n] },
		Append: func(b []byte) []byte { return append(b, 77) },
		Ready:  func(place uint64, _ codec.Reader) bool { return place <= s.known },
		Begin: func(place uint64, r *codec.Reader) {
			for ; s.place < place; s.place++ {
				s.pass()
			}
			if r.Uint8() != 77 {
				panic("what the donor has appended is not there")
			}
		},
		Forget: func(place uint64) { s.forgot = append(s.forgot, place) },
	})
	return s
}

// pass records that the node has passed the mark at its current place.
func (s *standing) pass() {
	if m, ok := s.marks[s.place]; ok {
		s.done[m.Node] = m.Incarnation
	}
}

func (s *standing) advance() {
	for s.place <= s.known {
		m, ok := s.marks[s.place]
		at := s.place
		if passes := !ok || s.resets.Mark(m.Node, m.Incarnation, s.place); s.place != at {
			continue
		} else if !passes {
			return
		}
		s.pass()
		s.place++
	}
}

// order adds marks to the order, from place 10 on, and reads up to place upto.
func (s *standing) order(upto uint64, marks ...PassedMark) {
	for i, m := range marks {
		s.marks[10+uint64(i)] = m
	}
	s.known = upto
	s.advance()
	s.resets.Flush()
}

// rowsOf returns the rows of partition 0 or 1, all with the given value.
func rowsOf(partition, value uint64) (rows []store.Row) {
	for n := partition; n < 4; n += 2 {
		rows = append(rows, store.Row{Key: simload.Key(n), Record: store.Record{Value: binary.BigEndian.AppendUint64(nil, value)}})
	}
	return rows
}

// give delivers a state transfer with the rows as of the given place in the order. All rows have the given value.
func (s *standing) give(place, value uint64) {
	data := statetransfer.AppendRows(append(codec.AppendUvarint(nil, place), 77), rowsOf(uint64(s.self)%2, value))
	o := statetransfer.NewOutgoing(data, 0)
	s.resets.Receive(2, &statetransfer.Piece{ID: place + 1, Part: o.Next(1 << 20)})
	s.resets.Flush()
}

// value returns the value of the node's first row, or 0 if the row is absent.
func (s *standing) value() uint64 {
	v, ok := s.store.Value(simload.Key(uint64(s.self) % 2))
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func (s *standing) is(t *testing.T, what string, place, value uint64) {
	t.Helper()
	if s.place != place || s.value() != value {
		t.Errorf("%s: it stands at %d with rows of %d, want %d and %d", what, s.place, s.value(), place, value)
	}
}

var lost1, lost0 = PassedMark{1, 1}, PassedMark{0, 1} // both nodes of copy 0

// A node in the lost node's copy waits at the mark. It needs the rows as of the mark, and the driver's report of the
// new incarnation. If it continued before the report, its messages would be lost.
func TestCopyBeginsAnew(t *testing.T) {
	s := newStanding(0, 0)
	s.store.Replace(rowsOf(0, 1))
	s.order(15, lost1)
	s.is(t, "without rows", 10, 1)
	if s.resets.Pending() != 1 || s.resets.FullyReplicated() {
		t.Errorf("%d pending, whole %v", s.resets.Pending(), s.resets.FullyReplicated())
	}
	s.give(10, 2)
	s.is(t, "with rows, and without a word of the new incarnation", 10, 2)
	s.resets.Replaced(1, 1)
	s.resets.Flush()
	s.is(t, "when it is told", 16, 2)
	if got := fmt.Sprint(s.forgot); got != "[10]" || s.resets.Pending() != 0 {
		t.Errorf("it has forgotten what is before %s, %d pending", got, s.resets.Pending())
	}
	if got := s.said(); strings.Count(got, "passed the marks of node 1, incarnation 1") != 5 {
		t.Errorf("it says %q", got)
	}
}

// A new incarnation starts without rows. It may receive its rows before it reads its mark.
func TestNewIncarnationBegins(t *testing.T) {
	s := newStanding(1, 1)
	if !s.resets.Lacking() || s.resets.Pending() != 1 {
		t.Error("it has rows that nobody has given it")
	}
	s.give(10, 2)
	s.is(t, "before it has come to its mark", 1, 0)
	s.order(15, lost1)
	s.is(t, "at its mark", 16, 2)
	if s.resets.Lacking() || s.resets.Pending() != 0 {
		t.Error("it still lacks rows")
	}
}

// If all nodes of a region are lost, each of them has its own mark. A node at a mark can use the rows of a later mark
// once it knows the order up to the later mark. It cannot use the rows of an earlier mark.
func TestSeveralMarks(t *testing.T) {
	s := newStanding(0, 1)
	s.resets.Replaced(1, 1)
	s.order(10, lost0, lost1)
	s.give(11, 3)
	s.is(t, "while the later mark is not known", 10, 0)
	s.order(15)
	s.is(t, "when it is", 16, 3)

	s = newStanding(0, 1)
	s.resets.Replaced(1, 1)
	s.give(10, 2) // rows of the second mark above, which is the first mark here
	s.known, s.place = 15, 11
	s.marks = map[uint64]PassedMark{10: lost1, 11: lost0}
	s.advance()
	s.is(t, "with rows of an earlier mark", 11, 0)
	s.give(11, 3)
	s.is(t, "with those of its own", 16, 3)
	s.give(11, 4) // once more
	s.is(t, "once more", 16, 3)

	s = newStanding(0, 0)
	s.order(15, lost1, PassedMark{1, 2}, PassedMark{1, 3})
	s.resets.Replaced(1, 3)
	s.give(11, 2)
	s.give(12, 3)
	s.is(t, "with rows of the later ones", 16, 3)

	s = newStanding(2, 0) // the donor of both neighbouring copies
	s.resets.Replaced(0, 1)
	s.store.Replace(rowsOf(0, 5))
	s.order(15, lost0, PassedMark{4, 1})
	if got := len(s.resets.owed); got != 2 || s.resets.owed[0].to != 0 || s.resets.owed[1].to != 4 {
		t.Errorf("%d are owed rows", got)
	}
	s.marks[16] = lost1
	s.order(20)
	if got := len(s.resets.owed); got != 2 || s.resets.owed[1].to != 0 || s.resets.owed[1].node != 1 {
		t.Errorf("%d are owed rows, and those of an earlier mark are out of date", got)
	}
}

// A node that skips marks continues only when all new incarnations of its copy have been reported to it.
func TestPassesOverMarks(t *testing.T) {
	s := newStanding(0, 0)
	s.order(15, lost1, PassedMark{1, 2})
	s.give(11, 3)
	s.is(t, "told of none", 11, 3)
	s.resets.Replaced(1, 1)
	s.is(t, "told of the first", 11, 3)
	s.resets.Replaced(1, 2)
	s.is(t, "told of the last", 16, 3)

	s = newStanding(0, 1)
	s.done[1] = 1 // this node has skipped the mark of another node that was lost with it
	s.order(15, lost0)
	s.give(10, 3)
	s.is(t, "not told of the other one", 10, 3)
	s.resets.Replaced(1, 1)
	s.is(t, "told of the other one", 16, 3)
}

// A donor copies its rows when no transaction from before the mark is in flight, and then continues immediately.
func TestDonorDrains(t *testing.T) {
	s := newStanding(2, 0)
	s.store.Replace(rowsOf(0, 10))
	s.resets.Replaced(1, 1)
	s.x.Run(Place{1, 0}, simload.Txn(1, "a0+1 a1+1"), 0)
	s.said()
	s.order(15, PassedMark{0, 1})
	s.is(t, "while a transaction is under way", 10, 10)
	s.x.Reads(3, &Reads{Reads: []Read{{Place{1, 0}, 1, false, false}}, Values: []Value{{Bytes: binary.BigEndian.AppendUint64(nil, 10), Found: true}}})
	s.resets.Flush()
	s.is(t, "when it is over", 16, 11)
	if len(s.resets.owed) != 1 || s.resets.owed[0].to != 0 {
		t.Fatalf("%d nodes are owed rows", len(s.resets.owed))
	}
	r := codec.NewReader(s.resets.owed[0].data)
	if place, extra, rows := r.Uvarint(), r.Uint8(), statetransfer.ReadRows(&r); place != 10 || extra != 77 || len(rows) != 2 || binary.BigEndian.Uint64(rows[0].Value) != 11 {
		t.Errorf("it gives away %v of place %d", rows, place)
	}
}

// A donor sends its rows again if the receiver has lost them or has not answered. It stops when the receiver has passed
// the mark.
func TestOwedRowsAreSentAgain(t *testing.T) {
	s := newStanding(2, 0)
	s.store.Replace(rowsOf(0, 10))
	sent := func(want int) {
		t.Helper()
		if got := strings.Count(s.said(), "0: bytes"); got != want {
			t.Errorf("rows were sent %d times, want %d", got, want)
		}
	}
	s.order(15, lost0)
	sent(1)
	s.resets.Replaced(0, 1) // the rows were sent to its predecessor
	sent(1)
	s.resets.Fire(protocol.Timer{Kind: 2})
	sent(0) // the transfer is in progress
	s.resets.sender.Cancel(0)
	s.resets.Fire(protocol.Timer{Kind: 2})
	sent(1) // the transfer was aborted
	o := s.resets.owed[0]
	s.resets.Receive(0, &statetransfer.Ack{ID: s.resets.sent, Got: uint64(len(o.data))})
	s.resets.Fire(protocol.Timer{Kind: 2})
	sent(0) // the receiver has the rows
	s.resets.Receive(0, &Passed{[]PassedMark{{0, 1}, {9, 1}}})
	if len(s.resets.owed) != 0 {
		t.Error("they are owed for ever")
	}
	timers := s.timers
	s.resets.Fire(protocol.Timer{Kind: 2})
	if s.timers != timers {
		t.Error("it goes on looking for what is owed")
	}
}

// A database is fully replicated when every node has passed the marks of all new incarnations. A new incarnation
// receives the list of the marks that this node has passed.
func TestWholeWhenAllHavePassed(t *testing.T) {
	s := newStanding(4, 0)
	if !s.resets.FullyReplicated() {
		t.Error("nothing was lost")
	}
	s.resets.Replaced(1, 1)
	s.order(15, lost1)
	for _, n := range []geo.NodeID{0, 1, 2, 3, 5} {
		if s.resets.FullyReplicated() {
			t.Errorf("node %d has not passed the mark", n)
		}
		s.resets.Receive(n, &Passed{[]PassedMark{lost1}})
	}
	if !s.resets.FullyReplicated() {
		t.Error("all have passed the mark")
	}
	s.said()
	s.resets.Replaced(3, 1)
	s.expect(t, "to another new incarnation", "3: passed the marks of node 1, incarnation 1")
	if s.resets.FullyReplicated() || s.resets.has(3, 1) != 0 {
		t.Error("what its predecessor has passed it has not")
	}
}

// A new incarnation may not have caught up when it passes its mark. In that case, it reports the mark later.
func TestPassedWhenCaughtUp(t *testing.T) {
	s := newStanding(1, 1)
	caughtUp := false
	s.resets.c.Passed = func(n geo.NodeID) uint32 {
		if n == 1 && !caughtUp {
			return 0
		}
		return s.done[n]
	}
	s.give(10, 2)
	s.order(15, lost1)
	s.is(t, "at its mark", 16, 2)
	if got := s.said(); strings.Contains(got, "passed the marks") {
		t.Errorf("it lacks something, and says %q", got)
	}
	caughtUp = true
	s.resets.Flush()
	if got := s.said(); strings.Count(got, "passed the marks of node 1, incarnation 1") != 5 {
		t.Errorf("it has caught up, and says %q", got)
	}
	s.resets.Flush()
	s.expect(t, "once more", "")
}

// A reset discards the executor's state, except received reads of transactions after the place.
func TestReset(t *testing.T) {
	s := newScene(false, false)
	read := func(place uint64) *Reads {
		return &Reads{Reads: []Read{{Place{place, 0}, 1, false, false}}, Values: []Value{{Bytes: binary.BigEndian.AppendUint64(nil, 10), Found: true}}}
	}
	s.x.Run(Place{1, 0}, simload.Txn(1, "a0+1 a1+1"), 0)
	s.x.Run(Place{2, 0}, simload.Txn(2, "a0+1"), 2)
	s.x.Reads(1, read(3))
	s.x.Reads(1, read(6))
	if s.x.Idle() || s.x.Foreign() != 1 {
		t.Fatal("nothing is under way")
	}
	s.x.Reset(5)
	if !s.x.Idle() || s.x.Foreign() != 0 || len(s.x.running) != 1 {
		t.Errorf("idle %v, %d of others, %d running", s.x.Idle(), s.x.Foreign(), len(s.x.running))
	}
	s.expect(t, "what it had to say", "")
	s.x.Reads(1, read(1))
	s.x.Reads(1, read(4))
	if len(s.x.running) != 1 {
		t.Error("it keeps reads for what it will never run")
	}
	s.x.Run(Place{6, 0}, simload.Txn(3, "a0+1 a1+1"), 0)
	if got := s.said(); !strings.Contains(got, "t0.3 committed 0=11 1=11") {
		t.Errorf("%q", got)
	}
}
