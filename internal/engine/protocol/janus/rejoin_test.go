package janus

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// All nodes can be replaced if the other replicas of each partition are a majority.
func TestReplaces(t *testing.T) {
	square := func(regions int) [][]float64 {
		delays := make([][]float64, regions)
		for i := range delays {
			delays[i] = make([]float64, regions)
		}
		return delays
	}
	for name, tc := range map[string]struct {
		topology *geo.Topology
		want     int
	}{
		"two copies":                 {simload.Topology(3, 1, square(2)), 0},
		"three copies":               {simload.Topology(2, 1, square(3)), 6},
		"three copies in one region": {simload.Topology(2, 3, square(1)), 6},
		"four copies in two regions": {simload.Topology(1, 2, square(2)), 4},
		"too many for ballots":       {simload.Topology(100, 1, square(3)), 0},
	} {
		if got := len(Engine.Replaceable(tc.topology, protocoltest.Params(t, Engine, nil))); got != tc.want {
			t.Errorf("%s: %d nodes, want %d", name, got, tc.want)
		}
	}
}

// give makes a scripted node send its state to the new incarnation of another scripted environment.
func (s *scripted) give(to *scripted) {
	piece := statetransfer.NewOutgoing(s.r.rejoin.state(to.r.self), 0)
	to.hear(s.r.self, &statetransfer.Piece{ID: 1, Part: piece.Next(1 << 20)})
}

// rejoin makes the new incarnation s join. others are the two other replicas, which supply their states; last is the
// last number that each of them has sent to the predecessor.
func (s *scripted) rejoin(last uint64, others ...*scripted) {
	s.t.Helper()
	for _, o := range others {
		s.hear(o.r.self, &Rejoin{Step: welcome, Number: last})
	}
	for _, o := range others {
		o.give(s)
	}
	s.sent = nil
}

// A new incarnation requests the state of the other nodes only after all of them have dropped its predecessor's votes.
// Otherwise the state would lack instances that are decided later with such a vote.
func TestAsksWhenVotesAreDropped(t *testing.T) {
	s := newIncarnation(t, 3, 1, 2, 1)
	s.hear(0, &Rejoin{Step: welcome, Number: 7})
	s.sends()
	s.hear(1, &Rejoin{Step: welcome})
	s.sends("to 0: ask for the state", "to 1: ask for the state")
}

// For an instance that its predecessor may have voted for, a new incarnation reports only the decision. It votes on
// instances that are sent to it; these follow all instances that the other nodes know.
func TestNoVoteForThePredecessor(t *testing.T) {
	one, two, three, next := instance(0, 1), instance(0, 2), instance(1, 1), instance(0, 3)
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	b.hear(0, preAccept(one, "a1+1"))
	b.hear(0, &Commit{Proposal{ID: one}})
	a.hear(1, preAccept(three, "a1+1"))
	s := newIncarnation(t, 3, 1, 2, 1)
	s.rejoin(2, a, b)
	if n := s.r.graph.open; n != 1 {
		t.Errorf("%d are open, want the one that is undecided", n)
	}

	s.hear(1, &Prepare{two, ballot(1, 1)})
	s.hear(1, &Accept{Proposal{ID: three}, 0})
	s.hear(1, &Prepare{three, ballot(1, 1)})
	s.sends()
	s.hear(1, &Prepare{one, ballot(1, 1)})
	s.sends("to 1: commit 0/1: after {}")
	s.hear(0, preAccept(next, "a1+1"))
	s.sends("to 0: pre-accept ok 3: after {0/1 1/1}")
	s.hear(1, &Prepare{next, ballot(1, 1)})
	s.sends("to 1: promise, ballot 1 of 1, has pre-accepted 0/3: after {0/1 1/1}")
}

