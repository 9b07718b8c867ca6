package oceanvista

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
)

// A node drops messages of a suspected server, even of the current epoch, because it has already reported the server's
// functors. Messages of a later view wait. After a new incarnation has joined, only its messages count.
func TestWhoIsTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*Replica)
		view    uint64 // how far the message's view is ahead of this node's view
		want    int64
	}{
		"an active server":       {func(*Replica) {}, 0, 1},
		"a suspected one":        {func(r *Replica) { r.applies(&suspicion{server: 1}) }, 0, 0},
		"one in a later view":    {func(*Replica) {}, 1, 0},
		"another incarnation":    {func(r *Replica) { r.replace.known[1] = 1 }, 0, 0},
		"of the one that joined": {func(r *Replica) { r.replace.known[1], r.membership.servers[1].marked = 1, 1 }, 0, 1},
	} {
		r, _ := node(t, 0, 0, 1, nil)
		tc.prepare(r)
		view, epoch := r.membership.view+tc.view, r.membership.servers[1].epoch
		r.Receive(1, &Write{View: view, Epoch: epoch, Functor: functorOf(at(5, 1), "a1+1")})
		r.Receive(1, &Gossip{View: view, Epoch: epoch, Watermark: at(7, 1)})
		if heard := r.watermarks.peers[1].watermark > 0; r.functors.received != tc.want || heard != (tc.want == 1) {
			t.Errorf("%s: %d functors are taken, and its watermark %t; want %d", name, r.functors.received, heard, tc.want)
		}
	}
}

