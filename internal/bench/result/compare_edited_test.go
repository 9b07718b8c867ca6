package result

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestEditedLatenciesAndVerdictsAreNoticed checks that a comparison detects edited percentiles, which no longer follow
// from the histograms, and edited verdicts, which no longer follow from the evidence.
func TestEditedLatenciesAndVerdictsAreNoticed(t *testing.T) {
	for name, edit := range map[string]func(*Document){
		"p99 of all":                 func(d *Document) { d.Summary.LatencyMicroseconds.P99 = v1alpha1.Observed(1) },
		"p50 of a region":            func(d *Document) { d.Regions[0].LatencyMicroseconds.P50 = v1alpha1.Observed(1) },
		"p99 of the only repetition": func(d *Document) { d.Repetitions[0].LatencyMicroseconds.P99 = v1alpha1.Observed(1) },
		"evidence that was contradicted": func(d *Document) {
			d.Verdict, d.Reasons = v1alpha1.VerdictPassed, nil
			d.Evidence = append(d.Evidence, Evidence{Name: "cpu", State: EvidenceContradicted})
		},
	} {
		a, err := Build(evident(small()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Build(evident(small()))
		if err != nil {
			t.Fatal(err)
		}
		edit(b)
		if w := strings.Join(Compare([]*Document{a}, []*Document{b}, CompareOptions{}).Warnings, "\n"); !strings.Contains(w, "edited") {
			t.Errorf("%s was edited: warnings are %q", name, w)
		}
	}
}

// TestShortenedResultsAreNotEdited checks that a result that was shortened to fit into a ConfigMap does not count as
// edited.
func TestShortenedResultsAreNotEdited(t *testing.T) {
	d, err := Build(small())
	if err != nil {
		t.Fatal(err)
	}
	if why := d.latencyDisagreements(); len(why) > 0 {
		t.Fatalf("before: %q", why)
	}
	for _, s := range shortenings {
		note := s.do(d)
		if why := d.latencyDisagreements(); len(why) > 0 {
			t.Errorf("%s: %q", note, why)
		}
	}
}
