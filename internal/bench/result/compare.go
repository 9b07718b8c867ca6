package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/mathx"
	"golang.org/x/perf/benchmath"

	"github.com/geobench/geobench/api/v1alpha1"
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
	// Warnings name other differences, which may be the real cause of a difference in figures.
	Warnings []string     `json:"warnings"`
	Figures  []Difference `json:"figures"`
}

// ComparisonKind marks a Comparison.
const ComparisonKind = "RunComparison"

// Change is the outcome of comparing a result, or one of its figures, with another.
type Change = v1alpha1.Change

// The changes: significantly worse, better, or neither, by more than the threshold; or too few repetitions to decide.
const (
	Regression   = v1alpha1.ChangeRegression
	Improvement  = v1alpha1.ChangeImprovement
	NoDifference = v1alpha1.ChangeNoDifference
	Undecided    = v1alpha1.ChangeUndecided
)

// Difference compares one figure of both results.
type Difference struct {
	Name string `json:"name"`
	// Region is empty for the whole run.
	Region string `json:"region,omitempty"`
	Unit   string `json:"unit"`
	// A and B are the medians of the repetitions; of an even number, the lower of the two in the middle. They are lower
	// bounds where the median is of a percentile that was not observed.
	A v1alpha1.Quantile `json:"a"`
	B v1alpha1.Quantile `json:"b"`
	// ChangePPM is (B - A) / A in parts per million; nil when A is 0 and B is not, and where only a bound of either is
	// known.
	ChangePPM *int64 `json:"changePPM"`
	// LowPPM and HighPPM bound the change: the confidence interval of the shift that belongs to the Mann-Whitney test
	// (Hodges and Lehmann, 1963), at a level of at least 1 - alpha. Nil with too few repetitions.
	LowPPM  *int64 `json:"lowPPM,omitempty"`
	HighPPM *int64 `json:"highPPM,omitempty"`
	// PPPM is the p-value of the Mann-Whitney U test, in parts per million; nil if there is only one repetition.
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

// Compare compares b with a. Each of them is one result, or several results whose repetitions are pooled.
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

// distrust makes the comparison Undecided if a side is Invalid: an unsound measurement is neither better, worse nor the
// same. The same holds for a database that gives wrong answers or none. A database that did not do so before is worse.
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

// unsound returns the reason why the figures of the document do not measure the database: it is Invalid, its answers
// are wrong or missing, or the document was edited. It returns an empty string if the figures are sound.
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

// judge compares every figure and makes the verdict from the judged figures. It corrects their p-values by Holm (1979),
// so that more figures do not make a false alarm more likely.
func (c *Comparison) judge(samples []sample, o CompareOptions) {
	p := map[int]float64{}
	judged := []int{}
	for i := range samples {
		s := &samples[i]
		s.A, s.B = medianQuantile(s.a), medianQuantile(s.b)
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

// judgeRegions makes the comparison a regression if a region is worse, even if the whole is better. Where a slow region
// commits less, the percentiles of all regions improve. The throughputs and 99th percentiles of all regions get a
// separate Holm correction, apart from the figures of the whole. Otherwise the whole would need more repetitions. The
// thresholds of regions are no less strict than the thresholds of the whole. differ names regions that only one side
// has.
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
		if s.ordered() && s.B != s.A && s.beyondRounding() && (s.B.Compare(s.A) > 0) != (s.better > 0) &&
			(s.ChangePPM == nil || math.Abs(float64(*s.ChangePPM)) > o.Threshold*1e6) {
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
	case "txn/h":
		return fmt.Sprintf("%.3g/s", float64(v)/3600)
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
