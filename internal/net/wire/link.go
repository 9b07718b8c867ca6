package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
)

// Message is a message on a Link: protocol.Message.
type Message interface {
	Kind() uint8
	Size() int
	AppendTo(b []byte) []byte
}

// Receiver receives the messages of a link or connection. Its methods are not called concurrently.
type Receiver interface {
	// Receive handles the payload of a data frame: for peers see ReadMessages, for clients ReadTransactions and
	// ReadOutcomes. The receiver owns the memory. An error ends the connection; an error from a peer's payload breaks the
	// database.
	Receive(payload []byte) error
	// Turn is called after all available frames have been handled, before the link or connection waits for more. It may
	// block, which slows down the sender (backpressure).
	Turn()
}

// Link connects this node to another node. Only one goroutine may call Send and Flush.
type Link struct {
	e        *Endpoint
	peer     geo.NodeID
	out      outbox
	s        sender
	receiver Receiver

	received  atomic.Uint32 // number of the last data frame received, over the current or an earlier connection
	delivered uint32        // number of the last frame passed to the receiver; used only by the reading goroutine
	logged    atomic.Uint32 // number of the last frame in the node's log, if the node has a log: see Config.Durable

	sent  traffic
	heard atomic.Int64 // time (Now) at which data last arrived
	given atomic.Bool  // see GiveUp
	watch watch        // for this link's round trips; guarded by the lock of its region's samples

	mu      sync.Mutex
	current *session
	reached bool
	process string // process of the peer, once it was reached
	problem string // reason why there is no connection
	// incarnation is the peer's latest known incarnation.
	incarnation uint32
}

// session is the lifetime of a TCP connection of a link.
type session struct {
	conn net.Conn
	done chan struct{} // closed when the session no longer uses the link
}

// Send queues m until Flush. It reports whether the queue was empty before, so that the caller can record which links
// to flush.
func (l *Link) Send(m Message) (first bool) {
	n := 1 + m.Size()
	if n > MaxFrame-scratchSize {
		l.e.fail(fmt.Sprintf("a message of kind %d has %d bytes; a frame holds %d", m.Kind(), n, MaxFrame-scratchSize))
		return false
	}
	first = len(l.out.buf) == 0
	b := codec.AppendUvarint(l.out.open(), uint64(n))
	l.out.buf = m.AppendTo(append(b, m.Kind()))
	l.sent.messages.Add(1)
	if len(l.out.buf) >= sealBytes {
		l.out.overflow()
	}
	return first
}

// Flush passes the queued messages to the writer. It never blocks.
func (l *Link) Flush() { l.out.flush() }

// Logged confirms that all data frames from the peer up to number seq are in the node's log. The peer may then drop
// them. See Config.Durable.
func (l *Link) Logged(seq uint32) { l.logged.Store(seq) }

// Acknowledged returns the number of the last data frame that the peer has in its log or, if the peer has no log, has
// received.
func (l *Link) Acknowledged() uint32 { return l.s.acknowledged() }

// Replaying starts a replay of all messages that this node has ever sent. The peer already has the frames up to number
// acknowledged. Replaying must be called before Endpoint.Start.
func (l *Link) Replaying(acknowledged uint32) { l.s.replaying(acknowledged) }

// Outstanding contains the sent data frames that the peer may not have: the frames after Acknowledged, up to Last.
type Outstanding struct {
	Acknowledged, Last uint32
	Frames             [][]byte
}

// Outstanding returns a copy of the outstanding frames. All sent messages must have been flushed.
func (l *Link) Outstanding() Outstanding {
	o := l.s.outstanding()
	o.Last = l.out.seq
	return o
}

// Sent starts a replay in the state that o describes. It must be called after Replaying.
func (l *Link) Sent(o *Outstanding) {
	for i, frame := range o.Frames {
		c := newChunk(len(frame))
		c.buf = append(c.buf, frame...)
		c.typ, c.seq = frameData, o.Acknowledged+1+uint32(i)
		l.s.add(c)
	}
	l.out.seq = o.Last
	l.s.sent(o.Last)
}

// Replayed ends the replay. logged is the number of the last data frame from the peer that is completely in the node's
// log.
func (l *Link) Replayed(logged uint32) {
	l.delivered = logged
	l.logged.Store(logged)
	l.received.Store(logged)
	l.s.replayed()
}

// resume returns the number of the last frame that the peer need not send again over a new connection. The peer sends
// frames again that are not in the log, even if they were received.
func (l *Link) resume() uint32 {
	if l.e.cfg.Durable {
		// delivered prevents frames that are sent again from being handled twice.
		l.received.Store(l.logged.Load())
	}
	return l.received.Load()
}

// acknowledgement returns the number of the last data frame that the peer may drop.
func (l *Link) acknowledgement() uint32 {
	// A durable node acknowledges only frames that will survive a crash.
	if l.e.cfg.Durable {
		return l.logged.Load()
	}
	return l.received.Load()
}

