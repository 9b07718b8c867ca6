package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy/mesh"
)

// Comparison sets two results side by side and judges whether the second is worse or better than the first.
type Comparison struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	A          string `json:"a"`
	B          string `json:"b"`
	// RepetitionsA and RepetitionsB are the numbers of measured windows.
	RepetitionsA int `json:"repetitionsA"`
	RepetitionsB int `json:"repetitionsB"`
	// Verdict and, in a sentence, why.
	Verdict Change `json:"verdict"`
	Message string `json:"message"`
	// AlphaPPM is the probability, in parts per million, that results which do not differ are called different.
	AlphaPPM int64 `json:"alphaPPM"`
	// ThresholdPPM is the relative change, in parts per million, that is too small to matter.
	ThresholdPPM int64 `json:"thresholdPPM"`
	// Warnings say what else differs, so that a difference in figures may not be what it seems.
	Warnings []string     `json:"warnings"`
	Figures  []Difference `json:"figures"`
}

// ComparisonKind marks a Comparison.
const ComparisonKind = "RunComparison"

// Change is how a result, or one of its figures, compares with another.
type Change = v1alpha1.Change

// The changes: significantly worse, better, or neither, by more than the threshold; or too few repetitions to tell.
const (
	Regression   = v1alpha1.ChangeRegression
	Improvement  = v1alpha1.ChangeImprovement
	NoDifference = v1alpha1.ChangeNoDifference
	Undecided    = v1alpha1.ChangeUndecided
)

// Difference is one figure of both results.
type Difference struct {
	Name string `json:"name"`
	// Region is empty for the whole run.
	Region string `json:"region,omitempty"`
	Unit   string `json:"unit"`
	// A and B are the medians of the repetitions; of an even number, the lower of the two in the middle. They are lower
	// bounds where the median is of a percentile that was not observed.
	A v1alpha1.Quantile `json:"a"`
	B v1alpha1.Quantile `json:"b"`
	// ChangePPM is (B - A) / A in parts per million; nil when A is 0 and B is not, and where only a bound of either is known.
	ChangePPM *int64 `json:"changePPM"`
	// LowPPM and HighPPM bound the change: the confidence interval of the shift that belongs to the Mann-Whitney test
	// (Hodges and Lehmann, 1963), at a level of at least 1 - alpha. Nil with too few repetitions.
	LowPPM  *int64 `json:"lowPPM,omitempty"`
	HighPPM *int64 `json:"highPPM,omitempty"`
	// PPPM is the p-value of the Mann-Whitney U test, in parts per million; nil where there is one repetition only.
	PPPM *int64 `json:"pPPM,omitempty"`
	// Judged figures make the verdict.
	Judged bool   `json:"judged"`
	Change Change `json:"change,omitempty"`
}

// CompareOptions say what counts as a difference. The zero value is 5% and 1%.
type CompareOptions struct {
	// Alpha is the probability that results which do not differ are called different, over all judged figures together:
	// between 0 and 1, exclusive.
	Alpha float64
	// Threshold is the relative change that is too small to matter: 0.01 is 1%. Negative is none.
	Threshold float64
}

const (
	defaultAlpha     = 0.05
	defaultThreshold = 0.01
)

// sample is a figure as every repetition of both results has it.
type sample struct {
	Difference
	a, b []v1alpha1.Quantile
	// p is the p-value of the Mann-Whitney U test; nil where there is one repetition only.
	p *float64
	// better is 1 where more is better, -1 where less is.
	better int
}

// Compare sets b beside a: each of them one result, or several whose repetitions count together.
func Compare(a, b []*Document, o CompareOptions) *Comparison {
	o.Alpha, o.Threshold = cmp.Or(o.Alpha, defaultAlpha), max(0, cmp.Or(o.Threshold, defaultThreshold))
	c := &Comparison{
		APIVersion: APIVersion, Kind: ComparisonKind, A: titles(a), B: titles(b), Warnings: warnings(a, b),
		AlphaPPM: ppm(o.Alpha), ThresholdPPM: ppm(o.Threshold),
	}
	a, b = c.distinct(a, "A"), c.distinct(b, "B")
	c.RepetitionsA, c.RepetitionsB = repetitions(a), repetitions(b)
	samples := figuresOf(a, b)
	c.judge(samples, o)
	differ := ofOneSide(a, b)
	if differ != "" {
		c.doubtWhole(differ, samples)
	}
	c.judgeRegions(samples, o, differ)
	c.distrust(a, b, samples)
	for i := range samples {
		c.Figures = append(c.Figures, samples[i].Difference)
	}
	return c
}

