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

// A log entry consists of a timestamp and commands. Timestamps come from the leader's clock and increase along the log.
// Each command starts with its kind. An entry without commands is a tick, which counts as a delivery.
const (
	// commandDeliver delivers a transaction.
	commandDeliver = iota + 1
	// commandDecide records the outcome of a global transaction that has passed here.
	commandDecide
	// commandPrevent votes to abort a transaction that has not been delivered.
	commandPrevent
)

// group is this node's membership in the group of servers that store one shard, a partition in the paper.
type group struct {
	*raftgroup.Member
	r *Replica
	state
	leader
	// empty is set in a new incarnation until it has received the group's rows.
	empty bool
	// oldest is the timestamp before which row versions may be missing.
	oldest uint64
	// reads are requests for a state that this member has not reached.
	reads []*waitingRead
	// pacing is set while a timer for the next tick is running, tick while a tick is being proposed.
	pacing, tick bool
}

// leader is the state that a group's leader keeps outside the log during its term.
type leader struct {
	// early are votes of other groups on transactions that this group has not delivered.
	early map[raftgroup.Name][]*Vote
	// demands are the groups that demand a vote, which must be in the log before it is sent.
	demands map[raftgroup.Name][]int
}

// delivery is a delivered transaction that has not completed yet, or whose outcome is not in the log yet.
type delivery struct {
	Update
	footprint
	name   raftgroup.Name
	number uint64 // the delivery counter
	// earliest is the lowest timestamp that the transaction may get. It is also the timestamp in this group's vote.
	earliest uint64

	// decided is set if verdict and timestamp are known here, logged if the log contains them.
	decided, logged bool
	verdict         Verdict
	timestamp       uint64
	// completed is the transaction's position among the completed transactions, from 1; 0 if it is pending.
	completed uint64

	// at is the index of the transaction's filters in unfinished. readFilter and writeFilter are separate filters of its
	// sets. They are compared with transactions that may leap over it, and nil until they are needed.
	at                      uint64
	readFilter, writeFilter bloom

	// At the leader, votes are the participants' votes in the order of Participants. since is the time when the leader
	// started to collect the votes or last demanded them.
	votes []ending
	since time.Duration
}

// ending is the outcome of a transaction or a group's vote on it.
type ending struct {
	verdict   Verdict
	timestamp uint64
}

func (x *delivery) global() bool { return len(x.Participants) > 0 }

// gone reports whether the transaction is aborted according to the log.
func (x *delivery) gone() bool { return x.logged && x.verdict != Commit }

// filter returns the Bloom filter of the read set or the write set. It builds the filter at the first call.
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

// count increments a counter only at the leader, so that an event that occurs at all members is counted once.
func (g *group) count(n *int64) {
	if g.Serving {
		*n++
	}
}

// deliverTick proposes the gathered commands, or a tick if there are none.
func (g *group) deliverTick() {
	g.tick = true
	g.Propose()
	g.tick = false
}

