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
	// BatchNumber is the batch's at its sequencer.
	BatchNumber() uint64
}

// ReaderConfig describes a reader.
type ReaderConfig[D Data] struct {
	Log *Log
	// Group is the group of readers that get the same data.
	Group int
	// Read takes a batch at its place: Log.Position is that.
	Read func(o Ordered, d D)
	// Foreign counts the transactions in a batch's data whose clients wait at other nodes.
	Foreign func(sequencer geo.NodeID, d D) int
	// Watch says that the reader has batches made void that have had no place for long.
	Watch bool
	// Take takes a stream up to a position there. It reports false when it cannot yet: then Advance is to be called when
	// it can.
	Take func(stream int, upto uint64) bool
	// Mark, if not nil, is called for a mark (see rejoin.go) when the reader reaches it, until Mark reports true: then the
	// reader continues after it. While Mark reports false, the owner must call Advance when that may change. Mark may call
	// SkipTo. At a new incarnation, Mark is called for the node's own mark first, and for no earlier one.
	Mark func(n geo.NodeID, incarnation uint32) bool
	// Copy sends another reader of the group the data of a batch. It is called only where batches need proof.
	Copy func(to, sequencer geo.NodeID, d D)
	// Unfetched selects a faulty variant, for tests: a reader that has not received data from the sequencer does not
	// request it from other readers.
	Unfetched bool
	// WatchTimer and FetchTimer are the kinds of the reader's timers: the owner's Fire hands those to Reader.Fire.
	WatchTimer, FetchTimer uint8
}

// Reader reads a log: it takes the batches in their order, each once its data is here.
type Reader[D Data] struct {
	c ReaderConfig[D]
	l *Log

	// inbox[s] holds the data of sequencer s that has not been read, ascending: links keep their order.
	inbox []queue.Queue[D]
	// last[s] is the last batch of sequencer s that has arrived from it, done[s] the last that has been read, passed over
	// or made void.
	last, done []uint64
	queued     int

	// watched[s] is the last batch without a position at the last check for abandoned batches, 0 for none.
	watched  []uint64
	watching bool  // a timer is set
	voided   int64 // batches

	// fetched holds the data received from other readers for batches with known positions.
	fetched map[BatchID]D
	// stuck is the position that lacked data when the timer was set, if fetching; asked counts the requests for data.
	stuck    uint64
	fetching bool
	asked    int
	// kept is the data that others may ask for, in the order of the log, and in a table.
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
	// abandonedAfter is the time between two checks for batches that have arrived and have no position in the log. A batch
	// that has waited that long comes from a sequencer that is lost or disconnected from the log's leader. Such a batch
	// stays void if its sequencer is lost. Otherwise the sequencer sends the transactions again.
	abandonedAfter = 3 * time.Second
	// fetchAfter is the time that a reader waits for missing data at its position before it asks another reader, and then
	// the next one.
	fetchAfter = 500 * time.Millisecond
	// keptBytes bounds the data that a reader keeps for other readers; the oldest is dropped first. A reader without data
	// that all others have dropped stops, as if batches needed no proof. If a region is permanently lost, no reader learns
	// that all have read anything, so the kept data grows to this bound.
	keptBytes = 64 << 20
	// mostMissing bounds the number of batches in one request.
	mostMissing = 4096
)

// NewReader returns a reader. The log's Config must have Advance and Kept call the reader's methods of these names.
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

// Arrive takes data of this node's own.
func (r *Reader[D]) Arrive(d D) { r.arrive(r.l.c.Self, d) }

// Receive takes data from its sequencer.
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
	if number <= r.done[from] {
		r.l.c.Env.Mark(dataLate)
		return
	}
	r.last[from] = number
	r.queued += r.c.Foreign(from, d)
	r.inbox[from].Push(d)
}

