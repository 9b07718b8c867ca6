package sim

import "time"

// event is a scheduled event. Events at the same instant happen in the order in which they were scheduled.
type event struct {
	at   time.Duration
	seq  uint64
	item int32
}

func (e *event) before(o *event) bool { return e.at < o.at || (e.at == o.at && e.seq < o.seq) }

// eventHeap is a heap with four children per node, which is flatter and has better cache locality than a binary heap.
type eventHeap struct {
	events []event
	seq    uint64
}

func (h *eventHeap) push(at time.Duration, item int32) {
	h.seq++
	e := event{at, h.seq, item}
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

// pop removes and returns the first event. The heap must not be empty.
func (h *eventHeap) pop() event {
	first := h.events[0]
	n := len(h.events) - 1
	// Fill the hole with the last event, which moves down from the root to its position.
	e := h.events[n]
	h.events = h.events[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if h.events[c].before(&h.events[least]) {
				least = c
			}
		}
		if !h.events[least].before(&e) {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = e
	return first
}