// Entry implements raftgroup.Machine.
func (g *group) Entry(batch []byte) []byte {
	// Raft would otherwise replicate empty batches; only a tick counts as a delivery without commands.
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
	// Every later entry has a larger timestamp, so no later delivery gets a timestamp at or below the horizon.
	g.horizon = max(g.horizon, clock)
	g.r.clock.See(clock)
	if r.Len() == 0 {
		g.deliveries++
	}
	for r.Len() > 0 && r.Err() == nil {
		switch kind := r.Uint8(); kind {
		case commandDeliver:
			x := &delivery{name: raftgroup.ReadName(&r), earliest: clock}
			x.Update.read(&r)
			// Writes are kept in the store for longer than the entry, and must not alias its buffer.
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
	// Another group may have received this group's vote to abort, so a late delivery must not commit.
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
	// With nothing pending there is nothing to wait for or to leap over.
	if len(g.pending) == 0 && !x.global() {
		g.finish(x)
		return
	}
	g.pending = slices.Insert(g.pending, at, x)
	g.unfinished.add(x)
	if x.global() {
		// Floor is the largest timestamp of the snapshots that the transaction has read. The transaction's own timestamp must
		// be larger.
		x.earliest = max(x.earliest, x.Floor+1)
		g.globals[x.name] = x
		if g.Serving {
			g.await(x)
			g.vote(x, Nothing)
		}
	}
	// x completes now if it has leapt to the front. Otherwise it counts as waiting below.
	g.complete()
	if !x.global() && x.completed == 0 {
		g.r.env.Mark(localWaits)
		g.count(&g.r.counters.waits)
	}
}

// missed reports whether a local transaction has read a row that is written by a transaction which it could leap over,
// but does not. Only the faulty variant overtaking calls it.
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

// reject records that a transaction has failed certification, and votes to abort it.
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
	// A vote to abort is final, so the votes of other groups no longer matter.
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

// finish gives a transaction the next position among the completed transactions, and installs its writes if it commits.
func (g *group) finish(x *delivery) {
	g.completed++
	x.completed = g.completed
	g.history.add(g.completed, x.footprint)
	// The log already contains the abort, so certification ignores this footprint from now on.
	if x.gone() {
		g.history.remove(g.completed)
	}
	switch {
	case x.logged:
		delete(g.globals, x.name)
	case !x.global():
		// A local transaction gets a timestamp above the timestamps of all completed transactions. Timestamps
		// then agree with the order of conflicts, which reads at a cut rely on.
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

// report sends the outcome of a completed transaction to its coordinator. The anchor of a global transaction reports
// immediately. Its other groups report when the outcome is in the log; that answer is final.
func (g *group) report(x *delivery) {
	switch {
	case !g.Serving || x.completed == 0:
	// Only an answer whose outcome is in the log is final: afterwards the coordinator lets the groups forget the
	// transaction.
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

// applyDecide applies the outcome of a global transaction from the log. The leader that proposed the outcome has
// already acted on it.
func (g *group) applyDecide(n raftgroup.Name, e ending) {
	x := g.globals[n]
	// A new leader logs decisions again, so the same outcome can be in the log twice.
	if x == nil || x.logged {
		return
	}
	x.decided, x.logged, x.verdict, x.timestamp = true, true, e.verdict, e.timestamp
	if x.completed > 0 {
		delete(g.globals, n)
		// The window is a ring: after history.kept more completions, the slot belongs to another transaction.
		if x.gone() && x.completed+uint64(g.history.kept) > g.completed {
			g.history.remove(x.completed)
		}
	}
	g.report(x)
	g.complete()
}

func (g *group) applyPrevent(n raftgroup.Name) {
	// The log may have delivered the transaction after the prevent command was proposed; then the earlier vote counts.
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

// Step implements raftgroup.Machine. A new leader has applied all entries before its term. It sends its group's votes
// to the other groups and asks for their votes. It also logs decisions that are not in the log yet.
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
		// The decision may have been proposed in an earlier term and lost. The other members can only learn it from the
		// log.
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

// submit appends a transaction to the batch for the log. If the coordinator has submitted it before, an earlier leader
// may already have delivered it.
//
// The outcome of a transaction that was delivered earlier is still stored. Only the coordinator's Done number removes
// it. The coordinator sends a Done number above this transaction's number only after this message, over the same link.
func (g *group) submit(n raftgroup.Name, m *Submit) {
	g.r.clock.See(m.Floor)
	// Only a repeated submission can be in the log already; first submissions skip the lookups.
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
		// A local transaction that is still pending is answered when it completes.
		case slices.ContainsFunc(g.pending, func(x *delivery) bool { return x.name == n }):
			return
		}
	}
	g.Batch = m.Update.appendTo(n.AppendTo(append(g.Batch, commandDeliver)))
}

// Advance implements raftgroup.Machine.
func (g *group) Advance() {}

// pace sets a timer for the next tick if this leader has a global transaction that waits for deliveries.
func (g *group) pace() {
	if g.r.threshold > 0 && g.Serving && !g.pacing && slices.ContainsFunc(g.pending, g.waitsForDeliveries) {
		g.pacing = true
		g.r.env.After(g.r.tick, protocol.Timer{Kind: paceTimer, Arg: uint64(g.Shard)})
	}
}

func (g *group) waitsForDeliveries(x *delivery) bool {
	return x.global() && g.deliveries < x.number+g.r.threshold
}

// paced delivers a tick unless the leader has proposed an entry within the last tick interval.
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

// hasCommands reports whether an entry contains a command. It returns false for ticks and for Raft's empty entries.
func hasCommands(entry []byte) bool {
	r := codec.NewReader(entry)
	return len(entry) > 0 && r.Uvarint() > 0 && r.Len() > 0
}

// spread reports whether all live members have received the whole log.
func (g *group) spread() bool {
	return g.Spread(func(n geo.NodeID) bool { return g.r.env.Now()-g.r.heard[n] < g.r.election })
}
