package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// Curves holds the values of one figure over the first parameter with several values, and all numbers and texts that a
// plot shows.
type Curves struct {
	// Metric is the name of the figure in claims. Type is the transaction type, and Region is the region of the clients.
	// If Type or Region is empty, the curves cover all types or regions.
	Metric, Type, Region string
	// Title names the experiment and the figure, and states whether the results are simulated. Unit is the unit of the
	// figure.
	Title, Unit string
	Axis        Axis
	// Lines contains a line for each combination of a system and values of the other parameters, in the order of
	// Experiment.Points. It includes lines without figures, so that a line has the same index in all Curves.
	Lines []Line
}

// Axis is the X axis of curves.
type Axis struct {
	// Parameter is the name of the parameter.
	Parameter string
	// At contains the positions of the values on the axis, in manifest order. Durations are in milliseconds.
	At []float64
	// Labels contains the values as written in the manifest, one for each position. It is empty if the values are plain
	// numbers.
	Labels []string
	// Ordinal is set if the values are names, which have no distances from each other. Their positions are 0, 1, 2 and so
	// on.
	Ordinal bool
}

// Words returns the texts of the values at the given positions, as in the manifest.
func (a *Axis) Words(places []float64) (words []string) {
	for _, at := range places {
		word := FormatNumber(at)
		if i := slices.Index(a.At, at); i >= 0 && i < len(a.Labels) {
			word = a.Labels[i]
		}
		words = append(words, word)
	}
	return words
}

// InfiniteAt returns the suffix of a legend that lists the values at which a line has no point because its figure is
// infinite.
func InfiniteAt(values []string) string {
	return " (infinite at " + strings.Join(values, ", ") + ")"
}

// Line is a series of figures in increasing order of X.
type Line struct {
	Label string
	// System is the index of the line's system in Experiment.Systems.
	System int
	// X and Y are the coordinates of the points. In Curves, each Y is the median over the repetitions.
	X, Y []float64
	// HalfWidth is half the width of the 95% confidence interval of the mean at each point; nil if all are 0.
	HalfWidth []float64
	// LowerBound is set at each point whose Y is only a lower bound; nil if there is no such point.
	LowerBound []bool
	// Infinite lists the values of X at which the figure is infinite and no lower bound is known (see Results.atLeast).
	Infinite []float64
}

// Reasons holds the shares of aborted attempts at each point, by abort reason. A plot shows them as stacked bars.
type Reasons struct {
	// Title and Unit are defined as in Curves.
	Title, Unit string
	// Reasons lists all abort reasons that occur, in alphabetical order.
	Reasons []string
	Points  []ReasonsPoint
}

// ReasonsPoint holds the shares of aborted attempts at one point.
type ReasonsPoint struct {
	// System is the system of the point. Label contains the point's parameter values.
	System, Label string
	// Percent contains, for each of Reasons.Reasons, the percentage of all attempts that were aborted for this reason, as
	// the median over the repetitions.
	Percent []float64
}

// Timeline is the throughput over the measured time, with one line for each point of the experiment, and the faults
// during that time.
type Timeline struct {
	// Title is defined as in Curves. Unit and Axis label the Y and X axes.
	Title, Unit, Axis string
	Lines             []Line
	// Faults contains the faults of all points without duplicates.
	Faults []FaultSpan
}

// FaultSpan is the planned time of a fault, in seconds since the start of measurement.
type FaultSpan struct {
	Name     string
	From, To float64
}

// curved are the figures of Curves for all transactions. curvedOnWire are figures that exist only in results with
// complete byte counts. curvedByType are the figures for each transaction type, and curvedByRegion those for the
// clients of each region.
var (
	curved         = metricsNamed("tput", "p50", "p90", "bytes", "cost")
	curvedOnWire   = metricsNamed("wireBytes", "sentPerMinute", "sentCostPerHour")
	curvedByType   = metricsNamed("tput", "mean", "p99")
	curvedByRegion = metricsNamed("p50", "p99")
)