// A report counts for its epoch if that epoch is undecided and all pieces of the report have arrived.
func TestReportsOfAnEpoch(t *testing.T) {
	for name, tc := range map[string]struct {
		reports []Report
		want    bool // the reports are a complete report about epoch 1
	}{
		"whole":                        {[]Report{{Epoch: 1}}, true},
		"of an epoch that is decided":  {[]Report{{Epoch: 0}}, false},
		"of the next epoch":            {[]Report{{Epoch: 2}}, false},
		"an earlier one comes later":   {[]Report{{Epoch: 1}, {Epoch: 0}}, true},
		"the next one has come before": {[]Report{{Epoch: 2}, {Epoch: 1}}, false},
		"a piece":                      {[]Report{{Epoch: 1, More: true}}, false},
		"two pieces":                   {[]Report{{Epoch: 1, More: true}, {Epoch: 1, Piece: 1}}, true},
		"pieces of two epochs":         {[]Report{{Epoch: 2, More: true}, {Epoch: 1, Piece: 1}}, false},
		"the second piece":             {[]Report{{Epoch: 1, Piece: 1}}, false},
	} {
		r, _ := node(t, 0, 0, 1, nil)
		s := &r.membership.servers[1]
		s.epoch = 1
		for i := range tc.reports {
			tc.reports[i].Server = 1
			r.membership.reported(2, &tc.reports[i])
		}
		if got := s.reports[2].of(1); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// A piece of a report is appended only to pieces about the same epoch.
func TestReportsOfTwoEpochs(t *testing.T) {
	for epoch, want := range map[uint64]bool{0: false, 1: true} {
		r, _ := node(t, 0, 0, 1, nil)
		s := &r.membership.servers[1]
		s.epoch, s.reports[2] = 1, &Report{Server: 1, Epoch: epoch, More: true}
		if r.membership.reported(2, &Report{Server: 1, Epoch: 1, Piece: 1}); s.reports[2].of(1) != want {
			t.Errorf("behind a piece of epoch %d the second piece of epoch 1 makes a whole report: %t", epoch, !want)
		}
	}
}

// A node reports to each new leader, and each leader proposes a decision, because the previous leader's decision may be
// lost.
func TestEachLeaderIsTold(t *testing.T) {
	r, w := node(t, 0, 0, 1, nil)
	m, proposed := &r.membership, 0
	m.group = consensus.New(consensus.Config{
		Self: 0, Members: []geo.NodeID{0}, Env: w, TimerKind: groupTimer, Heartbeat: time.Second, Election: time.Second,
		Apply: func([]byte) { proposed++ }, Lead: func(geo.NodeID, uint64) {},
	})
	m.group.Start()
	s := &m.servers[1]
	s.status, s.reportedIn, s.proposedIn = suspected, m.group.Term()+1, m.group.Term()+1
	if m.report(1); s.reports[0] == nil {
		t.Error("it does not report in this term what it has reported in another one")
	}
	s.reports[2] = &Report{Server: 1}
	for range 2 {
		m.decide(1)
	}
	if proposed != 1 {
		t.Errorf("%d decisions are proposed in this term, after one in another, want 1", proposed)
	}
}

// A server that has skipped entries of the group's log proposes its gap at every tick, until the group has recorded the
// gap. Another server proposes nothing.
func TestGapIsProposed(t *testing.T) {
	for name, behind := range map[string]bool{"has all entries": false, "has skipped entries": true} {
		r, w := node(t, 0, 0, 1, nil)
		m, proposed := &r.membership, 0
		m.group = consensus.New(consensus.Config{
			Self: 0, Members: []geo.NodeID{0}, Env: w, TimerKind: groupTimer, Heartbeat: time.Second, Election: time.Second,
			Apply: func(entry []byte) {
				// The first proposal is lost.
				if proposed++; proposed > 1 {
					m.apply(entry)
				}
			},
			Lead: func(geo.NodeID, uint64) {},
		})
		m.group.Start()
		if behind {
			other, _ := node(t, 1, 0, 1, nil)
			m.restore(other.membership.snapshot())
			m.tick()
			m.tick()
		} else {
			m.tick()
		}
		if want := map[bool]int{false: 0, true: 2}[behind]; proposed != want || m.servers[0].incomplete != behind {
			t.Errorf("%s: %d proposals, want %d; recorded: %t", name, proposed, want, m.servers[0].incomplete)
		}
	}
}

// A proposal about a server counts only for its epoch and incarnation. The sponsor of a join must be active.
func TestEntriesOfAnEpoch(t *testing.T) {
	r, _ := node(t, 0, 0, 1, nil)
	m := &r.membership
	m.servers[1].epoch = 2
	for epoch, want := range map[uint64]bool{1: false, 2: true, 3: false} {
		if got := m.find(1, epoch) != nil; got != want {
			t.Errorf("an entry of epoch %d counts in epoch 2: %t", epoch, got)
		}
	}
	for name, tc := range map[string]struct {
		s    server
		want bool
	}{
		"closed":                  {server{status: closed, epoch: 3}, true},
		"closed again since":      {server{status: closed, epoch: 4}, false},
		"active":                  {server{status: active, epoch: 3}, false},
		"another incarnation":     {server{status: closed, epoch: 3, incarnation: 1}, false},
		"the one that had joined": {server{status: closed, epoch: 3, incarnation: 1, marked: 1}, true},
	} {
		if got := (&join{server: 1, epoch: 3}).possible(&tc.s); got != tc.want {
			t.Errorf("%s: it may join %t, want %t", name, got, tc.want)
		}
	}
	for st, want := range map[status]bool{active: true, suspected: false, closed: false} {
		r, _ := node(t, 0, 0, 1, nil)
		m := &r.membership
		m.servers[1].status, m.servers[2].status = closed, st
		if got := (&join{server: 1, sponsor: 2}).apply(m); got != want {
			t.Errorf("it joins by the word of a server of status %d: %t", st, got)
		}
	}
	for incarnation, want := range map[uint32]bool{1: false, 2: false, 3: true} {
		r, _ := node(t, 0, 0, 1, nil)
		m := &r.membership
		m.servers[1].incarnation = 2
		if got := (&loss{1, incarnation}).apply(m); got != want {
			t.Errorf("the loss of the one before incarnation %d counts after incarnation 2: %t", incarnation, got)
		}
	}
}

// An active server sponsors a closed server only if the request is for the closed server's current epoch.
func TestWhoSponsors(t *testing.T) {
	for name, tc := range map[string]struct {
		own   status
		epoch uint64
		want  bool
	}{"active": {active, 1, true}, "suspected": {suspected, 1, false}, "asked in an earlier epoch": {active, 0, false}} {
		r, _ := node(t, 0, 0, 1, nil)
		m := &r.membership
		m.servers[1].status, m.servers[1].epoch, m.servers[0].status = closed, 1, tc.own
		if m.requested(1, &JoinRequest{tc.epoch}); (m.sponsored != nil) != tc.want {
			t.Errorf("%s: it sponsors %v", name, m.sponsored)
		}
	}
}

// Requests for rows, sent rows and replenishments count only for the last mark of a copy.
func TestRowsOfAMark(t *testing.T) {
	for id, want := range map[uint64]bool{4: false, 5: true, 6: false} {
		r, w := node(t, 0, 0, 1, nil)
		c := &r.membership.copies[1]
		c.id, c.lacking[0] = 5, true
		if (&replenishment{1, id}).apply(&r.membership); c.lacking[0] == want {
			t.Errorf("a copy that has rows for mark %d lacks those for mark 5: %t", id, c.lacking[0])
		}
		r.replace.given[1] = given{5, []byte("rows")}
		w.take(1)
		if r.replace.requested(1, id); (w.take(1) != "") != want {
			t.Errorf("rows for mark 5 are given to who asks for those for mark %d: %t", id, !want)
		}
	}
}