// Open declares that messages sent from now on are meant for the given incarnation of the peer. Earlier messages are
// lost unless they have arrived: see Config.Replaced. Only the goroutine that calls Send may call Open.
func (l *Link) Open(incarnation uint32) {
	l.out.reset()
	l.s.open(incarnation)
}

// Disturb sets the emulated link to the peer to link, and the reverse link of acknowledgements to back. cut interrupts
// the link: messages wait until it heals. Disturb has no effect on a link that is not emulated.
func (l *Link) Disturb(link, back geo.Link, cut bool) { l.s.disturb(link, back, cut) }

// GiveUp declares that the peer's process and its state are permanently lost. From then on, messages to the peer are
// dropped, and a new process of the peer is refused. Neither breaks the database.
func (l *Link) GiveUp() {
	if l.given.Swap(true) {
		return
	}
	l.s.giveUp()
	l.mu.Lock()
	if l.current != nil {
		_ = l.current.conn.Close()
	}
	l.problem = "given up"
	l.mu.Unlock()
	l.reach()
}

// reach counts the peer as reached, because it was reached or is permanently gone.
func (l *Link) reach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.reached {
		l.reached = true
		l.e.reached.Add(1)
	}
}

// control queues a control frame, which is lost with the connection.
func (l *Link) control(typ uint8, stamp uint64) {
	c := newChunk(headBytes + 12)
	c.typ = typ
	c.buf = append(c.buf, 0, 0, 0, 0, typ, 0, 0, 0, 0)
	if typ != frameAck {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, stamp)
	}
	seal(c.buf)
	l.sent.frame(len(c.buf))
	l.sent.messages.Add(1)
	l.s.add(c)
}

// connected reports whether there is a connection that has completed its handshake.
func (l *Link) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current != nil && l.problem == ""
}

// begin makes conn the link's connection. When it returns, nothing reads from the old connection any more.
func (l *Link) begin(conn net.Conn) *session {
	l.mu.Lock()
	s, old := l.put(conn)
	l.mu.Unlock()
	// Stop the old session without holding the lock, because it needs the lock to end.
	old.stop()
	return s
}

// put makes conn the link's connection. The caller must hold the lock, and must stop the old connection.
func (l *Link) put(conn net.Conn) (s, old *session) {
	s, old = &session{conn, make(chan struct{})}, l.current
	l.current = s
	return s, old
}

// stop closes a session's connection and waits until its reader has finished. A nil session is already stopped.
func (s *session) stop() {
	if s != nil {
		_ = s.conn.Close()
		<-s.done
	}
}

// admit makes conn, which a peer has dialled, the link's connection, unless it refuses the peer's hello. It checks the
// hello and sets the connection under one lock, so that no other hello is checked in between.
func (l *Link) admit(conn net.Conn, h *Hello) (*session, *Refusal) {
	l.mu.Lock()
	r := l.judge(h.Process, h.NodeIncarnation)
	if r == nil {
		r = l.judgeExpected(h)
	}
	if r != nil {
		l.mu.Unlock()
		return nil, r
	}
	renewed := l.adopt(h.NodeIncarnation)
	s, old := l.put(conn)
	l.mu.Unlock()
	old.stop()
	// Call renew only after stop, because it resets counters that the reader of the old connection used.
	if renewed {
		l.renew(h.NodeIncarnation)
	}
	return s, nil
}

// know checks the identity of the process that this node dialled, and adopts its incarnation.
func (l *Link) know(w *welcome) *Refusal {
	l.mu.Lock()
	r := l.judge(w.process, w.incarnation)
	renewed := r == nil && l.adopt(w.incarnation)
	l.mu.Unlock()
	if renewed {
		l.renew(w.incarnation)
	}
	return r
}

// adopt records the peer's incarnation; from now on, earlier incarnations are refused. It reports whether the
// incarnation is later than the recorded one. The caller must hold the lock.
func (l *Link) adopt(incarnation uint32) (renewed bool) {
	if incarnation > l.incarnation {
		l.incarnation, l.process, renewed = incarnation, "", true
	}
	return renewed
}

// renew restarts the link for a later incarnation of the peer, which has not used the link yet. The old connection must
// no longer be in use.
func (l *Link) renew(incarnation uint32) {
	l.delivered = 0
	l.logged.Store(0)
	l.received.Store(0)
	l.s.renew(incarnation)
	l.e.cfg.Replaced(l.peer, incarnation)
}

// end ends a session of the link.
func (l *Link) end(s *session, problem error) {
	_ = s.conn.Close()
	l.s.detach()
	l.mu.Lock()
	// A newer connection may already have replaced s.
	if l.current == s {
		l.current = nil
	}
	if problem != nil {
		l.problem = problem.Error()
	}
	l.mu.Unlock()
	close(s.done)
}

