// Package consensus replicates a log inside protocol machines with Raft (Ongaro and Ousterhout, 2014), as implemented
// by go.etcd.io/raft. It drives Raft so that a machine stays deterministic and without I/O, as package protocol
// requires.
//
// A Group is a member of a replicated log. Its owner passes messages of kind Kind and timers of kind Config.TimerKind
// to the group. The owner receives each committed entry once, in log order, through Config.Apply. The package differs
// from plain use of RawNode as follows.
//
// Time. Raft draws its election timeouts from crypto/rand and counts ticks. Here the group manages elections: it draws
// timeouts from Env.Rand, and a member that has received nothing from a leader within its timeout calls Campaign. Only
// the leader ticks, once per heartbeat. A member with a live leader ignores pre-votes, as Raft's leader stickiness
// requires (thesis, section 4.2.3).
//
// Timeouts shorter than two round trips elect no leader, and the round trip is not known beforehand. A link that has
// lost packets may delay all messages for several hundred milliseconds. A member's timeout therefore doubles, up to a
// few seconds, whenever it campaigns again without having received anything from a leader in between. The timeout is
// halved again while the leader's messages arrive in time. Dwork, Lynch and Stockmeyer (1988, section 4) find the
// unknown bound in this way.
//
// Storage. The log is in memory and is truncated up to the applied entries. A member that lags too far gets the owner's
// snapshot: the state that results from applying the entries so far. The snapshot is taken only when it is needed. It
// is sent in pieces, so that heartbeats and entries are sent between them: see snapshots.go.
//
// Members. A node that has lost its state has also lost its votes and acknowledgements. Its replacement must therefore
// not act as the same member: the next incarnation is another member, with another Raft ID. The leader removes the old
// member and adds the new one: see members.go.
//
// Leases. With Config.Lease, a leader knows for a while that it is the only leader (thesis, section 6.4.1). The lease
// starts when the leader sends a heartbeat that a majority, including itself, acknowledges. A member that acknowledges
// a heartbeat grants no vote, not even a pre-vote, before Config.Election has passed, so no other leader is elected
// earlier. A leader that grants a vote itself no longer leads.
//
// The leader counts from the sending of the heartbeat, on its own clock. The member counts from the arrival of the
// heartbeat, on the member's clock. A lease is shorter than Election by a margin. Leases are therefore safe as long as
// the two clocks measure durations that differ by less than the margin. The clocks may show different times.
//
// A link may stall for longer than a lease lasts, so that the leader cannot renew the lease in time. The leader can
// still determine that it led at some instant (read index, thesis section 6.4). A majority must acknowledge a heartbeat
// that the leader sent after that instant. This takes a round trip, but needs no clock.
package consensus

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Defaults of Config. A leader that sends nothing for one to two seconds, at least five heartbeats, is replaced.
const (
	DefaultHeartbeat = 200 * time.Millisecond
	DefaultElection  = time.Second
	DefaultKeep      = 10_000
)

// enoughElection bounds the doubling of election timeouts: a timeout of this length or longer is not doubled. A
// connection that has lost a packet twice in a row resumes after 0.6 s.
const enoughElection = 2 * time.Second