// distinct omits copies of a result, which are no samples of their own, and warns of them.
func (c *Comparison) distinct(docs []*Document, side string) (out []*Document) {
	seen := map[string]bool{}
	for _, d := range docs {
		b, err := json.Marshal([]any{d.Verdict, d.Simulated, d.Seed, d.Engine, d.Execution, d.Repetitions, d.Histograms})
		if key := string(b); err != nil || !seen[key] {
			seen[key] = true
			out = append(out, d)
		}
	}
	if n := len(docs) - len(out); n > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s has the same result %d times more; copies do not count", side, n))
	}
	return out
}

// distrust makes the comparison Undecided if a side is Invalid: an unsound measurement is neither better, worse nor the same. Nor is a
// database that gives wrong answers or none, but one that did not do so before is worse.
func (c *Comparison) distrust(a, b []*Document, samples []sample) {
	unsound := func(docs []*Document) (d *Document, why string) {
		for _, d := range docs {
			if why := d.unsound(); why != "" {
				return d, why
			}
		}
		return nil, ""
	}
	of := func(side string, d *Document, why string) string {
		return fmt.Sprintf("%s, %s, is %s and cannot be compared with: %s", side, title(d), d.Verdict, why)
	}
	x, whyX := unsound(a)
	y, whyY := unsound(b)
	switch {
	case x != nil:
		c.Verdict, c.Message = Undecided, of("A", x, whyX)
	case y == nil:
		return
	case y.Verdict == v1alpha1.VerdictFailed && len(y.disagreements()) == 0:
		c.Verdict, c.Message = Regression, of("B", y, whyY)
	default:
		c.Verdict, c.Message = Undecided, of("B", y, whyY)
	}
	for i := range samples {
		samples[i].Change = ""
	}
}

// unsound says why the figures of the document are no measure of the database: it is Invalid, its answers are wrong, or it gave
// none, or the document was edited. It is empty where they are.
func (d *Document) unsound() string {
	if why := d.disagreements(); len(why) > 0 {
		return "it was edited, or is of another version: " + why[0]
	}
	for _, r := range d.Reasons {
		if d.Verdict == v1alpha1.VerdictInvalid || r.Reason == ReasonCheckFailed || r.Reason == ReasonUnanswered {
			return r.Reason + ": " + r.Message
		}
	}
	if d.Verdict == v1alpha1.VerdictInvalid {
		return "its result says no reason"
	}
	return ""
}

func ppm(share float64) int64 { return int64(math.Round(share * 1e6)) }

func repetitions(docs []*Document) (n int) {
	for _, d := range docs {
		n += len(d.Repetitions)
	}
	return n
}

func titles(docs []*Document) string {
	if len(docs) == 1 {
		return title(docs[0])
	}
	return fmt.Sprintf("%s and %d more", title(docs[0]), len(docs)-1)
}

func title(d *Document) string {
	if d.Simulated {
		return d.Name + " (SIMULATED)"
	}
	return d.Name
}

