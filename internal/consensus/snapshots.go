package consensus

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/geobench/geobench/internal/protocol"
)

// A snapshot that is larger than Config.ChunkBytes is sent in pieces: each is a message as Raft has it, with a piece of the data,
// and a Context that says which. One is sent every Config.ChunkEvery, and not more than chunksUnderway before an answer comes, so that
// heartbeats and entries wait for a piece at most, and a slow link is not flooded. The member takes the snapshot when all are there
// and their digest is right. Meanwhile the log is not cut behind it: who has got the snapshot would need another one.

const (
	// chunksUnderway bounds the pieces that the member has not acknowledged.
	chunksUnderway = 8
	// chunkPatience is how long a member may acknowledge nothing before the snapshot is given up. Raft sends another when the
	// member speaks again.
	chunkPatience = 10 * time.Second
	// headerBytes is the size of a piece's Context: its place, the size of the whole, and the digest of that.
	headerBytes = 16 + sha256.Size
)

// snapshots are those under way.
type snapshots struct {
	// transfers are those that this leader sends, one for each member at most.
	transfers []*transfer
	chunking  bool // a timer is set
	// assembly is the one that this member gets.
	assembly assembly
}

// transfer is a snapshot on its way to a member.
type transfer struct {
	to          uint64
	m           *raftpb.Message
	digest      [sha256.Size]byte
	sent, acked int // bytes
	heard       time.Duration
}

func (t *transfer) data() []byte  { return t.m.GetSnapshot().GetData() }
func (t *transfer) index() uint64 { return t.m.GetSnapshot().GetMetadata().GetIndex() }
func (t *transfer) done() bool    { return t.acked == len(t.data()) }

// assembly is what a member has got of a snapshot.
type assembly struct {
	from, term, index uint64
	data              []byte
}

// transfer begins to send a snapshot in pieces.
func (g *Group) transfer(m *raftpb.Message) {
	to := m.GetTo()
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return t.to == to })
	t := &transfer{to: to, m: m, digest: sha256.Sum256(m.GetSnapshot().GetData()), heard: g.c.Env.Now()}
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
	for _, t := range slices.Clone(g.transfers) {
		switch {
		case t.done():
			continue
		case g.c.Env.Now()-t.heard >= chunkPatience:
			g.abandon(t)
			continue
		case t.sent < len(t.data()) && t.sent-t.acked < chunksUnderway*g.c.ChunkBytes:
			g.sendChunk(t)
		}
		g.chunkLater()
	}
}

func (g *Group) sendChunk(t *transfer) {
	end := min(t.sent+g.pieceBytes(), len(t.data()))
	header := binary.LittleEndian.AppendUint64(make([]byte, 0, headerBytes), uint64(t.sent))
	header = binary.LittleEndian.AppendUint64(header, uint64(len(t.data())))
	g.put(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: t.m.From, To: t.m.To, Term: t.m.Term, Context: append(header, t.digest[:]...),
		Snapshot: &raftpb.Snapshot{Data: t.data()[t.sent:end], Metadata: t.m.GetSnapshot().GetMetadata()},
	})
	t.sent = end
}

// pieceBytes is the size of a piece.
func (g *Group) pieceBytes() int {
	if g.c.Env.Buggify(smallPieces) {
		return min(16, g.c.ChunkBytes)
	}
	return g.c.ChunkBytes
}

// abandon gives up sending a snapshot.
func (g *Group) abandon(t *transfer) {
	g.transfers = slices.DeleteFunc(g.transfers, func(o *transfer) bool { return o == t })
	g.node.ReportSnapshot(t.to, raft.SnapshotFailure)
}

// assemble takes a snapshot or a piece of one. It reports whether m is a whole one now.
func (g *Group) assemble(m *raftpb.Message) bool {
	if len(m.GetContext()) == 0 {
		return true
	}
	if len(m.GetContext()) != headerBytes || m.GetTerm() < g.node.BasicStatus().GetTerm() {
		return false
	}
	at := binary.LittleEndian.Uint64(m.GetContext())
	size := binary.LittleEndian.Uint64(m.GetContext()[8:])
	a, index := &g.assembly, m.GetSnapshot().GetMetadata().GetIndex()
	if at == 0 {
		*a = assembly{from: m.GetFrom(), term: m.GetTerm(), index: index}
	}
	if a.from != m.GetFrom() || a.term != m.GetTerm() || a.index != index || uint64(len(a.data)) != at {
		return false // of one that was given up
	}
	a.data = append(a.data, m.GetSnapshot().GetData()...)
	got := uint64(len(a.data))
	answer := &raftpb.Message{
		Type: raftpb.MsgSnapStatus.Enum(), From: new(g.self), To: m.From, Term: m.Term, Index: new(index),
		Context: binary.LittleEndian.AppendUint64(nil, got),
	}
	if got < size {
		g.put(answer)
		return false
	}
	data := a.data
	*a = assembly{}
	if digest := sha256.Sum256(data); got > size || !slices.Equal(digest[:], m.GetContext()[16:]) {
		answer.Reject = new(true)
		g.put(answer)
		return false
	}
	g.put(answer)
	m.Context, m.Snapshot.Data = nil, data
	return true
}

// arrived takes the answer to a piece.
func (g *Group) arrived(m *raftpb.Message) {
	i := slices.IndexFunc(g.transfers, func(t *transfer) bool {
		return t.to == m.GetFrom() && t.m.GetTerm() == m.GetTerm() && t.index() == m.GetIndex()
	})
	if i < 0 || len(m.GetContext()) != 8 || g.transfers[i].done() {
		return
	}
	t := g.transfers[i]
	acked := binary.LittleEndian.Uint64(m.GetContext())
	if m.GetReject() || acked > uint64(t.sent) {
		g.abandon(t)
		return
	}
	t.acked, t.heard = max(t.acked, int(acked)), g.c.Env.Now()
	if t.done() {
		g.node.ReportSnapshot(t.to, raft.SnapshotFinish)
	}
}

// wanted is the index behind which the log must not be cut: that of the snapshots which members are about to get.
func (g *Group) wanted() int64 {
	if len(g.transfers) == 0 {
		return math.MaxInt64
	}
	match := map[uint64]uint64{}
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { match[id] = p.Match })
	least := int64(math.MaxInt64)
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool {
		if t.done() && match[t.to] >= t.index() {
			return true
		}
		least = min(least, int64(t.index()))
		return false
	})
	return least
}
