package sdur

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// listener is the environment of a replica. It records the sent messages.
type listener struct {
	protocol.Env
	sent []protocol.Message
}

func (l *listener) Send(_ geo.NodeID, m protocol.Message) { l.sent = append(l.sent, m) }

// heard returns a new replica and the recorder of its messages.
func heard(t *testing.T) (*Replica, *listener) {
	r := idle(t)[0]
	l := &listener{Env: r.env}
	r.env, r.node.Env = l, l
	return r, l
}

// groupRange returns the range of rows from to to-1 of a group.
func groupRange(group uint64, from, to uint8) txn.Range {
	return txn.Range{From: simload.GroupKey(group, from), To: simload.GroupKey(group, to)}
}

// A concurrent transaction must not write into a range that the certified transaction has scanned. If the certified
// transaction is global, concurrent transactions must not have scanned its writes either.
func TestCertificationOfScans(t *testing.T) {
	writes := func(keys ...txn.Key) (all []txn.WriteEntry) {
		for _, k := range keys {
			all = append(all, txn.WriteEntry{Key: k})
		}
		return all
	}
	scans := Update{Ranges: []txn.Range{groupRange(0, 2, 9)}}
	global := func(u Update) Update {
		u.Participants = []int{0, 1}
		return u
	}
	for name, tc := range map[string]struct {
		before, x Update
		want      Verdict
	}{
		"a row of a scan is written":             {Update{Writes: writes(simload.GroupKey(0, 5))}, scans, Conflict},
		"its first row is written":               {Update{Writes: writes(simload.GroupKey(0, 2))}, scans, Conflict},
		"a row behind a scan is written":         {Update{Writes: writes(simload.GroupKey(0, 9))}, scans, Commit},
		"rows of several groups are written":     {Update{Writes: writes(simload.GroupKey(0, 5), simload.GroupKey(1, 5))}, Update{Ranges: []txn.Range{groupRange(1, 2, 9)}}, Conflict},
		"a global one writes what was scanned":   {scans, global(Update{Writes: writes(simload.GroupKey(0, 5))}), Conflict},
		"a global one writes the first row":      {scans, global(Update{Writes: writes(simload.GroupKey(0, 2))}), Conflict},
		"a global one writes behind":             {scans, global(Update{Writes: writes(simload.GroupKey(0, 9))}), Commit},
		"a local one may write what was scanned": {scans, Update{Writes: writes(simload.GroupKey(0, 5))}, Commit},
	} {
		g := idle(t)[0].groups[0]
		g.completed++
		tc.x.Snapshot.Count = g.completed - 1
		g.history.add(g.completed, footprintOf(&tc.before))
		x := &delivery{Update: tc.x}
		if x.footprint = footprintOf(&x.Update); g.certify(x) != tc.want {
			t.Errorf("%s: %v, want %v", name, g.certify(x), tc.want)
		}
	}
}

// A scan is certified up to its last row if it reached its limit, and otherwise up to the end of its range.
func TestScansAsFarAsTheyLooked(t *testing.T) {
	met := []rerun.Row{{Key: simload.GroupKey(0, 3)}, {Key: simload.GroupKey(0, 5)}}
	behind := func(k txn.Key) txn.Key { return k + "\x00" }
	for name, tc := range map[string]struct {
		limit   int
		reverse bool
		want    txn.Range
	}{
		"no limit":                {0, false, groupRange(0, 0, 9)},
		"at its limit":            {2, false, txn.Range{From: simload.GroupKey(0, 0), To: behind(simload.GroupKey(0, 5))}},
		"short of it":             {3, false, groupRange(0, 0, 9)},
		"backwards, at its limit": {2, true, groupRange(0, 3, 9)},
		"backwards, short of it":  {3, true, groupRange(0, 0, 9)},
	} {
		r := idle(t)[0]
		x := &transaction{t: simload.Txn(1, "l0.0-9")}
		x.task = rerun.New(r.procedures, x.t, r.store, false)
		read := rerun.Read{Range: groupRange(0, 0, 9), Rows: slices.Clone(met)}
		if read.Range.Limit, read.Range.Reverse = tc.limit, tc.reverse; tc.reverse {
			slices.Reverse(read.Rows)
		}
		x.task.Supply(read)
		p := x.part(r.layout.Shard(read.Range.From))
		if r.gatherReads(x); len(p.ranges) != 1 || p.ranges[0] != tc.want {
			t.Errorf("%s: %v, want %v", name, p.ranges, tc.want)
		}
	}
}

