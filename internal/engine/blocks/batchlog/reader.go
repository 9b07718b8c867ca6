package batchlog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Data is the data of a batch that a sequencer sends to a reader.
type Data interface {
	protocol.Message
	// BatchNumber returns the batch's number at its sequencer.
	BatchNumber() uint64
}

// ReaderConfig describes a reader.
type ReaderConfig[D Data] struct {
	Log *Log
	// Group is the group of readers that receive the same data.
	Group int
	// Read handles a batch at its position, which is Log.Position during the call.
	Read func(o Ordered, d D)
	// Foreign returns the number of transactions in a batch's data whose clients wait at other nodes.
	Foreign func(sequencer geo.NodeID, d D) int
	// Watch is set if the reader requests that batches without a position become void after abandonedAfter.
	Watch bool
	// Take includes a stream up to a position of the stream. If it cannot do so yet, it returns false, and the owner must
	// call Advance when it can.
	Take func(stream int, upto uint64) bool
	// Mark, if not nil, is called when the reader reaches a mark (see rejoin.go), until it returns true and the reader
	// continues. While Mark returns false, the owner must call Advance when the result may change. Mark may call SkipTo. A
	// new incarnation gets its own mark first, and no earlier mark.
	Mark func(n geo.NodeID, incarnation uint32) bool
	// Copy sends a batch's data to another reader of the group. It is called only if batches need proof.
	Copy func(to, sequencer geo.NodeID, d D)
	// Unfetched selects a faulty variant, for tests: the reader does not request missing data from other readers.
	Unfetched bool
	// WatchTimer and FetchTimer are the kinds of the reader's timers; the owner must pass these timers to Reader.Fire.
	WatchTimer, FetchTimer uint8
}

// Reader reads a log: it handles the batches in log order, each as soon as its data has arrived.
type Reader[D Data] struct {
	c ReaderConfig[D]
	l *Log

	// inbox[s] holds the unread data of sequencer s, in ascending order, because links preserve order.
	inbox []queue.Queue[D]
	// last[s] is the last batch received from sequencer s. done[s] is the last batch of sequencer s that was read, skipped
	// or made void.
	last, done []uint64
	queued     int

	// watched[s] is the last batch of sequencer s that had no position at the last check for abandoned batches; 0 for
	// none.
	watched  []uint64
	watching bool  // the timer is pending
	voided   int64 // number of batches that had arrived when they became void

	// fetched holds data received from other readers, for batches with known positions.
	fetched map[BatchID]D
	// fetching is set while the fetch timer is pending. stuck is the position whose data was missing when the timer was
	// set. asked, modulo the size of the group, is the index of the next reader to ask.
	stuck    uint64
	fetching bool
	asked    int
	// kept lists, in log order, the data that other readers may request; copies holds the data by batch.
	kept    queue.Queue[keptData]
	keptNow int // bytes
	copies  map[BatchID]D
}

type keptData struct {
	batch    BatchID
	position uint64
	bytes    int
}

const (
	// abandonedAfter is the time between two checks for batches that have arrived and have no position. A batch without a
	// position at two checks comes from a sequencer that is lost or disconnected from the leader. If the sequencer is
	// lost, the batch stays void. Otherwise the sequencer resends the transactions in a new batch.
	abandonedAfter = 3 * time.Second
	// fetchAfter is the time that a reader waits for missing data at its position before it asks the first reader
	// for it. The reader waits for the same time before it asks each further reader.
	fetchAfter = 500 * time.Millisecond
	// keptBytes bounds the data that a reader keeps for other readers; the oldest is dropped first. A reader that needs
	// dropped data stops, as it would without proof. If a region is permanently lost, readers never learn that all have
	// read, so the kept data grows to this bound.
	keptBytes = 64 << 20
	// mostMissing bounds the number of batches in a Missing message.
	mostMissing = 4096
)

// NewReader returns a reader. The log's Config.Advance and Config.Kept must call the reader's methods of the same
// names.
func NewReader[D Data](c ReaderConfig[D]) *Reader[D] {
	nodes := c.Log.c.Nodes
	r := &Reader[D]{
		c: c, l: c.Log, inbox: make([]queue.Queue[D], nodes), last: make([]uint64, nodes), done: make([]uint64, nodes),
		watched: make([]uint64, nodes),
	}
	if c.Log.holder != nil {
		r.fetched, r.copies = map[BatchID]D{}, map[BatchID]D{}
	}
	return r
}

// Arrive adds data of this node's own batch.
func (r *Reader[D]) Arrive(d D) { r.arrive(r.l.c.Self, d) }

// Receive handles data from its sequencer.
func (r *Reader[D]) Receive(from geo.NodeID, d D) {
	r.arrive(from, d)
	r.l.Holds(BatchID{from, d.BatchNumber()})
	if r.c.Watch {
		r.watch()
	}
	r.Advance()
}

