package wire

import (
	"math"
	"sync"
	"time"
)

// start is the time at which Now is 0.
var start = time.Now()

// Now returns the time on the monotonic clock that this package and its alarms use.
func Now() time.Duration { return time.Since(start) }

const never = time.Duration(math.MaxInt64)

// Slack is the time by which an alarm may go off early. It is about the time needed to set the timer again and to wake
// up.
const Slack = 15 * time.Microsecond

// Alarm wakes a goroutine at a set time. The timers of the Go runtime are up to 1 ms late on an idle machine, because
// they round to the milliseconds of epoll_wait. Alarms use a kernel timer, shared by the process, and do not spin.
type Alarm struct {
	p  *pacer
	ch chan<- struct{}
	at time.Duration
	// place is the alarm's index in the pacer's heap, or -1 if the alarm is not set.
	place int
}

// NewAlarm returns an alarm that sends to ch when it goes off; ch needs a buffer of 1. If the buffer is full, the alarm
// drops the send, because a wake-up is already pending. The caller must call Close.
func NewAlarm(ch chan<- struct{}) *Alarm {
	pacers.Lock()
	defer pacers.Unlock()
	if pacers.users == 0 {
		pacers.p = newPacer()
	}
	pacers.users++
	return &Alarm{p: pacers.p, ch: ch, place: -1}
}

// pacers counts the users of the process's pacer. The pacer stops when there are no users left.
var pacers struct {
	sync.Mutex
	p     *pacer
	users int
}

// Close unsets and frees the alarm.
func (a *Alarm) Close() {
	a.Set(never)
	pacers.Lock()
	defer pacers.Unlock()
	if pacers.users--; pacers.users == 0 {
		pacers.p.stop()
		pacers.p = nil
	}
}

// Set makes the alarm go off once when Now reaches at, or immediately if at has passed. It replaces an earlier setting.
func (a *Alarm) Set(at time.Duration) {
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.at == at && a.place >= 0 {
		return
	}
	if a.place >= 0 {
		p.remove(a.place)
	}
	if at == never {
		return
	}
	a.at = at
	p.insert(a)
	// In all other cases, the kernel timer is already set for an earlier alarm.
	if p.heap[0] == a && at < p.armed {
		p.armed = at
		p.timer.arm(max(at-Now(), 1))
	}
}

// pacer owns the kernel timer and a heap of the alarms that are set.
type pacer struct {
	mu    sync.Mutex
	heap  []*Alarm
	armed time.Duration // time at which the timer goes off; never if it is not set
	timer kernelTimer
	done  chan struct{}
}

func newPacer() *pacer {
	p := &pacer{armed: never, timer: newKernelTimer(), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *pacer) stop() {
	p.timer.close()
	<-p.done
}

func (p *pacer) run() {
	defer close(p.done)
	for p.timer.wait() {
		p.mu.Lock()
		now := Now()
		for len(p.heap) > 0 && p.heap[0].at <= now+Slack {
			a := p.heap[0]
			p.remove(0)
			// Do not block: the channel already contains a wake-up.
			select {
			case a.ch <- struct{}{}:
			default:
			}
		}
		p.armed = never
		if len(p.heap) > 0 {
			p.armed = p.heap[0].at
			p.timer.arm(max(p.armed-now, 1))
		}
		p.mu.Unlock()
	}
}

func (p *pacer) insert(a *Alarm) {
	p.heap = append(p.heap, a)
	a.place = len(p.heap) - 1
	p.up(a.place)
}

func (p *pacer) remove(i int) {
	last := len(p.heap) - 1
	p.heap[i].place = -1
	if i != last {
		p.heap[i] = p.heap[last]
		p.heap[i].place = i
	}
	p.heap[last] = nil
	p.heap = p.heap[:last]
	if i != last {
		// The alarm now at index i may belong further down or further up.
		p.down(i)
		p.up(i)
	}
}

func (p *pacer) up(i int) {
	for i > 0 && p.heap[i].at < p.heap[(i-1)/2].at {
		p.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (p *pacer) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(p.heap) {
			return
		}
		if c+1 < len(p.heap) && p.heap[c+1].at < p.heap[c].at {
			c++
		}
		if p.heap[i].at <= p.heap[c].at {
			return
		}
		p.swap(i, c)
		i = c
	}
}

func (p *pacer) swap(i, j int) {
	p.heap[i], p.heap[j] = p.heap[j], p.heap[i]
	p.heap[i].place, p.heap[j].place = i, j
}
