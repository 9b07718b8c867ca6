package janus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/protocol/statetransfer"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
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
	r.env.Probe(abstained)
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
			r.env.Probe(votesDropped)
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
			r.env.Probe(stateSentAgain)
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
			r.env.Probe(toldFormer)
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
func (r *Replica) Whole() bool {
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

// entry is what a state says of an instance.
type entry struct {
	id   Instance
	t    *txn.Transaction
	how  uint8
	noop bool
	deps []Dep
	turn uint64
	served
}

// How far an instance has come at the sender.
const (
	undecided = iota
	decided
	placed // ordered at the donor, and not executed
	over
)

// state is what this node knows that a new incarnation needs: of the instances of its partition those that are this node's business, or its
// own. The donor says what it has ordered and executed, what it has read for others, and sends its rows.
func (j *rejoin) state(to geo.NodeID) []byte {
	r := j.r
	q := r.topology.PartitionOf(to)
	donor := j.donor(to) == r.self
	var b []byte
	for n := range r.rows {
		b = codec.AppendUvarint(codec.AppendUvarint(b, r.rows[n].stable), r.rows[n].forget)
	}
	var list []*record
	for id, rec := range r.records {
		mine := r.partition == q && !rec.foreign || id.Node() == r.self
		if mine && rec.t != nil && !r.orderedBefore(rec) && r.touches(rec.t, q) {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	b = codec.AppendUvarint(b, uint64(len(list)))
	for _, rec := range list {
		how := byte(undecided)
		switch {
		case rec.phase == Ordered && donor && rec.executed:
			how = over
		case rec.phase == Ordered && donor:
			how = placed
		case rec.phase >= Committed:
			how = decided
		}
		b = append(appendTxn(appendInstance(b, rec.id), rec.t), how)
		if how == undecided {
			continue
		}
		b = appendDeps(appendBool(b, rec.noop), rec.deps, true)
		if how < placed {
			continue
		}
		b = codec.AppendUvarint(b, rec.turn)
		s := rec.served
		if s == nil {
			s = &served{}
		}
		b = codec.AppendUvarint(b, uint64(len(s.to)))
		for _, p := range s.to {
			b = codec.AppendUvarint(b, uint64(p))
		}
		b = deterministic.AppendValues(b, s.values)
	}
	if donor {
		b = statetransfer.AppendRows(b, store.Placed(r.store))
	}
	return b
}

// known is a state that has come.
type known struct {
	stable, forget []uint64
	entries        []entry
	rows           []store.Row
}

// readState reads what state has written.
func (j *rejoin) readState(data []byte, donor bool) (*known, error) {
	r := codec.NewReader(data)
	s := &known{}
	for range j.r.nodes {
		s.stable, s.forget = append(s.stable, r.Uvarint()), append(s.forget, r.Uvarint())
	}
	for range r.Count(4) {
		e := entry{id: readInstance(&r), t: readTxn(&r, j.r.procedures), how: r.Uint8()}
		if e.t == nil || int(e.id.Node()) >= j.r.nodes {
			r.Fail(fmt.Errorf("%v cannot be an instance", e.id))
		}
		if e.how != undecided {
			e.noop = readBool(&r)
			e.deps = readDeps(&r, true)
		}
		if e.how >= placed {
			e.turn = r.Uvarint()
			for range r.Count(1) {
				e.to = append(e.to, int(r.UvarintMax(uint64(j.r.partitions)-1)))
			}
			e.values = deterministic.ReadValues(&r)
		}
		s.entries = append(s.entries, e)
	}
	if donor {
		s.rows = statetransfer.ReadRows(&r)
	}
	return s, r.Done()
}

// join takes over what all others know, and begins to take part.
func (j *rejoin) join() {
	r := j.r
	all := map[Instance]*entry{}
	protocol.Others(r.nodes, r.self, func(n geo.NodeID) {
		for i := range j.here[n].entries {
			e := &j.here[n].entries[i]
			if was := all[e.id]; was == nil || was.how < e.how {
				all[e.id] = e
			}
		}
	})
	from := j.here[j.donor(r.self)]
	for i := range from.rows {
		w := &from.rows[i]
		r.store.Put(w.Key, slices.Clone(w.Value), w.Writer)
	}
	for n := range r.rows {
		row := &r.rows[n]
		row.stable, row.forget, row.received = from.stable[n], from.forget[n], j.limits[n]
	}
	j.joined, j.here = true, nil
	r.env.Probe(rejoined)
	j.takeOver(all)
	held, submitted := j.held, j.submitted
	j.held, j.submitted = nil, nil
	for _, h := range held {
		r.handle(h.from, h.m)
	}
	for _, t := range submitted {
		r.Submit(t)
	}
}

// takeOver makes the records of a new incarnation.
func (j *rejoin) takeOver(all map[Instance]*entry) {
	r := j.r
	var run, open []*entry
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e, former := all[id], r.abstains(id)
		if id.Seq() <= r.rows[id.Node()].forget && e.how < placed || !former && e.how == undecided {
			continue // executed by all, or to be sent to this node
		}
		rec := &record{id: id, t: e.t}
		r.records[id] = rec
		if former {
			r.admit(rec)
			r.rows[id.Node()].received = j.limits[id.Node()]
			r.enter(id, e.t)
		}
		if e.how < placed {
			open = append(open, e)
			continue
		}
		rec.phase, rec.noop, rec.deps, rec.resolved, rec.taken, rec.watched, rec.turn = Ordered, e.noop, e.deps, true, true, true, e.turn
		rec.executed = e.how == over
		r.graph.turns = max(r.graph.turns, e.turn)
		if !e.noop {
			r.antiEntropy.decided(rec)
		}
		if e.how == placed {
			run = append(run, e)
			continue
		}
		if len(e.to) > 0 {
			rec.served = &e.served
			for _, q := range e.to {
				r.executor.ServeAgain(place(id), q, e.values)
			}
		}
		if !e.noop && r.executor.AnswersElsewhere(e.t, id.Node()) {
			r.env.Probe(answerLost)
			r.executor.Tell(id.Node(), txn.Outcome{ID: e.t.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonNodeLost})
		}
	}
	slices.SortFunc(run, func(a, b *entry) int { return cmp.Compare(a.turn, b.turn) })
	for _, e := range run {
		r.env.Probe(executedFor)
		r.executor.Run(place(e.id), e.t, e.id.Node())
	}
	for _, e := range open {
		rec := r.know(e.id)
		if e.how == decided {
			r.commit(rec, e.noop, e.deps)
		}
	}
}
