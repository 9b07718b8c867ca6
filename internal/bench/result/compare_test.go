package result

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/geobench/geobench/api/v1alpha1"
)

func TestCompare(t *testing.T) {
	a, err := Build(evident(small()))
	if err != nil {
		t.Fatal(err)
	}
	in := small()
	in.Seed, in.Engine = 2, "slog"
	in.Reports[0].Series = in.Reports[0].Series[1:]
	b, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	c := Compare([]*Document{a}, []*Document{b}, CompareOptions{})
	if got := fmt.Sprint(c.Warnings); got != "[engines differ: calvin and slog seeds differ: 1 and 2]" {
		t.Error(got)
	}
	if f := c.Figures[0]; f.Name != "throughput" || f.A.Least() != 1090 || f.B.Least() != 290 || *f.ChangePPM != -733_945 || f.PPPM != nil {
		t.Errorf("%+v", f)
	}
	if c.Verdict != Undecided || !strings.Contains(c.Message, "spec.load.repetitions: 5 or more") {
		t.Errorf("one repetition each: %s: %s", c.Verdict, c.Message)
	}
	inReal, sidecar, journal, mixed := *a, *a, *a, *a
	mixed.WorkerVersion = "v1, v2"
	inReal.Simulated, sidecar.Simulated = false, false
	inReal.Emulation, sidecar.Emulation, journal.Durability = "BuiltIn", "Sidecar", "Journal"
	for got, want := range map[string]string{
		fmt.Sprint(Compare([]*Document{&inReal}, []*Document{&sidecar}, CompareOptions{}).Warnings): "[emulations of the network differ: BuiltIn and Sidecar]",
		fmt.Sprint(Compare([]*Document{a}, []*Document{&journal}, CompareOptions{}).Warnings):       "[durability differs: None and Journal]",
		fmt.Sprint(Compare([]*Document{a}, []*Document{&mixed}, CompareOptions{}).Warnings):         "[versions of workers differ: the version of the result and v1, v2]",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if f := Compare([]*Document{a}, []*Document{a}, CompareOptions{}); len(f.Warnings) > 0 {
		t.Errorf("compared with itself: %v", f.Warnings)
	}
	var out bytes.Buffer
	if err := c.Table(&out); err != nil || !strings.Contains(out.String(), "-73.4%") || !strings.Contains(out.String(), "SIMULATED") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestCompareManifests checks that a comparison names every difference between manifests that no other figure shows. An
// example is a fault plan that only one run has.
func TestCompareManifests(t *testing.T) {
	document := func(change func(d *Document)) *Document {
		d := repeated(1000)
		d.Manifests = &Manifests{Run: &v1alpha1.BenchmarkRunSpec{Verify: []v1alpha1.Verification{v1alpha1.VerifyInvariants}},
			Database: &v1alpha1.GeoDatabaseSpec{PartitionsPerRegion: 1, Pods: &v1alpha1.Pods{Program: v1alpha1.Program{Image: "postgres:16"}}}, ConfigMaps: map[string]string{"c": "1"}}
		d.Target = &Target{Server: "PostgreSQL 16.0", Isolation: "serializable"}
		d.Summary.Cost = Cost{Currency: "USD", Instance: "m5.large", PriceSource: "list", PriceDate: "2026-01-01"}
		if change != nil {
			change(d)
		}
		return d
	}
	for name, tc := range map[string]struct {
		change func(d *Document)
		want   string
	}{
		"nothing": {nil, "[]"},
		"faults":  {func(d *Document) { d.Manifests.Run.Faults = []v1alpha1.Fault{{Name: "cut"}} }, "[the manifests of the runs differ in faults]"},
		"what is recorded, and more": {func(d *Document) {
			d.Manifests.Run.Verify, d.Manifests.Run.FaultInjection = nil, v1alpha1.FaultInjectionChaosMesh
		}, "[the manifests of the runs differ in faultInjection, verify]"},
		"a name, or a deadline": {func(d *Document) { d.Manifests.Run.DatabaseRef.Name, d.Manifests.Run.RunID = "other", "2" }, "[]"},
		"the image":             {func(d *Document) { d.Manifests.Database.Pods.Image = "postgres:15" }, "[the manifests of the databases differ in pods]"},
		"the CPU": {func(d *Document) {
			d.Manifests.Database.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, "[the manifests of the databases differ in resources]"},
		"partitions, which the topology tells": {func(d *Document) { d.Manifests.Database.PartitionsPerRegion, d.Spec.TopologyHash = 2, "x" }, "[topology or network differs (spec.topologyHash):  and x]"},
		"a configuration":                      {func(d *Document) { d.Manifests.ConfigMaps["c"] = "2" }, "[ConfigMaps that pods mount differ: c 1 and c 2]"},
		"the server":                           {func(d *Document) { d.Target.Server = "PostgreSQL 15.0" }, "[servers differ: PostgreSQL 16.0 and PostgreSQL 15.0]"},
		"the isolation":                        {func(d *Document) { d.Target.Isolation = "read committed" }, "[isolation levels differ: serializable and read committed]"},
		"the currency":                         {func(d *Document) { d.Summary.Cost.Currency = "EUR" }, "[prices differ: m5.large in USD, list 2026-01-01 and m5.large in EUR, list 2026-01-01]"},
		"no manifests":                         {func(d *Document) { d.Manifests = nil }, "[ConfigMaps that pods mount differ: c 1 and none]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(Compare([]*Document{document(nil)}, []*Document{document(tc.change)}, CompareOptions{}).Warnings); got != tc.want {
				t.Errorf("warnings %s, want %s", got, tc.want)
			}
		})
	}
}

// TestCompareTellsOfEditedResults checks that a comparison names results whose figures do not follow from their counts.
func TestCompareTellsOfEditedResults(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(d *Document)
		want string
	}{
		"nothing":                {func(*Document) {}, ""},
		"the throughput":         {func(d *Document) { d.Summary.ThroughputPerSecond *= 2 }, "summary.throughputPerSecond is 2180, and its counts make 1090"},
		"that of a region":       {func(d *Document) { d.Regions[1].ThroughputPerSecond = 1000 }, "regions[b].throughputPerSecond is 1000, and its counts make 90"},
		"that of a window":       {func(d *Document) { d.Repetitions[0].ThroughputPerSecond = 1 }, "repetitions[1].throughputPerSecond is 1, and its counts make 1090"},
		"the counts of a region": {func(d *Document) { d.Regions[1].Committed += 1_000_000 }, "summary.committed is 10890, and its regions have 1010890"},
		"the aborts":             {func(d *Document) { d.Summary.Aborted = 0 }, "summary.abortPPM is"},
		"the verdict": {func(d *Document) {
			d.Verdict, d.Objectives = v1alpha1.VerdictPassed, []Objective{{Name: "throughput >= 2000", Measured: "1090/s"}}
		}, "the verdict is Passed, and objective throughput >= 2000 does not hold"},
		"the reasons are left": {func(d *Document) {
			d.Verdict, d.Reasons = v1alpha1.VerdictPassed, []Reason{{ReasonDriverBound, "busy"}}
		}, "the verdict is Passed, and there is a reason, DriverBound"},
		"a cancelled run is shorter": {func(d *Document) {
			d.Verdict, d.Reasons, d.Summary.ThroughputPerSecond = v1alpha1.VerdictInvalid, []Reason{{ReasonCancelled, ""}}, 5
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			in.Load.Duration = v1alpha1.DurationOf(time.Duration(in.Reports[0].DurationMicroseconds) * time.Microsecond)
			a, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			b, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			tc.edit(b)
			got := fmt.Sprint(Compare([]*Document{a}, []*Document{b}, CompareOptions{}).Warnings)
			if told := strings.Contains(got, "was edited, or is of another version: "); told != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("warnings %s, want %q", got, tc.want)
			}
		})
	}
}

