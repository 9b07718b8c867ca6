package janus

import (
	"slices"
	"testing"
)

// The members of a component are discarded together. In this test, two instances form a component, and the row of one
// of them is stable. Another partition inquires about that instance. The answer must contain the cycle. Otherwise the
// other partition would order the two instances differently.
func TestComponentIsForgottenAtOnce(t *testing.T) {
	one, other := instance(0, 1), instance(3, 1)
	s := newScripted(t, 2, 2, 2) // nodes 0 and 2 hold partition 0
	s.hear(0, preAccept(one, "a0+1"))
	s.hear(3, preAccept(other, "a0+1"))
	s.hear(0, &Commit{Proposal{ID: one, Deps: deps(other)}})
	s.hear(3, &Commit{Proposal{ID: other, Deps: deps(one)}})
	if n := s.r.counters.components; n != 1 {
		t.Fatalf("there are %d components", n)
	}
	s.hear(0, &Progress{Stable: 1, Forget: 1})
	s.pass(tickEvery)
	s.sent = nil
	s.hear(3, &Inquire{[]Instance{one}})
	s.sends("to 3: ancestors: 0/1 after {3/1}")

	s.hear(3, &Progress{Stable: 1, Forget: 1})
	s.pass(tickEvery)
	if n := len(s.r.records); n != 0 {
		t.Errorf("%d records are kept when all are stable", n)
	}
	s.hear(3, &Inquire{[]Instance{one}})
	s.sends("to 3: ancestors: 0/1 after {}")
	if slices.ContainsFunc(s.r.rows, func(r row) bool { return len(r.kept) > 0 }) {
		t.Error("a row keeps what is forgotten")
	}
}

// An instance that is known only by its ID, or as a no-op without a transaction, is discarded with its row. It stays if
// another instance waits for it.
func TestNamesAreForgotten(t *testing.T) {
	prepared, noop, first, second := instance(2, 1), instance(2, 2), instance(2, 3), instance(2, 4)
	s := newScripted(t, 2, 2, 1) // nodes 1 and 3 hold partition 1
	s.hear(3, &Prepare{second, ballot(1, 3)})
	s.hear(3, &Prepare{prepared, ballot(1, 3)})
	s.hear(3, &Commit{Proposal{ID: noop, Noop: true}})
	if n := s.r.Pending(); n != 0 || len(s.r.records) != 3 {
		t.Errorf("%d records, %d pending, want 3 that nobody waits for", len(s.r.records), n)
	}
	s.hear(0, preAccept(instance(0, 1), "a0+1 a1+1"))
	s.hear(0, &Commit{Proposal{ID: instance(0, 1), Deps: []Dep{{ID: first}, {ID: second}}}})
	s.sent = nil
	s.hear(2, &Progress{Stable: 4, Forget: 4})
	s.pass(tickEvery)
	s.hear(0, &Ancestors{[]Ancestor{{ID: first}, {ID: second}}})
	s.hear(0, &Progress{Stable: 1, Forget: 1})
	s.pass(tickEvery)
	s.pass(tickEvery)
	if n := len(s.r.records); n != 0 || s.r.graph.open != 0 {
		t.Errorf("%d records are kept, %d are open", n, s.r.graph.open)
	}
}
