package result

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
)

// typedDocument returns a document of two repetitions of 5 s with two transaction types. One type has two classes and
// runs in two regions. It also returns the recorded latencies of each type and region.
func typedDocument(t *testing.T) (*Document, map[typeKey]*tally) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 4))
	d := &Document{Name: "run", Spec: Spec{Load: v1alpha1.Load{Duration: v1alpha1.Duration{Duration: 5 * time.Second}}}, Repetitions: make([]Repetition, 2)}
	recorded := map[typeKey]*tally{}
	for _, x := range []struct {
		typ, class, region string
		n                  int
	}{{"local", "SH-SP", "eu", 3000}, {"local", "SH-MP", "eu", 500}, {"local", "SH-SP", "us", 200}, {"global", "MH-SP", "us", 100}, {"never", "SH-SP", "us", 0}} {
		one := latencies(rng, x.n)
		tx := Transaction{Type: x.typ, Class: x.class, Region: x.region, Outcomes: Outcomes{
			Committed: int64(x.n), Aborted: map[string]int64{"certification": 3, "false-positive": 1}, Unknown: map[string]int64{"timeout": 2, "lost": 1},
			Causes: map[string]int64{"conflict": 4}}}
		tx.Attempts = tx.Outcomes
		if x.n > 0 {
			tx.LatencyMicroseconds = one.latency()
			d.Histograms.Series = append(d.Histograms.Series, HistogramSeries{Type: x.typ, Class: x.class, Region: x.region, Histogram: EncodeHistogram(one.histogram)})
		}
		d.Transactions = append(d.Transactions, tx)
		for _, k := range []typeKey{{x.typ, ""}, {x.typ, x.region}} {
			if recorded[k] == nil {
				recorded[k] = &tally{}
			}
			if x.n > 0 {
				recorded[k].add(txn.Committed.String(), &Distribution{Count: one.count, SumMicroseconds: one.sum, MaxMicroseconds: one.max}, one.histogram)
			}
		}
	}
	return d, recorded
}

// TestByType checks that the percentiles of a type cover all recorded latencies of the type, regardless of class and
// region.
func TestByType(t *testing.T) {
	d, recorded := typedDocument(t)
	all, err := d.ByType()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(recorded) {
		t.Fatalf("%d types and regions, want %d", len(all), len(recorded))
	}
	for _, f := range all {
		want := recorded[typeKey{f.Type, f.Region}].latency()
		// The means of documents are rounded.
		if diff := f.LatencyMicroseconds.Mean.Least() - want.Mean.Least(); diff < -1 || diff > 1 {
			t.Errorf("%s in %q: mean %d, want %d", f.Type, f.Region, f.LatencyMicroseconds.Mean.Least(), want.Mean.Least())
		}
		f.LatencyMicroseconds.Mean = want.Mean
		if diff := cmp.Diff(want, f.LatencyMicroseconds); diff != "" {
			t.Errorf("%s in %q (-want +got):\n%s", f.Type, f.Region, diff)
		}
		if f.Seconds != 10 {
			t.Errorf("%s in %q: measured for %v s, want 10", f.Type, f.Region, f.Seconds)
		}
	}
	counts := Counts{Committed: 3700, Aborted: 12, Unknown: 9, Timeouts: 6, Causes: map[string]int64{"conflict": 12}}
	if diff := cmp.Diff([2]Counts{counts, counts}, [2]Counts{all[0].Counts, all[0].Attempts}); diff != "" {
		t.Errorf("counts and attempts of local transactions (-want +got):\n%s", diff)
	}
}

// TestWithFiguresOnly checks that a document without histograms yields the same figures by type.
func TestWithFiguresOnly(t *testing.T) {
	d, _ := typedDocument(t)
	want, err := d.ByType()
	if err != nil {
		t.Fatal(err)
	}
	small, err := d.WithFiguresOnly()
	if err != nil {
		t.Fatal(err)
	}
	got, err := small.ByType()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(small.Histograms.Series) > 0 {
		t.Errorf("%d histograms are left, and the figures differ (-want +got):\n%s", len(small.Histograms.Series), diff)
	}
	d.Histograms.Series[1].Histogram = "nonsense"
	if _, err := d.WithFiguresOnly(); err == nil || !strings.Contains(err.Error(), "result run: type local, class SH-MP, region eu: histogram") {
		t.Errorf("the error of a histogram that cannot be read is %v", err)
	}
}

// TestByTypeOfACancelledRun checks that the length of a cancelled run's measurement follows from its throughput.
func TestByTypeOfACancelledRun(t *testing.T) {
	d, _ := typedDocument(t)
	d.Reasons = []Reason{{Reason: ReasonCancelled}}
	d.Summary.Committed, d.Summary.CarriedIn, d.Summary.ThroughputPerSecond = 3800, 200, 2000
	all, err := d.ByType()
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Seconds != 2 {
		t.Errorf("measured for %v s, want 2", all[0].Seconds)
	}
}