// Config describes a member.
type Config struct {
	Self geo.NodeID
	// Incarnation is the incarnation of Self; 0 is the first. A later incarnation starts without state, and votes once
	// the leader has made it a voter.
	Incarnation uint32
	// Members lists the group's nodes, including Self; the list is the same at all members.
	Members []geo.NodeID
	// Preferred is the member that campaigns at Start, so that a new group has its leader at the node that the protocol
	// prefers.
	Preferred geo.NodeID
	Env       protocol.Env
	// TimerKind is the kind of the group's timers; the owner must pass these timers to Group.Fire.
	TimerKind uint8
	// Heartbeat is the interval of the leader's heartbeats; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
	// Election is the minimum silence of a leader after which a member campaigns; the maximum is twice that. It should
	// exceed Heartbeat plus two round trips. Otherwise elections fail until timeouts have grown: see the package comment.
	// 0 means DefaultElection.
	Election time.Duration
	// Lease is the time for which a heartbeat that a majority has acknowledged prevents the election of another leader.
	// It counts from the sending of the heartbeat, by the leader's clock. Lease must be Election minus the amount by
	// which clocks may diverge in that time. 0 means no leases. All members must have the same value.
	Lease time.Duration
	// Keep is the number of applied entries kept for members that lag; 0 means DefaultKeep.
	Keep int
	// KeepBytes bounds the size of the kept entries in bytes; at least one entry is kept. 0 means no bound.
	KeepBytes int
	// Apply applies a committed entry. It is called in log order.
	Apply func(data []byte)
	// Lead is called when this member learns that leader leads in term.
	Lead func(leader geo.NodeID, term uint64)
	// Snapshot returns the owner's state, as of the last applied entry.
	Snapshot func() []byte
	// Restore replaces the owner's state with a snapshot.
	Restore func(data []byte)
	// ChunkBytes is the maximum size of a piece of a snapshot, in bytes. One piece is sent per ChunkEvery. 0 selects the
	// values of package statetransfer.
	ChunkBytes int
	ChunkEvery time.Duration
	// Lossy is set if a snapshot contains less information than the entries that it replaces.
	Lossy bool

	// reused makes a new incarnation act as the old one, which is wrong: a test shows the consequences.
	reused bool
}

// Group is one member of a replicated log.
type Group struct {
	c         Config
	node      *raft.RawNode `checkpoint:"-"` // nil in a group with a single member, which needs no agreement
	written   written       // saves and loads node in checkpoints
	storage   *storage
	leader    geo.NodeID
	hasLeader bool
	leading   bool
	term      uint64
	applied   uint64
	newest    uint64        // term of the last applied entry
	compacted uint64        // value of applied at the last truncation
	uncut     int           // bytes applied since the last truncation
	heard     time.Duration // time of the last message from the leader
	// longest silence of the leader since the election timer was set, excluding the current silence
	gap       time.Duration
	promised  bool // a leader has sent a message, so this member may not vote until Election after heard
	fruitless bool // this member has campaigned, and has received nothing from a leader after that
	doublings uint // number of doublings of the election timeout
	beating   bool // the heartbeat timer is pending
	draining  bool
	applying  bool
	queue     [][]byte // entries committed and not yet applied
	// acknowledged holds, by member, the sending time of the latest heartbeat of this leader that the member has
	// acknowledged.
	acknowledged map[uint64]time.Duration
	leased       time.Duration // this leader is certainly the only leader until this time
	// beaten is the latest sending time of all heartbeats of this member. confirmed is the latest sending time of a
	// heartbeat of this term that a majority has acknowledged.
	beaten, confirmed time.Duration
	membership
	snapshots
}

// storage is the log as Raft sees it.
type storage struct {
	*raft.MemoryStorage
	g *Group
}

// Snapshot implements raft.Storage.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	g := s.g
	if g.applying || len(g.queue) > 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable // the owner's state does not correspond to an index
	}
	term, err := s.Term(g.applied)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{Data: g.c.Snapshot(), Metadata: &raftpb.SnapshotMetadata{
		Index: new(g.applied), Term: new(term), ConfState: g.conf,
	}}, nil
}

// Timers of the group, in Timer.Arg.
const (
	electionTimer = iota
	heartbeatTimer
	chunkTimer
)

