package primary

import (
	"fmt"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// SmallCopies is the engine whose copies have at most so many bytes of rows, and how many pieces of them have come.
func SmallCopies(bytes int) (*protocol.Engine, *int) {
	pieces := 0
	return Engine.Variant("primary-small-copies", func(c protocol.Config) protocol.Replica {
		r := newReplica(c, none)
		r.copyBytes = bytes
		return &counting{r, &pieces}
	}), &pieces
}

type counting struct {
	*Replica
	pieces *int
}

func (c *counting) Receive(from geo.NodeID, m protocol.Message) {
	if piece, is := m.(*Copy); is {
		*c.pieces++
		if rows := piece.Size() - len(piece.Endings); rows > c.copyBytes+20 {
			panic(fmt.Sprintf("a piece of a copy has %d bytes", rows))
		}
	}
	c.Replica.Receive(from, m)
}
