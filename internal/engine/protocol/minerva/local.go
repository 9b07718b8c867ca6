package minerva

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// local executes the transactions of the replica's clients (section 3.2, algorithm 1). They read the rows of the last
// epoch and the later writes of the replica's own transactions.
type local struct {
	r         *Replica
	snapshots bool // the parameter reads
	// acrossEpochs says that chains may reach across epochs: the parameter is Valid.
	acrossEpochs bool

	// open are the replica's transactions that are not committed, in the order of its log.
	open queue.Queue[*transaction]
	last uint64 // the position of the last transaction

	// rows are the paper's temp_state: the uncommitted versions of rows, the newest first. Rows that can be scanned are in
	// ordered.
	rows    map[txn.Key]*version
	ordered btree.Map[txn.Key, *version]

	execution optimistic.Execution
	reader    *transaction // of which execution is

	transactions, snapshotReads int64
}

// transaction is a transaction of this replica.
type transaction struct {
	place   uint64 // in its log
	record  *Record
	outcome txn.Outcome
	// after are the transactions that it has read from: the end of a chain that it belongs to.
	after  []*transaction
	status status
	// checked is the epoch after which it was last found to be not yet doomed.
	checked uint64
}

// status is the replica's knowledge of one of its transactions.
type status uint8

const (
	uncommitted status = iota
	// doomed transactions will be executed again in the epoch that commits them.
	doomed
	// committed with the result of the optimistic execution.
	committed
	// reexecuted and committed.
	reexecuted
)

// version is a transaction's write of a row, over older versions.
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

// submit takes a client's transaction.
func (l *local) submit(t *txn.Transaction) {
	if l.r.rejoin.refuses() && !l.r.epochs.behind {
		l.r.env.Mark(submittedEarly)
		l.r.env.Reply(txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonJoining})
		return
	}
	l.transactions++
	if l.snapshots && l.r.procs.ReadsOnly(t) {
		l.snapshotReads++
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

// execute executes a transaction optimistically. One that aborts is validated like others, and writes nothing.
func (l *local) execute(x *transaction) {
	l.reader = x
	x.outcome = l.execution.Outcome(l.r.procs, x.record.Txn, l.r.placement)
	x.record.Reads = l.execution.Reads()
	x.after = slices.DeleteFunc(x.after, func(before *transaction) bool { // a scan may have ended before it
		return !slices.ContainsFunc(x.record.Reads.Points, func(p optimistic.Point) bool { return p.Back == x.place-before.place })
	})
	x.checked = l.r.epochs.committed
	if x.outcome.Status != txn.Committed {
		return
	}
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

// newest returns the newest version of a row, doomed or not.
func (l *local) newest(k txn.Key) *version {
	if k.Ordered() {
		v, _ := l.ordered.Get(k)
		return v
	}
	return l.rows[k]
}

// visible returns the newest version from v on that may be committed without re-execution.
func (l *local) visible(v *version) *version {
	for v != nil && l.doomed(v.writer) {
		v = v.older
	}
	return v
}

// read notes that the running transaction reads a version.
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
			return false
		}
		v = l.visible(v)
		return v == nil || f(l.read(v))
	})
}

// doomed reports whether a transaction is certain to be re-executed, or was: its reads are no longer valid, and never
// will be again. It is checked once after each epoch.
func (l *local) doomed(x *transaction) bool {
	switch {
	case x.status != uncommitted:
		return x.status != committed
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

// lost reports whether a transaction has read from a transaction whose write is not valid for it.
func (l *local) lost(x *transaction) bool {
	for _, before := range x.after {
		if l.doomed(before) || before.status == committed && !l.acrossEpochs {
			return true
		}
	}
	if l.acrossEpochs {
		points := x.record.Reads.Points
		for i := range points {
			if p := &points[i]; p.Back > 0 && x.place-p.Back < l.first() && !l.r.epochs.current(p) {
				return true
			}
		}
	}
	return false
}

// first returns the place of the first transaction that is not committed.
func (l *local) first() uint64 { return l.last - uint64(l.open.Len()) + 1 }

// commit takes the oldest open transaction out, which an epoch has committed. Again says that it was executed again,
// with another outcome.
func (l *local) commit(again bool, o txn.Outcome) {
	x := l.open.Front()
	l.open.Pop()
	x.status, x.after = committed, nil
	if again {
		x.status, x.outcome = reexecuted, o
		l.r.env.Mark(reexecutedOwn)
	}
	for _, w := range x.record.Writes {
		l.forget(w.Key, x)
	}
	x.record = nil
	l.r.env.Reply(x.outcome)
}

// forget drops a transaction's version of a row, and those over it that are doomed.
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

// ReasonBehind is the reason of transactions at a replica that was disconnected for so long that other replicas have
// discarded data that it lacks.
const ReasonBehind = "too-far-behind"

// ReasonJoining is the reason of transactions at a new incarnation that has not caught up. Other replicas serve them
// better: clients that use all replicas in turn would all wait for this one.
const ReasonJoining = "not-caught-up"

// abandon answers all open transactions: this replica will never learn their outcomes.
func (l *local) abandon() {
	for l.open.Len() > 0 {
		l.r.env.Reply(txn.Outcome{ID: l.open.Front().outcome.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonBehind})
		l.open.Pop()
	}
}

// clear forgets all uncommitted versions: a mistake.
func (l *local) clear() {
	clear(l.rows)
	l.ordered.Clear()
}
