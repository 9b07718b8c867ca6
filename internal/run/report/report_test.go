package report

import (
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/base/chart/charttest"
	"github.com/geobench/geobench/internal/base/style"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
	"github.com/geobench/geobench/internal/bench/plan/plantest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// measured returns a simulated result with two repetitions and a fault. The message of the fault contains a script,
// which the page must escape.
var measured = sync.OnceValues(func() (*result.Document, error) {
	text := strings.Replace(wrong.Valid, "clientsPerRegion: 10", "clientsPerRegion: 10, repetitions: 2", 1)
	p, err := plantest.Of(text, check.Default(nil))
	if err != nil {
		return nil, err
	}
	d, err := inprocess.Simulate(context.Background(), p, nil)
	if err != nil {
		return nil, err
	}
	from, to, outage := int64(500_000), int64(900_000), int64(400_000)
	d.Faults = []result.Fault{
		{Name: "cut", Kind: "networkPartition", FromMicroseconds: &from, ToMicroseconds: &to, Message: "<script>alert(1)</script>",
			Availability: &result.Availability{NormalPerSecond: 1000, FaultPerSecond: 100, RPPM: 100_000, TPPM: &from, OutageMicroseconds: outage}},
		{Name: "late", Kind: "cpuStress", Problem: "it never began"},
		{Name: "kill", Kind: "podKill", FromMicroseconds: &to, Lost: []string{"a/0/0"}},
	}
	return d, nil
})

func document(t *testing.T) *result.Document {
	t.Helper()
	d, err := measured()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// retried returns a result whose clients retry.
func retried(t *testing.T) *result.Document {
	d := *document(t)
	d.Spec.Load.Retry = &v1alpha1.Retry{Attempts: 9, Backoff: v1alpha1.DurationOf(10 * time.Millisecond), MaxBackoff: v1alpha1.DurationOf(time.Second), Jitter: 50,
		Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}}
	a := result.Attempts{Counts: result.Counts{Committed: 900, Aborted: 700, Causes: map[string]int64{"conflict": 650, "procedure": 50}}, Retried: 640, PerSecond: 1601, AbortPPM: 437_500,
		CommittedAfter: []int64{500, 300, 99, 0, 0, 0, 0, 0, 0}}
	d.Summary.Attempts, d.Regions = a, slices.Clone(d.Regions)
	for i := range d.Regions {
		d.Regions[i].Attempts = a
	}
	return &d
}

// The page of an external database states the isolation level that the database promises, and omits unknown figures.
func TestPageOfATarget(t *testing.T) {
	d := document(t)
	d.Target = &result.Target{Promises: "Serializable", ConnectionsPerRegion: 8}
	_, page := write(t, Input{Documents: []*result.Document{d, d}})
	if want := "promises Serializable, over 8 connections per region"; !strings.Contains(page, want) {
		t.Errorf("the page does not say %q", want)
	}
	for _, unknown := range []string{"<dt>bytes per transaction</dt>", "<dt>cost of a million</dt>"} {
		if strings.Contains(page, unknown) {
			t.Errorf("the page says %q", unknown)
		}
	}
}

// The page lists measurements of the bytes between nodes from different sources, and states that they disagree.
func TestPageTellsWitnesses(t *testing.T) {
	d := *document(t)
	nodes, proxied, off := int64(1_000_000), int64(900_000), int64(-100_000)
	d.Witnesses = []result.Witness{
		{Name: result.WitnessNodes, Counts: result.CountsFrames, Bytes: &nodes, BytesPerTransaction: 100},
		{Name: result.WitnessMesh, Counts: result.CountsPayload, Bytes: &proxied, BytesPerTransaction: 90, OffPPM: &off},
		{Name: result.WitnessEmulator, Counts: result.CountsPackets, NotCounted: "the emulator of pod p: connection refused"},
	}
	d.Notes = []string{"they disagree"}
	_, page := write(t, Input{Documents: []*result.Document{&d}})
	for _, want := range []string{"by mesh</dt><dd>900.0 kB, 90 per transaction", "-10.00% beside the nodes", "not counted: the emulator of pod p: connection refused", "<b>Note</b>: they disagree"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// The page shows attempts only if clients retry transactions.
func TestPageTellsAttempts(t *testing.T) {
	words := []string{"up to 9 attempts, 10ms to 1s apart (jitter 50%), after Conflict", "Transactions by the attempts until they committed", "1,601<small> /s, 43.75% aborted",
		">after 3<", "of 1601/s", "The upright mark is attempts per second"}
	folder, page := write(t, Input{Documents: []*result.Document{retried(t)}})
	for _, want := range words {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, ">after 4<") {
		t.Error("the page has bars for attempts after which nothing committed")
	}
	csv, err := os.ReadFile(filepath.Join(folder, "csv", "run-attempts.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "all,1601,1600,900,700,0,0,640,650,0,50,0,500,300,99\n"; !strings.HasSuffix(string(csv), want) {
		t.Errorf("the table is\n%s\nwant %s", csv, want)
	}

	idle := retried(t)
	idle.Regions[0].Attempts = result.Attempts{}
	folder, _ = write(t, Input{Documents: []*result.Document{idle}})
	if csv, err = os.ReadFile(filepath.Join(folder, "csv", "run-attempts.csv")); err != nil {
		t.Fatal(err)
	}
	if want := "\n" + idle.Regions[0].Name + ",0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"; !strings.Contains(string(csv), want) {
		t.Errorf("the table is\n%s\nwant%sfor a region without attempts", csv, want)
	}

	_, page = write(t, Input{Documents: []*result.Document{document(t)}})
	for _, word := range append(words, "ttempts per second") {
		if strings.Contains(page, word) {
			t.Errorf("the page says %q of a run without retries", word)
		}
	}
}

// swept returns an experiment report with two systems, three values of a parameter, and claims.
func swept() *experiment.Report {
	r := &experiment.Report{APIVersion: result.APIVersion, Kind: experiment.Kind, Simulated: true, Version: "v1",
		Claims: []experiment.Finding{
			{Experiment: "skew", ID: "c-1", Source: "us", Says: "calvin is faster", Measured: "3 > 2", Holds: true, Expression: "min(tput('calvin')) > max(tput('slog'))"},
			{Experiment: "skew", ID: "c-2", Says: "latency stays", Expression: "grows(series('p50', 'calvin'))"},
		},
		Doubtful: []string{"skew: slog hot=99: Invalid"},
		Experiments: []experiment.PointsSummary{{Name: "skew", Systems: []string{"calvin", "slog"}, Parameters: []string{"hot"},
			Tables: []experiment.TableData{{Name: "peaks", Title: "how high they are", Columns: []string{"txn/s"},
				Rows: []experiment.TableRow{{System: "calvin", Cells: []string{"4711"}}, {System: "slog", Cells: []string{""}}}, Missing: []string{"slog, txn/s: it broke"}}},
			Searches: []experiment.SearchData{{Label: "calvin hot=99", Reason: "Found", Message: "1200/s is kept", PeakRatePerSecond: 1200,
				Probes: []experiment.ProbeData{{RatePerSecond: 1260, Seed: 2, Says: "misses", Why: "p99 is too long", ThroughputPerSecond: 2500, P99Microseconds: v1alpha1.Observed(123_000)}}}}}},
	}
	for i, system := range r.Experiments[0].Systems {
		for k, hot := range []string{"99", "0", "50"} {
			r.Experiments[0].Points = append(r.Experiments[0].Points, experiment.PointData{System: system, Values: []string{hot},
				Median:    map[string]float64{"tput": float64(1000 * (i + 1) * (k + 1)), "p50": float64(k), "aborts": 0},
				HalfWidth: map[string]float64{"tput": 50, "p50": 0.1, "aborts": 0}})
		}
	}
	return r
}

func write(t *testing.T, in Input) (folder, page string) {
	t.Helper()
	folder = t.TempDir()
	path, err := Write(folder, in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return folder, string(b)
}

var (
	link   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(`\bid="([^"]*)"`)
)

func TestPageHoldsWhatAReaderNeeds(t *testing.T) {
	d := document(t)
	folder, page := write(t, Input{Documents: []*result.Document{d, d}, Experiments: []*experiment.Report{swept()}})
	for _, want := range []string{
		">Passed<", ">simulated<", "What was run", "Manifest: BenchmarkRun", "Manifest: GeoDatabase", "Manifest: NetworkProfile", "Seed", "Version",
		"Round-trip times, declared and measured", "Latency by transaction and region", "Throughput over time", "Bytes sent between regions",
		"Cost of a million transactions", "Operations on keys per node", "Data per node", "Checks and objectives", "Repetitions", "networkPartition", "it never began", "gone for good: a/0/0", "What the faults did",
		"peaks: how high they are", "<td>calvin</td><td>4711</td>", "<td>slog</td><td>-</td>", "slog, txn/s: it broke",
		"Searches for the peak", "Found: 1200/s is " +
			"kept", "<td>1260</td><td>2</td><td>misses</td><td>2500</td><td>-</td><td>-</td><td>-</td><td>123 " +
			"ms</td><td>p99 is too long</td>",
		"calvin is faster", "skew: slog hot=99: Invalid", "run (2)", "All runs",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("a text of the result has become part of the page")
	}
	ids := map[string]bool{}
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("id %q is there twice", m[1])
		}
		ids[m[1]] = true
	}
	files := 0
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		switch to := m[1]; {
		case strings.HasPrefix(to, "data:"):
		case strings.HasPrefix(to, "#"):
			if !ids[to[1:]] {
				t.Errorf("%s leads nowhere", to)
			}
		default:
			files++
			if info, err := os.Stat(filepath.Join(folder, to)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", to, err)
			}
		}
	}
	if files < 40 {
		t.Errorf("only %d links to files", files)
	}
	if n, m := strings.Count(page, "<figure"), strings.Count(page, "<summary>Table: "); n != m || n < 20 {
		t.Errorf("%d figures, %d tables behind them", n, m)
	}
}

func TestFilesOfFigures(t *testing.T) {
	folder, _ := write(t, Input{Documents: []*result.Document{document(t)}, Experiments: []*experiment.Report{swept()}})
	each := func(pattern string, check func(t *testing.T, r io.Reader) error) {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) < 12 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(t, f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = f.Close()
		}
	}
	each("csv/*.csv", func(_ *testing.T, r io.Reader) error {
		rows, err := csv.NewReader(r).ReadAll() // fails if a row has a different length than the header
		if err == nil && len(rows) < 2 {
			err = errors.New("no rows")
		}
		return err
	})
	each("svg/*.svg", func(_ *testing.T, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Inf") {
			return errors.New("a coordinate is no number")
		}
		decoder := xml.NewDecoder(strings.NewReader(string(b)))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	each("png/*.png", func(_ *testing.T, r io.Reader) error {
		picture, err := png.Decode(r)
		if err == nil && picture.Bounds().Dx() != 2*chart.Width {
			err = fmt.Errorf("%d dots wide, want %v", picture.Bounds().Dx(), 2*chart.Width)
		}
		return err
	})
	if d, err := result.Read(filepath.Join(folder, "results", "run.json")); err != nil || d.Name != "run" {
		t.Errorf("the result document: %v", err)
	}
}

// slower returns the document of a different run with half the throughput and twice the latency.
func slower(d *result.Document) *result.Document {
	s := *d
	s.Name = "slower"
	// The changed figures contradict the counts, the histograms and the duration of the original run, so remove these
	// three.
	s.Repetitions, s.Histograms, s.Spec.Load.Duration = nil, result.Histograms{}, v1alpha1.Duration{}
	for _, r := range d.Repetitions {
		r.ThroughputPerSecond /= 2
		r.LatencyMicroseconds.P50 = v1alpha1.Observed(2 * r.LatencyMicroseconds.P50.Least())
		r.LatencyMicroseconds.P99 = v1alpha1.Observed(2 * r.LatencyMicroseconds.P99.Least())
		s.Repetitions = append(s.Repetitions, r)
	}
	return &s
}

func TestComparison(t *testing.T) {
	d := document(t)
	worse := slower(d)
	// Four results with two repetitions each suffice for a decision, both in the baseline and in the comparison.
	of := func(d *result.Document) (seeds []*result.Document) {
		for i := range int64(4) {
			s := *d
			s.Seed += i
			s.Manifests = nil // the manifests contain the old seed
			seeds = append(seeds, &s)
		}
		return seeds
	}
	folder, page := write(t, Input{Documents: of(worse), Baseline: of(d)})
	for _, want := range []string{
		`slower (SIMULATED) and 3 more against run (SIMULATED) and 3 more <span class="badge regression">Regression</span>`,
		"worse: throughput -50.0% [-5", "8 repetitions", `href="csv/comparison-changes.csv"`, "<td>Regression</td>", `href="#comparison"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(folder, "csv", "comparison-changes.csv")); err != nil || !strings.Contains(string(b), "throughput,all regions,") {
		t.Errorf("%v: %s", err, b)
	}
	other := slower(d)
	other.Spec.LoadHash = "another"
	_, page = write(t, Input{Documents: []*result.Document{d, other}, Baseline: []*result.Document{d}})
	for _, want := range []string{"run (SIMULATED) against run (SIMULATED)", "slower (SIMULATED) against run (SIMULATED)", `id="comparison-2"`, ">Undecided<", "load differs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of two loads does not say %q", want)
		}
	}
	if _, page = write(t, Input{Documents: []*result.Document{d}}); strings.Contains(page, "comparison") {
		t.Error("there is a comparison that nobody has asked for")
	}
}

func TestTheSameBytes(t *testing.T) {
	in := Input{Documents: []*result.Document{document(t)}, Experiments: []*experiment.Report{swept()}}
	_, first := write(t, in)
	_, second := write(t, in)
	if first != second {
		t.Error("the same results gave two pages")
	}
}

// TestChartsStayInside draws every figure and checks that no line or label extends beyond the edges of its chart.
func TestChartsStayInside(t *testing.T) {
	d := document(t)
	p := page{Overview: overview([]*result.Document{d, d}), Comparisons: comparisons([]*result.Document{d, d, d, d}, []*result.Document{slower(d), slower(d), slower(d)}), Runs: []*run{newRun(d, map[string]bool{})}, Sweeps: sweeps(swept())}
	for _, f := range p.figures() {
		charttest.Inside(t, f.ID, f.scene.File(f.ID))
	}
}

func TestSweepFigures(t *testing.T) {
	s := sweeps(swept())[0]
	figures := map[string]*Figure{}
	for _, f := range s.Figures {
		figures[f.ID] = f
	}
	if f := figures["skew-tput"]; f == nil || len(f.Claims) != 1 || f.Claims[0].ID != "c-1" || f.Claims[0].Answer != "holds" {
		t.Errorf("throughput: %+v", f)
	}
	if f := figures["skew-p50"]; f == nil || len(f.Claims) != 1 || f.Claims[0].ID != "c-2" {
		t.Errorf("p50: %+v", f)
	}
	if figures["skew-aborts"] != nil {
		t.Error("a figure that is 0 everywhere is drawn")
	}
	at, words := places([]string{"1s", "10ms", "100ms"})
	if at["1s"] != 1 || at["10ms"] != 0.01 || words[0.1] != "100ms" {
		t.Errorf("durations: %v, %v", at, words)
	}
	if at, words := places([]string{"leader", "epochs"}); at["epochs"] != 1 || words[0] != "leader" {
		t.Errorf("words: %v, %v", at, words)
	}
}

// TestBadges checks that the text of badges has a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3).
func TestBadges(t *testing.T) {
	pairs := regexp.MustCompile(`--(good|bad|warn|note):(#[0-9a-f]{6});--(?:good|bad|warn|note)-ground:(#[0-9a-f]{6})`)
	found := pairs.FindAllStringSubmatch(style.CSS, -1)
	if len(found) != 8 {
		t.Fatalf("%d badges in the style, want 8", len(found))
	}
	for _, m := range found {
		if c := charttest.Contrast(t, m[2], m[3]); c < 4.5 {
			t.Errorf("badge %s: %s on %s has a contrast of %.1f", m[1], m[2], m[3], c)
		}
	}
}

func TestAdd(t *testing.T) {
	dir := t.TempDir()
	if err := result.WriteJSON(filepath.Join(dir, "report.json"), swept()); err != nil {
		t.Fatal(err)
	}
	results := t.TempDir()
	if err := result.WriteJSON(filepath.Join(results, "a.json"), document(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(results, "other.json"), []byte(`{"kind": "List"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var in Input
	for _, path := range []string{dir, filepath.Join(dir, "report.json"), results, filepath.Join(results, "a.json")} {
		if err := in.Add(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(in.Documents) != 2 || len(in.Experiments) != 2 {
		t.Errorf("%d documents and %d experiments, want 2 of each", len(in.Documents), len(in.Experiments))
	}
	for path, want := range map[string]string{
		t.TempDir():                          "nor a result document",
		filepath.Join(results, "other.json"): "not a RunResult",
		filepath.Join(results, "none.json"):  "no such file",
	} {
		if err := in.Add(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
