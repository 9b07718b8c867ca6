package result

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestDeadRegionIsNoImprovement removes a slow region, which improves the pooled figures. This must not count as an
// improvement. A region without transactions has no percentiles, and the missing percentiles must not count as 0.
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

// TestOtherRegionsAreUndecided compares results with different regions. Figures over all regions are Undecided, the
// message names the region, and regions that both sides have are compared.
func TestOtherRegionsAreUndecided(t *testing.T) {
	l := func(us int64) Latency {
		return Latency{P50: v1alpha1.Observed(us), P90: v1alpha1.Observed(us), P95: v1alpha1.Observed(us),
			P99: v1alpha1.Observed(us)}
	}
	document := func(us int64, regions ...string) *Document {
		d := &Document{Name: "run", Verdict: v1alpha1.VerdictPassed}
		for i := range 8 {
			r := Repetition{Index: i + 1, ThroughputPerSecond: 1000 + int64(i), LatencyMicroseconds: l(us)}
			for _, name := range regions {
				r.Regions = append(r.Regions, RepetitionRegion{Name: name, ThroughputPerSecond: 500 + int64(i),
					LatencyMicroseconds: l(us)})
			}
			d.Repetitions = append(d.Repetitions, r)
		}
		for _, name := range regions {
			d.Regions = append(d.Regions, Region{Name: name})
		}
		return d
	}
	for name, tc := range map[string]struct {
		a, b    *Document
		more    *Document // added to B
		verdict Change
		says    string
	}{
		"the same": {document(900, "north", "south"), document(500, "north", "south"), nil,
			Improvement, "better"},
		"in another order": {document(900, "north", "south"), document(500, "south", "north"), nil,
			Improvement, "better"},
		"one is gone": {document(900, "north", "south"), document(500, "north"), nil, Undecided,
			"only A has region south"},
		"one is new": {document(900, "north"), document(500, "north", "south"), nil, Undecided,
			"only B has region south"},
		"none in common": {document(900, "north"), document(900, "south"), nil, Undecided,
			"only A has region north, only B has region south"},
		"another is worse": {document(500, "north", "south"), document(900, "north"), nil, Regression,
			"p99 of north"},
		"another of a few": {document(900, "north", "south"), document(500, "north", "south"),
			document(500, "north"), Undecided, "not every result has region south"},
		"one says none of itself": {document(900, "north"), document(500), nil, Improvement, "better"},
	} {
		b := []*Document{tc.b}
		if tc.more != nil {
			b = append(b, tc.more)
		}
		c := Compare([]*Document{tc.a}, b, CompareOptions{})
		if c.Verdict != tc.verdict || !strings.Contains(c.Message, tc.says) {
			t.Errorf("%s: %s: %s; want %s: %s", name, c.Verdict, c.Message, tc.verdict, tc.says)
		}
		for _, f := range c.Figures {
			if decided := f.Change != Undecided; f.Region == "" && f.Judged && decided != (tc.verdict == Improvement) {
				t.Errorf("%s: %s of the whole is %s", name, f.Name, f.Change)
			}
		}
	}
}
