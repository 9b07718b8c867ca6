package minerva

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	cutWithoutProof
	arrivalOrder
	forgottenCascade
	ownNumbering
	rowsOnly
	clearedState
)

// Faulty variants with plausible defects. No engine table lists them; tests use them to verify that the checker finds
// the defects (package broken).
var (
	// CutWithoutProof reports a batch as available when its first transaction arrives, before other replicas have it.
	CutWithoutProof = mistaken("minerva-cut-without-proof", cutWithoutProof)
	// ReexecutedOnArrival re-executes transactions in the order in which their batches arrived at the replica.
	ReexecutedOnArrival = mistaken("minerva-reexecuted-on-arrival", arrivalOrder)
	// ForgottenCascade commits transactions that have read from re-executed transactions.
	ForgottenCascade = mistaken("minerva-forgotten-cascade", forgottenCascade)
	// OwnNumbering numbers the vertices of the conflict graph starting with the chains of the replica that builds it.
	OwnNumbering = mistaken("minerva-own-numbering", ownNumbering)
	// RowsOnly validates only the rows that a scan has found, and misses rows that were inserted into the range later.
	RowsOnly = mistaken("minerva-rows-only", rowsOnly)
	// ClearedState discards the uncommitted writes of the replica's transactions at each epoch.
	ClearedState = mistaken("minerva-cleared-state", clearedState)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
