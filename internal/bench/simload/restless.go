package simload

import (
	"fmt"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/engine/sim"
)

// still is the time for which Restless watches the rows. It is longer than any timer that delays writes.
const still = time.Second

// Restless watches the rows of a database without pending transactions and messages. It returns a description of the
// nodes whose rows change, or "" if there are none. It ignores nodes that do not run.
func Restless(s *sim.Sim, t *geo.Topology) string {
	digests := func() []uint64 {
		all := make([]uint64, t.Nodes())
		for n := range all {
			if id := geo.NodeID(n); !s.Node(id).Dead {
				all[n] = store.Digest(s.Store(id))
			}
		}
		return all
	}
	before := digests()
	s.Run(s.Now() + still)
	var restless []string
	for n, d := range digests() {
		if d != before[n] {
			restless = append(restless, t.NodeName(geo.NodeID(n)))
		}
	}
	if restless == nil {
		return ""
	}
	return fmt.Sprintf("rows of %s changed when no node had anything pending, every transaction was answered and every message handled that had been sent: "+
		"Pending must count what is still to be written", strings.Join(restless, ", "))
}
