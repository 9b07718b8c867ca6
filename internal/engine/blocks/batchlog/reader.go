package batchlog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Data is what a sequencer sends to a reader of a batch.
type Data interface {
	protocol.Message
	// BatchNumber is the batch's at its sequencer.
	BatchNumber() uint64
}

// ReaderConfig describes a reader.
type ReaderConfig[D Data] struct {
	Log *Log
	// Group is that of the readers that get the same data.
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
	// Mark, where it is not nil, is told of a mark (see rejoin.go) when its turn has come, until it reports true: then the
	// reader goes on behind it. While it reports false, Advance is to be called when that may change. It may call SkipTo.
	// A new incarnation is told of its own mark first, and of none before it.
	Mark func(n geo.NodeID, incarnation uint32) bool
	// Copy sends another reader of the group the data of a batch. It is called only where batches need proof.
	Copy func(to, sequencer geo.NodeID, d D)
	// Unfetched is a mistake, for tests: who lacks data that its sequencer has not brought asks nobody else for it.
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

	// watched[s] is the last batch that had no place at the last look for abandoned ones, 0 for none.
	watched  []uint64
	watching bool  // a timer is set
	voided   int64 // batches

	// fetched is the data of batches whose places are known that has come from other readers.
	fetched map[BatchID]D
	// stuck is the position whose data was missing when the timer was set, if fetching; asked counts the requests for
	// data.
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
	// abandonedAfter is the time between two looks for batches whose data is here and whose place in the log is not. One
	// that has had none for that long was left behind by a sequencer that is lost or cut off from the log's leader. Such a
	// batch stays void if its sequencer is lost, and comes again from one that is not.
	abandonedAfter = 3 * time.Second
	// fetchAfter is how long a batch's data may be missing at its place before another reader is asked for it, and the
	// next one after that.
	fetchAfter = 500 * time.Millisecond
	// keptBytes bounds the data that a reader keeps for others; the oldest is dropped first. Who misses what all others
	// have dropped stands still, as if batches needed no proof. With a region that is lost for good, nobody hears that all
	// have read anything, so that much is kept.
	keptBytes = 64 << 20
	// mostMissing bounds the batches that are asked for at once.
	mostMissing = 4096
)

// NewReader returns a reader. Its owner's Config of the log has Advance and Kept call those of the reader.
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

// Advance reads the batches whose turn has come and whose data has arrived.
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

// take takes the data of the batch whose turn has come, if it is here. What its sequencer has sent comes first.
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

// drop drops a sequencer's batches up to the one that the log has made void. Those before it that have a place are not
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

// Pending counts the transactions of other nodes' clients that have arrived and have not been read, and a batch that is
// waited for whose sequencer may be lost.
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

// Voided counts the batches whose data has come and that the log has made void.
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

// fetch asks another reader of the group for the data of all batches that have a place and whose data is not here,
// unless the one whose turn has come has changed since the timer was set. The next time it is another reader's turn:
// some hold none of it, and some are lost.
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

// nextHolder returns whom to ask next: the other nodes of the group but the sequencer, by turns.
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

// Missing answers a reader that lacks data, as far as this one has it.
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

// Fetched takes the data of a batch from another reader. Its sequencer's own may have come meanwhile.
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

// keep keeps what is read for those who may lack it.
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