// Advance reads, in log order, the batches that have a position and data.
func (r *Reader[D]) Advance() {
	for {
		o, known := r.l.Next()
		if !known {
			return
		}
		if n, ok := o.Stream(); ok {
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
				continue // the owner has passed over it
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
		r.done[o.Batch.Sequencer] = o.Batch.Number
		r.l.Pass()
	}
}

// take removes and returns the data of the next batch, if it has arrived. It prefers the data from the batch's
// sequencer.
func (r *Reader[D]) take(b BatchID) (d D, here bool) {
	inbox := &r.inbox[b.Sequencer]
	if inbox.Len() > 0 && inbox.Front().BatchNumber() == b.Number {
		d = inbox.Front()
		inbox.Pop()
		r.queued -= r.c.Foreign(b.Sequencer, d)
		delete(r.fetched, b)
		return d, true
	}
	d, here = r.fetched[b]
	delete(r.fetched, b)
	return d, here
}

// drop drops a sequencer's batches up to the batch that the log has made void. Earlier batches with a position are not
// among them: they have been read.
func (r *Reader[D]) drop(b BatchID) {
	inbox := &r.inbox[b.Sequencer]
	for inbox.Len() > 0 && inbox.Front().BatchNumber() <= b.Number {
		r.queued -= r.c.Foreign(b.Sequencer, inbox.Front())
		r.voided++
		r.l.c.Env.Mark(voidDropped)
		inbox.Pop()
	}
}

// Pending counts the transactions of other nodes' clients that have arrived and have not been read. A batch that the
// reader waits for counts as well if its sequencer may be lost.
func (r *Reader[D]) Pending() int {
	if o, known := r.l.Next(); r.l.holder != nil && known && r.reads(o) {
		return r.queued + 1
	}
	return r.queued
}

// reads reports whether an entry is a batch that this reader reads.
func (r *Reader[D]) reads(o Ordered) bool {
	_, stream := o.Stream()
	return !stream && o.Readers.Has(r.c.Group)
}

// Voided counts the batches that have arrived and that the log has made void.
func (r *Reader[D]) Voided() int64 { return r.voided }

// Fire takes a timer of the reader's.
func (r *Reader[D]) Fire(t protocol.Timer) {
	if t.Kind == r.c.WatchTimer {
		r.lookForAbandoned()
	} else {
		r.fetch()
	}
}

// watch sets the timer for the next look for abandoned batches.
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

// lookForAbandoned asks for those batches to be made void that had no place at the last look, either.
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
		if w > settled {
			abandoned = append(abandoned, BatchID{geo.NodeID(n), w})
		}
		r.watched[n] = 0
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

// await waits for data that is missing at its place, and asks others for it after a while.
func (r *Reader[D]) await() {
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

// fetch requests, from another reader of the group, the missing data of all batches that have a position. It does
// nothing if the next position has changed since the timer was set. Each call asks the next reader, since some readers
// have none of the data and some are lost.
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

// nextHolder returns the reader to ask next: the nodes of the group except the sequencer, round-robin.
func (r *Reader[D]) nextHolder(sequencer geo.NodeID) (n geo.NodeID, ok bool) {
	nodes := r.l.c.Readers[r.c.Group]
	for range nodes {
		n = nodes[r.asked%len(nodes)]
		r.asked++
		if n != r.l.c.Self && n != sequencer {
			return n, true
		}
	}
	return 0, false
}

// here reports whether the data of a batch that has a place is here.
func (r *Reader[D]) here(b BatchID) bool {
	_, ok := r.find(b)
	return ok
}

// Missing sends a reader the data that it requested and that this reader has.
func (r *Reader[D]) Missing(from geo.NodeID, m *Missing) {
	if r.l.holder == nil {
		return // it is corrupt
	}
	for _, b := range m.Batches {
		if d, ok := r.find(b); ok {
			r.l.c.Env.Mark(dataTold)
			r.c.Copy(from, b.Sequencer, d)
		}
	}
}

// find returns the data of a batch, if it is still here.
func (r *Reader[D]) find(b BatchID) (d D, ok bool) {
	if int(b.Sequencer) >= len(r.inbox) {
		return d, false // it is corrupt
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

// Fetched handles the data of a batch from another reader. The sequencer's data may have arrived meanwhile.
func (r *Reader[D]) Fetched(sequencer geo.NodeID, d D) {
	b := BatchID{sequencer, d.BatchNumber()}
	if r.l.holder == nil || int(sequencer) >= len(r.inbox) || b.Number > r.l.Settled(sequencer) {
		return // it is corrupt: batches are asked for that have a place
	}
	if b.Number <= r.done[sequencer] || r.here(b) {
		r.l.c.Env.Mark(fetchedTwice)
		return
	}
	r.l.c.Env.Mark(dataFetched)
	r.fetched[b] = d
	r.Advance()
}

// keep stores data that this reader has read and other readers may lack.
func (r *Reader[D]) keep(b BatchID, d D) {
	if r.l.holder == nil {
		return
	}
	k := keptData{b, r.l.position, d.Size()}
	r.kept.Push(k)
	r.copies[b] = d
	r.keptNow += k.bytes
	for r.keptNow > keptBytes {
		r.release()
	}
}

// Kept learns that all have read the log up to a position.
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
