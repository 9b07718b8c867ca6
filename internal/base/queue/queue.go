// Package queue implements a first-in, first-out queue for state machines. The queue reuses its memory.
package queue

import "slices"

// Queue is a first-in, first-out queue. The zero value is empty.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push appends v.
func (q *Queue[T]) Push(v T) { q.items = append(q.items, v) }

// PushFront inserts v before all other elements.
func (q *Queue[T]) PushFront(v T) {
	if q.head == 0 {
		q.items = slices.Insert(q.items, 0, v)
		return
	}
	q.head--
	q.items[q.head] = v
}

// Front returns the oldest element, or a zero value if the queue is empty.
func (q *Queue[T]) Front() (v T) {
	if q.head < len(q.items) {
		v = q.items[q.head]
	}
	return v
}

// Pop drops the oldest element. The queue must not be empty.
func (q *Queue[T]) Pop() {
	// Clear the slot, so that the element can be garbage collected.
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		// Compact only when at least half of the memory is unused, so that on average each pop moves at most about one
		// element.
	} else if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// Each calls f for every element, oldest first.
func (q *Queue[T]) Each(f func(T)) {
	for _, v := range q.items[q.head:] {
		f(v)
	}
}

// Clone returns a queue with the same elements.
func (q *Queue[T]) Clone() Queue[T] { return Queue[T]{items: slices.Clone(q.items[q.head:])} }
