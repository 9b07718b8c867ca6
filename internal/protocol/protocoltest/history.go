package protocoltest

import (
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/txn"
)

// recording is a simulation of simtest.Traced that records what the clients added through it know.
type recording struct {
	sim      *sim.Sim
	topology *geo.Topology
	history  history.History
	taps     []*history.Tap
}

// processes is a client that consists of several: see history.Txn.Client.
type processes interface {
	// ClientOf returns the number of the one that sent a transaction which is under way.
	ClientOf(txn.ID) uint32
}

// maxProcesses is more than the processes of any client.
const maxProcesses = 1 << 16

// AddClient implements simtest.World.
func (r *recording) AddClient(region geo.Region, newClient func(protocol.ClientEnv) protocol.Client) {
	n, first := r.history.Region(r.topology.Regions[region]), uint32(len(r.taps))*maxProcesses
	r.sim.AddClient(region, func(env protocol.ClientEnv) protocol.Client {
		var client protocol.Client
		tap := history.NewTap(env, history.TapConfig{
			Placement: r.topology.Placement(), Procedures: simtest.Traced,
			Client: func(id txn.ID) uint32 {
				if c, ok := client.(processes); ok {
					return first + c.ClientOf(id)
				}
				return first
			},
			Record: func(t *history.Txn) { r.history.Add(n, t) },
		})
		r.taps = append(r.taps, tap)
		client = newClient(tap)
		return tap.Attach(client)
	})
}

// check fails unless the history has the level, and all transactions the class of the rows that they used.
func (r *recording) check(t *testing.T, level isolation.Level) {
	t.Helper()
	for _, tap := range r.taps {
		if err := tap.Finish(); err != nil {
			t.Errorf("history: %v", err)
		}
		if n, example := tap.Misclassified(); n > 0 {
			t.Errorf("%d committed transactions have a wrong Outcome.Class: %s", n, example)
		}
	}
	v := history.Check(&r.history, level)
	if !v.Passed {
		t.Error(v.Check().Message)
	}
	t.Log(v.Check().Message)
}
