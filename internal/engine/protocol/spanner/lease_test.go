package spanner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
	"github.com/geobench/geobench/internal/engine/sim"
)

// repeating is a client that submits the same transaction again and again until a given time.
type repeating struct {
	env       protocol.ClientEnv
	stream    uint32
	ops       string
	until     time.Duration
	sent      uint64
	committed int
}

func (c *repeating) Start() { c.Fire(protocol.Timer{}) }

func (c *repeating) Fire(protocol.Timer) {
	if c.env.Now() >= c.until {
		return
	}
	c.sent++
	c.env.Submit(simload.Txn(txn.MakeID(c.stream, c.sent), c.ops))
}

func (c *repeating) Complete(o txn.Outcome) {
	if o.Status == txn.Committed {
		c.committed++
	}
	c.env.After(20*time.Millisecond, protocol.Timer{})
}

// isolated disconnects a leaseholder, sets its clock back at the same time, and lets the other members elect another
// leaseholder. A client then writes to the new leaseholder, while a client next to the old leaseholder reads.
func isolated(t *testing.T, setBack time.Duration) (h *history.History, read int) {
	t.Helper()
	topology := simload.ThreeRegions(1)
	procedures := simload.Traced
	s := sim.New(sim.Config{
		Topology: topology, Engine: spanner.Engine, Figures: protocoltest.Figures(t), Procedures: procedures, Seed: 1, Params: protocoltest.Params(t, spanner.Engine, nil),
		Costs: sim.DefaultCosts,
	})
	const row = "0" // of the first region
	simload.FillLayout(topology.Placed(), 1, 0, s.Store)
	var reader *repeating
	taps := &history.Taps{Placement: topology.Placement(), Procedures: procedures}
	for r, ops := range []string{"r" + row, "a" + row + "+1"} {
		alone := func(txn.ID) uint32 { return 0 }
		s.AddClient(geo.Region(r), taps.Client(topology.Regions[r], alone, func(env protocol.ClientEnv) protocol.Client {
			c := &repeating{env: env, stream: uint32(r) + 1, ops: ops, until: 12 * time.Second}
			if r == 0 {
				reader = c
			}
			return c
		}))
	}
	s.At(3*time.Second, func() {
		s.Cut(0, 1)
		s.Cut(0, 2)
		s.SetClock(0, -setBack)
		read = -reader.committed
	})
	s.At(10*time.Second, func() {
		s.Heal(0, 1)
		s.Heal(0, 2)
		read += reader.committed
	})
	s.Run(40 * time.Second)
	if n := s.Pending(); n > 0 {
		t.Errorf("%d transactions are pending on a quiet system", n)
	}
	if err := taps.Finish(); err != nil {
		t.Error(err)
	}
	return &taps.History, read
}

// A lease holds as long as clocks err by no more than clockBound in an election timeout. A larger error lets two nodes
// lead at the same time, and the checker detects the consequences.
func TestClockBound(t *testing.T) {
	for name, tc := range map[string]struct {
		setBack time.Duration
		wrong   string // the checker's verdict; empty for none
	}{
		"right":         {0, ""},
		"at the bound":  {250 * time.Millisecond, ""},
		"far beyond it": {5 * time.Second, "not strict-serializable"},
	} {
		t.Run(name, func(t *testing.T) {
			h, read := isolated(t, tc.setBack)
			t.Logf("%d reads of the leaseholder that is cut off", read)
			if read == 0 {
				t.Error("the leaseholder reads nothing under its lease once it is cut off")
			}
			v := history.Check(h, isolation.StrictSerializable)
			if message := v.Check().Message; v.Passed != (tc.wrong == "") || !strings.HasPrefix(message, tc.wrong) {
				t.Errorf("the checker says %q, want %q", message, tc.wrong)
			} else {
				t.Log(message)
			}
		})
	}
}
