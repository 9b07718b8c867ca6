package batchlog

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// part is the data of a batch with a given size in bytes.
type part struct {
	number uint64
	bytes  int
}

func (p part) BatchNumber() uint64      { return p.number }
func (p part) Kind() uint8              { return 1 }
func (p part) Size() int                { return p.bytes }
func (p part) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, p.number) }

// newLeading returns the leader of a log with a single member, node 0. Nodes 0 to 3 are in four regions. Nodes 0 to 2
// form the first group of readers, nodes 1 and 3 the second. Batches need the given number of copies.
func newLeading(t *testing.T, copies int) (*Log, *[]Ordered) {
	var placed []Ordered
	var l *Log
	l = New(Config{
		Self: 0, Nodes: 4, Members: []geo.NodeID{0}, Env: still{}, Copies: copies, Readers: [][]geo.NodeID{{0, 1, 2}, {1, 3}},
		Region: func(n geo.NodeID) geo.Region { return geo.Region(n) },
		Advance: func() {
			for o, known := l.Next(); known; o, known = l.Next() {
				placed = append(placed, o)
				l.Pass()
			}
		},
	})
	l.Start()
	return l, &placed
}

func (still) After(time.Duration, protocol.Timer) {}
func (still) Buggify(*buggify.Point) bool         { return false }

func held(batches ...BatchID) *Held { return &Held{Batches: batches} }

// A batch gets its position when each group that reads it has its data in the required number of regions, including the
// sequencer's region.
func TestProofIsByGroup(t *testing.T) {
	both, first := Set(0).With(0).With(1), Set(0).With(0)
	for name, tc := range map[string]struct {
		copies  int
		readers Set
		told    map[geo.NodeID]uint64
		placed  bool
	}{
		"nobody has told":                                 {2, first, nil, false},
		"one other region has it":                         {2, first, map[geo.NodeID]uint64{2: 1}, true},
		"a later one implies it":                          {2, first, map[geo.NodeID]uint64{2: 7}, true},
		"an earlier one does not":                         {2, first, map[geo.NodeID]uint64{2: 0}, false},
		"the sequencer's region counts once":              {2, first, map[geo.NodeID]uint64{1: 1}, false},
		"a node that does not read it is no copy":         {2, first, map[geo.NodeID]uint64{3: 1}, false},
		"one of two groups lacks it":                      {2, both, map[geo.NodeID]uint64{2: 1}, false},
		"both groups have it":                             {2, both, map[geo.NodeID]uint64{2: 1, 3: 1}, true},
		"two of three regions":                            {3, first, map[geo.NodeID]uint64{2: 1}, false},
		"three of three":                                  {3, first, map[geo.NodeID]uint64{2: 1, 0: 1}, true},
		"a group in fewer regions than copies never does": {3, both, map[geo.NodeID]uint64{0: 1, 2: 1, 3: 1}, false},
	} {
		l, placed := newLeading(t, tc.copies)
		for n := range geo.NodeID(4) {
			if number, ok := tc.told[n]; ok {
				l.Receive(n, held(BatchID{1, number}))
			}
		}
		l.Receive(1, &OrderRequest{Requests: []Request{{1, tc.readers}}})
		l.member.flush()
		if got := len(*placed) == 1; got != tc.placed {
			t.Errorf("%s: has a place: %v, want %v", name, got, tc.placed)
		}
	}
}

// Batches of a sequencer get their positions in order. A batch that becomes void while it waits for proof does not
// delay later batches.
func TestUnprovenBatchesKeepTheirOrder(t *testing.T) {
	l, placed := newLeading(t, 2)
	two := Set(0).With(1)
	l.Receive(1, &OrderRequest{Requests: []Request{{1, 1}, {2, two}, {3, two}}})
	l.Receive(3, held(BatchID{1, 3}))
	if l.member.flush(); len(*placed) != 0 {
		t.Fatalf("%v have places, and the first waits for proof", *placed)
	}
	l.Receive(2, &Void{Batches: []BatchID{{1, 1}}})
	l.member.flush()
	l.member.flush()
	if want := []Ordered{{Batch: BatchID{1, 1}}, {BatchID{1, 2}, two}, {BatchID{1, 3}, two}}; !reflect.DeepEqual(*placed, want) {
		t.Errorf("places have %v, want %v", *placed, want)
	}
}

