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

// Curves are a figure over the first parameter that has several values: all that a plot shows, as numbers and words.
type Curves struct {
	// Metric is the name of the figure in claims, Type its transaction type, and Region the region of its clients; both
	// are empty for all.
	Metric, Type, Region string
	// Title names the experiment and the figure, and marks simulated results. Unit is the figure's.
	Title, Unit string
	Axis        Axis
	// Lines has one line per system and combination of the other parameters, in the order of Experiment.Points. It
	// includes lines without figures, so that all lines keep their positions.
	Lines []Line
}

// Axis is the parameter that curves lie over.
type Axis struct {
	// Parameter is its name.
	Parameter string
	// At holds the places of its values in the order of the manifest. Durations are in milliseconds.
	At []float64
	// Labels are the values as in the manifest, one for each position. It is empty if values are plain numbers.
	Labels []string
	// Ordinal is true where values are names: they have no distances, and their places are counted from 0.
	Ordinal bool
}

// Words returns the values at positions of the axis, as in the manifest.
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

// InfiniteAt says in a legend at which values of a parameter a line has no point, since its figure is infinite there.
func InfiniteAt(values []string) string {
	return " (infinite at " + strings.Join(values, ", ") + ")"
}

// Line is a series of figures by growing X.
type Line struct {
	Label string
	// System is its index in Experiment.Systems.
	System int
	// X and Y have the same length. Y of Curves are medians of the repetitions.
	X, Y []float64
	// HalfWidth of the 95% confidence interval of each Y's mean; nil where nothing is known of any.
	HalfWidth []float64
	// LowerBound says of each Y whether it is only a lower bound; nil where none is.
	LowerBound []bool
	// Infinite are the places at which the figure is infinite and no bound is known: see Results.atLeast.
	Infinite []float64
}

// Reasons are the aborted attempts of each point, by reason: all that a plot of stacked bars shows.
type Reasons struct {
	// Title is defined as in Curves.
	Title, Unit string
	// Reasons are all that occur, sorted.
	Reasons []string
	Points  []ReasonsPoint
}

// ReasonsPoint is a point of Reasons.
type ReasonsPoint struct {
	// System is the point's, and Label its swept values.
	System, Label string
	// Percent of all attempts, in the order of Reasons.Reasons: medians of the repetitions.
	Percent []float64
}

// Timeline is the throughput over the time of measuring, one line per point of the experiment, with the faults in that
// time.
type Timeline struct {
	// Title is defined as in Curves. Unit and Axis name the Y and X values of the lines.
	Title, Unit, Axis string
	Lines             []Line
	// Faults are the faults of all points, each once.
	Faults []FaultSpan
}

// FaultSpan is the time in which a fault has its effect, in seconds since the start of measuring.
type FaultSpan struct {
	Name     string
	From, To float64
}

// curved are the figures of Curves. curvedOnWire are the figures that only results that count all bytes have.
// curvedByType are the figures of each type of transactions, and curvedByRegion the figures of each region's clients.
var (
	curved         = metricsNamed("tput", "p50", "p90", "bytes", "cost")
	curvedOnWire   = metricsNamed("wireBytes", "sentPerMinute", "sentCostPerHour")
	curvedByType   = metricsNamed("tput", "mean", "p99")
	curvedByRegion = metricsNamed("p50", "p99")
)

// Curves returns the most important figures over the sweep, for all transactions. If results have several types or
// regions, it also returns the figures of each type and region. It returns none for an experiment that sweeps nothing.
// It omits points that could not run: the report names them.
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

// typesRun are the types of the transactions that results have, in the order of the workload.
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

// title of a drawing.
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

// lines of a figure over parameter x, with its values at the given positions.
func (e *Experiment) lines(r *Results, m *metric, of scope, x int, at []float64) []Line {
	type sample struct {
		x float64
		figure
		bound bool
	}
	var lines []Line
	var samples [][]sample // of each line
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

// Reasons returns nil if no attempt was aborted. It omits points that could not run.
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
		if len(p.Percent) == len(out.Reasons) {
			out.Points = append(out.Points, p)
		}
	}
	return out
}

// swept are the values of the parameters at a point, in words.
func (p *Point) swept() string { return strings.TrimSpace(strings.TrimPrefix(p.Label, p.System)) }

// Timeline is nil when no run has a fault. Of the repetitions of a point it has the first.
func (e *Experiment) Timeline(r *Results) *Timeline {
	t := &Timeline{Title: e.title("throughput over time", r), Unit: "committed transactions/s", Axis: "seconds since the start of measuring"}
	var faults []result.Fault
	end := 0.0
	for _, point := range e.Points {
		if len(point.Runs) == 0 {
			continue // No rate was found for it.
		}
		d, err := r.Document(point.Runs[0])
		if err != nil || len(d.Faults) == 0 || len(d.Timeline) == 0 {
			continue // The report names points that could not run.
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
			s.To = end
		}
		t.Faults = append(t.Faults, s)
	}
	return t
}

// smooth is the throughput of a document over its first window, each tenth of a second the mean of the five around it.
// x are seconds, y transactions/s.
func smooth(d *result.Document) (x, y []float64) {
	var tenths []float64
	for _, t := range d.Timeline {
		if t.Repetition > 1 {
			break
		}
		for k := range 10 * t.Length() {
			n := float64(t.Committed) / float64(10*t.Length()) // of a long timeline, away from faults
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
