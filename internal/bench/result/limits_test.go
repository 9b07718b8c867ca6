package result

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/txn"
)

// soak returns the reports of a run with faults, of the given length in seconds. Each region has one worker with
// perSecond transactions per second, whose latencies have four modes.
func soak(seconds, perSecond int, regions ...string) []*Report {
	var reports []*Report
	for i, region := range regions {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		r := &Report{Kind: ReportKind, Version: ReportVersion, Workload: "w", Types: []string{"t"}, Arrival: "Poisson",
			DurationMicroseconds: int64(seconds) * second, Repetitions: 1, Workers: []LoadGenerator{{Region: region, Clients: 1}}}
		poisson := func(mean float64) int64 { return max(0, int64(math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))) }
		for s := range seconds {
			x := Second{Region: region, Repetition: 1, Second: s, Tenths: &Tenths{}}
			for k := range 10 {
				x.Tenths.Committed[k], x.Tenths.Aborted[k] = poisson(float64(perSecond)/10), poisson(float64(perSecond)/200)
				x.Committed, x.Aborted = x.Committed+x.Tenths.Committed[k], x.Aborted+x.Tenths.Aborted[k]
			}
			x.Attempts = x.Committed + x.Aborted
			var h SecondHistogram
			for _, mode := range []struct{ at, share float64 }{{6000, .5}, {60_000, .3}, {130_000, .15}, {400_000, .05}} {
				at := secondBucket(int64(mode.at))
				for d := -16; d <= 24; d++ {
					h.counts[at+d] += uint32(poisson(float64(perSecond) * mode.share / 20 * math.Exp(-float64(d*d)/100)))
				}
			}
			x.Latency = h.AppendTo(nil)
			r.Timeline = append(r.Timeline, x)
			r.Total.Committed += x.Committed
		}
		reports = append(reports, r)
	}
	return reports
}

// repetitive returns a report with the given numbers of repetitions and transaction types, with every class and
// outcome.
func repetitive(repetitions, types int) *Report {
	r := &Report{Kind: ReportKind, Version: ReportVersion, Workload: "w", Arrival: "Closed", DurationMicroseconds: second, Repetitions: repetitions,
		Workers: []LoadGenerator{{Region: "us", Clients: 1}}}
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range types {
		r.Types = append(r.Types, string(rune('a'+i)))
	}
	for repetition := range repetitions {
		r.Windows = append(r.Windows, Window{Region: "us", Repetition: repetition + 1})
		for _, typ := range r.Types {
			for _, class := range classes {
				for _, outcome := range []string{txn.Committed.String(), txn.Aborted.String(), Unfinished} {
					h, d := NewHistogram(), Distribution{}
					for range 300 {
						us := int64(5000 * math.Exp(rng.NormFloat64()))
						_ = h.RecordValue(us)
						d.Count, d.SumMicroseconds, d.MaxMicroseconds = d.Count+1, d.SumMicroseconds+us, max(d.MaxMicroseconds, us)
					}
					d.Histogram = EncodeHistogram(h)
					r.Series = append(r.Series, Series{Region: "us", Repetition: repetition + 1, Type: typ, Class: class, Outcome: outcome,
						Latency: d, Attempts: SeriesAttempts{Count: d.Count}})
				}
			}
		}
	}
	return r
}

// TestReportsFit checks that a report fits into a ConfigMap, even for a long run or many repetitions. Counts must be
// exact, and the note must name the parts with a coarser resolution.
func TestReportsFit(t *testing.T) {
	for name, c := range map[string]struct {
		report *Report
		apart  bool
	}{
		"three hours of 1,000/s with faults": {soak(3*3600, 1000, "us")[0], false},
		"a hundred repetitions":              {repetitive(100, 4), true},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := c.report.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > compress.MaxPacked {
				t.Errorf("%d bytes, and there is room for %d", len(b), compress.MaxPacked)
			}
			r, _, err := DecodeReport(b, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes; %s", len(b), r.Resolution)
			if r.Resolution.Apart != c.apart || r.Resolution.Seconds > 1 || r.Resolution.Rounded {
				t.Errorf("resolution %+v", r.Resolution)
			}
			d, whole := summed(t, r), summed(t, c.report)
			if !reflect.DeepEqual(d.Summary, whole.Summary) || !reflect.DeepEqual(d.Regions, whole.Regions) || !reflect.DeepEqual(d.Transactions, whole.Transactions) {
				t.Errorf("the summary is another one: %+v, want %+v", d.Summary, whole.Summary)
			}
			for i := range d.Repetitions {
				if d.Repetitions[i].Counts.Committed != whole.Repetitions[i].Counts.Committed {
					t.Errorf("repetition %d has another count", i+1)
				}
			}
			for i := range d.Timeline {
				if d.Timeline[i].Committed != whole.Timeline[i].Committed || !reflect.DeepEqual(d.Timeline[i].Tenths, whole.Timeline[i].Tenths) {
					t.Fatalf("second %d has other counts", i)
				}
			}
		})
	}
}

