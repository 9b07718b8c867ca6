package sunstorm

import (
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = []protocol.Figure{
	{
		Name: "transactions", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions taken.",
	},
	{
		Name: "forwarded", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions forwarded to the writer.",
	},
	{
		Name: "single_region", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutTransactions,
		Doc: "Attempts that touch the own region's rows alone.",
	},
	{
		Name: "multi_region", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutTransactions,
		Doc: "Attempts that touch other regions' rows.",
	},
	{
		Name: "outdated_tuple", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a row that was read had changed, at the writer that found it.",
	},
	{
		Name: "outdated_index_page", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts aborted because a page that was read had changed, at the writer that found it.",
	},
	{
		Name: "outdated_by_neighbours", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Attempts among `outdated_index_page` in which every row that was read was as before, and only its page was newer.",
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
		Doc: "Serialization failures by the readers' rule.",
	},
	{
		Name: "writer_rule", Kind: protocol.Counter, Unit: "attempts", Topic: protocol.AboutConflicts,
		Doc: "Serialization failures by the writers' rule.",
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
		Doc: "Validations made for other regions.",
	},
	{Name: "votes", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs, Doc: "Votes sent."},
	protocol.LogEntries,
	{
		Name: "entries_applied", Kind: protocol.Counter, Unit: "entries", Topic: protocol.AboutLogs,
		Doc: "Entries of a log applied to the copy.",
	},
}
