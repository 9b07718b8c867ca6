package oceanvista

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
			Name: "snapshot_reads", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
			Doc: "Transactions accepted that read a snapshot or access no rows.",
		},
		{
			Name: "functors_issued", Kind: protocol.Counter, Unit: "functors", Topic: protocol.AboutLogs,
			Doc: "Functors issued.",
		},
		{
			Name: "functors_issued_again", Kind: protocol.Counter, Unit: "functors", Topic: protocol.AboutLogs,
			Doc: "Functors issued again.",
		},
		{
			Name: "functors_stored", Kind: protocol.Counter, Unit: "functors", Topic: protocol.AboutLogs,
			Doc: "Functors stored as a replica.",
		},
		{
			Name: "functors_kept", Kind: protocol.Gauge, Unit: "functors", Topic: protocol.AboutLogs,
			Doc: "Functors kept for replicas that may not have them.",
		},
		{Name: "gossip", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs, Doc: "Watermarks sent."},
		{
			Name: "gossip_held_back", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
			Doc: "Watermarks not sent because too many earlier ones were in flight.",
		},
		{
			Name: "suspected", Kind: protocol.Counter, Unit: "servers", Topic: protocol.AboutRecovery,
			Doc: "Servers suspected, as observed by the node.",
		},
		{
			Name: "functors_survived", Kind: protocol.Counter, Unit: "functors", Topic: protocol.AboutRecovery,
			Doc: "Functors of lost servers that a decision kept.",
		},
		{
			Name: "functors_never_written", Kind: protocol.Counter, Unit: "functors", Topic: protocol.AboutRecovery,
			Doc: "Functors of lost servers that a decision dropped.",
		},
		{
			Name: "joined", Kind: protocol.Counter, Unit: "servers", Topic: protocol.AboutRecovery,
			Doc: "Servers that joined, as observed by the node.",
		},
		{
			Name: "leader_terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
			Doc: "Terms of leaders of the membership.",
		},
	},
	deterministic.Figures,
	reconnaissance.Figures,
)