// judge compares a peer's process with the process that was known before. It returns the reason for refusing the peer,
// or nil. The caller must hold the lock.
func (l *Link) judge(process string, incarnation uint32) *Refusal {
	name := l.e.cfg.Topology.NodeName(l.peer)
	switch {
	case l.given.Load():
		return &Refusal{LostState, fmt.Sprintf("node %s was given up: it has lost its state", name)}
	case incarnation < l.incarnation:
		return &Refusal{Superseded, fmt.Sprintf("node %s is incarnation %d now: process %s, incarnation %d, must not speak for it any more",
			name, l.incarnation, process, incarnation)}
	case incarnation > l.incarnation && !slices.Contains(l.e.cfg.Replaceable, l.peer):
		return &Refusal{LostState, fmt.Sprintf("node %s is incarnation %d now, process %s, and cannot be replaced: it has lost its state", name, incarnation, process)}
	case incarnation == l.incarnation && l.process != "" && l.process != process:
		return &Refusal{LostState, fmt.Sprintf("node %s was process %s and is %s now: it has lost its state", name, l.process, process)}
	}
	return nil
}

// judgeExpected compares the peer's information about this node with the node's actual identity.
func (l *Link) judgeExpected(h *Hello) *Refusal {
	c := &l.e.cfg
	name := c.Topology.NodeName(c.Self)
	switch {
	// A later incarnation of this node exists, so this process must stop.
	case h.ExpectIncarnation > c.NodeIncarnation:
		why := fmt.Sprintf("node %s is incarnation %d by now: process %s, incarnation %d, must not speak for it any more", name, h.ExpectIncarnation, c.Process, c.NodeIncarnation)
		l.e.fail(why)
		return &Refusal{WrongAddress, why}
	case h.ExpectIncarnation == c.NodeIncarnation && h.Expect != "" && h.Expect != c.Process:
		return &Refusal{LostState, fmt.Sprintf("node %s is known as process %s, but it is %s: it has lost its state", name, h.Expect, c.Process)}
	}
	return nil
}

// run receives from a connection after the handshake, until the connection ends.
func (l *Link) run(s *session, fr *frameReader, process string, received uint32) error {
	var writeErr atomic.Pointer[error]
	err := l.s.attach(s.conn, received, func(err error) {
		writeErr.Store(&err)
		_ = s.conn.Close()
	})
	if err != nil {
		if !l.given.Load() {
			l.e.fail(fmt.Sprintf("node %s: %v", l.e.cfg.Topology.NodeName(l.peer), err))
		}
		return err
	}
	l.mu.Lock()
	if l.current == s { // else a later connection has replaced this one
		l.process, l.problem = process, ""
	}
	l.mu.Unlock()
	l.reach()
	l.heard.Store(int64(Now()))
	fr.limit = MaxFrame
	// If the writer closes the connection, the reader fails as well. The writer's error is the cause.
	if err = l.read(fr); writeErr.Load() != nil {
		err = *writeErr.Load()
	}
	return err
}

func (l *Link) read(fr *frameReader) error {
	defer l.receiver.Turn()
	sinceAck := 0
	for {
		typ, body, err := fr.next()
		if err != nil {
			return err
		}
		if len(body) < 4 {
			return fmt.Errorf("a frame of type %d has %d bytes, fewer than its header", typ, len(body))
		}
		ack := binary.LittleEndian.Uint32(body)
		body = body[4:]
		switch {
		case typ == frameData && len(body) >= 4:
			seq, next := binary.LittleEndian.Uint32(body), l.received.Load()+1
			if seq != next {
				return fmt.Errorf("frame %d came where %d was due", seq, next)
			}
			// A peer that has not received our acknowledgement sends frames again. Numbers wrap around, hence the signed
			// difference.
			if int32(seq-l.delivered) > 0 {
				fr.keep()
				if err := l.receiver.Receive(body[4:]); err != nil {
					l.e.fail(fmt.Sprintf("node %s sent what can't be read: %v", l.e.cfg.Topology.NodeName(l.peer), err))
					return err
				}
				l.delivered = seq
			}
			l.received.Store(seq)
			sinceAck += len(body)
		case typ == frameAck:
		case typ == framePing && len(body) == 8:
			l.control(framePong, binary.LittleEndian.Uint64(body))
			// The pong carries the acknowledgement.
			sinceAck = 0
		case typ == framePong && len(body) == 8:
			l.e.roundTrip(l.peer, int64(Now())-int64(binary.LittleEndian.Uint64(body)))
		default:
			return fmt.Errorf("a frame of type %d and %d bytes is not for peers", typ, len(body))
		}
		// Frames in the other direction usually carry the acknowledgement, but on a one-way link it must be sent separately.
		if sinceAck >= ackEvery {
			l.control(frameAck, 0)
			sinceAck = 0
		}
		// The calls below are needed only once per batch of frames.
		if !fr.buffered() {
			l.s.ack(ack)
			l.heard.Store(int64(Now()))
			l.receiver.Turn()
		}
	}
}
