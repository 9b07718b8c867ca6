package minerva

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// local executes the transactions of the replica's clients optimistically (section 3.2, algorithm 1). They read the
// rows of the last committed epoch and the uncommitted writes of this replica's earlier transactions.
type local struct {
	r         *Replica
	snapshots bool // the parameter reads is Snapshot
	// acrossEpochs is set if a chain may extend into earlier epochs: the parameter acrossEpochs is Valid.
	acrossEpochs bool

	// open are the replica's uncommitted transactions, in log order.
	open queue.Queue[*transaction]
	last uint64 // log position of the last transaction

	// rows are the paper's temp_state: the newest uncommitted version of each row, linked to older versions. Rows whose
	// keys can be scanned are in ordered instead.
	rows    map[txn.Key]*version
	ordered btree.Map[txn.Key, *version]

	execution optimistic.Execution
	reader    *transaction // the transaction that execution runs

	transactions, snapshotReads int64
}

// transaction is a transaction of this replica.
type transaction struct {
	place   uint64 // position in the replica's log
	record  *Record
	outcome txn.Outcome
	// after are the transactions that this transaction has read from: its direct predecessors in the chain.
	after  []*transaction
	status status
	// checked is the number of committed epochs at the last check of whether the transaction is doomed.
	checked uint64
}

// status is the state of a transaction, as far as its replica knows.
type status uint8

const (
	uncommitted status = iota
	// doomed transactions will be re-executed by the epoch that commits them.
	doomed
	// committed transactions keep the result of their optimistic execution.
	committed
	// reexecuted transactions were committed with the result of their second execution.
	reexecuted
)

// version is an uncommitted write of a row, linked to the next older version.
type version struct {
	txn.WriteEntry
	writer *transaction
	older  *version
}

func (l *local) init(r *Replica, p protocol.Params) {
	l.r, l.rows, l.last = r, map[txn.Key]*version{}, protocol.NumbersBefore(r.incarnation)
	l.snapshots, l.acrossEpochs = p.Word("reads") == readsSnapshot, p.Word("acrossEpochs") == acrossValid
	l.execution = optimistic.Execution{Committed: r.store, Uncommitted: l}
}

// submit handles a client's transaction: it refuses the transaction, serves it as a snapshot read, or executes it and
// appends it to the log.
func (l *local) submit(t *txn.Transaction) {
	if l.r.rejoin.refuses() && !l.r.epochs.behind {
		l.r.env.Mark(submittedEarly)
		l.r.env.Reply(txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonJoining})
		return
	}
	l.transactions++
	// A snapshot of the last epoch needs no commit, so even a replica that is behind can serve it.
	if l.snapshots && l.r.procs.ReadsOnly(t) {
		l.snapshotReads++
		// This execution sees no uncommitted writes, so it reads a state that all replicas agree on.
		l.r.env.Reply(l.r.epochs.execution.Outcome(l.r.procs, t, l.r.placement))
		return
	}
	if l.r.epochs.behind {
		l.r.env.Mark(submittedBehind)
		l.r.env.Reply(txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonBehind})
		return
	}
	l.last++
	x := &transaction{place: l.last, record: &Record{Txn: t}, outcome: txn.Outcome{ID: t.ID}}
	l.open.Push(x)
	if l.r.contention.high() {
		x.record.Unexecuted = true
	} else {
		l.execute(x)
	}
	l.r.logs.append(x.record, x.place)
}

// execute executes a transaction optimistically. If the procedure aborts, the transaction writes nothing, but it must
// still be validated: the abort may depend on stale reads.
func (l *local) execute(x *transaction) {
	l.reader = x
	x.outcome = l.execution.Outcome(l.r.procs, x.record.Txn, l.r.placement)
	x.record.Reads = l.execution.Reads()
	// A scan may have visited rows that the procedure did not use. Reads of these rows are no dependencies.
	x.after = slices.DeleteFunc(x.after, func(before *transaction) bool {
		return !slices.ContainsFunc(x.record.Reads.Points, func(p optimistic.Point) bool { return p.Back == x.place-before.place })
	})
	// The reads reflect the current committed rows, so the transaction needs no check before the next epoch.
	x.checked = l.r.epochs.committed
	if x.outcome.Status != txn.Committed {
		return
	}
	// execution reuses its buffers for the next transaction.
	x.record.Writes = slices.Clone(l.execution.Writes())
	for _, w := range x.record.Writes {
		v := &version{WriteEntry: w, writer: x, older: l.newest(w.Key)}
		l.put(w.Key, v)
	}
}

func (l *local) put(k txn.Key, v *version) {
	if k.Ordered() {
		l.ordered.Set(k, v)
	} else {
		l.rows[k] = v
	}
}

func (l *local) delete(k txn.Key) {
	if k.Ordered() {
		l.ordered.Delete(k)
	} else {
		delete(l.rows, k)
	}
}

// newest returns the newest uncommitted version of a row, doomed or not, or nil.
func (l *local) newest(k txn.Key) *version {
	if k.Ordered() {
		v, _ := l.ordered.Get(k)
		return v
	}
	return l.rows[k]
}

