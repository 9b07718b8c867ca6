package janus

import (
	"cmp"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// rejoin integrates new incarnations, which have lost the votes, promises, instances and reads of their predecessors.
//
// Votes. A new incarnation abstains: it never votes on an instance that was sent to its predecessor. The other votes
// suffice. Let m be a majority of n replicas, of which k are new; n-k is at least m. The predecessors' acceptances
// still count. A node that takes an instance over receives answers from m of the n-k other replicas. At least m-k of
// these n-k replicas have accepted a decided value, so at least one answer contains it.
//
// Votes of the predecessor that supply dependencies (PreAccept, Prepare) no longer count unless the instance is already
// decided. Otherwise later votes might come from replicas that lack dependencies which the new incarnation has yet to
// learn. The new incarnation therefore waits until all other nodes have dropped these votes (welcome). Only then does
// it ask them for their state of its partition (askState). That state includes every decision that used a vote of the
// predecessor. The histories of the new incarnation's keys thus contain these decisions before it votes. From then on,
// it votes on all instances that are sent to it.
//
// Rows. One replica of the partition, the donor, also sends its rows, and the instances that it has ordered and
// executed. No node discards anything after its welcome, so no node of any copy has discarded an instance that the
// donor had not executed.
//
// The new incarnation executes the instances that the donor has ordered but not executed, in the donor's order. The
// nodes of its copy send it the reads for these instances again. They keep their reads for other nodes until all nodes
// have executed the instance (record.served). The new incarnation does not execute instances that the donor has
// executed. Instead, it sends the donor's reads for these instances to its copy. Nodes ignore duplicate reads.
//
// Instances of the predecessor. Other nodes take them over, and the new incarnation continues the row with a new range
// of numbers. The predecessor's instances become stable only once all nodes have reported them as ordered. To that end,
// each node sends its decisions to all replicas of its partition (told). It waits until these replicas have ordered all
// such instances that they know (ordered). Then it notifies the new incarnation (settled). A live replica of each
// partition has pre-accepted every instance that is not a no-op, so none is omitted. An instance is void if only its ID
// is still known.
//
// All copies are complete again when all instances that were sent to predecessors are stable.
type rejoin struct {
	r            *Replica
	incarnations []uint32 // by node
	sender       *statetransfer.Sender
	states       map[geo.NodeID][]byte // by new incarnation that has not acknowledged the state
	sent         uint64                // number of state transfers started
	formers      []former              // by node
	// unordered holds told messages without an answer. This node answers once it has ordered all instances that it knows
	// of earlier incarnations of the node in the message.
	unordered []question

	// The following fields are used only if this node is a new incarnation. limits[c] is the number up to which this node
	// abstains from voting on instances of coordinator c.
	joined    bool
	limits    []uint64
	welcomed  []bool
	asked     bool
	receivers []statetransfer.Receiver
	here      []*known // received states, by sender
	held      []heldMessage
	submitted []*txn.Transaction
	settledBy []bool
}

// former is this node's progress in settling the instances of another node's earlier incarnations.
type former struct {
	open  bool
	told  bool         // the decisions were sent to the other replicas of the partition
	await []geo.NodeID // replicas that have not answered with ordered
}

// question is a told message that this node has not answered yet.
type question struct {
	from, node  geo.NodeID
	incarnation uint32
}

// ReasonNodeLost is the reason of an unknown outcome: the node that had to report the outcome has lost its state.
const ReasonNodeLost = "node-lost"

type heldMessage struct {
	from geo.NodeID
	m    protocol.Message
}

// served are the reads for one instance that this node has sent to other partitions of its copy.
type served struct {
	to     []int
	values []deterministic.Value
}

// replaces is Engine.Replaces. It returns all nodes if the other replicas of each partition are a majority and there
// are at most 256 nodes. The bound leaves enough node names in ballots for later incarnations.
func replaces(t *geo.Topology, _ protocol.Params) (nodes []geo.NodeID) {
	if len(t.Regions)*t.Replicas < 3 || t.Nodes() > 256 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		nodes = append(nodes, n)
	}
	return nodes
}

