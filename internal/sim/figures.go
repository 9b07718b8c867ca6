package sim

import (
	"fmt"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// figureEvents is the number of events between two looks at the figures of a node, each time of the next one: reading
// some twenty figures takes about as long as an event, and a scenario has hundreds of thousands of these.
const figureEvents = 32

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
