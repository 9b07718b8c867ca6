package sim_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// caller sends every other node, every 5 ms, its own incarnation and the latest incarnation of the receiver that it
// knows. It records errors in the messages that it receives.
type caller struct {
	c      protocol.Config
	others map[geo.NodeID]uint32
	got    map[uint32]int // number of messages from node 0, by incarnation
	wrong  func(format string, args ...any)
}

func (c *caller) Start()                  { c.Fire(protocol.Timer{}) }
func (c *caller) Submit(*txn.Transaction) {}
func (c *caller) Receive(from geo.NodeID, m protocol.Message) {
	body := m.(*note).body
	own, taken := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:])
	if own != c.others[from] {
		c.wrong("node %d, incarnation %d, gets a message of incarnation %d of node %d and was told of %d", c.c.Self, c.c.Incarnation, own, from, c.others[from])
	}
	if taken != c.c.Incarnation {
		c.wrong("node %d, incarnation %d, gets a message of node %d for incarnation %d", c.c.Self, c.c.Incarnation, from, taken)
	}
	if from == 0 {
		c.got[own]++
	}
}
func (c *caller) Fire(t protocol.Timer) {
	protocol.Others(c.c.Topology.Nodes(), c.c.Self, func(n geo.NodeID) {
		c.c.Env.Send(n, &note{1, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, c.c.Incarnation), c.others[n])})
	})
	c.c.Env.After(5*time.Millisecond, t)
}
func (c *caller) Pending() int                                     { return 0 }
func (c *caller) Readings(d []protocol.Reading) []protocol.Reading { return d }
func (c *caller) FullyReplicated() bool                            { return true }
func (c *caller) Replaced(n geo.NodeID, incarnation uint32)        { c.others[n] = incarnation }

// A link belongs to an incarnation. No node receives a message for its predecessor. After the announcement of another
// node's new incarnation, it receives nothing from the earlier one. This must hold for messages that are in flight,
// delayed by a cut, in a queue, or waiting for a disk. New incarnations start with only the rows that every node
// stores.
func TestReplace(t *testing.T) {
	now := map[geo.NodeID]*caller{}
	engine := &protocol.Engine{Name: "caller", Decode: echoEngine.Decode, New: func(c protocol.Config) protocol.Replica {
		now[c.Self] = &caller{c: c, others: map[geo.NodeID]uint32{}, got: map[uint32]int{}, wrong: t.Errorf}
		return now[c.Self]
	}}
	s := sim.New(sim.Config{
		Topology: simload.ThreeRegions(1), Engine: engine, Procedures: simload.Procedures, CheckCodec: true, Seed: 7,
		Costs: sim.Costs{Message: time.Millisecond},
	})
	everywhere := txn.EverywhereKey(simload.Table, []byte("known"))
	s.Store(0).Load(simload.Key(1), []byte("lost"))
	s.Store(0).Load(everywhere, []byte("known"))
	s.HoldOutput(1, 20*time.Millisecond, 50)
	s.HoldOutput(0, 20*time.Millisecond, 50)
	lose := func(n geo.NodeID, away time.Duration) {
		s.Crash(n)
		s.Run(s.Now() + away)
		s.Replace(n)
	}
	s.Run(time.Second)
	lose(0, 0)
	s.Run(s.Now() + 10*time.Millisecond) // the announcement has not reached the other nodes
	lose(1, time.Millisecond)
	s.Run(s.Now() + time.Second)
	s.Cut(0, 2)
	s.Run(s.Now() + 200*time.Millisecond)
	lose(0, 50*time.Millisecond)
	s.Run(s.Now() + time.Second)
	if got := now[2].got; got[2] > 0 {
		t.Errorf("a message has crossed a cut: %v", got)
	}
	s.Heal(0, 2)
	s.Run(s.Now() + 2*time.Second)
	if got := now[2].got; got[0] == 0 || got[1] == 0 || got[2] == 0 {
		t.Errorf("node 2 has these messages of the incarnations of node 0: %v", got)
	}
	for n, c := range now {
		for m, incarnation := range map[geo.NodeID]uint32{0: 2, 1: 1, 2: 0} {
			if m != n && c.others[m] != incarnation {
				t.Errorf("node %d takes node %d for incarnation %d, it is %d", n, m, c.others[m], incarnation)
			}
		}
	}
	if _, known := s.Store(0).Get(everywhere); !known || s.Store(0).Len() != 1 {
		t.Errorf("a new incarnation begins with %d rows, want what is everywhere", s.Store(0).Len())
	}
}
