package wire

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// ring is a first-in, first-out queue.
type ring struct {
	c    []*chunk
	head int
}

func (r *ring) len() int { return len(r.c) - r.head }

func (r *ring) front() *chunk { return r.c[r.head] }

func (r *ring) push(c *chunk) { r.c = append(r.c, c) }

func (r *ring) pop() *chunk {
	c := r.c[r.head]
	r.c[r.head] = nil
	r.head++
	if r.head == len(r.c) {
		r.c, r.head = r.c[:0], 0
		// Copy only when at least half of the array is free, so that the amortized cost per chunk is constant.
	} else if r.head >= 64 && 2*r.head >= len(r.c) {
		n := copy(r.c, r.c[r.head:])
		clear(r.c[n:])
		r.c, r.head = r.c[:n], 0
	}
	return c
}

// sender is the sending side of a connection. Its queue is also the delay line of an emulated link. For each TCP
// connection, a goroutine writes all due frames together.
type sender struct {
	mu    sync.Mutex
	path  *geo.Path // nil without emulation
	rng   *rand.Rand
	queue ring // unwritten frames, by due time
	// probes contains unwritten pings and pongs, by due time. They are not ordered relative to the queue
	// (geo.Path.Datagram). It is used only with a path.
	probes ring
	// blocked is the number of frames at the end of the queue that the path does not accept before the time resume.
	blocked int
	resume  time.Duration
	given   bool // GiveUp was called: all frames are lost
	// peer is the incarnation of the peer; meant is the incarnation for which newly added data frames are meant. If the
	// two differ, these frames are lost.
	peer, meant uint32
	// unacked contains data frames that were written but not acknowledged, if resumable is set.
	unacked   ring
	resumable bool
	last      uint32 // number of the last data frame queued
	acked     uint32 // number of the last acknowledged frame
	again     uint32 // number of the last frame that a replay has added; the peer may already have the frame
	held      int    // bytes of data frames in queue and unacked
	limit     int    // limit for held above which the sender is congested; 0 for none
	congested bool
	// congestion is called whenever congested changes, with the lock held.
	congestion func(bool)
	recv       func() uint32 // returns the number of the last data frame received, which the sender acknowledges

	conn    net.Conn // nil while there is no connection
	stopped bool     // the writer must exit
	idle    bool     // the writer waits for a frame, and has no alarm set
	writing bool
	retired []*chunk // chunks acknowledged while the writer may still use them
	wake    chan struct{}
	done    chan struct{} // closed by the writer
}

// add queues c, or drops c if it can never arrive.
func (s *sender) add(c *chunk) {
	s.mu.Lock()
	s.addLocked(c)
	s.mu.Unlock()
}

func (s *sender) addLocked(c *chunk) {
	if s.given || c.typ == frameData && s.peer != s.meant || s.conn == nil && (c.typ != frameData || !s.resumable) {
		c.recycle()
		return
	}
	if c.typ == frameData {
		s.last = c.seq
		// Frame numbers wrap around, so compare their difference.
		if s.resumable && int32(c.seq-s.acked) <= 0 {
			c.recycle() // a replay has added the frame again, but the peer already has it
			return
		}
		s.hold(len(c.buf))
	}
	switch {
	case s.path != nil && (c.typ == framePing || c.typ == framePong):
		due, ok := s.path.Datagram(Now(), len(c.buf), s.rng)
		if !ok {
			c.recycle()
			return
		}
		c.due = due
		s.probes.push(c)
		s.notify() // the writer may be waiting for a later time
	case s.conn != nil:
		s.depart(c)
		s.queue.push(c)
	default:
		s.queue.push(c)
	}
	if s.idle {
		s.idle = false
		s.notify()
	}
}

// hold adds n to held, and reports a change of congestion.
func (s *sender) hold(n int) {
	s.held += n
	if over := s.held > s.limit; s.limit > 0 && over != s.congested {
		s.congested = over
		s.congestion(over)
	}
}

// depart sets the time at which c, the last frame of the queue, is written.
func (s *sender) depart(c *chunk) {
	if s.path == nil {
		return
	}
	// While the path refuses earlier frames, a later frame must not overtake them.
	if s.blocked == 0 && s.send(c, Now()) {
		return
	}
	c.due = never
	s.blocked++
}

// send sets the time at which the path delivers c. It returns false if the path does not accept c.
func (s *sender) send(c *chunk, now time.Duration) bool {
	due, ok := s.path.Send(now, len(c.buf), s.rng)
	if ok {
		c.due = due
		return true
	}
	// If the path is cut, disturb sets resume once the path heals.
	if s.resume, ok = s.path.Ready(now); !ok {
		s.resume = never
	}
	return false
}

// unblock offers refused frames to the path again.
func (s *sender) unblock(now time.Duration) {
	if s.blocked == 0 || now < s.resume {
		return
	}
	for i := len(s.queue.c) - s.blocked; s.blocked > 0 && s.send(s.queue.c[i], now); i++ {
		s.blocked--
	}
}