func (r *Reader[D]) arrive(from geo.NodeID, d D) {
	number := d.BatchNumber()
	// The batch became void, or its data came from another reader first.
	if number <= r.done[from] {
		r.l.c.Env.Mark(dataLate)
		return
	}
	// A sequencer's batches arrive in the order of their numbers, so last never decreases.
	r.last[from] = number
	r.queued += r.c.Foreign(from, d)
	r.inbox[from].Push(d)
}

// Advance reads, in log order, the batches with a position and data.
func (r *Reader[D]) Advance() {
	for {
		o, known := r.l.Next()
		if !known {
			return
		}
		if n, ok := o.Stream(); ok {
			// Before its mark, a new incarnation reads nothing, because its rows will come from another copy.
			if !r.entering() && !r.c.Take(n, o.Batch.Number) {
				r.l.c.Env.Mark(streamAwaited)
				return
			}
			r.l.Pass()
			continue
		}
		if n, incarnation, ok := o.Mark(); ok && r.c.Mark != nil && (n == r.l.c.Self || !r.entering()) {
			at := r.l.position
			passes := r.c.Mark(n, incarnation)
			if r.l.position != at {
				continue // the owner has skipped the mark
			}
			if !passes {
				return
			}
			if n == r.l.c.Self {
				r.l.entered = true
			}
		} else if r.entering() {
			r.pass(o)
			continue
		}
		if o.Void() {
			r.l.c.Env.Mark(voidEntry)
			r.drop(o.Batch)
			// Groups that do not read the batch receive no data for it and pass it at once.
		} else if o.Readers.Has(r.c.Group) {
			d, here := r.take(o.Batch)
			if !here {
				r.l.c.Env.Mark(placeBeforeData)
				r.await()
				return
			}
			r.keep(o.Batch, d)
			r.c.Read(o, d)
		}
		// From now on, arrive and Fetched discard data of this batch and of earlier batches.
		r.done[o.Batch.Sequencer] = o.Batch.Number
		r.l.Pass()
	}
}

// take removes and returns the data of the next batch, if it has arrived. It prefers data from the batch's sequencer.
func (r *Reader[D]) take(b BatchID) (d D, here bool) {
	inbox := &r.inbox[b.Sequencer]
	// A sequencer's batches have positions in the order of their numbers, so only the front can be this batch.
	if inbox.Len() > 0 && inbox.Front().BatchNumber() == b.Number {
		d = inbox.Front()
		inbox.Pop()
		r.queued -= r.c.Foreign(b.Sequencer, d)
		// Another reader's copy may have arrived before the sequencer's data.
		delete(r.fetched, b)
		return d, true
	}
	d, here = r.fetched[b]
	delete(r.fetched, b)
	return d, here
}

// drop drops a sequencer's data up to a void batch. Earlier batches with a position are not in the inbox: they have
// been read.
func (r *Reader[D]) drop(b BatchID) {
	inbox := &r.inbox[b.Sequencer]
	for inbox.Len() > 0 && inbox.Front().BatchNumber() <= b.Number {
		r.queued -= r.c.Foreign(b.Sequencer, inbox.Front())
		r.voided++
		r.l.c.Env.Mark(voidDropped)
		inbox.Pop()
	}
}

// Pending returns the number of transactions submitted by clients of other nodes that have arrived but have not been
// read. With proof, a batch at the next position adds 1, because its sequencer may be lost.
func (r *Reader[D]) Pending() int {
	if o, known := r.l.Next(); r.l.holder != nil && known && r.reads(o) {
		return r.queued + 1
	}
	return r.queued
}

// reads reports whether an entry is a batch for this reader's group.
func (r *Reader[D]) reads(o Ordered) bool {
	_, stream := o.Stream()
	return !stream && o.Readers.Has(r.c.Group)
}

// Voided returns the number of batches that have arrived and became void.
func (r *Reader[D]) Voided() int64 { return r.voided }

// Fire handles a timer of the reader.
func (r *Reader[D]) Fire(t protocol.Timer) {
	if t.Kind == r.c.WatchTimer {
		r.lookForAbandoned()
	} else {
		r.fetch()
	}
}

// watch sets the timer for the next check for abandoned batches.
func (r *Reader[D]) watch() {
	if !r.watching {
		r.watching = true
		after := abandonedAfter
		if r.l.c.Env.Buggify(looksEarly) {
			after /= 100
		}
		r.l.c.Env.After(after, protocol.Timer{Kind: r.c.WatchTimer})
	}
}

// lookForAbandoned requests that batches become void if they had no position at the last check and still have none.
func (r *Reader[D]) lookForAbandoned() {
	r.watching = false
	var abandoned []BatchID
	again := false
	for n := range r.inbox {
		settled := r.l.Settled(geo.NodeID(n))
		w := r.watched[n]
		if r.last[n] > settled && r.l.c.Env.Buggify(voidsEarly) {
			w = r.last[n]
		}
		// Batch w had no position at the previous check either, so it has waited for at least a whole interval.
		if w > settled {
			abandoned = append(abandoned, BatchID{geo.NodeID(n), w})
		}
		r.watched[n] = 0
		// A node's own batches are never abandoned: the node itself repeats its requests.
		if geo.NodeID(n) != r.l.c.Self && r.last[n] > settled {
			r.watched[n] = r.last[n]
			again = true
			r.l.c.Env.Mark(batchWatched)
		}
	}
	if len(abandoned) > 0 {
		r.l.c.Env.Mark(batchAbandoned)
		r.l.Void(abandoned)
	}
	if again {
		r.watch()
	}
}

