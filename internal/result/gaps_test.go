package result

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Five seconds of a window of 4.5 s, of which a gap touches the second and third: what is measured there counts for nothing.
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
		{132, "132/s, 2 s with gaps in the emulated network omitted"}, // 330 in 2.5 s
		{12, "12/s, 2 s with gaps in the emulated network omitted"},
		{1008, "1.0ms of 300 transactions, 2 s with gaps in the emulated network omitted"},
		{22_801, "22801 ppm, 2 s with gaps in the emulated network omitted"}, // 7 of 307
		{250_000, "250000 ppm, 2 s with gaps in the emulated network included"},
		{100_000, "100000 ppm, 2 s with gaps in the emulated network included"},
	} {
		o := evaluate(objectives, d.measures(objectives, figures, r))[i]
		if o.Value.Least() != want.value || o.Measured != want.says || !o.Holds {
			t.Errorf("%s: %+v, want %+v", o.Name, o, want)
		}
	}
}