func (j *rejoin) init(r *Replica) {
	*j = rejoin{
		r: r, incarnations: make([]uint32, r.nodes), sender: statetransfer.NewSender(r.env, transferTimer), states: map[geo.NodeID][]byte{},
		formers: make([]former, r.nodes), joined: r.incarnation == 0,
	}
	j.incarnations[r.self] = r.incarnation
	if !j.joined {
		j.limits, j.welcomed, j.settledBy = make([]uint64, r.nodes), make([]bool, r.nodes), make([]bool, r.nodes)
		j.receivers, j.here = make([]statetransfer.Receiver, r.nodes), make([]*known, r.nodes)
		j.limits[r.self] = protocol.NumbersBefore(r.incarnation)
		r.rows[r.self].former = protocol.NumbersBefore(r.incarnation)
	}
}

// donor returns the node whose rows a new incarnation of n receives: a replica in another region, if there are several
// regions.
func (j *rejoin) donor(n geo.NodeID) geo.NodeID {
	r := j.r
	group, step := r.group[r.topology.PartitionOf(n)], 1
	if len(r.topology.Regions) > 1 {
		step = r.topology.Replicas
	}
	return group[(slices.Index(group, n)+step)%len(group)]
}

// abstains reports whether this node must not vote on an instance, because the instance was sent to its predecessor.
func (r *Replica) abstains(id Instance) bool {
	return r.incarnation > 0 && id.Seq() <= r.rejoin.limits[id.Node()]
}

// abstain handles a request to vote on an instance that was sent to this node's predecessor. It reports a known
// decision, because a decision is not a vote. Otherwise it only records the sender's ballot, and leaves the instance to
// the sender.
func (j *rejoin) abstain(from geo.NodeID, id Instance, b Ballot) {
	r := j.r
	r.env.Mark(abstained)
	rec := r.find(id)
	switch {
	case rec == nil:
	case rec.phase < Committed:
		if rec.lead != nil && rec.lead.ballot < b {
			r.coordinator.abandon(rec)
		}
		rec.promised, rec.attempted = max(rec.promised, b), r.env.Now()
	case !rec.foreign:
		r.tell(from, rec)
	}
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	if n == r.self || incarnation <= r.rejoin.incarnations[n] {
		return
	}
	r.rejoin.replaced(n, incarnation)
	r.finishStep()
}

// replaced handles node n's replacement. It discards the progress that the predecessor has reported, sends the new
// incarnation a welcome, and schedules the takeover of the predecessor's instances.
func (j *rejoin) replaced(n geo.NodeID, incarnation uint32) {
	r := j.r
	j.incarnations[n] = incarnation
	r.recovery.hear(n)
	// The new incarnation cannot vote until it has joined, so coordinators must not wait for it.
	r.recovery.suspect[n] = true
	// Keep sent: the row becomes stable again only once the new incarnation has ordered the same instances as its
	// predecessor.
	r.garbage.peers[n] = peer{sent: r.garbage.peers[n].sent}
	j.sender.Cancel(n)
	delete(j.states, n)
	j.unordered = slices.DeleteFunc(j.unordered, func(q question) bool { return q.from == n })
	j.formers[n] = former{open: true}
	for i := range j.formers {
		// These decisions were not sent to the new incarnation, which needs them if it is in this node's partition.
		j.formers[i].told = j.formers[i].told && r.topology.PartitionOf(n) != r.partition
	}
	r.rows[n].former = protocol.NumbersBefore(incarnation)
	if !j.joined {
		j.held = slices.DeleteFunc(j.held, func(h heldMessage) bool { return h.from == n })
		j.welcomed[n], j.here[n] = false, nil
	}
	r.env.Send(n, &Rejoin{Step: welcome, Number: r.next - 1})
	if j.joined {
		j.refound(n)
		r.coordinator.replaced(n)
	}
}

