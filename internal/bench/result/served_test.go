package result

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestLeastServed checks that LeastServed returns the region with the smallest share, after a margin for the variance
// of small numbers of transactions.
func TestLeastServed(t *testing.T) {
	region := func(name string, committed, aborted, unfinished, carriedIn int64) Region {
		return Region{Name: name, Counts: Counts{Committed: committed, Aborted: aborted}, CarriedIn: carriedIn,
			Unanswered: Unanswered{Unfinished: unfinished}}
	}
	d := &Document{Regions: []Region{region("a", 1000, 0, 0, 0), region("b", 600, 400, 0, 0),
		region("few", 50, 0, 50, 8), {Name: "none"}}}
	if got := d.LeastServed(); got != nil || d.ServedText() != "" {
		t.Errorf("a closed loop has %+v, %q", got, d.ServedText())
	}
	d.Summary.OfferedPerSecond, d.Summary.ThroughputPerSecond = 220, 166
	// Region few commits 58 of 100; the statistical margin is 3 sqrt(58) of 100.
	if got, want := d.LeastServed(), (v1alpha1.ServedRegion{Name: "b", CommittedPPM: 600_000}); got == nil ||
		*got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := d.Regions[2].served(); got.CommittedPPM != 580_000 || got.ChancePPM != 228_474 {
		t.Errorf("few: %+v", got)
	}
	if s := d.RunSummary().LeastServed; s == nil || s.Name != "b" {
		t.Errorf("the status has %+v", s)
	}
	if text := d.ServedText(); !strings.Contains(text, "least is b: 60%") || !strings.Contains(text, "220/s") {
		t.Errorf("text %q", text)
	}
}