// New returns a member. It panics if the configuration is inconsistent, which is a programming error.
func New(c Config) *Group {
	if !slices.Contains(c.Members, c.Self) || !slices.Contains(c.Members, c.Preferred) {
		panic(fmt.Sprintf("consensus: self %d and preferred %d must be among the members %v", c.Self, c.Preferred, c.Members))
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Election == 0 {
		c.Election = DefaultElection
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.ChunkBytes == 0 {
		c.ChunkBytes = statetransfer.PieceBytes
	}
	if c.ChunkEvery == 0 {
		c.ChunkEvery = statetransfer.Every
	}
	if c.reused {
		c.Incarnation = 0
	}
	g := &Group{c: c, beaten: never, confirmed: never}
	g.written.g = g
	if len(c.Members) == 1 {
		if c.Incarnation > 0 {
			panic(fmt.Sprintf("consensus: nobody has a copy of what member %d has lost", c.Self))
		}
		return g
	}
	g.storage = &storage{raft.NewMemoryStorage(), g}
	g.acknowledged = map[uint64]time.Duration{}
	g.membership = newMembership(&c)
	if c.Incarnation == 0 {
		g.found()
	}
	g.node = newNode(g.self, g.storage, g.applied)
	return g
}

// newNode returns the RawNode of a member.
func newNode(self uint64, s raft.Storage, applied uint64) *raft.RawNode {
	n, err := raft.NewRawNode(&raft.Config{
		ID:              self,
		ElectionTick:    1 << 30, // never: the group owns elections
		HeartbeatTick:   1,
		Storage:         s,
		Applied:         applied,
		MaxSizePerMsg:   1 << 20,
		MaxInflightMsgs: 1 << 12,
		// A member that was disconnected would otherwise raise its term and depose a healthy leader when it returns.
		PreVote: true,
		// Otherwise a proposal could be committed twice: its sender may repeat a forwarded proposal to the next leader.
		DisableProposalForwarding: true,
		Logger:                    quiet{},
	})
	if err != nil {
		panic(err)
	}
	return n
}

// found initializes a new group at index 1 with its members known, as if a first entry had added them.
func (g *Group) found() {
	g.conf = &raftpb.ConfState{}
	for _, m := range g.c.Members {
		g.conf.Voters = append(g.conf.Voters, raftID(m, 0))
	}
	err := g.storage.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: g.conf,
	}})
	if err != nil {
		panic(err)
	}
	if err := g.storage.SetHardState(&raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}); err != nil {
		panic(err)
	}
	g.applied, g.compacted, g.newest = 1, 1, 1
}

// Start starts the member. The preferred member campaigns immediately.
func (g *Group) Start() {
	if g.node == nil {
		g.lead(g.c.Self, 1)
		return
	}
	g.heard = g.c.Env.Now()
	if g.c.Self == g.c.Preferred && g.votes() {
		g.campaign()
		g.drain()
	}
	g.awaitLeader(g.electionTimeout())
}

// Leader returns the last known leader; known is false if there is none.
func (g *Group) Leader() (leader geo.NodeID, known bool) { return g.leader, g.hasLeader }

// Leading reports whether this member leads, as far as it knows.
func (g *Group) Leading() bool { return g.leading }

// Term returns the term of the last known leader.
func (g *Group) Term() uint64 { return g.term }

// Current reports whether this member leads and has applied an entry of its term, and therefore all entries committed
// before that term.
func (g *Group) Current() bool { return g.leading && (g.node == nil || g.newest == g.term) }

// Leased reports whether this member certainly is the only leader: see Config.Lease.
func (g *Group) Leased() bool { return g.leading && (g.node == nil || g.c.Env.Now() < g.leased) }

// Mark returns a value that stands for the present instant, as an argument of LedSince.
func (g *Group) Mark() time.Duration { return g.beaten }

// LedSince reports whether this leader knows that, at some instant after mark, no leader of a later term had committed
// anything. The leader knows this if a majority has acknowledged a heartbeat that was sent after mark. The result does
// not depend on clocks, and does not mean that this member still leads. Config.Lease must be set.
func (g *Group) LedSince(mark time.Duration) bool {
	return g.leading && (g.node == nil || g.confirmed > mark)
}

// Last returns the index of the last entry in this member's log.
func (g *Group) Last() uint64 {
	if g.node == nil {
		return 0
	}
	last, err := g.storage.LastIndex()
	if err != nil {
		panic(err)
	}
	return last
}

// Awaits reports whether this member has an unapplied entry for which counts returns true.
func (g *Group) Awaits(counts func(data []byte) bool) bool {
	if g.node == nil || g.Last() <= g.applied {
		return false
	}
	entries, err := g.storage.Entries(g.applied+1, g.Last()+1, math.MaxUint64)
	if err != nil {
		panic(err)
	}
	// Entries for membership changes are not the owner's data.
	return slices.ContainsFunc(entries, func(e *raftpb.Entry) bool { return e.GetType() == raftpb.EntryNormal && counts(e.GetData()) })
}