// refound makes up for the loss of node n's predecessor. It schedules the takeover of the predecessor's instances. If n
// is in this node's copy, refound also sends the new incarnation the reads that the predecessor had received. It then
// also repeats this node's inquiries that the predecessor has not answered.
func (j *rejoin) refound(n geo.NodeID) {
	r := j.r
	q := r.topology.PartitionOf(n)
	sibling := r.copy[q] == n
	// Messages must be sent in a fixed order, or a simulation would not be repeatable.
	for _, id := range slices.Sorted(maps.Keys(r.records)) {
		rec := r.records[id]
		if rec.phase < Committed && rec.watched && r.recovery.orphaned(rec) {
			r.recovery.watch(rec)
		}
		if !sibling {
			continue
		}
		if rec.served != nil && slices.Contains(rec.served.to, q) {
			r.executor.ServeAgain(place(id), q, rec.served.values)
		}
		if rec.asked && rec.phase < Committed && int(rec.askedOf) == q {
			r.graph.askAgain(rec)
		}
	}
	if sibling {
		r.recon.Replaced(n)
	}
}

func place(id Instance) deterministic.Place {
	return deterministic.Place{Position: uint64(id.Node()), Index: id.Seq()}
}

// replaced drops the votes of the lost node n. It takes over undecided instances for which this node has counted such a
// vote.
func (c *coordinator) replaced(n geo.NodeID) {
	r := c.r
	q := r.topology.PartitionOf(n)
	for _, id := range slices.Sorted(maps.Keys(r.records)) {
		rec := r.find(id)
		if rec == nil || rec.lead == nil {
			continue
		}
		l := rec.lead
		i := slices.IndexFunc(l.tallies, func(t tally) bool { return t.partition == q })
		if i < 0 {
			continue
		}
		switch missing := l.tallies[i].missing; {
		case slices.Contains(missing, n):
			c.answered(l, n)
			c.decide(rec)
		// Acceptances of the predecessor still count: see Votes in rejoin.
		case l.stage != accepting:
			r.env.Mark(votesDropped)
			r.recovery.takeOver(rec)
		}
	}
}

// receive handles messages between a new incarnation and the other nodes. It returns true if the protocol must not
// handle m, because m was handled here or is held until this node has joined.
func (j *rejoin) receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *Rejoin:
		j.step(from, m)
	case *statetransfer.Piece:
		j.piece(from, m)
	case *statetransfer.Ack:
		j.sender.Receive(from, m)
	default:
		if !j.joined {
			j.held = append(j.held, heldMessage{from, m})
		}
		return !j.joined
	}
	return true
}

func (j *rejoin) step(from geo.NodeID, m *Rejoin) {
	r := j.r
	switch m.Step {
	case welcome:
		if !j.joined && !j.welcomed[from] {
			j.welcomed[from], j.limits[from] = true, m.Number
			j.ask()
		}
	case askState:
		j.states[from] = j.state(from)
		j.send(from)
	case stateHere:
		delete(j.states, from)
	case told:
		if int(m.Node) < r.nodes {
			j.unordered = append(j.unordered, question{from, m.Node, uint32(m.Number)})
		}
	case ordered:
		// The answer may concern an earlier incarnation of the node.
		if int(m.Node) < r.nodes && m.Number == uint64(j.incarnations[m.Node]) {
			f := &j.formers[m.Node]
			f.await = slices.DeleteFunc(f.await, func(n geo.NodeID) bool { return n == from })
		}
	case settled:
		if r.incarnation > 0 && m.Number == uint64(r.incarnation) {
			j.settledBy[from] = true
		}
	case askElsewhere:
		if rec := r.find(instance(m.Node, m.Number)); rec != nil && rec.asked && rec.phase < Committed {
			r.graph.askAgain(rec)
		}
	}
}

