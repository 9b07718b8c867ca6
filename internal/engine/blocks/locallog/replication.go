package locallog

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of the parameter replication.
const (
	Full     = "full"
	HomeOnly = "homeOnly"
)

// KeepsHomeOnly reports whether, by the parameter replication, rows are stored only in their home regions.
func KeepsHomeOnly(p protocol.Params) bool { return p.Word("replication") == HomeOnly }

// Place is a protocol.Engine.Place function for engines with the parameter replication. Every region holds all rows or,
// with HomeOnly, only the rows that have their home there.
func Place(t *geo.Topology, p protocol.Params) geo.Layout { return layout(t, KeepsHomeOnly(p)) }

func layout(t *geo.Topology, homeOnly bool) geo.Layout {
	if homeOnly {
		return t.HomeOnly()
	}
	return t.Full()
}

// Check is an engine's Check for the parameters replication, remaster, homeLogs and batchCopies. A row that is stored
// only at its home cannot move without its data.
func Check(p protocol.Params) []*protocol.ParamError {
	errs := checkReplicated(p)
	if !KeepsHomeOnly(p) || p.Int("remaster") == 0 {
		return errs
	}
	return append(errs, &protocol.ParamError{Name: "remaster", Message: fmt.Sprintf("%q moves rows to regions that keep no copy of them "+
		"with replication homeOnly: make it 0, or choose replication full", p["remaster"])})
}
