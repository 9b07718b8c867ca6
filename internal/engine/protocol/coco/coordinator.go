package coco

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// stage is the current activity of a coordinator.
type stage uint8

const (
	// idle: this node is not the coordinator.
	idle stage = iota
	// collecting: it asks all nodes for their states.
	collecting
	// proposing: the group of the regions agrees on a view.
	proposing
	// executing: an epoch runs, and has not been stopped.
	executing
	// voting: an epoch was stopped, and waits for the votes of the members.
	voting
)

// roundBits is the number of bits of a ballot that count the coordinator's rounds in its term.
const roundBits = 20

// maxVain bounds how often the timeout is doubled.
const maxVain = 6

// maxAborted is the number of aborted epochs that a view remembers, for nodes that were disconnected.
const maxAborted = 1000

// coordinator drives the two-phase commit of epochs. It is the leader of a Raft group with one member in each region.
type coordinator struct {
	r        *Replica
	group    *consensus.Group // nil on nodes that are not members
	interval time.Duration    // the parameter epoch
	timeout  time.Duration    // the silence after which a node is omitted from the view
	faults   int              // the parameter f

	// latest is the last view that the group has agreed on.
	latest *View
	stage  stage
	// term is this node's term as the coordinator; ballot is the ballot of the running round.
	term, ballot uint64
	states       []*State // states[n] is the answer of node n in the ballot, nil without one
	epoch        uint64
	votes        []bool
	voted        int
	heard        []time.Duration
	// awake is the last time at which this node received a message or looked for silent nodes.
	awake time.Duration
	// vain counts the rounds since this node last learned that an epoch was committed, under any coordinator.
	vain int
	// joining are the nodes that are outside of the view and know it.
	joining []bool
	// ready are the new incarnations that join in the view and have said that they have their rows.
	ready []bool
	terms int64
}

func (c *coordinator) init(r *Replica, p protocol.Params) {
	t := r.topology
	heartbeat := p.Duration("heartbeat")
	c.r, c.interval, c.faults = r, p.Duration("epoch"), faults(t, p)
	c.timeout = silentAfter(p, t.LongestRTT())
	c.latest = r.view
	n := t.Nodes()
	c.states, c.votes, c.heard = make([]*State, n), make([]bool, n), make([]time.Duration, n)
	c.joining, c.ready = make([]bool, n), make([]bool, n)
	members := coordinators(t)
	if !slices.Contains(members, r.self) {
		return
	}
	c.group = consensus.New(consensus.Config{
		Self: r.self, Incarnation: r.incarnation(), Members: members, Preferred: members[0], Env: r.env, TimerKind: groupTimer, Heartbeat: heartbeat,
		Election: electionAfter(p, t.LongestRTT()), Apply: c.apply, Lead: func(geo.NodeID, uint64) { c.terms++ },
		Snapshot: func() []byte { return c.latest.AppendTo(nil) }, Restore: c.restore,
	})
}

// coordinators returns the nodes that may lead the database: a node of each region.
func coordinators(t *geo.Topology) (nodes []geo.NodeID) {
	for region := range t.Regions {
		nodes = append(nodes, t.Node(geo.Region(region), 0, 0))
	}
	return nodes
}

// electionAfter is after how long a silent coordinator is given up, silentAfter after how long another node is.
func electionAfter(p protocol.Params, longest time.Duration) time.Duration {
	// One and a half heartbeats tolerate a late one; the two round trips cover a vote request and its answer.
	return p.Duration("heartbeat")*3/2 + 2*longest
}

func silentAfter(p protocol.Params, longest time.Duration) time.Duration {
	return p.Duration("heartbeat")*3 + 2*longest
}