// A new incarnation takes over an instance that its predecessor may have voted for. It does not count its own answer,
// and its ballots differ from its predecessor's ballots.
func TestTakesOverWithoutItself(t *testing.T) {
	id := instance(1, 1)
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	a.hear(1, preAccept(id, "a1+1"))
	s := newIncarnation(t, 3, 1, 2, 1)
	s.rejoin(2, a, b)
	s.pass(10 * time.Second)
	const prepare = "prepare 1/1, ballot 1 of 5"
	s.sends("to 0: "+prepare, "to 1: "+prepare)
	fresh := &Promise{Proposal: Proposal{ID: id}, Ballot: ballot(1, 5), Promised: ballot(1, 5), Phase: PreAccepted}
	s.hear(0, fresh)
	s.pass(time.Second)
	s.sends()
	s.hear(1, fresh)
	const accept = "accept 1/1: after {}, ballot 1 of 5"
	s.sends("to 0: "+accept, "to 1: "+accept)
	s.hear(0, &AcceptOK{ID: id, Ballot: ballot(1, 5), Promised: ballot(1, 5)})
	s.sends()
	s.hear(1, &AcceptOK{ID: id, Ballot: ballot(1, 5), Promised: ballot(1, 5)})
	const commit = "commit 1/1: after {}"
	s.sends("to 0: "+commit, "to 1: "+commit)
}

// A new incarnation may learn of a higher ballot for an instance that its predecessor may have voted for. It then
// leaves the instance to the owner of that ballot, although it promises nothing. Otherwise the new incarnations of a
// region would outbid each other indefinitely.
func TestLeavesToHigherBallots(t *testing.T) {
	id := instance(1, 1)
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	a.hear(1, preAccept(id, "a1+1"))
	s := newIncarnation(t, 3, 1, 2, 1)
	s.rejoin(2, a, b)
	s.pass(10 * time.Second)
	const prepare = "prepare 1/1, ballot 1 of 5"
	s.sends("to 0: "+prepare, "to 1: "+prepare)
	for range 20 {
		s.hear(0, &Prepare{id, ballot(2, 0)})
		s.pass(500 * time.Millisecond)
	}
	s.sends()
	s.pass(10 * time.Second)
	const again = "prepare 1/1, ballot 3 of 5"
	s.sends("to 0: "+again, "to 1: "+again)
}

// A node that has counted a vote of a lost node asks all replicas again, and does not wait for the lost node's vote. A
// later vote of the same node may be from the new incarnation, which has received the states of the other nodes by
// then.
func TestVotesOfLostNodesAreDropped(t *testing.T) {
	s := newScripted(t, 5, 1, 0)
	s.hear(1, preAccept(instance(1, 1), "a1+1"))
	s.r.Submit(simload.Txn(1, "a1+1"))
	s.sent = nil
	s.hear(4, &PreAcceptOK{Seq: 1})
	s.r.Replaced(4, 1)
	const prepare = "prepare 0/1, ballot 1 of 0"
	s.sends("to 4: welcome: instances up to 1 were sent to the predecessor", "to 1: "+prepare, "to 2: "+prepare, "to 3: "+prepare, "to 4: "+prepare)

	s = newScripted(t, 3, 1, 0)
	s.r.Submit(simload.Txn(1, "a1+1"))
	s.hear(1, &PreAcceptOK{Seq: 1})
	s.sent = nil
	s.r.Replaced(2, 1)
	s.sends("to 2: welcome: instances up to 1 were sent to the predecessor", "to 1: accept 0/1: after {}", "to 2: accept 0/1: after {}")
}

// Other nodes take over the instances of a lost coordinator immediately, although its new incarnation sends messages.
// They also take over instances that the lost coordinator had taken over.
func TestOrphansAreTakenOver(t *testing.T) {
	own, of := instance(2, 1), instance(1, 1)
	s := newScripted(t, 3, 1, 0)
	s.hear(2, preAccept(own, "a1+1"))
	s.hear(1, preAccept(of, "a2+1"))
	s.hear(2, &Prepare{of, ballot(1, 2)})
	s.r.Replaced(2, 1)
	s.sent = nil
	s.pass(200 * time.Millisecond)
	s.sends("to 1: prepare 1/1, ballot 2 of 0", "to 2: prepare 1/1, ballot 2 of 0", "to 1: prepare 2/1, ballot 1 of 0", "to 2: prepare 2/1, ballot 1 of 0")
}

