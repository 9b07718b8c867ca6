package consensus

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A snapshot larger than Config.ChunkBytes is sent in pieces, with package statetransfer. Each piece is a Raft snapshot
// message with a part of the data and a Context that identifies the part. The member installs the snapshot when it has
// all pieces and their digest matches. Meanwhile the leader keeps the log after the snapshot's index: otherwise, the
// member would need another snapshot. If a transfer is aborted, Raft sends a new snapshot when the member answers
// again.

// headerBytes is the size of a piece's Context: the piece's offset, the size of the snapshot, and its digest.
const headerBytes = 16 + sha256.Size

// snapshots holds the snapshots in transfer.
type snapshots struct {
	// transfers holds the snapshots that this leader is sending, at most one per member.
	transfers []*transfer
	chunking  bool // the timer is pending
	// assembly is the snapshot that this member is receiving.
	assembly assembly
}

// transfer is a snapshot that is being sent to a member.
type transfer struct {
	to uint64
	m  *raftpb.Message
	statetransfer.Outgoing
}

func (t *transfer) index() uint64 { return t.m.GetSnapshot().GetMetadata().GetIndex() }

// assembly holds the received part of a snapshot.
type assembly struct {
	from, term, index uint64
	statetransfer.Incoming
}

// transfer starts to send a snapshot in pieces.
func (g *Group) transfer(m *raftpb.Message) {
	to := m.GetTo()
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return t.to == to })
	t := &transfer{to, m, statetransfer.NewOutgoing(m.GetSnapshot().GetData(), g.c.Env.Now())}
	g.transfers = append(g.transfers, t)
	g.sendChunk(t)
	g.chunkLater()
}

func (g *Group) chunkLater() {
	if !g.chunking {
		g.chunking = true
		g.c.Env.After(g.c.ChunkEvery, protocol.Timer{Kind: g.c.TimerKind, Arg: chunkTimer})
	}
}

// sendChunks sends the next piece of each snapshot.
func (g *Group) sendChunks() {
	g.chunking = false
	// Iterate over a copy, because abandon changes g.transfers.
	for _, t := range slices.Clone(g.transfers) {
		switch {
		// A finished transfer stays in the list: wanted keeps the log after the snapshot's index until the member has
		// confirmed this index.
		case t.Done():
			continue
		case t.Silent(g.c.Env.Now()):
			g.abandon(t)
			continue
		case t.Ready(g.c.ChunkBytes):
			g.sendChunk(t)
		}
		g.chunkLater()
	}
}

func (g *Group) sendChunk(t *transfer) {
	p := t.Next(g.pieceBytes())
	header := binary.LittleEndian.AppendUint64(make([]byte, 0, headerBytes), p.At)
	header = binary.LittleEndian.AppendUint64(header, p.Size)
	g.put(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: t.m.From, To: t.m.To, Term: t.m.Term, Context: append(header, p.Digest[:]...),
		Snapshot: &raftpb.Snapshot{Data: p.Data, Metadata: t.m.GetSnapshot().GetMetadata()},
	})
}

// pieceBytes returns the size of a piece in bytes.
func (g *Group) pieceBytes() int {
	if g.c.Env.Buggify(smallPieces) {
		return min(16, g.c.ChunkBytes)
	}
	return g.c.ChunkBytes
}

// abandon aborts a transfer. Raft sends another snapshot when the member answers.
func (g *Group) abandon(t *transfer) {
	g.transfers = slices.DeleteFunc(g.transfers, func(o *transfer) bool { return o == t })
	g.node.ReportSnapshot(t.to, raft.SnapshotFailure)
}

