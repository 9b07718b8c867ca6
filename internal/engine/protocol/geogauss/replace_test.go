package geogauss

import (
	"bytes"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// departs applies the change by which a server leaves and an incarnation takes its place.
func (r *Replica) departs(n geo.NodeID, last uint64, incarnation uint32) {
	r.members.apply((&Change{View: r.members.view, Server: n, Last: last, Incarnation: incarnation}).append())
}

// The successor of a lost server does not inherit the server's declarations or its write sets of an open epoch. Nor
// does it inherit the record of epochs that were passed on to the server.
func TestReplacedForgets(t *testing.T) {
	r, env := newServer(t)
	e := &r.epochs
	e.put(&Closed{Server: 1, Epoch: 5})
	e.requested(2, &Request{Server: 1})
	e.completed(2, 0, 5)
	e.receive(2, &WriteSet{Epoch: 6, ID: 1})
	r.Replaced(2, 1)
	if s := &e.servers[2]; s.completed != 0 || len(s.open) != 0 {
		t.Errorf("epochs up to %d are complete at the new incarnation, and %d write sets of its epoch have come", s.completed, len(s.open))
	}
	if e.collect(); len(e.servers[1].log) != 1 {
		t.Error("an epoch is forgotten that the new incarnation may lack")
	}
	env.sent = nil
	if e.requested(2, &Request{Server: 1}); len(env.sent) != 1 {
		t.Errorf("%d epochs are passed on to the new incarnation, want 1", len(env.sent))
	}
}

// A new incarnation asks all other servers in turn for missing epochs, including the server that closed them. That
// server's earlier messages went to the predecessor. A server that has kept its state does not ask the server that
// closed the epochs, because links lose no messages.
func TestWhoIsAskedForEpochs(t *testing.T) {
	for name, tc := range map[string]struct {
		incarnation uint32
		want        []geo.NodeID
	}{
		"there before":      {0, []geo.NodeID{2, 2, 2}},
		"a new incarnation": {1, []geo.NodeID{1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newServer(t)
			r.epochs.servers[r.self].incarnation, r.epochs.awaited = tc.incarnation, 1
			var asked []geo.NodeID
			for range tc.want {
				asked = append(asked, r.members.next())
			}
			if !slices.Equal(asked, tc.want) {
				t.Errorf("asks %v, want %v", asked, tc.want)
			}
		})
	}
}

// A new incarnation learns of all epochs, even if its predecessor received the epochs that it lacks, and the other
// servers are at rest.
func TestReplacedIsToldWhatThereIs(t *testing.T) {
	r, _ := newServer(t)
	if r.local.awake() {
		t.Fatal("it ends epochs without a reason")
	}
	if r.Replaced(2, 1); !r.local.awake() {
		t.Error("no end of an epoch will tell the new incarnation of those before it")
	}
}

// A lost server's report to the leader no longer counts: the server cannot pass on the reported epochs.
func TestReportOfALostServer(t *testing.T) {
	r, _ := newServer(t)
	m := &r.members
	m.round = round{server: 1, reports: []uint64{3, 0, 9}, have: []bool{true, false, true}}
	r.Replaced(2, 1)
	if m.round.have[2] || m.round.reports[2] != 0 || !m.round.have[0] {
		t.Errorf("the reports are %v, %v", m.round.have, m.round.reports)
	}
}

// The change determines which epochs of a lost server and its successor count, in any order of arrival. Epochs after an
// epoch that does not count are discarded as well, and can be requested again.
func TestEpochsOfBoth(t *testing.T) {
	const n = 1
	of := func(after, epoch, view uint64) *Closed {
		return &Closed{Server: n, After: after, Epoch: epoch, View: view}
	}
	for name, tc := range map[string]struct {
		before, after []*Closed
		want          []uint64
	}{
		"nothing of the old one's is left out":                  {[]*Closed{of(0, 5, 0), of(5, 7, 0)}, []*Closed{of(7, 9, 1)}, []uint64{5, 7, 9}},
		"the old one's last does not count":                     {[]*Closed{of(0, 7, 0), of(7, 8, 0)}, []*Closed{of(7, 9, 1)}, []uint64{7, 9}},
		"the old one's comes late":                              {[]*Closed{of(0, 7, 0)}, []*Closed{of(7, 8, 0), of(7, 9, 1)}, []uint64{7, 9}},
		"the new one's comes first":                             {[]*Closed{of(0, 7, 0), of(7, 9, 1)}, []*Closed{of(7, 8, 0), of(9, 11, 1)}, []uint64{7, 9, 11}},
		"the new one's seems to follow the old one's":           {[]*Closed{of(0, 7, 0), of(7, 9, 0), of(9, 11, 1)}, []*Closed{of(7, 9, 1)}, []uint64{7, 9}},
		"the old one's seems to follow the new one's":           {[]*Closed{of(0, 7, 0), of(7, 9, 1), of(9, 11, 0)}, []*Closed{of(9, 10, 1)}, []uint64{7, 9, 10}},
		"some that count come with the change or are asked for": {[]*Closed{of(0, 5, 0)}, []*Closed{of(7, 9, 1), of(5, 7, 0), of(7, 9, 1)}, []uint64{5, 7, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newServer(t)
			for _, c := range tc.before {
				r.epochs.put(c)
			}
			r.departs(n, 7, 1)
			for _, c := range tc.after {
				r.epochs.put(c)
			}
			s := &r.epochs.servers[n]
			var got []uint64
			kept := 0
			for _, c := range s.log {
				got = append(got, c.Epoch)
				kept += keptSize(c)
			}
			if !slices.Equal(got, tc.want) || s.ended != tc.want[len(tc.want)-1] || kept != r.epochs.kept {
				t.Errorf("the epochs are %v up to %d, want %v; %d bytes are said to be kept of %d", got, s.ended, tc.want, r.epochs.kept, kept)
			}
		})
	}
}

// If a server leaves and is lost afterwards, its last epoch that counts stays the same, however many epochs it has
// ended in the meantime. Its successor's epochs follow that epoch.
func TestLostAfterItHadLeft(t *testing.T) {
	r, _ := newServer(t)
	e := &r.epochs
	s := &e.servers[1]
	e.put(&Closed{Server: 1, Epoch: 50})
	r.departs(1, 50, 0)
	e.put(&Closed{Server: 1, Epoch: 60, After: 50, View: 1})
	e.base = 60
	e.servers[1].completed, e.servers[2].completed = 60, 60
	e.collect()
	r.Replaced(1, 1)
	if n := r.replace.unsettled(); n != 1 {
		t.Fatalf("server %d is not settled", n)
	}
	r.departs(1, 0, 1)
	e.put(&Closed{Server: 1, Epoch: 70, After: 50, View: 2})
	if len(s.tenures) != 1 || s.tenures[0].last != 50 || s.boundary != 50 || s.ended != 70 || r.members.left != 1 || r.replace.unsettled() != nobody {
		t.Errorf("its tenures are %v, and its epochs %v up to %d behind %d", s.tenures, s.log, s.ended, s.boundary)
	}
}

// The position up to which a lost server's epochs were passed on is void for its successor. A server that requests the
// successor's epochs from the boundary on may have dropped epochs that it received before it knew the boundary.
func TestPassedOnOfBoth(t *testing.T) {
	r, env := newServer(t)
	e := &r.epochs
	ask := func(after uint64) (sent int) {
		env.sent = nil
		e.requested(2, &Request{Server: 1, After: after})
		return len(env.sent)
	}
	e.put(&Closed{Server: 1, Epoch: 7})
	e.put(&Closed{Server: 1, Epoch: 12, After: 7})
	if n := ask(0); n != 2 {
		t.Fatalf("%d epochs are passed on", n)
	}
	r.departs(1, 7, 1)
	e.put(&Closed{Server: 1, Epoch: 9, After: 7, View: 1})
	e.put(&Closed{Server: 1, Epoch: 11, After: 9, View: 1})
	for i, tc := range []struct {
		after uint64
		sent  int
	}{{7, 2}, {7, 2}, {9, 0}} {
		if n := ask(tc.after); n != tc.sent {
			t.Errorf("request %d: %d epochs are passed on after %d, want %d", i, n, tc.after, tc.sent)
		}
	}
}

// Discarded epochs of a server that did not count are not required if all epochs before the next kept epoch are merged.
func TestGapBehindWhatIsMerged(t *testing.T) {
	r, env := newServer(t)
	e := &r.epochs
	e.put(&Closed{Server: 1, Epoch: 50})
	e.base = 89
	if e.put(&Closed{Server: 1, Epoch: 95, After: 90}); e.servers[1].ended != 50 {
		t.Error("an epoch was taken although one before it is missing")
	}
	e.base = 90
	if e.put(&Closed{Server: 1, Epoch: 95, After: 90}); e.servers[1].ended != 95 || e.servers[1].find(91).Epoch != 95 {
		t.Error("an epoch was not taken although all before it is merged")
	}
	for _, tc := range []struct {
		after uint64
		sent  int
	}{{0, 1}, {50, 0}, {90, 1}} {
		env.sent, e.servers[1].passedOn, e.servers[1].counted = nil, nil, 90
		if e.requested(2, &Request{Server: 1, After: tc.after}); len(env.sent) != tc.sent {
			t.Errorf("%d epochs are passed on after %d, want %d: none behind a gap", len(env.sent), tc.after, tc.sent)
		}
	}
}

// If discarded epochs are merged, and their server did not count in them, an empty epoch replaces them. Other servers
// may need the following epochs, and otherwise could not store them before they have merged the same epochs.
func TestForgottenEpochsThatDoNotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		counted, base, after uint64
		want                 []uint64
	}{
		"it did not count":                  {50, 90, 50, []uint64{90, 95}},
		"the other one lacks more":          {50, 90, 49, nil},
		"it counted":                        {51, 90, 50, nil},
		"not all of it is merged":           {50, 89, 50, nil},
		"nothing is forgotten that matters": {50, 90, 90, []uint64{95}},
		"all of it is forgotten":            {50, 99, 50, []uint64{95}},
		"all of it is there":                {50, 99, 95, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, env := newServer(t)
			e, other := &r.epochs, server{}
			e.base = 90
			e.put(&Closed{Server: 1, Epoch: 95, After: 90})
			e.base, e.servers[1].counted, other.ended = tc.base, tc.counted, tc.after
			if e.base > 95 {
				e.servers[1].log = nil
			}
			e.requested(2, &Request{Server: 1, After: tc.after})
			var got []uint64
			for _, m := range env.sent {
				c := m.(*Closed)
				if got = append(got, c.Epoch); c.After != other.ended {
					t.Errorf("an epoch after %d comes after %d", c.After, other.ended)
				}
				other.ended = c.Epoch
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("passed on are %v, want %v", got, tc.want)
			}
		})
	}
}

