package consensus

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// message returns a message from member 1 to member 0, both in their first incarnations.
func message(kind raftpb.MessageType, term uint64) *raftpb.Message {
	return &raftpb.Message{Type: kind.Enum(), From: new(raftID(1, 0)), To: new(raftID(0, 0)), Term: new(term)}
}

func (g *Group) hear(t *testing.T, from geo.NodeID, m *raftpb.Message) {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	g.Receive(from, &Message{Body: body})
}

// Only a leader has a lease and acknowledged heartbeats. A deposed leader has neither.
func TestLeaseOfTheDeposed(t *testing.T) {
	for name, tc := range map[string]struct {
		leading             bool
		now                 time.Duration
		wantLeased, wantLed bool
	}{
		"leads, within the lease": {true, time.Second, true, true},
		"leads, after the lease":  {true, 3 * time.Second, false, true},
		"deposed":                 {false, time.Second, false, false},
	} {
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Lease: time.Second, Env: &still{now: tc.now}})
		g.leading, g.leased, g.confirmed = tc.leading, 2*time.Second, time.Second
		if leased, led := g.Leased(), g.LedSince(0); leased != tc.wantLeased || led != tc.wantLed {
			t.Errorf("%s: leased %t, led since %t; want %t, %t", name, leased, led, tc.wantLeased, tc.wantLed)
		}
	}
}

// A member that has acknowledged a heartbeat grants no vote and no pre-vote before an election timeout has passed. This
// applies even if the member no longer knows a leader, because the leader may still rely on its lease.
func TestNoVoteUnderALease(t *testing.T) {
	for _, kind := range []raftpb.MessageType{raftpb.MsgPreVote, raftpb.MsgVote} {
		for after, want := range map[time.Duration]bool{DefaultElection - 1: false, DefaultElection: true} {
			env := &sender{}
			g := New(Config{Members: []geo.NodeID{0, 1, 2}, Lease: time.Second, Env: env, Lead: func(geo.NodeID, uint64) {}})
			env.now = time.Second
			g.hear(t, 1, message(raftpb.MsgHeartbeat, 5))
			env.now, env.n, g.hasLeader = env.now+after, 0, false
			if g.hear(t, 1, message(kind, 6)); (env.n > 0) != want {
				t.Errorf("%v after %v: %d messages were sent", kind, after, env.n)
			}
		}
	}
}

// An acknowledgement renews the lease only in the term in which its heartbeat was sent.
func TestAcknowledgedInAnotherTerm(t *testing.T) {
	for term, want := range map[uint64]bool{4: false, 5: true} {
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Lease: time.Second, Env: &still{}})
		g.leading, g.term, g.leased, g.confirmed = true, 5, never, never
		m := message(raftpb.MsgHeartbeatResp, term)
		m.Context = binary.LittleEndian.AppendUint64(nil, uint64(time.Second))
		if g.renew(m); (g.leased > never) != want || (g.confirmed > never) != want {
			t.Errorf("a heartbeat of term %d in term 5: leased until %v, confirmed %v", term, g.leased, g.confirmed)
		}
	}
}

// A member accepts a message only if the message names the sending node as its sender, and only from an incarnation
// that is not lost.
func TestDeafToStrangers(t *testing.T) {
	for name, tc := range map[string]struct {
		from        geo.NodeID
		incarnation uint32 // of node 1, as far as this member knows
		want        bool
	}{
		"its node":           {1, 0, true},
		"another node":       {2, 0, false},
		"a lost incarnation": {1, 1, false},
	} {
		env := &sender{}
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: env, Lead: func(geo.NodeID, uint64) {}})
		g.incarnations[1] = tc.incarnation
		if g.hear(t, tc.from, message(raftpb.MsgVote, 7)); (env.n > 0) != tc.want || (g.node.BasicStatus().GetTerm() == 7) != tc.want {
			t.Errorf("%s asks for a vote in term 7: %d messages are sent in term %d", name, env.n, g.node.BasicStatus().GetTerm())
		}
	}
}

// pieces returns the two pieces of a snapshot of 16 bytes.
func pieces(from geo.NodeID, term, index uint64) (all [2]*raftpb.Message) {
	o := statetransfer.NewOutgoing([]byte("what was applied"), 0)
	for i := range all {
		p := o.Next(8)
		m := message(raftpb.MsgSnap, term)
		m.From = new(raftID(from, 0))
		m.Context = append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, p.At), p.Size), p.Digest[:]...)
		m.Snapshot = &raftpb.Snapshot{Data: p.Data, Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term)}}
		all[i] = m
	}
	return all
}

