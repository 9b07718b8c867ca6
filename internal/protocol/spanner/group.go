package spanner

import (
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

const (
	// proposeEvery bounds the rate of a group's log entries while one is under way: what is proposed meanwhile shares
	// the next.
	proposeEvery = 500 * time.Microsecond
	// keptBytes bounds the part of a group's log that is kept for members that lag.
	keptBytes = 16 << 20
)

// group is this node's member of a Raft group, which keeps one shard.
type group struct {
	r     *Replica
	shard int
	raft  *consensus.Group
	dirty bool // is among Replica.dirty

	state
	// oldest is the time before which rows are not known, since a snapshot has come in place of the log.
	oldest uint64
	// snapshots are the reads of a time that is not closed yet.
	snapshots []*snapshotRead

	leaseholder
	// held are the requests for a term whose leaseholder this node may become.
	held []request
}

// request is a message for the leaseholder of a term.
type request struct {
	from geo.NodeID
	term uint64
	m    protocol.Message
}

func newGroup(r *Replica, shard int) *group {
	g := &group{r: r, shard: shard, state: newState()}
	members := r.layout.Group(shard)
	g.raft = consensus.New(consensus.Config{
		Self:      r.self,
		Members:   members.Members,
		Preferred: members.Leader,
		Env:       &groupEnv{r, shard},
		TimerKind: groupTimer,
		Heartbeat: r.heartbeat,
		Election:  r.election,
		Lease:     r.election - r.clockBound,
		Keep:      r.keep,
		KeepBytes: keptBytes,
		Apply:     g.apply,
		Lead:      g.lead,
		Snapshot:  g.snapshot,
		Restore:   g.restore,
	})
	g.init()
	return g
}

// groupEnv is the world of a group's consensus: its messages and timers say which group they belong to.
type groupEnv struct {
	r     *Replica
	shard int
}

// Now implements protocol.Env.
func (e *groupEnv) Now() time.Duration { return e.r.env.Now() }

// Send implements protocol.Env.
func (e *groupEnv) Send(to geo.NodeID, m protocol.Message) {
	e.r.env.Send(to, &Raft{e.shard, m.(*consensus.Message)})
}

// After implements protocol.Env.
func (e *groupEnv) After(d time.Duration, t protocol.Timer) {
	e.r.env.After(d, protocol.Timer{Kind: t.Kind, Arg: uint64(e.shard)<<8 | t.Arg})
}

// Reply implements protocol.Env. Consensus answers nobody.
func (e *groupEnv) Reply(txn.Outcome) {}

// Rand implements protocol.Env.
func (e *groupEnv) Rand() *rand.Rand { return e.r.env.Rand() }

// touch makes sure that the end of the step looks at the group.
func (g *group) touch() {
	if !g.dirty {
		g.dirty = true
		g.r.dirty.Push(g)
	}
}

// lead takes the news of a leader, before anything of its term is applied.
func (g *group) lead(leader geo.NodeID, term uint64) {
	if g.serving && (leader != g.r.self || term != g.term) {
		g.step(false)
	}
	g.touch()
}

// admit takes a request for the leaseholder of a term. A request for an earlier one is dropped: whoever has sent it
// will hear of the next leaseholder.
func (g *group) admit(from geo.NodeID, term uint64, m protocol.Message) {
	switch {
	case term < g.raft.Term():
	case g.leads() && term == g.term:
		g.serve(from, m)
	default:
		g.held = append(g.held, request{from, term, m})
	}
}

// leads reports whether this node is the leaseholder as far as the log is concerned: what it proposes may be committed.
func (g *group) leads() bool {
	if g.serving && (!g.raft.Leading() || g.raft.Term() != g.term) {
		g.step(false)
	}
	return g.serving
}

// leased reports whether there is no other leaseholder.
func (g *group) leased() bool { return g.raft.Leased() || g.r.mistake == staleLease }

// settle does what has become possible for the group in a step.
func (g *group) settle() {
	g.dirty = false
	if !g.leads() && g.raft.Current() {
		g.step(true)
	}
	held := g.held
	g.held = nil
	for _, q := range held {
		g.admit(q.from, q.term, q.m)
	}
	if g.serving {
		g.advance()
	}
	g.flush()
}

// flush proposes what has gathered, at once or with what comes soon.
func (g *group) flush() {
	if len(g.batch) == 0 || g.waiting {
		return
	}
	if wait := g.proposed + proposeEvery - g.r.env.Now(); g.underway > 0 && wait > 0 {
		g.waiting = true
		g.r.env.After(wait, protocol.Timer{Kind: proposeTimer, Arg: uint64(g.shard)})
		return
	}
	g.propose()
}

// propose proposes what has gathered. What is refused or lost is asked for again when the next leaseholder speaks.
func (g *group) propose() {
	if !g.leads() || len(g.batch) == 0 && !g.r.closing {
		return
	}
	var closing uint64
	if g.r.closing {
		closing = g.close()
	}
	entry := make([]byte, 0, codec.SizeUvarint(closing)+len(g.batch))
	entry = append(codec.AppendUvarint(entry, closing), g.batch...)
	full := len(g.batch) > 0
	g.batch = g.batch[:0]
	g.proposed = g.r.env.Now()
	g.underway++
	g.r.counters.entries++
	g.raft.Propose(entry)
	if full {
		g.content = g.raft.Last()
	}
}

// spread reports whether the members that live have all that the log holds.
func (g *group) spread() bool {
	return g.raft.Reached(g.content, func(n geo.NodeID) bool {
		return n != g.r.self && g.r.env.Now()-g.r.peers[n].heard < g.r.election
	})
}

// apply executes an entry of the log.
func (g *group) apply(entry []byte) {
	g.touch()
	if g.leads() && g.underway > 0 {
		g.underway--
	}
	r := codec.NewReader(entry)
	closing := r.Uvarint()
	for r.Len() > 0 && r.Err() == nil {
		switch kind := r.Uint8(); kind {
		case commandCommit:
			g.applyCommit(readEffect(&r, kind))
		case commandPrepare:
			g.applyPrepare(readEffect(&r, kind))
		case commandResolve:
			g.applyResolve(readResolution(&r))
		case commandPrevent:
			g.applyPrevent(readName(&r))
		default:
			panic("spanner: an entry of the log holds an unknown command")
		}
	}
	if err := r.Done(); err != nil {
		panic("spanner: an entry of the log is malformed: " + err.Error())
	}
	if closing > g.closed {
		g.closed = closing
		g.saw(closing)
	}
	g.wakeSnapshots()
}

// saw notes a timestamp of the log.
func (g *group) saw(t uint64) {
	g.latest = max(g.latest, t)
	g.r.clock.see(t)
}

func (g *group) applyCommit(e *effect) {
	g.forget(e.name.Coordinator, e.done)
	g.write(e, e.timestamp)
	g.finish(e.name, Outcome{true, e.timestamp})
	g.commitApplied(e)
}

func (g *group) applyPrepare(e *effect) {
	g.forget(e.name.Coordinator, e.done)
	g.saw(e.timestamp)
	if !g.prevented[e.name] {
		g.prepared[e.name] = e
	}
	g.prepareApplied(e)
}

func (g *group) applyResolve(v resolution) {
	g.forget(v.name.Coordinator, v.done)
	if e := g.prepared[v.name]; e != nil {
		delete(g.prepared, v.name)
		if v.Committed {
			g.write(e, v.Timestamp)
		}
		g.finish(v.name, v.Outcome)
	}
	g.resolveApplied(v.name)
}

func (g *group) applyPrevent(n Name) {
	if f, _ := g.look(n); f == unknown {
		g.prevented[n] = true
		g.finish(n, Outcome{})
	}
	g.preventApplied(n)
}

// write makes a transaction's writes.
func (g *group) write(e *effect, timestamp uint64) {
	g.saw(timestamp)
	for i := range e.writes {
		if w := &e.writes[i]; w.Deleted {
			g.r.store.Delete(w.Key, timestamp, e.id)
		} else {
			g.r.store.Put(w.Key, store.Record{Value: w.Value, Version: timestamp, Writer: e.id})
		}
	}
	g.r.trim()
}
