package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/run/experiment"
)

// Claim is a claim of an experiment and the values measured for it.
type Claim struct {
	ID, Source, Says, Measured, Answer string
}

// Sweep is an experiment in the report, with its tables, searches, claims and figures.
type Sweep struct {
	ID, Name string
	Summary  string
	Facts    []fact
	// Manifest is the experiment's spec as YAML; empty if the report does not include it.
	Manifest string
	// Tables are the tables of the experiment.
	Tables []Table
	// Searches are the searches for the rates of points.
	Searches []Search
	// Claims are all claims of the experiment. Each figure also lists the claims that use it.
	Claims  []Claim
	Figures []*Figure
}

// Table is a table of an experiment with formatted cells.
type Table struct {
	Heading string
	Columns []string
	Rows    [][]string
	// Missing explains why cells are empty.
	Missing []string
}

// Search is the outcome of a search for a peak rate, with a table of its probes.
type Search struct {
	Label, Found string
	Columns      []string
	Probes       [][]string
}

// sweeps returns the experiments of a report with charts of their metrics. The X axis of each chart is the first
// parameter with several values.
func sweeps(r *experiment.Report) []Sweep {
	var out []Sweep
	for i := range r.Experiments {
		e := &r.Experiments[i]
		s := Sweep{ID: "experiment-" + slug(e.Name), Name: e.Name}
		var findings []*experiment.Finding
		holds := 0
		for k := range r.Claims {
			// A report contains the claims of all experiments, so select this experiment's claims.
			if f := &r.Claims[k]; f.Experiment == e.Name {
				findings = append(findings, f)
				s.Claims = append(s.Claims, claimOf(f))
				if f.Holds {
					holds++
				}
			}
		}
		how := "in real time"
		if r.Simulated {
			how = "simulated"
		}
		s.Summary = fmt.Sprintf("%s; %s; %s; %d of %s hold.", experiment.Counted(len(e.Systems), "system"), experiment.Counted(len(e.Points), "point"), how, holds, experiment.Counted(len(findings), "claim"))
		if r.Version != "" {
			s.Facts = append(s.Facts, fact{"Version", r.Version})
		}
		switch m := r.Machine; {
		case r.Simulated:
			s.Facts = append(s.Facts, fact{"Machine", noMachine})
		case m != nil:
			s.Facts = append(s.Facts, fact{"Machine", machine(m)})
		}
		if e.Spec != nil {
			s.Facts = append(s.Facts, fact{"Seed", fmt.Sprintf("%d, and one more for each further repetition", e.Spec.Run.Spec.Seed)})
			if text, err := yaml.Marshal(e.Spec); err == nil {
				s.Manifest = string(text)
			}
		}
		for k := range e.Tables {
			d := &e.Tables[k]
			lines := d.Lines()
			s.Tables = append(s.Tables, Table{Heading: d.Heading(), Columns: lines[0], Rows: lines[1:], Missing: d.Missing})
		}
		for k := range e.Searches {
			d := &e.Searches[k]
			search := Search{Label: d.Label, Found: fmt.Sprintf("%s: %s", d.Reason, d.Message), Columns: experiment.ProbeColumns}
			for i := range d.Probes {
				search.Probes = append(search.Probes, d.Probes[i].Cells())
			}
			s.Searches = append(s.Searches, search)
		}
		for _, m := range experiment.Metrics() {
			f := sweepFigure(e, m, r.Simulated)
			if f == nil {
				continue
			}
			for _, finding := range findings {
				if about(finding.Expression, m.Name) {
					f.Claims = append(f.Claims, claimOf(finding))
				}
			}
			s.Figures = append(s.Figures, f)
		}
		out = append(out, s)
	}
	return out
}

func claimOf(f *experiment.Finding) Claim {
	measured := f.Measured
	if f.Error != "" {
		measured = f.Error
	}
	return Claim{f.ID, f.Source, f.Says, measured, f.Answer()}
}

