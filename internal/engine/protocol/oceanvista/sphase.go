package oceanvista

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// Timestamp is the position of a transaction in the global order. It consists of the microseconds of a clock and, in
// the low 16 bits, the server that issued it. A promise has the highest node number instead of a server.
type Timestamp uint64

const (
	nodeBits = 16
	maxNode  = 1<<nodeBits - 1
)

func makeTimestamp(us uint64, server geo.NodeID) Timestamp {
	return Timestamp(us<<nodeBits | uint64(server))
}

// Server returns the server that issued the timestamp.
func (t Timestamp) Server() geo.NodeID { return geo.NodeID(t & maxNode) }

func (t Timestamp) micros() uint64 { return uint64(t) >> nodeBits }

// String formats the microseconds and the server. For a promise, it formats only the microseconds.
func (t Timestamp) String() string {
	if t&maxNode == maxNode {
		return fmt.Sprint(t.micros())
	}
	return fmt.Sprintf("%d.%d", t.micros(), t.Server())
}

// Functor is a transaction with its timestamp.
type Functor struct {
	Timestamp `codec:"fixed"`
	T         *txn.Transaction
}

// writes tracks the S-phases of this server's transactions.
type writes struct {
	r    *Replica
	last Timestamp // last timestamp issued
	// promised is the server's watermark: the server issues no timestamp up to it.
	promised Timestamp
	// capped is set while this server sponsors another server, so that this server's watermark does not rise: see
	// membership.requested.
	capped bool
	// unstable and unreplicated hold this server's functors in timestamp order. unstable starts with the first functor
	// that lacks a majority in some partition, and unreplicated with the first functor that some replica lacks.
	unstable, unreplicated queue.Queue[write]
	// replicated is the paper's second watermark: all replicas have all functors up to it. It never exceeds the visibility
	// watermark. A functor that is visible nowhere is therefore in recent at all replicas: see replacement.
	replicated Timestamp
	// waiting are the transactions to issue once this server is active.
	waiting []*txn.Transaction

	// has is the timestamp up to which each node has stored all functors of this server for its partition. quorum and
	// everywhere are the timestamps that a majority of the replicas and all replicas of each partition have reached.
	has                []Timestamp
	quorum, everywhere []Timestamp
	room               []Timestamp

	issued, again int64
}

// write is a functor with the partitions that it accesses.
type write struct {
	Functor
	partitions []int
}

func (w *writes) init(r *Replica, nodes int) {
	w.r = r
	w.has = make([]Timestamp, nodes)
	w.quorum, w.everywhere = make([]Timestamp, r.partitions), make([]Timestamp, r.partitions)
}

// clock returns the highest promise that the node's clock allows.
func (r *Replica) clock() Timestamp {
	return makeTimestamp(uint64(max(0, r.env.Now())/time.Microsecond), maxNode)
}

// issue writes a transaction to all replicas of its partitions, except abandoned servers. The transaction's timestamp
// is above all promises of this server and above all watermarks that the server knows. If the server is not active, the
// transaction waits.
func (w *writes) issue(t *txn.Transaction) {
	r := w.r
	if !r.membership.active(r.self) || r.replace.unmarked() {
		w.r.env.Mark(writeWaits)
		w.waiting = append(w.waiting, t)
		return
	}
	// A client may have seen the effects of any functor below a watermark, so a transaction submitted later needs a
	// timestamp above the watermark.
	above := max(w.last, w.promised, r.watermarks.highest).micros() + 1
	if r.wrong == lateWrites {
		above = w.last.micros() + 1
	}
	f := Functor{makeTimestamp(max(above, r.clock().micros()), r.self), t}
	w.last = f.Timestamp
	w.issued++
	// Other servers may evaluate the functor from now on. If this server is abandoned, the outcome is Unknown instead of
	// Refused.
	r.unanswered[t.ID] = true
	own := write{f, r.partitionsOf(t)}
	w.unstable.Push(own)
	w.unreplicated.Push(own)
	m := &Write{View: r.membership.view, Epoch: r.membership.servers[r.self].epoch, Functor: f}
	for _, q := range own.partitions {
		for _, n := range r.group[q] {
			// resend sends the functor to a new incarnation that has not joined, when the incarnation receives its mark.
			if n != r.self && r.membership.counted(n) && r.replace.linked(n) {
				r.env.Send(n, m)
			}
		}
	}
	if slices.Contains(own.partitions, r.partition) {
		// This server is itself one of the partition's replicas and counts towards the majority.
		r.functors.enter(f)
		w.stored(r.self, f.Timestamp)
	}
}

