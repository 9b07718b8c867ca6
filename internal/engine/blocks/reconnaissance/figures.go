package reconnaissance

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Figures declares the metrics that a Reconnaissance reports.
var Figures = []protocol.Figure{
	{
		Name: "reconnaissances", Kind: protocol.Counter, Unit: "footprints", Topic: protocol.AboutTransactions,
		Doc: "Footprints that a reconnaissance found.",
	},
	{
		Name: "reconnaissances_stale", Kind: protocol.Counter, Unit: "footprints", Topic: protocol.AboutConflicts,
		Doc: "Footprints that were found again because the first no longer held.",
	},
}
