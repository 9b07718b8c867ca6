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

// rejoin takes new incarnations in, which know nothing of what their predecessors have voted for, promised, coordinated and read for others.
//
// Votes. A new incarnation never votes on an instance that was sent to its predecessor: it abstains, and the others are enough (m of n
// replicas, of which k are new, where n-k is m at least). What its predecessor has accepted counts still: who takes an instance over hears m of the
// n-k others, and m-k of these have accepted what was decided. Votes that dependencies come from (PreAccept, Prepare) do not count any more
// unless the instance was decided before: later ones may be of replicas that do not know then what the new incarnation needs to
// know. So it first waits until all other nodes have dropped them (welcome), and only then asks them for all that they know of its
// partition (askState). Whatever was decided with its predecessor's vote is among that, and is in the histories of its keys before it votes.
// From then on it votes on instances that were sent to itself.
//
// Rows. One replica of the partition, the donor, sends its rows as well, and which instances it has ordered and executed. Since nobody has
// forgotten anything after the welcomes, no node of any copy has forgotten what the donor had not executed. What the donor has ordered and not
// executed, the new incarnation executes in the donor's order. Reads for that come from its own copy: its nodes keep what they
// have read for others until all nodes have executed it (record.served), and send it again. What the donor has executed nobody
// executes here; what it has read for that, the new incarnation sends to its copy. Reads that come twice are ignored.
//
// Instances of the predecessor are taken over by the others. Its row goes on behind them with numbers of another stream. They count as
// ordered by all only when all nodes say so: each tells all replicas of its partition the decisions that it knows (told), until these have
// ordered all that they know (ordered), and then tells the new incarnation (settled). An instance that happens was pre-accepted by
// some replica of each of its partitions that lives, so none is left out. One that is known by name alone is void then.
//
// All copies are there again when everything that was sent to predecessors is stable.
type rejoin struct {
	r            *Replica
	incarnations []uint32 // by node
	sender       *statetransfer.Sender
	states       map[geo.NodeID][]byte // that new incarnations have not got
	sent         uint64                // states so far
	formers      []former              // by node
	// unordered are the nodes that wait until this one has ordered what it knows of lost coordinators.
	unordered []question

	// What follows is of this node, if it is not the first incarnation. It abstains from instances of each node up to a limit.
	joined    bool
	limits    []uint64
	welcomed  []bool
	asked     bool
	receivers []statetransfer.Receiver
	here      []*known // states, by sender
	held      []heldMessage
	submitted []*txn.Transaction
	settledBy []bool
}

// former is what this node does about the instances of a node's earlier incarnations.
type former struct {
	open  bool
	told  bool         // the others of the partition
	await []geo.NodeID // that have not said that they have ordered all
}

// question is one of another node's, told.
type question struct {
	from, node  geo.NodeID
	incarnation uint32
}

// ReasonNodeLost is why an outcome is unknown: the node that was to tell it has lost what it knew.
const ReasonNodeLost = "node-lost"

type heldMessage struct {
	from geo.NodeID
	m    protocol.Message
}

// served is what was read for other partitions of the copy.
type served struct {
	to     []int
	values []deterministic.Value
}

// replaces is Engine.Replaces: all nodes, where the others of each partition are a majority, and the names in ballots suffice.
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

// donor returns the node that a new incarnation of n has its rows from: of another region, if there are any.
func (j *rejoin) donor(n geo.NodeID) geo.NodeID {
	r := j.r
	group, step := r.group[r.topology.PartitionOf(n)], 1
	if len(r.topology.Regions) > 1 {
		step = r.topology.Replicas
	}
	return group[(slices.Index(group, n)+step)%len(group)]
}

// abstains reports whether this node does not vote on an instance, since it was sent to its predecessor.
func (r *Replica) abstains(id Instance) bool {
	return r.incarnation > 0 && id.Seq() <= r.rejoin.limits[id.Node()]
}

// abstain answers who asks for a vote on an instance of before this incarnation's time: only a decision is no vote. What is not decided
// is left to who asks, if nobody else has a higher ballot.
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

