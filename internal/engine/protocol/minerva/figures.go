package minerva

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
	{Name: "batches", Kind: protocol.Counter, Unit: "batches", Topic: protocol.AboutBatches, Doc: "Batches sent."},
	{Name: "epochs", Kind: protocol.Counter, Unit: "epochs", Topic: protocol.AboutBatches, Doc: "Epochs committed."},
	{
		Name: "epoch_transactions", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions in committed epochs.",
	},
	{
		Name: "valid", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutTransactions,
		Doc: "Transactions in committed epochs whose first execution was valid.",
	},
	{
		Name: "reexecuted_stale", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions re-executed because a row had changed before the epoch.",
	},
	{
		Name: "reexecuted_cascading", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions re-executed because they depend on a re-executed transaction of an earlier epoch.",
	},
	{
		Name: "reexecuted_conflicting", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions re-executed because they conflict with other transactions of their epoch.",
	},
	{
		Name: "executed_first_at_commit", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutConflicts,
		Doc: "Transactions executed only at their commit, under high contention.",
	},
	{
		Name: "commit_chains", Kind: protocol.Counter, Unit: "chains", Topic: protocol.AboutWork,
		Doc: "Chains of transactions that commits examined.",
	},
	{
		Name: "commit_validated_rows", Kind: protocol.Counter, Unit: "rows", Topic: protocol.AboutWork,
		Doc: "Rows compared with their versions. Simulators charge CPU time for each.",
	},
	{
		Name: "commit_graph_accesses", Kind: protocol.Counter, Unit: "accesses", Topic: protocol.AboutWork,
		Doc: "Accesses added to conflict graphs.",
	},
	{
		Name: "commit_graph_vertices", Kind: protocol.Counter, Unit: "transactions", Topic: protocol.AboutWork,
		Doc: "Vertices of conflict graphs.",
	},
	{
		Name: "commit_graph_edges", Kind: protocol.Counter, Unit: "edges", Topic: protocol.AboutWork,
		Doc: "Edges of conflict graphs, counted at both ends.",
	},
	{
		Name: "commit_solver_exact", Kind: protocol.Counter, Unit: "components", Topic: protocol.AboutWork,
		Doc: "Components of conflict graphs solved exactly.",
	},
	{
		Name: "commit_solver_given_up", Kind: protocol.Counter, Unit: "components", Topic: protocol.AboutWork,
		Doc: "Components whose exact solution was abandoned.",
	},
	{
		Name: "commit_solver_nodes", Kind: protocol.Counter, Unit: "steps", Topic: protocol.AboutWork,
		Doc: "Nodes of search trees visited.",
	},
	{
		Name: "commit_solver_steps", Kind: protocol.Counter, Unit: "steps", Topic: protocol.AboutWork,
		Doc: "Steps of the solver. Simulators charge CPU time for each.",
	},
	{
		Name: "commit_applied_rows", Kind: protocol.Counter, Unit: "rows", Topic: protocol.AboutWork,
		Doc: "Rows written by commits.",
	},
	{
		Name: "commit_reexecuted_rows", Kind: protocol.Counter, Unit: "rows", Topic: protocol.AboutWork,
		Doc: "Rows read and written by re-executed transactions.",
	},
	{
		Name: "batch_requests", Kind: protocol.Counter, Unit: "messages", Topic: protocol.AboutLogs,
		Doc: "Requests for missing batches.",
	},
	{
		Name: "batches_passed_on", Kind: protocol.Counter, Unit: "batches", Topic: protocol.AboutLogs,
		Doc: "Batches of other nodes forwarded.",
	},
	{
		Name: "high_contention_modes", Kind: protocol.Counter, Unit: "changes", Topic: protocol.AboutConflicts,
		Doc: "Changes to the mode for high contention.",
	},
	{
		Name: "coordinator_terms", Kind: protocol.Counter, Unit: "terms", Topic: protocol.AboutRecovery,
		Doc: "Terms of coordinators that the node knows of.",
	},
}
