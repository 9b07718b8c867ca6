package experiment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/run/experiment"
)

// situation builds a schedule from one word per database. The characters of a word are the points of the database in
// the order of the sweep: . (no run), * (in progress), ! (Invalid, to be retried), + (passed), x (failed permanently).
// The word is in ( ) if the database exists, and in [ ] if it is being deleted.
func situation(concurrency int, suspended bool, databases ...string) *schedule {
	s := &schedule{concurrency: concurrency, suspended: suspended, points: map[string]*point{}}
	for i, text := range databases {
		d := &pointDatabase{name: fmt.Sprint(i), made: true}
		for _, c := range text {
			switch c {
			case '(':
				d.object = &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
			case '[':
				d.object = &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: d.name, DeletionTimestamp: ptr.To(metav1.Now())}}
			case '.', '*', '!', '+', 'x':
				p := &point{Run: &experiment.Run{Label: fmt.Sprintf("%d%d", i, len(d.points))}, database: d}
				if c != '.' {
					p.object = &v1alpha1.BenchmarkRun{Spec: v1alpha1.BenchmarkRunSpec{DatabaseRef: v1alpha1.LocalReference{Name: d.name}}}
					st := &p.object.Status
					switch c {
					case '*':
						st.Stage = v1alpha1.StageMeasure
					case '!':
						st.Stage, st.Verdict, st.Reason = v1alpha1.StageFailed, v1alpha1.VerdictInvalid, "NodeLost"
					case 'x':
						st.Stage, st.Verdict, st.Reason = v1alpha1.StageFailed, v1alpha1.VerdictInvalid, "StageDeadlineExceeded"
					case '+':
						st.Stage, st.Verdict = v1alpha1.StageCompleted, v1alpha1.VerdictPassed
					}
				}
				d.points = append(d.points, p)
			}
		}
		s.databases = append(s.databases, d)
	}
	return s
}

// Databases whose hashes share a prefix have different, stable names.
func TestDatabasesWhoseHashesBeginAlike(t *testing.T) {
	object := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	expanded := &experiment.Experiment{}
	for i, hash := range []string{"0123456789", "01234567ab", "0123456789", "01234567cd", "f123456789"} {
		expanded.Points = append(expanded.Points, &experiment.Point{Runs: []*experiment.Run{{
			Run:          &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}},
			Database:     &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "near"}},
			DatabaseHash: hash,
		}}})
	}
	var got []string
	for _, d := range newSchedule(object, expanded).databases {
		text := d.name
		for _, p := range d.points {
			text += " " + p.Run.Run.Name
		}
		got = append(got, text)
	}
	want := []string{"near-4fb3bcc8 0 2", "near-b27ea777 1", "near-60c5dc36 3", "near-559f66a3 4"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSchedule(t *testing.T) {
	tests := map[string]struct {
		schedule *schedule
		due      []string
		unneeded []string
		done     bool
	}{
		"at first":                           {situation(1, false, "..", ".."), []string{"00"}, nil, false},
		"under way":                          {situation(1, false, "(*.)", ".."), nil, nil, false},
		"the next on the same database":      {situation(1, false, "(+.)", ".."), []string{"01"}, nil, false},
		"a database that is needed no more":  {situation(1, false, "(++)", ".."), nil, []string{"0"}, false},
		"it is on its way out":               {situation(1, false, "[++]", ".."), nil, []string{"0"}, false},
		"it is gone":                         {situation(1, false, "++", ".."), []string{"10"}, nil, false},
		"again":                              {situation(1, false, "(!.)"), []string{"00"}, nil, false},
		"failed for good":                    {situation(1, false, "(x.)"), []string{"01"}, nil, false},
		"its database was deleted":           {situation(1, false, "[+.]", "."), nil, nil, false},
		"its database has to be made again":  {situation(1, false, "+.", "."), []string{"01"}, nil, false},
		"two at once":                        {situation(2, false, "..", "..", ".."), []string{"00", "10"}, nil, false},
		"one of two goes on":                 {situation(2, false, "(+.)", "(*.)", ".."), []string{"01"}, nil, false},
		"the third begins":                   {situation(2, false, "++", "(*.)", ".."), []string{"20"}, nil, false},
		"no room while one is on its way":    {situation(2, false, "[++]", "(*.)", ".."), nil, []string{"0"}, false},
		"suspended under way":                {situation(1, true, "(*.)", ".."), nil, nil, false},
		"suspended":                          {situation(1, true, "(+.)", ".."), nil, []string{"0"}, false},
		"all done":                           {situation(1, false, "+x", "++"), nil, nil, true},
		"all done, but a database is left":   {situation(1, false, "++", "(++)"), nil, []string{"1"}, false},
		"suspended with nothing left to run": {situation(1, true, "++"), nil, nil, true},
	}
	for name, tt := range tests {
		s := tt.schedule
		s.settle()
		var due, unneeded []string
		for _, p := range s.due() {
			due = append(due, p.Label)
		}
		for _, db := range s.unneeded() {
			unneeded = append(unneeded, db.Name)
		}
		if !slices.Equal(due, tt.due) || !slices.Equal(unneeded, tt.unneeded) || s.done() != tt.done {
			t.Errorf("%s: due %v, unneeded %v, done %t; want %v, %v, %t", name, due, unneeded, s.done(), tt.due, tt.unneeded, tt.done)
		}
	}
}

// TestStrayRunsCount: a run that is no longer in the spec occupies its resources until it is deleted.
func TestStrayRunsCount(t *testing.T) {
	stray := &v1alpha1.BenchmarkRun{Spec: v1alpha1.BenchmarkRunSpec{DatabaseRef: v1alpha1.LocalReference{Name: "old"}}}
	s := situation(1, false, "..")
	s.hasRun(stray)
	s.hasDatabase(&v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	s.settle()
	if s.busy != 1 || len(s.due()) != 0 || len(s.unneeded()) != 0 || s.done() {
		t.Errorf("busy %d, due %v, unneeded %v", s.busy, s.due(), s.unneeded())
	}
	s = situation(1, false, "..")
	s.hasDatabase(&v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	s.settle()
	if len(s.due()) != 0 || len(s.unneeded()) != 1 {
		t.Errorf("due %v, unneeded %v", s.due(), s.unneeded())
	}
}

func TestAttempts(t *testing.T) {
	for id, want := range map[string]int{"": 1, "attempt-2": 2, "attempt-3": 3, "attempt-99": maxAttempts, "attempt-0": 1, "mine": 1} {
		if got := attemptOf(&v1alpha1.BenchmarkRun{Spec: v1alpha1.BenchmarkRunSpec{RunID: id}}); got != want {
			t.Errorf("%q is attempt %d, want %d", id, got, want)
		}
	}
}

// TestTheLargestReportFits: an experiment with the maximum number of points must not fail at its very end. The figures
// by type are omitted if necessary.
func TestTheLargestReportFits(t *testing.T) {
	const limit = 1 << 20 // for all values of a ConfigMap, in bytes
	for name, types := range map[string]int{"one type": 0, "several types": 5} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			report := &experiment.Report{Claims: make([]experiment.Finding, 64), Experiments: []experiment.PointsSummary{{Name: "big", Parameters: []string{"a", "b"}}}}
			for i := range experiment.MaxPoints {
				p := experiment.PointData{System: "calvin", Values: []string{fmt.Sprint(i % 100), fmt.Sprint(i / 100)}, Median: map[string]float64{}}
				for m := range 14 {
					p.Median[fmt.Sprintf("metric%d", m)] = r.Float64() * 10_000
				}
				for n := range types {
					if p.Types == nil {
						p.Types = map[string]map[string]float64{}
					}
					p.Types[fmt.Sprintf("type%d", n)] = map[string]float64{"tput": r.Float64() * 10_000, "p50": r.Float64() * 100, "p99": r.Float64() * 1000}
				}
				report.Experiments[0].Points = append(report.Experiments[0].Points, p)
			}
			report.Round(reportDigits)
			cm, err := reportConfigMap(report)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, v := range cm.Data {
				size += len(v)
			}
			for _, v := range cm.BinaryData {
				size += len(v)
			}
			t.Logf("%d bytes", size)
			if size > limit {
				t.Errorf("a report of %d points takes %d bytes, more than a ConfigMap holds (%d)", experiment.MaxPoints, size, limit)
			}
			if len(cm.BinaryData[results.ReportKeyGzip]) == 0 || cm.Data[results.ReportKey] != "" {
				t.Error("the report is not packed")
			}
		})
	}
}

