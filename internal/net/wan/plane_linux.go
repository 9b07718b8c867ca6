//go:build full

package wan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	// verdictsAtOnce is the maximum number of packets released by one system call. The kernel delivers each packet before
	// the call returns, so with a large number, newly arriving packets would wait long.
	verdictsAtOnce = 16
	// oldest is the maximum plausible age of a packet when it is read. A larger age means that the wall clock was changed.
	oldest = 50 * time.Millisecond
	// slice is the scheduler time slice that the thread requests. The kernel schedules a thread with a short slice sooner.
	slice = 100 * time.Microsecond
	// segment is the payload of a full TCP packet in bytes, used to estimate the number of packets in a larger unit.
	segment = 1448
)

// counters holds the counters of a link.
type counters struct {
	packets, bytes             atomic.Int64
	lost, rate, cut, queue     atomic.Int64
	kernel                     atomic.Int64
	queuedPackets, queuedBytes atomic.Int64
}

func (c *counters) dropped(cause Cause) *atomic.Int64 {
	switch cause {
	case LostCause:
		return &c.lost
	case RateCause:
		return &c.rate
	case CutCause:
		return &c.cut
	case KernelCause:
		return &c.kernel
	}
	return &c.queue
}

// slot is a packet queue and its link. The kernel searches the queue's list of packets for each verdict. With a
// separate queue for each link, the packets in the list are in the order of the verdicts.
type slot struct {
	link     Link
	used     bool
	bound    bool
	whole    bool
	paths    map[netip.Addr]*path
	counters *counters
}

// plane holds the delayed packets. The loop, a goroutine on its own thread, runs the plane. Other goroutines access it
// through do.
type plane struct {
	socket *queueSocket
	wake   int // eventfd
	stamps int // a socket that makes the kernel timestamp packets
	pod    string
	log    *slog.Logger
	start  time.Time

	lateness prometheus.Observer

	mu    sync.Mutex
	calls []func()

	// The fields below are used only by the loop.
	slots     []*slot
	byName    map[string]int
	schedule  schedule
	heldBytes int64
	maxBytes  int64
	seed      uint64
	failures  int
}

func newPlane(pod string, log *slog.Logger, lateness prometheus.Observer) (*plane, error) {
	socket, err := openQueueSocket()
	if err != nil {
		return nil, err
	}
	if err := socket.bindFirst(firstQueue); err != nil {
		socket.close()
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		socket.close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	// The kernel timestamps packets only while some socket requests timestamps. Without timestamps, delays are slightly
	// longer under load.
	stamps, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptInt(stamps, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1)
	}
	if err != nil {
		log.Warn("packets are not stamped when they come", "error", err)
	}
	return &plane{socket: socket, wake: wake, stamps: stamps, pod: pod, log: log, start: time.Now(), lateness: lateness, byName: map[string]int{}}, nil
}

// do runs f in the loop and then returns. If ctx ends first, it returns an error.
func (p *plane) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	p.mu.Lock()
	p.calls = append(p.calls, func() { f(); close(done) })
	p.mu.Unlock()
	p.poke()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poke interrupts the loop's wait.
func (p *plane) poke() {
	var one [8]byte
	native.PutUint64(one[:], 1)
	_, _ = unix.Write(p.wake, one[:])
}

// run runs the loop until ctx ends or the kernel fails. When ctx ends, it releases all delayed packets immediately.
func (p *plane) run(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread exits, because its settings must not affect other goroutines
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	// Kernels before 6.12 do not support slices of ordinary threads.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Runtime: uint64(slice)}, 0)
	stop := context.AfterFunc(ctx, p.poke)
	defer stop()

	packet, answer := p.packet, p.answer
	for ctx.Err() == nil {
		p.release()
		if err := p.socket.flush(); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("netfilter socket: %w", err)
		}
		timeout := time.Duration(-1)
		// The kernel had no memory for the verdicts; retry soon.
		if len(p.socket.out) > 0 {
			timeout = time.Millisecond
		} else if p.schedule.len() > 0 {
			timeout = max(0, p.schedule.next().arrive-time.Since(p.start))
		}
		if timeout != 0 {
			if err := p.socket.wait(timeout, p.wake); err != nil {
				return fmt.Errorf("wait for packets: %w", err)
			}
		}
		if err := p.socket.read(packet, answer); err != nil {
			return err
		}
		p.call()
	}
	// Also release packets that are in the queue but were not read yet.
	_ = p.socket.drain(packet, answer)
	for p.schedule.len() > 0 {
		h := p.take()
		p.socket.verdict(firstQueue+h.slot, h.id, verdictAccept)
		if len(p.socket.out) > 1<<14 {
			_ = p.socket.flush()
		}
	}
	_ = p.socket.flush()
	p.call()
	return nil
}

func (p *plane) close() {
	p.socket.close()
	_ = unix.Close(p.wake)
	_ = unix.Close(p.stamps)
}

// call runs the functions that other goroutines have passed to do.
func (p *plane) call() {
	p.mu.Lock()
	calls := p.calls
	p.calls = nil
	p.mu.Unlock()
	if len(calls) == 0 {
		return
	}
	var b [8]byte
	_, _ = unix.Read(p.wake, b[:])
	for _, f := range calls {
		f()
	}
}

// release accepts packets whose arrival time has passed, up to verdictsAtOnce.
func (p *plane) release() {
	for n := 0; n < verdictsAtOnce && p.schedule.len() > 0; n++ {
		late := time.Since(p.start) - p.schedule.next().arrive
		if late < 0 {
			return
		}
		h := p.take()
		p.socket.verdict(firstQueue+h.slot, h.id, verdictAccept)
		p.lateness.Observe(late.Seconds())
	}
}

