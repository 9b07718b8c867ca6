package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Conn is a connection between a client and a node: it carries transactions to the node and outcomes to the client.
// Only one goroutine may call its sending methods.
type Conn struct {
	conn    net.Conn
	fr      *frameReader
	s       sender
	out     outbox
	accepts uint8 // type of the frames to be received
	process string
	run     string // the client's run: see Run

	sending, receiving *traffic
	closing            sync.Once
}

func newConn(conn net.Conn, fr *frameReader, path *geo.Path, sends, accepts uint8, sending, receiving *traffic) *Conn {
	c := &Conn{conn: conn, fr: fr, accepts: accepts, sending: sending, receiving: receiving}
	c.s = sender{wake: make(chan struct{}, 1), path: path}
	if path != nil {
		c.s.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	c.out = outbox{s: &c.s, typ: sends, head: headBytes, sent: sending}
	return c
}

func (c *Conn) start() {
	c.fr.limit = MaxFrame
	_ = c.s.attach(c.conn, 0, func(error) { _ = c.conn.Close() }) // attach fails only for resumable senders
}

// Dial connects to the node at address as a client. h identifies the node. key is the key of h.Run's clients, or nil if
// the node requires none. path emulates the link to the node; nil means no emulation. The error is a *Refusal if the
// node refused the connection.
func Dial(ctx context.Context, address string, h Hello, key []byte, path *geo.Path) (*Conn, error) {
	d := net.Dialer{Timeout: handshake}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	h.Role = Client
	// If ctx ends, a deadline in the past makes the handshake fail.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	fr := newFrameReader(conn)
	w, err := greet(conn, fr, &h, key)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := newConn(conn, fr, path, frameSubmit, frameOutcomes, &traffic{}, &traffic{})
	c.process = w.process
	c.start()
	return c, nil
}

// Run returns the name of the run that the client belongs to. If the node has keys, the client has proved that it
// belongs to the run.
func (c *Conn) Run() string { return c.run }

// Process returns the name of the dialled node's process.
func (c *Conn) Process() string { return c.process }

// RoundTrip returns the shortest round trip that the kernel has measured on the connection, without delays emulated by
// this process; 0 if it is unknown.
func (c *Conn) RoundTrip() time.Duration { return minRTT(c.conn) }

// Serve receives until the connection ends, and returns the reason.
func (c *Conn) Serve(r Receiver) error {
	defer r.Turn()
	for {
		typ, body, err := c.fr.next()
		if err != nil {
			return err
		}
		if typ != c.accepts {
			return fmt.Errorf("a frame of type %d came where %d was due", typ, c.accepts)
		}
		c.fr.keep()
		c.receiving.frame(headBytes + len(body))
		if err := r.Receive(body); err != nil {
			return err
		}
		// No more data is waiting, so the receiver can process the received messages as a batch.
		if !c.fr.buffered() {
			r.Turn()
		}
	}
}

// SendTransaction queues t until Flush. It returns false if t is too large for a frame.
func (c *Conn) SendTransaction(t *txn.Transaction) bool {
	if len(t.Args) > MaxFrame-scratchSize {
		return false
	}
	c.out.buf = codec.AppendTransaction(c.out.open(), t)
	c.sent()
	return true
}

// SendOutcome queues o until Flush. It reports whether the queue was empty before, so that the caller can record which
// connections to flush. If the result is too large for a frame, SendOutcome omits it, and the outcome becomes Unknown.
func (c *Conn) SendOutcome(o *txn.Outcome) (first bool) {
	if len(o.Result)+len(o.Reason) > MaxFrame-scratchSize {
		o = &txn.Outcome{ID: o.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "result-too-large"}
	}
	first = len(c.out.buf) == 0
	c.out.buf = codec.AppendOutcome(c.out.open(), o)
	c.sent()
	return first
}

func (c *Conn) sent() {
	c.sending.messages.Add(1)
	if len(c.out.buf) >= sealBytes {
		c.out.overflow()
	}
}

// Flush passes the queued frames to the writer. It never blocks.
func (c *Conn) Flush() { c.out.flush() }

// Received adds to the number of received messages. The receiver must call it, because a Conn counts only frames.
func (c *Conn) Received(messages int) { c.receiving.messages.Add(int64(messages)) }

// Close closes the connection and waits for its writer. Sent messages may be lost.
func (c *Conn) Close() {
	c.closing.Do(func() {
		_ = c.conn.Close()
		c.s.detach()
	})
}

// ReadTransactions calls f for each transaction in a client's payload. It allocates transactions in groups, with room
// for the given number of accesses in each.
func ReadTransactions(payload []byte, accesses int, f func(*txn.Transaction)) error {
	r := codec.NewReader(payload)
	var slab []txn.Transaction
	var sets []txn.Access
	for r.Len() > 0 && r.Err() == nil {
		if len(slab) == 0 {
			// Estimate the number of transactions at 64 bytes each, so that a few allocations suffice for all of them.
			n := min(max(1, r.Len()/64), 64)
			slab, sets = make([]txn.Transaction, n), make([]txn.Access, n*accesses)
		}
		t := &slab[0]
		slab = slab[1:]
		// Limit the capacity, so that further accesses do not overwrite the accesses of the next transaction.
		t.Accesses, sets = sets[:0:accesses], sets[accesses:]
		if r.Transaction(t); r.Err() == nil {
			f(t)
		}
	}
	return r.Done()
}

// ReadOutcomes appends the outcomes in a node's payload to dst.
func ReadOutcomes(payload []byte, dst []txn.Outcome) ([]txn.Outcome, error) {
	r := codec.NewReader(payload)
	for r.Len() > 0 {
		var o txn.Outcome
		r.Outcome(&o)
		if r.Err() != nil {
			break
		}
		dst = append(dst, o)
	}
	return dst, r.Done()
}
