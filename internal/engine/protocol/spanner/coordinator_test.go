package spanner

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// client is the environment of a coordinator. It records requests to leaseholders and counts answers to clients.
type client struct {
	*lone
	asked   []protocol.Message
	answers int
}

func (c *client) Send(_ geo.NodeID, m protocol.Message) { c.asked = append(c.asked, m) }
func (c *client) Reply(txn.Outcome)                     { c.answers++ }

// newClient returns a coordinator with a transaction that waits for group 1. The coordinator has sent a request to the
// leaseholder of term sent, and knows the leaseholder of term 6.
func newClient(t *testing.T, phase phase, open pending, sent uint64) (*client, *transaction, *part) {
	c := &client{lone: newLone(t)}
	c.env, c.node.Env = c, c
	c.leaseholders[1] = tenure{1, 6}
	x := c.begin(simload.Txn(1, "r1"), age(1))
	p := x.part(1)
	x.phase, x.waiting, p.open, p.sent = phase, 1, open, sent
	p.needs = []rerun.Need{{Range: txn.Point(simload.Key(1)), Mode: txn.Read}}
	return c, x, p
}

// A coordinator accepts a leaseholder's rows, validations and refusals only if they have the term of its last request.
// The leaseholder of a later term receives its own request, and may answer differently. Once a transaction is decided,
// refusals are ignored.
func TestAnswersOfAnotherTerm(t *testing.T) {
	rows := []raftgroup.Found{{{Value: make([]byte, 8)}}}
	for term, want := range map[uint64]bool{5: false, 6: true} {
		h := Header{Group: 1, Term: term, Number: 0}
		c, x, p := newClient(t, reading, toRead, 6)
		h.Number = x.number
		if c.rows(&Rows{h, rows}); (p.open == nothing) != want {
			t.Errorf("rows that were read in term %d and asked for in term 6: %d is open", term, p.open)
		}
		c, x, p = newClient(t, validating, toValidate, 6)
		h.Number = x.number
		if c.answer(&Answer{h, Validated, 0}); (p.open == nothing) != want {
			t.Errorf("validated in term %d, and asked for in term 6: %d is open", term, p.open)
		}
		for _, reply := range []Reply{Wounded, Lost} {
			c, x, p = newClient(t, committing, toPrepare, 6)
			h.Number = x.number
			if c.answer(&Answer{h, reply, 0}); p.refused != want {
				t.Errorf("%v in term %d, and asked for in term 6: refused for good %t", reply, term, p.refused)
			}
		}
		c, x, _ = newClient(t, resolving, toResolve, term)
		h.Number = x.number
		if c.answer(&Answer{h, Wounded, 0}); c.answers > 0 {
			t.Errorf("the client of a transaction that is decided is answered %d times more", c.answers)
		}
	}
}

// The leaseholder of the latest term is the current leaseholder, in any order of messages. It receives the open
// requests. A coordinator asks no leaseholder to validate the locks of an earlier one, or to cancel a preparation that
// it has not received.
func TestNewsOfALeaseholder(t *testing.T) {
	c, _, _ := newClient(t, committing, toPrepare, 6)
	c.follow(0, &raftgroup.Lead{Group: 1, Term: 5})
	if got := c.leaseholders[1]; got != (tenure{1, 6}) || len(c.asked) > 0 {
		t.Errorf("after the news of term 5 the leaseholder is %v, and asked %v", got, c.asked)
	}
	c.follow(0, &raftgroup.Lead{Group: 1, Term: 7})
	if got := c.leaseholders[1]; got != (tenure{0, 7}) {
		t.Errorf("after the news of term 7 the leaseholder is %v", got)
	}
	c, _, _ = newClient(t, validating, toValidate, 6)
	if c.follow(0, &raftgroup.Lead{Group: 1, Term: 7}); c.counters.restarts != 1 {
		t.Errorf("a transaction whose locks are lost goes on: %v", c.asked)
	}
	for sent, want := range map[uint64]int{5: 0, 6: 1} {
		c, x, _ := newClient(t, committing, toPrepare, sent)
		if c.contended(x); len(c.asked) != want {
			t.Errorf("asked to prepare in term %d, it is asked in term 6: %v", sent, c.asked)
		}
	}
}

// Rows of a snapshot read count only in the round of their request.
func TestRowsOfAnEarlierRound(t *testing.T) {
	for round, want := range map[uint64]bool{1: false, 2: true} {
		c, x, p := newClient(t, reading, toRead, 0)
		x.snapshot, x.round = true, 2
		c.snapshotRows(&SnapshotRows{Group: 1, Number: x.number, Round: round, Found: []raftgroup.Found{{{Value: make([]byte, 8)}}}})
		if (p.open == nothing) != want {
			t.Errorf("rows of round %d in round 2: %d is open", round, p.open)
		}
	}
}

// newFollower returns an incarnation of a node in a database of three regions. The node's group has no leader yet.
func newFollower(t *testing.T, incarnation uint32) *client {
	c := &client{lone: &lone{}}
	c.Replica = newReplica(protocol.Config{
		Self: 0, Incarnation: incarnation, Topology: simload.ThreeRegions(1), Params: protocoltest.Params(t, Engine, nil),
		Procedures: simload.Procedures, Store: store.NewVersioned(), Env: c,
	}, options{})
	return c
}

// Without a lease a leaseholder neither reads nor confirms locks: another leaseholder may have granted them.
func TestUnleased(t *testing.T) {
	for name, op := range map[string]protocol.Message{"a read": &Read{}, "a validation": &Ask{Request: Validate}} {
		c := newFollower(t, 0)
		g := c.groups[0]
		g.proceed(&holder{name: raftgroup.Name{Coordinator: 1, Number: 1}, op: op})
		if len(c.asked) > 0 || len(g.unleased) != 1 {
			t.Errorf("%s is answered by %v, and %d wait for a lease", name, c.asked, len(g.unleased))
		}
	}
}

// A new incarnation answers no reads of the past before it has the rows of its group.
func TestSnapshotsBeforeJoining(t *testing.T) {
	for incarnation, want := range map[uint32]bool{0: true, 1: false} {
		c := newFollower(t, incarnation)
		if got := c.groups[0].answerSnapshot(&snapshotRead{1, &SnapshotRead{Group: 0, Number: 1, Round: 1}}); got != want {
			t.Errorf("incarnation %d answers %t: %v", incarnation, got, c.asked)
		}
	}
}

// A procedure that fails on rows of several groups is answered once all groups have confirmed the locks. An older
// transaction may have written between the two reads, and the message about it may be delayed.
func TestFailuresAreValidated(t *testing.T) {
	zero := []raftgroup.Found{{{Value: make([]byte, 8)}}}
	for _, last := range []Reply{Validated, Wounded} {
		c, _, _ := newClient(t, reading, nothing, 6)
		c.leaseholders[0], c.leaseholders[1] = tenure{0, 6}, tenure{1, 6}
		x := c.begin(simload.Txn(2, "c0-2=5"), age(2))
		c.run(x)
		for _, p := range x.parts {
			c.rows(&Rows{Header{Group: p.group, Term: 6, Number: x.number}, zero})
		}
		if c.answers > 0 {
			t.Fatalf("a sum over two groups is answered before its locks are validated")
		}
		for i, p := range x.parts {
			reply := Validated
			if i == len(x.parts)-1 {
				reply = last
			}
			c.answer(&Answer{Header{Group: p.group, Term: 6, Number: x.number}, reply, 0})
		}
		if c.answers != 1 {
			t.Errorf("%v: %d answers, want 1", last, c.answers)
		}
	}
}