// newIncarnation returns the third of three servers, which has lost its state and has not received another server's
// state yet.
func newIncarnation(t *testing.T, given map[string]string) (*Replica, *recorder) {
	t.Helper()
	p, errs := Engine.Resolve(given)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	env := &recorder{}
	return newReplica(protocol.Config{
		Self: 2, Incarnation: 1, Topology: simload.ThreeRegions(1), Params: p, Procedures: simload.Procedures, Store: Engine.NewStore(), Env: env,
	}, none), env
}

// A server without a state declares nothing and reports nothing, not even to itself. It closes no epochs, passes on no
// epochs and sends no state, whatever its predecessor has declared.
func TestSilentWithoutState(t *testing.T) {
	r, env := newIncarnation(t, nil)
	r.Receive(0, &End{Epoch: 5, Wanted: 5, Busy: true})
	r.Receive(0, &End{Epoch: 6, After: 5, Wanted: 5, Busy: true})
	r.Receive(0, &Inquiry{Server: 1})
	r.Receive(0, &Request{Server: 0, After: 5})
	r.Receive(0, &StateRequest{})
	if r.Submit(&txn.Transaction{ID: 1}); len(env.sent) > 0 || r.local.held.Len() != 1 {
		t.Errorf("it has sent %v, and holds %d transactions", env.sent, r.local.held.Len())
	}
	if r.members.begin(1); r.members.round.have[2] || r.epochs.servers[1].limited {
		t.Error("it reports to itself")
	}
	if r.Pending() == 0 || r.FullyReplicated() {
		t.Error("it is quiet, or whole")
	}
}

