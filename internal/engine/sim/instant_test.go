package sim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// restless is a replica that sets timers for the current instant. At 1 s it sets many timers at the same time, each of
// which sets further timers for a number of rounds.
type restless struct {
	env              protocol.Env
	at, each, rounds int
}

func (r *restless) Start() {
	for range r.at {
		r.env.After(time.Second, protocol.Timer{Kind: 1, Arg: uint64(r.rounds)})
	}
}

func (r *restless) Fire(t protocol.Timer) {
	for i := 0; i < r.each && t.Arg > 0; i++ {
		r.env.After(0, protocol.Timer{Kind: 1, Arg: t.Arg - 1})
	}
}
func (*restless) Submit(*txn.Transaction)                          {}
func (*restless) Receive(geo.NodeID, protocol.Message)             {}
func (*restless) Pending() int                                     { return 0 }
func (*restless) Readings(d []protocol.Reading) []protocol.Reading { return d }

// If time does not advance in a simulation, the simulation fails rather than running endlessly. Many events at the same
// time do not make it fail.
func TestStandstill(t *testing.T) {
	for name, tc := range map[string]struct {
		restless
		fails bool
	}{
		"a chain without end":           {restless{at: 1, each: 1, rounds: 1 << 40}, true},
		"each event asks for two":       {restless{at: 1, each: 2, rounds: 1 << 40}, true},
		"a long chain":                  {restless{at: 1, each: 1, rounds: 9_999}, false},
		"many at once":                  {restless{at: 200_000, each: 1, rounds: 3}, false},
		"long chains beside each other": {restless{at: 100, each: 1, rounds: 9_999}, false},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &protocol.Engine{Name: "restless", New: func(c protocol.Config) protocol.Replica {
				r := tc.restless
				r.env = c.Env
				return &r
			}}
			s := sim.New(sim.Config{Topology: simload.Topology(1, 1, [][]float64{{0}}), Engine: engine, Procedures: simload.Procedures})
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				s.Run(2 * time.Second)
				return nil
			}()
			if !tc.fails {
				if err != nil || s.Now() != 2*time.Second {
					t.Errorf("at %v: %v", s.Now(), err)
				}
				return
			}
			var still *sim.Standstill
			if !errors.As(err, &still) || still.At != time.Second || !strings.Contains(err.Error(), "stands still at 1s") ||
				!strings.Contains(err.Error(), "of a/0/0; ") {
				t.Errorf("got %v", err)
			}
		})
	}
}
