package geogauss

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	protocol.TransactionsTaken,
	{
		Name: "snapshot_reads", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Read-only transactions accepted; they read a snapshot.",
	},
	{
		Name: "epochs_ended", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches,
		Doc: "Own epochs ended.",
	},
	{
		Name: "epochs_merged", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches,
		Doc: "Epochs with write sets that were merged.",
	},
	{
		Name: "write_sets", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Write sets in merged epochs.",
	},
	{
		Name: "committed", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Write sets that were committed.",
	},
	{
		Name: "aborts_row_lost", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Own transactions aborted because another transaction of the epoch won a row (reason `row-lost`).",
	},
	{
		Name: "aborts_row_changed", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Own transactions aborted because a row changed after their snapshot (reason `row-changed`).",
	},
	{
		Name: "aborts_snapshot_too_old", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Own transactions aborted because 2,000 epochs with write sets have followed their snapshot (reason `snapshot-too-old`).",
	},
	{
		Name: "aborts_left_out", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Own transactions aborted because the server was excluded (reason `server-left-out`).",
	},
	{
		Name: "rows_applied", Kind: protocol.Counter, Unit: "rows", Topic: protocol.AboutWork,
		Doc: "Rows written by merged epochs.",
	},
	{
		Name: "epoch_requests", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Requests for missing epochs.",
	},
	{
		Name: "epochs_passed_on", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutLogs,
		Doc: "Epochs of other servers forwarded.",
	},
	{
		Name: "servers_left", Kind: protocol.Counter, Unit: "servers", Topic: protocol.AboutRecovery,
		Doc: "Servers that left the view.",
	},
	{
		Name: "servers_joined", Kind: protocol.Counter, Unit: "servers", Topic: protocol.AboutRecovery,
		Doc: "Servers that joined the view.",
	},
	{
		Name: "leader_terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
		Doc: "Terms of leaders of the membership.",
	},
}
