package sim

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figureEvents is the number of events between two readings of metrics. Each reading covers a single node, and the
// nodes take turns. Reading some twenty metrics takes about as long as an event, and a scenario has hundreds of
// thousands of events.
const figureEvents = 32

// readOutcome reports an abort whose reason the engine does not declare.
func (s *Sim) readOutcome(o *txn.Outcome) {
	// Reasons of procedures belong to the workload, not to the engine.
	if o.Status == txn.Aborted && o.Cause != txn.CauseProcedure && !slices.Contains(s.c.Engine.Aborts, o.Reason) {
		s.c.Figures(fmt.Errorf("at %v: engine %s aborts transaction %v for %q, which Engine.Aborts does not "+
			"declare", s.now, s.c.Engine.Name, o.ID, o.Reason))
	}
}

// readFigures compares a node's readings with the engine's declarations. It skips a dead node, whose replica may have
// stopped in the middle of a step.
func (s *Sim) readFigures(n *node) {
	if n.dead {
		return
	}
	s.readings = n.replica.Readings(s.readings[:0])
	if n.figures == nil {
		n.figures = protocol.NewFigureWatch(s.c.Engine)
	}
	if err := n.figures.Look(s.readings); err != nil {
		s.c.Figures(fmt.Errorf("node %s at %v: %w", s.c.Topology.NodeName(geo.NodeID(n.id)), s.now, err))
	}
}
