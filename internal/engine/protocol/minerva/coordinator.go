package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// coordinator proposes consistent cuts (section 3.4, algorithm 3). It is either the leader of a Raft group of all
// replicas, or a fixed replica that decides without consensus.
type coordinator struct {
	r          *Replica
	interval   time.Duration // the parameter epoch
	replicated bool          // the parameter commit
	election   time.Duration // silence of the coordinator after which replicas may elect another one

	group    *consensus.Group
	known    bool  // without consensus: this new incarnation has received the cuts from the coordinator
	proposed Heads // heads of the last proposal, or of the last agreed cut when the term started
	waiting  bool  // the epoch timer is set
	terms    int64
}

// keepCuts is the number of cuts that a replica keeps for replicas that receive a Raft snapshot: enough for several
// minutes.
const keepCuts = 20_000

// electionAfter returns the silence of the coordinator after which the replicas elect another one. longest is the
// longest round trip.
func electionAfter(p protocol.Params, longest time.Duration) time.Duration {
	return p.Duration("heartbeat")*3/2 + 2*longest
}

func (c *coordinator) init(r *Replica, p protocol.Params) {
	c.r, c.interval, c.replicated = r, p.Duration("epoch"), p.Word("commit") == commitReplicated
	c.election = electionAfter(p, r.longest)
	c.proposed = make(Heads, r.nodes)
	members := make([]geo.NodeID, r.nodes)
	for n := range members {
		members[n] = geo.NodeID(n)
	}
	c.group = consensus.New(consensus.Config{
		Self: r.self, Incarnation: r.incarnation, Members: members, Preferred: 0, Env: r.env, TimerKind: groupTimer, Heartbeat: p.Duration("heartbeat"), Election: c.election,
		Apply: c.apply, Lead: c.lead, Snapshot: r.epochs.snapshot, Restore: r.epochs.restore,
	})
}

func (c *coordinator) start() {
	if c.replicated {
		c.group.Start()
	}
}

// replaced adds a new incarnation of n to the Raft group. Without consensus, the coordinator sends the cuts to the new
// incarnation.
func (c *coordinator) replaced(n geo.NodeID, incarnation uint32) {
	switch {
	case c.replicated:
		c.group.Replaced(n, incarnation)
	case c.leads():
		c.r.env.Send(n, &Cuts{c.r.epochs.snapshot()})
	}
}

// joined reports whether this replica knows the cuts without a gap up to the latest one, and will receive all later
// cuts.
func (c *coordinator) joined() bool {
	if c.replicated {
		return c.group.Joined()
	}
	return c.known
}

// whole reports whether the consensus group is fully replicated. Without consensus, there is no such group.
func (c *coordinator) whole() bool { return !c.replicated || c.group.FullyReplicated() }

// leads reports whether this replica considers itself the coordinator.
func (c *coordinator) leads() bool {
	if c.replicated {
		return c.group.Leading()
	}
	return c.r.self == 0
}

// leader returns the coordinator, if it is known.
func (c *coordinator) leader() (geo.NodeID, bool) {
	if c.replicated {
		return c.group.Leader()
	}
	return 0, true
}

// lead handles a change of the coordinator.
func (c *coordinator) lead(geo.NodeID, uint64) {
	c.terms++
	for n := range c.proposed {
		if c.proposed[n] != c.r.logs.all[n].cut {
			c.r.env.Mark(coordinatorNew)
		}
		c.proposed[n] = c.r.logs.all[n].cut // proposals of earlier terms may be lost
	}
	// Batches may have become available while there was no coordinator.
	c.propose()
}

// propose schedules a proposal for the end of the current interval, if any log has a new proven head. Intervals are
// aligned to the coordinator's clock.
func (c *coordinator) propose() {
	if !c.waiting && c.leads() && c.moved() {
		c.waiting = true
		// The clock may be negative at first, and % would then return a negative remainder.
		c.r.env.After(c.interval-max(0, c.r.env.Now())%c.interval, protocol.Timer{Kind: epochTimer})
	}
}

// expire proposes a cut at the proven heads of the logs.
func (c *coordinator) expire() {
	// Leadership may have changed while the timer ran.
	if c.waiting = false; !c.leads() || !c.moved() {
		return
	}
	for n := range c.proposed {
		// Only proven batches enter a cut: f + 1 replicas have a proven batch, so every replica can fetch it (section 3.3).
		c.proposed[n] = max(c.proposed[n], c.r.logs.all[n].proven)
	}
	if !c.replicated {
		// The message needs a copy, because the next proposal changes proposed.
		m := &Cut{append(Heads(nil), c.proposed...)}
		c.r.others(func(n geo.NodeID) { c.r.env.Send(n, m) })
		c.r.epochs.agreed(m.Heads)
		return
	}
	// If this proposal is refused or lost, the next leader proposes the same heads again.
	c.group.Propose(c.proposed.AppendTo(make([]byte, 0, c.proposed.Size())))
}

// moved reports whether a proven head is ahead of the last proposal.
func (c *coordinator) moved() bool {
	for n := range c.proposed {
		if c.r.logs.all[n].proven > c.proposed[n] {
			return true
		}
	}
	return false
}

// apply handles a cut that the Raft group has committed.
func (c *coordinator) apply(entry []byte) {
	r := codec.NewReader(entry)
	if h := ReadHeads(&r); r.Done() == nil {
		c.r.epochs.agreed(h)
	}
}
