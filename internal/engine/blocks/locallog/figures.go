package locallog

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Figures declares the metrics that a Node reports, including the metrics of its executor and its reconnaissance.
var Figures = slices.Concat(
	[]protocol.Figure{
		{
			Name: "batches", Kind: protocol.Counter, Unit: "batches", Topic: protocol.AboutBatches,
			Doc: "Batches closed as a sequencer.",
		},
		protocol.TransactionsTaken,
		{
			Name: "forwarded", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Transactions forwarded to another node.",
		},
		{
			Name: "parts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Parts of multi-home transactions added to the own region's log.",
		},
	},
	deterministic.Figures,
	reconnaissance.Figures,
	[]protocol.Figure{
		{
			Name: "master_lookups", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Own transactions for which homes were looked up. Reported only with `masters: partition`.",
		},
		{
			Name: "multi_home", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Transactions executed that have rows of several homes.",
		},
		{
			Name: "remasterings", Kind: protocol.Counter, Unit: "rows", Topic: protocol.AboutRecovery,
			Doc: "Moves of a row to another home. Every node sees all of them.",
		},
		{
			Name: "restarts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Own transactions resent.",
		},
		{
			Name: "log_position", Kind: protocol.Gauge, Unit: protocol.UnitPosition, Topic: protocol.AboutLogs,
			Doc: "Position that the node's log has reached.",
		},
	},
)
