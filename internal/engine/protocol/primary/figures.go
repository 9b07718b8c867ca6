package primary

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	protocol.TransactionsCoordinated,
	{
		Name: "relayed", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions relayed to the region's first node.",
	},
	{
		Name: "local_reads", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions answered from the local copy.",
	},
	{
		Name: "log_waits", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that waited until the local copy had reached a log position.",
	},
	{
		Name: "barriers", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Requests for the writer's position.",
	},
	{
		Name: "statements_forwarded", Kind: protocol.Counter, Unit: "statements", Topic: protocol.AboutLogs,
		Doc: "Statements forwarded to the writer.",
	},
	{
		Name: "transactions_forwarded", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Whole transactions forwarded to the writer.",
	},
	{
		Name: "requests_resent", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Requests sent again.",
	},
	{
		Name: "commits", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions committed as the writer.",
	},
	{
		Name: "aborts_stale_read", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that the writer aborted because a row that was read had changed.",
	},
	{
		Name: "aborts_session_lost", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions that the writer aborted because their session was lost.",
	},
	{
		Name: "requests_known", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Requests that the writer had already received.",
	},
	protocol.LogEntries,
	{
		Name: "entries_applied", Kind: protocol.Counter, Unit: "entries", Topic: protocol.AboutLogs,
		Doc: "Entries of a log applied to the copy.",
	},
	{
		Name: "failovers", Kind: protocol.Counter, Unit: "failovers", Topic: protocol.AboutRecovery,
		Doc: "Failovers that the node announced.",
	},
	{
		Name: "lost_transactions", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutRecovery,
		Doc: "Transactions that the node had committed as the writer and that were lost in an unplanned failover.",
	},
	{
		Name: "copies_restored", Kind: protocol.Counter, Unit: "copies", Topic: protocol.AboutRecovery,
		Doc: "Copies restored.",
	},
}
