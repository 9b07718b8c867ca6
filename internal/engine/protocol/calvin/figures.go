package calvin

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports.
var figures = slices.Concat(
	[]protocol.Figure{
		{
			Name: "batches", Kind: protocol.Counter, Unit: "batches", Topic: protocol.AboutBatches,
			Doc: "Batches closed as a sequencer.",
		},
		protocol.TransactionsTaken,
	},
	deterministic.Figures,
	reconnaissance.Figures,
	[]protocol.Figure{
		{
			Name: "log_position", Kind: protocol.Gauge, Unit: protocol.UnitPosition, Topic: protocol.AboutLogs,
			Doc: "Position that the node's log has reached.",
		},
		{
			Name: "log_term", Kind: protocol.Gauge, Unit: protocol.UnitTerm, Topic: protocol.AboutRecovery,
			Doc: "Term of the log's leader.",
		},
		{
			Name: "log_fetches", Kind: protocol.Counter, Unit: "requests", Topic: protocol.AboutLogs,
			Doc: "Number of times that the node requested missing log positions.",
		},
		{
			Name: "epoch_jumps", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches,
			Doc: "Epochs that a sequencer closed early because another node had closed a later one.",
		},
		{
			Name: "void_batches", Kind: protocol.Counter, Unit: "batches", Topic: protocol.AboutBatches,
			Doc: "Batches that got a log position without their data and were skipped, counted by each scheduler that held a part.",
		},
	},
)
