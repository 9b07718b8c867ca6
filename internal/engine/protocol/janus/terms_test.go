package janus

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// An answer counts only for the stage and the ballot of its request. Node 0 of five replicas coordinates an instance
// and waits for the other four.
func TestAnswersOfAnotherBallot(t *testing.T) {
	id, own := instance(0, 1), ballot(4, 0)
	preAccepted := &PreAcceptOK{Seq: 1}
	accepted := func(b Ballot) *AcceptOK { return &AcceptOK{ID: id, Ballot: b, Promised: b} }
	promised := func(b Ballot) *Promise {
		return &Promise{Proposal: Proposal{ID: id}, Ballot: b, Promised: b, Phase: PreAccepted}
	}
	for name, tc := range map[string]struct {
		stage stage
		m     any
		want  int
	}{
		"pre-accepted":                  {preAccepting, preAccepted, 1},
		"pre-accepted, while preparing": {preparing, preAccepted, 0},
		"pre-accepted, while accepting": {accepting, preAccepted, 0},
		"promised":                      {preparing, promised(own), 1},
		"promised, in a lower ballot":   {preparing, promised(ballot(3, 0)), 0},
		"promised, in a higher ballot":  {preparing, promised(ballot(5, 0)), 0},
		"promised, while accepting":     {accepting, promised(own), 0},
		"accepted":                      {accepting, accepted(own), 1},
		"accepted, in a lower ballot":   {accepting, accepted(ballot(3, 0)), 0},
		"accepted, in a higher ballot":  {accepting, accepted(ballot(5, 0)), 0},
		"accepted, while preparing":     {preparing, accepted(own), 0},
	} {
		s := newScripted(t, 5, 1, 0)
		r := s.r
		r.Submit(simload.Txn(txn.MakeID(0, 1), "a1+1"))
		rec := r.find(id)
		rec.promised = own
		r.coordinator.begin(rec, tc.stage, own, []int{0})
		switch m := tc.m.(type) {
		case *PreAcceptOK:
			r.coordinator.preAccepted(3, m)
		case *Promise:
			r.recovery.promised(3, m)
		case *AcceptOK:
			r.coordinator.accepted(3, m)
		}
		if got := rec.lead.tallies[0].grants; got != tc.want {
			t.Errorf("%s: %d answers count, want %d", name, got, tc.want)
		}
	}
}

// A replica abandons its recovery of an instance when it learns of a higher promised ballot, or promises a higher
// ballot itself.
func TestLeftToAHigherBallot(t *testing.T) {
	id, own, higher := instance(0, 1), ballot(4, 0), ballot(4, 3)
	for name, hear := range map[string]func(*Replica){
		"a replica has promised it": func(r *Replica) {
			r.recovery.promised(3, &Promise{Proposal: Proposal{ID: id}, Ballot: own, Promised: higher})
		},
		"it promises it": func(r *Replica) { r.recovery.prepare(3, &Prepare{id, higher}) },
	} {
		s := newScripted(t, 5, 1, 0)
		s.r.Submit(simload.Txn(txn.MakeID(0, 1), "a1+1"))
		rec := s.r.find(id)
		rec.promised = own
		s.r.coordinator.begin(rec, preparing, own, []int{0})
		if hear(s.r); rec.lead != nil || rec.promised != higher {
			t.Errorf("%s: it goes on with %v, and has heard of %v", name, rec.lead, rec.promised)
		}
	}
}

// A report that the instances of a lost node are ordered refers to one incarnation. The next incarnation has other
// instances.
func TestOrderedOfAnIncarnation(t *testing.T) {
	for number, want := range map[uint64]int{1: 1, 2: 0} {
		s := newScripted(t, 3, 1, 0)
		s.r.Replaced(2, 2)
		s.r.Replaced(2, 1)
		if got := s.r.rejoin.incarnations[2]; got != 2 {
			t.Fatalf("the last incarnation is %d, want 2", got)
		}
		f := &s.r.rejoin.formers[2]
		f.await = []geo.NodeID{1}
		if s.hear(1, &Rejoin{Step: ordered, Node: 2, Number: number}); len(f.await) != want {
			t.Errorf("all of incarnation %d is ordered, and of 2 %d nodes are waited for, want %d", number, len(f.await), want)
		}
	}
	for number, want := range map[uint64]bool{1: false, 2: true} {
		s := newIncarnation(t, 3, 1, 2, 2)
		if s.hear(1, &Rejoin{Step: settled, Number: number}); s.r.rejoin.settledBy[1] != want {
			t.Errorf("all before incarnation %d is ordered, and before 2: %t", number, s.r.rejoin.settledBy[1])
		}
	}
	for known, want := range map[uint32]int{1: 1, 2: 0} {
		s := newScripted(t, 3, 1, 0)
		s.r.Replaced(2, known)
		s.hear(1, &Rejoin{Step: told, Node: 2, Number: 2})
		if s.r.rejoin.tick(); len(s.r.rejoin.unordered) != want {
			t.Errorf("with incarnation %d known, %d questions about 2 wait, want %d", known, len(s.r.rejoin.unordered), want)
		}
	}
}

// A new incarnation treats messages to its predecessor as received, because the transferred states include the open
// instances. Otherwise the row would never become stable.
func TestReceivedByThePredecessor(t *testing.T) {
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	s := newIncarnation(t, 3, 1, 2, 1)
	s.rejoin(7, a, b)
	s.pass(tickEvery)
	for n := range 2 {
		if row := &s.r.rows[n]; row.received != 7 || row.done != 7 {
			t.Errorf("of node %d it has got instances up to %d and done up to %d, want 7", n, row.received, row.done)
		}
	}
}
