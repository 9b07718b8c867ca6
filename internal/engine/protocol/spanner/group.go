package spanner

import (
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// group is this node's membership in the Raft group that stores one shard.
type group struct {
	*raftgroup.Member
	r *Replica

	state
	// oldest is the timestamp before which row versions are missing, because a snapshot has replaced the log.
	oldest uint64
	// snapshots are reads that wait for their timestamp to close.
	snapshots []*snapshotRead

	leaseholder
}

func newGroup(r *Replica, shard int) *group {
	g := &group{r: r, state: newState()}
	g.Member = r.node.NewMember(shard, g)
	g.init()
	return g
}

// current reports whether this leaseholder has the newest state. The leaseholder either has the lease, or still led at
// some instant after h had acquired all its locks.
func (g *group) current(h *holder) bool {
	return g.Raft.Leased() || h.unleased && g.Raft.LedSince(h.mark) || g.r.mistake == staleLease
}

// Entry implements raftgroup.Machine. An entry consists of the timestamp that it closes and the commands.
func (g *group) Entry(batch []byte) []byte {
	// An entry without commands only serves to close a timestamp.
	if len(batch) == 0 && !g.r.closing {
		return nil
	}
	var closing uint64
	if g.r.closing {
		closing = g.close()
	}
	g.r.counters.entries++
	entry := make([]byte, 0, codec.SizeUvarint(closing)+len(batch))
	return append(codec.AppendUvarint(entry, closing), batch...)
}

// hasCommands reports whether an entry contains a command. It returns false for entries that only close a timestamp,
// and for Raft's empty entries.
func hasCommands(entry []byte) bool {
	r := codec.NewReader(entry)
	r.Uvarint()
	return r.Len() > 0
}

// spread reports whether all live members have received the whole log.
func (g *group) spread() bool {
	return g.Spread(func(n geo.NodeID) bool { return g.r.env.Now()-g.r.peers[n].heard < g.r.election })
}

// Apply implements raftgroup.Machine.
func (g *group) Apply(entry []byte) {
	r := codec.NewReader(entry)
	closing := r.Uvarint()
	for r.Len() > 0 && r.Err() == nil {
		switch kind := r.Uint8(); kind {
		case commandCommit:
			g.applyCommit(readEffect(&r, kind))
		case commandPrepare:
			g.applyPrepare(readEffect(&r, kind))
		case commandResolve:
			var v resolution
			v.read(&r)
			g.applyResolve(v)
		case commandPrevent:
			g.applyPrevent(raftgroup.ReadName(&r))
		default:
			panic("spanner: an entry of the log holds an unknown command")
		}
	}
	if err := r.Done(); err != nil {
		panic("spanner: an entry of the log is malformed: " + err.Error())
	}
	// An entry that closes no timestamp contains 0.
	if closing > g.closed {
		g.closed = closing
		g.saw(closing)
	}
	g.wakeSnapshots()
}

// saw records a timestamp of the log, so that this node's clock passes it.
func (g *group) saw(t uint64) {
	g.latest = max(g.latest, t)
	g.r.clock.See(t)
}

func (g *group) applyCommit(e *effect) {
	g.forget(e.name.Coordinator, e.done)
	g.write(e, e.timestamp)
	g.ended.Finish(e.name, Outcome{true, e.timestamp})
	g.commitApplied(e)
}

func (g *group) applyPrepare(e *effect) {
	g.forget(e.name.Coordinator, e.done)
	g.saw(e.timestamp)
	if !g.prevented[e.name] {
		// A prevented transaction must stay unprepared, because another group may have aborted it for that reason.
		g.prepared[e.name] = e
	}
	g.prepareApplied(e)
}

func (g *group) applyResolve(v resolution) {
	g.forget(v.name.Coordinator, v.done)
	// The coordinator and the anchor may both resolve a transaction; only the first resolution writes.
	if e := g.prepared[v.name]; e != nil {
		delete(g.prepared, v.name)
		if v.Committed {
			g.write(e, v.Timestamp)
		}
		g.ended.Finish(v.name, v.Outcome)
	}
	g.resolveApplied(v.name)
}

func (g *group) applyPrevent(n raftgroup.Name) {
	// A transaction that was prepared in the meantime keeps its promise; only an unknown transaction is prevented.
	if f, _ := g.look(n); f == unknown {
		g.prevented[n] = true
		g.ended.Finish(n, Outcome{})
	}
	g.preventApplied(n)
}

// write installs a transaction's writes at a timestamp.
func (g *group) write(e *effect, timestamp uint64) {
	g.saw(timestamp)
	g.r.store.Install(e.writes, timestamp, e.id)
	g.r.trim()
}