// advance follows the group: a new leader becomes the coordinator once it knows all views.
func (c *coordinator) advance() {
	if c.group == nil {
		return
	}
	// A coordinator of an old term must stop deciding: the leader of the new term may have formed another view.
	if c.stage != idle && (!c.group.Leading() || c.group.Term() != c.term) {
		c.stage = idle
		c.r.env.Mark(coordinatorDeposed)
	}
	// Current means that all views of earlier terms are applied here. Before that, latest may be an old view.
	if c.stage == idle && c.group.Current() && c.group.Term() != c.term {
		c.term = c.group.Term()
		// Ballots of a later term exceed all ballots of earlier terms, however many rounds these had.
		c.ballot = c.term << roundBits
		for n := range c.heard {
			// The nodes sent their heartbeats to the predecessor, so their silence here proves nothing.
			c.heard[n] = c.r.env.Now()
		}
		c.collect()
		c.r.env.After(c.timeout/3, protocol.Timer{Kind: watchTimer, Arg: c.term})
	}
}

// hear notes that a node lives.
func (c *coordinator) hear(n geo.NodeID) {
	c.wake()
	c.heard[n] = c.r.env.Now()
}

// wake records that this node is running. A coordinator looks for silent nodes three times in the timeout. If it has
// done nothing for two of these periods, the other nodes were not silent: this node stood still, or its clock jumped.
func (c *coordinator) wake() {
	now := c.r.env.Now()
	// This node itself stood still: judging the other nodes by its stale clock would exclude all of them.
	if now-c.awake > 2*(c.timeout/3) {
		for n := range c.heard {
			c.heard[n] = now
		}
	}
	c.awake = now
}

// silent reports whether a node has been silent for longer than the timeout. The timeout doubles with each round after
// the first in which no epoch was committed. Without that, no epoch would commit where lost packets delay other
// messages by more than the timeout.
func (c *coordinator) silent(n geo.NodeID) bool {
	return n != c.r.self && c.r.env.Now()-c.heard[n] >= c.timeout<<min(max(0, c.vain-1), maxVain)
}

// collect starts a ballot: it asks all nodes for their states. Nodes that were heard since watch last looked have the
// whole timeout to answer.
func (c *coordinator) collect() {
	now := c.r.env.Now()
	for n := range c.heard {
		if now-c.heard[n] < c.timeout/3 {
			c.heard[n] = now
		}
	}
	// A new round needs a new ballot: answers to the last round may still arrive, with older states.
	c.ballot++
	c.vain++
	c.r.env.Mark(statesCollected)
	c.stage = collecting
	clear(c.states)
	clear(c.joining)
	for n := range geo.NodeID(len(c.states)) {
		c.r.send(n, &Collect{c.ballot})
	}
}

// state takes a node's answer to Collect.
func (c *coordinator) state(from geo.NodeID, m *State) {
	// States of an earlier ballot do not include a promise to ignore the ballots in between.
	if c.stage == collecting && m.Ballot == c.ballot {
		c.states[from] = m
		c.form()
	}
}

// form proposes a view of the nodes that have answered, if next returns a view.
func (c *coordinator) form() {
	if v := c.next(); v != nil {
		c.propose(v)
	}
}

// next returns a view of the nodes that have answered, or nil while a member of the last view must still be waited for.
// An epoch that all these members have voted for is committed, since the earlier coordinator may have announced that.
// An epoch that any of them has not voted for is aborted: it was not committed, and never will be. A node that then
// lacks rows joins. A new incarnation has no rows, and its predecessor's vote is not its vote.
func (c *coordinator) next() *View {
	v := &View{Ballot: c.ballot}
	first := true
	for n := range geo.NodeID(len(c.states)) {
		s, member := c.states[n], c.latest.has(n)
		if s == nil {
			// A member that may still run could have voted for an epoch that the old coordinator committed. Only silence permits
			// a view without it.
			if member && !c.silent(n) {
				c.r.env.Mark(memberAwaited)
				return nil
			}
			continue
		}
		v.Members = append(v.Members, n)
		// The predecessor of a new incarnation voted, and its copy is lost: this node cannot confirm the vote.
		if member && c.lost(n) {
			c.r.env.Mark(voteNotCounted)
			member = false
		}
		voted := s.Epoch
		// A vote for an epoch before the view says nothing about the view's epochs.
		if voted < c.latest.First {
			voted = c.latest.Committed // it has voted for none of the view's epochs
		}
		// The old coordinator commits an epoch only with the votes of all members. So the smallest vote bounds every commit
		// that it may have announced.
		if member && (first || voted < v.Committed) {
			v.Committed, first = voted, false
		}
	}
	for _, n := range v.Members {
		// Such a node lacks commits or has an incomplete copy, so it receives rows before it may serve them.
		if s := c.states[n]; s.Base == 0 || s.Epoch != v.Committed && s.Base != v.Committed {
			c.r.env.Mark(stateLacking)
			v.Joining = append(v.Joining, n)
		}
	}
	// Without any member of the last view the committed epoch is unknown, and a view without f+1 copies could lose it.
	if first || !c.covers(v) {
		return nil
	}
	return v
}