// warnings names what differs between the results, beside their figures.
func warnings(as, bs []*Document) []string {
	out := []string{}
	a := as[0]
	differ := func(what string, of func(*Document) any) {
		for _, d := range slices.Concat(as[1:], bs) {
			if x, y := of(a), of(d); x != y {
				out = append(out, fmt.Sprintf("%s: %v and %v", what, x, y))
				return
			}
		}
	}
	differ("engines differ", func(d *Document) any { return d.Engine })
	differ("engine parameters differ", func(d *Document) any {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
			all = append(all, name+" "+d.Parameters[name])
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	})
	if len(as)+len(bs) == 2 { // several results of one run have seeds of their own
		differ("seeds differ", func(d *Document) any { return d.Seed })
	}
	differ("workloads differ", func(d *Document) any { return d.Workload })
	differ("workload parameters differ (spec.workloadHash)", func(d *Document) any { return d.Spec.WorkloadHash })
	differ("load differs (spec.loadHash)", func(d *Document) any { return d.Spec.LoadHash })
	differ("topology or network differs (spec.topologyHash)", func(d *Document) any { return d.Spec.TopologyHash })
	if !slices.ContainsFunc(slices.Concat(as, bs), func(d *Document) bool { return d.Simulated }) {
		differ("emulations of the network differ", func(d *Document) any { return d.Emulation })
	}
	out = append(out, podsDiffer(a, bs[0])...)
	out = append(out, settingsDiffer(a, bs[0])...)
	differ("regions differ, and those of one side alone are not compared", func(d *Document) any {
		var names []string
		for i := range d.Regions {
			names = append(names, d.Regions[i].Name)
		}
		slices.Sort(names)
		return cmp.Or(strings.Join(names, ", "), "none")
	})
	differ("service meshes differ", func(d *Document) any { return mesh.Name(d.Mesh) })
	differ("connections per region differ", func(d *Document) any { return d.target().ConnectionsPerRegion })
	for _, d := range slices.Concat(as, bs) {
		if why := d.LeastFigures(); why != "" {
			out = append(out, fmt.Sprintf("bytes and cost are not compared: %s: %s", d.Name, why))
		}
	}
	differ("servers differ", func(d *Document) any { return cmp.Or(d.target().Server, "none") })
	differ("isolation levels differ", func(d *Document) any { return cmp.Or(d.target().Isolation, "none") })
	differ("ConfigMaps that pods mount differ", func(d *Document) any {
		var all []string
		if d.Manifests != nil {
			for _, name := range slices.Sorted(maps.Keys(d.Manifests.ConfigMaps)) {
				all = append(all, name+" "+d.Manifests.ConfigMaps[name])
			}
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	})
	out = append(out, manifestsDiffer(slices.Concat(as, bs))...)
	differ("prices differ", func(d *Document) any {
		c := &d.Summary.Cost
		return fmt.Sprintf("%s in %s, %s %s", c.Instance, c.Currency, c.PriceSource, c.PriceDate)
	})
	for _, d := range slices.Concat(as, bs) {
		for _, note := range d.Notes {
			out = append(out, fmt.Sprintf("%s: %s", d.Name, note))
		}
	}
	differ("durability differs", func(d *Document) any { return cmp.Or(d.Durability, v1alpha1.DurabilityNone) })
	differ("only one is simulated", func(d *Document) any { return d.Simulated })
	differ("versions differ", func(d *Document) any { return d.Version })
	differ("versions of workers differ", func(d *Document) any { return cmp.Or(d.WorkerVersion, "the version of the result") })
	differ("machines differ", func(d *Document) any {
		if d.Machine == nil {
			return "none"
		}
		return fmt.Sprintf("%s/%s, %d CPUs, %s", d.Machine.OS, d.Machine.Arch, d.Machine.CPUs, d.Machine.Go)
	})
	for _, d := range slices.Concat(as, bs) {
		for _, why := range d.disagreements() {
			out = append(out, fmt.Sprintf("%s was edited, or is of another version: %s", title(d), why))
		}
		if d.Verdict != "Passed" {
			out = append(out, fmt.Sprintf("%s is %s", title(d), d.Verdict))
		}
	}
	return out
}

// disagreements are figures of a document that do not follow from its counts, and a verdict that does not from what it lists. One that was
// cancelled does not say for how long it has measured.
func (d *Document) disagreements() (out []string) {
	window := Microseconds(d.Spec.Load.Duration.Duration)
	if d.Verdict == v1alpha1.VerdictPassed {
		for _, o := range d.Objectives {
			if !o.Holds {
				out = append(out, fmt.Sprintf("the verdict is Passed, and objective %s does not hold", o.Name))
			}
		}
		for _, c := range d.Checks {
			if !c.Passed {
				out = append(out, fmt.Sprintf("the verdict is Passed, and check %s has failed", c.Name))
			}
		}
		for _, r := range d.Reasons {
			out = append(out, "the verdict is Passed, and there is a reason, "+r.Reason)
		}
	}
	for _, e := range d.Evidence {
		if d.Verdict == v1alpha1.VerdictPassed && (e.State == EvidenceMissing || e.State == EvidenceContradicted) {
			out = append(out, fmt.Sprintf("the verdict is Passed, and evidence[%s] is %s", e.Name, e.State))
		}
	}
	out = append(out, d.latencyDisagreements()...)
	if window <= 0 || slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Reason == ReasonCancelled }) {
		return out
	}
	measured := window * int64(len(d.Repetitions))
	follows := func(what string, is, from int64) {
		if is-from > 1 || from-is > 1 {
			out = append(out, fmt.Sprintf("%s is %d, and its counts make %d", what, is, from))
		}
	}
	throughput := func(over int64, c *Counts, carriedIn int64) int64 {
		if over == 0 {
			return 0
		}
		return ratio(over, 1, c.Committed+carriedIn, 1e6)
	}
	s := &d.Summary
	follows("summary.throughputPerSecond", s.ThroughputPerSecond, throughput(measured, &s.Counts, s.CarriedIn))
	follows("summary.abortPPM", s.AbortPPM, s.abortPPM())
	inRegions := int64(0)
	for i := range d.Regions {
		r := &d.Regions[i]
		inRegions += r.Committed
		follows(fmt.Sprintf("regions[%s].throughputPerSecond", r.Name), r.ThroughputPerSecond, throughput(measured, &r.Counts, r.CarriedIn))
	}
	for i := range d.Repetitions {
		r := &d.Repetitions[i]
		follows(fmt.Sprintf("repetitions[%d].throughputPerSecond", r.Index), r.ThroughputPerSecond, throughput(window, &r.Counts, r.CarriedIn))
	}
	if len(d.Regions) > 0 && inRegions != s.Committed {
		out = append(out, fmt.Sprintf("summary.committed is %d, and its regions have %d", s.Committed, inRegions))
	}
	return out
}

