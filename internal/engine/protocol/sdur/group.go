package sdur

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// An entry of a group's log consists of a time and commands. The time is from its leader's clock, later than the times
// of all earlier entries and earlier than the times of all later ones. Each command starts with its kind. An entry
// without commands is a tick, which counts as a delivery.
const (
	// commandDeliver delivers a transaction.
	commandDeliver = iota + 1
	// commandDecide records the outcome of a global transaction that has passed here.
	commandDecide
	// commandPrevent votes to abort a transaction that has not been delivered.
	commandPrevent
)

// group is this node's member of a group of servers that keep one shard: a partition in the paper.
type group struct {
	*raftgroup.Member
	r *Replica
	state
	leader
	// empty says that this member, of a new incarnation, has not got the group's rows yet.
	empty bool
	// oldest is the time before which versions of rows may be missing.
	oldest uint64
	// reads wait for a state that this member does not have yet.
	reads []*waitingRead
	// pacing reports that a timer is set for the next tick, and tick that a tick is being proposed.
	pacing, tick bool
}

// leader is the volatile state of a group's leader, which is not in the log. It exists during the leader's term.
type leader struct {
	// early are votes on transactions that have not been delivered here.
	early map[raftgroup.Name][]*Vote
	// demands are the groups that demand a vote which has to be put into the log first.
	demands map[raftgroup.Name][]int
}

// delivery is a transaction that was delivered, and has not completed or has not been decided in the log.
type delivery struct {
	Update
	footprint
	name   raftgroup.Name
	number uint64 // the delivery counter
	// earliest is the earliest timestamp that the transaction may have, and the timestamp of this group's vote.
	earliest uint64

	// decided says that its end is known here, which is verdict and timestamp, and logged that the log says so, too.
	decided, logged bool
	verdict         Verdict
	timestamp       uint64
	// completed is its number among the completed transactions; 0 for none.
	completed uint64

	// at is the place of its filters among the filters of the pending transactions. readFilter and writeFilter are its
	// filters for leaps over it.
	at                      uint64
	readFilter, writeFilter bloom

	// At the leader, votes are the votes of the participants, in their order, and since is the time from which it waits
	// for them.
	votes []ending
	since time.Duration
}

// ending is the outcome of a transaction, or a vote.
type ending struct {
	verdict   Verdict
	timestamp uint64
}

func (x *delivery) global() bool { return len(x.Participants) > 0 }

// gone reports whether the log says that the transaction is aborted.
func (x *delivery) gone() bool { return x.logged && x.verdict != Commit }

// filter returns the Bloom filter of the read set or of the write set.
func (x *delivery) filter(g *group, reads bool) bloom {
	size := g.r.filterBits
	if reads {
		if x.readFilter == nil {
			x.readFilter = newBloom(size)
			x.eachRead(func(h uint64) { x.readFilter.add(h, size) })
		}
		return x.readFilter
	}
	if x.writeFilter == nil {
		x.writeFilter = newBloom(size)
		x.eachWrite(func(h uint64) { x.writeFilter.add(h, size) })
	}
	return x.writeFilter
}

func newGroup(r *Replica, shard int) *group {
	g := &group{r: r, state: newState(r)}
	g.Member = r.node.NewMember(shard, g)
	g.empty = !g.Raft.Joined()
	return g
}

// count counts something that all members do: only the leader does.
func (g *group) count(n *int64) {
	if g.Serving {
		*n++
	}
}

// deliverTick puts a tick into the log, or the commands that have gathered.
func (g *group) deliverTick() {
	g.tick = true
	g.Propose()
	g.tick = false
}

// Entry implements raftgroup.Machine.
func (g *group) Entry(batch []byte) []byte {
	if len(batch) == 0 && !g.tick {
		return nil
	}
	clock := g.r.clock.Tick(g.r.env.Now())
	g.r.counters.entries++
	if len(batch) == 0 {
		g.r.counters.ticks++
	}
	entry := make([]byte, 0, codec.SizeUvarint(clock)+len(batch))
	return append(codec.AppendUvarint(entry, clock), batch...)
}

// Apply implements raftgroup.Machine.
func (g *group) Apply(entry []byte) {
	r := codec.NewReader(entry)
	clock := r.Uvarint()
	g.horizon = max(g.horizon, clock)
	g.r.clock.See(clock)
	if r.Len() == 0 {
		g.deliveries++
	}
	for r.Len() > 0 && r.Err() == nil {
		switch kind := r.Uint8(); kind {
		case commandDeliver:
			x := &delivery{name: raftgroup.ReadName(&r), Update: readUpdate(&r), earliest: clock}
			txn.Own(x.Writes)
			g.deliver(x)
		case commandDecide:
			g.applyDecide(raftgroup.ReadName(&r), readEnding(&r))
		case commandPrevent:
			g.applyPrevent(raftgroup.ReadName(&r))
		default:
			panic("sdur: an entry of the log holds an unknown command")
		}
	}
	if err := r.Done(); err != nil {
		panic("sdur: an entry of the log is malformed: " + err.Error())
	}
	g.complete()
	g.wakeReads()
	g.r.trim()
}

