package wan

import "time"

// held is a delayed packet.
type held struct {
	arrive time.Duration
	// order breaks ties: packets that arrive at the same instant keep their order.
	order uint64
	id    uint32
	slot  uint16
	bytes uint32
}

// schedule is a heap of the delayed packets, with the next packet to arrive at the top.
type schedule struct {
	heap  []held
	count uint64
}

func (s *schedule) len() int { return len(s.heap) }

// next returns the packet that arrives first. The schedule must not be empty.
func (s *schedule) next() *held { return &s.heap[0] }

func (s *schedule) less(i, j int) bool {
	a, b := &s.heap[i], &s.heap[j]
	return a.arrive < b.arrive || a.arrive == b.arrive && a.order < b.order
}

func (s *schedule) push(h held) {
	s.count++
	h.order = s.count
	s.heap = append(s.heap, h)
	for i := len(s.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.less(i, parent) {
			break
		}
		s.heap[i], s.heap[parent] = s.heap[parent], s.heap[i]
		i = parent
	}
}

func (s *schedule) pop() held {
	top, last := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}
