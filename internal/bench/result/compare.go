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

// Comparison compares two results, figure by figure, and states whether B is better or worse than A.
type Comparison struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	A          string `json:"a"`
	B          string `json:"b"`
	// RepetitionsA and RepetitionsB are the numbers of measured windows.
	RepetitionsA int `json:"repetitionsA"`
	RepetitionsB int `json:"repetitionsB"`
	// Verdict is the outcome, and Message its explanation in a sentence.
	Verdict Change `json:"verdict"`
	Message string `json:"message"`
	// AlphaPPM is the probability, in parts per million, that a comparison of equal databases reports a difference.
	AlphaPPM int64 `json:"alphaPPM"`
	// ThresholdPPM is the relative change, in parts per million, up to which a difference is ignored.
	ThresholdPPM int64 `json:"thresholdPPM"`
	// Warnings list other differences between the results, which may explain the differences in figures.
	Warnings []string     `json:"warnings"`
	Figures  []Difference `json:"figures"`
}

// ComparisonKind is the Kind of a Comparison.
const ComparisonKind = "RunComparison"

// Change is the outcome of the comparison of two results, or of one figure in two results.
type Change = v1alpha1.Change

// The possible changes. Regression and Improvement are significant changes above the threshold. Undecided means that
// the results permit no conclusion, for example because there are too few repetitions.
const (
	Regression   = v1alpha1.ChangeRegression
	Improvement  = v1alpha1.ChangeImprovement
	NoDifference = v1alpha1.ChangeNoDifference
	Undecided    = v1alpha1.ChangeUndecided
)

// Difference compares one figure of both results.
type Difference struct {
	Name string `json:"name"`
	// Region is empty for figures of the whole run.
	Region string `json:"region,omitempty"`
	Unit   string `json:"unit"`
	// A and B are the medians of the repetitions; with an even number of repetitions, the lower of the two middle values.
	// A median is a lower bound if it is a percentile that was not observed.
	A v1alpha1.Quantile `json:"a"`
	B v1alpha1.Quantile `json:"b"`
	// ChangePPM is (B - A) / A in parts per million. It is nil if only A is 0, or if A or B is only a bound.
	ChangePPM *int64 `json:"changePPM"`
	// LowPPM and HighPPM bound a confidence interval of the change, with a level of at least 1 - alpha. It is the
	// interval of the shift that corresponds to the Mann-Whitney test (Hodges and Lehmann, 1963). Both are nil if there
	// are too few repetitions.
	LowPPM  *int64 `json:"lowPPM,omitempty"`
	HighPPM *int64 `json:"highPPM,omitempty"`
	// PPPM is the p-value of the Mann-Whitney U test, in parts per million; nil if there is only one repetition.
	PPPM *int64 `json:"pPPM,omitempty"`
	// Judged is set if the verdict of the whole comparison depends on this figure.
	Judged bool   `json:"judged"`
	Change Change `json:"change,omitempty"`
}

// CompareOptions configure when a difference counts. A zero Alpha means 0.05, and a zero Threshold means 0.01.
type CompareOptions struct {
	// Alpha is the probability that a comparison of equal databases reports a difference in any figure that decides the
	// verdict: between 0 and 1, exclusive.
	Alpha float64
	// Threshold is the relative change up to which a difference is ignored: 0.01 is 1%. A negative value means 0.
	Threshold float64
}

const (
	defaultAlpha     = 0.05
	defaultThreshold = 0.01
)

// Compare compares b with a. Each side is one result, or several results whose repetitions are pooled.
func Compare(a, b []*Document, o CompareOptions) *Comparison {
	o.Alpha, o.Threshold = cmp.Or(o.Alpha, defaultAlpha), max(0, cmp.Or(o.Threshold, defaultThreshold))
	c := &Comparison{
		APIVersion: APIVersion, Kind: ComparisonKind, A: titles(a), B: titles(b), Warnings: warnings(a, b),
		AlphaPPM: ppm(o.Alpha), ThresholdPPM: ppm(o.Threshold),
	}
	// The tests assume independent samples, so copies must be removed before repetitions are counted.
	a, b = c.distinct(a, "A"), c.distinct(b, "B")
	c.RepetitionsA, c.RepetitionsB = repetitions(a), repetitions(b)
	samples := figuresOf(a, b)
	c.judge(samples, o)
	differ := ofOneSide(a, b)
	if differ != "" {
		c.doubtWhole(differ, samples)
	}
	c.judgeRegions(samples, o, differ)
	// An unsound side overrides every verdict from the figures, so this step is the last.
	c.distrust(a, b, samples)
	for i := range samples {
		c.Figures = append(c.Figures, samples[i].Difference)
	}
	return c
}