// covers reports whether a view has, for each shard, a member with its rows, and members that hold it in f+1 regions.
// Joining nodes among these f+1 receive the rows before an epoch is committed, so that a copy survives the loss of f
// regions.
func (c *coordinator) covers(v *View) bool {
	if !c.covered(v, true) {
		c.r.env.Mark(notCovered)
		return false
	}
	return true
}

// covered reports the same as covers, with or without the joining nodes.
func (c *coordinator) covered(v *View, joining bool) bool {
	t, l := c.r.topology, &c.r.layout
	regions := make([]bool, len(t.Regions))
	for shard := range l.Shards() {
		clear(regions)
		held, complete := 0, false
		for _, m := range l.Group(shard).Members {
			if !v.has(m) || v.joins(m) && !joining {
				continue
			}
			complete = complete || !v.joins(m)
			// Copies count by region, since a fault takes a whole region (section 3.3).
			if region := t.RegionOf(m); !regions[region] {
				regions[region] = true
				held++
			}
		}
		if held < c.faults+1 || !complete {
			return false
		}
	}
	return true
}

// propose asks the group to agree on a view. The view's first epoch is an epoch that no node can have started.
func (c *coordinator) propose(v *View) {
	v.Incarnations = c.r.incarnationsOf(v.Members)
	// Skip one epoch: the old coordinator may have announced epoch Committed+1, and some members may run it already.
	v.First = max(v.Committed+1, c.latest.First) + 1
	v.Aborted = append(slices.Clone(c.latest.Aborted), v.First-1)
	// The list stays bounded. A node that was disconnected for longer reports its clients an unknown outcome.
	if n := len(v.Aborted); n > maxAborted {
		v.Aborted = v.Aborted[n-maxAborted:]
	}
	c.stage = proposing
	c.group.Propose(v.AppendTo(nil))
}

// apply takes a view that the group has agreed on.
func (c *coordinator) apply(entry []byte) {
	r := codec.NewReader(entry)
	v := readView(&r)
	if r.Done() != nil {
		return
	}
	c.latest = v
	// Another coordinator proposed this view, or an earlier round of this one did: its author announces it.
	if c.stage != proposing || v.Ballot != c.ballot {
		c.r.env.Mark(viewOfAnother)
		return
	}
	// All nodes receive the view, so that excluded nodes stop serving and ask to join.
	for n := range geo.NodeID(len(c.states)) {
		c.r.send(n, v)
	}
	clear(c.ready)
	c.begin(v.First)
	// A member lost its state while the group agreed on the view, so the view counts a copy that no longer exists.
	if slices.ContainsFunc(v.Members, c.lost) {
		c.collect()
	}
}

// restore takes the last view from a snapshot.
func (c *coordinator) restore(snapshot []byte) {
	r := codec.NewReader(snapshot)
	if v := readView(&r); r.Done() == nil {
		c.latest = v
	}
}

// begin runs an epoch that the coordinator is announcing to the members.
func (c *coordinator) begin(epoch uint64) {
	c.stage, c.epoch, c.voted = executing, epoch, 0
	clear(c.votes)
	c.r.env.After(c.interval, protocol.Timer{Kind: epochTimer, Arg: epoch})
}

