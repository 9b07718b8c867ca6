package result

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestUndecidedSaysWhy checks that an undecided objective names the outcomes of transactions without an observed
// latency, and a remedy.
func TestUndecidedSaysWhy(t *testing.T) {
	limit := func(text string) *v1alpha1.Bound { b := intstr.FromString(text); return &b }
	of := func(change func(*figures)) figures {
		f := figures{latency: tallied(repeat(10_000, 200), nil, nil)}
		f.Committed = 200
		change(&f)
		return f
	}
	never := func(f *figures, n int64) { f.latency.addNever(n, 50_000) }
	for name, tc := range map[string]struct {
		figures     figures
		says, spare string
		reason      string
	}{
		"timed out": {of(func(f *figures) { f.Unknown, f.Timeouts = 50, 50; never(f, 50) }),
			"50 timed out: let spec.load.requestTimeout", "in flight", ReasonObjectiveUndecided},
		"connections lost": {of(func(f *figures) { f.Unknown, f.Timeouts = 50, 1; never(f, 50) }),
			"1 timed out, 49 had an unknown outcome: find out why", "requestTimeout",
			ReasonObjectiveUndecided},
		"refused": {of(func(f *figures) { f.Refused = 50; never(f, 50) }), "50 were refused: find out why",
			"requestTimeout", ReasonObjectiveUndecided},
		"never sent": {of(func(f *figures) { f.Dropped = 50; never(f, 50) }),
			"50 were never sent, since all clients were busy: raise spec.load.clientsPerRegion", "timed " +
				"out", ReasonObjectiveUndecided},
		"backlog": {of(func(f *figures) { f.latency.growing = true }), "the backlog grew", "of the transactions",
			ReasonObjectiveUndecided},
		"in flight": {figures{latency: tallied(repeat(10_000, 60), repeat(50_000, 90), nil)},
			"90 were in flight when a window closed: let spec.load.duration", "for longer",
			ReasonObjectiveUndecided},
		"few": {figures{latency: tallied(repeat(10_000, 60), nil, nil)},
			"needs 100 transactions or more, and 60 say something of it", "lower bound", ReasonTooFewSamples},
	} {
		m := measure(v1alpha1.MetricLatencyP99, &tc.figures, &Report{})
		for _, o := range []v1alpha1.Objective{{Metric: v1alpha1.MetricLatencyP99, Max: limit("1s")},
			{Metric: v1alpha1.MetricLatencyP99, Min: limit("1s")}} {
			if name == "few" && o.Min != nil {
				continue // the objective is missed
			}
			got := m.judge(o)
			if r := got.undecided(); got.Holds || r.Reason != tc.reason ||
				!strings.Contains(got.Undecided, tc.says) || strings.Contains(got.Undecided, tc.spare) {
				t.Errorf("%s: holds %v, %s, undecided %q; want %s that says %q and not %q", name, got.Holds,
					r.Reason, got.Undecided, tc.reason, tc.says, tc.spare)
			}
		}
	}
}