// The pieces of a snapshot have the same leader, term and index. Pieces of an earlier term are from a deposed leader.
func TestPiecesOfOneSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second *raftpb.Message
		want          bool
	}{
		"one snapshot":               {pieces(1, 5, 10)[0], pieces(1, 5, 10)[1], true},
		"of two leaders":             {pieces(1, 5, 10)[0], pieces(2, 5, 10)[1], false},
		"of two terms":               {pieces(1, 5, 10)[0], pieces(1, 6, 10)[1], false},
		"of two indexes":             {pieces(1, 5, 10)[0], pieces(1, 5, 11)[1], false},
		"of an earlier term":         {pieces(1, 4, 10)[0], pieces(1, 4, 10)[1], false},
		"of a term that begins here": {pieces(1, 6, 10)[0], pieces(1, 6, 10)[1], true},
	} {
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: &still{}, Lead: func(geo.NodeID, uint64) {}})
		g.hear(t, 1, message(raftpb.MsgHeartbeat, 5))
		if g.assemble(tc.first) || g.assemble(tc.second) != tc.want {
			t.Errorf("%s: assembled, or not, want %t", name, tc.want)
		}
	}
}

// An acknowledgement of a piece counts only for the snapshot that it names.
func TestAnswersToPieces(t *testing.T) {
	for name, tc := range map[string]struct {
		from        geo.NodeID
		term, index uint64
		want        bool
	}{
		"to this piece":       {1, 5, 10, true},
		"of another member":   {2, 5, 10, false},
		"in another term":     {1, 4, 10, false},
		"to another snapshot": {1, 5, 9, false},
	} {
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: &still{}, Lead: func(geo.NodeID, uint64) {}})
		whole := pieces(0, 5, 10)[0]
		tr := &transfer{raftID(1, 0), whole, statetransfer.NewOutgoing(make([]byte, 16), 0)}
		tr.Next(8)
		g.transfers = []*transfer{tr}
		m := message(raftpb.MsgSnapStatus, tc.term)
		m.From, m.Index, m.Context = new(raftID(tc.from, 0)), new(tc.index), binary.LittleEndian.AppendUint64(nil, 8)
		g.arrived(m)
		// Ready allows up to 8 parts in flight. With parts of one byte, it returns true only if the acknowledgement counted.
		if acknowledged := tr.Ready(1); acknowledged != tc.want {
			t.Errorf("an answer %s: acknowledged %t, want %t", name, acknowledged, tc.want)
		}
	}
}

// mute is an environment that ignores all calls, for a member with timers.
type mute struct{ sender }

func (*mute) After(time.Duration, protocol.Timer) {}
func (*mute) Rand() *rand.Rand                    { return rand.New(rand.NewPCG(1, 1)) }
func (*mute) Buggify(*buggify.Point) bool         { return false }

// A leader changes the membership only after it has committed an entry of its term. Before that, the leader may not
// know a membership change of an earlier leader, and two majorities might not intersect.
func TestMembersChangedByTheCurrent(t *testing.T) {
	g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: &mute{}, Apply: func([]byte) {}, Lead: func(geo.NodeID, uint64) {}})
	g.Start()
	term := g.node.BasicStatus().GetTerm() + 1
	g.hear(t, 1, message(raftpb.MsgPreVoteResp, term))
	g.hear(t, 1, message(raftpb.MsgVoteResp, term))
	last := g.Last()
	g.Replaced(2, 1)
	if !g.Leading() || g.Current() || g.Last() != last {
		t.Fatalf("leading %t, current %t: it has proposed %d entries more", g.Leading(), g.Current(), g.Last()-last)
	}
	m := message(raftpb.MsgAppResp, term)
	m.Index = new(last)
	if g.hear(t, 1, m); !g.Current() || g.Last() != last+1 {
		t.Errorf("current %t: it has proposed %d entries more, want 1", g.Current(), g.Last()-last)
	}
}

// A member records the latest incarnation of another node, whatever the order of the reports, and sends nothing to
// earlier incarnations.
func TestLatestIncarnation(t *testing.T) {
	env := &mute{}
	g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: env, Lead: func(geo.NodeID, uint64) {}})
	g.Replaced(1, 2)
	if g.Replaced(1, 1); g.incarnations[1] != 2 {
		t.Errorf("the last incarnation is %d, want 2", g.incarnations[1])
	}
	for incarnation, want := range map[uint32]int{1: 0, 2: 1} {
		m := message(raftpb.MsgApp, 1)
		m.From, m.To, env.n = new(g.self), new(raftID(1, incarnation)), 0
		if g.send([]*raftpb.Message{m}); env.n != want {
			t.Errorf("%d messages are sent to incarnation %d, want %d", env.n, incarnation, want)
		}
	}
}
