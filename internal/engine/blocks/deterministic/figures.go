package deterministic

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Figures declares the metrics that Stats reports.
var Figures = []protocol.Figure{
	{
		Name: "executed", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions executed.",
	},
	{
		Name: "multi_partition", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions executed that have rows of several partitions.",
	},
	{
		Name: "aborts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions executed and aborted by their procedure.",
	},
	{
		Name: "lock_waits", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that could not get all their locks at once.",
	},
	{
		Name: "remote_reads", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Transactions for which reads were sent, multiplied by the number of nodes that received them.",
	},
	{
		Name: "stale_footprints", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that touched rows which their reconnaissance had not found.",
	},
}
