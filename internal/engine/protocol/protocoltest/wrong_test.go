package protocoltest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// wrongEngine is set in the processes that TestWrongEngines starts. It selects the case that the process runs. The
// suite of that case must fail.
const wrongEngine = "PROTOCOLTEST_WRONG_ENGINE"

// The suites fail for faulty engines, and report the defect. Each case runs in a separate process, because its tests
// must fail.
func TestWrongEngines(t *testing.T) {
	for name, tc := range map[string]struct {
		suite func(*testing.T)
		want  string
	}{
		"what is said to be aborted is read": {
			func(t *testing.T) {
				protocoltest.Serializable(t, answering(oneInTen(txn.CauseConflict, "conflict")), nil, 1)
			}, "not strict-serializable",
		},
		"what is said to be aborted is scanned": {
			func(t *testing.T) { protocoltest.Groups(t, answering(oneInTen(txn.CauseConflict, "conflict")), nil) }, "not strict-serializable",
		},
		"procedures abort by themselves": {
			func(t *testing.T) {
				protocoltest.Groups(t, answering(oneInTen(txn.CauseProcedure, simload.ReasonSum)), nil)
			}, "procedures aborted, and their clients were told",
		},
		"transactions without a class": {
			func(t *testing.T) { protocoltest.Groups(t, answering(func(o *txn.Outcome) { o.Class = 0 }), nil) }, "committed transactions have a wrong Outcome.Class",
		},
		"no topology is right": {
			func(t *testing.T) {
				protocoltest.Groups(t, refusing("spec.regions", func(*geo.Topology) bool { return true }), nil)
			}, "takes none of the 3 topologies",
		},
		"a refusal names no field of a manifest": {
			func(t *testing.T) {
				protocoltest.Groups(t, refusing("replicas", func(t *geo.Topology) bool { return t.Replicas > 1 }), nil)
			}, `refuses a topology by "replicas"`,
		},
		"the one topology is not right": {
			func(t *testing.T) {
				protocoltest.Reproducible(t, refusing("spec.regions", func(*geo.Topology) bool { return true }), nil)
			}, "does not take the topology of",
		},
		"a counter falls": {
			func(t *testing.T) {
				protocoltest.Cuts(t, reporting(func(batches int64) protocol.Reading { return protocol.Reading{Name: "batches", Value: batches % 7} }), nil, 1)
			}, "counter batches of engine calvin fell from",
		},
		"a figure is not declared": {
			func(t *testing.T) {
				protocoltest.Groups(t, reporting(func(batches int64) protocol.Reading { return protocol.Reading{Name: "bunches", Value: batches} }), nil)
			}, "reports bunches, which Engine.Figures does not declare",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(wrongEngine) != "" {
				tc.suite(t)
				return
			}
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
			c.Env = append(os.Environ(), wrongEngine+"=1")
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v, and %q is not in\n%.2000s", err, tc.want, out)
			}
		})
	}
}

// The suites omit topologies that an engine refuses.
func TestRefusedShapes(t *testing.T) {
	protocoltest.Groups(t, refusing("spec.regions", func(t *geo.Topology) bool { return t.Replicas > 1 }), nil)
}

// refusing returns an engine that refuses some topologies with an error about the given field, and panics if it runs on
// one of them.
func refusing(field string, refuse func(*geo.Topology) bool) *protocol.Engine {
	e := *calvin.Engine
	e.CheckTopology = func(t *geo.Topology, _ protocol.Params) *protocol.TopologyError {
		if refuse(t) {
			return &protocol.TopologyError{Field: field, Message: "another topology"}
		}
		return nil
	}
	e.New = func(c protocol.Config) protocol.Replica {
		if refuse(c.Topology) {
			panic("the engine runs on a topology that it refuses")
		}
		return calvin.Engine.New(c)
	}
	return &e
}

// answering returns an engine that changes its answers before it sends them.
func answering(change func(*txn.Outcome)) *protocol.Engine {
	e := *calvin.Engine
	e.New = func(c protocol.Config) protocol.Replica {
		c.Env = liar{c.Env, change}
		return calvin.Engine.New(c)
	}
	return &e
}

type liar struct {
	protocol.Env
	change func(*txn.Outcome)
}

func (l liar) Reply(o txn.Outcome) {
	l.change(&o)
	l.Env.Reply(o)
}

// reporting returns an engine whose reading of the number of batches is replaced by another reading.
func reporting(change func(batches int64) protocol.Reading) *protocol.Engine {
	e := *calvin.Engine
	e.New = func(c protocol.Config) protocol.Replica { return miscounting{calvin.Engine.New(c), change} }
	return &e
}

type miscounting struct {
	protocol.Replica
	change func(int64) protocol.Reading
}

func (m miscounting) Readings(dst []protocol.Reading) []protocol.Reading {
	dst = m.Replica.Readings(dst)
	for i := range dst {
		if dst[i].Name == "batches" {
			dst[i] = m.change(dst[i].Value)
		}
	}
	return dst
}

// oneInTen replaces the outcome of one in ten committed transactions with the outcome of a failed transaction.
func oneInTen(cause txn.Cause, reason string) func(*txn.Outcome) {
	return func(o *txn.Outcome) {
		if o.Status == txn.Committed && o.ID%10 == 0 {
			*o = txn.Outcome{ID: o.ID, Status: txn.Aborted, Cause: cause, Reason: reason}
		}
	}
}
