package history

import (
	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/isolation"
)

// verifications maps the verifications that require a fixed level to this level.
var verifications = map[v1alpha1.Verification]isolation.Level{
	v1alpha1.VerifyReadCommitted:            isolation.ReadCommitted,
	v1alpha1.VerifySnapshotIsolation:        isolation.SnapshotIsolation,
	v1alpha1.VerifySessionSnapshotIsolation: isolation.SessionSnapshotIsolation,
	v1alpha1.VerifyStrongSnapshotIsolation:  isolation.StrongSnapshotIsolation,
	v1alpha1.VerifySerializable:             isolation.Serializable,
	v1alpha1.VerifySessionSerializable:      isolation.SessionSerializable,
	v1alpha1.VerifyStrictSerializable:       isolation.StrictSerializable,
}

// LevelOf returns the level that a verification requires of a database with the promised level. It returns false if the
// verification needs no history.
func LevelOf(v v1alpha1.Verification, promised isolation.Level) (isolation.Level, bool) {
	if v == v1alpha1.VerifyIsolation {
		return promised, true
	}
	l, ok := verifications[v]
	return l, ok
}

// Needed reports whether any of the verifications needs a history.
func Needed(verify []v1alpha1.Verification) bool {
	for _, v := range verify {
		if _, ok := LevelOf(v, 0); ok {
			return true
		}
	}
	return false
}

// LeastRecorded is the minimum size of a transaction in a history file, in bytes.
const LeastRecorded = 16

// Memory returns an upper bound of the bytes needed to check a history, including the history and its graph.
func Memory(transactions, operations int64) int64 { return transactions*220 + operations*80 }
