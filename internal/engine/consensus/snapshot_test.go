package consensus

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// still is an environment that only has a clock, and discards all messages.
type still struct {
	protocol.Env
	now time.Duration
}

func (s *still) Now() time.Duration              { return s.now }
func (*still) Send(geo.NodeID, protocol.Message) {}
func (*still) Mark(*coverage.Mark)               {}

// A message from a leader of an earlier term is no sign of life of the current leader. Otherwise, it would keep this
// member from voting and campaigning.
func TestOldLeaderIsNotHeard(t *testing.T) {
	env := &still{}
	g := New(Config{Members: []geo.NodeID{0, 1, 2}, Env: env, Lead: func(geo.NodeID, uint64) {}})
	for _, tc := range []struct {
		at   time.Duration
		term uint64
		want time.Duration
	}{{time.Second, 5, time.Second}, {2 * time.Second, 4, time.Second}, {3 * time.Second, 5, 3 * time.Second}} {
		env.now = tc.at
		body, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(raftID(1, 0)), To: new(raftID(0, 0)), Term: new(tc.term)})
		if err != nil {
			t.Fatal(err)
		}
		if g.Receive(1, &Message{Body: body}); g.heard != tc.want {
			t.Errorf("after a heartbeat of term %d at %v the leader was heard at %v, want %v", tc.term, tc.at, g.heard, tc.want)
		}
	}
}

// While entries are being applied or wait to be applied, the owner's state does not match an index. A snapshot would
// lose the remaining entries.
func TestNoSnapshotInTheMiddle(t *testing.T) {
	state := "none"
	g := New(Config{Members: []geo.NodeID{0, 1, 2}, Snapshot: func() []byte { return []byte(state) }})
	g.applying = true
	if s, err := g.storage.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Errorf("in the middle of entries: snapshot %v, error %v", s, err)
	}
	g.applying, g.queue = false, [][]byte{{1}}
	if s, err := g.storage.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Errorf("before entries: snapshot %v, error %v", s, err)
	}
	g.queue, state = nil, "whole"
	s, err := g.storage.Snapshot()
	if err != nil || string(s.GetData()) != state || s.GetMetadata().GetIndex() != g.applied || len(s.GetMetadata().GetConfState().GetVoters()) != 3 {
		t.Errorf("with nothing to apply: snapshot %v, error %v", s, err)
	}
}

// A new incarnation answers no message that was meant for its predecessor, whose votes it does not know. This includes
// messages from members that do not know the new incarnation yet.
func TestDeafToWhatWasMeantForThePredecessor(t *testing.T) {
	for to, want := range map[uint64]bool{raftID(0, 0): false, raftID(0, 1): true, raftID(0, 2): false} {
		sent := &sender{}
		g := New(Config{Members: []geo.NodeID{0, 1, 2}, Incarnation: 1, Env: sent, Lead: func(geo.NodeID, uint64) {}})
		body, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(raftID(1, 0)), To: new(to), Term: new(uint64(7))})
		if err != nil {
			t.Fatal(err)
		}
		if g.Receive(1, &Message{Body: body}); (sent.n > 0) != want {
			t.Errorf("the vote of %x is asked for, and %x sends %d messages", to, g.self, sent.n)
		}
	}
}

// sender counts sent messages.
type sender struct {
	still
	n int
}

func (s *sender) Send(geo.NodeID, protocol.Message) { s.n++ }
