package report

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// A timeline with ticks of different lengths, as in results of long runs, shows the same throughput as a timeline with
// ticks of one second.
func TestTicksOfSeveralSeconds(t *testing.T) {
	d := &result.Document{Regions: []result.Region{{Name: "a"}}}
	for s := range 1000 {
		length := 10
		if s >= 400 && s < 500 { // near a fault
			length = 1
		}
		if s%length > 0 {
			continue
		}
		x := result.Tick{Second: s, Committed: int64(7 * length), Regions: []int64{int64(7 * length)}, P99: v1alpha1.Observed(int64(s))}
		if length > 1 {
			x.Seconds = length
		}
		d.Timeline = append(d.Timeline, x)
	}
	bins, starts := binned(d)
	if len(bins) != 1 || len(starts) != 0 || len(bins[0]) > maxBins || seconds(d) != 1000 {
		t.Fatalf("%d repetitions, %d s", len(bins), seconds(d))
	}
	all, last := 0, 0.0
	for _, b := range bins[0] {
		if b.committed[0] != int64(7*b.seconds) {
			t.Errorf("the bin at second %d has %d in %d s", b.from, b.committed[0], b.seconds)
		}
		if b.at <= last {
			t.Errorf("the bin at second %d is at %v, after %v", b.from, b.at, last)
		}
		all, last = all+b.seconds, b.at
	}
	if all != 1000 {
		t.Errorf("%d of 1000 s", all)
	}
}
