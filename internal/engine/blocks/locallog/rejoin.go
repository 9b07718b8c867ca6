package locallog

import (
	"maps"
	"math"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Rejoin of new incarnations. It requires replicated logs whose batches are copied before they get a position. If a
// node is lost, pending messages between the partitions of its copy are lost with it. Its whole copy therefore restarts
// with the rows of another copy (deterministic.Resets). An engine with one log restarts at a position of that log. Here
// the copy needs a consistent cut: a position in every log such that no transaction has parts on both sides. The logs
// themselves determine the cut.
//
//   - A new incarnation first puts its mark (package batchlog) into every home log, and then into every multi-home
//     order. The nth marks of all orders form a cut, even if they belong to different nodes.
//   - A home log reaches the cut where it first takes any order beyond that order's mark. Before that entry, it takes
//     all orders up to their marks. All readers of the log do this at the same position.
//
// Every home log therefore contains exactly the same multi-home transactions before the cut: those up to the marks in
// the orders. The queue of a row contains the requests of one home in log order. In such a queue, no transaction before
// the cut waits for a transaction after the cut. Nor does a transaction before the cut wait for a row to arrive. A
// transaction that relies on a move is after both parts of the move.
//
// All nodes stop at the cut until all logs have reached it. The donors also wait until their unfinished transactions
// have finished, and the restarting copy waits until it has rows.
//
// Messages with reads identify a transaction only by its ID, which does not show on which side of a cut the transaction
// is. The sender therefore includes the cut at which its copy last got its rows.

// rejoining is a node's state of the rejoin protocol.
type rejoining struct {
	n      *Node
	resets *deterministic.Resets

	// since is 1 + the place of the cut at which this node's copy last restarted, or 0 if it never restarted. early holds
	// messages from nodes that have restarted at a later cut.
	since uint64
	early []earlyMessage

	// passing[x] is set if order x may pass the mark that it has reached. settled lists the nodes whose marks of this cut
	// need no further work here.
	passing []bool
	settled []geo.NodeID
	// stood holds the positions of this node's logs at the last cut that this node reached; last is the place of that cut.
	stood []uint64
	last  uint64

	// open holds the transactions of this node's clients that are in a batch for a log.
	open map[txn.ID]openIn
	// lacking is set in a new incarnation without rows, and marking once its marks in all home logs have been read. held
	// is set until the new incarnation starts its work. Before that, transactions and questions wait, because the homes of
	// rows are unknown.
	lacking   bool
	marking   bool
	held      bool
	submitted []*txn.Transaction
	asks      []heldAsk
}

type earlyMessage struct {
	from geo.NodeID
	m    protocol.Message
}

type heldAsk struct {
	from geo.NodeID
	m    *Ask
}

// openIn identifies the batch that contains a transaction.
type openIn struct{ log, batch uint64 }

// unsent is the batch number of transactions from a void batch that are collected for another batch.
const unsent = math.MaxUint64

// Replaces is an engine's Replaces. It returns all nodes if every log can continue without any single member, and no
// batch with a position is lost with a node. Otherwise it returns nil.
func Replaces(t *geo.Topology, p protocol.Params) (nodes []geo.NodeID) {
	if !Replicated(p) || batchlog.Copies(p) < 2 || p.Word(HomeLogsParameter.Name) == logsLocal && t.Partitions*t.Replicas < 3 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		nodes = append(nodes, n)
	}
	return nodes
}

func newRejoining(n *Node) *rejoining {
	j := &rejoining{n: n, passing: make([]bool, len(n.orders)), open: map[txn.ID]openIn{}, lacking: n.c.Incarnation > 0, held: n.c.Incarnation > 0}
	j.resets = deterministic.NewResets(deterministic.ResetConfig{
		Config: n.c.Config, Layout: n.layout, Executor: n.Executor, PieceTimer: pieceTimer, AgainTimer: againTimer,
		Passed: j.passed, Append: j.append, Ready: j.ready, Begin: j.begin, Forget: j.forget,
		Advance: func() {}, // flush checks the cut at the end of every step
	})
	if j.held {
		n.recon.Pause()
	}
	return j
}

