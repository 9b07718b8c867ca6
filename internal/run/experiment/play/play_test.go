package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

func play(t *testing.T, e *experiment.Experiment, o Options) *experiment.Results {
	t.Helper()
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	r, err := Play(t.Context(), []*experiment.Experiment{e}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTheSameBytes plays an experiment once with one run at a time and once with two concurrent runs. It checks that
// the documents and reports are identical.
func TestTheSameBytes(t *testing.T) {
	var reports [][]byte
	var files []map[string]string
	for _, parallel := range []int{1, 2} {
		e := experimenttest.MustRead(t, experimenttest.Small)
		folder := t.TempDir()
		b, err := json.Marshal(experiment.NewReport(t.Context(), []*experiment.Experiment{e}, play(t, e, Options{Folder: folder, Parallel: parallel})))
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, b)
		files = append(files, contents(t, folder))
	}
	if !bytes.Equal(reports[0], reports[1]) {
		t.Errorf("two reports:\n%s\n%s", reports[0], reports[1])
	}
	if len(files[0]) != 4 {
		t.Errorf("%d documents, want 4", len(files[0]))
	}
	for name, text := range files[0] {
		if files[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(b)
	}
	return out
}

func TestResume(t *testing.T) {
	e := experimenttest.MustRead(t, experimenttest.Small)
	folder := t.TempDir()
	// Interrupt the first attempt after one run.
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Play(ctx, []*experiment.Experiment{e}, Options{Folder: folder, Parallel: 1, Report: func(p Progress) {
		if p.Event == Ended {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted experiment ended with %v", err)
	}
	if n := len(contents(t, folder)); n != 1 {
		t.Fatalf("%d documents are there after the interruption, want 1", n)
	}
	var last Progress
	count := func(p Progress) { last = p }
	play(t, e, Options{Folder: folder, Report: count})
	if last.Done != 4 || last.Kept != 1 {
		t.Errorf("the second attempt: %+v, want 4 done, 1 of them kept", last)
	}
	before := contents(t, folder)
	first := play(t, e, Options{Folder: folder, Report: count})
	if last.Done != 4 || last.Kept != 4 {
		t.Errorf("the third attempt: %+v, want all 4 kept", last)
	}
	if got := e.Judge(t.Context(), first)[0]; !got.Holds {
		t.Errorf("the claim over kept results: %+v", got)
	}
	// A corrupt document is replaced. If swept values change, the documents of all unaffected runs are kept.
	for name := range before {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		break
	}
	play(t, e, Options{Folder: folder, Report: count})
	if last.Kept != 3 {
		t.Errorf("with a broken document: %+v, want 3 kept", last)
	}
	for name, text := range contents(t, folder) {
		if before[name] != text {
			t.Errorf("%s is not as before", name)
		}
	}
	play(t, experimenttest.MustRead(t, experimenttest.Replaced(t, "values: [2, 4]", "values: [4, 3, 2]")), Options{Folder: folder, Report: count})
	if last.Done != 6 || last.Kept != 4 {
		t.Errorf("with a value more: %+v, want 6 done, 4 of them kept", last)
	}
}

func TestRealTime(t *testing.T) {
	e := experimenttest.MustRead(t, experimenttest.Replaced(t, "values: [2, 4]", "values: [2]", "rtt: 100ms", "rtt: 30ms"))
	r := play(t, e, Options{RealTime: true, Parallel: 8})
	d, err := r.Document(e.Runs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if d.Simulated || r.Simulated {
		t.Error("a run in real time says that it is simulated")
	}
}

// searched is an experiment that searches for the peak rate of a small database. Each node has 3 thousandths of a CPU,
// and the p99 must stay below 100 ms.
const searched = `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: peak}
spec:
  databases:
    - name: slog
      template:
        spec:
          engine: {name: slog}
          regions: [{name: a}, {name: b}]
          network: {profile: {intraRegion: {rtt: 400us}, links: [{from: a, to: b, rtt: 20ms}]}}
          resources: {limits: {cpu: 3m}}
  run:
    spec:
      workload: {micro: {itemsPerPartition: 10000}}
      load: {arrival: Poisson, ratePerSecond: 50, clientsPerRegion: 1000, warmup: 1s, duration: 4s}
      objectives: [{metric: latencyP99, max: 100ms}]
  sweep:
    - {path: spec.workload.micro.globalPercent, values: [0, 10]}
  search: {maxRatePerSecond: 1600, peakPercents: [100, 75]}
  claims:
    - {id: c-1, says: three quarters of the peak are offered, expression: "tput('slog', {'globalPercent': 0, 'peakPercent': 75}) <= 0.8 * offered('slog', {'globalPercent': 0, 'peakPercent': 100})"}
`

// TestSearchAgainstTheGrid: within its tolerance, a search finds the same peak as a test of all rates, with at most a
// fifth of the runs. A second search makes the same probes.
func TestSearchAgainstTheGrid(t *testing.T) {
	template := experimenttest.MustRead(t, searched)
	first := template.With(play(t, template, Options{}))
	again := template.With(play(t, template, Options{Parallel: 2}))
	var rates []string
	for rate := int64(50); rate <= 1600; rate = max(rate+1, rate+rate*5/100) {
		rates = append(rates, fmt.Sprint(rate))
	}
	text := strings.Replace(searched, "  search: {maxRatePerSecond: 1600, peakPercents: [100, 75]}\n", fmt.Sprintf("    - {path: spec.load.ratePerSecond, values: [%s]}\n", strings.Join(rates, ", ")), 1)
	text = text[:strings.Index(text, "  claims:")]
	grid := experimenttest.MustRead(t, text)
	played := play(t, grid, Options{})
	for i, s := range first.Searches {
		if other := again.Searches[i]; other.Said() != s.Said() || other.PeakRatePerSecond != s.PeakRatePerSecond {
			t.Errorf("%s: the probes are %s, and the second time %s", s.Label, s.Said(), other.Said())
		}
		highest, probes := int64(0), len(rates)
		for _, p := range grid.Points[i*len(rates) : (i+1)*len(rates)] {
			d, err := played.Document(p.Runs[0])
			if err != nil {
				t.Fatal(err)
			}
			rate := p.Runs[0].Run.Spec.Load.RatePerSecond
			if d.Verdict != v1alpha1.VerdictPassed || 100*d.Summary.ThroughputPerSecond < 95*d.Summary.OfferedPerSecond {
				break // a rate above the first miss may meet the objectives by chance
			}
			highest = rate
		}
		t.Logf("%s: the grid of %d runs finds %d/s, the search %d/s in %d: %s", s.Label, probes, highest, s.PeakRatePerSecond, len(s.Probes), s.Said())
		if off := float64(s.PeakRatePerSecond) / float64(highest); off < 1/1.05 || off > 1.05 {
			t.Errorf("%s: the search is off by the factor %.3f", s.Label, off)
		}
		if s.Reason != v1alpha1.SearchFound || 5*len(s.Probes) > probes {
			t.Errorf("%s: %s after %d probes: %s", s.Label, s.Reason, len(s.Probes), s.Message)
		}
	}
}

// TestPointsOfASearch: after the search, each point has runs at its share of the peak, and claims can refer to the
// points.
func TestPointsOfASearch(t *testing.T) {
	template := experimenttest.MustRead(t, searched)
	for _, p := range template.Points {
		if len(p.Runs) > 0 {
			t.Errorf("%s has runs before a probe has ended", p.Label)
		}
	}
	results := play(t, template, Options{})
	e := template.With(results)
	for i, p := range e.Points {
		peak := e.Searches[i/2].PeakRatePerSecond
		want := []int64{peak, (peak*75 + 50) / 100}[i%2]
		if len(p.Runs) != 1 || p.Runs[0].Run.Spec.Load.RatePerSecond != want {
			t.Errorf("%s has %d runs, want one at %d/s", p.Label, len(p.Runs), want)
		}
	}
	report := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, results)
	if err := report.Err(); err != nil || len(report.Doubtful) > 0 {
		t.Errorf("%v, in doubt: %v", err, report.Doubtful)
	}
	var table, figures bytes.Buffer
	if err := errors.Join(report.Table(&table), report.Figures(&figures)); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Searches {
		if !strings.Contains(table.String(), "search peak: "+s.Label+": Found: "+s.Message) {
			t.Errorf("the table does not tell what %s has found:\n%s", s.Label, table.String())
		}
	}
	// The probes at the peak are also the runs of the point at 100%.
	names := map[string]bool{}
	for _, run := range e.Runs() {
		if names[run.Run.Name] {
			t.Errorf("two runs are called %s", run.Run.Name)
		}
		names[run.Run.Name] = true
	}
	want := 0
	for _, search := range e.Searches {
		want += len(search.Probes)
		share := (search.PeakRatePerSecond*75 + 50) / 100
		// A probe at 75% of the peak is also a run of the point at 75%.
		if !slices.ContainsFunc(search.Probes, func(p experiment.Probe) bool { return p.Run.Run.Spec.Load.RatePerSecond == share }) {
			want++
		}
	}
	if len(names) != want {
		t.Errorf("%d runs, want %d: the probes, and one at 75%% of each peak", len(names), want)
	}
}
