package spanner

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	protocol.TransactionsCoordinated,
	{
		Name: "commits_one_group", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions committed within one group.",
	},
	{
		Name: "commits_several_groups", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions committed across several groups.",
	},
	{
		Name: "read_only", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Read-only transactions.",
	},
	{
		Name: "snapshot_reads", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions that read a snapshot without locks.",
	},
	{
		Name: "wounds", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that the node wounded as a leaseholder, in favour of an older transaction.",
	},
	{
		Name: "restarts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Own transactions resent after a leaseholder was lost.",
	},
	{
		Name: "recoveries", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutRecovery,
		Doc: "Transactions of lost or silent coordinators whose recovery the node started.",
	},
	{
		Name: "lease_waits", Kind: protocol.Counter, Unit: "requests", Topic: protocol.AboutConflicts,
		Doc: "Requests that waited for the lease.",
	},
	protocol.LogEntries,
	{
		Name: "terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
		Doc: "Terms that the node started to lead.",
	},
	{
		Name: "restored", Kind: protocol.Counter, Unit: "snapshots", Topic: protocol.AboutRecovery,
		Doc: "Snapshots of groups restored.",
	},
	{
		Name: "leases", Kind: protocol.Gauge, Unit: "leases", Topic: protocol.AboutRecovery,
		Doc: "Leases that the node holds.",
	},
	{
		Name: "prepared", Kind: protocol.Gauge, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions prepared in the logs of the node's groups that have not ended.",
	},
}