// passed returns the last incarnation of node m whose marks this node has read in all logs. For this node itself, it
// returns 0 until the node has read all batches that went to its predecessor.
func (j *rejoining) passed(m geo.NodeID) uint32 {
	least := uint32(math.MaxUint32)
	for _, l := range j.n.Logs {
		if m == j.n.c.Self && !l.reader.CaughtUp() {
			return 0
		}
		least = min(least, protocol.IncarnationOf(l.reader.Done(m)))
	}
	return least
}

// atMark reports whether the next entry of a log is a mark, and returns the mark's node and incarnation.
func (l *Log) atMark() (m geo.NodeID, incarnation uint32, ok bool) {
	o, known := l.Order.Next()
	if !known {
		return 0, 0, false
	}
	return o.Mark()
}

// mayMark reports whether this incarnation may put its marks into the orders: it has reached its marks in all home
// logs.
func (j *rejoining) mayMark() bool {
	for h := range j.n.Topology.Regions {
		if l := j.n.Logs[h]; !l.Order.Entered() {
			// The reader stops at its mark until the node has rows, so the log may have reached the mark without having
			// passed it.
			if m, incarnation, ok := l.atMark(); !ok || m != j.n.Self || incarnation != j.n.c.Incarnation {
				return false
			}
		}
	}
	return true
}

// homeMark handles a mark in a home log. A new incarnation stays at its own mark until it has rows.
func (j *rejoining) homeMark(m geo.NodeID, _ uint32) bool {
	return m != j.n.Self || !j.lacking
}

// orderMark handles a mark in order x. It returns true once for each cut, when all logs have reached the cut.
func (j *rejoining) orderMark(x int) bool {
	passing := j.passing[x]
	j.passing[x] = false
	return passing
}

// place returns the place of the cut that all orders have reached. A place is the sum of the orders' positions, so
// later cuts have higher places. ok is false if an order has not reached a mark.
func (j *rejoining) place() (place uint64, ok bool) {
	for _, o := range j.n.orders {
		// A new incarnation without rows takes part only in the cut of its own marks: it cannot act as a donor.
		if m, _, ok := o.log.atMark(); !ok || j.lacking && m != j.n.Self {
			return 0, false
		}
		place += o.log.Order.Position()
	}
	return place, true
}

// homesStand reports whether all home logs have reached the cut that all orders have reached.
func (j *rejoining) homesStand() bool {
	for h := range j.n.Topology.Regions {
		o, known := j.n.Logs[h].Order.Next()
		if !known {
			return false
		}
		x, ok := o.Stream()
		// The home log is at the cut if its next entry takes an order beyond the mark at which that order waits.
		if !ok || x >= len(j.n.orders) || o.Batch.Number <= j.n.orders[x].log.Order.Position() {
			return false
		}
	}
	return true
}

// cut performs the work at a cut, and reports whether this node has moved to another position in its logs.
func (j *rejoining) cut() (moved bool) {
	n := j.n
	place, ok := j.place()
	if !ok {
		return false
	}
	if !j.lacking {
		if !j.homesStand() {
			return false
		}
		for h := range n.Topology.Regions {
			for x, o := range n.orders {
				// A home log may not have taken every order up to its mark yet. Taking the rest here gives all readers the same
				// state at the cut.
				n.takeUpTo(geo.Region(h), x, o.log.Order.Position())
			}
		}
		j.last, j.stood = place, j.stood[:0]
		for _, l := range n.Logs {
			j.stood = append(j.stood, l.Order.Position())
		}
	}
	for x, o := range n.orders {
		m, incarnation, _ := o.log.atMark()
		if slices.Contains(j.settled, m) {
			continue
		}
		if x > 0 {
			n.Env.Mark(marksCross)
		}
		if !j.resets.Mark(m, incarnation, place) {
			// Mark may have moved this node to the cut of a donor; the marks of the old cut then no longer matter.
			now, _ := j.place()
			if moved = now != place; moved {
				j.settled = j.settled[:0]
			}
			return moved
		}
		j.settled = append(j.settled, m)
	}
	j.settled = j.settled[:0]
	// Every mark of the cut is settled, so all orders continue, and so do the home logs that wait for them.
	for x := range n.orders {
		j.passing[x] = true
	}
	for _, o := range n.orders {
		o.log.reader.Advance()
	}
	n.advanceHomes()
	return true
}

