package minerva

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake is what is wrong with a database that is wrong on purpose.
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

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// CutWithoutProof tells the coordinator that a batch is available when it is begun, and not when others have it.
	CutWithoutProof = mistaken("minerva-cut-without-proof", cutWithoutProof)
	// ReexecutedOnArrival executes transactions again in the order in which their batches have arrived.
	ReexecutedOnArrival = mistaken("minerva-reexecuted-on-arrival", arrivalOrder)
	// ForgottenCascade commits transactions that have read from others which are executed again.
	ForgottenCascade = mistaken("minerva-forgotten-cascade", forgottenCascade)
	// OwnNumbering numbers the vertices of the conflict graph from the replica's own on.
	OwnNumbering = mistaken("minerva-own-numbering", ownNumbering)
	// RowsOnly validates of a scan the rows that it has met, and not that there are no others.
	RowsOnly = mistaken("minerva-rows-only", rowsOnly)
	// ClearedState forgets at each epoch what its own transactions have written that are not committed yet.
	ClearedState = mistaken("minerva-cleared-state", clearedState)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
