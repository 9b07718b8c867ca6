package wan

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestScheduleIsSortedAndStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s schedule
	pushed, popped := uint32(0), 0
	last := held{arrive: -1}
	for popped < 20_000 {
		if s.len() == 0 || rng.IntN(2) == 0 && pushed < 20_000 {
			// As in real time, no new packet arrives before a packet that has already left the schedule.
			s.push(held{arrive: max(last.arrive, 0) + time.Duration(rng.IntN(50)), id: pushed})
			pushed++
			continue
		}
		h := s.pop()
		popped++
		if h.arrive < last.arrive || h.arrive == last.arrive && h.id < last.id {
			t.Fatalf("packet %d for %d came after packet %d for %d", h.id, h.arrive, last.id, last.arrive)
		}
		last = h
	}
	if s.len() != int(pushed)-popped {
		t.Errorf("%d are left of %d less %d", s.len(), pushed, popped)
	}
}