// donor returns a server with a state: rows, a deleted row, merged epochs, and later epochs.
func donor(t *testing.T, given map[string]string) (*Replica, *recorder) {
	t.Helper()
	r, env := newServer(t)
	r.merge.number = 8
	r.store.Put(simload.Key(1), store.Record{Version: 5, Writer: 9, Value: []byte("five")})
	r.store.Put(simload.Key(3), store.Record{Value: []byte("loaded")})
	for version, row := range []uint64{0, 0, 0, 0, 7, 0, 6, 2} {
		if row > 0 {
			r.store.Put(simload.Key(row), store.Record{Version: uint64(version)})
			r.store.Delete(simload.Key(row), uint64(version), txn.ID(row))
		}
	}
	e := &r.epochs
	for n := range e.servers {
		e.put(&Closed{Server: geo.NodeID(n), Epoch: 10})
		e.put(&Closed{Server: geo.NodeID(n), After: 10, Epoch: 12, Sets: []*WriteSet{{Epoch: 12, ID: txn.MakeID(uint32(n), 1), Start: 8}}})
	}
	e.base, e.filled = 10, 10
	r.departs(2, 12, 1)
	r.Replaced(2, 1)
	env.sent = nil
	return r, env
}

// stateOf returns the state that r sends in answer to a StateRequest for a view, or nil.
func stateOf(r *Replica, env *recorder, view uint64) *statetransfer.Piece {
	env.sent = nil
	r.replace.requested(2, &StateRequest{View: view})
	for _, m := range env.sent {
		if p, ok := m.(*statetransfer.Piece); ok {
			return p
		}
	}
	return nil
}

