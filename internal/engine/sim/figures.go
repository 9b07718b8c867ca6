package sim

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figureEvents is the number of events between two readings of figures. Each reading takes the figures of the next
// node. Reading some twenty figures takes about as long as an event, and a scenario has hundreds of thousands of
// events.
const figureEvents = 32

// readOutcome holds an outcome against the reasons for which the engine declares that it aborts transactions.
func (s *Sim) readOutcome(o *txn.Outcome) {
	if o.Status == txn.Aborted && o.Cause != txn.CauseProcedure && !slices.Contains(s.c.Engine.Aborts, o.Reason) {
		s.c.Figures(fmt.Errorf("at %v: engine %s aborts transaction %v for %q, which Engine.Aborts does not "+
			"declare", s.now, s.c.Engine.Name, o.ID, o.Reason))
	}
}

// readFigures holds the readings of a node against the declarations of the engine. A dead node's replica is not read:
// its last readings are from a step that may not have ended.
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
