package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// coordinator proposes consistent cuts (section 3.4, algorithm 3), as the leader of a Raft group of all replicas, or by
// its word alone.
type coordinator struct {
	r          *Replica
	interval   time.Duration // the parameter epoch
	replicated bool          // the parameter commit
	election   time.Duration // the minimum silence of a coordinator after which another coordinator is elected

	group    *consensus.Group
	known    bool  // the cuts are, to a new incarnation that hears them from the coordinator
	proposed Heads // of the last proposal of this term
	waiting  bool  // a timer is set
	terms    int64
}

// keepCuts is the number of cuts that a replica keeps for replicas that receive a Raft snapshot: some minutes.
const keepCuts = 20_000

// electionAfter is after how long a silent coordinator is given up.
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

// replaced sends the cuts to a new incarnation.
func (c *coordinator) replaced(n geo.NodeID, incarnation uint32) {
	switch {
	case c.replicated:
		c.group.Replaced(n, incarnation)
	case c.leads():
		c.r.env.Send(n, &Cuts{c.r.epochs.snapshot()})
	}
}

// joined reports whether this replica knows all cuts up to some cut, and receives all later cuts.
func (c *coordinator) joined() bool {
	if c.replicated {
		return c.group.Joined()
	}
	return c.known
}

// whole reports whether all replicas have what makes a cut hold.
func (c *coordinator) whole() bool { return !c.replicated || c.group.FullyReplicated() }

// leads reports whether this replica is the coordinator, as far as it knows.
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
	c.propose()
}

// propose asks for a cut at the end of the running interval, if the heads of the logs that have proofs have moved.
// Intervals follow each other by the coordinator's clock.
func (c *coordinator) propose() {
	if !c.waiting && c.leads() && c.moved() {
		c.waiting = true
		c.r.env.After(c.interval-max(0, c.r.env.Now())%c.interval, protocol.Timer{Kind: epochTimer})
	}
}

// expire proposes a cut.
func (c *coordinator) expire() {
	if c.waiting = false; !c.leads() || !c.moved() {
		return
	}
	for n := range c.proposed {
		c.proposed[n] = max(c.proposed[n], c.r.logs.all[n].proven)
	}
	if !c.replicated {
		m := &Cut{append(Heads(nil), c.proposed...)}
		c.r.others(func(n geo.NodeID) { c.r.env.Send(n, m) })
		c.r.epochs.agreed(m.Heads)
		return
	}
	// A proposal that is refused or lost is made again by the next leader.
	c.group.Propose(c.proposed.appendTo(make([]byte, 0, c.proposed.size())))
}

// moved reports whether there is something new to propose.
func (c *coordinator) moved() bool {
	for n := range c.proposed {
		if c.r.logs.all[n].proven > c.proposed[n] {
			return true
		}
	}
	return false
}

// apply takes a cut that was agreed on.
func (c *coordinator) apply(entry []byte) {
	r := codec.NewReader(entry)
	if h := readHeads(&r); r.Done() == nil {
		c.r.epochs.agreed(h)
	}
}