// await schedules a request for data that is missing at the current position.
func (r *Reader[D]) await() {
	// Without a holder, no other reader keeps data that could be requested.
	if r.l.holder == nil || r.fetching || r.c.Unfetched {
		return
	}
	r.fetching, r.stuck = true, r.l.position
	after := fetchAfter
	if r.l.c.Env.Buggify(fetchesEarly) {
		after /= 100
	}
	r.l.c.Env.After(after, protocol.Timer{Kind: r.c.FetchTimer})
}

// fetch requests, from another reader of the group, the missing data of all batches with a position. It skips the
// request if the reader has advanced since the timer was set. Each call asks the next reader, because a reader may be
// lost or lack the data.
func (r *Reader[D]) fetch() {
	r.fetching = false
	o, known := r.l.Next()
	if !known || !r.reads(o) {
		return
	}
	if r.l.position == r.stuck {
		if to, ok := r.nextHolder(o.Batch.Sequencer); ok {
			m := &Missing{Log: r.l.c.Log}
			r.l.entries.Each(func(o Ordered) {
				// Bound the request, because the answers contain the data of every batch in it.
				if r.reads(o) && len(m.Batches) < mostMissing && !r.here(o.Batch) {
					m.Batches = append(m.Batches, o.Batch)
				}
			})
			r.l.c.Env.Mark(dataAskedFor)
			r.l.c.Env.Send(to, m)
		}
	}
	r.await()
}

// nextHolder returns the next node to ask for data. It cycles through the readers of the group and skips this node and
// the sequencer. ok is false if there is no other reader.
func (r *Reader[D]) nextHolder(sequencer geo.NodeID) (n geo.NodeID, ok bool) {
	nodes := r.l.c.Readers[r.c.Group]
	for range nodes {
		n = nodes[r.asked%len(nodes)]
		r.asked++
		// Links preserve order, so a sequencer that still runs will deliver its data without a request.
		if n != r.l.c.Self && n != sequencer {
			return n, true
		}
	}
	return 0, false
}

// here reports whether this node has the data of a batch.
func (r *Reader[D]) here(b BatchID) bool {
	_, ok := r.find(b)
	return ok
}

// Missing sends another reader the requested data that this reader has.
func (r *Reader[D]) Missing(from geo.NodeID, m *Missing) {
	if r.l.holder == nil {
		return // the message is corrupt
	}
	for _, b := range m.Batches {
		if d, ok := r.find(b); ok {
			r.l.c.Env.Mark(dataTold)
			r.c.Copy(from, b.Sequencer, d)
		}
	}
}

// find returns the data of a batch, if this node still has it.
func (r *Reader[D]) find(b BatchID) (d D, ok bool) {
	if int(b.Sequencer) >= len(r.inbox) {
		return d, false // the message is corrupt
	}
	if d, ok = r.copies[b]; ok {
		return d, true
	}
	if d, ok = r.fetched[b]; ok {
		return d, true
	}
	r.inbox[b.Sequencer].Each(func(waiting D) {
		if waiting.BatchNumber() == b.Number {
			d, ok = waiting, true
		}
	})
	return d, ok
}

// Fetched handles a batch's data from another reader. The sequencer's data may have arrived in the meantime.
func (r *Reader[D]) Fetched(sequencer geo.NodeID, d D) {
	b := BatchID{sequencer, d.BatchNumber()}
	if r.l.holder == nil || int(sequencer) >= len(r.inbox) || b.Number > r.l.Settled(sequencer) {
		return // the message is corrupt: only data of batches with a position is requested
	}
	if b.Number <= r.done[sequencer] || r.here(b) {
		r.l.c.Env.Mark(fetchedTwice)
		return
	}
	r.l.c.Env.Mark(dataFetched)
	r.fetched[b] = d
	r.Advance()
}

// keep stores data that this reader has read and other readers may not have.
func (r *Reader[D]) keep(b BatchID, d D) {
	if r.l.holder == nil {
		return
	}
	k := keptData{b, r.l.position, d.Size()}
	r.kept.Push(k)
	r.copies[b] = d
	r.keptNow += k.bytes
	// Bound the memory: a lost reader reports no positions, so that Kept may not advance.
	for r.keptNow > keptBytes {
		r.release()
	}
}

// Kept releases data before a position that all readers have read.
func (r *Reader[D]) Kept(position uint64) {
	for r.kept.Len() > 0 && r.kept.Front().position < position {
		r.release()
	}
}

func (r *Reader[D]) release() {
	k := r.kept.Front()
	r.kept.Pop()
	delete(r.copies, k.batch)
	r.keptNow -= k.bytes
}