// disturb changes the path: see Link.Disturb.
func (s *sender) disturb(link, back geo.Link, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == nil {
		return
	}
	s.path.Change(link, back)
	if now := Now(); cut {
		s.path.Cut()
		s.resume = never
	} else {
		s.path.Heal(now)
		s.resume, _ = s.path.Ready(now)
	}
	// The writer may be waiting for a time that has changed.
	s.notify()
}

// giveUp drops all frames, including those added later.
func (s *sender) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = true
	s.drop()
}

// drop drops all frames. The caller must hold the lock.
func (s *sender) drop() {
	// Unlike an assignment, hold also ends the congestion.
	s.hold(-s.held)
	s.queue, s.probes, s.unacked, s.blocked = ring{}, ring{}, ring{}, 0
}

// renew drops all frames meant for an earlier incarnation of the peer, and all frames added before open is called for
// this incarnation. The sender must not have a connection.
func (s *sender) renew(incarnation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	s.peer, s.last, s.acked, s.again = incarnation, 0, 0, 0
}

// open declares that frames added from now on are meant for the given incarnation of the peer.
func (s *sender) open(incarnation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meant = incarnation
}

// acknowledged returns the number of the last acknowledged data frame.
func (s *sender) acknowledged() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// replaying declares that the peer already has the frames up to number seq. A replay will add these frames again.
func (s *sender) replaying(seq uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = seq
}

// outstanding returns copies of the data frames that were not acknowledged.
func (s *sender) outstanding() Outstanding {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Outstanding{Acknowledged: s.acked}
	for _, r := range []*ring{&s.unacked, &s.queue} {
		for _, c := range r.c[r.head:] {
			if c.typ == frameData {
				o.Frames = append(o.Frames, slices.Clone(c.buf))
			}
		}
	}
	return o
}

// sent sets the number of the last data frame that has ever been queued.
func (s *sender) sent(last uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last
}

// replayed declares that the peer has, or may have, the frames added so far.
func (s *sender) replayed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = s.last
}