// A new incarnation receives another server's state: the rows with their versions, the deletions and the unmerged
// epochs. It has kept the messages that arrived during the transfer. It closes every epoch after its predecessor's last
// valid epoch, and merges its predecessor's unanswered write sets.
func TestState(t *testing.T) {
	from, env := donor(t, nil)
	state := stateOf(from, env, 1)
	r, sent := newIncarnation(t, nil)
	r.members.apply((&Change{Server: 2, Last: 12, Incarnation: 1}).append())
	r.Receive(0, &WriteSet{Epoch: 13, ID: 5})
	r.Receive(0, &End{Epoch: 13, After: 12, Count: 2}) // one of the two write sets was sent to the predecessor
	r.Receive(0, &End{Epoch: 14, After: 13, Wanted: 14})
	r.Receive(1, &End{Epoch: 14, After: 12, Wanted: 14})
	sent.sent = nil
	r.Receive(0, state)
	e := &r.epochs
	if r.replace.lacking || e.base != 10 || e.filled != 10 || r.merge.number != 8 || e.wanted != 14 || r.members.redeclare {
		t.Errorf("it is at epoch %d in view %d with %d epochs merged, and wants %d", e.base, e.baseView, r.merge.number, e.wanted)
	}
	if e.frontier != 12 || len(e.ready) != 1 || len(e.ready[0].sets) != 3 {
		t.Errorf("epochs up to %d are complete: %v", e.frontier, e.ready)
	}
	if e.servers[0].ended != 12 || e.servers[1].ended != 14 {
		t.Errorf("it has epochs up to %d and %d", e.servers[0].ended, e.servers[1].ended)
	}
	if !slices.ContainsFunc(sent.sent, func(m protocol.Message) bool { q, ok := m.(*Request); return ok && *q == Request{0, 12} }) {
		t.Errorf("it does not ask for the epochs that it lacks: %v", sent.sent)
	}
	if r.local.ended < 12 || r.local.running() < 13 {
		t.Errorf("its own epochs go on from %d", r.local.ended)
	}
	var want, got []change
	from.store.EachChange(func(k txn.Key, rec store.Record, deleted bool) { want = append(want, change{k, rec, deleted}) })
	r.store.EachChange(func(k txn.Key, rec store.Record, deleted bool) { got = append(got, change{k, rec, deleted}) })
	same := func(a, b change) bool {
		return a.key == b.key && a.deleted == b.deleted && a.record.Version == b.record.Version && a.record.Writer == b.record.Writer &&
			bytes.Equal(a.record.Value, b.record.Value)
	}
	for _, c := range want {
		if !slices.ContainsFunc(got, func(o change) bool { return same(c, o) }) {
			t.Errorf("it lacks %v", c)
		}
	}
	if len(got) != len(want) || len(want) != 5 {
		t.Errorf("it has %d rows, want %d", len(got), len(want))
	}
	r.store.Trim(6) // in the order of deletions: the deletions of versions 4 and 6 are trimmed, and version 7 stays
	if r.store.Newest(simload.Key(7)) != 0 || r.store.Newest(simload.Key(6)) != 0 || r.store.Newest(simload.Key(2)) != 7 {
		t.Error("deletions are not trimmed in their order")
	}
	for n := range 2 {
		r.Receive(geo.NodeID(n), &Completion{View: 1, Epoch: 12})
	}
	if e.base != 12 || r.merge.committed != 3 {
		t.Errorf("%d write sets are committed up to epoch %d", r.merge.committed, e.base)
	}
}