// latencyDisagreements returns percentiles of a document that do not follow from its histograms, or that its repetitions cannot
// have together. Histograms have no repetitions, and the types of transactions that were never sent are not known.
func (d *Document) latencyDisagreements() (out []string) {
	if d.Histograms.Estimator != Estimator || d.Summary.Unsent() > 0 || len(d.Histograms.Series) == 0 {
		return nil
	}
	exact, within := int64(0), int64(10_000) // ppm
	if d.Histograms.Rounded {
		exact, within = 40_000, 40_000
	}
	near := func(a, b v1alpha1.Quantile, ppm int64) bool {
		x, y := a.Least(), b.Least()
		return a.IsBound() == b.IsBound() && max(x, y)-min(x, y) <= max(x, y)*ppm/1_000_000
	}
	differs := func(what string, l *Latency, of func(*HistogramSeries) bool) {
		for _, c := range comparedLatencies[:4] {
			is := c.of(l)
			if from := d.Latencies(of).latency(); !near(c.of(&from), is, exact) {
				out = append(out, fmt.Sprintf("%s.latencyMicroseconds.%s is %s, and its histograms make %s", what, c.name, FormatQuantile(is), FormatQuantile(c.of(&from))))
				return
			}
		}
	}
	differs("summary", &d.Summary.LatencyMicroseconds, func(*HistogramSeries) bool { return true })
	for i := range d.Regions {
		r := &d.Regions[i]
		differs(fmt.Sprintf("regions[%s]", r.Name), &r.LatencyMicroseconds, func(s *HistogramSeries) bool { return s.Region == r.Name })
	}
	for _, c := range comparedLatencies[:4] {
		if len(d.Repetitions) == 0 {
			break
		}
		least, most := c.of(&d.Repetitions[0].LatencyMicroseconds).Least(), int64(0)
		bounded := c.of(&d.Summary.LatencyMicroseconds).IsBound()
		for i := range d.Repetitions {
			q := c.of(&d.Repetitions[i].LatencyMicroseconds)
			least, most, bounded = min(least, q.Least()), max(most, q.Least()), bounded || q.IsBound()
		}
		// The percentile of several samples together is between theirs, but for the buckets of histograms.
		if is := c.of(&d.Summary.LatencyMicroseconds).Least(); !bounded && (is+is*within/1_000_000+1 < least || is > most+most*within/1_000_000+1) {
			out = append(out, fmt.Sprintf("summary.latencyMicroseconds.%s is %s, and those of the repetitions are from %s to %s",
				c.name, formatMicroseconds(is), formatMicroseconds(least), formatMicroseconds(most)))
			break
		}
	}
	return out
}

// target is that of the document, or one that tells nothing.
func (d *Document) target() *Target {
	if d.Target == nil {
		return &Target{}
	}
	return d.Target
}