func (s *sender) notify() {
	// Do not block: one pending wake-up is enough for the writer.
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ack drops the data frames up to number seq.
func (s *sender) ack(seq uint32) {
	s.mu.Lock()
	if int32(seq-s.acked) > 0 {
		s.acked = seq
	}
	for s.unacked.len() > 0 && int32(s.unacked.front().seq-seq) <= 0 {
		c := s.unacked.pop()
		s.hold(-len(c.buf))
		// The writer may be writing this chunk; it recycles retired chunks after the write.
		if s.writing {
			s.retired = append(s.retired, c)
		} else {
			c.recycle()
		}
	}
	s.mu.Unlock()
}

// attach starts writing to conn, beginning with the data frame after number seq. It returns an error if the peer lacks
// frames that it had acknowledged, or claims to have frames that were never sent.
func (s *sender) attach(conn net.Conn, seq uint32, failed func(error)) error {
	s.ack(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.queue
	// After a replay, the peer may have received frames that this process has not written yet.
	for old.len() > 0 && old.front().typ == frameData && int32(old.front().seq-seq) <= 0 && int32(old.front().seq-s.again) <= 0 {
		c := old.pop()
		s.hold(-len(c.buf))
		c.recycle()
	}
	first := s.last + 1 // number of the first data frame held
	if s.unacked.len() > 0 {
		first = s.unacked.front().seq
	} else if i := slices.IndexFunc(old.c[old.head:], func(c *chunk) bool { return c.typ == frameData }); i >= 0 {
		first = old.c[old.head+i].seq
	}
	if s.resumable && seq+1 != first {
		return fmt.Errorf("the peer has received up to frame %d, and frame %d is the next to send", seq, first)
	}
	s.queue, s.probes = ring{}, ring{}
	s.conn, s.stopped, s.idle, s.blocked = conn, false, false, 0
	// Unacknowledged frames were written to a lost connection. Send them again, before newer frames.
	for s.unacked.len() > 0 {
		c := s.unacked.pop()
		s.depart(c)
		s.queue.push(c)
	}
	for old.len() > 0 {
		c := old.pop()
		if c.typ != frameData && s.resumable {
			c.recycle()
			continue
		}
		s.depart(c)
		s.queue.push(c)
	}
	s.done = make(chan struct{})
	go s.write(conn, failed)
	return nil
}

// detach stops the writer and waits for it. The caller must have closed the connection.
func (s *sender) detach() {
	s.mu.Lock()
	if s.conn == nil {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	done := s.done
	s.notify()
	s.mu.Unlock()
	<-done
	s.mu.Lock()
	s.conn, s.idle, s.blocked = nil, false, 0
	s.mu.Unlock()
}

// write is the body of the writer's goroutine.
func (s *sender) write(conn net.Conn, failed func(error)) {
	defer close(s.done)
	var alarm *Alarm
	if s.path != nil {
		alarm = NewAlarm(s.wake)
		defer alarm.Close()
	}
	var batch []*chunk
	vectors := make([][]byte, 0, maxVectors)
	s.mu.Lock()
	for {
		s.writing = false
		for i, c := range batch {
			// Resumable data frames stay in unacked until the peer acknowledges them.
			if c.typ != frameData || !s.resumable {
				c.recycle()
			}
			batch[i] = nil
		}
		for i, c := range s.retired {
			c.recycle()
			s.retired[i] = nil
		}
		batch, s.retired = batch[:0], s.retired[:0]
		if batch = s.take(batch, alarm); batch == nil {
			s.mu.Unlock()
			return
		}
		s.writing = true
		var recv uint32
		if s.recv != nil {
			recv = s.recv()
		}
		vectors = vectors[:0]
		for _, c := range batch {
			// Insert the acknowledgement as late as possible, so that it covers as many frames as possible.
			if s.resumable {
				binary.LittleEndian.PutUint32(c.buf[ackAt:], recv)
			}
			vectors = append(vectors, c.buf)
		}
		s.mu.Unlock()
		var err error
		if len(vectors) == 1 {
			_, err = conn.Write(vectors[0])
		} else {
			b := net.Buffers(vectors)
			_, err = b.WriteTo(conn)
		}
		if err != nil {
			// From now on, the reader's side may recycle acknowledged chunks.
			s.mu.Lock()
			s.writing = false
			s.mu.Unlock()
			failed(err)
			return
		}
		s.mu.Lock()
	}
}

// take waits until frames are due and moves them into batch. It returns nil if the writer must exit. The caller must
// hold the lock, and still holds it on return.
func (s *sender) take(batch []*chunk, alarm *Alarm) []*chunk {
	for {
		if s.stopped {
			return nil
		}
		var now time.Duration
		if s.path != nil {
			now = Now()
			s.unblock(now)
			// An alarm may go off early by Slack, so also write frames that are due within that time.
			now += Slack
		}
		for s.probes.len() > 0 && s.probes.front().due <= now && len(batch) < maxVectors {
			batch = append(batch, s.probes.pop())
		}
		for size := 0; s.queue.len() > 0 && size < maxWrite && len(batch) < maxVectors; {
			if s.queue.front().due > now {
				break
			}
			c := s.queue.pop()
			size += len(c.buf)
			batch = append(batch, c)
			if c.typ == frameData && s.resumable {
				s.unacked.push(c)
			} else if c.typ == frameData {
				s.hold(-len(c.buf))
			}
		}
		if len(batch) > 0 {
			return batch
		}
		s.idle = s.queue.len() == 0 && s.probes.len() == 0
		if !s.idle {
			at := never
			if s.queue.len() > 0 {
				at = s.queue.front().due
			}
			if s.blocked > 0 {
				at = min(at, s.resume)
			}
			if s.probes.len() > 0 {
				at = min(at, s.probes.front().due)
			}
			alarm.Set(at)
		}
		s.mu.Unlock()
		<-s.wake
		s.mu.Lock()
	}
}

// outbox collects the messages of a single goroutine in data frames.
type outbox struct {
	s    *sender
	typ  uint8
	head int // size of a frame's header in bytes
	buf  []byte
	seq  uint32 // number of the last data frame
	// sent counts the queued frames.
	sent *traffic
	// hold is set if complete frames stay in full until flush.
	hold bool
	full []*chunk
}

// open returns the frame being filled, and starts it if necessary.
func (o *outbox) open() []byte {
	if len(o.buf) == 0 {
		if o.buf == nil {
			o.buf = make([]byte, 0, scratchSize)
		}
		o.buf = o.buf[:o.head]
		o.buf[headBytes-1] = o.typ
	}
	return o.buf
}

// overflow handles a frame that has reached sealBytes: it sends the frame or, with hold, keeps it.
func (o *outbox) overflow() {
	if !o.hold {
		o.flush()
		return
	}
	o.full = append(o.full, o.cut())
}

// flush queues all collected frames.
func (o *outbox) flush() {
	for i, c := range o.full {
		o.queue(c)
		o.full[i] = nil
	}
	o.full = o.full[:0]
	if len(o.buf) > 0 {
		o.queue(o.cut())
	}
}

// reset drops the collected messages and restarts the numbering of frames.
func (o *outbox) reset() {
	o.buf, o.full, o.seq = o.buf[:0], nil, 0
}

// queue counts and queues a frame. It counts first, because add passes ownership of the chunk.
func (o *outbox) queue(c *chunk) {
	o.sent.frame(len(c.buf))
	o.s.add(c)
}

// cut completes the frame being filled and returns it.
func (o *outbox) cut() *chunk {
	n := len(o.buf)
	seal(o.buf)
	o.seq++
	if o.head == dataBytes {
		binary.LittleEndian.PutUint32(o.buf[seqAt:], o.seq)
	}
	c := newChunk(n)
	if n <= chunkSizes[len(chunkSizes)-2] {
		c.buf = append(c.buf, o.buf...)
		o.buf = o.buf[:0]
	} else {
		c.buf, o.buf = o.buf, c.buf[:0] // swap the buffers: the frame is too large to copy
		if cap(o.buf) > 4*scratchSize {
			o.buf = nil
		}
	}
	c.typ, c.seq = frameData, o.seq
	return c
}