// replaced forgets what a node's predecessor has said and has other instances than its own decided, and tells the new incarnation so.
func (j *rejoin) replaced(n geo.NodeID, incarnation uint32) {
	r := j.r
	j.incarnations[n] = incarnation
	r.recovery.hear(n)
	r.recovery.suspect[n] = true
	r.garbage.peers[n] = peer{sent: r.garbage.peers[n].sent}
	j.sender.Cancel(n)
	delete(j.states, n)
	j.unordered = slices.DeleteFunc(j.unordered, func(q question) bool { return q.from == n })
	j.formers[n] = former{open: true}
	for i := range j.formers {
		// A new incarnation has been told nothing.
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

// refound sends a new incarnation of this node's copy what was read for its predecessor, asks others what that was asked, and has
// what its predecessor has owned taken over.
func (j *rejoin) refound(n geo.NodeID) {
	r := j.r
	q := r.topology.PartitionOf(n)
	sibling := r.copy[q] == n
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

// replaced drops a lost node's votes: an instance for which one was counted is taken over.
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
		case l.stage != accepting:
			r.env.Mark(votesDropped)
			r.recovery.takeOver(rec)
		}
	}
}

// receive takes what a new incarnation and the others have to say to each other. It reports whether m is no business of the protocol's, now
// or at all.
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

// ask asks all other nodes for what they know, once all have dropped the votes of this node's predecessor.
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

// send begins to send a state.
func (j *rejoin) send(to geo.NodeID) {
	j.sent++
	j.sender.Send(to, j.sent, j.states[to])
}

// piece takes a piece of a state.
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
		return // it is sent again
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

// tick goes on with what waits for others.
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

// formerly returns the records of a node's earlier incarnations that satisfy a condition, in their order.
func (j *rejoin) formerly(n geo.NodeID, is func(*record) bool) (all []*record) {
	for id, rec := range j.r.records {
		if id.Node() == n && id.Seq() <= j.r.rows[n].former && is(rec) {
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	return all
}

// lacks reports whether an instance of a node's earlier incarnations that is this replica's business has not come to a phase.
func (j *rejoin) lacks(n geo.NodeID, phase Phase) bool {
	return len(j.formerly(n, func(rec *record) bool { return rec.t != nil && !rec.foreign && rec.phase < phase })) > 0
}

// settle sees to it that all replicas of the partition have ordered what this one knows of a node's earlier incarnations.
func (j *rejoin) settle(n geo.NodeID, f *former) {
	r := j.r
	if row := &r.rows[n]; row.stable >= row.former {
		f.open = false
		return
	}
	if !f.told {
		if j.lacks(n, Committed) {
			return
		}
		f.told, f.await = true, nil
		known := j.formerly(n, func(rec *record) bool { return rec.t != nil && !rec.foreign && !rec.noop })
		for _, c := range r.group[r.partition] {
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

// void ends what is known by name alone of a node's earlier incarnations, all of whose instances that have happened are ordered.
func (j *rejoin) void(n geo.NodeID) {
	for _, rec := range j.formerly(n, func(rec *record) bool { return rec.t == nil && !rec.asked && rec.watched && rec.phase < Committed }) {
		j.r.commit(rec, true, nil)
	}
}

// settled reports whether all that this node's predecessors have coordinated is ordered by all whose business it is.
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

// busy counts what is to be done for new incarnations, and for this one what it waits for.
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

// Whole implements protocol.Rejoiner: all that was sent to lost nodes, and all that they have coordinated, is ordered everywhere.
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

// admitLate puts an instance of a coordinator's earlier incarnation into its row that did not come from the coordinator.
func (r *Replica) admitLate(rec *record) {
	row := &r.rows[rec.id.Node()]
	if rec.admitted || rec.foreign || rec.id.Seq() > row.former {
		return
	}
	if rec.t == nil {
		r.graph.foreign.Push(rec)
		return
	}
	rec.admitted = true
	at, _ := slices.BinarySearchFunc(row.kept, rec.id, func(k *record, id Instance) int { return cmp.Compare(k.id, id) })
	row.kept = slices.Insert(row.kept, at, rec)
}

// How far an instance has come at the sender.
const (
	undecided = iota
	decided
	placed // ordered at the donor, and not executed
	over
)
