package queue

import "testing"

// For any sequence of pushes and pops, elements leave the queue in the order in which they entered.
func TestQueue(t *testing.T) {
	var q Queue[int]
	in, out := 0, 0
	for round := range 1000 {
		for range round % 7 {
			in++
			q.Push(in)
		}
		for range round % 5 {
			if q.Len() == 0 {
				break
			}
			if out++; q.Front() != out {
				t.Fatalf("got %d, want %d", q.Front(), out)
			}
			q.Pop()
		}
		if q.Len() > 0 && round%3 == 0 { // PushFront undoes a Pop
			v := q.Front()
			q.Pop()
			q.PushFront(v)
		}
		if q.Len() != in-out {
			t.Fatalf("length %d, want %d", q.Len(), in-out)
		}
	}
	for q.PushFront(-1); q.Len() > 0; q.Pop() {
		if q.Len() == in-out+1 && q.Front() != -1 {
			t.Errorf("%d is before what was pushed to the front", q.Front())
		}
	}
	if q.Front() != 0 {
		t.Error("an empty queue has a front")
	}
}
