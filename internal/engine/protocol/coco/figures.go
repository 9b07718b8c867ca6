package coco

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	protocol.TransactionsTaken,
	{
		Name: "executed", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions executed. They are answered once their epoch is committed.",
	},
	{
		Name: "conflicts_lock_held", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row to be written was locked.",
	},
	{
		Name: "conflicts_write_changed", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row to be written had another version than the one that was read.",
	},
	{
		Name: "conflicts_read_locked", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row that was only read was locked.",
	},
	{
		Name: "conflicts_read_changed", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row that was only read had changed its version.",
	},
	{
		Name: "retries", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts that the node retried.",
	},
	{
		Name: "writes", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Messages with writes that the node accepted as a primary or a copy.",
	},
	{Name: "epochs", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches, Doc: "Epochs committed."},
	{
		Name: "epochs_aborted", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches,
		Doc: "Epochs aborted.",
	},
	{
		Name: "views", Kind: protocol.Counter, Unit: "views", Topic: protocol.AboutRecovery,
		Doc: "Views that the node was a member of.",
	},
	{
		Name: "exclusions", Kind: protocol.Counter, Unit: "views", Topic: protocol.AboutRecovery,
		Doc: "Views that the node was excluded from.",
	},
	{
		Name: "snapshots_sent", Kind: protocol.Counter, Unit: "shards", Topic: protocol.AboutRecovery,
		Doc: "Snapshots of shards sent to new incarnations.",
	},
	{
		Name: "coordinator_terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
		Doc: "Terms of coordinators that the node knows of.",
	},
}
