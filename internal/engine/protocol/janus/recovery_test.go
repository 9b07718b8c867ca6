package janus

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// A replica that has promised a ballot accepts no proposal with a lower ballot, promises no lower ballot, and keeps its
// dependencies.
func TestAcceptorKeepsItsPromise(t *testing.T) {
	id := instance(0, 1)
	s := newScripted(t, 3, 1, 2)
	s.hear(0, preAccept(id, "a1+1"))
	s.sends("to 0: pre-accept ok 1: after {}")
	s.hear(1, &Prepare{id, ballot(2, 1)})
	s.sends("to 1: promise, ballot 2 of 1, has pre-accepted 0/1: after {}")

	s.hear(0, &Accept{Proposal{ID: id, Deps: deps(instance(0, 9))}, 0})
	s.sends("to 0: accept refused 0/1, ballot 2 of 1")
	s.hear(0, &Prepare{id, ballot(1, 0)})
	s.sends("to 0: promise refused 0/1, ballot 2 of 1")
	s.hear(0, &Accept{Proposal{ID: id, Noop: true}, ballot(1, 0)})
	s.sends("to 0: accept refused 0/1, ballot 2 of 1")

	s.hear(1, &Prepare{id, ballot(3, 1)})
	s.sends("to 1: promise, ballot 3 of 1, has pre-accepted 0/1: after {}")
	s.hear(1, &Accept{Proposal{ID: id, Deps: deps(instance(1, 5))}, ballot(3, 1)})
	s.sends("to 1: accept ok 0/1, ballot 3 of 1")
	s.hear(0, &Accept{Proposal{ID: id, Deps: deps(instance(0, 9))}, ballot(2, 0)})
	s.sends("to 0: accept refused 0/1, ballot 3 of 1")
	s.hear(0, &Prepare{id, ballot(4, 0)})
	s.sends("to 0: promise, ballot 4 of 0, has accepted 0/1: after {1/5}")
}

// A node that takes an instance over proposes the value that was accepted with the highest ballot, regardless of the
// order of the answers. The value with the lower ballot was not decided, but the value with the higher ballot may have
// been decided.
func TestHighestBallotIsProposed(t *testing.T) {
	id := instance(4, 1)
	lower := &Promise{
		Proposal: Proposal{ID: id, Deps: deps(instance(1, 7))}, Ballot: ballot(4, 0), Promised: ballot(4, 0),
		Accepted: ballot(1, 1), Phase: Accepted,
	}
	higher := &Promise{
		Proposal: Proposal{ID: id, Deps: deps(instance(2, 8))}, Ballot: ballot(4, 0), Promised: ballot(4, 0),
		Accepted: ballot(2, 2), Phase: Accepted,
	}
	for name, promises := range map[string][]*Promise{
		"the higher first": {higher, lower},
		"the lower first":  {lower, higher},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, 5, 1, 0)
			s.hear(4, preAccept(id, "a1+1"))
			s.hear(3, &Prepare{id, ballot(3, 3)})
			s.sends("to 4: pre-accept ok 1: after {}", "to 3: promise, ballot 3 of 3, has pre-accepted 4/1: after {}")
			s.pass(2 * time.Second)
			const prepare = "prepare 4/1, ballot 4 of 0"
			s.sends("to 1: "+prepare, "to 2: "+prepare, "to 3: "+prepare, "to 4: "+prepare)
			s.hear(1, promises[0])
			s.sends()
			s.hear(2, promises[1])
			const accept = "accept 4/1: after {2/8}, ballot 4 of 0"
			s.sends("to 1: "+accept, "to 2: "+accept, "to 3: "+accept, "to 4: "+accept)
		})
	}
}