// about reports whether an expression uses a metric, for example in tput(...), tputIn(...) or series('tput', ...).
func about(expression, metric string) bool {
	q := regexp.QuoteMeta(metric)
	return regexp.MustCompile(`\b` + q + `(In)?\s*\(|['"]` + q + `['"]`).MatchString(expression)
}

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug converts a name to lowercase letters, digits and hyphens, for use in file names and anchors.
func slug(name string) string {
	return strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// sweepFigure returns the chart of a metric in an experiment. It returns nil if no point has the metric, or if the
// metric is 0 or infinite at all points.
func sweepFigure(e *experiment.PointsSummary, m experiment.Metric, simulated bool) *Figure {
	f := &Figure{ID: slug(e.Name + "-" + m.Name), Title: e.Name + ": " + m.Title}
	f.Header = append([]string{"system"}, e.Parameters...)
	f.Header = append(f.Header, m.Unit, "± (95%)")
	title := f.Title
	if simulated {
		title += " (simulated)"
	}
	x := -1
	for i := range e.Parameters {
		// The first parameter with several values is the X axis. The other parameters distinguish lines.
		if len(valuesOf(e, i)) > 1 {
			x = i
			break
		}
	}
	any, uncertain, bounded := false, false, false
	for i := range e.Points {
		p := &e.Points[i]
		v, bound, ok := valueOf(p, m.Name)
		if !ok {
			continue
		}
		// If a metric is 0 or infinite at every point, there is nothing to draw.
		any, bounded = any || v != 0 && !math.IsInf(v, 1), bounded || bound
		half := ""
		if h, ok := p.HalfWidth[m.Name]; ok {
			half = strconv.FormatFloat(h, 'g', 4, 64)
			uncertain = uncertain || h > 0
		}
		cells := []string{p.System}
		cells = append(cells, p.Values...)
		f.Rows = append(f.Rows, append(cells, written(v, bound, 6), half))
	}
	if !any {
		return nil
	}
	if uncertain {
		f.Caption = "Medians of the repetitions; bars: 95% confidence interval of the mean."
	}
	if bounded {
		f.note("Open dots with an arrow, and values after >, are lower bounds: transactions had no answer.")
	}
	// Without a swept parameter, each system has only one point, so draw bars.
	if x < 0 {
		c := &chart.Rows{Title: title, XLabel: m.Unit, About: "One bar per system."}
		for i := range e.Points {
			p := &e.Points[i]
			v, bound, ok := valueOf(p, m.Name)
			if !ok {
				continue
			}
			row := chart.Row{Name: p.System, Class: i, Bar: v, Value: written(v, bound, 4), LowerBound: bound}
			// An infinite bar cannot be drawn, so only its text shows that the value is infinite.
			if math.IsInf(v, 1) {
				row.Bar = 0
			}
			c.Rows = append(c.Rows, row)
		}
		f.scene = c.Draw()
		return f
	}
	c := &chart.Lines{Title: title, XLabel: e.Parameters[x], YLabel: m.Unit}
	values := valuesOf(e, x)
	at, words := places(values)
	c.XTicks = words
	index, lines := map[string]int{}, map[string]int{}
	infinite := map[int][]string{} // by index of the line
	for k := range e.Points {
		p := &e.Points[k]
		v, bound, ok := valueOf(p, m.Name)
		if !ok {
			continue
		}
		// The label of a line contains the values of all parameters except the one on the X axis.
		name := p.System
		for i, parameter := range e.Parameters {
			if i != x && len(valuesOf(e, i)) > 1 {
				name += ", " + parameter + " " + p.Values[i]
			}
		}
		i, ok := index[name]
		if !ok {
			i = len(c.Series)
			index[name] = i
			c.Series = append(c.Series, chart.Series{Name: name, Class: chart.Class(slices.Index(e.Systems, p.System), lines[p.System]), Marks: true})
			lines[p.System]++
		}
		// An infinite value has no position in the chart, so list it in the legend.
		if math.IsInf(v, 1) {
			infinite[i] = append(infinite[i], p.Values[x])
			continue
		}
		l := &c.Series[i]
		l.LowerBound = append(l.LowerBound, bound)
		l.Points = append(l.Points, chart.Point{X: at[p.Values[x]], Y: v})
		l.Half = append(l.Half, p.HalfWidth[m.Name])
	}
	for i := range c.Series {
		// Sort, because the manifest may list the values of a parameter in any order.
		sortPoints(&c.Series[i])
		if len(infinite[i]) > 0 {
			c.Series[i].Name += experiment.InfiniteAt(infinite[i])
		}
	}
	c.Scale()
	c.About = fmt.Sprintf("%s of %s over %s; the table below has the numbers.", m.Title, experiment.Counted(len(c.Series), "line"), e.Parameters[x])
	f.scene = c.Draw()
	return f
}

// sortPoints sorts the points of a line by X.
func sortPoints(l *chart.Series) {
	order := make([]int, len(l.Points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case l.Points[a].X < l.Points[b].X:
			return -1
		case l.Points[a].X > l.Points[b].X:
			return 1
		}
		return 0
	})
	points, half, bound := make([]chart.Point, len(order)), make([]float64, len(order)), make([]bool, len(order))
	for i, k := range order {
		points[i], half[i], bound[i] = l.Points[k], l.Half[k], l.LowerBound[k]
	}
	l.Points, l.Half, l.LowerBound = points, half, bound
}

// valueOf returns a figure of a point, and whether the value is only a lower bound. ok is false if the point lacks the
// figure.
func valueOf(p *experiment.PointData, name string) (v float64, bound, ok bool) {
	if v, ok = p.Median[name]; ok {
		return v, false, true
	}
	if v, ok = p.LowerBound[name]; ok {
		return v, true, true
	}
	return math.Inf(1), false, slices.Contains(p.Infinite, name)
}

// written formats a figure with this number of significant digits. A lower bound has the prefix "> ".
func written(v float64, bound bool, digits int) string {
	switch {
	case math.IsInf(v, 1):
		return "infinite"
	case bound:
		return "> " + strconv.FormatFloat(v, 'g', digits, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// valuesOf returns the distinct values of the i-th parameter, in the order of the points.
func valuesOf(e *experiment.PointsSummary, i int) []string {
	return distinct(e.Points, func(p experiment.PointData) string { return p.Values[i] })
}

// places returns the positions of a parameter's values on an axis, and the labels of the positions. Positions of
// numbers and durations are their values; names are equally spaced. For numbers the labels are nil.
func places(values []string) (map[string]float64, map[float64]string) {
	at := map[string]float64{}
	for _, v := range values {
		n, err := strconv.ParseFloat(v, 64)
		// If any value is not a number, the axis cannot be numeric.
		if err != nil {
			at = map[string]float64{}
			break
		}
		at[v] = n
	}
	if len(at) > 0 {
		return at, nil
	}
	words := map[float64]string{}
	for _, v := range values {
		d, err := time.ParseDuration(v)
		if err != nil {
			at, words = map[string]float64{}, map[float64]string{}
			break
		}
		at[v] = d.Seconds()
		words[d.Seconds()] = v
	}
	if len(at) > 0 {
		return at, words
	}
	for i, v := range values {
		at[v], words[float64(i)] = float64(i), v
	}
	return at, words
}