// A node must learn that all replicas of its partition have ordered the instances that it knows. The row of a lost
// coordinator becomes stable only when every other node has learned this.
func TestRowGoesOnWhenAllHaveOrdered(t *testing.T) {
	id := instance(2, 1)
	s := newScripted(t, 3, 1, 0)
	s.hear(2, preAccept(id, "a1+1"))
	s.hear(2, &Commit{Proposal{ID: id}})
	s.r.Replaced(2, 1)
	s.sent = nil
	s.pass(tickEvery)
	const all = "told all of node 2 before incarnation 1"
	s.sends("to 1: commit 2/1: after {}", "to 1: "+all, "to 2: commit 2/1: after {}", "to 2: "+all)
	s.hear(1, &Rejoin{ordered, 2, 1})
	s.pass(tickEvery)
	s.sends()
	s.hear(2, &Rejoin{ordered, 2, 1})
	s.pass(tickEvery)
	s.sends("to 2: settled all before incarnation 1")
	if s.r.FullyReplicated() {
		t.Error("what the lost node has coordinated is not known to be stable")
	}
	s.hear(2, &Progress{Stable: protocol.NumbersBefore(1)})
	if !s.r.FullyReplicated() {
		t.Error("what the lost node has coordinated is stable")
	}

	// A receiver of told sends ordered once it has ordered these instances and the driver has reported the new incarnation
	// to it.
	s = newScripted(t, 3, 1, 1)
	s.hear(0, &Commit{Proposal{ID: id, T: preAccept(id, "a1+1").T, Deps: deps(instance(0, 1))}})
	s.hear(0, &Rejoin{told, 2, 1})
	s.r.Replaced(2, 1)
	s.pass(tickEvery)
	s.hear(0, preAccept(instance(0, 1), "a1+1"))
	s.sent = nil
	s.pass(tickEvery)
	s.sends()
	s.hear(0, &Commit{Proposal{ID: instance(0, 1)}})
	s.pass(tickEvery)
	if !slices.Contains(s.sent, "to 0: ordered all of node 2 before incarnation 1") {
		t.Errorf("it has sent %v", s.sent)
	}

	// The new incarnation considers its row stable once all other nodes have reported that its predecessors' instances are
	// settled.
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	n := newIncarnation(t, 3, 1, 2, 1)
	n.rejoin(0, a, b)
	n.hear(0, &Rejoin{Step: settled, Number: 1})
	n.pass(tickEvery)
	if n.r.rows[2].stable != 0 || n.r.FullyReplicated() {
		t.Errorf("its row is stable up to %d before all have settled", n.r.rows[2].stable)
	}
	n.hear(1, &Rejoin{Step: settled, Number: 1})
	n.pass(tickEvery)
	if n.r.rows[2].stable != protocol.NumbersBefore(1) || !n.r.FullyReplicated() {
		t.Errorf("its row is stable up to %d, want %d", n.r.rows[2].stable, protocol.NumbersBefore(1))
	}
}

// No other node may be lost before all replicas have ordered everything that was sent to the predecessor. Until then,
// fewer replicas can vote on these instances.
func TestWholeWhenAllIsStable(t *testing.T) {
	a, b := newScripted(t, 3, 1, 0), newScripted(t, 3, 1, 1)
	s := newIncarnation(t, 3, 1, 2, 1)
	if s.r.FullyReplicated() || s.r.Pending() == 0 {
		t.Error("it is whole before it has joined")
	}
	s.rejoin(2, a, b)
	s.hear(0, &Rejoin{Step: settled, Number: 1})
	s.hear(1, &Rejoin{Step: settled, Number: 1})
	s.pass(tickEvery)
	s.hear(0, &Progress{Stable: 2})
	s.hear(1, &Progress{Stable: 1})
	if s.r.FullyReplicated() {
		t.Error("it is whole before an instance of node 1 is stable")
	}
	s.hear(1, &Progress{Stable: 2})
	if !s.r.FullyReplicated() {
		t.Error("it is not whole when all is stable")
	}
}