// partitionsOf returns the partitions that t accesses, in the order of t's accesses.
func (r *Replica) partitionsOf(t *txn.Transaction) (touched []int) {
	if r.partitions == 1 {
		return onlyPartition
	}
	for i := range t.Accesses {
		if q := r.placement.Partition(t.Accesses[i].Key); !slices.Contains(touched, q) {
			touched = append(touched, q)
		}
	}
	return touched
}

var onlyPartition = []int{0}

// stored records that replica n has all functors of this server up to a timestamp that access n's partition.
func (w *writes) stored(n geo.NodeID, up Timestamp) {
	if up > w.has[n] && w.r.replace.linked(n) {
		w.has[n] = up
		w.recount(w.r.topology.PartitionOf(n))
	}
}

// recount recomputes quorum and everywhere for partition q.
func (w *writes) recount(q int) {
	w.room = w.room[:0]
	least := w.last
	for _, n := range w.r.group[q] {
		w.room = append(w.room, w.has[n])
		// An abandoned server never stores the functor. If this server waited for it, the functor would be kept permanently.
		if w.r.membership.counted(n) {
			least = min(least, w.has[n])
		}
	}
	slices.Sort(w.room)
	// The element at this index and all later elements belong to a majority, so a majority has reached this timestamp.
	w.quorum[q], w.everywhere[q] = w.room[len(w.room)-w.r.majority], least
	w.settle(&w.unstable, w.quorum, ^Timestamp(0))
	w.replicate()
}

// replicate advances replicated past the visible functors that all replicas have.
func (w *writes) replicate() {
	if upTo := w.settle(&w.unreplicated, w.everywhere, w.r.watermarks.visible); upTo > 0 {
		w.replicated = upTo
	}
	w.r.functors.collect(w.r.self, w.replicated)
}

// settle removes functors up to timestamp upTo from the front of q, as long as the timestamps in have cover them in all
// their partitions. It returns the timestamp of the last removed functor, or 0.
func (w *writes) settle(q *queue.Queue[write], have []Timestamp, upTo Timestamp) (last Timestamp) {
	for q.Len() > 0 {
		f := q.Front()
		// Stop at the first functor that is not covered, because a watermark must not pass it.
		if f.Timestamp > upTo || slices.ContainsFunc(f.partitions, func(p int) bool { return have[p] < f.Timestamp }) {
			break
		}
		last = f.Timestamp
		q.Pop()
	}
	return last
}

// watermark returns this server's watermark. While no functor is unstable, the watermark follows the server's clock and
// the watermarks that the server receives.
func (w *writes) watermark() Timestamp {
	switch {
	case w.r.replace.unmarked():
		// A new incarnation must promise nothing before its mark sets its watermark.
		return 0
	case w.capped:
		w.r.env.Mark(watermarkCapped)
	case w.unstable.Len() > 0 && w.r.wrong != visibleBeforeStable:
		// The watermark only rises. It stops just below the first functor that the loss of this server might undo.
		w.promised = max(w.promised, w.unstable.Front().Timestamp-1)
	default:
		w.promised = max(w.promised, w.last, w.r.clock(), w.r.watermarks.highest)
		if w.r.wrong == lateWrites {
			w.promised = max(w.promised, w.r.clock()+Timestamp(w.r.watermarks.interval/time.Microsecond)<<nodeBits)
		}
	}
	return w.promised
}

// decided handles the decision about this server's unfinished functors. Functors that have not survived count as never
// written. Their transactions wait until they are issued again, unless this server is abandoned. The decision itself
// distributes the survivors to all replicas.
func (w *writes) decided(survivors []Functor) {
	w.unreplicated.Each(func(own write) {
		// If the client has its answer or the functor has survived, the transaction must not be executed again.
		if _, open := w.r.unanswered[own.T.ID]; open && !survives(survivors, own.Timestamp) && !w.r.behind {
			w.again++
			w.r.env.Mark(writeAgain)
			w.r.unanswered[own.T.ID] = false
			w.waiting = append(w.waiting, own.T)
		}
	})
	w.unstable, w.unreplicated = queue.Queue[write]{}, queue.Queue[write]{}
	w.capped, w.replicated = false, w.r.functors.replicated[w.r.self]
}

// resume issues the waiting transactions with timestamps above the given timestamp.
func (w *writes) resume(above Timestamp) {
	w.promised = max(w.promised, above)
	waiting := w.waiting
	w.waiting = nil
	for _, t := range waiting {
		w.issue(t)
	}
}
