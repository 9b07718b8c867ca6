package deterministic

import (
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// keeper records the calls of an executor.
type keeper struct {
	served []string
	values map[Place][]Value
	over   map[Place]bool
}

func (k *keeper) Served(at Place, to int, values []Value) {
	k.served = append(k.served, fmt.Sprintf("%v to %d", at, to))
	k.values[at] = values
}
func (k *keeper) Ended(at Place)     { k.over[at] = true }
func (k *keeper) Over(at Place) bool { return k.over[at] }

// If reads arrive twice, only the first ones count, whether they arrive before or after the transaction. Reads for a
// finished transaction do not count. The values read can be sent again.
func TestReadsTwice(t *testing.T) {
	for name, early := range map[string]bool{"early": true, "late": false} {
		t.Run(name, func(t *testing.T) {
			s, k := newScene(false, false), &keeper{values: map[Place][]Value{}, over: map[Place]bool{}}
			s.x.c.Keeper = k
			id := txn.MakeID(1, 1)
			at := PlaceOf(id, 0)
			hear := func(n int) {
				for range n {
					s.hear(id, 5, false)
				}
			}
			if early {
				hear(2)
			}
			s.x.Run(at, simload.Txn(id, "a0+1 a1+1"), 0)
			if !early {
				hear(1)
			}
			s.expect(t, "it has run", "t1.1 committed 0=11 1=6; reads: 1.1=000000000000000a")
			hear(2)
			s.x.Run(PlaceOf(txn.MakeID(1, 2), 0), simload.Txn(txn.MakeID(1, 2), "a0+1"), 0)
			s.expect(t, "so has another", "t1.2 committed 0=12")
			if len(s.x.running) > 0 || !k.over[at] || !k.over[PlaceOf(txn.MakeID(1, 2), 0)] || len(k.served) != 1 {
				t.Errorf("%d are running, %v are over, %v was served", len(s.x.running), k.over, k.served)
			}
			s.x.ServeAgain(at, 1, k.values[at])
			s.expect(t, "its reads are sent again", "reads: 1.1=000000000000000a")
		})
	}
}

// If the coordinator's partition does not run the transaction, the lowest active partition of the coordinator's copy
// sends the outcome to the coordinator.
func TestAnswersElsewhere(t *testing.T) {
	s := newScene(false, false)
	for ops, want := range map[string]map[geo.NodeID]bool{
		"a0+1":      {0: false, 1: true, 2: false},
		"a0+1 r1":   {0: false, 1: true, 3: false},
		"a0+1 a1+1": {1: false},
		"r0 r1":     {1: true},
		"r0 a1+1":   {1: false},
	} {
		for n, answers := range want {
			if s.x.AnswersElsewhere(simload.Txn(1, ops), n) != answers {
				t.Errorf("%s of node %d: want %v", ops, n, answers)
			}
		}
	}
}