// manifestsDiffer names the fields of the manifests that are not the same, beside those that other warnings are about.
func manifestsDiffer(documents []*Document) (out []string) {
	of := func(what string, manifest func(*Manifests) any, fields func(name string) bool) {
		var first map[string]json.RawMessage
		differ := map[string]bool{}
		for _, d := range documents {
			if d.Manifests == nil {
				continue
			}
			text, err := json.Marshal(manifest(d.Manifests))
			var here map[string]json.RawMessage
			if err != nil || json.Unmarshal(text, &here) != nil || here == nil {
				continue
			}
			if first == nil {
				first = here
			}
			for _, name := range slices.Concat(slices.Collect(maps.Keys(first)), slices.Collect(maps.Keys(here))) {
				if fields(name) && !bytes.Equal(first[name], here[name]) {
					differ[name] = true
				}
			}
		}
		if len(differ) > 0 {
			out = append(out, fmt.Sprintf("the manifests of the %s differ in %s", what, strings.Join(slices.Sorted(maps.Keys(differ)), ", ")))
		}
	}
	of("runs", func(m *Manifests) any { return m.Run }, func(name string) bool {
		return slices.Contains([]string{"faults", "faultInjection", "verify"}, name)
	})
	sameTopology := !slices.ContainsFunc(documents, func(d *Document) bool { return d.Spec.TopologyHash != documents[0].Spec.TopologyHash })
	of("databases", func(m *Manifests) any { return m.Database }, func(name string) bool {
		switch name {
		case "engine", "durability", "network":
			return false
		case "regions", "homes", "partitionsPerRegion", "replicasPerPartition", "groups":
			return sameTopology
		}
		return true
	})
	return out
}

// figuresOf gathers the figures that both sides have.
func figuresOf(a, b []*Document) []sample {
	var out []sample
	latency := func(l *Latency, of func(*Latency) v1alpha1.Quantile) v1alpha1.Quantile {
		if *l == (Latency{}) {
			return noLatency
		}
		return of(l)
	}
	addQuantile := func(region, name, unit string, better int, judged bool, of func(*Document) []v1alpha1.Quantile) {
		s := sample{Difference: Difference{Name: name, Region: region, Unit: unit, Judged: judged}, better: better}
		for _, d := range a {
			s.a = append(s.a, of(d)...)
		}
		for _, d := range b {
			s.b = append(s.b, of(d)...)
		}
		if len(s.a) == 0 || len(s.b) == 0 {
			return
		}
		slices.SortFunc(s.a, v1alpha1.Quantile.Compare)
		slices.SortFunc(s.b, v1alpha1.Quantile.Compare)
		out = append(out, s)
	}
	add := func(region, name, unit string, better int, judged bool, of func(*Document) []int64) {
		addQuantile(region, name, unit, better, judged, func(d *Document) (v []v1alpha1.Quantile) {
			for _, n := range of(d) {
				v = append(v, v1alpha1.Observed(n))
			}
			return v
		})
	}
	each := func(of func(*Repetition) int64) func(*Document) []int64 {
		return func(d *Document) (v []int64) {
			for i := range d.Repetitions {
				v = append(v, of(&d.Repetitions[i]))
			}
			return v
		}
	}
	whole := func(of func(*Summary) int64) func(*Document) []int64 {
		return func(d *Document) []int64 { return []int64{of(&d.Summary)} }
	}
	add("", "throughput", "txn/s", 1, true, each(func(r *Repetition) int64 { return r.ThroughputPerSecond }))
	for _, l := range comparedLatencies {
		addQuantile("", l.name, "us", -1, l.judged, func(d *Document) (v []v1alpha1.Quantile) {
			for i := range d.Repetitions {
				v = append(v, latency(&d.Repetitions[i].LatencyMicroseconds, l.of))
			}
			return v
		})
	}
	add("", "aborts", "ppm", -1, true, each(func(r *Repetition) int64 { return r.AbortPPM }))
	if slices.ContainsFunc(slices.Concat(a, b), func(d *Document) bool { return d.Spec.Load.Retry != nil }) {
		attempts := func(of func(*Attempts) int64) func(*Document) []int64 {
			return each(func(r *Repetition) int64 { return of(&r.Attempts) })
		}
		add("", "attempts", "1/s", -1, false, attempts(func(a *Attempts) int64 { return a.PerSecond }))
		add("", "aborted attempts", "ppm", -1, false, attempts(func(a *Attempts) int64 { return a.AbortPPM }))
	}
	if !slices.ContainsFunc(slices.Concat(a, b), func(d *Document) bool { return d.Target != nil || len(d.Uncounted) > 0 }) { // of which nobody knows them
		add("", "bytes per transaction", "bytes", -1, false, whole(func(s *Summary) int64 { return s.BytesPerTransaction }))
		add("", "bytes between regions", "bytes", -1, false, whole(func(s *Summary) int64 { return s.CrossRegionBytesPerTransaction }))
		add("", "cost of a million", "micro-"+a[0].Summary.Cost.Currency, -1, false, whole(func(s *Summary) int64 { return int64(s.Cost.PerMillionTransactions) }))
	}
	if all := slices.Concat(a, b); !slices.ContainsFunc(all, func(d *Document) bool { return d.meshBytes() == nil || len(d.Uncounted) > 0 }) {
		add("", "bytes through the mesh", "bytes", -1, false, func(d *Document) []int64 { return []int64{d.meshBytes().BytesPerTransaction} })
	}
	for _, region := range a[0].Regions {
		in := func(of func(*RepetitionRegion) int64) func(*Document) []int64 {
			return func(d *Document) (v []int64) {
				for _, r := range d.regionRepetitions(region.Name) {
					v = append(v, of(&r))
				}
				return v
			}
		}
		add(region.Name, "throughput", "txn/s", 1, false, in(func(r *RepetitionRegion) int64 { return r.ThroughputPerSecond }))
		for _, l := range comparedLatencies {
			if l.name == "mean" {
				continue
			}
			addQuantile(region.Name, l.name, "us", -1, false, func(d *Document) (v []v1alpha1.Quantile) {
				for _, r := range d.regionRepetitions(region.Name) {
					v = append(v, latency(&r.LatencyMicroseconds, l.of))
				}
				return v
			})
		}
	}
	return out
}