// assemble handles a snapshot or a piece of a snapshot, and reports whether m now contains a complete snapshot.
func (g *Group) assemble(m *raftpb.Message) bool {
	// Only pieces have a Context; this snapshot fits into a single message.
	if len(m.GetContext()) == 0 {
		return true
	}
	// Raft ignores snapshots of earlier terms, so their pieces need no assembly.
	if len(m.GetContext()) != headerBytes || m.GetTerm() < g.node.BasicStatus().GetTerm() {
		return false
	}
	p := statetransfer.Part{
		At: binary.LittleEndian.Uint64(m.GetContext()), Size: binary.LittleEndian.Uint64(m.GetContext()[8:]),
		Digest: [sha256.Size]byte(m.GetContext()[16:]), Data: m.GetSnapshot().GetData(),
	}
	a, index := &g.assembly, m.GetSnapshot().GetMetadata().GetIndex()
	if p.At == 0 {
		*a = assembly{from: m.GetFrom(), term: m.GetTerm(), index: index}
	}
	if a.from != m.GetFrom() || a.term != m.GetTerm() || a.index != index {
		return false // a piece of an aborted transfer
	}
	verdict := a.Add(p)
	if verdict == statetransfer.Ignored {
		return false
	}
	answer := &raftpb.Message{
		Type: raftpb.MsgSnapStatus.Enum(), From: new(g.self), To: m.From, Term: m.Term, Index: new(index),
		Context: binary.LittleEndian.AppendUint64(nil, a.Got()),
	}
	if verdict == statetransfer.Damaged {
		answer.Reject = new(true)
	}
	g.put(answer)
	if verdict != statetransfer.Whole {
		return false
	}
	m.Context, m.Snapshot.Data = nil, a.Take()
	return true
}

// arrived handles the answer to a piece.
func (g *Group) arrived(m *raftpb.Message) {
	i := slices.IndexFunc(g.transfers, func(t *transfer) bool {
		return t.to == m.GetFrom() && t.m.GetTerm() == m.GetTerm() && t.index() == m.GetIndex()
	})
	if i < 0 || len(m.GetContext()) != 8 || g.transfers[i].Done() {
		return
	}
	t := g.transfers[i]
	if m.GetReject() || !t.Acknowledged(binary.LittleEndian.Uint64(m.GetContext()), g.c.Env.Now()) {
		g.abandon(t)
		return
	}
	if t.Done() {
		g.node.ReportSnapshot(t.to, raft.SnapshotFinish)
	}
}

// wanted returns the lowest index of the snapshots in transfer, or math.MaxInt64. The log after that index must be
// kept.
func (g *Group) wanted() int64 {
	if len(g.transfers) == 0 {
		return math.MaxInt64
	}
	match := map[uint64]uint64{}
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { match[id] = p.Match })
	least := int64(math.MaxInt64)
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool {
		// The member has installed the snapshot and confirmed its index, so the transfer no longer holds the log back.
		if t.Done() && match[t.to] >= t.index() {
			return true
		}
		least = min(least, int64(t.index()))
		return false
	})
	return least
}

// compact truncates the log once the entries applied since the last truncation reach a tenth of Keep or, in bytes, of
// KeepBytes.
func (g *Group) compact() {
	keep := int64(g.c.Keep)
	switch {
	case g.applied > g.compacted && !g.c.Lossy && g.c.Env.Buggify(cutShort):
		keep = 0
	case g.applied-g.compacted < uint64(max(1, g.c.Keep/10)) && (g.c.KeepBytes == 0 || g.uncut < g.c.KeepBytes/10):
		return
	}
	g.compacted, g.uncut = g.applied, 0
	cut := int64(g.applied) - keep
	if g.c.KeepBytes > 0 {
		cut = max(cut, g.tooMuch())
	}
	// A member that receives a snapshot needs the entries after it, or it would need another snapshot.
	if cut = min(cut, g.wanted()); cut > 1 {
		// The only possible error is ErrCompacted, which means that there is nothing to truncate.
		_ = g.storage.Compact(uint64(cut))
	}
}

// tooMuch returns the highest index to drop so that the remaining entries do not exceed KeepBytes; 0 for none.
func (g *Group) tooMuch() int64 {
	first, err := g.storage.FirstIndex()
	if err != nil || first > g.applied {
		return 0
	}
	entries, err := g.storage.Entries(first, g.applied+1, math.MaxUint64)
	if err != nil {
		panic(err)
	}
	left := g.c.KeepBytes
	for i := len(entries) - 1; i >= 0; i-- {
		if left -= len(entries[i].GetData()); left < 0 && i < len(entries)-1 {
			return int64(entries[i].GetIndex())
		}
	}
	return 0
}
