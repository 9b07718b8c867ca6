package checkpoint

import (
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

var _ = Register[txn.Abort]()

// NewWorld returns the World of a replica of engine e with configuration c.
func NewWorld(e *protocol.Engine, c *protocol.Config) *World {
	w := &World{
		Objects: []any{c.Env, c.Store, c.Topology, c.Procedures, txn.ErrNotFound, txn.ErrUndeclared, txn.ErrProcedure},
		Decode: func(kind uint8, body []byte) (protocol.Message, error) {
			return e.Decode(kind, body, c.Procedures)
		},
	}
	c.Procedures.Each(func(p *txn.Procedure) { w.Objects = append(w.Objects, p) })
	return w
}
