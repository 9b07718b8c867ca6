package inprocess

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
)

// In a closed loop, a stall affects only one transaction of each client, regardless of its length. If a region did not
// answer for a third of the window, the result must name the region, even if it recovered before the end.
func TestStallInTheMiddleIsNamed(t *testing.T) {
	t.Parallel()
	d := simulate(t, farRegions(leader, bank, "{clientsPerRegion: 10, warmup: 2s, duration: 30s}",
		"{name: cut, at: 10s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}, to: {regions: [ap-northeast-1]}}}", "{metric: latencyP99, region: ap-northeast-1, max: 250ms}"))
	said := strings.Join(d.Notes, "\n")
	for _, r := range d.Reasons {
		said += r.Message + "\n"
	}
	if !strings.Contains(said, "ap-northeast-1") {
		p99 := d.Regions[1].LatencyMicroseconds.P99
		t.Errorf("%s, p99 of ap-northeast-1 %s: neither a reason nor a note names the 10 s without an answer", d.Verdict, result.FormatQuantile(p99))
	}
}