// TestCompareAttempts checks that attempts are compared if a result has retries, and that they do not affect the
// verdict.
func TestCompareAttempts(t *testing.T) {
	in := small()
	without, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	in.Load.Retry = &v1alpha1.Retry{Attempts: 3}
	with, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		a, b *Document
		want int
	}{"neither": {without, without, 0}, "one": {without, with, 2}, "both": {with, with, 2}} {
		n := 0
		for _, f := range Compare([]*Document{tc.a}, []*Document{tc.b}, CompareOptions{}).Figures {
			switch f.Name {
			case "attempts":
				if f.A.Least() != 1121 || f.B.Least() != 1121 || f.Judged || f.Format(f.A) != "1121/s" {
					t.Errorf("%s: %+v", name, f)
				}
				n++
			case "aborted attempts":
				if f.A.Least() != 26_769 || f.Judged || f.Format(f.A) != "2.677%" {
					t.Errorf("%s: %+v", name, f)
				}
				n++
			}
		}
		if n != tc.want {
			t.Errorf("%s: %d figures of attempts, want %d", name, n, tc.want)
		}
	}
}

// repeated returns a result with one repetition per given throughput. Latencies are 10^9 / throughput microseconds.
func repeated(throughput ...int64) *Document {
	d := &Document{Name: "run", Verdict: "Passed", Regions: []Region{{Name: "a"}}}
	for i, v := range throughput {
		l := Latency{P50: v1alpha1.Observed(1e9 / v), P90: v1alpha1.Observed(2e9 / v), P95: v1alpha1.Observed(3e9 / v), P99: v1alpha1.Observed(4e9 / v)}
		d.Repetitions = append(d.Repetitions, Repetition{Index: i + 1, ThroughputPerSecond: v, LatencyMicroseconds: l,
			Regions: []RepetitionRegion{{Name: "a", ThroughputPerSecond: v, LatencyMicroseconds: l}}})
	}
	return d
}