// While a node waits for another partition's reads of a transaction, its Heard does not include the transaction.
// Otherwise the other nodes would discard their reads of the transaction, which a new incarnation in their copy may
// need.
func TestForgottenWhenExecuted(t *testing.T) {
	id := instance(2, 1)
	s := newScripted(t, 3, 2, 0)
	s.hear(2, preAccept(id, "a0+1 a1+1"))
	s.hear(2, &Commit{Proposal{ID: id}})
	s.hear(2, &Progress{Stable: 1})
	s.pass(tickEvery)
	if told := s.r.garbage.peers[2].told; told.Done != 1 || told.Heard != 0 {
		t.Errorf("it has said %+v, and has ordered 1 and executed none", told)
	}
	s.hear(1, noReads(id))
	s.pass(tickEvery)
	if told := s.r.garbage.peers[2].told; told.Heard != 1 {
		t.Errorf("it has said %+v, and has executed 1", told)
	}
}

// The predecessor's progress report no longer counts, because the new incarnation may not have ordered the same
// instances.
func TestProgressOfTheLost(t *testing.T) {
	s := newScripted(t, 3, 1, 0)
	s.r.Submit(simload.Txn(1, "a1+1"))
	s.hear(1, &PreAcceptOK{Seq: 1})
	s.hear(2, &PreAcceptOK{Seq: 1})
	s.hear(2, &Progress{Done: 1})
	s.r.Replaced(2, 1)
	s.hear(1, &Progress{Done: 1})
	s.pass(tickEvery)
	if n := s.r.rows[0].stable; n != 0 {
		t.Errorf("the row is stable up to %d, and node 2 has said nothing", n)
	}
	s.hear(2, &Progress{Done: 1})
	s.pass(tickEvery)
	if n := s.r.rows[0].stable; n != 1 {
		t.Errorf("the row is stable up to %d, want 1", n)
	}
}

// If a node knows only the ID of a lost coordinator's instance, the instance becomes void once all other instances of
// the row are stable. No other node may know the instance any more.
func TestNamesAreVoid(t *testing.T) {
	s := newScripted(t, 3, 1, 0)
	s.hear(1, preAccept(instance(1, 1), "a1+1"))
	s.hear(1, &Commit{Proposal{ID: instance(1, 1), Deps: deps(instance(2, 1))}})
	s.r.Replaced(2, 1)
	s.hear(2, &Progress{Stable: protocol.NumbersBefore(1)})
	s.pass(tickEvery)
	if n := s.r.graph.open; n != 0 {
		t.Errorf("%d instances are open", n)
	}
	s.hear(2, &Progress{Stable: protocol.NumbersBefore(1), Forget: protocol.NumbersBefore(1)})
	s.hear(1, &Progress{Stable: 1, Forget: 1})
	s.pass(tickEvery)
	if n := len(s.r.records); n != 0 {
		t.Errorf("%d records are kept", n)
	}
}

