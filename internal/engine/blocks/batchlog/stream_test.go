package batchlog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/base/geo"
)

// newStreaming returns a log with a single member, node 0, and two streams.
func newStreaming() *Log {
	l := New(Config{Self: 0, Nodes: 3, Members: []geo.NodeID{0}, Env: still{}, Streams: 2, Advance: func() {}})
	l.Start()
	return l
}

func taken(stream int, upto uint64) Ordered {
	return Ordered{BatchID{geo.NodeID(lastSequencer - stream), upto}, 1}
}

// Each entry includes a stream up to a later position, between batches of sequencers. No part of a stream is included
// twice, regardless of which node requests it.
func TestStreamsGoOn(t *testing.T) {
	l := newStreaming()
	m := l.member
	m.apply(entry(taken(0, 3), placed(1, 1), taken(1, 2), taken(0, 3), taken(0, 2), taken(0, 7), placed(1, 2)))
	m.apply(entry(taken(0, 5), taken(1, 3)))
	want := []Ordered{taken(0, 3), placed(1, 1), taken(1, 2), taken(0, 7), placed(1, 2), taken(1, 3)}
	if !cmp.Equal(m.recent, want) {
		t.Errorf("places have %v, want %v", m.recent, want)
	}
	if s := (&Positions{Entries: want[:3]}).String(); s != "positions from 0, term 0: stream 0 up to 3 1/1 stream 1 up to 2" {
		t.Errorf("in a trace: %s", s)
	}
}

// A leader proposes each part of a stream once per term.
func TestStreamsAreAskedForOnce(t *testing.T) {
	w := newWorld()
	for _, n := range w.nodes {
		n.log = New(Config{
			Self: n.self, Nodes: 4, Members: []geo.NodeID{0, 1, 2}, Audience: []geo.NodeID{0, 1, 2, 3}, Env: n,
			OrderTimer: 1, GroupTimer: 2, Streams: 1, Advance: func() {},
		})
		n.log.Start()
	}
	w.run(5 * time.Second)
	leader := w.nodes[0].log
	asked := func(upto uint64) int {
		leader.Take(0, upto)
		return len(leader.member.requests)
	}
	leader.member.waiting = true // a proposal is pending
	if a, b, c := asked(2), asked(2), asked(1); a != 1 || b != 1 || c != 1 {
		t.Errorf("%d, %d and %d are asked for, want one", a, b, c)
	}
	if d := asked(3); d != 2 {
		t.Errorf("%d are asked for, want two", d)
	}
	leader.member.flush()
	w.run(time.Second)
	if next := leader.member.next[4]; next != 4 || asked(3) != 0 {
		t.Errorf("the stream is taken up to %d, and %d are asked for, want none", next-1, len(leader.member.requests))
	}
	leader.member.waiting = true
	leader.member.taking[0] = 9 // proposed, and lost with the term
	leader.member.lead(0, 7)
	if n := asked(9); n != 1 {
		t.Errorf("%d are asked for in the next term, want one", n)
	}
	w.nodes[1].log.Take(0, 9)
	if n := len(w.nodes[1].log.member.requests); n > 0 {
		t.Errorf("%d are asked for by a member that does not lead", n)
	}
}

// Sequencers and streams that do not exist are rejected.
func TestUnknownSequencers(t *testing.T) {
	l := newStreaming()
	for _, o := range []Ordered{placed(3, 1), taken(2, 1), {Batch: BatchID{lastSequencer - 5, 1}}} {
		l.member.apply(entry(o))
		l.Receive(1, &Positions{Term: 1, Entries: []Ordered{o}})
		if l.member.count > 0 || l.Known() > 0 {
			t.Errorf("%v has a place", o)
		}
	}
	l.Receive(1, &Void{Batches: []BatchID{{lastSequencer, 5}}})
	if l.member.flush(); l.member.count > 0 {
		t.Error("a stream is void")
	}
}
