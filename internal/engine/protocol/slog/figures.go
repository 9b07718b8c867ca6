package slog

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports.
var figures = slices.Concat(
	locallog.Figures,
	[]protocol.Figure{
		{
			Name: "orderer_position", Kind: protocol.Gauge, Unit: protocol.UnitPosition, Topic: protocol.AboutLogs,
			Doc: "Position that the log of multi-home transactions has reached.",
		},
		{
			Name: "orderer_term", Kind: protocol.Gauge, Unit: protocol.UnitTerm, Topic: protocol.AboutRecovery,
			Doc: "Term of the leader of the log of multi-home transactions.",
		},
	},
)