// Reached reports whether all members for which counts returns true have all entries up to an index, as far as this
// leader knows.
func (g *Group) Reached(index uint64, counts func(geo.NodeID) bool) bool {
	reached := true
	if g.node != nil {
		g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			reached = reached && (p.Match >= index || !counts(nodeOf(id)))
		})
	}
	return reached
}

// Propose appends data to the log if this member leads; otherwise it returns false. Even if it returns true, the entry
// may be lost when the leader is deposed.
func (g *Group) Propose(data []byte) bool {
	if g.node == nil {
		g.queue = append(g.queue, data)
		g.apply()
		return true
	}
	if !g.leading || g.node.Propose(data) != nil {
		return false
	}
	g.drain()
	return true
}

// Receive handles a message from another member.
func (g *Group) Receive(from geo.NodeID, m *Message) {
	if g.node == nil || !slices.Contains(g.c.Members, from) {
		return
	}
	var msg raftpb.Message
	if err := proto.Unmarshal(m.Body, &msg); err != nil || !g.between(from, &msg) {
		return
	}
	now := g.c.Env.Now()
	switch msg.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		// A message of a deposed leader says nothing about the current leader, and must not delay an election.
		if msg.GetTerm() >= g.term {
			g.gap = max(g.gap, now-g.heard)
			g.heard, g.promised, g.fruitless = now, true, false
		} else {
			g.c.Env.Mark(oldLeader)
		}
		// Pass only complete snapshots to Raft: pieces stop here.
		if msg.GetType() == raftpb.MsgSnap && !g.assemble(&msg) {
			return
		}
	case raftpb.MsgSnapStatus:
		g.arrived(&msg)
		g.drain()
		return
	case raftpb.MsgPreVote:
		// A member that still receives the leader's messages must not help to replace it (thesis, section 4.2.3).
		if g.leading || (g.hasLeader && now-g.heard < g.c.Election) || g.bound(now) {
			g.c.Env.Mark(preVoteIgnored)
			return
		}
	case raftpb.MsgVote:
		// A vote within Election of an acknowledged heartbeat would break the leader's lease.
		if g.bound(now) {
			g.c.Env.Mark(voteWithheld)
			return
		}
	case raftpb.MsgAppResp:
		// Logs start at index 1, so an answer with index 0 acknowledges nothing. It only reports the current term to a leader
		// of an earlier term. The leader of the current term would mistake the answer for the acknowledgement of an empty
		// log, and send a snapshot.
		if msg.GetIndex() == 0 && !msg.GetReject() && msg.GetTerm() <= g.node.BasicStatus().GetTerm() {
			g.c.Env.Mark(oldTermAnswered)
			return
		}
	case raftpb.MsgHeartbeatResp:
		if g.c.Lease > 0 {
			g.renew(&msg)
			msg.Context = nil // Raft would take it for the context of a read
		}
	}
	// Raft returns errors for stale and unexpected messages, which can be ignored.
	_ = g.node.Step(&msg)
	g.drain()
	g.mend()
}

// bound reports whether this member has acknowledged a heartbeat so recently that it must not vote. A leader may vote:
// it then knows that it no longer leads.
func (g *Group) bound(now time.Duration) bool {
	return g.c.Lease > 0 && g.promised && !g.leading && now-g.heard < g.c.Election
}

// renew handles the acknowledgement of a heartbeat. Only acknowledgements of voters count.
func (g *Group) renew(m *raftpb.Message) {
	voters, from := g.conf.GetVoters(), m.GetFrom()
	// A heartbeat of an earlier term proves nothing for this term: another leader may have been elected in between.
	if !g.leading || m.GetTerm() != g.term || len(m.GetContext()) != 8 || !slices.Contains(voters, from) || len(voters) < 2 {
		return
	}
	sent := time.Duration(binary.LittleEndian.Uint64(m.GetContext()))
	if sent <= g.acknowledgedBy(from) {
		g.c.Env.Mark(ackRepeated)
		return
	}
	g.acknowledged[from] = sent
	// A majority is this member and len(voters)/2 other members. others holds the other voters' times.
	others := make([]time.Duration, 0, len(voters)-1)
	for _, id := range voters {
		if id != g.self {
			others = append(others, g.acknowledgedBy(id))
		}
	}
	slices.Sort(others)
	// others is in ascending order, so len(voters)/2 other voters have acknowledged this time or a later time.
	if base := others[len(others)-len(voters)/2]; base > never {
		g.leased = max(g.leased, base+g.c.Lease)
		g.confirmed = max(g.confirmed, base)
	}
}

