package coco

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const ballot = 1 << roundBits // the ballot of everybody()

// without returns a view of all nodes except node 2, in a later ballot.
func without() *View {
	v := everybody()
	v.Ballot, v.Members = ballot+10, v.Members[:2]
	return v
}

// A node follows the coordinator of the highest known ballot, in the epochs of its current view.
func TestWhatANodeHeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		before []protocol.Message
		m      protocol.Message
		epoch  uint64
		stops  bool
		views  int64
		states int
	}{
		"the next epoch begins":                  {nil, &Start{Turn{ballot, 4}}, 4, false, 1, 0},
		"another epoch begins":                   {nil, &Start{Turn{ballot, 5}}, 3, false, 1, 0},
		"an epoch of a lower ballot":             {nil, &Start{Turn{ballot - 1, 4}}, 3, false, 1, 0},
		"an epoch of a ballot without a view":    {[]protocol.Message{&Collect{ballot + 5}}, &Start{Turn{ballot + 5, 4}}, 3, false, 1, 1},
		"the epoch of before a higher ballot":    {[]protocol.Message{&Collect{ballot + 5}}, &Start{Turn{ballot, 4}}, 3, false, 1, 1},
		"its epoch is stopped":                   {nil, &Stop{Turn{ballot, 3}}, 3, true, 1, 0},
		"another epoch is stopped":               {nil, &Stop{Turn{ballot, 4}}, 3, false, 1, 0},
		"its epoch is stopped in a lower ballot": {nil, &Stop{Turn{ballot - 1, 3}}, 3, false, 1, 0},
		"stopped before a higher ballot":         {[]protocol.Message{&Collect{ballot + 5}}, &Stop{Turn{ballot, 3}}, 3, false, 1, 1},
		"asked in a higher ballot":               {[]protocol.Message{&Collect{ballot + 5}}, &Collect{ballot + 6}, 3, false, 1, 2},
		"asked in a lower ballot":                {[]protocol.Message{&Collect{ballot + 5}}, &Collect{ballot + 3}, 3, false, 1, 1},
		"a view of a lower ballot":               {[]protocol.Message{&Collect{ballot + 11}}, without(), 3, false, 1, 1},
		"the same view":                          {nil, everybody(), 3, false, 1, 0},
	} {
		r, w := alone(t, 1)
		r.Receive(0, everybody())
		for _, m := range tc.before {
			r.Receive(2, m)
		}
		r.Receive(0, tc.m)
		states := 0
		for _, s := range w.sent {
			if _, is := s.m.(*State); is {
				states++
			}
		}
		if r.epoch != tc.epoch || r.phase != running != tc.stops || r.counters.views != tc.views || states != tc.states {
			t.Errorf("%s: epoch %d, phase %d, %d views, %d states sent; want epoch %d, stopped %t, %d, %d",
				name, r.epoch, r.phase, r.counters.views, states, tc.epoch, tc.stops, tc.views, tc.states)
		}
	}
}

// A node outside the view starts none of the view's epochs, and accepts no messages of the epoch that it has abandoned.
func TestOutside(t *testing.T) {
	r, _ := alone(t, 2)
	r.Receive(0, everybody())
	r.Receive(1, &Done{2})
	r.Receive(0, &Done{3})
	if r.doneBy != 1 {
		t.Errorf("%d have ended epoch 3, want 1", r.doneBy)
	}
	r.Receive(0, without())
	r.Receive(1, &Done{3})
	if r.Receive(0, &Start{Turn{ballot + 10, 4}}); r.phase != outside || r.epoch != 3 || r.doneBy != 1 {
		t.Errorf("outside: phase %d, epoch %d, which %d have ended; want %d, 3, 1", r.phase, r.epoch, r.doneBy, outside)
	}
}

// A coordinator learns the last view from a snapshot of the group, and ignores a snapshot that it cannot read.
func TestCoordinatorRestored(t *testing.T) {
	r, _ := coordinating(t)
	r.coordination.restore(without().AppendTo(nil))
	if got := r.coordination.latest; !reflect.DeepEqual(got, without()) {
		t.Errorf("the last view is %v, want %v", got, without())
	}
	r.coordination.restore([]byte{1, 2})
	if got := r.coordination.latest; !reflect.DeepEqual(got, without()) {
		t.Errorf("after a short snapshot the last view is %v, want %v", got, without())
	}
}