// flush performs the rejoin work at the end of a step.
func (j *rejoining) flush() {
	if j.lacking && !j.marking && j.mayMark() {
		j.marking = true
		for _, o := range j.n.orders {
			o.log.Order.Enter()
		}
	}
	// Several cuts may have been reached in one step.
	for j.cut() {
	}
	if j.held && !j.resets.Lacking() {
		j.resume()
	}
	j.resets.Flush()
}

// resume starts the work of a new incarnation once it has rows.
func (j *rejoining) resume() {
	j.held = false
	submitted, asks := j.submitted, j.asks
	j.submitted, j.asks = nil, nil
	j.n.recon.Resume()
	for _, t := range submitted {
		j.n.submit(t)
	}
	for _, a := range asks {
		j.n.tell(a.from, a.m)
	}
}

// append appends a donor's state at a cut to b, without its rows.
func (j *rejoining) append(b []byte) []byte {
	n := j.n
	for _, l := range n.Logs {
		b = codec.AppendUvarint(b, l.Order.Position())
	}
	for _, l := range n.Logs {
		for s := range geo.NodeID(n.Topology.Nodes()) {
			b = codec.AppendUvarint(b, l.reader.Done(s))
		}
	}
	if n.remasterer != nil {
		b = appendResidences(appendResidences(b, n.remasterer.rows), n.remasterer.known)
	}
	return b
}

// ready reports whether this node knows all its logs up to a cut, and has read none of them beyond the cut.
func (j *rejoining) ready(_ uint64, r codec.Reader) bool {
	for _, l := range j.n.Logs {
		// Known must exceed the position, because the node waits at the mark that has that position.
		if position := r.Uvarint(); l.Order.Position() > position || l.Order.Known() <= position {
			return false
		}
	}
	return true
}

// begin moves this node to a cut, with a donor's state.
func (j *rejoining) begin(_ uint64, r *codec.Reader) {
	n := j.n
	j.lacking = false
	positions := make([]uint64, len(n.Logs))
	for i := range positions {
		positions[i] = r.Uvarint()
	}
	done := make([]uint64, n.Topology.Nodes())
	for i, l := range n.Logs {
		for s := range done {
			done[s] = r.Uvarint()
		}
		l.reader.SkipTo(positions[i], done)
	}
	for _, o := range n.orders {
		// The donor's rows include the effects of all entries before the cut, so no home log takes these entries here.
		o.first, o.entries, o.foreign = o.first+len(o.entries), nil, 0
		for h := range o.taken {
			o.taken[h], o.upto[h] = o.first, o.log.Order.Position()
		}
	}
	if m := n.remasterer; m != nil {
		m.rows, m.known = readResidences(r), readResidences(r)
		// No move is half-read at a cut, and no request waits for a move there.
		m.halves, m.later = map[txn.ID]half{}, map[txn.Key][]laterRequest{}
	}
}

// forget discards the state from before the cut at place, which all logs have reached.
func (j *rejoining) forget(place uint64) {
	n := j.n
	j.since = place + 1
	var lost []txn.ID
	for id, in := range j.open {
		// The batch was settled before the cut, so this copy will never execute the transaction. Later batches are
		// unaffected.
		if in.batch <= n.Logs[in.log].reader.Done(n.Self) {
			lost = append(lost, id)
		}
	}
	slices.Sort(lost)
	for _, id := range lost {
		n.Env.Mark(outcomeForgotten)
		delete(j.open, id)
		delete(n.attempts, id)
		n.recon.Forget(id)
		n.reply(txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: deterministic.ReasonReset})
	}
	if n.c.Reset != nil {
		n.c.Reset()
	}
	early := j.early
	j.early = nil
	for _, e := range early {
		n.c.Again(e.from, e.m)
	}
}

// Since returns 1 + the place of the cut at which this node's copy got its rows, or 0 if it never restarted. The nodes
// of a copy include this number in their messages about executions.
func (n *Node) Since() uint64 {
	if n.rejoin == nil {
		return 0
	}
	return n.rejoin.since
}