func (g *Group) acknowledgedBy(id uint64) time.Duration {
	if sent, ok := g.acknowledged[id]; ok {
		return sent
	}
	return never
}

// never is before all times.
const never = time.Duration(math.MinInt64)

// Fire handles a timer of the group.
func (g *Group) Fire(t protocol.Timer) {
	switch t.Arg {
	case heartbeatTimer:
		g.beating = false
		if g.leading {
			if !g.c.Env.Buggify(heartbeatLeftOut) {
				g.node.Tick()
			}
			g.beat()
		}
	case electionTimer:
		silence := g.c.Env.Now() - g.heard
		switch {
		// A leader does not wait for itself, and a learner cannot be elected.
		case g.leading, !g.votes():
			g.shorten()
			g.awaitLeader(g.electionTimeout())
		// The leader has sent a message after the timer was set. Wait for the remaining time.
		case silence < g.silence():
			g.shorten()
			g.awaitLeader(g.electionTimeout() - silence)
		default:
			// A second campaign in a row without a message from a leader suggests that the round trip exceeds the timeout.
			if g.fruitless && g.silence() < enoughElection {
				g.c.Env.Mark(timeoutDoubled)
				g.doublings++
			}
			timeout := g.electionTimeout()
			g.c.Env.Mark(campaign)
			g.fruitless = true
			g.campaign()
			g.awaitLeader(timeout)
		}
	case chunkTimer:
		g.sendChunks()
	}
	g.drain()
	g.mend()
}

func (g *Group) campaign() {
	// Campaign fails only while a committed membership change is not applied. drain has applied all committed entries.
	_ = g.node.Campaign()
}

// silence returns the minimum silence of a leader after which this member campaigns.
func (g *Group) silence() time.Duration { return g.c.Election << g.doublings }

// shorten halves the timeout if half of it exceeds the longest recent silence of the leader by more than a quarter.
func (g *Group) shorten() {
	if g.doublings > 0 && g.gap+g.gap/4 < g.silence()/2 {
		g.c.Env.Mark(timeoutHalved)
		g.doublings--
	}
	g.gap = 0
}

func (g *Group) electionTimeout() time.Duration {
	return (g.c.Election + time.Duration(g.c.Env.Rand().Int64N(int64(g.c.Election)))) << g.doublings
}

func (g *Group) awaitLeader(d time.Duration) {
	g.c.Env.After(d, protocol.Timer{Kind: g.c.TimerKind, Arg: electionTimer})
}

func (g *Group) beat() {
	if !g.beating {
		g.beating = true
		g.c.Env.After(g.c.Heartbeat, protocol.Timer{Kind: g.c.TimerKind, Arg: heartbeatTimer})
	}
}

