package result

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// The pooled figures improve when the slow region is gone. That is no improvement, and a region without transactions has no
// percentiles, least of all of 0.
func TestDeadRegionIsNoImprovement(t *testing.T) {
	l := func(us int64) Latency {
		return Latency{P50: v1alpha1.Observed(us), P90: v1alpha1.Observed(us), P95: v1alpha1.Observed(us), P99: v1alpha1.Observed(us)}
	}
	document := func(pooled Latency, south RepetitionRegion) *Document {
		d := &Document{Name: "run", Verdict: v1alpha1.VerdictPassed, Regions: []Region{{Name: "north"}, {Name: "south"}}}
		for i := range 6 {
			d.Repetitions = append(d.Repetitions, Repetition{Index: i + 1, ThroughputPerSecond: 3970 + int64(i), LatencyMicroseconds: pooled,
				Regions: []RepetitionRegion{{Name: "north", ThroughputPerSecond: 3970, LatencyMicroseconds: l(5000)}, south}})
		}
		return d
	}
	both := document(l(5800), RepetitionRegion{Name: "south", ThroughputPerSecond: 24, LatencyMicroseconds: l(906_000)})
	north := document(l(5000), RepetitionRegion{Name: "south", LatencyMicroseconds: (&tally{}).latency()})
	c := Compare([]*Document{both}, []*Document{north}, CompareOptions{})
	if c.Verdict == Improvement || c.Verdict == NoDifference {
		t.Errorf("south commits 24/s and then nothing: %s: %s", c.Verdict, c.Message)
	}
	for _, f := range c.Figures {
		if f.Region == "south" && f.Unit == "us" && f.ChangePPM != nil {
			t.Errorf("%s of south, where nothing was sent, changes from %s to %s", f.Name, f.Format(f.A), f.Format(f.B))
		}
	}
}
