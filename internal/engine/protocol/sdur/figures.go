package sdur

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	protocol.TransactionsCoordinated,
	{
		Name: "locals", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Single-group transactions submitted.",
	},
	{
		Name: "globals", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Multi-group transactions submitted.",
	},
	{
		Name: "read_only", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Read-only transactions, which read at a cut.",
	},
	{
		Name: "conflicts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that certification aborted while the node was the leader.",
	},
	{
		Name: "false_positives", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that certification aborted only because of a collision in a filter.",
	},
	{
		Name: "too_old", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions aborted because their snapshot is older than the retained history.",
	},
	{
		Name: "prevented", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions aborted by a vote that was demanded.",
	},
	{
		Name: "leap_tries", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Local transactions delivered when there was a global transaction to leap over.",
	},
	{
		Name: "leaps", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Local transactions that leapt over global transactions.",
	},
	{
		Name: "waits_behind_globals", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Local transactions that passed certification and waited for global transactions.",
	},
	{Name: "votes", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs, Doc: "Votes sent."},
	{
		Name: "recoveries", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutRecovery,
		Doc: "Transactions for which a vote was demanded.",
	},
	protocol.LogEntries,
	{
		Name: "ticks", Kind: protocol.Counter, Unit: "entries", Topic: protocol.AboutLogs,
		Doc: "Entries added to a log only to record that time has passed.",
	},
	{
		Name: "terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
		Doc: "Terms that the node started to lead.",
	},
	{
		Name: "restored", Kind: protocol.Counter, Unit: "snapshots", Topic: protocol.AboutRecovery,
		Doc: "Snapshots of groups restored.",
	},
	{
		Name: "leads", Kind: protocol.Gauge, Unit: "groups", Topic: protocol.AboutRecovery,
		Doc: "Groups that the node leads.",
	},
	{
		Name: "pending", Kind: protocol.Gauge, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions delivered to the node's groups that have not ended.",
	},
}