func (p *plane) take() held {
	h := p.schedule.pop()
	c := p.slots[h.slot].counters
	c.queuedPackets.Add(-1)
	c.queuedBytes.Add(-int64(h.bytes))
	p.heldBytes -= int64(h.bytes)
	return h
}

// packet schedules a received packet for its arrival time, or drops it.
func (p *plane) packet(q queuedPacket) {
	i := int(q.queue) - firstQueue
	from, ok := sourceOf(q.payload)
	if i < 0 || i >= len(p.slots) || !p.slots[i].used || !ok {
		// The link was removed after the kernel queued the packet, or the packet has no complete IP header.
		p.socket.verdict(q.queue, q.id, verdictAccept)
		return
	}
	s := p.slots[i]
	packets := int64(1)
	if q.whole {
		packets = int64(max(1, (q.bytes+segment-1)/segment))
	}
	s.counters.packets.Add(packets)
	s.counters.bytes.Add(int64(q.bytes))
	way := s.paths[from]
	if way == nil {
		way = newPath(&s.link, p.seed, p.pod, from)
		s.paths[from] = way
	}
	arrive, cause := way.packet(p.cameAt(q.stamp), q.bytes)
	// Check this limit after the link, so that losses on the link are counted under their own causes.
	if cause == Kept && p.heldBytes+int64(q.bytes) > p.maxBytes {
		cause = QueueCause
	}
	if cause != Kept {
		s.counters.dropped(cause).Add(packets)
		p.socket.verdict(q.queue, q.id, verdictDrop)
		return
	}
	p.heldBytes += int64(q.bytes)
	s.counters.queuedPackets.Add(1)
	s.counters.queuedBytes.Add(int64(q.bytes))
	p.schedule.push(held{arrive: arrive, id: q.id, slot: uint16(i), bytes: uint32(q.bytes)})
}

// cameAt converts the kernel's timestamp to the loop's time, so that the time for which a packet waits for this thread
// counts towards its delay.
func (p *plane) cameAt(stamp int64) time.Duration {
	now := time.Now()
	since := now.Sub(p.start)
	if stamp == 0 {
		return since
	}
	age := time.Duration(now.UnixNano() - stamp)
	if age < 0 || age > oldest {
		return since
	}
	return since - age
}

// answer handles an error from the kernel. ENOENT for a verdict means that the kernel has already dropped the packet.
func (p *plane) answer(a answer) {
	if a.err == nil {
		return
	}
	if i := int(a.queue) - firstQueue; a.verdict && errors.Is(a.err, unix.ENOENT) && i >= 0 && i < len(p.slots) {
		p.slots[i].counters.kernel.Add(1)
		return
	}
	if p.failures++; p.failures <= 10 {
		p.log.Error("the kernel refused a packet's verdict or a queue", "error", a.err)
	}
}

// sourceOf returns the source address of an IP header. ok is false if b is not a complete IP header.
func sourceOf(b []byte) (netip.Addr, bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case len(b) >= 40 && b[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(b[8:24])), true
	}
	return netip.Addr{}, false
}

// prepare applies the links of a configuration, and returns their queues by name. The queues of removed links remain
// until forget.
func (p *plane) prepare(c *Config) (map[string]uint16, error) {
	p.maxBytes, p.seed = c.QueueBytes, c.Seed
	queues := map[string]uint16{}
	for _, l := range c.Links {
		i, ok := p.byName[l.From]
		if !ok {
			if i = p.freeSlot(); i > maxLinks {
				return nil, fmt.Errorf("links: more than %d at once", maxLinks)
			}
			p.byName[l.From] = i
			p.slots[i].paths = map[netip.Addr]*path{}
		}
		s := p.slots[i]
		s.used = true
		if whole := !l.exact(); !s.bound || s.whole != whole {
			// newPlane has bound the first queue.
			if !s.bound && i > 0 {
				if err := p.socket.bind(firstQueue + uint16(i)); err != nil {
					return nil, fmt.Errorf("packet queue %d: %w", firstQueue+i, err)
				}
			}
			if err := p.socket.configure(firstQueue+uint16(i), whole); err != nil {
				return nil, fmt.Errorf("packet queue %d: %w", firstQueue+i, err)
			}
			s.bound, s.whole = true, whole
		}
		if s.link != l {
			s.link = l
			for _, way := range s.paths {
				way.set(&s.link)
			}
		}
		queues[l.From] = firstQueue + uint16(i)
	}
	return queues, nil
}

// freeSlot returns the index of a slot without a link.
func (p *plane) freeSlot() int {
	for i, s := range p.slots {
		if !s.used {
			s.counters = &counters{}
			return i
		}
	}
	p.slots = append(p.slots, &slot{counters: &counters{}})
	return len(p.slots) - 1
}

// forget frees the state of links that are not in queues, and of addresses outside the spans, because the rules no
// longer queue their packets. A slot with packets in flight remains until the next call.
func (p *plane) forget(queues map[string]uint16, spans4, spans6 []span) {
	for name, i := range p.byName {
		s := p.slots[i]
		if _, ok := queues[name]; !ok && s.counters.queuedPackets.Load() == 0 {
			delete(p.byName, name)
			s.used, s.link, s.paths = false, Link{}, nil
			continue
		}
		for a := range s.paths {
			spans := spans4
			if !a.Is4() {
				spans = spans6
			}
			if linkAt(spans, a) != name {
				delete(s.paths, a)
			}
		}
	}
}