// A coordinator accepts one answer from each member, and only for its current ballot and epoch.
func TestWhatACoordinatorTakes(t *testing.T) {
	begun := func() *coordinator {
		r, _ := coordinating(t)
		c := &r.coordination
		c.latest, c.ballot = everybody(), ballot
		c.latest.Members = c.latest.Members[:2]
		c.begin(3)
		return c
	}
	for b, want := range map[uint64]bool{ballot - 1: false, ballot: true} {
		c := begun()
		if c.alive(2, &Alive{b}); c.joining[2] != want {
			t.Errorf("a node that knows ballot %d joins: %t", b, c.joining[2])
		}
		if c.takeReady(1, &Ready{b}); c.ready[1] != want {
			t.Errorf("a node with the rows of ballot %d is ready: %t", b, c.ready[1])
		}
		if c.missed(&Missed{b}); (c.stage == collecting) != want {
			t.Errorf("messages of ballot %d are lost: stage %d", b, c.stage)
		}
		c = begun()
		c.stage = collecting
		if c.state(1, &State{Turn: Turn{b, 3}}); (c.states[1] != nil) != want {
			t.Errorf("a state for ballot %d: %v", b, c.states[1])
		}
		c = begun()
		c.stage = proposing
		v := everybody()
		v.Ballot = b
		if c.apply(v.AppendTo(nil)); (c.stage == executing) != want {
			t.Errorf("a view of ballot %d: stage %d", b, c.stage)
		}
	}
	for turn, want := range map[Turn]int{{ballot, 3}: 1, {ballot, 2}: 0, {ballot - 1, 3}: 0} {
		c := begun()
		c.expire(3)
		c.vote(1, &Vote{turn})
		if c.vote(1, &Vote{turn}); c.voted != want {
			t.Errorf("%d have voted after a vote of %v that comes twice, want %d", c.voted, turn, want)
		}
	}
}

// A new incarnation accepts only rows of the view in which it joins. A primary accepts only acknowledgements of these
// rows. Of two incarnations of a node, the later one wins.
func TestRowsOfAnotherView(t *testing.T) {
	for epoch, want := range map[uint64]int{3: 3, 5: 2} {
		r, _ := aloneAs(t, 2, 1)
		r.Receive(1, second())
		r.take(transfer{epoch, (&shardRows{}).appendTo(nil)})
		if len(r.awaiting) != want {
			t.Errorf("after rows of the view that begins with epoch %d those of %d shards are awaited, want %d", epoch, len(r.awaiting), want)
		}
	}
	for epoch, want := range map[uint64]int{3: 1, 5: 0} {
		r, _ := alone(t, 0)
		r.outgoing[2] = &transfer{5, []byte("rows")}
		if r.acknowledged(2, &statetransfer.Ack{ID: epoch, Got: 4}); len(r.outgoing) != want {
			t.Errorf("rows of epoch 5, and those of %d have arrived: %d transfers, want %d", epoch, len(r.outgoing), want)
		}
	}
	r, _ := alone(t, 0)
	r.Replaced(2, 2)
	if r.Replaced(2, 1); r.incarnations[2] != 2 {
		t.Errorf("the last incarnation is %d, want 2", r.incarnations[2])
	}
}

// The leader of the group becomes the coordinator once it has applied an entry of its term and thus knows all views. It
// becomes the coordinator again in each term that it leads, and stops when it is deposed.
func TestWhenALeaderCoordinates(t *testing.T) {
	var nodes []*Replica
	var worlds []*world
	for n := range geo.NodeID(3) {
		r, w := alone(t, n)
		nodes, worlds = append(nodes, r), append(worlds, w)
	}
	for _, r := range nodes {
		r.Start()
	}
	c := &nodes[0].coordination
	for delivered := 0; c.stage == idle; delivered++ {
		if delivered > 100 {
			t.Fatal("nobody coordinates")
		}
		for from, w := range worlds {
			sent := w.sent
			w.sent = nil
			for _, s := range sent {
				nodes[s.to].Receive(geo.NodeID(from), s.m)
				if c.stage != idle && !c.group.Current() {
					t.Fatal("it coordinates before it knows what was agreed on")
				}
			}
		}
	}
	c.term--
	if c.advance(); c.term != c.group.Term() || c.ballot>>roundBits != c.term || c.stage != collecting {
		t.Errorf("in term %d it goes on in ballot %d of term %d", c.group.Term(), c.ballot, c.term)
	}
	deposed, _ := alone(t, 0)
	deposed.coordination.stage = executing
	if deposed.coordination.advance(); deposed.coordination.stage != idle {
		t.Error("it coordinates and does not lead")
	}
}
