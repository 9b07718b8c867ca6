package minerva

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// fetchAfter is the time that a replica waits for a batch, in addition to the longest round trip, before it asks the
// next replica.
const fetchAfter = 10 * time.Millisecond

// fetch requests the missing batches of the next epoch. It asks one replica at a time, in turn, because f + 1 replicas
// have each batch. It runs on a timer, because most batches are still in flight when they are first found missing.
func (e *epochs) fetch() {
	e.fetching = false
	if e.queue.Len() == 0 || e.complete() || e.giveUp() {
		return
	}
	// Messages to disconnected replicas accumulate until the network recovers. This interval bounds their number.
	now := e.r.env.Now()
	due, asked := now-e.askedAll >= e.r.progress.excuse(), false
	for n, head := range e.queue.Front() {
		origin := geo.NodeID(n)
		first, lacks := e.missing(origin)
		if !lacks {
			continue
		}
		e.requests++
		e.r.env.Mark(batchFetched)
		m := &Request{origin, first, head}
		if due && e.denied(origin, first) {
			// A replica without news is silent, so silent replicas may have the batch, or the rows.
			asked = true
			e.r.others(func(to geo.NodeID) { e.r.env.Send(to, m) })
			continue
		}
		e.r.env.Send(e.holder(origin, first), m)
	}
	if asked {
		e.askedAll = now
	}
	e.awaitBatches()
}

// missing returns the number of the first batch of origin that the next epoch needs and that this replica lacks. lacks
// is false if this replica has all these batches.
func (e *epochs) missing(origin geo.NodeID) (first uint64, lacks bool) {
	head := e.queue.Front()[origin]
	g := e.r.logs.all[origin].of(head)
	return max(g.received+1, g.first), g.received < head
}

// never reports whether this replica lacks a batch and will never receive it.
func (e *epochs) never(origin geo.NodeID, number uint64) bool {
	switch {
	case e.r.logs.all[origin].get(number) != nil:
		return false
	case e.behind, e.tail[origin] >= number:
		// A replica that is behind accepts no batches. No replica accepts batches of an epoch that it has committed.
		return true
	}
	// Two replicas that lack the same batch must not wait for each other. Each of them therefore passes on the
	// reports of third replicas.
	return e.reported(origin, number)
}

// reported reports whether some replica has reported the batch as discarded.
func (e *epochs) reported(origin geo.NodeID, number uint64) bool {
	return slices.ContainsFunc(e.discarded, func(of []uint64) bool { return of[origin] == number })
}

// forgotten handles another replica's report that it lacks a batch and will never have it.
func (e *epochs) forgotten(from geo.NodeID, m *Forgotten) {
	if int(m.Origin) < e.r.nodes {
		e.discarded[from][m.Origin] = m.Number
		e.giveUp()
	}
}

// giveUp calls abandon if a batch that the next epoch needs is lost. It reports whether this replica is behind.
func (e *epochs) giveUp() bool {
	for n := range geo.NodeID(e.r.nodes) {
		// abandon empties the queue, and missing reads the first queued cut.
		if e.queue.Len() == 0 {
			break
		}
		if first, lacks := e.missing(n); lacks && e.lost(n, first) {
			e.r.env.Mark(batchLost)
			e.abandon()
		}
	}
	return e.behind
}

// lost reports whether no replica can send a batch, because every other live replica, including the batch's origin, has
// discarded it. At least one of these replicas must have committed the next epoch.
//
// Replicas that are behind report batches as discarded that they never had, and other replicas pass these reports on.
// Meanwhile, disconnected replicas may have the batch. If such reports sufficed, all replicas could fall behind,
// although no node is lost. With this condition, the replica that has committed the most epochs never falls behind.
func (e *epochs) lost(origin geo.NodeID, number uint64) bool {
	return e.denied(origin, number) && e.r.progress.most() > e.committed
}

// denied reports whether all other live replicas, and at least one, have reported a batch as discarded. It returns
// false if no other replica is live: an isolated replica cannot conclude anything.
func (e *epochs) denied(origin geo.NodeID, number uint64) (denied bool) {
	for n := range geo.NodeID(e.r.nodes) {
		if n == e.r.self || !e.r.progress.lives(n) {
			continue
		}
		// A report about a different batch proves nothing about this batch.
		if e.discarded[n][origin] != number {
			return false
		}
		denied = true
	}
	return denied
}

// abandon stops committing epochs and answers the clients of this replica.
func (e *epochs) abandon() {
	e.behind = true
	e.queue = queue.Queue[Heads]{}
	e.r.local.abandon()
}

// awaitBatches sets the timer after which the replica requests batches that are still missing.
func (e *epochs) awaitBatches() {
	e.fetching = true
	after := e.r.longest + fetchAfter
	if e.r.env.Buggify(fetchesEarly) {
		after = time.Millisecond
	}
	e.r.env.After(after, protocol.Timer{Kind: fetchTimer})
}

// holder returns the next replica to ask for a batch, in round-robin order. It skips replicas that are not live. It
// also skips the origin, which has already sent the batch to all replicas, until some replica reports the batch as
// discarded. After such a report, holder includes the origin, which may have lost or discarded the batch.
func (e *epochs) holder(origin geo.NodeID, number uint64) geo.NodeID {
	reported := e.reported(origin, number)
	for range e.r.nodes {
		n := (e.asked[origin] + 1) % geo.NodeID(e.r.nodes)
		e.asked[origin] = n
		if n != e.r.self && (n != origin || reported) && e.r.progress.lives(n) {
			return n
		}
	}
	e.r.env.Mark(holderUnknown)
	if origin == e.r.self { // this incarnation's predecessor appended the batch
		return (origin + 1) % geo.NodeID(e.r.nodes)
	}
	return origin
}
