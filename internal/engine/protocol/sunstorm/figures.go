package sunstorm

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	{
		Name: "transactions", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions accepted.",
	},
	{
		Name: "forwarded", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions forwarded to the writer.",
	},
	{
		Name: "single_region", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutTransactions,
		Doc: "Attempts that access only rows of their own region.",
	},
	{
		Name: "multi_region", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutTransactions,
		Doc: "Attempts that access rows of other regions.",
	},
	{
		Name: "outdated_tuple", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row that was read had changed, counted at the writer that detected the change.",
	},
	{
		Name: "outdated_index_page", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a page that was read had changed, counted at the writer that detected the change.",
	},
	{
		Name: "outdated_by_neighbours", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts among `outdated_index_page` in which every row that was read was unchanged and only its page was newer.",
	},
	{
		Name: "serialization_failures", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted as serialization failures.",
	},
	{
		Name: "deadlock_preventions", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted to prevent a deadlock.",
	},
	{
		Name: "snapshots_too_old", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because their snapshot was too old.",
	},
	{
		Name: "reader_rule", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Serialization failures caused by the reader rule.",
	},
	{
		Name: "writer_rule", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Serialization failures caused by the writer rule.",
	},
	{
		Name: "waits_for_prepared", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Single-region transactions that waited for a prepared one.",
	},
	{
		Name: "multi_region_waits", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Multi-region transactions that waited for a prepared one.",
	},
	{
		Name: "validations", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Validations performed for other regions.",
	},
	{Name: "votes", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs, Doc: "Votes sent."},
	protocol.LogEntries,
	{
		Name: "entries_applied", Kind: protocol.Counter, Unit: "entries", Topic: protocol.AboutLogs,
		Doc: "Entries of a log applied to the copy.",
	},
}