// distinct removes copies of a result, which are not independent samples, and adds a warning if there are any.
func (c *Comparison) distinct(docs []*Document, side string) (out []*Document) {
	seen := map[string]bool{}
	for _, d := range docs {
		// Names are not part of the key: a renamed copy is still a copy.
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

// distrust makes the comparison Undecided if a side is Invalid, or if its database gives wrong answers or no answers.
// An unsound measurement is neither better nor worse. If only B's database fails, the comparison is a Regression.
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
	// The database of B gave wrong or no answers, and A's did not: that is a regression, not a measurement problem.
	case y.Verdict == v1alpha1.VerdictFailed && len(y.disagreements()) == 0:
		c.Verdict, c.Message = Regression, of("B", y, whyY)
	default:
		c.Verdict, c.Message = Undecided, of("B", y, whyY)
	}
	for i := range samples {
		samples[i].Change = ""
	}
}

// unsound returns the reason why the figures of the document do not measure the database. Possible reasons are that the
// document is Invalid, its answers are wrong or missing, or it was edited. It returns an empty string if the figures
// are sound.
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

// comparedLatencies lists the compared latency figures, and whether the verdict depends on each of them.
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

// judge compares every figure, and sets the verdict from the figures with Judged set. It corrects their p-values as in
// Holm (1979), so that more figures do not make a false alarm more likely.
func (c *Comparison) judge(samples []sample, o CompareOptions) {
	p := map[int]float64{}
	judged := []int{}
	for i := range samples {
		s := &samples[i]
		s.A, s.B = medianQuantile(s.a), medianQuantile(s.b)
		switch a, b := s.A.Least(), s.B.Least(); {
		// The change is unknown if only a lower bound of either value is known.
		case s.A.IsBound() || s.B.IsBound():
		case a != 0:
			change := ppm(float64(b-a) / float64(a))
			s.ChangePPM = &change
		// If A is 0, the change is known only if B is 0 as well.
		case b == 0:
			s.ChangePPM = new(int64)
		}
		// The test needs two samples per side; a single repetition has no spread.
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
	// least is the smallest possible two-sided p-value, which completely separated repetitions have. If it is above Holm's
	// strictest threshold, no figure can ever be significant.
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
		// Holm is a step-down procedure: after the first p-value that is not significant, no later one is.
		rejecting = rejecting && p[i] <= o.Alpha/float64(len(judged)-rank)
		// The order of lower bounds may be unknown, even if the test yields a significant difference.
		if !s.ordered() {
			s.Change, unknown = Undecided, append(unknown, fmt.Sprintf("%s %s", s.Name, s.change()))
			continue
		}
		// There is no difference if the change is not significant, is at most the threshold, or is hidden by rounding to
		// equal medians.
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
	// A single worse figure makes the comparison a regression, even if other figures improved: a trade-off must not pass
	// as an improvement.
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

// judgeRegions makes the comparison a Regression if a region is worse, even if the whole run is better. If a slow
// region commits less, the percentiles of all regions together improve. The throughputs and 99th percentiles of regions
// have a separate Holm correction. With a common correction, the figures of the whole run would need more repetitions.
// The thresholds for regions are at least as strict as the thresholds for the whole run. The argument differ describes
// regions that only one side has.
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
		// With one region in both results, its figures equal the figures of the whole run.
		if s.Region != "" && (len(regions) > 1 || differ != "") && (s.Name == "throughput" || s.Name == "p99") &&
			s.p != nil {
			judged = append(judged, s)
		}
	}
	slices.SortStableFunc(judged, func(a, b *sample) int { return cmp.Compare(*a.p, *b.p) })
	var worse []string
	for rank, s := range judged {
		// In Holm's procedure, no larger p-value can be significant.
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
	// A message about NoDifference or a lack of repetitions would contradict the regression, so it is replaced.
	if c.Verdict == Regression || c.Verdict == Improvement || differ != "" {
		message = c.Message + "; " + message
	}
	c.Verdict, c.Message = Regression, message
}

// change returns the change in percent, with its confidence interval if known.
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

// noLatency is the latency value of a region without transactions.
var noLatency = v1alpha1.MoreThan(0)

// Has reports whether q, which is A or B, is a real value and not the placeholder noLatency.
func (s *Difference) Has(q v1alpha1.Quantile) bool { return s.Unit != "us" || q != noLatency }

// Format formats a value of the figure with its unit; lower bounds are prefixed with >.
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

// Table writes the comparison as text.
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
