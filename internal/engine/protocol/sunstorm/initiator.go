package sunstorm

import (
	"errors"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
)

// Reasons for which transactions are aborted.
const (
	// ReasonOutdatedTuple: a row that was read has been changed since.
	ReasonOutdatedTuple = "outdated-tuple"
	// ReasonOutdatedIndexPage: a row now exists where the read found none, or an index page that was read has changed.
	ReasonOutdatedIndexPage = "outdated-index-page"
	// ReasonSerialization: the reader rule, the writer rule, or snapshot isolation at the writer forbid it.
	ReasonSerialization = "serialization-failure"
	// ReasonDeadlock: another multi-region transaction that is prepared writes the same row.
	ReasonDeadlock = "deadlock-prevention"
	// ReasonTooOld: the snapshot that the transaction reads is not kept any more.
	ReasonTooOld = "snapshot-too-old"
	// ReasonWriterLost: a writer has lost its state, and a new incarnation replaces it. For transactions that a storage
	// copy forwarded to it, the outcome is unknown.
	ReasonWriterLost = "writer-lost"
)

// transaction is a transaction that this node executes.
type transaction struct {
	t *txn.Transaction
	// origin is the node that its client waits at.
	origin geo.NodeID
	task   *rerun.Task
	// snapshots are the versions at which it reads at the region's node of each partition, 0 before the first read.
	snapshots []uint64
	// lsns are up to where these nodes had the log of each region then, where index pages are modelled.
	lsns [][]uint64
	// round counts the reads. needs are the current reads, by partition; waiting is the number of nodes that have not
	// answered.
	round   uint64
	needs   [][]txn.Range
	waiting int
	// outcome is the client's outcome if the reads are valid.
	outcome txn.Outcome
}

// begin takes a transaction of a client that waits at node origin.
func (r *Replica) begin(t *txn.Transaction, origin geo.NodeID) {
	x := &transaction{t: t, origin: origin}
	r.transactions[t.ID] = x
	r.execute(x)
}

// execute runs a transaction from its start.
func (r *Replica) execute(x *transaction) {
	x.task = rerun.New(r.procedures, x.t, r.store, r.interactive)
	x.snapshots, x.lsns = make([]uint64, r.topology.Partitions), make([][]uint64, r.topology.Partitions)
	r.step(x)
}

// step runs the transaction as far as the rows allow that are here.
func (r *Replica) step(x *transaction) {
	for x.waiting == 0 {
		needs := x.task.Step()
		if len(needs) == 0 {
			r.commit(x)
			return
		}
		x.round++
		x.needs = make([][]txn.Range, r.topology.Partitions)
		for _, n := range needs {
			p := r.placement.Partition(n.Range.From)
			x.needs[p] = append(x.needs[p], n.Range)
		}
		if r.replacement.wants(x.needs[r.partition]) {
			r.env.Mark(readWaits)
			r.replacement.reading = append(r.replacement.reading, x)
			return
		}
		for p, ranges := range x.needs {
			switch {
			case len(ranges) == 0:
			case p == r.partition:
				if x.snapshots[p] == 0 {
					x.snapshots[p], x.lsns[p] = r.version, r.lsns()
				}
				if x.snapshots[p] < r.oldest {
					r.tooOld(x)
					return
				}
				rows := r.store.At(x.snapshots[p])
				for i := range ranges {
					x.task.Supply(rerun.Read{Range: ranges[i], Rows: find(rows, &ranges[i])})
				}
			default:
				x.waiting++
				r.env.Send(r.topology.Node(r.region, p, 0), &Read{x.t.ID, x.round, x.snapshots[p], ranges})
			}
		}
	}
}

// find returns the rows of a range.
func find(rows store.Reader, g *txn.Range) (found []rerun.Row) {
	if g.Point() {
		if rec, there := rows.Get(g.From); there {
			found = []rerun.Row{{Key: g.From, Record: rec}}
		}
		return found
	}
	rows.Scan(*g, func(k txn.Key, rec store.Record) bool {
		found = append(found, rerun.Row{Key: k, Record: rec})
		return true
	})
	return found
}

// read answers a node of the region that asks for rows of this node's partition.
func (r *Replica) read(from geo.NodeID, m *Read) {
	if r.replacement.wants(m.Ranges) {
		r.replacement.reads = append(r.replacement.reads, heldMessage{from, m})
		return
	}
	a := &Rows{ID: m.ID, Round: m.Round, Snapshot: m.Snapshot}
	if a.Snapshot == 0 {
		a.Snapshot, a.LSNs = r.version, r.lsns()
	}
	if a.Snapshot >= r.oldest {
		rows := r.store.At(a.Snapshot)
		a.Found = make([][]rerun.Row, len(m.Ranges))
		for i := range m.Ranges {
			a.Found[i] = find(rows, &m.Ranges[i])
		}
	}
	r.env.Send(from, a)
}

