package protocoltest

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// recording is a simulation with the procedures of simload.Traced. It records the histories of the clients that its
// AddClient adds.
type recording struct {
	sim      *sim.Sim
	topology *geo.Topology
	taps     history.Taps
}

func newRecording(s *sim.Sim, t *geo.Topology) *recording {
	return &recording{s, t, history.Taps{Placement: t.Placement(), Procedures: simload.Traced}}
}

// processes is a client that consists of several processes: see history.Txn.Client.
type processes interface {
	// ClientOf returns the number of the process that has sent the given transaction. The transaction must be in flight.
	ClientOf(txn.ID) uint32
}

// maxProcesses is larger than the number of processes of any client.
const maxProcesses = 1 << 16

// AddClient implements simload.World.
func (r *recording) AddClient(region geo.Region, newClient func(protocol.ClientEnv) protocol.Client) {
	var client protocol.Client
	// Each client gets its own range of process numbers, so that two clients never share a number.
	first := uint32(r.taps.Len()) * maxProcesses
	process := func(id txn.ID) uint32 {
		// process reads client when a transaction is recorded, not now: the simulation creates the client only in the call of
		// AddClient below.
		if c, ok := client.(processes); ok {
			return first + c.ClientOf(id)
		}
		return first
	}
	r.sim.AddClient(region, r.taps.Client(r.topology.Regions[region], process, func(env protocol.ClientEnv) protocol.Client {
		client = newClient(env)
		return client
	}))
}

// check fails if the history violates the isolation level, or if a transaction's class does not match the rows that it
// has used.
func (r *recording) check(t *testing.T, level isolation.Level) {
	t.Helper()
	if err := r.taps.Finish(); err != nil {
		t.Errorf("history: %v", err)
	}
	if n, example := r.taps.Misclassified(); n > 0 {
		t.Errorf("%d committed transactions have a wrong Outcome.Class: %s", n, example)
	}
	v := history.Check(&r.taps.History, level)
	if !v.Passed {
		t.Error(v.Check().Message)
	}
	t.Log(v.Check().Message)
}