// At all replicas, a no-op represents all earlier instances of its coordinator's row, even if none of them conflicts
// with it. Other instances may depend on the no-op alone. A replica that has not pre-accepted the no-op's instance
// reports its own instances of the row.
func TestNoopDependsOnItsRow(t *testing.T) {
	first, second, third := instance(0, 1), instance(0, 2), instance(0, 3)

	s := newScripted(t, 3, 1, 2)
	s.hear(0, preAccept(first, "a1+1"))
	s.hear(0, preAccept(second, "a2+1"))
	s.sends("to 0: pre-accept ok 1: after {}", "to 0: pre-accept ok 2: after {}")
	s.hear(1, &Prepare{third, ballot(1, 1)})
	s.sends("to 1: promise, ballot 1 of 1, has not seen 0/3: after {0/1 0/2}")

	s = newScripted(t, 3, 1, 1)
	s.hear(2, preAccept(instance(2, 1), "a3+1"))
	s.hear(0, preAccept(first, "a1+1"))
	s.hear(0, preAccept(second, "a2+1"))
	s.hear(0, preAccept(third, "a3+1"))
	for _, id := range []Instance{instance(2, 1), first, second} {
		s.hear(id.Node(), &Commit{Proposal{ID: id}})
	}
	s.sent = nil
	s.pass(2 * time.Second)
	s.sends("to 0: prepare 0/3, ballot 1 of 1", "to 2: prepare 0/3, ballot 1 of 1", "to 0: query rows of [2]", "to 2: query rows of [0]")
	s.hear(2, &Promise{
		Proposal: Proposal{ID: third, Deps: deps(first, second)}, Ballot: ballot(1, 1), Promised: ballot(1, 1),
	})
	const accept = "accept 0/3: no-op after {0/1 0/2 2/1}, ballot 1 of 1"
	s.sends("to 0: "+accept, "to 2: "+accept)
}

// After a promise for an unknown instance, a replica pre-accepts no further instances of the row with numbers up to
// that instance. Otherwise, the resulting no-op might not cover them.
func TestRowIsClosed(t *testing.T) {
	s := newScripted(t, 3, 1, 2)
	s.hear(1, &Prepare{instance(0, 3), ballot(1, 1)})
	s.sends("to 1: promise, ballot 1 of 1, has not seen 0/3: after {}")
	for seq, row := range []string{"a1+1", "a2+1", "a3+1", "a4+1"} {
		s.hear(0, preAccept(instance(0, uint64(seq)+1), row))
	}
	s.sends("to 0: pre-accept refused 1", "to 0: pre-accept refused 2", "to 0: pre-accept refused 3", "to 0: pre-accept ok 4: after {}")
	s.hear(1, &Prepare{instance(0, 1), ballot(1, 1)})
	s.sends("to 1: promise, ballot 1 of 1, has not seen 0/1: after {}")
}

// A node may learn of a higher ballot from a refusal, without having promised that ballot. When the Prepare with that
// ballot arrives, the node reports its state. An empty answer would mean "has not seen", and a no-op could replace a
// decided value.
func TestHeardOfBallotIsNotPromised(t *testing.T) {
	id := instance(0, 1)
	s := newScripted(t, 5, 1, 2)
	s.hear(0, preAccept(id, "a1+1"))
	s.hear(0, &Accept{Proposal{ID: id, Deps: deps(instance(1, 7))}, 0})
	s.sent = nil
	s.pass(2 * time.Second)
	const prepare = "prepare 0/1, ballot 1 of 2"
	s.sends("to 0: "+prepare, "to 1: "+prepare, "to 3: "+prepare, "to 4: "+prepare)
	s.hear(4, &Promise{Proposal: Proposal{ID: id}, Ballot: ballot(1, 2), Promised: ballot(1, 3)})
	s.hear(3, &Prepare{id, ballot(1, 3)})
	s.sends("to 3: promise, ballot 1 of 3, has accepted 0/1: after {1/7}")
	s.hear(2, &Accept{Proposal{ID: id, Noop: true}, ballot(1, 2)})
	s.sends("to 2: accept refused 0/1, ballot 1 of 3")
}

