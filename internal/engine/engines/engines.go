// Package engines lists the protocols that geobench can deploy and simulate. To add a protocol, write its package below
// internal/engine/protocol and list it here.
package engines

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/coco"
	"github.com/geobench/geobench/internal/engine/protocol/detock"
	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/minerva"
	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

var all = []*protocol.Engine{
	calvin.Engine,
	coco.Engine,
	detock.Engine,
	geogauss.Engine,
	janus.Engine,
	minerva.Engine,
	oceanvista.Engine,
	primary.Engine,
	sdur.Engine,
	slog.Engine,
	spanner.Engine,
	sunstorm.Engine,
}

// All returns the engines, sorted by name. The caller owns the slice.
func All() []*protocol.Engine { return append([]*protocol.Engine(nil), all...) }

// Lookup returns the engine called name.
func Lookup(name string) (*protocol.Engine, bool) {
	for _, e := range all {
		if e.Name == name {
			return e, true
		}
	}
	return nil, false
}

// Names returns the names of the engines, sorted.
func Names() []string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names
}

// Of returns an engine and its complete parameters, or nil if there is no engine of that name or a parameter is
// invalid.
func Of(engine string, parameters map[string]string) (*protocol.Engine, protocol.Params) {
	e, ok := Lookup(engine)
	if !ok {
		return nil, nil
	}
	params, errs := e.Resolve(parameters)
	if len(errs) > 0 {
		return nil, nil
	}
	return e, params
}

// Layout returns the placement of rows on the nodes of a database. If the engine or a parameter is invalid, every
// region holds all rows.
func Layout(engine string, parameters map[string]string, t *geo.Topology) geo.Layout {
	e, params := Of(engine, parameters)
	if e == nil {
		return t.Full()
	}
	return e.Layout(t, params)
}

// Replaceable returns the nodes that a new incarnation can replace if the database has no journals.
func Replaceable(engine string, parameters map[string]string, t *geo.Topology) []geo.NodeID {
	e, params := Of(engine, parameters)
	if e == nil {
		return nil
	}
	return e.Replaceable(t, params)
}