// longDocument returns the document of a run of the given length in seconds in three regions. Faults take up a tenth of
// the time.
func longDocument(t *testing.T, seconds int) *Document {
	t.Helper()
	regions := []string{"us", "eu", "ap"}
	var reports []*Report
	for _, r := range soak(seconds, 1000, regions...) {
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r, _, err = DecodeReport(b, 1<<30); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	m, err := Merge(reports)
	if err != nil {
		t.Fatal(err)
	}
	d := &Document{APIVersion: APIVersion, Kind: Kind, Name: "soak", Summary: Summary{Counts: Counts{Committed: m.Total.Committed}}}
	for _, name := range regions {
		d.Regions = append(d.Regions, Region{Name: name})
	}
	for i := range 10 {
		at := int64(seconds/10*i+seconds/20) * second
		from, to := at+1000, at+30*second
		d.Faults = append(d.Faults, Fault{Name: string(rune('a' + i)), Kind: "podKill", AtMicroseconds: at, DurationMicroseconds: 30 * second,
			FromMicroseconds: &from, InjectedMicroseconds: &from, RecoveringMicroseconds: &to, ToMicroseconds: &to})
	}
	d.fillTimeline(regions, m)
	d.fillFaults(m)
	return d
}

// TestLongResultFits checks that the result of six hours at 1,000/s in three regions, with faults, fits into a
// ConfigMap. The result must keep the effects of faults, and the tenths of the seconds around them.
func TestLongResultFits(t *testing.T) {
	const hours = 6 * 3600
	d := longDocument(t, hours)
	var whole bytes.Buffer
	if err := d.Write(&whole); err != nil {
		t.Fatal(err)
	}
	text, packed, err := d.Fit(900_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, or %d of %d that there were; %d packed", whole.Len(), len(text), whole.Len(), len(packed))
	if len(packed) == 0 || len(packed) > compress.MaxPacked {
		t.Errorf("%d bytes, and there is room for %d", len(packed), compress.MaxPacked)
	}
	if len(d.Timeline) != hours || len(d.Notes) != 1 {
		t.Errorf("fitting changed the document: %d ticks, notes %q", len(d.Timeline), d.Notes)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(got.Notes)
	if !reflect.DeepEqual(got.Summary, d.Summary) || !reflect.DeepEqual(got.Faults, d.Faults) || !reflect.DeepEqual(got.Regions, d.Regions) {
		t.Error("the summary, the faults or the regions are others than before")
	}
	for i := range got.Faults {
		if got.Faults[i].Availability == nil || got.Regions[0].Faults[i].Availability == nil {
			t.Errorf("what fault %s did was not measured", got.Faults[i].Name)
		}
	}
	var committed, seconds int64
	fine := 0
	for i := range got.Timeline {
		x := &got.Timeline[i]
		committed, seconds = committed+x.Committed, seconds+int64(x.Length())
		if x.Tenths != nil {
			fine++
		}
	}
	if committed != d.Summary.Committed || seconds != hours || fine < 10*(30+beforeFaults) {
		t.Errorf("the timeline has %d of %d commits, %d of %d seconds, and %d seconds with tenths", committed, d.Summary.Committed, seconds, hours, fine)
	}
	if last := got.Notes[len(got.Notes)-1]; !strings.Contains(last, "did not fit into a ConfigMap of 1 MiB: ") {
		t.Errorf("nothing says that it was shortened: %q", got.Notes)
	}
}

// TestShortenings checks that every shortening keeps the sums of the timeline, and that a document with nothing left
// but its summary fits.
func TestShortenings(t *testing.T) {
	d := longDocument(t, 1300)
	for i, s := range shortenings {
		c := *d
		c.Timeline = slices.Clone(d.Timeline)
		note := s.do(&c)
		var committed, seconds int64
		for j := range c.Timeline {
			committed, seconds = committed+c.Timeline[j].Committed, seconds+int64(c.Timeline[j].Length())
		}
		if len(c.Timeline) > 0 && (committed != d.Summary.Committed || seconds != 1300) || note == "" {
			t.Errorf("shortening %d (%s): %d commits in %d s", i, note, committed, seconds)
		}
	}
	if d.Timeline[0].Tenths == nil || d.Timeline[0].Seconds != 0 || d.Timeline[0].Regions[0] > 1500 {
		t.Error("a shortening changed the document that it was made of")
	}
}

// TestWideResultFits checks that a document that is large for reasons other than its timeline, such as 32 regions,
// still fits.
func TestWideResultFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	d := &Document{APIVersion: APIVersion, Kind: Kind, Name: "wide", Timeline: []Tick{}, Summary: Summary{Counts: Counts{Committed: 1}}}
	for i := range 32 * 8 * 4 {
		h := NewHistogram()
		for range 4000 {
			_ = h.RecordValue(int64(20_000 * math.Exp(rng.NormFloat64())))
		}
		d.Histograms.Series = append(d.Histograms.Series, HistogramSeries{Type: fmt.Sprint(i % 8), Class: fmt.Sprint(i % 4), Region: fmt.Sprint(i / 32), Histogram: EncodeHistogram(h)})
	}
	text, packed, err := d.Fit(900_000)
	if err != nil || len(packed) > compress.MaxPacked {
		t.Fatalf("%d bytes packed: %v", len(packed), err)
	}
	got, err := Parse(text)
	if err != nil || len(got.Histograms.Series) != len(d.Histograms.Series) || !strings.Contains(fmt.Sprint(got.Notes), "values of histograms are within 3.2%") {
		t.Errorf("%d series, notes %q (%v)", len(got.Histograms.Series), got.Notes, err)
	}
	all := func(*HistogramSeries) bool { return true }
	want, is := d.Latencies(all), got.Latencies(all)
	for i, p := range []float64{50, 90, 99} {
		a, b := want.Quantiles(50, 90, 99)[i].Least(), is.Quantiles(50, 90, 99)[i].Least()
		if off := math.Abs(float64(a-b)) / float64(a); is.Samples() != want.Samples() || off > 0.032 {
			t.Errorf("p%v is %d of %d, not %d of %d", p, b, is.Samples(), a, want.Samples())
		}
	}
}

// summed returns a document with the figures of a report.
func summed(t *testing.T, r *Report) *Document {
	t.Helper()
	m, err := Merge([]*Report{r})
	if err != nil {
		t.Fatal(err)
	}
	regions := []string{r.Workers[0].Region}
	a, err := aggregate(m, &v1alpha1.Load{}, regions, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &Document{}
	a.fill(d, m)
	d.fillTimeline(regions, m)
	return d
}

// TestResolutionsMerge checks that reports of different resolutions merge at the coarser resolution, in either order,
// without being modified.
func TestResolutionsMerge(t *testing.T) {
	for _, x := range resolutions[1:] {
		reports := append(soak(130, 500, "us", "eu"), soak(130, 700, "us")...)
		coarse, err := reports[0].at(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := coarse.validate(); err != nil {
			t.Errorf("%v: %v", x, err)
		}
		want, err := Merge([]*Report{coarse, reports[1], reports[2]})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Merge([]*Report{reports[2], reports[1], coarse})
		if err != nil {
			t.Fatal(err)
		}
		all, err := Merge(reports)
		if err != nil {
			t.Fatal(err)
		}
		if all, err = all.at(x); err != nil {
			t.Fatal(err)
		}
		if want.Resolution != x || !reflect.DeepEqual(got.Timeline, want.Timeline) || !reflect.DeepEqual(got.Timeline, all.Timeline) {
			t.Errorf("%v: another timeline in another order", x)
		}
		var committed int64
		for _, s := range got.Timeline {
			committed += s.Committed
		}
		if committed != got.Total.Committed {
			t.Errorf("%v: the timeline has %d of %d commits", x, committed, got.Total.Committed)
		}
		if len(reports[1].Timeline) != 130 || reports[1].Resolution != (Resolution{}) {
			t.Errorf("%v: merging changed a report", x)
		}
	}
}

// TestResolutionsAreChecked checks that reports whose cell lengths cannot be merged are refused.
func TestResolutionsAreChecked(t *testing.T) {
	for _, x := range []Resolution{{LatencySeconds: 7}, {LatencySeconds: -10}, {LatencySeconds: 10, Seconds: 60}, {Seconds: 10}, {LatencySeconds: 600, Seconds: 7}} {
		if err := x.valid(); err == nil {
			t.Errorf("%+v is not refused", x)
		}
	}
	for _, x := range resolutions {
		if err := x.valid(); err != nil {
			t.Error(err)
		}
		for _, y := range resolutions {
			if both := x.coarser(y); both != y.coarser(x) || both.valid() != nil {
				t.Errorf("%+v and %+v: %+v", x, y, both)
			}
		}
	}
}
