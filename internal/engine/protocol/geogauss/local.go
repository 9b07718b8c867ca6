package geogauss

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// local executes the transactions of the server's clients on its last snapshot, and ends the server's epochs.
type local struct {
	r      *Replica
	length time.Duration // length of an epoch

	ended    uint64      // the last own epoch whose end was announced to the other servers
	epoch    uint64      // the epoch of sets
	sets     []*WriteSet // own write sets of the running epoch
	sequence uint64      // sequence number of the last own write set
	// open are the transactions with write sets that were sent and not merged, in the order of sending.
	open queue.Queue[transaction]
	// held are the transactions that wait for this server to receive its state or to count again.
	held queue.Queue[*txn.Transaction]

	ticking bool          // a timer is set
	active  time.Duration // when a server was last known to have write sets to merge

	transactions, snapshotReads, epochs, leftOut int64
}

// transaction is a transaction whose client waits until its epoch is merged.
type transaction struct {
	set     *WriteSet
	outcome txn.Outcome // the outcome if the write set wins
}

// rest is how long servers continue to end epochs without write sets. The next write set then need not wait for the
// other servers to start again.
const rest = time.Second

// ReasonLeftOut is the reason of transactions whose server was removed from the membership, and was not a member again
// when their epoch was merged.
const ReasonLeftOut = "server-left-out"

func (l *local) init(r *Replica, p protocol.Params) {
	// A server starts at rest: it closes no epochs before the first write set.
	l.r, l.length, l.active = r, p.Duration("epoch"), -rest
}

// running returns the number of the epoch that the clock shows, from 1. At a new incarnation the clock may show an
// epoch before the last epoch of its predecessor that counts.
func (l *local) running() uint64 {
	// Epochs count from 1. A clock that is set back must not return to a closed epoch.
	return max(uint64(max(0, l.r.env.Now())/l.length)+1, l.ended+1)
}

// submit accepts a client's transaction.
func (l *local) submit(t *txn.Transaction) {
	l.transactions++
	switch {
	case l.r.replace.lacking:
		l.r.env.Mark(askedWithoutRows)
		l.held.Push(t)
	// A read needs only the rows, which this server has even while it is no member.
	case l.r.procs.ReadsOnly(t):
		l.snapshotReads++
		l.r.env.Reply(l.r.execution.Outcome(l.r.procs, t, l.r.placement))
	// A later transaction must not overtake the held transactions, and the write sets of a server that does not count are
	// ignored.
	case l.held.Len() > 0 || !l.r.members.counts(l.r.self):
		l.r.env.Mark(transactionHeld)
		l.held.Push(t)
	default:
		l.execute(t)
	}
}

// read answers the read-only transactions among the held transactions.
func (l *local) read() {
	var others queue.Queue[*txn.Transaction]
	l.held.Each(func(t *txn.Transaction) {
		if l.r.procs.ReadsOnly(t) {
			l.snapshotReads++
			l.r.env.Reply(l.r.execution.Outcome(l.r.procs, t, l.r.placement))
		} else {
			others.Push(t)
		}
	})
	l.held = others
}

// release executes the held transactions once the server is a member again.
func (l *local) release() {
	for l.held.Len() > 0 && l.r.members.counts(l.r.self) {
		l.r.env.Mark(transactionReleased)
		t := l.held.Front()
		l.held.Pop()
		l.execute(t)
	}
}

// execute executes a transaction on the last snapshot and sends its write set. A transaction that writes nothing,
// including a procedure that aborts, is answered immediately: its answer depends only on a snapshot.
func (l *local) execute(t *txn.Transaction) {
	o := l.r.execution.Outcome(l.r.procs, t, l.r.placement)
	writes := l.r.execution.Writes()
	if o.Status != txn.Committed || len(writes) == 0 {
		l.r.env.Reply(o)
		return
	}
	// A server that has just joined may have a late clock, which still shows an epoch that is complete without the server.
	// In that epoch, the write set would not count. If the epoch is merged here, nothing would abort the transaction
	// before the next merge, which an idle database does not reach.
	if frontier := l.r.epochs.frontier; l.running() <= frontier {
		l.end(frontier)
	}
	running := l.running()
	// The other servers assign write sets to the next end that they receive, so earlier epochs must end first.
	l.end(running - 1)
	// The sequence must increase even if the clock is set back, because it orders the server's write sets.
	l.sequence = max(l.sequence+1, uint64(max(0, l.r.env.Now())/time.Microsecond))
	// The slice of writes is only valid until the next execution.
	set := &WriteSet{Epoch: running, ID: t.ID, Start: l.r.merge.number, Sequence: l.sequence, Writes: slices.Clone(writes)}
	l.epoch, l.sets = running, append(l.sets, set)
	l.open.Push(transaction{set, o})
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, set) })
	l.r.epochs.want(running)
}

// end ends the server's epochs up to an epoch: an epoch with write sets separately, the other epochs together.
func (l *local) end(epoch uint64) {
	if len(l.sets) > 0 && l.epoch <= epoch {
		l.close(l.epoch)
	}
	if l.ended < epoch {
		l.close(epoch)
	}
}

func (l *local) close(epoch uint64) {
	c := &Closed{Server: l.r.self, Epoch: epoch, After: l.ended, View: l.r.members.view, Sets: l.sets}
	l.ended, l.sets = epoch, nil
	l.epochs++
	e := &l.r.epochs
	m := &End{
		Epoch: epoch, After: c.After, Count: uint64(len(c.Sets)), View: c.View, Complete: e.frontier, Wanted: e.wanted, Busy: l.waits(),
	}
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, m) })
	// walk and requests find this server's epochs in a log, like the epochs of any other server.
	e.put(c)
}

// waits reports whether write sets wait to be merged or transactions are held. Both need further epochs to end. A held
// transaction waits until the server counts again, which happens after epochs that all other servers end.
func (l *local) waits() bool { return l.held.Len() > 0 || l.r.epochs.busy() }

// awake reports whether the server closes epochs. It does so while write sets or held transactions wait, and for a
// second (rest) after the last activity.
func (l *local) awake() bool {
	// A single server waits for no other, so it need not stay awake after its last write set.
	return l.waits() || l.r.nodes > 1 && l.r.env.Now() < l.active+rest
}

// wake sets the timer for the end of the running epoch, while the server is awake. It closes the earlier epochs
// immediately, since other servers may wait for them.
func (l *local) wake() {
	now := l.r.env.Now()
	if l.ticking || !l.awake() {
		return
	}
	l.ticking = true
	l.end(l.running() - 1)
	l.r.env.After(l.length-max(0, now)%l.length, protocol.Timer{Kind: epochTimer})
}

// tick ends the epochs that have ended by the clock.
func (l *local) tick() {
	l.ticking = false
	l.end(l.running() - 1)
}

// settle aborts the open transactions up to an epoch. Their epochs are merged, but their write sets did not count.
func (l *local) settle(epoch uint64) {
	for l.open.Len() > 0 && l.open.Front().set.Epoch <= epoch {
		id := l.open.Front().set.ID
		l.open.Pop()
		l.leftOut++
		l.r.env.Mark(leftOut)
		l.r.env.Reply(txn.Outcome{ID: id, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonLeftOut})
	}
}
