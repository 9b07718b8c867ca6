package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = slices.Concat(
	[]protocol.Figure{
		protocol.TransactionsTaken,
		{
			Name: "fast_path", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Own transactions decided after one round trip.",
		},
		{
			Name: "slow_path", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Own transactions that needed a second round trip, because replicas had seen different dependencies.",
		},
		{
			Name: "dependencies", Kind: protocol.Counter, Unit: "dependencies", Topic: protocol.AboutConflicts,
			Doc: "Dependencies found as a replica.",
		},
		{
			Name: "inquiries", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
			Doc: "Inquiries sent for transactions that the node depends on and does not know.",
		},
		{
			Name: "recoveries", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutRecovery,
			Doc: "Transactions of lost or silent coordinators whose recovery the node started.",
		},
		{
			Name: "noops", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutRecovery,
			Doc: "Recovered transactions for which the node proposed a no-op.",
		},
		{
			Name: "restarts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Own transactions sent again because a recovery had made them no-ops.",
		},
		{
			Name: "scc_count", Kind: protocol.Counter, Unit: "components", Topic: protocol.AboutConflicts,
			Doc: "Strongly connected components of more than one transaction.",
		},
		{
			Name: "scc_max", Kind: protocol.Gauge, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Transactions in the largest strongly connected component so far.",
		},
		{
			Name: "records", Kind: protocol.Gauge, Unit: "records", Topic: protocol.AboutWork,
			Doc: "Records of transactions that the node holds.",
		},
		{
			Name: "keys", Kind: protocol.Gauge, Unit: "keys", Topic: protocol.AboutWork,
			Doc: "Keys for which the node holds conflicts.",
		},
	},
	deterministic.Figures,
	reconnaissance.Figures,
)