// deliver certifies a transaction, and votes on it if it is global.
func (g *group) deliver(x *delivery) {
	g.forget(x.name.Coordinator, x.Done)
	g.deliveries++
	x.number = g.deliveries
	if g.prevented[x.name] {
		g.r.env.Mark(deliveredPrevented)
		g.refuse(x, Prevented)
		return
	}
	x.footprint = footprintOf(&x.Update)
	verdict := g.certify(x)
	if verdict != Commit {
		g.reject(x, verdict)
		return
	}
	at := g.place(x)
	if g.r.mistake == overtaking && !x.global() && g.missed(x, at) {
		g.reject(x, Conflict)
		return
	}
	if at < len(g.pending) {
		g.r.env.Mark(leapt)
		g.count(&g.r.counters.leaps)
	}
	if len(g.pending) == 0 && !x.global() {
		g.finish(x)
		return
	}
	g.pending = slices.Insert(g.pending, at, x)
	g.unfinished.add(x)
	if x.global() {
		x.earliest = max(x.earliest, x.Floor+1)
		g.globals[x.name] = x
		if g.Serving {
			g.await(x)
			g.vote(x, Nothing)
		}
	}
	g.complete()
	if !x.global() && x.completed == 0 {
		g.r.env.Mark(localWaits)
		g.count(&g.r.counters.waits)
	}
}

// missed reports whether a transaction has read rows of transactions that it could leap over and does not. Only the
// variant overtaking calls it, which is a mistake.
func (g *group) missed(x *delivery, at int) bool {
	for _, p := range g.pending[min(at, g.firstLeapable(x)):at] {
		for _, h := range x.reads {
			if p.filter(g, false).has(h, g.r.filterBits) {
				return true
			}
		}
	}
	return false
}

// reject aborts a transaction that has not passed, which is this group's vote.
func (g *group) reject(x *delivery, v Verdict) {
	g.ended.Finish(x.name, ending{verdict: v})
	switch v {
	case Conflict:
		g.r.env.Mark(conflict)
		g.count(&g.r.counters.conflicts)
	case FalsePositive:
		g.r.env.Mark(falsePositive)
		g.count(&g.r.counters.falsePositives)
	case TooOld:
		g.r.env.Mark(tooOld)
		g.count(&g.r.counters.tooOld)
	}
	g.refuse(x, v)
}

// refuse notifies the coordinator and the other groups that this group votes to abort.
func (g *group) refuse(x *delivery, v Verdict) {
	if !g.Serving {
		return
	}
	delete(g.early, x.name)
	g.answer(x.name, v, true)
	for _, p := range x.Participants {
		if p != g.Shard {
			g.tell(p, &Vote{Of: x.name, Verdict: v, Final: true})
		}
	}
}

// complete completes the transactions in their order. A local transaction completes immediately. A global transaction
// completes when its outcome is known and the number of deliveries after it has reached the threshold.
func (g *group) complete() {
	for len(g.pending) > 0 {
		x := g.pending[0]
		if x.global() && (!x.decided || g.deliveries < x.number+g.r.threshold) {
			break
		}
		g.pending[0] = nil
		g.pending = g.pending[1:]
		g.unfinished.remove(x)
		g.finish(x)
	}
	if len(g.pending) == 0 {
		g.pending = nil
	}
	g.pace()
}

// finish completes a transaction.
func (g *group) finish(x *delivery) {
	g.completed++
	x.completed = g.completed
	g.history.add(g.completed, x.footprint)
	if x.gone() {
		g.history.remove(g.completed)
	}
	switch {
	case x.logged:
		delete(g.globals, x.name)
	case !x.global():
		x.verdict, x.timestamp = Commit, max(x.earliest, g.last+1)
	}
	if x.verdict == Commit {
		g.last = max(g.last, x.timestamp)
		g.r.clock.See(x.timestamp)
		g.r.store.Install(x.Writes, x.timestamp, x.ID)
	}
	g.ended.Finish(x.name, ending{x.verdict, x.timestamp})
	g.report(x)
}

// report reports to a transaction's coordinator that it has completed. Its anchor, and a group that aborts it, report
// immediately; other groups report when the end is in the log.
func (g *group) report(x *delivery) {
	switch {
	case !g.Serving || x.completed == 0:
	case !x.global() || x.logged:
		g.answer(x.name, x.verdict, true)
	case x.Anchor == g.Shard:
		g.answer(x.name, x.verdict, false)
	}
}

