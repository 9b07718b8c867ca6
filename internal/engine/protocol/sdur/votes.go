package sdur

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// await begins to gather the votes on a transaction.
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

// vote notifies the other groups that this group votes to commit.
func (g *group) vote(x *delivery, want Request) {
	for _, p := range x.Participants {
		if p != g.Shard {
			g.tell(p, &Vote{Of: x.name, Verdict: Commit, Timestamp: x.earliest, Request: want})
		}
	}
}

// tell sends a vote to another group's leader. If no leader is known, the vote is sent when a leader announces itself.
func (g *group) tell(group int, m *Vote) {
	if l, known := g.r.leaderOf(group); known {
		m.Group, m.Term, m.About = group, l.term, g.Shard
		g.r.counters.votes++
		g.r.send(l.node, m)
	}
}

// voted takes another group's vote.
func (g *group) voted(m *Vote) {
	x := g.globals[m.Of]
	switch {
	case x == nil:
		if _, over, forgotten := g.ended.Look(m.Of); !over && !forgotten {
			g.r.env.Mark(voteEarly)
			g.early[m.Of] = append(g.early[m.Of], m)
		}
	case x.decided:
		g.r.env.Mark(voteLate)
	case m.Final:
		g.r.env.Mark(voteFinal)
		g.decide(x, ending{m.Verdict, m.Timestamp})
	default:
		g.note(x, m.About, ending{m.Verdict, m.Timestamp})
	}
}

// note counts a vote. When all are in, the transaction is decided, at the latest of their timestamps.
func (g *group) note(x *delivery, by int, v ending) {
	i, found := slices.BinarySearch(x.Participants, by)
	if !found {
		return
	}
	x.votes[i] = v
	all := ending{verdict: Commit}
	for _, v := range x.votes {
		if v.verdict == 0 && g.r.mistake != firstVote {
			return
		}
		all.timestamp = max(all.timestamp, v.timestamp)
	}
	if g.r.mistake == firstVote && by == g.Shard {
		return
	}
	g.decide(x, all)
}

// decide ends a transaction according to its votes. Every node that gathers the votes finds the same outcome, so the
// leader does not wait until the outcome is in the log.
func (g *group) decide(x *delivery, e ending) {
	x.decided, x.verdict, x.timestamp = true, e.verdict, e.timestamp
	g.log(x)
	g.complete()
	g.wakeReads()
	g.Touch()
}

// log puts the end of a transaction into the log.
func (g *group) log(x *delivery) {
	g.Batch = appendEnding(x.name.AppendTo(append(g.Batch, commandDecide)), ending{x.verdict, x.timestamp})
}

func appendEnding(b []byte, e ending) []byte {
	return codec.AppendUvarint(append(b, byte(e.verdict)), e.timestamp)
}

func readEnding(r *codec.Reader) ending { return ending{readVerdict(r, Commit), r.Uvarint()} }

// asked answers another group that asks for this group's vote. If this group has not delivered the transaction, a
// demand makes it vote to abort, through its log.
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
	case forgotten || want != Demand:
	default:
		if g.demands[n] = append(g.demands[n], by); len(g.demands[n]) == 1 {
			g.Batch = n.AppendTo(append(g.Batch, commandPrevent))
		}
	}
}

// recover demands the votes that have been missing for long: the coordinator may have been lost before it has sent the
// transaction to all groups.
func (g *group) recover() {
	now := g.r.env.Now()
	for _, x := range g.globalsInOrder() {
		if x.decided || now-x.since < g.r.recovery && !g.r.env.Buggify(demandsEarly) {
			continue
		}
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

// renew sends the new leader of another group this group's votes on open transactions, and asks for the other group's
// votes.
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

// globalsInOrder returns the global transactions that have passed and are not over, in the order of their names.
func (g *group) globalsInOrder() (all []*delivery) {
	for _, n := range slices.SortedFunc(maps.Keys(g.globals), raftgroup.Name.Compare) {
		all = append(all, g.globals[n])
	}
	return all
}