// A replica that has ordered and discarded an instance does not vote on it as if the instance were unknown.
func TestForgottenIsNotUnseen(t *testing.T) {
	old, later := instance(3, 1), instance(3, 2)
	s := newScripted(t, 2, 2, 0)
	s.hear(3, preAccept(old, "a0+1 a1+1"))
	s.hear(3, &Commit{Proposal{ID: old}})
	s.hear(3, &Progress{Stable: 1, Forget: 1})
	s.pass(tickEvery)
	s.hear(3, preAccept(later, "a0+1 a1+1"))
	s.hear(3, &Commit{Proposal{ID: later, Deps: []Dep{{ID: old, Partition: 1}}}})
	s.sends("to 3: pre-accept ok 1: after {}", "to 1: reads: 3.1=none", "to 3: pre-accept ok 2: after {}", "to 1: inquire [3/1]")
	s.hear(1, &Commit{Proposal{ID: old, Deps: []Dep{{ID: instance(1, 1), Partition: 1}}, T: preAccept(old, "a0+1 a1+1").T}})
	s.sends() // the replica does not inquire about the dependency of the old instance
	if n := s.r.graph.open; n != 0 {
		t.Errorf("%d instances are open", n)
	}
	s.hear(2, &Prepare{old, ballot(1, 2)})
	s.sends("to 2: ancestors: 3/1 after {}")
	s.hear(2, &Accept{Proposal{ID: old, Noop: true}, ballot(1, 2)})
	s.sends("to 2: ancestors: 3/1 after {}")
}

// A replica does not take over an instance that it knows only from another node's Prepare. It does so once another
// instance here depends on that instance.
func TestPreparedByAnotherIsLeftToHim(t *testing.T) {
	id := instance(0, 1)
	s := newScripted(t, 3, 1, 2)
	s.hear(1, &Prepare{id, ballot(1, 1)})
	s.sends("to 1: promise, ballot 1 of 1, has not seen 0/1: after {}")
	s.pass(10 * time.Second)
	s.sends()
	s.hear(1, preAccept(instance(1, 1), "a1+1"))
	s.hear(1, &Commit{Proposal{ID: instance(1, 1), Deps: deps(id)}})
	s.sends("to 1: pre-accept ok 1: after {}")
	s.pass(10 * time.Second)
	const prepare = "prepare 0/1, ballot 2 of 2"
	s.sends("to 0: "+prepare, "to 1: "+prepare, "to 0: query rows of [1]")
}

// Another node has taken over a coordinator's instance, and the only other answer is outstanding. After its timeout,
// the coordinator recovers the decision, because the node that has taken over may be lost together with the answer.
func TestRefusedAndUnanswered(t *testing.T) {
	s := newScripted(t, 3, 1, 0)
	s.r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+1"))
	s.sends("to 1: pre-accept 1=t1.1", "to 2: pre-accept 1=t1.1")
	s.hear(1, &PreAcceptOK{Seq: 1, Refused: true})
	s.sends()
	s.pass(200 * time.Millisecond)
	const prepare = "prepare 0/1, ballot 1 of 0"
	s.sends("to 1: "+prepare, "to 2: "+prepare)
}

// A proposer learns from a refusal that a replica has promised a higher ballot. It then leaves the instance to that
// ballot's owner. The refusal does not count as an acceptance. The owner may have reached a majority without that
// replica.
func TestRefusalIsNoAcceptance(t *testing.T) {
	id := instance(4, 1)
	s := newScripted(t, 5, 1, 0)
	s.hear(4, preAccept(id, "a1+1"))
	s.sends("to 4: pre-accept ok 1: after {}")
	s.pass(2 * time.Second)
	s.sent = nil
	fresh := &Promise{Proposal: Proposal{ID: id}, Ballot: ballot(1, 0), Promised: ballot(1, 0), Phase: PreAccepted}
	s.hear(1, fresh)
	s.hear(2, fresh)
	const accept = "accept 4/1: after {}, ballot 1 of 0"
	s.sends("to 1: "+accept, "to 2: "+accept, "to 3: "+accept, "to 4: "+accept)
	s.hear(1, &AcceptOK{ID: id, Ballot: ballot(1, 0), Promised: ballot(1, 3)})
	s.hear(2, &AcceptOK{ID: id, Ballot: ballot(1, 0), Promised: ballot(1, 0)})
	s.sends()
}
