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
	// collecting: the node asks all nodes for their states.
	collecting
	// proposing: a proposed view awaits agreement by the Raft group.
	proposing
	// executing: an epoch runs and has not been stopped yet.
	executing
	// voting: the epoch was stopped, and the votes of some members are outstanding.
	voting
)

// roundBits is the number of low bits of a ballot that count the rounds of the coordinator's term.
const roundBits = 20

// maxVain bounds the number of times that the timeout doubles.
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
	states       []*State // by node: its State in this ballot, or nil
	epoch        uint64
	votes        []bool
	voted        int
	heard        []time.Duration
	// awake is the last time at which this node received a message or checked for silent nodes.
	awake time.Duration
	// vain counts the rounds since this node last learned of a committed epoch, under any coordinator.
	vain int
	// joining[n] is set if node n is outside the view and knows that it is outside.
	joining []bool
	// ready[n] is set once node n, a new incarnation that joins in the view, has reported that it has its rows.
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

// coordinators returns the nodes that can become coordinator, one in each region.
func coordinators(t *geo.Topology) (nodes []geo.NodeID) {
	for region := range t.Regions {
		nodes = append(nodes, t.Node(geo.Region(region), 0, 0))
	}
	return nodes
}

// electionAfter returns how long a coordinator may be silent before the Raft group elects another coordinator.
// silentAfter returns how long any other node may be silent before the coordinator omits it from the view.
func electionAfter(p protocol.Params, longest time.Duration) time.Duration {
	// Allow for a heartbeat that is late by half an interval. Two round trips cover a vote request and its answer.
	return p.Duration("heartbeat")*3/2 + 2*longest
}

func silentAfter(p protocol.Params, longest time.Duration) time.Duration {
	return p.Duration("heartbeat")*3 + 2*longest
}

// advance follows the Raft group: a new leader becomes the coordinator once it has applied all views.
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

// hear records that node n has sent a message.
func (c *coordinator) hear(n geo.NodeID) {
	c.wake()
	c.heard[n] = c.r.env.Now()
}

// wake records that this node is running. A coordinator checks for silent nodes three times per timeout. A gap of two
// of these periods without any check or message means that this node was paused or its clock jumped.
func (c *coordinator) wake() {
	now := c.r.env.Now()
	// After a pause or a clock jump, all times in heard are stale. Without a reset, the coordinator would exclude every
	// other node as silent.
	if now-c.awake > 2*(c.timeout/3) {
		for n := range c.heard {
			c.heard[n] = now
		}
	}
	c.awake = now
}

// silent reports whether a node has been silent for longer than the timeout. The timeout doubles with each round after
// the first in which no epoch was committed. Otherwise no epoch would ever commit in a network that delays messages by
// more than the timeout, for example because of lost packets.
func (c *coordinator) silent(n geo.NodeID) bool {
	return n != c.r.self && c.r.env.Now()-c.heard[n] >= c.timeout<<min(max(0, c.vain-1), maxVain)
}

// collect starts a ballot: it asks all nodes for their states. For a node that has sent a message within the last third
// of the timeout, the timeout starts again.
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

// state handles a node's answer to Collect.
func (c *coordinator) state(from geo.NodeID, m *State) {
	// A State of an earlier ballot promises less: its sender may still vote for a coordinator with a ballot in between.
	if c.stage == collecting && m.Ballot == c.ballot {
		c.states[from] = m
		c.form()
	}
}

// form proposes the view that next returns, if any.
func (c *coordinator) form() {
	if v := c.next(); v != nil {
		c.propose(v)
	}
}