// ask requests the state of all other nodes, once all of them have dropped the votes of this node's predecessor.
func (j *rejoin) ask() {
	for n, w := range j.welcomed {
		if !w && geo.NodeID(n) != j.r.self {
			return
		}
	}
	if j.asked {
		return
	}
	j.asked = true
	protocol.Others(j.r.nodes, j.r.self, func(n geo.NodeID) { j.r.env.Send(n, &Rejoin{Step: askState}) })
}

// send starts a state transfer to the given node.
func (j *rejoin) send(to geo.NodeID) {
	j.sent++
	j.sender.Send(to, j.sent, j.states[to])
}

// piece handles a piece of another node's state. This node joins once the states of all other nodes are complete.
func (j *rejoin) piece(from geo.NodeID, m *statetransfer.Piece) {
	if j.joined || j.here[from] != nil {
		return
	}
	_, data, whole := j.receivers[from].Receive(j.r.env, from, m)
	if !whole {
		return
	}
	s, err := j.readState(data, from == j.donor(j.r.self))
	if err != nil {
		return // the sender repeats the transfer
	}
	j.here[from] = s
	j.r.env.Send(from, &Rejoin{Step: stateHere})
	for n := range j.here {
		if j.here[n] == nil && geo.NodeID(n) != j.r.self {
			return
		}
	}
	j.join()
}

// tick retries state transfers and continues all work that waits for other nodes.
func (j *rejoin) tick() {
	r := j.r
	for _, n := range slices.Sorted(maps.Keys(j.states)) {
		if !j.sender.Busy(n) {
			r.env.Mark(stateSentAgain)
			j.send(n)
		}
	}
	if !j.joined {
		return
	}
	j.unordered = slices.DeleteFunc(j.unordered, func(q question) bool {
		if j.incarnations[q.node] < q.incarnation || j.lacks(q.node, Ordered) {
			return false
		}
		r.env.Send(q.from, &Rejoin{Step: ordered, Node: q.node, Number: uint64(q.incarnation)})
		return true
	})
	for n := range j.formers {
		if f := &j.formers[n]; f.open {
			j.settle(geo.NodeID(n), f)
		}
	}
	for n := range r.rows {
		if row := &r.rows[n]; row.former > 0 && row.stable >= row.former {
			j.void(geo.NodeID(n))
		}
	}
}