// A state that is ahead of a server's known membership waits until the server knows that membership.
func TestStateOfALaterView(t *testing.T) {
	from, env := donor(t, nil)
	from.departs(1, 12, 0)
	state := stateOf(from, env, 1)
	r, _ := newIncarnation(t, nil)
	r.members.apply((&Change{Server: 2, Last: 12, Incarnation: 1}).append())
	if r.Receive(0, state); !r.replace.lacking {
		t.Fatal("a state of view 2 is taken in view 1")
	}
	r.departs(1, 12, 0)
	if r.settle(); r.replace.lacking {
		t.Error("the state is not taken in its view")
	}
}

// A server sends its state to a new incarnation that knows no later membership changes. The server must know which of
// the lost server's epochs count, and must have these epochs. It sends no state to a new incarnation that has already
// ended epochs.
func TestWhoGivesItsState(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*Replica)
		view    uint64
		given   bool
	}{
		"it knows what counts":        {func(*Replica) {}, 1, true},
		"the other one knows less":    {func(*Replica) {}, 0, true},
		"the other one knows more":    {func(*Replica) {}, 2, false},
		"it is asked by yet another":  {func(r *Replica) { r.Replaced(2, 2) }, 1, false},
		"it lacks epochs that count":  {func(r *Replica) { r.epochs.servers[2].ended = 11 }, 1, false},
		"but has merged them":         {func(r *Replica) { r.epochs.servers[2].ended, r.epochs.base = 11, 12 }, 1, true},
		"the other one has spoken":    {func(r *Replica) { r.epochs.servers[2].ended = 13 }, 1, false},
		"it has no state itself":      {func(r *Replica) { r.replace.lacking = true }, 1, false},
		"it is giving it already":     {func(r *Replica) { r.replace.requested(2, &StateRequest{View: 1}) }, 1, false},
		"the last transfer was ended": {func(r *Replica) { r.replace.sender.Cancel(2) }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, env := donor(t, nil)
			tc.prepare(r)
			if given := stateOf(r, env, tc.view) != nil; given != tc.given {
				t.Errorf("given: %v", given)
			}
		})
	}
}

// The next server may be lost only when the latest incarnations of all servers are members again. They must also have
// the epochs that were merged here while a lost server may have been among the servers that acknowledged them.
func TestWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*Replica)
		want    bool
	}{
		"all have all":                     {func(*Replica) {}, true},
		"one has declared less":            {func(r *Replica) { r.epochs.servers[1].completed = 9 }, false},
		"one has declared it before":       {func(r *Replica) { r.epochs.servers[1].completedView = 0 }, false},
		"one lacks epochs of the lost one": {func(r *Replica) { r.epochs.servers[2].ended, r.epochs.base = 11, 11 }, false},
		"one is no member":                 {func(r *Replica) { r.departs(1, 12, 0) }, false},
		"one is about to leave":            {func(r *Replica) { r.members.limitTo(1) }, false},
		"one is lost again":                {func(r *Replica) { r.Replaced(1, 1) }, false},
		"it has no state":                  {func(r *Replica) { r.replace.lacking = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newServer(t)
			r.epochs.filled, r.epochs.base, r.epochs.servers[2].ended = 10, 12, 12
			r.departs(2, 12, 1)
			r.epochs.servers[2].incarnation = 1 // the Raft group is not notified: it counts its members separately
			r.members.apply((&Change{View: 1, Server: 2, Joins: true}).append())
			for n := range r.epochs.servers {
				r.epochs.completed(geo.NodeID(n), 2, 10)
			}
			tc.prepare(r)
			if got := r.FullyReplicated(); got != tc.want {
				t.Errorf("whole: %v", got)
			}
		})
	}
}

// replaces returns all nodes or none, depending on the acknowledgements and the number of nodes.
func TestReplaces(t *testing.T) {
	for name, tc := range map[string]struct {
		acks  string
		nodes int
		want  int
	}{
		"three": {acksMajority, 3, 3}, "all must acknowledge": {acksAll, 3, 3}, "two": {acksMajority, 2, 0}, "nobody agrees on what counts": {acksNone, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			topology := simload.ThreeRegions(1)
			if tc.nodes == 2 {
				topology = simload.TwoRegions(1)
			}
			if got := replaces(topology, protocol.Params{"acks": tc.acks}); len(got) != tc.want {
				t.Errorf("%v", got)
			}
		})
	}
}