// drain handles everything that Raft reports as ready: it stores entries, sends messages and applies committed entries.
func (g *Group) drain() {
	if g.node == nil || g.draining {
		return // the caller is a callback of the drain in progress, which continues the loop
	}
	g.draining = true
	for g.node.HasReady() {
		rd := g.node.Ready()
		if !raft.IsEmptySnap(rd.Snapshot) {
			if err := g.storage.ApplySnapshot(rd.Snapshot); err != nil {
				panic(err)
			}
			g.applied, g.newest = rd.Snapshot.GetMetadata().GetIndex(), rd.Snapshot.GetMetadata().GetTerm()
			g.compacted, g.uncut = g.applied, 0
			// The snapshot includes the entries that wait to be applied.
			g.queue = g.queue[:0]
			g.conf, g.mended = rd.Snapshot.GetMetadata().GetConfState(), false
			g.c.Restore(rd.Snapshot.GetData())
		}
		// Raft requires that entries and votes are stored before the messages that rely on them are sent.
		if err := g.storage.Append(rd.Entries); err != nil {
			panic(err)
		}
		if !raft.IsEmptyHardState(rd.HardState) {
			if err := g.storage.SetHardState(rd.HardState); err != nil {
				panic(err)
			}
		}
		finished, failed := g.send(rd.Messages)
		for _, e := range rd.CommittedEntries {
			g.applied, g.newest = e.GetIndex(), e.GetTerm()
			g.uncut += len(e.GetData())
			switch {
			case e.GetType() != raftpb.EntryNormal:
				g.change(e)
			case len(e.GetData()) > 0:
				g.queue = append(g.queue, e.GetData())
			}
		}
		g.node.Advance(rd)
		for _, to := range finished {
			g.node.ReportSnapshot(to, raft.SnapshotFinish)
		}
		for _, to := range failed {
			g.node.ReportSnapshot(to, raft.SnapshotFailure)
		}
		// Report a new leader before its committed entries, so that the owner knows its role when it applies them.
		if st := g.node.BasicStatus(); st.Lead != raft.None {
			g.lead(nodeOf(st.Lead), st.HardState.GetTerm())
		} else {
			if g.hasLeader {
				g.c.Env.Mark(leaderless)
			}
			g.hasLeader, g.leading = false, false
		}
		g.apply()
		g.compact()
	}
	g.draining = false
}

// send sends Raft's messages. It returns the members whose snapshots were sent in a single message, and the members
// whose snapshots were dropped. Raft must be notified of both.
func (g *Group) send(msgs []*raftpb.Message) (finished, failed []uint64) {
	for _, m := range msgs {
		snapshot := m.GetType() == raftpb.MsgSnap
		switch {
		// The node's link leads to another incarnation, which must not receive messages for its predecessor.
		case !g.knows(m.GetTo()):
			if snapshot {
				failed = append(failed, m.GetTo())
			}
			continue
		case snapshot && len(m.GetSnapshot().GetData()) > g.pieceBytes():
			g.transfer(m)
			continue
		case snapshot:
			finished = append(finished, m.GetTo())
		// The acknowledgement echoes the sending time, from which the lease counts.
		case m.GetType() == raftpb.MsgHeartbeat && g.c.Lease > 0:
			now := g.c.Env.Now()
			g.beaten = max(g.beaten, now)
			m.Context = binary.LittleEndian.AppendUint64(nil, uint64(now))
		}
		g.put(m)
	}
	return finished, failed
}

// put encodes and sends a message.
func (g *Group) put(m *raftpb.Message) {
	body, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(nil, m)
	if err != nil {
		panic(err)
	}
	g.c.Env.Send(nodeOf(m.GetTo()), &Message{Body: body, Type: m.GetType()})
}

func (g *Group) apply() {
	for len(g.queue) > 0 {
		// Apply may propose and thereby extend the queue, so the loop works on a detached slice.
		q := g.queue
		g.queue = nil
		g.applying = true
		for _, data := range q {
			g.c.Apply(data)
		}
		g.applying = false
		if g.queue == nil {
			g.queue = q[:0]
		}
	}
}

func (g *Group) lead(leader geo.NodeID, term uint64) {
	if g.hasLeader && g.leader == leader && g.term == term {
		return
	}
	if g.term > 0 && leader != g.leader {
		g.c.Env.Mark(newLeader)
	}
	g.leader, g.hasLeader, g.term = leader, true, term
	g.leading = leader == g.c.Self
	g.heard, g.fruitless = g.c.Env.Now(), false
	// Transfers, rounds and pending changes belong to the leader of the previous term.
	g.changing, g.rounds, g.transfers = 0, nil, nil
	if g.leading && g.node != nil {
		clear(g.acknowledged)
		g.leased, g.confirmed = never, never
		if g.c.Lease > 0 {
			g.node.Tick() // send a heartbeat now, so that the first lease need not wait for the timer
		}
		g.beat()
	}
	g.c.Lead(leader, term)
}