// visible returns the newest version that is not newer than v and whose writer may still commit without re-execution.
// It returns nil if there is no such version.
func (l *local) visible(v *version) *version {
	for v != nil && l.doomed(v.writer) {
		v = v.older
	}
	return v
}

// read records that the running transaction reads version v.
func (l *local) read(v *version) optimistic.Written {
	if !slices.Contains(l.reader.after, v.writer) {
		l.reader.after = append(l.reader.after, v.writer)
	}
	return optimistic.Written{WriteEntry: v.WriteEntry, Writer: v.writer.record.Txn.ID, Back: l.reader.place - v.writer.place}
}

// Get implements optimistic.Uncommitted.
func (l *local) Get(k txn.Key) (w optimistic.Written, found bool) {
	v := l.visible(l.newest(k))
	if v == nil {
		return optimistic.Written{}, false
	}
	return l.read(v), true
}

// Scan implements optimistic.Uncommitted.
func (l *local) Scan(from, to txn.Key, f func(optimistic.Written) bool) {
	l.ordered.Ascend(from, func(k txn.Key, v *version) bool {
		if k >= to {
			// to is exclusive.
			return false
		}
		v = l.visible(v)
		// If all versions of a row are doomed, the scan returns the committed version of the row instead.
		return v == nil || f(l.read(v))
	})
}

// doomed reports whether a transaction was re-executed or certainly will be. The latter holds once one of its reads is
// invalid, because an invalid read never becomes valid again. Each transaction is checked at most once per epoch.
func (l *local) doomed(x *transaction) bool {
	switch {
	case x.status != uncommitted:
		return x.status != committed
	// Committed rows change only when an epoch commits, so the result of the last check still applies.
	case x.checked == l.r.epochs.committed:
		return false
	}
	x.checked = l.r.epochs.committed
	if l.lost(x) || x.record.Reads.Overtaken(l.r.store) {
		x.status = doomed
		l.r.env.Mark(doomedMet)
	}
	return x.status == doomed
}

// lost reports whether x has read from another transaction and this read can no longer be valid.
func (l *local) lost(x *transaction) bool {
	for _, before := range x.after {
		// Unless acrossEpochs is set, a read from a transaction of an earlier epoch makes the chain stale, even if that
		// transaction was valid.
		if l.doomed(before) || before.status == committed && !l.acrossEpochs {
			return true
		}
	}
	if l.acrossEpochs {
		points := x.record.Reads.Points
		for i := range points {
			// The writer is committed, so the read is valid only while the writer's version is the committed version.
			if p := &points[i]; p.Back > 0 && x.place-p.Back < l.first() && !l.r.epochs.current(p) {
				return true
			}
		}
	}
	return false
}

// first returns the log position of the first uncommitted transaction.
func (l *local) first() uint64 { return l.last - uint64(l.open.Len()) + 1 }

// commit removes the oldest open transaction, which an epoch has committed, and answers its client. again is set if the
// epoch has re-executed the transaction; o is the outcome of the re-execution.
func (l *local) commit(again bool, o txn.Outcome) {
	x := l.open.Front()
	l.open.Pop()
	// A finished transaction is never checked again, and its links would keep all its predecessors in memory.
	x.status, x.after = committed, nil
	if again {
		x.status, x.outcome = reexecuted, o
		l.r.env.Mark(reexecutedOwn)
	}
	for _, w := range x.record.Writes {
		l.forget(w.Key, x)
	}
	// forget has removed all versions of x, which were the last users of the record.
	x.record = nil
	l.r.env.Reply(x.outcome)
}

// forget removes x's version of a row, and all versions whose writers are no longer uncommitted.
func (l *local) forget(k txn.Key, x *transaction) {
	newest := l.newest(k)
	head := newest
	for head != nil && (head.writer == x || head.writer.status != uncommitted) {
		head = head.older
	}
	switch {
	case head == nil:
		l.delete(k)
	case head != newest:
		l.put(k, head)
	}
	for v := head; v != nil; v = v.older {
		for v.older != nil && (v.older.writer == x || v.older.writer.status != uncommitted) {
			v.older = v.older.older
		}
	}
}

// ReasonBehind is the reason of outcomes at a replica that was disconnected for so long that the other replicas have
// discarded data that it lacks.
const ReasonBehind = "too-far-behind"

// ReasonJoining is the reason of refusals at a new incarnation that has not caught up. Other replicas answer sooner.
// Without refusals, all clients that use the replicas in turn would end up waiting for this replica.
const ReasonJoining = "not-caught-up"

// abandon answers all open transactions with status Unknown, because this replica will never learn their outcomes.
func (l *local) abandon() {
	for l.open.Len() > 0 {
		l.r.env.Reply(txn.Outcome{ID: l.open.Front().outcome.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonBehind})
		l.open.Pop()
	}
}

// clear discards all uncommitted versions, in a faulty variant.
func (l *local) clear() {
	clear(l.rows)
	l.ordered.Clear()
}
