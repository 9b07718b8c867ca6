package explore

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// checkpointRetry is the pause before a node makes another attempt to write its state. An attempt fails while an
// operation is incomplete.
const checkpointRetry = 100 * time.Microsecond

// writeCheckpoints schedules checkpoints: each node writes its state one to ten times, at random times until one second
// after the last transaction is sent.
func (e *execution) writeCheckpoints() {
	r := newRNG(e.world.seed, streamCheckpoints)
	for n := range geo.NodeID(e.world.topology.Nodes()) {
		for range 1 + r.IntN(10) {
			at, swap := upTo(r, e.world.load.until+time.Second), r.IntN(2) == 0
			e.sim.At(at, func() { e.writeCheckpoint(n, swap, 100) })
		}
	}
}

// writeCheckpoint makes a node write its state as soon as the node can. It gives up after the given number of attempts.
// If swap is set, the node continues from the written state.
func (e *execution) writeCheckpoint(n geo.NodeID, swap bool, attempts int) {
	// Checkpoint returns 0 for a node that is down or in the middle of an operation.
	if size := e.sim.Checkpoint(n, swap); size > 0 {
		e.written++
		e.largest = max(e.largest, size)
	} else if attempts > 1 {
		e.sim.At(e.sim.Now()+checkpointRetry, func() { e.writeCheckpoint(n, swap, attempts-1) })
	}
}
