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
	// ReasonOutdatedTuple: another transaction has changed a row that the transaction read.
	ReasonOutdatedTuple = "outdated-tuple"
	// ReasonOutdatedIndexPage: a row now exists where the read found none, or an index page that was read has changed.
	ReasonOutdatedIndexPage = "outdated-index-page"
	// ReasonSerialization: the reader rule, the writer rule or snapshot isolation at the writer forbids the commit.
	ReasonSerialization = "serialization-failure"
	// ReasonDeadlock: a prepared multi-region transaction writes the same row.
	ReasonDeadlock = "deadlock-prevention"
	// ReasonTooOld: the row versions of the transaction's snapshot are no longer kept.
	ReasonTooOld = "snapshot-too-old"
	// ReasonWriterLost: a writer has lost its state and was replaced by a new incarnation. The outcome of a transaction
	// that a storage copy had forwarded to the lost writer is unknown.
	ReasonWriterLost = "writer-lost"
)

// transaction is a transaction that this node executes.
type transaction struct {
	t *txn.Transaction
	// origin is the node to which the client submitted the transaction.
	origin geo.NodeID
	task   *rerun.Task
	// snapshots are the store versions at which the transaction reads, by partition; 0 before the first read of a
	// partition.
	snapshots []uint64
	// lsns are, by partition, the LSNs of all regions' logs at the time of the first read. They are only set if index
	// pages are modelled.
	lsns [][]uint64
	// round is the number of the latest round of reads. needs are the ranges of this round that are still unanswered, by
	// partition. waiting is the number of nodes that have not answered.
	round   uint64
	needs   [][]txn.Range
	waiting int
	// outcome is the outcome that the client receives if the transaction passes validation.
	outcome txn.Outcome
}

// begin starts a transaction that a client has submitted to node origin.
func (r *Replica) begin(t *txn.Transaction, origin geo.NodeID) {
	x := &transaction{t: t, origin: origin}
	r.transactions[t.ID] = x
	r.execute(x)
}

// execute runs a transaction from its start, on a new snapshot.
func (r *Replica) execute(x *transaction) {
	x.task = rerun.New(r.procedures, x.t, r.store, r.interactive)
	x.snapshots, x.lsns = make([]uint64, r.topology.Partitions), make([][]uint64, r.topology.Partitions)
	r.step(x)
}