// rows takes the answer.
func (r *Replica) rows(from geo.NodeID, m *Rows) {
	x, p := r.transactions[m.ID], r.topology.PartitionOf(from)
	if x == nil || x.round != m.Round {
		return // it has ended, since another node has forgotten its snapshot
	}
	if len(m.Found) != len(x.needs[p]) {
		r.tooOld(x)
		return
	}
	x.snapshots[p] = m.Snapshot
	if m.LSNs != nil {
		x.lsns[p] = m.LSNs
	}
	for i, g := range x.needs[p] {
		x.task.Supply(rerun.Read{Range: g, Rows: m.Found[i]})
	}
	x.needs[p] = nil
	x.waiting--
	r.step(x)
}

// readAgain asks a new incarnation of the region's writer of a partition for what its predecessor has not answered.
func (r *Replica) readAgain(n geo.NodeID) {
	p := r.topology.PartitionOf(n)
	for _, id := range slices.Sorted(maps.Keys(r.transactions)) {
		if x := r.transactions[id]; x.waiting > 0 && len(x.needs[p]) > 0 {
			r.env.Mark(readAgain)
			r.env.Send(n, &Read{id, x.round, x.snapshots[p], x.needs[p]})
		}
	}
}

// disown answers the clients whose transactions this node has forwarded to a writer that is lost.
func (r *Replica) disown() {
	for _, id := range slices.Sorted(maps.Keys(r.forwarded)) {
		r.env.Mark(forwardLost)
		r.env.Reply(txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonWriterLost})
	}
	clear(r.forwarded)
}

func (r *Replica) tooOld(x *transaction) {
	r.counters.tooOld++
	r.abort(x, ReasonTooOld)
}

// Part holds a transaction's reads and writes of one writer's rows: that writer's part of the paper's remote read and
// write set.
type Part struct {
	Reads  optimistic.Reads
	Writes []txn.WriteEntry
	// LSN is up to where the reader had the writer's log, where index pages are modelled; otherwise 0.
	LSN uint64
}

// parts splits a transaction's reads and writes by writers, in the order of their nodes.
func (r *Replica) parts(x *transaction) (writers []geo.NodeID, parts []Part) {
	part := func(k txn.Key) *Part {
		home, partition := r.placement.Home(k), r.placement.Partition(k)
		n := r.topology.Node(home, partition, 0)
		i, found := slices.BinarySearch(writers, n)
		if !found {
			writers, parts = slices.Insert(writers, i, n), slices.Insert(parts, i, Part{})
			if lsns := x.lsns[partition]; lsns != nil {
				parts[i].LSN = lsns[home]
			}
		}
		return &parts[i]
	}
	reads := x.task.Reads()
	for i := range reads {
		read := &reads[i]
		p := part(read.Range.From)
		if !read.Range.Point() {
			p.Reads.Ranges = append(p.Reads.Ranges, seen(read))
			continue
		}
		point := optimistic.Point{Key: read.Range.From, Absent: len(read.Rows) == 0}
		if !point.Absent {
			point.Writer = read.Rows[0].Writer
		}
		p.Reads.Points = append(p.Reads.Points, point)
	}
	for _, w := range x.task.Writes().Entries() {
		p := part(w.Key)
		p.Writes = append(p.Writes, w)
	}
	return writers, parts
}

// seen returns the range that a scan has read: a scan with a limit stops where the limit was reached.
func seen(read *rerun.Read) optimistic.Range {
	g := optimistic.Range{From: read.Range.From, To: read.Range.To}
	for i := range read.Rows {
		g.Rows = append(g.Rows, optimistic.Version{Key: read.Rows[i].Key, Writer: read.Rows[i].Writer})
	}
	limited := read.Range.Limit > 0 && len(g.Rows) == read.Range.Limit
	if read.Range.Reverse {
		slices.Reverse(g.Rows)
		if limited {
			g.From = g.Rows[0].Key
		}
	} else if limited {
		g.To = g.Rows[len(g.Rows)-1].Key + "\x00"
	}
	return g
}

// commit completes the execution of a transaction. A procedure that fails may have failed because of outdated reads, so
// it is validated like a transaction that writes nothing.
func (r *Replica) commit(x *transaction) {
	result, err := x.task.Result()
	x.outcome = txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result}
	if err != nil {
		x.outcome = txn.AbortOutcome(x.t.ID, err)
		x.task.Writes().Reset()
	}
	if !x.t.Exact {
		x.outcome.Class = x.task.Class(r.placement)
	}
	writers, parts := r.parts(x)
	x.task = nil
	switch {
	case len(writers) == 0, errors.Is(err, txn.ErrUndeclared):
		r.reply(x, x.outcome)
	case len(writers) == 1 && writers[0] == r.self:
		r.counters.single++
		r.writer.single(x, &parts[0])
	default:
		r.counters.multi++
		r.writer.initiate(x, writers, parts)
	}
}

// abort answers that a transaction is aborted for the sake of others.
func (r *Replica) abort(x *transaction, reason string) {
	r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Class: x.outcome.Class, Reason: reason})
}

func (r *Replica) reply(x *transaction, o txn.Outcome) {
	delete(r.transactions, x.t.ID)
	if x.origin == r.self {
		r.env.Reply(o)
		return
	}
	r.env.Send(x.origin, &Answer{o})
}
