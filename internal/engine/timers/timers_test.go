package timers

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// Timers are returned in the order of their times, and none before its time. Timers with the same time are returned in
// the order in which they were set.
func TestQueueKeepsOrder(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		type set struct {
			at time.Duration
			id uint64
		}
		var q Queue
		var want, got []set
		for i := range uint64(r.IntN(100)) {
			s := set{time.Duration(r.IntN(10)), i}
			want = append(want, s)
			q.Push(s.at, protocol.Timer{Arg: s.id})
		}
		slices.SortStableFunc(want, func(a, b set) int { return cmp.Compare(a.at, b.at) })
		for now := time.Duration(-1); now < 10; now++ {
			for {
				timer, ok := q.PopDue(now)
				if !ok {
					break
				}
				got = append(got, set{now, timer.Arg})
			}
			if at, ok := q.Next(); ok && at <= now {
				t.Fatalf("seed %d: a timer of %d is left at %d", seed, at, now)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
