package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/checkpoint"
)

var _ = checkpoint.Register[quiet]()

// written is how a member's RawNode is written and read: it implements checkpoint.Saver.
//
// A RawNode that goes on where another one was must have its role, its followers' progress and what it has sent and not
// heard of, or it would send other messages than the other one has sent. Raft has no way to say that, and keeps it in
// fields, all of them data but two functions, step and tick, which are those of the role. So a new RawNode is brought
// into the role first, by an election of its own, and then takes over all fields. TestRolesAreWritten compares the
// functions.
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

// inRole returns a RawNode that has come into a role in a group of its own.
func inRole(role raft.StateType, self uint64) *raft.RawNode {
	voters := []uint64{self}
	if role != raft.StateLeader {
		voters = append(voters, self+1) // who does not answer
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