// next returns a view of the nodes that have answered, or nil while further answers are needed. The view commits an
// epoch that all answering members of the last view have voted for: the earlier coordinator may have announced its
// commit. The view aborts an epoch that one of these members has not voted for, because the earlier coordinator cannot
// have committed it.
//
// A node whose rows are incomplete after this decision becomes a joining member. A new incarnation has no rows, and its
// predecessor's vote does not count as its own.
func (c *coordinator) next() *View {
	v := &View{Ballot: c.ballot}
	first := true
	for n := range geo.NodeID(len(c.states)) {
		s, member := c.states[n], c.latest.has(n)
		if s == nil {
			// A member that may still run could have voted for an epoch that the old coordinator committed. The view may omit
			// such a member only after its silence has exceeded the timeout.
			if member && !c.silent(n) {
				c.r.env.Mark(memberAwaited)
				return nil
			}
			continue
		}
		v.Members = append(v.Members, n)
		// The member's predecessor may have voted, but its copy is lost, and the new incarnation does not know about the
		// vote. It therefore does not count as a member of the last view.
		if member && c.lost(n) {
			c.r.env.Mark(voteNotCounted)
			member = false
		}
		voted := s.Epoch
		// A vote for an epoch before the latest view says nothing about the latest view's epochs.
		if voted < c.latest.First {
			voted = c.latest.Committed // the node has not voted in the latest view
		}
		// The old coordinator commits an epoch only with the votes of all members. So the smallest vote bounds every commit
		// that it may have announced.
		if member && (first || voted < v.Committed) {
			v.Committed, first = voted, false
		}
	}
	for _, n := range v.Members {
		// A node without all commits up to v.Committed, or with an incomplete copy, must receive rows before it may serve
		// them.
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

// covers reports whether each shard has a complete copy at a member of the view, and members in f+1 regions that hold
// it. Joining members count towards the f+1 regions: they receive the rows before an epoch is committed, so a copy
// survives the loss of f regions.
func (c *coordinator) covers(v *View) bool {
	if !c.covered(v, true) {
		c.r.env.Mark(notCovered)
		return false
	}
	return true
}

// covered is covers without the coverage mark. If joining is false, joining members do not count.
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

// propose proposes a view to the Raft group. The view's first epoch is one that no node can have started.
func (c *coordinator) propose(v *View) {
	v.Incarnations = c.r.incarnationsOf(v.Members)
	// Skip one epoch: the old coordinator may have announced epoch Committed+1, and some members may run it already.
	v.First = max(v.Committed+1, c.latest.First) + 1
	v.Aborted = append(slices.Clone(c.latest.Aborted), v.First-1)
	// Bound the list. A node that was disconnected for longer than the list covers reports unknown outcomes to its
	// clients.
	if n := len(v.Aborted); n > maxAborted {
		v.Aborted = v.Aborted[n-maxAborted:]
	}
	c.stage = proposing
	c.group.Propose(v.AppendTo(nil))
}

// apply applies an agreed view.
func (c *coordinator) apply(entry []byte) {
	r := codec.NewReader(entry)
	v := &View{}
	if v.read(&r); r.Done() != nil {
		return
	}
	c.latest = v
	// This node did not propose the view in its current ballot, so it does not announce the view.
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
	// If a member lost its state while the group agreed on the view, the view counts a copy that no longer exists.
	if slices.ContainsFunc(v.Members, c.lost) {
		c.collect()
	}
}

// restore installs the latest view from a snapshot.
func (c *coordinator) restore(snapshot []byte) {
	r := codec.NewReader(snapshot)
	v := &View{}
	if v.read(&r); r.Done() == nil {
		c.latest = v
	}
}

// begin records the start of an epoch and sets the timer for its end. The caller announces the epoch to the members.
func (c *coordinator) begin(epoch uint64) {
	c.stage, c.epoch, c.voted = executing, epoch, 0
	clear(c.votes)
	c.r.env.After(c.interval, protocol.Timer{Kind: epochTimer, Arg: epoch})
}

// expire stops an epoch at the end of its interval.
func (c *coordinator) expire(epoch uint64) {
	// Ignore the timer if a new view has replaced its epoch, or if the epoch is already stopped.
	if c.stage != executing || c.epoch != epoch {
		return
	}
	c.stage = voting
	m := &Stop{Turn{c.ballot, epoch}}
	for _, n := range c.latest.Members {
		c.r.send(n, m)
	}
}

// vote handles a member's vote to commit an epoch.
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

// decide commits an epoch that all members have voted for, and starts the next one. It changes the view if nodes want
// to join, or if joined nodes have received their rows and may become primaries.
func (c *coordinator) decide() {
	c.vain = 0
	change := slices.Contains(c.joining, true) || len(c.latest.Joining) > 0
	// A change of the view would restart the transfer to new incarnations that still wait for rows, so wait for them
	// first.
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

// ownRegionVoted reports whether all members in this node's region have voted; used by a faulty variant.
func (c *coordinator) ownRegionVoted() bool {
	t := c.r.topology
	return !slices.ContainsFunc(c.latest.Members, func(n geo.NodeID) bool {
		return t.RegionOf(n) == t.RegionOf(c.r.self) && !c.votes[n]
	})
}

// alive handles a node's heartbeat. A node that knows that it is outside the view joins with the next view.
func (c *coordinator) alive(from geo.NodeID, m *Alive) {
	// A sender with an older ballot may not know yet that this view omits it.
	if (c.stage == executing || c.stage == voting) && m.Ballot == c.ballot && !c.latest.has(from) {
		c.joining[from] = true
		c.r.env.Mark(nodeReturns)
	}
}

// watch checks for silent members. If a silent member has not voted, the new view without it aborts the epoch.
func (c *coordinator) watch(term uint64) {
	// A timer of an earlier term must not continue alongside the timer of this term.
	if c.stage == idle || c.term != term {
		return
	}
	c.wake()
	// With three checks per timeout, silence is detected within four thirds of the timeout.
	c.r.env.After(c.timeout/3, protocol.Timer{Kind: watchTimer, Arg: term})
	switch {
	// A member that has not answered may have exceeded the timeout since the last State arrived.
	case c.stage == collecting:
		c.form()
	// A new ballot could not withdraw the view that the group is deciding on, so wait for the decision first.
	case c.stage != proposing && (slices.ContainsFunc(c.latest.Members, c.silent) || c.r.env.Buggify(impatient)):
		c.r.env.Mark(memberSilent)
		c.collect()
	}
}

// awaits reports whether a live node is outside the view.
func (c *coordinator) awaits() bool {
	for n := range geo.NodeID(len(c.heard)) {
		if c.stage != idle && !c.silent(n) && !c.latest.has(n) {
			return true
		}
	}
	return false
}