// step runs the transaction until it needs rows of other nodes, and requests those rows. If the procedure has finished,
// step commits the transaction.
func (r *Replica) step(x *transaction) {
	// Reads of this node's rows are supplied in the same step, so the procedure may continue without any message.
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
		// This node is a new incarnation that has not received these rows yet. readOn restarts the transaction once they have
		// arrived.
		if r.replacement.wants(x.needs[r.partition]) {
			r.env.Mark(readWaits)
			r.replacement.reading = append(r.replacement.reading, x)
			return
		}
		for p, ranges := range x.needs {
			switch {
			case len(ranges) == 0:
			case p == r.partition:
				// The first read fixes the snapshot of the partition; later reads use the same version.
				if x.snapshots[p] == 0 {
					x.snapshots[p], x.lsns[p] = r.version, r.lsns()
				}
				// Versions below oldest may have been discarded, so the snapshot may be incomplete.
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

// read answers another node of the region that requests rows of this node's partition.
func (r *Replica) read(from geo.NodeID, m *Read) {
	// These rows are part of a copy that has not arrived completely. readOn handles the message again once the copy is
	// complete.
	if r.replacement.wants(m.Ranges) {
		r.replacement.reads = append(r.replacement.reads, heldMessage{from, m})
		return
	}
	a := &Rows{ID: m.ID, Round: m.Round, Snapshot: m.Snapshot}
	// The transaction's first read here fixes its snapshot. Later reads name the version that this answer returns.
	if a.Snapshot == 0 {
		a.Snapshot, a.LSNs = r.version, r.lsns()
	}
	// An answer without Found reports that the snapshot is too old.
	if a.Snapshot >= r.oldest {
		rows := r.store.At(a.Snapshot)
		a.Found = make([][]rerun.Row, len(m.Ranges))
		for i := range m.Ranges {
			a.Found[i] = find(rows, &m.Ranges[i])
		}
	}
	r.env.Send(from, a)
}

// rows handles the answer to a Read.
func (r *Replica) rows(from geo.NodeID, m *Rows) {
	x, p := r.transactions[m.ID], r.topology.PartitionOf(from)
	if x == nil || x.round != m.Round {
		return // the transaction has ended: its snapshot was too old at another node
	}
	// The node sends no rows if it no longer keeps the snapshot.
	if len(m.Found) != len(x.needs[p]) {
		r.tooOld(x)
		return
	}
	x.snapshots[p] = m.Snapshot
	// Only the first answer of a partition carries LSNs; a later answer must not clear them.
	if m.LSNs != nil {
		x.lsns[p] = m.LSNs
	}
	for i, g := range x.needs[p] {
		x.task.Supply(rerun.Read{Range: g, Rows: m.Found[i]})
	}
	// readAgain repeats only the reads that are still listed in needs.
	x.needs[p] = nil
	x.waiting--
	r.step(x)
}

// readAgain repeats the reads that the lost predecessor of writer n has not answered.
func (r *Replica) readAgain(n geo.NodeID) {
	p := r.topology.PartitionOf(n)
	// Map order would make the order of messages differ between replays.
	for _, id := range slices.Sorted(maps.Keys(r.transactions)) {
		if x := r.transactions[id]; x.waiting > 0 && len(x.needs[p]) > 0 {
			r.env.Mark(readAgain)
			r.env.Send(n, &Read{id, x.round, x.snapshots[p], x.needs[p]})
		}
	}
}

// disown replies with an unknown outcome to the clients of transactions that this node has forwarded to a lost writer.
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

// Part is one writer's part of a transaction: the paper's remote read and write set.
type Part struct {
	Reads  optimistic.Reads
	Writes []txn.WriteEntry
	// LSN is the position in the writer's log that the reader had applied when it read; 0 if index pages are not
	// modelled.
	LSN uint64
}

// parts splits a transaction's reads and writes by writer, in the order of the writers' node numbers.
func (r *Replica) parts(x *transaction) (writers []geo.NodeID, parts []Part) {
	part := func(k txn.Key) *Part {
		home, partition := r.placement.Home(k), r.placement.Partition(k)
		n := r.topology.Node(home, partition, 0)
		i, found := slices.BinarySearch(writers, n)
		if !found {
			writers, parts = slices.Insert(writers, i, n), slices.Insert(parts, i, Part{})
			// LSN stays 0 if the transaction only writes in the partition: without reads there, no page of the part is
			// validated.
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
			// A version is identified by the transaction that wrote it, because every node numbers its versions separately.
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

// seen returns the range that a scan has observed. A scan that reached its limit has observed nothing beyond its last
// row.
func seen(read *rerun.Read) optimistic.Range {
	g := optimistic.Range{From: read.Range.From, To: read.Range.To}
	for i := range read.Rows {
		g.Rows = append(g.Rows, optimistic.Version{Key: read.Rows[i].Key, Writer: read.Rows[i].Writer})
	}
	limited := read.Range.Limit > 0 && len(g.Rows) == read.Range.Limit
	if read.Range.Reverse {
		// Versions are compared in ascending key order, whatever the direction of the scan.
		slices.Reverse(g.Rows)
		// The scan stopped at its limit and has not observed the keys below its smallest row.
		if limited {
			g.From = g.Rows[0].Key
		}
	} else if limited {
		// To is exclusive, so it is the immediate successor of the last row's key.
		g.To = g.Rows[len(g.Rows)-1].Key + "\x00"
	}
	return g
}

// commit starts to commit a transaction after its procedure has finished. A procedure may have failed because of
// outdated reads, so a failure is validated like a transaction without writes.
func (r *Replica) commit(x *transaction) {
	result, err := x.task.Result()
	x.outcome = txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result}
	if err != nil {
		x.outcome = txn.AbortOutcome(x.t.ID, err)
		// A failed procedure commits nothing, but its reads are still validated.
		x.task.Writes().Reset()
	}
	// A footprint that is only a hint may omit rows, so the class follows from the rows that were used.
	if !x.t.Exact {
		x.outcome.Class = x.task.Class(r.placement)
	}
	writers, parts := r.parts(x)
	x.task = nil
	switch {
	// An undeclared access fails in every state, so there is nothing to validate.
	case len(writers) == 0, errors.Is(err, txn.ErrUndeclared):
		r.reply(x, x.outcome)
	// Only a transaction whose rows all belong to this writer can commit here without votes.
	case len(writers) == 1 && writers[0] == r.self:
		r.counters.single++
		r.writer.single(x, &parts[0])
	default:
		r.counters.multi++
		r.writer.initiate(x, writers, parts)
	}
}

// abort replies that the transaction was aborted because of a conflict.
func (r *Replica) abort(x *transaction, reason string) {
	r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Class: x.outcome.Class, Reason: reason})
}

func (r *Replica) reply(x *transaction, o txn.Outcome) {
	delete(r.transactions, x.t.ID)
	if x.origin == r.self {
		r.env.Reply(o)
		return
	}
	// The client of a forwarded transaction waits at the storage copy that forwarded it.
	r.env.Send(x.origin, &Answer{o})
}