// formerly returns the records of instances of n's earlier incarnations that satisfy the predicate is, sorted by
// instance.
func (j *rejoin) formerly(n geo.NodeID, is func(*record) bool) (all []*record) {
	for id, rec := range j.r.records {
		if id.Node() == n && id.Seq() <= j.r.rows[n].former && is(rec) {
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	return all
}

// lacks reports whether this replica knows an instance of n's earlier incarnations that touches this replica's
// partition and has not reached the given phase.
func (j *rejoin) lacks(n geo.NodeID, phase Phase) bool {
	return len(j.formerly(n, func(rec *record) bool { return rec.t != nil && !rec.foreign && rec.phase < phase })) > 0
}

// settle advances the settlement of n's earlier incarnations: all replicas of this partition must order all instances
// of these incarnations that this replica knows.
func (j *rejoin) settle(n geo.NodeID, f *former) {
	r := j.r
	if row := &r.rows[n]; row.stable >= row.former {
		f.open = false
		return
	}
	if !f.told {
		// An undecided instance cannot be reported yet. Recovery takes it over, because its owner has lost its state.
		if j.lacks(n, Committed) {
			return
		}
		f.told, f.await = true, nil
		known := j.formerly(n, func(rec *record) bool { return rec.t != nil && !rec.foreign && !rec.noop })
		for _, c := range r.group[r.partition] {
			// If this node knows no such instance, the other replicas have nothing to order.
			if c == r.self || len(known) == 0 {
				continue
			}
			r.env.Mark(toldFormer)
			for _, rec := range known {
				r.tell(c, rec)
			}
			r.env.Send(c, &Rejoin{Step: told, Node: n, Number: uint64(j.incarnations[n])})
			f.await = append(f.await, c)
		}
	}
	if len(f.await) == 0 && !j.lacks(n, Ordered) {
		f.open = false
		r.env.Send(n, &Rejoin{Step: settled, Number: uint64(j.incarnations[n])})
	}
}

// void commits instances of n's earlier incarnations as no-ops if only their IDs are known. At this point, all
// instances that are not no-ops are ordered.
func (j *rejoin) void(n geo.NodeID) {
	for _, rec := range j.formerly(n, func(rec *record) bool { return rec.t == nil && !rec.asked && rec.watched && rec.phase < Committed }) {
		j.r.commit(rec, true, nil)
	}
}

// settled reports whether all other nodes have reported that the instances of this node's predecessors are settled.
func (j *rejoin) settled() bool {
	if j.r.incarnation == 0 {
		return true
	}
	for n, done := range j.settledBy {
		if !done && geo.NodeID(n) != j.r.self {
			return false
		}
	}
	return true
}

// busy returns the number of open tasks for new incarnations. Until this node has joined, it adds 1 for the rejoin
// itself and the number of held transactions.
func (j *rejoin) busy() (n int) {
	if !j.joined {
		n = 1 + len(j.submitted)
	}
	for i := range j.formers {
		if j.formers[i].open {
			n++
		}
	}
	return n + len(j.states) + len(j.unordered)
}

// FullyReplicated implements protocol.Rejoiner. It reports whether all replicas have ordered everything that was sent
// to lost nodes or coordinated by them.
func (r *Replica) FullyReplicated() bool {
	if !r.rejoin.joined {
		return false
	}
	for n := range r.rows {
		row := &r.rows[n]
		if row.stable < row.former || r.incarnation > 0 && row.stable < r.rejoin.limits[n] {
			return false
		}
	}
	return true
}

// Served implements deterministic.Keeper.
func (r *Replica) Served(at deterministic.Place, to int, values []deterministic.Value) {
	rec := r.find(instance(geo.NodeID(at.Position), at.Index))
	if rec == nil {
		return
	}
	if rec.served == nil {
		rec.served = &served{values: values}
	}
	rec.served.to = append(rec.served.to, to)
}

// Ended implements deterministic.Keeper.
func (r *Replica) Ended(at deterministic.Place) {
	if rec := r.find(instance(geo.NodeID(at.Position), at.Index)); rec != nil {
		rec.executed = true
	}
}

// Over implements deterministic.Keeper.
func (r *Replica) Over(at deterministic.Place) bool {
	if at.Position >= uint64(r.nodes) || at.Index > maxSeq {
		return true
	}
	id := instance(geo.NodeID(at.Position), at.Index)
	if rec := r.find(id); rec != nil && !rec.foreign {
		return rec.executed
	}
	return id.Seq() <= r.rows[id.Node()].forget
}

// admitLate adds an instance of an earlier incarnation to its coordinator's row, if the instance did not arrive from
// the coordinator.
func (r *Replica) admitLate(rec *record) {
	row := &r.rows[rec.id.Node()]
	if rec.admitted || rec.foreign || rec.id.Seq() > row.former {
		return
	}
	// No row keeps an instance without its transaction, so garbage collection finds the instance in the foreign list.
	if rec.t == nil {
		r.graph.foreign.Push(rec)
		return
	}
	rec.admitted = true
	// kept is sorted by number, and later instances of the row may have arrived before this decision.
	at, _ := slices.BinarySearchFunc(row.kept, rec.id, func(k *record, id Instance) int { return cmp.Compare(k.id, id) })
	row.kept = slices.Insert(row.kept, at, rec)
}

// States of an instance in a transferred state.
const (
	undecided = iota
	decided
	placed // ordered by the donor, but not executed
	over
)
