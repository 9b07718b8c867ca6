package detock

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// figures declares the figures that Readings reports, in its order.
var figures = slices.Concat(
	locallog.Figures,
	[]protocol.Figure{
		{
			Name: "deadlocks_resolved", Kind: protocol.Counter, Unit: "deadlocks", Topic: protocol.AboutConflicts,
			Doc: "Deadlocks resolved, at the first partition of each copy. Every copy counts the same deadlocks: divide a sum over the database by the number of copies.",
		},
		{
			Name: "deadlocked", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Transactions that were part of a resolved deadlock, counted in the same way as `deadlocks_resolved`.",
		},
		{
			Name: "late_parts", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
			Doc: "Parts of transactions that arrived after their time.",
		},
		{
			Name: "resolver_steps", Kind: protocol.Counter, Unit: "steps", Topic: protocol.AboutWork,
			Doc: "Transactions, edges and requests that the node's resolver examined. The simulator charges 200 ns of CPU time for each.",
		},
	},
)
