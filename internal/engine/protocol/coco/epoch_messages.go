package coco

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// Done notifies a node that the sender has executed all its transactions of an epoch. The sender has also sent all of
// their writes that the node holds.
type Done struct {
	Epoch uint64 `codec:"max=maxEpoch"`
}

func (m *Done) epoch() uint64 { return m.Epoch }

func (m *Done) String() string { return fmt.Sprintf("has executed epoch %d", m.Epoch) }

// SnapshotRow is a committed row.
type SnapshotRow struct {
	Key    txn.Key
	Writer txn.ID
	Value  []byte
}

// shardRows are all committed rows of a shard, as a part of a state for a new incarnation.
//
//codec:part
type shardRows struct {
	Shard int `codec:"max=raftgroup.MaxShard"`
	Rows  []SnapshotRow
}

// Snapshot contains rows of a shard as of the start of an epoch, for a node that joins in that epoch. A shard may take
// several snapshots, because the size of a message is bounded.
type Snapshot struct {
	Epoch uint64 `codec:"max=maxEpoch"`
	Shard int    `codec:"max=raftgroup.MaxShard"`
	// Last is set on the last snapshot of the shard.
	Last bool
	Rows []SnapshotRow
}

func (m *Snapshot) epoch() uint64 { return m.Epoch }

func (m *Snapshot) String() string {
	s := fmt.Sprintf("snapshot of shard %d before epoch %d: %d rows", m.Shard, m.Epoch, len(m.Rows))
	if !m.Last {
		s += ", and more follow"
	}
	return s
}

// Turn identifies an epoch in a ballot. It is a part of every message between the coordinator and the members of a view
// about an epoch.
type Turn struct {
	Ballot, Epoch uint64 `codec:"max=maxEpoch"`
}

// Start starts an epoch, and reports that the previous epoch is committed.
type Start struct{ Turn }

func (m *Start) String() string { return fmt.Sprintf("start epoch %d", m.Epoch) }

// Stop closes an epoch: no further transaction starts in it.
type Stop struct{ Turn }

func (m *Stop) String() string { return fmt.Sprintf("stop epoch %d", m.Epoch) }

// Vote reports to the coordinator that all nodes have executed their transactions of an epoch. The sender has also
// received all writes of the epoch.
type Vote struct{ Turn }

func (m *Vote) String() string { return fmt.Sprintf("votes to commit epoch %d", m.Epoch) }

// Collect asks a node for its state, on behalf of a coordinator with a new ballot. A node that answers no longer takes
// part in earlier ballots.
type Collect struct {
	Ballot uint64 `codec:"max=maxEpoch"`
}

func (m *Collect) String() string { return fmt.Sprintf("collect states in ballot %d", m.Ballot) }

// State answers Collect with the last epoch that the sender has voted to commit. The sender has all writes of that
// epoch.
type State struct {
	Turn
	// Base is the epoch up to which the sender's store has all commits, or 0 if its state is incomplete.
	Base uint64 `codec:"max=maxEpoch"`
}

func (m *State) String() string {
	return fmt.Sprintf("has voted for epoch %d, has the rows of epoch %d", m.Epoch, m.Base)
}

// View lists the members from an epoch on. The Raft group of the regions agrees on views.
type View struct {
	Ballot uint64 `codec:"max=maxEpoch"`
	// Committed is the last committed epoch before the view, and First is the view's first epoch. The epochs in between
	// were aborted. Epoch First-1 is skipped, because a node that was not asked may have started it.
	Committed, First uint64 `codec:"max=maxEpoch"`
	// Members are the view's members, ascending.
	Members []geo.NodeID `codec:"as=members"`
	// Incarnations are the incarnations of Members, in the same order; nil if all are first incarnations.
	Incarnations []uint32 `codec:"-"` // encoded with Members
	// Joining are the members that first receive the rows.
	Joining []geo.NodeID `codec:"max=raftgroup.MaxNode"`
	// Aborted are the epochs that views have aborted, ascending, up to the number that views remember.
	Aborted []uint64 `codec:"max=maxEpoch"`
}

// has reports whether node n is a member. joins reports whether it is a joining member.
func (v *View) has(n geo.NodeID) bool { return slices.Contains(v.Members, n) }

func (v *View) joins(n geo.NodeID) bool { return slices.Contains(v.Joining, n) }

// incarnation returns the incarnation of member n, or 0 if n is not in the view.
func (v *View) incarnation(n geo.NodeID) uint32 {
	if v.Incarnations == nil {
		return 0
	}
	if i := slices.Index(v.Members, n); i >= 0 {
		return v.Incarnations[i]
	}
	return 0
}

func (v *View) String() string {
	s := fmt.Sprintf("view %d of %v: epoch %d is committed, %d begins", v.Ballot, v.Members, v.Committed, v.First)
	if len(v.Joining) > 0 {
		s += fmt.Sprintf(", %v join", v.Joining)
	}
	if v.Incarnations != nil {
		s += fmt.Sprintf(", of incarnations %v", v.Incarnations)
	}
	return s
}

// members calls f with each member's ID as encoded in messages: the node number in the low bits, the incarnation in the
// high bits.
func (v *View) members(f func(uint64)) {
	for i, n := range v.Members {
		m := uint64(n)
		if v.Incarnations != nil {
			m |= uint64(v.Incarnations[i]) << incarnationShift
		}
		f(m)
	}
}

func (v *View) sizeMembers() int {
	n := codec.SizeUvarint(uint64(len(v.Members)))
	v.members(func(m uint64) { n += codec.SizeUvarint(m) })
	return n
}

func (v *View) appendMembers(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(v.Members)))
	v.members(func(m uint64) { b = codec.AppendUvarint(b, m) })
	return b
}

func (v *View) readMembers(r *codec.Reader) {
	n := r.Count(1)
	if n == 0 {
		return
	}
	v.Members = make([]geo.NodeID, n)
	incarnations, later := make([]uint32, n), false
	for i := range v.Members {
		m := r.UvarintMax(maxMember)
		v.Members[i], incarnations[i] = geo.NodeID(m&raftgroup.MaxNode), uint32(m>>incarnationShift)
		later = later || incarnations[i] > 0
	}
	if later {
		v.Incarnations = incarnations
	}
}

// Alive is a node's heartbeat for the coordinator, with the highest ballot that the node knows.
type Alive struct {
	Ballot uint64 `codec:"max=maxEpoch"`
}

func (m *Alive) String() string { return fmt.Sprintf("is alive in ballot %d", m.Ballot) }

// Ready reports to the coordinator that a new incarnation, which joins in the view of a ballot, now has the rows of its
// shards.
type Ready struct {
	Ballot uint64 `codec:"max=maxEpoch"`
}

func (m *Ready) String() string { return fmt.Sprintf("has its rows in ballot %d", m.Ballot) }

// Missed reports to the coordinator that another view is needed. In the ballot's view, the sender had sent messages to
// a member before it learned of the member's new incarnation. These messages went to the predecessor and are lost.
type Missed struct {
	Ballot uint64 `codec:"max=maxEpoch"`
}

func (m *Missed) String() string {
	return fmt.Sprintf("has sent to a predecessor in ballot %d", m.Ballot)
}
