// Package timers stores the timers of a state machine that a driver runs in real time: a replica, or the clients of a
// worker.
package timers

import (
	"time"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// Queue returns timers in the order of their times; timers with the same time are in the order in which they were set.
// The zero value is an empty queue. Queue is a binary heap, and not safe for concurrent use.
type Queue struct {
	items []item
	count uint64
}

type item struct {
	at    time.Duration
	order uint64
	timer protocol.Timer
}

func (a *item) before(b *item) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// Next returns the time of the first timer; ok is false if there is none.
func (q *Queue) Next() (at time.Duration, ok bool) {
	if len(q.items) == 0 {
		return 0, false
	}
	return q.items[0].at, true
}

// Push adds a timer that fires at the time at on the driver's clock.
func (q *Queue) Push(at time.Duration, t protocol.Timer) {
	q.items = append(q.items, item{at, q.count, t})
	q.count++
	for i := len(q.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.items[i].before(&q.items[up]) {
			return
		}
		q.items[i], q.items[up] = q.items[up], q.items[i]
		i = up
	}
}

// PopDue removes and returns the first timer if its time is not later than now.
func (q *Queue) PopDue(now time.Duration) (protocol.Timer, bool) {
	if len(q.items) == 0 || q.items[0].at > now {
		return protocol.Timer{}, false
	}
	t := q.items[0].timer
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items[last] = item{}
	q.items = q.items[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return t, true
		}
		if child+1 < last && q.items[child+1].before(&q.items[child]) {
			child++
		}
		if !q.items[child].before(&q.items[i]) {
			return t, true
		}
		q.items[i], q.items[child] = q.items[child], q.items[i]
		i = child
	}
}
