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

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// CutWithoutProof reports a batch as available when the batch is started, instead of when other replicas have it.
	CutWithoutProof = mistaken("minerva-cut-without-proof", cutWithoutProof)
	// CutWithoutProof reports a batch as available when its first transaction arrives, before other replicas have it.
	ReexecutedOnArrival = mistaken("minerva-reexecuted-on-arrival", arrivalOrder)
	// ReexecutedOnArrival re-executes transactions in the order in which their batches arrived at the replica.
	ForgottenCascade = mistaken("minerva-forgotten-cascade", forgottenCascade)
	// ForgottenCascade commits transactions that have read from re-executed transactions.
	OwnNumbering = mistaken("minerva-own-numbering", ownNumbering)
	// OwnNumbering numbers the vertices of the conflict graph starting with the chains of the replica that builds it.
	RowsOnly = mistaken("minerva-rows-only", rowsOnly)
	// RowsOnly validates only the rows that a scan has found, and misses rows that were inserted since.
	ClearedState = mistaken("minerva-cleared-state", clearedState)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