// Reads for another partition of the copy are kept until all nodes have executed the instance. They are sent to a new
// incarnation of that partition's node. Duplicate reads count only once.
func TestReadsAreSentAgain(t *testing.T) {
	id := instance(0, 1)
	s := newScripted(t, 3, 3, 0) // nodes 0 to 2 form one copy
	s.r.Submit(preAccept(id, "a0+1 a1+1 a2+1").T)
	for n := geo.NodeID(1); n < 9; n++ {
		s.hear(n, &PreAcceptOK{Seq: 1})
	}
	if !slices.Contains(s.sent, "to 1: reads: 0.1=none") || !slices.Contains(s.sent, "to 2: reads: 0.1=none") {
		t.Fatalf("it has sent %v", s.sent)
	}
	s.sent = nil
	s.r.Replaced(1, 1)
	s.sends("to 1: welcome: instances up to 1 were sent to the predecessor", "to 1: reads: 0.1=none")
	s.r.Replaced(4, 1) // a node of another copy
	s.sends("to 4: welcome: instances up to 1 were sent to the predecessor")

	for _, from := range []geo.NodeID{1, 1, 2, 2} {
		if s.r.executor.Executed > 0 {
			t.Error("it was executed without the reads of node 2")
		}
		s.hear(from, noReads(id))
		s.hear(from, noReads(id))
		if from == 2 {
			break
		}
	}
	if n := s.r.executor.Executed; n != 1 {
		t.Errorf("%d were executed", n)
	}
}

// noReads returns the reads of a participant that does not have the row.
func noReads(id Instance) *deterministic.Reads {
	return &deterministic.Reads{Reads: []deterministic.Read{{Place: place(id), Values: 1}}, Values: make([]deterministic.Value, 1)}
}

// A new incarnation has its donor's rows. It does not repeat the instances that the donor has executed, but sends the
// donor's reads for them to its copy. If a client waits for the outcome of such an instance, the client learns that the
// outcome is unknown. The new incarnation executes the instances that the donor has only ordered, in the donor's order.
func TestExecutesForTheDonor(t *testing.T) {
	over, answered, first, second := instance(2, 1), instance(5, 1), instance(2, 2), instance(1, 1)
	donor := newScripted(t, 3, 2, 0)
	donor.hear(2, preAccept(over, "a0+5 a1+1"))
	donor.hear(2, &Commit{Proposal{ID: over}})
	donor.hear(5, preAccept(answered, "a2+1 r1"))
	donor.hear(5, &Commit{Proposal{ID: answered}})
	donor.hear(1, noReads(over))
	donor.hear(1, noReads(answered))
	donor.hear(2, preAccept(first, "a0+1 a1+1"))
	donor.hear(2, &Commit{Proposal{ID: first, Deps: deps(over)}})
	donor.hear(1, preAccept(second, "a0+1 a1+1"))
	donor.hear(1, &Commit{Proposal{ID: second, Deps: deps(first)}})
	if n := donor.r.executor.Executed; n != 2 {
		t.Fatalf("%d were executed at the donor", n)
	}

	s := newIncarnation(t, 3, 2, 4, 1)
	for _, n := range []geo.NodeID{0, 1, 2, 3, 5} {
		s.hear(n, &Rejoin{Step: welcome, Number: 2})
	}
	for _, n := range []geo.NodeID{1, 2, 3, 5} {
		newScripted(t, 3, 2, n).give(s)
	}
	s.sent = nil
	donor.give(s)
	want := []string{
		"to 0: has 161 bytes of state 1", "to 0: has the state", "to 5: reads: 2.1=none 2.2=0000000000000005", "to 5: answers: t6.1 unknown",
	}
	if !slices.Equal(s.sent, want) {
		t.Errorf("it has sent %q, want %q", s.sent, want)
	}
	if a, b := store.Digest(s.r.store), store.Digest(donor.r.store); a != b {
		t.Errorf("its rows are not the donor's: %x, %x", a, b)
	}
	s.sent = nil
	s.hear(5, &Inquire{[]Instance{first}})
	s.sends("to 5: ask others for 2/2")
	s.hear(5, noReads(over))
	s.hear(5, noReads(second))
	if n := s.r.executor.Executed; n != 0 {
		t.Errorf("%d were executed out of their turn", n)
	}
	s.hear(5, noReads(first))
	if n := s.r.executor.Executed; n != 2 {
		t.Errorf("%d were executed", n)
	}
}