// A new leader receives reports on the data of all batches without a position, and on no other batch.
func TestNewLeaderIsToldWhatIsHeld(t *testing.T) {
	w := newWorld()
	l := w.nodes[3].log
	l.c.Copies, l.c.Region = 2, func(n geo.NodeID) geo.Region { return geo.Region(n) }
	l.holder = newHolder(l)
	w.lose = func(geo.NodeID, geo.NodeID, protocol.Message) bool { return true }
	l.Holds(BatchID{1, 4})
	l.Holds(BatchID{1, 4})
	l.Holds(BatchID{2, 1})
	same(t, "to the first leader", w.sent, "0: {0 0 [1/4]}")
	w.run(tellEvery)
	same(t, "together, since it has told lately", w.sent[1:], "0: {0 0 [2/1]}")
	l.Receive(2, &Positions{Term: 3, First: 0, Entries: []Ordered{{BatchID{1, 4}, 1}}})
	l.Receive(1, &Positions{Term: 4, First: 1})
	same(t, "to the next ones", w.sent[2:], "2: {0 0 [1/4 2/1]}", "1: {0 0 [2/1]}")
}

// reading is a reader in node 2 of a log that node 0 leads. It records the batches that it has read and the messages
// that it has sent.
type reading struct {
	*Reader[part]
	world *world
	got   []string
	told  []string
}

func newReading() *reading {
	r := &reading{world: newWorld()}
	n := r.world.nodes[3]
	r.world.lose = func(geo.NodeID, geo.NodeID, protocol.Message) bool { return true }
	n.log = New(Config{
		Self: 3, Nodes: 4, Members: []geo.NodeID{0}, Env: n, Copies: 2, Readers: [][]geo.NodeID{{0, 1, 2, 3}},
		Region: func(n geo.NodeID) geo.Region { return geo.Region(n) }, ProofTimer: 3,
		Advance: func() { r.Advance() }, Kept: func(p uint64) { r.Kept(p) },
	})
	r.Reader = NewReader(ReaderConfig[part]{
		Log: n.log, Read: func(o Ordered, d part) { r.got = append(r.got, o.Batch.String()) }, Foreign: func(geo.NodeID, part) int { return 1 },
		Copy: func(to, sequencer geo.NodeID, d part) {
			r.told = append(r.told, fmt.Sprintf("%d: %d/%d", to, sequencer, d.number))
		},
		WatchTimer: 4, FetchTimer: 5,
	})
	return r
}

func (r *reading) places(first uint64, batches ...BatchID) {
	m := &Positions{Term: 1, First: first}
	for _, b := range batches {
		m.Entries = append(m.Entries, Ordered{b, 1})
	}
	r.l.Receive(0, m)
}