// comparedLatencies are the latencies that are compared.
var comparedLatencies = []struct {
	name   string
	judged bool
	of     func(*Latency) v1alpha1.Quantile
}{
	{"p50", true, func(l *Latency) v1alpha1.Quantile { return l.P50 }},
	{"p90", false, func(l *Latency) v1alpha1.Quantile { return l.P90 }},
	{"p95", false, func(l *Latency) v1alpha1.Quantile { return l.P95 }},
	{"p99", true, func(l *Latency) v1alpha1.Quantile { return l.P99 }},
	{"mean", false, func(l *Latency) v1alpha1.Quantile { return l.Mean }},
}

// regionRepetitions are the figures of a region, one for each window where the document has them.
func (d *Document) regionRepetitions(name string) []RepetitionRegion {
	var out []RepetitionRegion
	for i := range d.Repetitions {
		for _, r := range d.Repetitions[i].Regions {
			if r.Name == name {
				out = append(out, r)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, r := range d.Regions {
		if r.Name == name {
			out = append(out, RepetitionRegion{Name: name, ThroughputPerSecond: r.ThroughputPerSecond, LatencyMicroseconds: r.LatencyMicroseconds, AbortPPM: r.AbortPPM})
		}
	}
	return out
}

// judge compares every figure and makes the verdict from the judged ones. Their p-values are held against alpha as Holm (1979)
// says, so that more figures do not make a false alarm more likely.
func (c *Comparison) judge(samples []sample, o CompareOptions) {
	p := map[int]float64{}
	judged := []int{}
	for i := range samples {
		s := &samples[i]
		s.A, s.B = s.a[(len(s.a)-1)/2], s.b[(len(s.b)-1)/2]
		switch a, b := s.A.Least(), s.B.Least(); {
		case s.A.IsBound() || s.B.IsBound():
		case a != 0:
			change := ppm(float64(b-a) / float64(a))
			s.ChangePPM = &change
		case b == 0:
			s.ChangePPM = new(int64)
		}
		if len(s.a) > 1 && len(s.b) > 1 {
			a, b := s.values()
			t := benchmath.Thresholds{CompareAlpha: o.Alpha}
			p[i] = benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &t), benchmath.NewSample(b, &t)).P
			s.p, s.PPPM = new(p[i]), new(ppm(p[i]))
			if !s.bounded() {
				s.interval(o.Alpha)
			}
		}
		if s.Judged {
			judged = append(judged, i)
		}
	}
	if least := 2 / mathx.Choose(c.RepetitionsA+c.RepetitionsB, c.RepetitionsA); least > o.Alpha/float64(len(judged)) {
		c.Verdict, c.Message = Undecided, fmt.Sprintf(
			"%d and %d repetitions cannot tell a difference from chance at %.3g%%: run both with spec.load.repetitions: %d or more, or compare folders with the results of several seeds",
			c.RepetitionsA, c.RepetitionsB, o.Alpha*100, enough(o.Alpha/float64(len(judged))))
		return
	}
	slices.SortStableFunc(judged, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	var worse, better, unknown []string
	rejecting := true
	for rank, i := range judged {
		s := &samples[i]
		rejecting = rejecting && p[i] <= o.Alpha/float64(len(judged)-rank)
		if !s.ordered() {
			s.Change, unknown = Undecided, append(unknown, fmt.Sprintf("%s %s", s.Name, s.change()))
			continue
		}
		if !rejecting || s.ChangePPM != nil && math.Abs(float64(*s.ChangePPM)) <= o.Threshold*1e6 || s.B == s.A {
			s.Change = NoDifference
			continue
		}
		text := fmt.Sprintf("%s %s (p %.3g)", s.Name, s.change(), p[i])
		if (s.B.Compare(s.A) > 0) == (s.better > 0) {
			s.Change, better = Improvement, append(better, text)
		} else {
			s.Change, worse = Regression, append(worse, text)
		}
	}
	switch {
	case len(worse) > 0:
		c.Verdict, c.Message = Regression, "worse: "+strings.Join(worse, ", ")
		if len(better) > 0 {
			c.Message += "; better: " + strings.Join(better, ", ")
		}
	case len(unknown) > 0:
		c.Verdict, c.Message = Undecided, "percentiles among transactions that were not answered are lower bounds, which do not tell which is larger: "+strings.Join(unknown, ", ")
	case len(better) > 0:
		c.Verdict, c.Message = Improvement, "better: "+strings.Join(better, ", ")
	default:
		c.Verdict, c.Message = NoDifference, fmt.Sprintf(
			"none of throughput, p50, p99 and aborts differs by more than %.3g%% and chance", o.Threshold*100)
	}
}

// judgeRegions makes the comparison a regression if a region is worse, however much better the whole is: where a slow
// region commits less, the percentiles of all regions improve. The throughputs and 99th percentiles of all regions are
// held against alpha as Holm says, apart from the figures of the whole, which would need more repetitions otherwise,
// and no less strictly than these. differ names regions of one side.
func (c *Comparison) judgeRegions(samples []sample, o CompareOptions, differ string) {
	var judged []*sample
	regions, whole := map[string]bool{}, 0
	for i := range samples {
		if samples[i].Region != "" {
			regions[samples[i].Region] = true
		}
	}
	for i := range samples {
		s := &samples[i]
		if s.Region == "" && s.Judged {
			whole++
		}
		if s.Region != "" && (len(regions) > 1 || differ != "") && (s.Name == "throughput" || s.Name == "p99") &&
			s.p != nil {
			judged = append(judged, s)
		}
	}
	slices.SortStableFunc(judged, func(a, b *sample) int { return cmp.Compare(*a.p, *b.p) })
	var worse []string
	for rank, s := range judged {
		if *s.p > o.Alpha/float64(max(whole, len(judged))-rank) {
			break
		}
		if s.ordered() && s.B != s.A && (s.B.Compare(s.A) > 0) != (s.better > 0) && (s.ChangePPM == nil || math.Abs(float64(*s.ChangePPM)) > o.Threshold*1e6) {
			s.Change = Regression
			worse = append(worse, fmt.Sprintf("%s of %s %s (p %.3g)", s.Name, s.Region, s.change(), *s.p))
		}
	}
	if len(worse) == 0 {
		return
	}
	message := "worse: " + strings.Join(worse, ", ")
	if c.Verdict == Regression || c.Verdict == Improvement || differ != "" {
		message = c.Message + "; " + message
	}
	c.Verdict, c.Message = Regression, message
}

// bounded reports whether a repetition has only a lower bound of the figure.
func (s *sample) bounded() bool {
	return slices.ContainsFunc(slices.Concat(s.a, s.b), v1alpha1.Quantile.IsBound)
}

// ordered reports whether it is known which of the two medians is larger. A lower bound can be any larger value.
func (s *sample) ordered() bool {
	switch {
	case s.A.IsBound() && s.B.IsBound():
		return false
	case s.A.IsBound():
		return s.A.Least() >= s.B.Least()
	case s.B.IsBound():
		return s.B.Least() >= s.A.Least()
	}
	return true
}

// values returns the figures of both sides for a test of ranks. A lower bound counts as its least value where that speaks
// against a difference, and as larger than all values where that does.
func (s *sample) values() (a, b []float64) {
	bWorse := s.B.Compare(s.A) > 0
	number := func(all []v1alpha1.Quantile, highest bool) (out []float64) {
		for _, q := range all {
			v := float64(q.Least())
			if q.IsBound() && highest {
				v = math.Inf(1)
			}
			out = append(out, v)
		}
		slices.Sort(out)
		return out
	}
	return number(s.a, bWorse), number(s.b, !bWorse)
}

// enough is the number of repetitions on each side from which a Mann-Whitney test can reach alpha.
func enough(alpha float64) int {
	n := 2
	for 2/mathx.Choose(2*n, n) > alpha {
		n++
	}
	return n
}

// interval sets the confidence interval of the change: of all differences between a repetition of B and one of A, as many
// are cut off at each end as the distribution of U allows.
func (s *sample) interval(alpha float64) {
	n1, n2 := len(s.a), len(s.b)
	u := stats.UDist{N1: n1, N2: n2}
	// U below cut has a probability of at most alpha / 2.
	cut := sort.Search(n1*n2/2, func(k int) bool { return u.CDF(float64(k)) > alpha/2 }) - 1
	if max(n1, n2) > stats.MannWhitneyExactLimit {
		normal := stats.NormalDist{Mu: float64(n1*n2) / 2, Sigma: math.Sqrt(float64(n1*n2*(n1+n2+1)) / 12)}
		cut = int(math.Floor(stats.InvCDF(normal)(alpha/2))) - 1
	}
	base := float64(s.A.Least())
	if cut < 0 || base == 0 {
		return
	}
	var all []float64
	for _, x := range s.a {
		for _, y := range s.b {
			all = append(all, float64(y.Least()-x.Least()))
		}
	}
	slices.Sort(all)
	s.LowPPM, s.HighPPM = new(ppm(all[cut]/base)), new(ppm(all[len(all)-1-cut]/base))
}

// change is the change in percent, with its interval.
func (s *Difference) change() string {
	if s.ChangePPM == nil {
		return s.Format(s.A) + " to " + s.Format(s.B)
	}
	text := signedPercent(*s.ChangePPM)
	if s.LowPPM != nil {
		text += fmt.Sprintf(" [%s, %s]", signedPercent(*s.LowPPM), signedPercent(*s.HighPPM))
	}
	return text
}

// noLatency is the latency of a figure without transactions.
var noLatency = v1alpha1.MoreThan(0)

// Has reports whether q, which is A or B, is a value of the figure. A region without transactions has no latency.
func (s *Difference) Has(q v1alpha1.Quantile) bool { return s.Unit != "us" || q != noLatency }

// Format writes a value of the figure with its unit, and > before a lower bound.
func (s *Difference) Format(q v1alpha1.Quantile) string {
	if !s.Has(q) {
		return "none"
	}
	if q.IsBound() {
		return "> " + s.Format(v1alpha1.Observed(q.Least()))
	}
	v := q.Least()
	switch s.Unit {
	case "us":
		return formatMicroseconds(v)
	case "ppm":
		return formatPPM(v)
	case "bytes":
		return formatBytes(v)
	case "txn/s", "1/s":
		return fmt.Sprintf("%d/s", v)
	}
	return Micros(v).String()
}

func signedPercent(ppm int64) string { return fmt.Sprintf("%+.1f%%", float64(ppm)/1e4) }

// Table writes the comparison for a person.
func (c *Comparison) Table(w io.Writer) error {
	b := &strings.Builder{}
	wrapped(b, string(c.Verdict)+": ", c.Message)
	line(b, "A: %s, %d repetitions", c.A, c.RepetitionsA)
	line(b, "B: %s, %d repetitions", c.B, c.RepetitionsB)
	for _, x := range c.Warnings {
		wrapped(b, "warning: ", x)
	}
	line(b, "")
	rows := [][]string{{"FIGURE", "REGION", "A", "B", "CHANGE", fmt.Sprintf("%.4g%% INTERVAL", 100-float64(c.AlphaPPM)/1e4), "P", "VERDICT"}}
	for i := range c.Figures {
		f := &c.Figures[i]
		change, interval, p := "new", "-", "-"
		if f.ChangePPM != nil {
			change = signedPercent(*f.ChangePPM)
		}
		if f.LowPPM != nil {
			interval = signedPercent(*f.LowPPM) + " .. " + signedPercent(*f.HighPPM)
		}
		if f.PPPM != nil {
			p = fmt.Sprintf("%.3f", float64(*f.PPPM)/1e6)
		}
		rows = append(rows, []string{f.Name, cmp.Or(f.Region, "all"), f.Format(f.A), f.Format(f.B), change, interval, p, string(f.Change)})
	}
	grid(b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}
