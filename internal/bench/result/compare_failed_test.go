package result

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestFailedSideIsNoImprovement checks that a faster database is not better if it loses money or leaves a region
// unanswered.
func TestFailedSideIsNoImprovement(t *testing.T) {
	for _, why := range []string{ReasonCheckFailed, ReasonUnanswered} {
		sound, failed := repeated(1000, 1010, 990, 1005, 995), repeated(1100, 1110, 1090, 1105, 1095)
		failed.Verdict, failed.Reasons = v1alpha1.VerdictFailed, []Reason{{why, "south"}}
		if c := Compare([]*Document{sound}, []*Document{failed}, CompareOptions{}); c.Verdict == Improvement || c.Verdict == NoDifference {
			t.Errorf("B is Failed, %s: %s: %s", why, c.Verdict, c.Message)
		}
	}
}
