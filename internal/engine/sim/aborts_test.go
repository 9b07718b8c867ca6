package sim

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// If an engine aborts a transaction for an undeclared reason, this is reported. Reasons of procedures need no
// declaration.
func TestUndeclaredAbortsAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome txn.Outcome
		told    bool
	}{
		"declared":        {txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "wounded"}, false},
		"another":         {txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "overtaken"}, true},
		"by a node":       {txn.Outcome{Status: txn.Aborted, Cause: txn.CauseNode, Reason: "overtaken"}, true},
		"no reason":       {txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict}, true},
		"of a procedure":  {txn.Outcome{Status: txn.Aborted, Cause: txn.CauseProcedure, Reason: "no-record"}, false},
		"not aborted":     {txn.Outcome{Status: txn.Refused, Cause: txn.CauseNode, Reason: "too-far-behind"}, false},
		"it is committed": {txn.Outcome{Status: txn.Committed}, false},
	} {
		told := false
		s := &Sim{c: Config{Engine: &protocol.Engine{Name: "e", Aborts: []string{"wounded"}},
			Figures: func(error) { told = true }}}
		if s.readOutcome(&tc.outcome); told != tc.told {
			t.Errorf("%s: told %v, want %v", name, told, tc.told)
		}
	}
}