// Curves returns the main figures over the sweep: for all transactions, and for each type and each region if there are
// several. It returns nil if no parameter has several values. It omits points that could not run, because the report
// lists them.
func (e *Experiment) Curves(r *Results) (out []Curves) {
	x := slices.IndexFunc(e.Parameters, func(p Parameter) bool { return len(p.Values) > 1 })
	if x < 0 {
		return nil
	}
	axis := e.Parameters[x].axis()
	for _, m := range curved {
		out = append(out, Curves{Metric: m.name, Title: e.title(m.title, r), Unit: m.unit, Axis: axis, Lines: e.lines(r, m, scope{}, x, axis.At)})
	}
	for _, m := range curvedOnWire {
		lines := e.lines(r, m, scope{}, x, axis.At)
		// Only results with complete byte counts have these figures.
		if slices.ContainsFunc(lines, func(l Line) bool { return len(l.X) > 0 }) {
			out = append(out, Curves{Metric: m.name, Title: e.title(m.title, r), Unit: m.unit, Axis: axis, Lines: lines})
		}
	}
	if regions := e.regions(); len(regions) > 1 {
		for _, region := range regions {
			for _, m := range curvedByRegion {
				lines := e.lines(r, m, scope{region: region}, x, axis.At)
				if slices.ContainsFunc(lines, func(l Line) bool { return len(l.X) > 0 }) {
					out = append(out, Curves{Metric: m.name, Region: region, Title: e.title(m.title+" in "+region, r), Unit: m.unit, Axis: axis, Lines: lines})
				}
			}
		}
	}
	types := e.typesRun(r)
	// With a single type, the curves by type would equal the curves of all transactions.
	if len(types) < 2 {
		return out
	}
	for _, typ := range types {
		for _, m := range curvedByType {
			out = append(out, Curves{Metric: m.name, Type: typ, Title: e.title(m.title+" of "+typ, r), Unit: m.unit, Axis: axis,
				Lines: e.lines(r, m, scope{typ: typ}, x, axis.At)})
		}
	}
	return out
}

// regions returns the regions of all points, in the order of the databases.
func (e *Experiment) regions() (regions []string) {
	for _, p := range e.Points {
		for _, region := range p.manifests.Database.Spec.RegionNames() {
			if !slices.Contains(regions, region) {
				regions = append(regions, region)
			}
		}
	}
	return regions
}