// Timely reports whether a message from another node of the copy belongs to the cut of this node's rows. A message of a
// later cut is delivered again when this node has reached that cut (Config.Again).
func (n *Node) Timely(from geo.NodeID, since uint64, m protocol.Message) bool {
	j := n.rejoin
	switch {
	case j == nil:
		return since == 0 // otherwise the message is corrupt
	case since > j.since:
		n.Env.Mark(toldAhead)
		j.early = append(j.early, earlyMessage{from, m})
		return false
	// Reads from before the cut belong to executions that this node has discarded.
	case since < j.since || j.lacking && since == 0:
		n.Env.Mark(toldBehind)
		return false
	}
	return true
}

// sent records the log and the batch of those entries that are transactions of this node's clients.
func (j *rejoining) sent(log, batch uint64, entries []Entry) {
	for i := range entries {
		if e := &entries[i]; !e.Remaster && e.Coordinator == j.n.Self {
			j.open[e.Txn.ID] = openIn{log, batch}
		}
	}
}

// closed records that a transaction has an outcome. It returns false if the outcome arrived too late.
func (j *rejoining) closed(id txn.ID) bool {
	_, open := j.open[id]
	delete(j.open, id)
	return open
}

// resetEnv is the environment of an executor whose copy may restart. It adds the cut to reads.
type resetEnv struct {
	protocol.Env
	n *Node
}

// Send implements protocol.Env.
func (e *resetEnv) Send(to geo.NodeID, m protocol.Message) {
	if r, ok := m.(*deterministic.Reads); ok && e.n.rejoin.since > 0 {
		m = &ReadsSince{e.n.rejoin.since, r}
	}
	e.Env.Send(to, m)
}

// sendAgain sends a new incarnation its part of this node's batches without a position, because they may have gone to
// its predecessor.
func (l *Log) sendAgain(to geo.NodeID) {
	g := slices.IndexFunc(l.c.Readers, func(nodes []geo.NodeID) bool { return slices.Contains(nodes, to) })
	l.sent.Each(func(b sentBatch) {
		var part []Entry
		touched := false
		for i := range b.entries {
			e := b.entries[i]
			l.groups = l.c.Groups(&e, l.groups[:0])
			if !slices.Contains(l.groups, g) {
				continue
			}
			touched = true
			if l.c.Shape != nil {
				e = l.c.Shape(e, g)
			}
			part = append(part, e)
		}
		if touched {
			l.env.Mark(batchSentAgain)
			l.env.Send(to, newBatch(l.c.Number, b.number, part))
		}
	})
}

// Replaced implements protocol.Rejoiner.
func (n *Node) Replaced(m geo.NodeID, incarnation uint32) {
	if n.rejoin == nil {
		return
	}
	for _, l := range n.Logs {
		l.Order.Replaced(m, incarnation)
		l.sendAgain(m)
	}
	n.rejoin.resets.Replaced(m, incarnation)
	n.rejoin.asks = slices.DeleteFunc(n.rejoin.asks, func(a heldAsk) bool { return a.from == m })
	n.recon.Replaced(m)
	if n.lookups != nil {
		n.lookups.askAgain(m)
	}
}

// FullyReplicated implements protocol.Rejoiner.
func (n *Node) FullyReplicated() bool {
	if n.rejoin == nil {
		return true
	}
	for _, l := range n.Logs {
		if !l.Order.FullyReplicated() {
			return false
		}
	}
	return n.rejoin.resets.FullyReplicated()
}

func appendResidences(b []byte, rows map[txn.Key]residence) []byte {
	b = codec.AppendUvarint(b, uint64(len(rows)))
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendString(b, string(k)), uint64(rows[k].home)), rows[k].count)
	}
	return b
}

func readResidences(r *codec.Reader) map[txn.Key]residence {
	rows := map[txn.Key]residence{}
	for range r.Count(3) {
		k := r.Key()
		rows[k] = residence{geo.Region(r.UvarintMax(1<<16 - 1)), r.Uvarint()}
	}
	return rows
}