// The cached expansion of an experiment, which may be large, is dropped when the experiment is deleted. It does not
// apply to another experiment of the same name.
func TestExpansionsAreForgotten(t *testing.T) {
	name := types.NamespacedName{Namespace: "test", Name: "e"}
	r := &Reconciler{Live: fake.NewClientBuilder().WithScheme(kube.Scheme()).Build(), Jobs: background.NewRunner()}
	r.expansions.put(name, &expansion{of: "first"})
	if _, ok := r.expansions.get(name, "second"); ok {
		t.Error("what was kept of an experiment counts for another one")
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.expansions.kept); n > 0 {
		t.Errorf("%d are kept of experiments that are gone", n)
	}
}

// The cache is bounded, and keeps the most recently used experiments.
func TestExpansionsAreBounded(t *testing.T) {
	large := func(runs int) *expansion {
		return &expansion{of: "first", experiment: &experiment.Experiment{MostRuns: runs}}
	}
	var x expansions
	name := func(n string) types.NamespacedName { return types.NamespacedName{Name: n} }
	for _, n := range []string{"a", "b", "c"} {
		x.put(name(n), large(keptRuns/3))
	}
	x.get(name("a"), "first")
	x.put(name("d"), large(keptRuns/3))
	x.put(name("small"), large(1))
	if got := slices.Sorted(func(yield func(string) bool) {
		for n := range x.kept {
			if !yield(n.Name) {
				return
			}
		}
	}); !slices.Equal(got, []string{"a", "c", "d", "small"}) {
		t.Errorf("%v are kept", got)
	}
	x.put(name("huge"), large(2*keptRuns))
	if _, ok := x.get(name("huge"), "first"); !ok || len(x.kept) != 1 {
		t.Errorf("%d are kept beside the one that is being played", len(x.kept)-1)
	}
}

// The status of an experiment shows a lower bound of a latency as a bound.
func TestPointsShowLowerBounds(t *testing.T) {
	p := situation(1, false, "+").databases[0].points[0]
	p.Run.Run = &v1alpha1.BenchmarkRun{}
	bound := v1alpha1.MoreThan(140_000)
	p.object.Status.Summary = &v1alpha1.RunSummary{LatencyMicroseconds: v1alpha1.LatencyMicroseconds{P50: bound, P99: bound}}
	if st := p.status(); st.P50Microseconds == nil || *st.P50Microseconds != bound || *st.P99Microseconds != bound {
		t.Errorf("p50 %+v, p99 %+v, want %+v", st.P50Microseconds, st.P99Microseconds, bound)
	}
}