// A member answers a read once it has reached the requested state. If it has discarded that state, it answers that the
// read is too old.
func TestReadsOfStates(t *testing.T) {
	for name, tc := range map[string]struct {
		m               Read
		empty           bool
		answers, tooOld bool
	}{
		"the newest":                {Read{View: Newest}, false, true, false},
		"without rows":              {Read{View: Newest}, true, false, false},
		"without rows, of a time":   {Read{View: Cut, Snapshot: Snapshot{At: 7}}, true, false, false},
		"a state that it has":       {Read{View: Same, Snapshot: Snapshot{Count: 3, At: 7}}, false, true, false},
		"a state that is to come":   {Read{View: Same, Snapshot: Snapshot{Count: 4, At: 7}}, false, false, false},
		"a time that is closed":     {Read{View: Cut, Snapshot: Snapshot{At: 7}}, false, true, false},
		"a time that is open":       {Read{View: Cut, Snapshot: Snapshot{At: store.Newest - 1}}, false, false, false},
		"a time before its rows":    {Read{View: Cut, Snapshot: Snapshot{At: 4}}, false, true, true},
		"a state from before these": {Read{View: Same, Snapshot: Snapshot{Count: 1, At: 4}}, false, true, true},
	} {
		r, l := heard(t)
		g := r.groups[0]
		if g.oldest, g.empty = 5, tc.empty; !g.empty {
			g.completed = 3
		}
		answers := g.answerRead(&waitingRead{1, &tc.m})
		if answers != tc.answers || answers && l.sent[0].(*Rows).TooOld != tc.tooOld {
			t.Errorf("%s: answered %t, %v; want %t, too old %t", name, answers, l.sent, tc.answers, tc.tooOld)
		}
	}
}

// The leader of the latest term is the current leader, in any order of messages. Rows count only in the round of their
// request. A node without rows does not read from itself.
func TestCoordinatorsView(t *testing.T) {
	r, _ := heard(t)
	r.follow(1, &raftgroup.Lead{Group: 1, Term: 9})
	r.follow(0, &raftgroup.Lead{Group: 1, Term: 8})
	if got := r.leaders[1]; got != (tenure{1, 9}) {
		t.Errorf("the last leader is %v, want node 1 in term 9", got)
	}
	for round, want := range map[uint64]bool{1: true, 2: false} {
		x := &transaction{number: 7, t: simload.Txn(1, "r0 r2"), round: 2, waiting: 2}
		x.task = rerun.New(r.procedures, x.t, r.store, false)
		p := x.part(0)
		p.open, p.needs = true, []rerun.Need{{Range: txn.Point(simload.Key(0))}}
		r.open[x.number] = x
		r.rows(&Rows{Group: 0, Number: 7, Round: round, Found: []raftgroup.Found{{{Value: make([]byte, 8)}}}})
		if p.open != want {
			t.Errorf("rows of round %d in round 2: open %t", round, p.open)
		}
	}
	for empty, want := range map[bool]geo.NodeID{false: 0, true: 1} {
		r.groups[0].empty = empty
		if got := r.reader(&transaction{t: simload.Txn(1, "r0")}, &part{group: 0}); got != want {
			t.Errorf("empty %t: node %d is asked, want %d", empty, got, want)
		}
	}
}

// The anchor reports a completed global transaction; the other groups report it when its outcome is in the log.
func TestWhoReports(t *testing.T) {
	for name, tc := range map[string]struct {
		anchor int
		logged bool
		want   int
	}{"its anchor": {0, false, 1}, "another group": {1, false, 0}, "another group, logged": {1, true, 1}} {
		r, l := heard(t)
		x := &delivery{name: raftgroup.Name{Coordinator: 1, Number: 7}, decided: true, logged: tc.logged, verdict: Commit, completed: 1}
		x.Participants, x.Anchor = []int{0, 1}, tc.anchor
		if r.groups[0].report(x); len(l.sent) != tc.want {
			t.Errorf("%s: %v, want %d reports", name, l.sent, tc.want)
		}
	}
}
