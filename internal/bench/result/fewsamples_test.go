package result

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestTransactionsUnderWayAreNoSamples checks the number of samples of a percentile. A transaction in flight is a
// sample only if it has waited for longer than the estimated percentile.
func TestTransactionsUnderWayAreNoSamples(t *testing.T) {
	limit := v1alpha1.Bound{}
	if err := limit.UnmarshalJSON([]byte(`"1s"`)); err != nil {
		t.Fatal(err)
	}
	f := figures{latency: tallied(repeat(107_000, 24), repeat(20_000, 106), nil)}
	f.Committed = 24
	m := measure(v1alpha1.MetricLatencyP99, &f, &Report{})
	if o := m.judge(v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP99, Max: &limit}); o.Holds || o.Undecided == "" {
		t.Errorf("24 transactions have ended: measured %s, holds %v, undecided %q; want undecided", o.Measured, o.Holds, o.Undecided)
	}
}