// typesRun returns the transaction types that occur in the results, in the order of the workload.
func (e *Experiment) typesRun(r *Results) (types []string) {
	for _, p := range e.Points {
		for _, run := range p.Runs {
			for _, t := range r.outcomes[run].types {
				if !slices.Contains(types, t.Type) {
					types = append(types, t.Type)
				}
			}
		}
	}
	order := e.types()
	slices.SortStableFunc(types, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return types
}

// title returns the title of a plot.
func (e *Experiment) title(of string, r *Results) string {
	title := e.Name + ": " + of
	if r.Simulated {
		title += " (SIMULATED)"
	}
	return title
}

func (p *Parameter) axis() Axis {
	a := Axis{Parameter: p.Name}
	var err error
	// Values that are neither numbers nor durations are names, which have no distances.
	if a.At, err = p.numbers(); err != nil {
		a.At, a.Ordinal = nil, true
		for i := range p.Values {
			a.At = append(a.At, float64(i))
		}
	}
	if slices.ContainsFunc(p.Values, func(v v1alpha1.SweepValue) bool { return v.StrVal != "" }) {
		for _, v := range p.Values {
			a.Labels = append(a.Labels, v.String())
		}
	}
	return a
}

// lines returns the lines of a figure over parameter x. at contains the positions of the parameter's values.
func (e *Experiment) lines(r *Results, m *metric, of scope, x int, at []float64) []Line {
	type sample struct {
		x float64
		figure
		bound bool
	}
	var lines []Line
	var samples [][]sample // by index in lines
	byLabel := map[string]int{}
	for _, p := range e.Points {
		label := p.System
		for i, parameter := range e.Parameters {
			if i != x && len(parameter.Values) > 1 {
				label += fmt.Sprintf(", %s %s", parameter.Name, p.Values[i].String())
			}
		}
		i, ok := byLabel[label]
		if !ok {
			i = len(lines)
			byLabel[label] = i
			lines, samples = append(lines, Line{Label: label, System: slices.Index(e.Systems, p.System)}), append(samples, nil)
		}
		f, bound, err := r.atLeast(p, m, of)
		// Keep the line even if it has no points, because all Curves must have the same lines.
		if err != nil {
			continue
		}
		place := at[slices.Index(e.Parameters[x].Values, p.Values[x])]
		if math.IsInf(f.Median, 0) {
			lines[i].Infinite = append(lines[i].Infinite, place)
			continue
		}
		samples[i] = append(samples[i], sample{place, f, bound})
	}
	for i := range lines {
		l := &lines[i]
		slices.SortStableFunc(samples[i], func(a, b sample) int { return cmp.Compare(a.x, b.x) })
		slices.Sort(l.Infinite)
		certain := true
		for _, s := range samples[i] {
			l.X, l.Y, l.HalfWidth, l.LowerBound = append(l.X, s.x), append(l.Y, s.Median), append(l.HalfWidth,
				s.HalfWidth), append(l.LowerBound, s.bound)
			certain = certain && s.HalfWidth == 0
		}
		if !slices.Contains(l.LowerBound, true) {
			l.LowerBound = nil
		}
		if certain {
			l.HalfWidth = nil
		}
	}
	return lines
}

// Reasons returns the shares of aborted attempts at each point by abort reason, or nil if no attempt was aborted. It
// omits points that could not run.
func (e *Experiment) Reasons(r *Results) *Reasons {
	out := &Reasons{Title: e.title("aborted attempts by reason", r), Unit: "% of all attempts"}
	occur := map[string]bool{}
	for _, point := range e.Points {
		for _, run := range point.Runs {
			if d, err := r.Document(run); err == nil {
				for reason := range d.AbortedAttempts() {
					occur[reason] = true
				}
			}
		}
	}
	if len(occur) == 0 {
		return nil
	}
	out.Reasons = slices.Sorted(maps.Keys(occur))
	for _, point := range e.Points {
		p := ReasonsPoint{System: point.System, Label: point.swept()}
		for _, reason := range out.Reasons {
			f, err := r.figure(point, abortedFor(reason), scope{})
			if err != nil {
				break
			}
			p.Percent = append(p.Percent, f.Median)
		}
		// If a value is missing, the point could not run.
		if len(p.Percent) == len(out.Reasons) {
			out.Points = append(out.Points, p)
		}
	}
	return out
}

// swept returns the values of the point's parameters in the form of its label.
func (p *Point) swept() string { return strings.TrimSpace(strings.TrimPrefix(p.Label, p.System)) }

// Timeline returns the throughput over time of the first repetition of each point. It returns nil if no run has a
// fault.
func (e *Experiment) Timeline(r *Results) *Timeline {
	t := &Timeline{Title: e.title("throughput over time", r), Unit: "committed transactions/s", Axis: "seconds since the start of measuring"}
	var faults []result.Fault
	end := 0.0
	for _, point := range e.Points {
		if len(point.Runs) == 0 {
			continue // the search has not found the rate of this point
		}
		d, err := r.Document(point.Runs[0])
		if err != nil || len(d.Faults) == 0 || len(d.Timeline) == 0 {
			continue // the report lists points that could not run
		}
		l := Line{Label: point.Label, System: slices.Index(e.Systems, point.System)}
		l.X, l.Y = smooth(d)
		end = max(end, l.X[len(l.X)-1])
		t.Lines = append(t.Lines, l)
		for _, f := range d.Faults {
			same := func(g result.Fault) bool {
				return g.Name == f.Name && g.AtMicroseconds == f.AtMicroseconds && g.DurationMicroseconds == f.DurationMicroseconds
			}
			if !slices.ContainsFunc(faults, same) {
				faults = append(faults, f)
			}
		}
	}
	if len(t.Lines) == 0 {
		return nil
	}
	for _, f := range faults {
		s := FaultSpan{Name: f.Name, From: float64(f.AtMicroseconds) / 1e6, To: float64(f.AtMicroseconds+f.DurationMicroseconds) / 1e6}
		if f.Lasting {
			// A permanent fault has no duration, so its band extends to the end of the longest line.
			s.To = end
		}
		t.Faults = append(t.Faults, s)
	}
	return t
}

// smooth returns the throughput of a document's first repetition. The value of each tenth of a second is the mean of
// the five tenths around it. x is in seconds and y in transactions/s.
func smooth(d *result.Document) (x, y []float64) {
	var tenths []float64
	for _, t := range d.Timeline {
		if t.Repetition > 1 {
			break
		}
		for k := range 10 * t.Length() {
			n := float64(t.Committed) / float64(10*t.Length()) // a long timeline has tenths of a second only near faults
			if t.Tenths != nil {
				n = float64(t.Tenths.Committed[k])
			}
			tenths = append(tenths, n)
		}
	}
	for i := range tenths {
		from, to := max(0, i-2), min(len(tenths), i+3)
		sum := 0.0
		for _, n := range tenths[from:to] {
			sum += n
		}
		x, y = append(x, (float64(i)+0.5)/10), append(y, sum/float64(to-from)*10)
	}
	return x, y
}
