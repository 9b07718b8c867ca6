package result

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestOneOfAFewIsChance checks the limit of 1% unserved transactions per region. One unserved transaction among a few
// dozen may be a coincidence; two are not.
func TestOneOfAFewIsChance(t *testing.T) {
	for hung, want := range map[int64]int{0: 0, 1: 0, 2: 1} {
		d := &Document{Regions: []Region{{Name: "a", Counts: Counts{Committed: 70}, Unanswered: Unanswered{Due: 73, Unfinished: 3, Hung: hung}}}}
		if got := unanswered(d, &Inputs{}, &Report{Repetitions: 1, DurationMicroseconds: 1e6}); len(got) != want {
			t.Errorf("%d hung of 73: %+v", hung, got)
		}
	}
	// An objective can allow more unserved transactions.
	none := v1alpha1.Objective{Metric: v1alpha1.MetricUnknownPPM, Max: new(v1alpha1.Bound(intstr.FromInt32(900_000)))}
	d := &Document{Regions: []Region{{Name: "a", Counts: Counts{Committed: 70}, Unanswered: Unanswered{Due: 73, Unfinished: 3, Hung: 3}}}}
	if got := unanswered(d, &Inputs{Objectives: []v1alpha1.Objective{none}}, &Report{Repetitions: 1, DurationMicroseconds: 1e6}); len(got) != 0 {
		t.Errorf("90%% are allowed: %+v", got)
	}
}
