package oceanvista

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// Timestamp is a transaction's place in the order of all: a clock's microseconds, and the server that has issued it.
type Timestamp uint64

const (
	nodeBits = 16
	maxNode  = 1<<nodeBits - 1
)

func makeTimestamp(us uint64, server geo.NodeID) Timestamp {
	return Timestamp(us<<nodeBits | uint64(server))
}

// Server returns the server that has issued the timestamp.
func (t Timestamp) Server() geo.NodeID { return geo.NodeID(t & maxNode) }

func (t Timestamp) micros() uint64 { return uint64(t) >> nodeBits }

// String prints the microseconds and the server, or the microseconds alone of a promise.
func (t Timestamp) String() string {
	if t&maxNode == maxNode {
		return fmt.Sprint(t.micros())
	}
	return fmt.Sprintf("%d.%d", t.micros(), t.Server())
}

// Functor is a transaction with its timestamp.
type Functor struct {
	Timestamp
	T *txn.Transaction
}

// writes are the S-phases of this server's transactions.
type writes struct {
	r    *Replica
	last Timestamp // issued
	// promised is the server's watermark: it issues nothing up to there.
	promised Timestamp
	// capped keeps the watermark from rising: see membership.requested.
	capped bool
	// unstable starts at the first functor without a majority in some of its partitions, unreplicated at the first functor
	// that some replica lacks.
	unstable, unreplicated queue.Queue[write]
	// replicated is the paper's second watermark: all replicas have all functors up to there. It is not above the
	// visibility watermark here, so that every functor that is not visible anywhere is in recent at all replicas: see
	// replacement.
	replicated Timestamp
	// waiting are the transactions of a server that is not active.
	waiting []*txn.Transaction

	// has is, by node, the last functor of this server that the node has stored together with all earlier ones. By
	// partition, quorum is that position for a majority of its replicas, and everywhere for all of them.
	has                []Timestamp
	quorum, everywhere []Timestamp
	room               []Timestamp

	issued, again int64
}

// write is a functor with the partitions that it touches.
type write struct {
	Functor
	partitions []int
}

func (w *writes) init(r *Replica, nodes int) {
	w.r = r
	w.has = make([]Timestamp, nodes)
	w.quorum, w.everywhere = make([]Timestamp, r.partitions), make([]Timestamp, r.partitions)
}

// clock is the highest promise that the node's clock allows.
func (r *Replica) clock() Timestamp {
	return makeTimestamp(uint64(max(0, r.env.Now())/time.Microsecond), maxNode)
}

// issue writes a transaction to all replicas of the partitions that it touches, except abandoned servers. Its timestamp
// is above all promises of this server, and above all watermarks that it knows.
func (w *writes) issue(t *txn.Transaction) {
	r := w.r
	if !r.membership.active(r.self) || r.replace.unmarked() {
		w.r.env.Mark(writeWaits)
		w.waiting = append(w.waiting, t)
		return
	}
	above := max(w.last, w.promised, r.watermarks.highest).micros() + 1
	if r.wrong == lateWrites {
		above = w.last.micros() + 1
	}
	f := Functor{makeTimestamp(max(above, r.clock().micros()), r.self), t}
	w.last = f.Timestamp
	w.issued++
	r.unanswered[t.ID] = true
	own := write{f, r.partitionsOf(t)}
	w.unstable.Push(own)
	w.unreplicated.Push(own)
	m := &Write{View: r.membership.view, Epoch: r.membership.servers[r.self].epoch, Functor: f}
	for _, q := range own.partitions {
		for _, n := range r.group[q] {
			if n != r.self && r.membership.counted(n) && r.replace.linked(n) {
				r.env.Send(n, m)
			}
		}
	}
	if slices.Contains(own.partitions, r.partition) {
		r.functors.enter(f)
		w.stored(r.self, f.Timestamp)
	}
}

// partitionsOf returns the partitions that t touches, in the order of its keys.
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

// stored learns that a replica has this server's functors up to a timestamp, as far as they touch its partition.
func (w *writes) stored(n geo.NodeID, up Timestamp) {
	if up > w.has[n] && w.r.replace.linked(n) {
		w.has[n] = up
		w.recount(w.r.topology.PartitionOf(n))
	}
}

// recount recomputes the positions that a majority and all replicas of a partition have reached.
func (w *writes) recount(q int) {
	w.room = w.room[:0]
	least := w.last
	for _, n := range w.r.group[q] {
		w.room = append(w.room, w.has[n])
		if w.r.membership.counted(n) {
			least = min(least, w.has[n])
		}
	}
	slices.Sort(w.room)
	w.quorum[q], w.everywhere[q] = w.room[len(w.room)-w.r.majority], least
	w.settle(&w.unstable, w.quorum, ^Timestamp(0))
	w.replicate()
}

// replicate finds the visible functors that all replicas have.
func (w *writes) replicate() {
	if upTo := w.settle(&w.unreplicated, w.everywhere, w.r.watermarks.visible); upTo > 0 {
		w.replicated = upTo
	}
	w.r.functors.collect(w.r.self, w.replicated)
}

// settle removes the functors up to a timestamp from a queue, while the positions in have cover all their partitions.
// It returns the timestamp of the last removed functor, 0 for none.
func (w *writes) settle(q *queue.Queue[write], have []Timestamp, upTo Timestamp) (last Timestamp) {
	for q.Len() > 0 {
		f := q.Front()
		if f.Timestamp > upTo || slices.ContainsFunc(f.partitions, func(p int) bool { return have[p] < f.Timestamp }) {
			break
		}
		last = f.Timestamp
		q.Pop()
	}
	return last
}

// watermark returns the server's watermark. While the server has no unstable functor, it rises with the server's clock
// and with the watermarks that it receives.
func (w *writes) watermark() Timestamp {
	switch {
	case w.r.replace.unmarked():
		return 0
	case w.capped:
		w.r.env.Mark(watermarkCapped)
	case w.unstable.Len() > 0 && w.r.wrong != visibleBeforeStable:
		w.promised = max(w.promised, w.unstable.Front().Timestamp-1)
	default:
		w.promised = max(w.promised, w.last, w.r.clock(), w.r.watermarks.highest)
		if w.r.wrong == lateWrites {
			w.promised = max(w.promised, w.r.clock()+Timestamp(w.r.watermarks.interval/time.Microsecond)<<nodeBits)
		}
	}
	return w.promised
}

// decided handles the decision about this server's unfinished functors. Functors that do not survive were never
// written. They are issued again when the server is active, unless it was abandoned. All other functors are known
// everywhere by the decision.
func (w *writes) decided(survivors []Functor) {
	w.unreplicated.Each(func(own write) {
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

// resume issues the waiting transactions, above a timestamp.
func (w *writes) resume(above Timestamp) {
	w.promised = max(w.promised, above)
	waiting := w.waiting
	w.waiting = nil
	for _, t := range waiting {
		w.issue(t)
	}
}