// expire stops an epoch.
func (c *coordinator) expire(epoch uint64) {
	// The timer belongs to an epoch that a new view or an earlier stop has replaced.
	if c.stage != executing || c.epoch != epoch {
		return
	}
	c.stage = voting
	m := &Stop{Turn{c.ballot, epoch}}
	for _, n := range c.latest.Members {
		c.r.send(n, m)
	}
}

// vote takes a member's vote to commit an epoch.
func (c *coordinator) vote(from geo.NodeID, m *Vote) {
	// Each member counts once, and a vote under another ballot may come from a node that has promised a newer coordinator.
	if c.stage != voting || m.Turn != (Turn{c.ballot, c.epoch}) || c.votes[from] {
		return
	}
	c.votes[from] = true
	c.voted++
	// Every member must vote: a copy that commits without all writes would differ from the other copies.
	if c.voted == len(c.latest.Members) || c.r.mistake == ownRegion && c.ownRegionVoted() {
		c.decide()
	}
}

// decide commits an epoch that all members have voted for, and starts the next epoch. It changes the view if nodes
// join, or if joined nodes now have their rows and may become primaries. No other node joins while a joining node waits
// for rows.
func (c *coordinator) decide() {
	c.vain = 0
	change := slices.Contains(c.joining, true) || len(c.latest.Joining) > 0
	// While joined members still wait for rows, further changes of the view would restart their transfer.
	if change && !slices.ContainsFunc(c.latest.Joining, c.lacksRows) {
		c.ballot++
		v := &View{Ballot: c.ballot, Committed: c.epoch}
		c.r.env.Mark(viewWithJoiners)
		for n := range geo.NodeID(len(c.states)) {
			if c.joining[n] {
				v.Joining = append(v.Joining, n)
			}
			if c.joining[n] || c.latest.has(n) {
				v.Members = append(v.Members, n)
			}
		}
		clear(c.joining)
		c.propose(v)
		return
	}
	m := &Start{Turn{c.ballot, c.epoch + 1}}
	for _, n := range c.latest.Members {
		c.r.send(n, m)
	}
	c.begin(c.epoch + 1)
}

// ownRegionVoted reports whether the members in this node's region have voted: a mistake.
func (c *coordinator) ownRegionVoted() bool {
	t := c.r.topology
	return !slices.ContainsFunc(c.latest.Members, func(n geo.NodeID) bool {
		return t.RegionOf(n) == t.RegionOf(c.r.self) && !c.votes[n]
	})
}

// alive takes a node's heartbeat. One that knows that it is outside of the view joins with the next.
func (c *coordinator) alive(from geo.NodeID, m *Alive) {
	// A heartbeat of an older ballot may be from before this view, in which the sender is a member.
	if (c.stage == executing || c.stage == voting) && m.Ballot == c.ballot && !c.latest.has(from) {
		c.joining[from] = true
		c.r.env.Mark(nodeReturns)
	}
}

// watch looks for silent members. If a silent member has not voted, the new view without it aborts the epoch.
func (c *coordinator) watch(term uint64) {
	// A timer of an earlier term must not run next to the timer of this term.
	if c.stage == idle || c.term != term {
		return
	}
	c.wake()
	// Three looks in a timeout bound the detection delay to four thirds of it.
	c.r.env.After(c.timeout/3, protocol.Timer{Kind: watchTimer, Arg: term})
	switch {
	// A silent member may have become silent for long enough since the last state arrived.
	case c.stage == collecting:
		c.form()
	// While a proposal is with the group, a new ballot could not undo it. Wait for its outcome.
	case c.stage != proposing && (slices.ContainsFunc(c.latest.Members, c.silent) || c.r.env.Buggify(impatient)):
		c.r.env.Mark(memberSilent)
		c.collect()
	}
}

// awaits reports whether a node that lives is outside of the view.
func (c *coordinator) awaits() bool {
	for n := range geo.NodeID(len(c.heard)) {
		if c.stage != idle && !c.silent(n) && !c.latest.has(n) {
			return true
		}
	}
	return false
}