func TestCompareJudges(t *testing.T) {
	base := []int64{1000, 1010, 990, 1005, 995}
	tests := map[string]struct {
		a, b []int64
		o    CompareOptions
		want Change
		says string
	}{
		"worse":                      {a: base, b: []int64{900, 910, 890, 905, 895}, want: Regression, says: "worse: throughput -10.0%"},
		"better":                     {a: base, b: []int64{1100, 1110, 1090, 1105, 1095}, want: Improvement, says: "better: throughput +10.0%"},
		"the same":                   {a: base, b: base, want: NoDifference, says: "none of throughput"},
		"chance":                     {a: base, b: []int64{1001, 1008, 989, 970, 1003}, want: NoDifference},
		"certain but small":          {a: base, b: []int64{1013, 1023, 1012, 1018, 1014}, o: CompareOptions{Threshold: 0.02}, want: NoDifference},
		"small and no threshold":     {a: base, b: []int64{1013, 1023, 1012, 1018, 1014}, o: CompareOptions{Threshold: -1}, want: Improvement},
		"four of them":               {a: base[:4], b: []int64{500, 500, 501, 502}, want: Undecided, says: "repetitions: 5 or more"},
		"four are enough at 20%":     {a: base[:4], b: []int64{500, 503, 501, 502}, o: CompareOptions{Alpha: 0.2}, want: Regression},
		"three against a dozen":      {a: base[:3], b: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, want: Regression},
		"large and overlapping once": {a: base, b: []int64{500, 501, 502, 503, 992}, want: NoDifference},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := Compare([]*Document{repeated(tc.a...)}, []*Document{repeated(tc.b...)}, tc.o)
			if c.Verdict != tc.want || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: %s; want %s with %q", c.Verdict, c.Message, tc.want, tc.says)
			}
		})
	}
	// With an Invalid side, the comparison is undecided, whichever side is faster.
	for _, faster := range []int64{1, 2, 3} {
		sound, invalid := repeated(base...), repeated(base[0]*faster/2, base[1]*faster/2, base[2]*faster/2, base[3]*faster/2, base[4]*faster/2)
		invalid.Name, invalid.Verdict, invalid.Reasons = "doubt", v1alpha1.VerdictInvalid, []Reason{{ReasonDriverBound, "busy"}}
		for side, c := range map[string]*Comparison{
			"A": Compare([]*Document{invalid}, []*Document{sound}, CompareOptions{}),
			"B": Compare([]*Document{sound, sound}, []*Document{sound, invalid}, CompareOptions{}),
		} {
			if c.Verdict != Undecided || !strings.HasPrefix(c.Message, side+", doubt, is Invalid and cannot be compared with: DriverBound: busy") || c.Figures[0].Change != "" {
				t.Errorf("%s is Invalid: %s: %s", side, c.Verdict, c.Message)
			}
		}
	}
	// The repetitions of several results are pooled.
	var a, b []*Document
	for i := range base {
		a, b = append(a, repeated(base[i])), append(b, repeated(base[i]/2))
	}
	if c := Compare(a, b, CompareOptions{}); c.Verdict != Regression || c.RepetitionsA != 5 || *c.Figures[len(c.Figures)-5].PPPM > 10_000 {
		t.Errorf("%+v", c)
	}
}

// TestCompareIsRightAsOftenAsItSays compares pairs of samples from equal and from different distributions. False alarms
// must be no more frequent than alpha, and the interval must contain the true shift at least as often as its level
// states.
func TestCompareIsRightAsOftenAsItSays(t *testing.T) {
	const trials = 2000
	rng := rand.New(rand.NewPCG(1, 7))
	draw := func(mean float64) *Document {
		var v []int64
		for range 6 {
			v = append(v, int64(mean+rng.NormFloat64()*mean/20))
		}
		return repeated(v...)
	}
	alarms, covered := 0, 0
	for range trials {
		if c := Compare([]*Document{draw(100_000)}, []*Document{draw(100_000)}, CompareOptions{Threshold: -1}); c.Verdict != NoDifference {
			alarms++
		}
		c := Compare([]*Document{draw(100_000)}, []*Document{draw(120_000)}, CompareOptions{})
		f := c.Figures[0]
		// The shift is relative to A's median, which is itself random.
		shift := int64(20_000 * 1e6 / float64(f.A.Least()))
		if *f.LowPPM <= shift && shift <= *f.HighPPM {
			covered++
		}
	}
	if limit := trials * 5 / 100; alarms > limit+30 {
		t.Errorf("%d of %d comparisons of equals found a difference, more than 5%%", alarms, trials)
	}
	if covered < trials*94/100 {
		t.Errorf("%d of %d intervals hold the true difference, fewer than 95%%", covered, trials)
	}
	t.Logf("%d false alarms, %d intervals of %d that hold", alarms, covered, trials)
}
