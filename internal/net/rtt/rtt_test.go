package rtt

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

func TestJudge(t *testing.T) {
	ms := time.Millisecond
	tests := map[string]struct {
		links   []Link
		ok      bool
		reason  string
		message string
	}{
		"exact":                {[]Link{{Declared: 100 * ms, P50: 100 * ms, Samples: 10}}, true, "Verified", "declared 100ms"},
		"at the upper limit":   {[]Link{{Declared: 100 * ms, P50: 106 * ms, Samples: 10}}, true, "Verified", ""},
		"over the upper limit": {[]Link{{Declared: 100 * ms, P50: 106*ms + time.Microsecond, Samples: 10}}, false, "OutOfTolerance", "6ms off"},
		"at the lower limit":   {[]Link{{Declared: 100 * ms, P50: 94 * ms, Samples: 10}}, true, "Verified", ""},
		"under the lower":      {[]Link{{Declared: 100 * ms, P50: 94*ms - time.Microsecond, Samples: 10}}, false, "OutOfTolerance", ""},
		"nothing declared":     {[]Link{{Declared: 0, P50: ms, Samples: 10}}, true, "Verified", ""},
		"too few samples":      {[]Link{{From: "a", To: "b", Declared: 100 * ms, P50: 100 * ms, Samples: 9}}, false, "Measuring", "link a -> b has 9"},
		"one link of many": {[]Link{
			{From: "a", To: "b", Declared: 100 * ms, P50: 105 * ms, Samples: 10},
			{From: "a", To: "a", Declared: ms, P50: 3 * ms, Samples: 10},
		}, false, "OutOfTolerance", "link a -> a"},
		"the worst relative to its tolerance": {[]Link{
			{From: "a", To: "b", Declared: 100 * ms, P50: 103 * ms, Samples: 10},
			{From: "a", To: "a", Declared: 0, P50: 900 * time.Microsecond, Samples: 10},
		}, true, "Verified", "worst is link a -> a"},
		"more is allowed where chance does more": {[]Link{
			{From: "a", To: "b", Declared: 100 * ms, P50: 108 * ms, Samples: 10, Tolerance: 8 * ms},
		}, true, "Verified", "worst is link a -> b"},
		"but not any more": {[]Link{
			{From: "a", To: "b", Declared: 100 * ms, P50: 109 * ms, Samples: 10, Tolerance: 8 * ms},
		}, false, "OutOfTolerance", "at most 8ms is allowed (5% + 1ms and the sampling error of 10 round trips)"},
		"no link": {nil, true, "NoLinks", "one node"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for i := range tt.links {
				l := &tt.links[i]
				l.Tolerance = max(l.Tolerance, l.Declared/20+ms)
			}
			v := Judge(tt.links)
			if v.Verified != tt.ok || v.Reason != tt.reason || !strings.Contains(v.Message, tt.message) {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// TestMeasureMergesHistograms checks that the result is the median of the merged samples, rather than the mean of the
// medians.
func TestMeasureMergesHistograms(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 1, Links: [][]geo.Link{
		{{}, {Delay: 50 * time.Millisecond, Jitter: time.Millisecond}}, {{Delay: 50 * time.Millisecond}, {}},
	}}
	rtt := func(us, n int64) string {
		h := hdrhistogram.New(1, 60_000_000, 3)
		if err := h.RecordValues(us, n); err != nil {
			t.Fatal(err)
		}
		s, err := admin.EncodeRTT(h)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	links, err := Measure(top, []admin.Status{
		{ID: 0, Links: []admin.LinkStatus{{To: "b", RTT: rtt(100_000, 90), Mesh: &admin.MeshRTT{Below: rtt(200, 6), Through: rtt(900, 20)}}}},
		{ID: 1, Links: []admin.LinkStatus{{To: "b", RTT: rtt(900_000, 10), Mesh: &admin.MeshRTT{Below: rtt(200, 5), Through: rtt(1500, 9)}}}},
		{ID: 2},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.From+l.To)
	}
	if want := []string{"aa", "ab", "ba", "bb"}; !cmp.Equal(names, want) {
		t.Fatalf("links are %v, want %v", names, want)
	}
	if some, err := Measure(top, nil, func(r geo.Region) bool { return r == 1 }); err != nil || len(some) != 3 || some[2].From != "b" || some[2].To != "a" {
		t.Errorf("a region with one node has a link to itself: %+v, %v", some, err)
	}
	ab := links[1]
	if want := (v1alpha1.MeshLink{BelowRTTMicroseconds: 200, ThroughRTTMicroseconds: 900, AddedRTTMicroseconds: 700, Samples: 11}); ab.Mesh == nil || *ab.Mesh != want || links[0].Mesh != nil {
		t.Errorf("the mesh is %+v on a -> b and %+v on a -> a, want %+v and none", ab.Mesh, links[0].Mesh, want)
	}
	few, err := Measure(top, []admin.Status{{ID: 0, Links: []admin.LinkStatus{{To: "b", Mesh: &admin.MeshRTT{Below: rtt(200, 50), Through: rtt(900, MinSamples-1)}}}}}, nil)
	if err != nil || few[1].Mesh != nil {
		t.Errorf("of %d round trips a mesh is told to be %+v: %v", MinSamples-1, few[1].Mesh, err)
	}
	if ab.Samples != 100 || ab.P50.Round(time.Millisecond) != 100*time.Millisecond || ab.P99.Round(10*time.Millisecond) != 900*time.Millisecond || ab.Declared != 100*time.Millisecond {
		t.Errorf("a -> b is %+v", ab)
	}
	if want := top.RTTTolerance(0, 1, 100); ab.Tolerance != want || want <= 6*time.Millisecond {
		t.Errorf("the tolerance of a -> b is %v, want %v, which is more than 5%% + 1 ms", ab.Tolerance, want)
	}
}
