package reconnaissance

import (
	"testing"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// world is an environment that ignores coverage marks and sends no messages.
type world struct{ protocol.Env }

func (world) Mark(*coverage.Mark)         {}
func (world) Buggify(*buggify.Point) bool { return false }

// A transaction with a moved row goes to the row's new home with the footprint that was found. It needs no second
// reconnaissance and does not count as stale. A transaction whose footprint was stale too often is aborted as a
// conflict.
func TestOutcome(t *testing.T) {
	r := &Reconnaissance{c: Config{Config: protocol.Config{Env: world{}}}, most: 1, open: map[txn.ID]*mission{7: {looks: 1}}}
	moved := txn.Outcome{ID: 7, Status: txn.Refused, Cause: txn.CauseMoved, Reason: "moved"}
	if !r.Outcome(&moved) || moved.Reason != "moved" || r.stale != 0 || r.open[7] == nil {
		t.Errorf("a row has moved: %+v, %d stale, open %v", moved, r.stale, r.open)
	}
	stale := txn.Outcome{ID: 7, Status: txn.Refused, Cause: txn.CauseStale, Class: txn.MultiHomeSinglePartition, Reason: "stale-footprint"}
	if !r.Outcome(&stale) || r.stale != 1 || r.open[7] != nil ||
		stale.Status != txn.Aborted || stale.Cause != txn.CauseConflict || stale.Reason != "stale-footprint" || stale.Class != txn.MultiHomeSinglePartition {
		t.Errorf("stale for the last time: %+v, %d stale, open %v", stale, r.stale, r.open)
	}
	if other := (txn.Outcome{ID: 8, Status: txn.Committed}); !r.Outcome(&other) || other.Status != txn.Committed {
		t.Errorf("a transaction that was not looked for: %+v", other)
	}
}
