package result

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestGapsAreLeftOut checks a window of 4.5 s with a gap that overlaps its second and third second. Measurements in
// these seconds must not count.
func TestGapsAreLeftOut(t *testing.T) {
	r := &Report{DurationMicroseconds: 4_500_000, Repetitions: 1}
	for s := range 5 {
		var h SecondHistogram
		latency := int64(1000)
		if s == 1 || s == 2 {
			latency = 50_000
		}
		for range 100 {
			h.Record(latency)
		}
		r.Timeline = append(r.Timeline, Second{Region: "a", Repetition: 1, Second: s, Committed: 100, Aborted: int64(s), Latency: h.AppendTo(nil)},
			Second{Region: "b", Repetition: 1, Second: s, Committed: 10})
	}
	d := &Document{EmulationGaps: []Gap{{Repetition: 1, FromMicroseconds: 1_900_000, ToMicroseconds: 2_100_000}, {Repetition: 2, ToMicroseconds: 1}}}
	d.fillTimeline([]string{"a", "b"}, r)
	d.fillGaps(r)
	marks := ""
	for _, tick := range d.Timeline {
		marks += fmt.Sprintf(" %t", tick.Gap)
	}
	if marks != " false true true false false" || d.EmulationGapSeconds != 2 {
		t.Errorf("marked%s, %d seconds", marks, d.EmulationGapSeconds)
	}
	bound := func(m v1alpha1.Metric, transaction, region string) v1alpha1.Objective {
		limit := v1alpha1.Bound(intstr.FromInt32(0))
		if m.IsLatency() {
			limit = v1alpha1.Bound(intstr.FromString("0s"))
		}
		return v1alpha1.Objective{Metric: m, Transaction: transaction, Region: region, Min: &limit}
	}
	objectives := []v1alpha1.Objective{
		bound(v1alpha1.MetricThroughput, "", ""), bound(v1alpha1.MetricThroughput, "", "b"), bound(v1alpha1.MetricLatencyP99, "", "a"),
		bound(v1alpha1.MetricAbortPPM, "", "a"), bound(v1alpha1.MetricAbortPPM, "balance", ""),
		bound(v1alpha1.MetricUnknownPPM, "", ""),
	}
	figures := make([]figures, len(objectives))
	figures[4].Committed, figures[4].Aborted = 75, 25
	figures[5].Committed, figures[5].Aborted, figures[5].Refused, figures[5].Unknown = 50, 25, 15, 10
	for i, want := range []struct {
		value int64
		says  string
	}{
		{132, "132/s, 2 s with gaps in the emulated network omitted"}, // 330 commits in 2.5 s
		{12, "12/s, 2 s with gaps in the emulated network omitted"},
		{1008, "1.0ms of 300 transactions, 2 s with gaps in the emulated network omitted"},
		{22_801, "22801 ppm, 2 s with gaps in the emulated network omitted"}, // 7 of 307 transactions
		{250_000, "250000 ppm, 2 s with gaps in the emulated network included"},
		{100_000, "100000 ppm, 2 s with gaps in the emulated network included"},
	} {
		o := evaluate(objectives, d.measures(objectives, figures, r))[i]
		if o.Value.Least() != want.value || o.Measured != want.says || !o.Holds {
			t.Errorf("%s: %+v, want %+v", o.Name, o, want)
		}
	}
}

// TestTooManyGaps checks the limits of gaps. A few seconds with gaps are omitted, and more such seconds make the run
// Invalid. Faults of links have a higher limit, because Chaos Mesh cannot inject them without gaps.
func TestTooManyGaps(t *testing.T) {
	gap := func(repetition int, from, to float64, fault string) Gap {
		return Gap{Repetition: repetition, FromMicroseconds: int64(from * 1e6), ToMicroseconds: int64(to * 1e6), Cause: "cause", Fault: fault}
	}
	for name, c := range map[string]struct {
		seconds, repetitions int
		gaps                 []Gap
		want                 string
	}{
		"none":                           {60, 1, nil, ""},
		"a replaced pod":                 {60, 1, []Gap{gap(1, 10.5, 14.5, "")}, ""},
		"a pod without links":            {60, 1, []Gap{gap(1, 10.5, 15.5, "")}, "gaps in 6 of 60 measured seconds that no fault of a link explains, and 5 are allowed"},
		"a percent of a long run":        {3000, 1, []Gap{gap(1, 10, 39.5, "")}, ""},
		"more than that":                 {3000, 1, []Gap{gap(1, 10, 20, ""), gap(1, 1000, 1019.5, "")}, "gaps in 31 of 3000 measured seconds that no fault of a link explains, and 30 are allowed"},
		"faults of links":                {60, 1, []Gap{gap(1, 10.5, 14.5, "a"), gap(1, 20.5, 24.5, "a")}, ""},
		"many faults of links":           {60, 1, []Gap{gap(1, 10.5, 16.5, "a"), gap(1, 30.5, 36.5, "a")}, "gaps in 14 of 60 measured seconds altogether, and 12 are allowed"},
		"a short run":                    {8, 1, []Gap{gap(1, 1.1, 2.9, "a"), gap(1, 4.1, 5.9, "a")}, ""},
		"most of a short run":            {8, 1, []Gap{gap(1, 1.1, 5.9, "")}, "gaps in 5 of the 8 seconds of repetition 1, and half of them are allowed"},
		"most of one of ten repetitions": {10, 10, []Gap{gap(3, 1.1, 6.9, "a")}, "gaps in 6 of the 10 seconds of repetition 3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{DurationMicroseconds: int64(c.seconds) * second, Repetitions: c.repetitions}
			d := &Document{EmulationGaps: c.gaps}
			d.fillTimeline([]string{"a"}, r)
			d.fillGaps(r)
			got := fmt.Sprint(tooManyGaps(d, nil, r))
			if c.want == "" && got != "[]" || !strings.Contains(got, c.want) {
				t.Errorf("%s, want %q", got, c.want)
			}
		})
	}
}
