package sdur

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// await starts to collect the votes on a transaction. It counts this group's vote and the votes that arrived early.
func (g *group) await(x *delivery) {
	x.votes, x.since = make([]ending, len(x.Participants)), g.r.env.Now()
	g.r.tickLater()
	g.note(x, g.Shard, ending{Commit, x.earliest})
	early := g.early[x.name]
	delete(g.early, x.name)
	for _, m := range early {
		g.voted(m)
	}
}

// vote sends this group's vote to commit to the other participants, with request want.
func (g *group) vote(x *delivery, want Request) {
	for _, p := range x.Participants {
		if p != g.Shard {
			g.tell(p, &Vote{Of: x.name, Verdict: Commit, Timestamp: x.earliest, Request: want})
		}
	}
}

// tell sends a vote to another group's leader. If no leader is known, it drops the vote; renew sends a new one when a
// leader announces itself.
func (g *group) tell(group int, m *Vote) {
	if l, known := g.r.leaderOf(group); known {
		m.Group, m.Term, m.About = group, l.term, g.Shard
		g.r.counters.votes++
		g.r.send(l.node, m)
	}
}

// voted handles another group's vote.
func (g *group) voted(m *Vote) {
	x := g.globals[m.Of]
	switch {
	case x == nil:
		// A vote for an ended transaction would stay in early until the coordinator's Done number removes it.
		if _, over, forgotten := g.ended.Look(m.Of); !over && !forgotten {
			g.r.env.Mark(voteEarly)
			g.early[m.Of] = append(g.early[m.Of], m)
		}
	case x.decided:
		g.r.env.Mark(voteLate)
	// A final vote is an outcome or a vote to abort, and decides without the other votes.
	case m.Final:
		g.r.env.Mark(voteFinal)
		g.decide(x, ending{m.Verdict, m.Timestamp})
	default:
		g.note(x, m.About, ending{m.Verdict, m.Timestamp})
	}
}

// note records a vote. Once all participants have voted to commit, it decides the transaction at the latest of their
// timestamps.
func (g *group) note(x *delivery, by int, v ending) {
	i, found := slices.BinarySearch(x.Participants, by)
	if !found {
		return
	}
	x.votes[i] = v
	all := ending{verdict: Commit}
	for _, v := range x.votes {
		// Votes to abort are final and do not arrive here, so an empty slot is the only reason to wait.
		if v.verdict == 0 && g.r.mistake != firstVote {
			return
		}
		// Each group votes with its earliest possible timestamp, so only the maximum is late enough in all groups.
		all.timestamp = max(all.timestamp, v.timestamp)
	}
	if g.r.mistake == firstVote && by == g.Shard {
		return
	}
	g.decide(x, all)
}

// decide sets the outcome of a transaction. Votes follow from logs, so every node that collects them finds the same
// outcome. The leader therefore need not wait until the outcome is in its log.
func (g *group) decide(x *delivery, e ending) {
	x.decided, x.verdict, x.timestamp = true, e.verdict, e.timestamp
	g.log(x)
	g.complete()
	g.wakeReads()
	g.Touch()
}

// log appends the outcome of a transaction to the batch for the log.
func (g *group) log(x *delivery) {
	g.Batch = appendEnding(x.name.AppendTo(append(g.Batch, commandDecide)), ending{x.verdict, x.timestamp})
}

func appendEnding(b []byte, e ending) []byte {
	return codec.AppendUvarint(append(b, byte(e.verdict)), e.timestamp)
}

func readEnding(r *codec.Reader) ending {
	return ending{codec.ReadEnum(r, Commit, Prevented), r.Uvarint()}
}

// asked answers another group's request for this group's vote. If this group has not delivered the transaction, only a
// demand makes it vote. It then votes to abort, through its log.
func (g *group) asked(by int, n raftgroup.Name, want Request) {
	if x := g.globals[n]; x != nil {
		m := &Vote{Of: n, Verdict: Commit, Timestamp: x.earliest}
		if x.decided {
			g.r.env.Mark(askedAboutDecided)
			m.Verdict, m.Timestamp, m.Final = x.verdict, x.timestamp, true
		}
		g.tell(by, m)
		return
	}
	e, over, forgotten := g.ended.Look(n)
	switch {
	case over:
		g.tell(by, &Vote{Of: n, Verdict: e.verdict, Timestamp: e.timestamp, Final: true})
	// A forgotten transaction has ended in all its groups, so the asking group needs no vote. A plain Ask can wait for
	// the delivery.
	case forgotten || want != Demand:
	default:
		// The vote must be in the log before it is sent. Otherwise a later delivery of the transaction could still pass. One
		// command serves all demands.
		if g.demands[n] = append(g.demands[n], by); len(g.demands[n]) == 1 {
			g.Batch = n.AppendTo(append(g.Batch, commandPrevent))
		}
	}
}

// recover demands the votes that have been missing for the recovery timeout. The coordinator may have been lost before
// it sent the transaction to all groups.
func (g *group) recover() {
	now := g.r.env.Now()
	for _, x := range g.globalsInOrder() {
		if x.decided || now-x.since < g.r.recovery && !g.r.env.Buggify(demandsEarly) {
			continue
		}
		// The next demand waits for another recovery timeout.
		x.since = now
		g.r.counters.recoveries++
		g.r.env.Mark(voteDemanded)
		for i, p := range x.Participants {
			if x.votes[i].verdict == 0 {
				g.tell(p, &Vote{Of: x.name, Verdict: Commit, Timestamp: x.earliest, Request: Demand})
			}
		}
	}
}

// renew sends this group's votes on undecided transactions to the new leader of another group, and asks for that
// group's votes.
func (g *group) renew(group int) {
	for _, x := range g.globalsInOrder() {
		if _, found := slices.BinarySearch(x.Participants, group); found {
			g.asked(group, x.name, Ask)
			if !x.decided {
				g.tell(group, &Vote{Of: x.name, Request: Ask})
			}
		}
	}
}

// globalsInOrder returns the transactions in g.globals in the order of their names. Map order would make replicas
// nondeterministic.
func (g *group) globalsInOrder() (all []*delivery) {
	for _, n := range slices.SortedFunc(maps.Keys(g.globals), raftgroup.Name.Compare) {
		all = append(all, g.globals[n])
	}
	return all
}
