package result

import (
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestCompareSlowThroughputs compares throughputs such as 0.6 and 1.4 per second, which are equal once rounded, and 1.4
// and 1.6, which differ once rounded.
func TestCompareSlowThroughputs(t *testing.T) {
	of := func(committed ...int64) *Document {
		d := &Document{Name: "slow", Verdict: v1alpha1.VerdictPassed}
		d.Spec.Load.Duration = v1alpha1.Duration{Duration: 1000 * time.Second}
		for i, n := range committed {
			l := Latency{P50: v1alpha1.Observed(5000), P90: v1alpha1.Observed(5000), P95: v1alpha1.Observed(5000),
				P99: v1alpha1.Observed(5000)}
			d.Summary.Committed += n
			d.Repetitions = append(d.Repetitions, Repetition{Index: i + 1, Counts: Counts{Committed: n},
				ThroughputPerSecond: ratio(1000, 1, n), LatencyMicroseconds: l})
		}
		d.Summary.ThroughputPerSecond = ratio(1000*int64(len(committed)), 1, d.Summary.Committed)
		d.Seed = d.Summary.Committed
		return d
	}
	for name, c := range map[string]struct {
		a, b *Document
		want v1alpha1.Change
	}{
		"twice as fast": {of(600, 601, 602, 603, 604, 605), of(1400, 1401, 1402, 1403, 1404, 1405), Improvement},
		"half as fast":  {of(1400, 1401, 1402, 1403, 1404, 1405), of(600, 601, 602, 603, 604, 605), Regression},
		"all but as fast": {of(1494, 1495, 1496, 1497, 1498, 1499), of(1500, 1501, 1502, 1503, 1504, 1505),
			NoDifference},
	} {
		if got := Compare([]*Document{c.a}, []*Document{c.b}, CompareOptions{Alpha: 0.05,
			Threshold: 0.01}); got.Verdict != c.want {
			t.Errorf("%s: %s: %s, want %s", name, got.Verdict, got.Message, c.want)
		}
	}
}
