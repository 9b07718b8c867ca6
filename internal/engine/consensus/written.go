package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/checkpoint"
)

var _ = checkpoint.Register[quiet]()

// written saves and loads a member's RawNode: it implements checkpoint.Saver.
//
// A restored RawNode must have the role of the original, its followers' progress, and its sent but unacknowledged
// messages. Otherwise, it would send different messages. Raft has no API for this state and keeps it in unexported
// fields. All of them are data except two functions, step and tick, which depend on the role. LoadState therefore lets
// a new RawNode reach the role by an election in a separate group, and then loads the other fields into it.
// TestRolesAreWritten compares the functions.
type written struct{ g *Group }

// SaveState implements checkpoint.Saver.
func (w *written) SaveState(b []byte) ([]byte, error) {
	g := w.g
	if g.node == nil {
		return b, nil
	}
	role := g.node.BasicStatus().RaftState
	return checkpoint.Append(append(b, byte(role)), g.world(), g.node, inRole(role, g.self))
}

// LoadState implements checkpoint.Saver.
func (w *written) LoadState(r *codec.Reader) error {
	g := w.g
	if g.node == nil {
		return nil
	}
	role := raft.StateType(r.Uint8())
	if role > raft.StatePreCandidate {
		return fmt.Errorf("%d is no role in Raft", role)
	}
	g.node = inRole(role, g.self)
	return checkpoint.Read(r.Take(uint64(r.Len())), g.world(), g.node)
}

func (g *Group) world() *checkpoint.World { return &checkpoint.World{Objects: []any{g.storage}} }

// inRole returns a RawNode that has reached a role in a separate group.
func inRole(role raft.StateType, self uint64) *raft.RawNode {
	voters := []uint64{self}
	if role != raft.StateLeader {
		voters = append(voters, self+1) // with a voter that does not answer, the node stays a candidate
	}
	log := raft.NewMemoryStorage()
	err := log.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &raftpb.ConfState{Voters: voters},
	}})
	if err != nil {
		panic(err)
	}
	n := newNode(self, log, 1)
	if role == raft.StateFollower {
		return n
	}
	for err = n.Campaign(); err == nil && n.HasReady(); {
		rd := n.Ready()
		err = log.Append(rd.Entries)
		n.Advance(rd)
	}
	if err != nil {
		panic(err)
	}
	return n
}