// A reader without the data at its position asks the other readers in turn, but not the sequencer, for all its missing
// data. It accepts the data from any node and reads it in log order, each batch once.
func TestMissingDataIsFetched(t *testing.T) {
	r := newReading()
	r.Receive(1, part{1, 10})
	r.places(0, BatchID{1, 1}, BatchID{1, 2}, BatchID{2, 1}, BatchID{1, 3})
	same(t, "what is here", r.got, "1/1")
	if r.Pending() != 1 {
		t.Errorf("%d pending: data that may come from nobody is", r.Pending())
	}
	r.Receive(2, part{1, 10})
	r.world.sent = nil
	for range 3 {
		r.Fire(protocol.Timer{Kind: 5})
	}
	same(t, "who is asked", r.world.sent, "0: {0 [1/2 1/3]}", "2: {0 [1/2 1/3]}", "0: {0 [1/2 1/3]}")
	r.Fetched(1, part{3, 10})
	r.Fetched(1, part{9, 10}) // its batch has no position, so it was not requested
	same(t, "before its turn", r.got, "1/1")
	r.Fetched(1, part{2, 10})
	same(t, "in the order of the log", r.got, "1/1", "1/2", "2/1", "1/3")
	r.Fetched(1, part{3, 10}) // from the second reader asked
	if len(r.fetched) > 0 {
		t.Errorf("%d batches are kept for a place that has passed", len(r.fetched))
	}
	r.Receive(1, part{2, 10})
	r.Receive(1, part{3, 10})
	r.Fetched(1, part{3, 10})
	r.Receive(1, part{4, 10})
	r.places(4, BatchID{1, 4})
	same(t, "each once", r.got, "1/1", "1/2", "2/1", "1/3", "1/4")
	if r.Pending() != 0 {
		t.Errorf("%d pending", r.Pending())
	}
	r.world.sent = nil
	r.Fire(protocol.Timer{Kind: 5})
	same(t, "nothing is asked for", r.world.sent)
}

// On request, a reader sends other readers the data that it has read, until it learns that all readers have read the
// data. It also sends data that it has not read itself.
func TestReadersKeepWhatOthersMayLack(t *testing.T) {
	r := newReading()
	for number := range uint64(4) {
		r.Receive(1, part{number + 1, 10})
	}
	r.places(0, BatchID{1, 1}, BatchID{1, 2}, BatchID{1, 3})
	ask := func(want ...string) {
		t.Helper()
		r.told = nil
		r.Missing(2, &Missing{Batches: []BatchID{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 1}, {65535, 1}}})
		same(t, "told", r.told, want...)
	}
	ask("2: 1/1", "2: 1/2", "2: 1/3", "2: 1/4")
	r.l.Receive(0, &Kept{Position: 2})
	ask("2: 1/3", "2: 1/4")
	r.Receive(1, part{5, keptBytes - 10})
	r.places(3, BatchID{1, 4}, BatchID{1, 5})
	ask("2: 1/4")
	if r.keptNow != keptBytes {
		t.Errorf("%d bytes are kept", r.keptNow)
	}
}

// The leader determines from the readers' reports up to which position all of them have read, and announces that
// position.
func TestLeaderTellsWhatAllHaveRead(t *testing.T) {
	l, _ := newLeading(t, 2)
	var kept []uint64
	l.c.Kept = func(p uint64) { kept = append(kept, p) }
	for number := range uint64(5) {
		l.Receive(2, held(BatchID{1, number + 1}))
		l.Receive(1, &OrderRequest{Requests: []Request{{number + 1, 1}}})
		l.member.flush()
	}
	l.holder.tell()
	for n, p := range map[geo.NodeID]uint64{1: 4, 2: 3} {
		l.Receive(n, &Held{Position: p})
	}
	l.member.tellKept()
	l.Receive(3, &Held{Position: 5})
	l.member.tellKept()
	l.Receive(1, &Held{Position: 2}) // a report that was delayed
	l.member.tellKept()
	if want := []uint64{0, 3, 3}; !reflect.DeepEqual(kept, want) {
		t.Errorf("all have read up to %v, want %v", kept, want)
	}
}

// Void batches are dropped, up to the batch that the log names, and no longer count as pending. Later batches are read.
func TestVoidBatchesAreDropped(t *testing.T) {
	r := newReading()
	for number := range uint64(4) {
		r.Receive(1, part{number + 1, 10})
	}
	r.l.Receive(0, &Positions{Term: 1, Entries: []Ordered{{BatchID{1, 1}, 1}, {Batch: BatchID{1, 3}}}})
	if r.Pending() != 1 || r.Voided() != 2 || r.inbox[1].Front().number != 4 {
		t.Errorf("%d pending, %d are void, and %d comes next; want 1, 2 and 4", r.Pending(), r.Voided(), r.inbox[1].Front().number)
	}
	r.places(2, BatchID{1, 4})
	same(t, "what is read", r.got, "1/1", "1/4")
}
