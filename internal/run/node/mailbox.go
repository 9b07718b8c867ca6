package node

import (
	"sync"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// item is one event for the loop: a peer's message or new incarnation, a client's transaction or a call.
type item struct {
	from geo.NodeID
	m    protocol.Message
	// frame is the number of the frame that contained m, last means that m is its last message.
	frame uint32
	last  bool
	// replaced is the incarnation of from that is in its place now.
	replaced uint32
	t        *txn.Transaction
	// invalid says that t's accesses could not be prepared.
	invalid bool
	c       *client
	f       func()
}

// full is the number of items at which producers have to wait.
const full = 8192

// mailbox hands items from many goroutines to the loop, whole batches at a time.
type mailbox struct {
	mu      sync.Mutex
	room    sync.Cond
	items   []item
	waiting int // goroutines that wait for room
	closed  bool
	wake    chan struct{} // holds a token when the loop may have something to do
}

func (b *mailbox) init() {
	b.room.L = &b.mu
	b.wake = make(chan struct{}, 1)
}

// put adds a batch, which stays the caller's, and then waits for room if there is too much.
func (b *mailbox) put(batch []item) {
	b.mu.Lock()
	first := len(b.items) == 0
	b.items = append(b.items, batch...)
	if first {
		b.notify()
	}
	for len(b.items) >= full && !b.closed {
		b.waiting++
		b.room.Wait()
		b.waiting--
	}
	b.mu.Unlock()
}

// post adds a call and never waits.
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

// take exchanges the contents for done, a slice of handled items.
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

// close stops the loop and releases all waiting producers.
func (b *mailbox) close() {
	b.mu.Lock()
	b.closed = true
	b.room.Broadcast()
	b.notify()
	b.mu.Unlock()
}

// len is the number of items not yet taken.
func (b *mailbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}
