package node

import (
	"sync"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// item is an input of the loop. It is a message from a peer, a new incarnation of a peer, a transaction of a client, or
// a function to call.
type item struct {
	from geo.NodeID
	m    protocol.Message
	// frame is the number of the frame that contained m. last is set if m is the frame's last message.
	frame uint32
	last  bool
	// replaced is the new incarnation of node from; 0 for all other items.
	replaced uint32
	t        *txn.Transaction
	// invalid is set if prepare rejected t.
	invalid bool
	c       *client
	f       func()
}

// full is the number of items in the mailbox at which producers must wait for the loop.
const full = 8192

// mailbox passes items from many goroutines to the loop in batches.
type mailbox struct {
	mu      sync.Mutex
	room    sync.Cond
	items   []item
	waiting int // number of goroutines that wait for room
	closed  bool
	wake    chan struct{} // receives a token when the loop may have something to do
}

func (b *mailbox) init() {
	b.room.L = &b.mu
	b.wake = make(chan struct{}, 1)
}

// put adds a batch, and then waits while the mailbox is full. The caller keeps ownership of the slice.
func (b *mailbox) put(batch []item) {
	b.mu.Lock()
	first := len(b.items) == 0
	b.items = append(b.items, batch...)
	if first {
		b.notify()
	}
	// Wait after adding, not before. A batch is then never split, and each producer can exceed the limit by at most one
	// batch.
	for len(b.items) >= full && !b.closed {
		b.waiting++
		b.room.Wait()
		b.waiting--
	}
	b.mu.Unlock()
}

// post adds a function for the loop to call. It never blocks.
func (b *mailbox) post(f func()) {
	b.mu.Lock()
	b.items = append(b.items, item{f: f})
	b.notify()
	b.mu.Unlock()
}

func (b *mailbox) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns the items and empties the mailbox. done is the slice returned by the previous call, which take reuses.
// closed reports whether the mailbox is closed.
func (b *mailbox) take(done []item) (items []item, closed bool) {
	clear(done)
	b.mu.Lock()
	items, b.items = b.items, done[:0]
	closed = b.closed
	if b.waiting > 0 {
		b.room.Broadcast()
	}
	b.mu.Unlock()
	return items, closed
}

// close makes the loop stop and releases all waiting producers.
func (b *mailbox) close() {
	b.mu.Lock()
	b.closed = true
	b.room.Broadcast()
	b.notify()
	b.mu.Unlock()
}

// len returns the number of items in the mailbox.
func (b *mailbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}