func (g *group) answer(n raftgroup.Name, v Verdict, final bool) {
	if g.Serving {
		g.r.send(n.Coordinator, &Answer{g.Shard, n.Number, v, final})
	}
}

// applyDecide takes the end of a transaction from the log. The leader that has put it there has known it since.
func (g *group) applyDecide(n raftgroup.Name, e ending) {
	x := g.globals[n]
	if x == nil || x.logged {
		return
	}
	x.decided, x.logged, x.verdict, x.timestamp = true, true, e.verdict, e.timestamp
	if x.completed > 0 {
		delete(g.globals, n)
		if x.gone() && x.completed+uint64(g.history.kept) > g.completed {
			g.history.remove(x.completed)
		}
	}
	g.report(x)
	g.complete()
}

func (g *group) applyPrevent(n raftgroup.Name) {
	if _, over, forgotten := g.ended.Look(n); !over && !forgotten && g.globals[n] == nil {
		g.prevented[n] = true
		g.r.env.Mark(prevented)
		g.ended.Finish(n, ending{verdict: Prevented})
		g.count(&g.r.counters.prevented)
	}
	if g.Serving {
		delete(g.early, n)
		demands := g.demands[n]
		delete(g.demands, n)
		for _, by := range demands {
			g.asked(by, n, Ask)
		}
	}
}

// Step implements raftgroup.Machine. A new leader has delivered all entries before its term. It sends the other groups
// its group's votes and asks for their votes. It puts the decisions of its predecessor and its own decisions into the
// log.
func (g *group) Step(leads bool) {
	g.leader = leader{}
	if !leads {
		return
	}
	g.early, g.demands = map[raftgroup.Name][]*Vote{}, map[raftgroup.Name][]int{}
	g.r.counters.terms++
	g.r.tickLater()
	for _, x := range g.globalsInOrder() {
		switch {
		case x.logged:
		case x.decided:
			g.r.env.Mark(decidedLoggedAgain)
			g.log(x)
		default:
			g.await(x)
			g.vote(x, Ask)
		}
	}
	g.pace()
}

// Serve implements raftgroup.Machine.
func (g *group) Serve(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Submit:
		g.submit(raftgroup.Name{Coordinator: from, Number: m.Number}, m)
	case *Vote:
		if m.Request != Nothing {
			g.asked(m.About, m.Of, m.Request)
		}
		if m.Verdict != 0 {
			g.voted(m)
		}
	}
}

// submit broadcasts a transaction in the group. If it was also sent to an earlier leader, it may have been delivered
// already. Its outcome is not forgotten: the coordinator's notice that all transactions up to it have ended arrives
// after it, over the same link to the term's leader.
func (g *group) submit(n raftgroup.Name, m *Submit) {
	g.r.clock.See(m.Floor)
	if m.Again {
		e, over, _ := g.ended.Look(n)
		x := g.globals[n]
		switch {
		case x != nil:
			g.r.env.Mark(submittedPending)
			g.report(x)
			return
		case over:
			g.r.env.Mark(submittedEnded)
			g.answer(n, e.verdict, true)
			return
		case slices.ContainsFunc(g.pending, func(x *delivery) bool { return x.name == n }):
			return
		}
	}
	g.Batch = m.Update.appendTo(n.AppendTo(append(g.Batch, commandDeliver)))
}

// Advance implements raftgroup.Machine.
func (g *group) Advance() {}

// pace sees to it that ticks come, at the leader, as long as a global transaction waits for deliveries.
func (g *group) pace() {
	if g.r.threshold > 0 && g.Serving && !g.pacing && slices.ContainsFunc(g.pending, g.waitsForDeliveries) {
		g.pacing = true
		g.r.env.After(g.r.tick, protocol.Timer{Kind: paceTimer, Arg: uint64(g.Shard)})
	}
}

func (g *group) waitsForDeliveries(x *delivery) bool {
	return x.global() && g.deliveries < x.number+g.r.threshold
}

// paced delivers a tick unless something else has been proposed meanwhile.
func (g *group) paced() {
	g.pacing = false
	if slices.ContainsFunc(g.pending, g.waitsForDeliveries) {
		if g.r.env.Now()-g.Proposed >= g.r.tick {
			g.r.env.Mark(paced)
			g.deliverTick()
		}
		g.pace()
	}
}

// hasCommands reports whether an entry is more than a tick. Raft's own entries are empty.
func hasCommands(entry []byte) bool {
	r := codec.NewReader(entry)
	return len(entry) > 0 && r.Uvarint() > 0 && r.Len() > 0
}

// spread reports whether the members that live have all that the log holds.
func (g *group) spread() bool {
	return g.Spread(func(n geo.NodeID) bool { return g.r.env.Now()-g.r.heard[n] < g.r.election })
}
