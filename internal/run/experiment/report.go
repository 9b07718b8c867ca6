package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/result"
)

// Kind is the kind of a Report document.
const Kind = "ExperimentReport"

// Report is the outcome of experiments: the findings of all claims, and the figures of every point. Equal results yield
// identical Reports.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Simulated  bool   `json:"simulated"`
	// Version is the build that evaluated the claims. Machine is the machine on which runs were played in real time.
	Version string          `json:"version,omitempty"`
	Machine *result.Machine `json:"machine,omitempty"`
	// Place is where the runs were measured; empty if they ran in the process that wrote the report.
	Place string `json:"place,omitempty"`
	// Claims are the findings of all claims of all experiments, in order.
	Claims []Finding `json:"claims"`
	// Wrong describes the runs that have no result document or that returned wrong answers.
	Wrong []string `json:"wrong"`
	// Doubtful describes the runs that did not pass for another reason, for example because no transaction committed.
	Doubtful []string `json:"doubtful"`
	// Invalid describes the runs that are Invalid for a reason that spec.allowInvalid does not name. Claims cannot use
	// their results.
	Invalid     []string        `json:"invalid,omitempty"`
	Experiments []PointsSummary `json:"experiments"`
}

// PointsSummary holds the sweep of an experiment and the figures at its points.
type PointsSummary struct {
	Name       string      `json:"name"`
	Systems    []string    `json:"systems"`
	Parameters []string    `json:"parameters"`
	Points     []PointData `json:"points"`
	// Searches are the searches for the rates of points, in the order of the points.
	Searches []SearchData `json:"searches,omitempty"`
	Tables   []TableData  `json:"tables,omitempty"`
	// Spec is the spec of the manifest, with defaults filled in.
	Spec *v1alpha1.ExperimentSpec `json:"spec,omitempty"`
}

// PointData holds the figures of a point by their names in claims, as medians over the repetitions. Each figure is in
// exactly one of Median, LowerBound and Infinite.
type PointData struct {
	System string             `json:"system"`
	Values []string           `json:"values"`
	Median map[string]float64 `json:"median"`
	// HalfWidth is half the width of each mean's 95% confidence interval. It is present only with several repetitions.
	HalfWidth map[string]float64 `json:"halfWidth,omitempty"`
	// LowerBound holds the figures of which only a lower bound is known, because transactions were not answered.
	LowerBound map[string]float64 `json:"lowerBound,omitempty"`
	// Infinite lists the figures that are infinite: no transaction ended, or the database never recovered.
	Infinite []string `json:"infinite,omitempty"`
	// Types holds medians by transaction type and figure, if there are several types. TypeLowerBounds holds lower bounds
	// in the same form.
	Types           map[string]map[string]float64 `json:"types,omitempty"`
	TypeLowerBounds map[string]map[string]float64 `json:"typeLowerBounds,omitempty"`
}

// SearchData is a search with its probes, in order.
type SearchData struct {
	// Label is the name of the database, followed by the swept values.
	Label  string                `json:"label"`
	System string                `json:"system"`
	Values []string              `json:"values"`
	Reason v1alpha1.SearchReason `json:"reason"`
	// Message describes the outcome of the search.
	Message string `json:"message"`
	// PeakRatePerSecond is the peak rate in each region; omitted if the search found no peak.
	PeakRatePerSecond int64       `json:"peakRatePerSecond,omitempty"`
	Probes            []ProbeData `json:"probes"`
}

// ProbeData is a probe of a search.
type ProbeData struct {
	// RatePerSecond is the rate in each region.
	RatePerSecond int64 `json:"ratePerSecond"`
	Seed          int64 `json:"seed"`
	// Says is the conclusion about the rate: "keeps" if it meets the objectives, "misses" if it does not, and "nothing" if
	// the probe is unusable.
	Says string `json:"says"`
	// Why is the objective that the rate misses, or the reason why the probe is unusable.
	Why string `json:"why,omitempty"`
	// ThroughputPerSecond is the throughput of all regions together.
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// CommittedPPM is the throughput in parts per million of the offered rate. LeastServed is the region where this share
	// is lowest.
	CommittedPPM int64                  `json:"committedPPM,omitempty"`
	LeastServed  *v1alpha1.ServedRegion `json:"leastServed,omitempty"`
	// P50Microseconds and P99Microseconds are omitted if no transaction committed.
	P50Microseconds v1alpha1.Quantile `json:"p50Microseconds,omitzero"`
	P99Microseconds v1alpha1.Quantile `json:"p99Microseconds,omitzero"`
}

// NewReport evaluates all claims and collects the figures. If ctx is done before NewReport returns, the report is
// incomplete and must not be used.
func NewReport(ctx context.Context, experiments []*Experiment, r *Results) *Report {
	out := &Report{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: Kind, Simulated: r.Simulated, Version: version.String(), Place: r.Place,
		Claims: []Finding{}, Wrong: []string{}, Doubtful: []string{},
	}
	// Simulated results do not depend on the machine. Results with a Place were measured on other machines.
	if !r.Simulated && r.Place == "" {
		out.Machine = result.ThisMachine()
	}
	for _, e := range experiments {
		out.Claims = append(out.Claims, e.Judge(ctx, r)...)
		s := PointsSummary{Name: e.Name, Systems: e.Systems, Parameters: []string{}, Points: []PointData{}}
		if e.object != nil {
			s.Spec = &e.object.Spec
		}
		for _, p := range e.Parameters {
			s.Parameters = append(s.Parameters, p.Name)
		}
		for _, search := range e.Searches {
			s.Searches = append(s.Searches, searchData(search, r))
			if search.Reason != v1alpha1.SearchFound {
				out.Doubtful = append(out.Doubtful, fmt.Sprintf("%s: %s: the search ended with %s: %s", e.Name, search.Label, search.Reason, search.Message))
			}
			for _, p := range search.Probes {
				// A probe that misses the objectives is expected. Report only unusable probes.
				if p.Unusable != "" {
					out.look(e, p.Run, r)
				}
			}
		}
		types := e.typesRun(r)
		for _, p := range e.Points {
			s.Points = append(s.Points, pointData(p, types, r))
			for _, run := range p.Runs {
				out.look(e, run, r)
			}
		}
		out.lookAtConfigurations(e, r)
		s.Tables = e.Tables(ctx, r)
		out.Experiments = append(out.Experiments, s)
	}
	return out
}

// look adds a run that did not pass to Wrong or Doubtful, and to Invalid if claims may not use it.
func (out *Report) look(e *Experiment, run *Run, r *Results) {
	d, err := r.Document(run)
	switch {
	case err != nil:
		out.Wrong = append(out.Wrong, e.Name+": "+err.Error())
	case d.Verdict != v1alpha1.VerdictPassed:
		text := fmt.Sprintf("%s: %s: %s", e.Name, run.Label, d.Verdict)
		if len(d.Reasons) > 0 {
			text += ": " + d.Reasons[0].Reason + ": " + d.Reasons[0].Message
		}
		reasons, refused := e.invalid(d)
		if len(reasons) > 0 && refused == nil {
			text += "; it counts, since spec.allowInvalid names " + strings.Join(reasons, ", ")
		}
		if refused != nil {
			out.Invalid = append(out.Invalid, text)
		}
		// A failed check means wrong answers. All other reasons only make the figures doubtful.
		if slices.ContainsFunc(d.Reasons, func(x result.Reason) bool { return x.Reason == result.ReasonCheckFailed }) {
			out.Wrong = append(out.Wrong, text)
		} else {
			out.Doubtful = append(out.Doubtful, text)
		}
	}
}

// lookAtConfigurations reports runs whose database mounted a different version of a ConfigMap than in the first run of
// the same system.
func (out *Report) lookAtConfigurations(e *Experiment, r *Results) {
	first := map[string]*Run{}
	for _, p := range e.Points {
		for _, run := range p.Runs {
			d, err := r.Document(run)
			if err != nil || d.Manifests == nil {
				continue
			}
			if first[p.System] == nil {
				first[p.System] = run
				continue
			}
			was, err := r.Document(first[p.System])
			if err != nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(d.Manifests.ConfigMaps)) {
				// Compare only ConfigMaps that both runs mounted.
				if digest, ok := was.Manifests.ConfigMaps[name]; ok && digest != d.Manifests.ConfigMaps[name] {
					out.Doubtful = append(out.Doubtful, fmt.Sprintf("%s: %s: ConfigMap %s, which pods of %s mount, was another one than for %s",
						e.Name, run.Label, name, p.System, first[p.System].Label))
				}
			}
		}
	}
}

// write writes the outcome of the search and its probes as text.
func (d *SearchData) write(w io.Writer, experiment string) {
	fmt.Fprintf(w, "\nsearch %s: %s: %s: %s\n", experiment, d.Label, d.Reason, d.Message)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  PROBE\t"+strings.ToUpper(strings.Join(ProbeColumns, "\t")))
	for i := range d.Probes {
		fmt.Fprintf(t, "  %d\t%s\n", i+1, strings.Join(d.Probes[i].Cells(), "\t"))
	}
	t.Flush() //nolint:errcheck // into memory
}

// ProbeColumns are the titles of the columns of Cells.
var ProbeColumns = []string{"rate/s", "seed", "says", "txn/s", "committed", "in the worst region", "p50", "p99", "why"}

// Cells returns the probe's values as text, in the order of ProbeColumns.
func (p *ProbeData) Cells() []string {
	ms := func(q v1alpha1.Quantile) string {
		switch {
		case q == v1alpha1.Quantile{}:
			return "-"
		case q.IsBound():
			return "> " + FormatNumber(float64(q.Least())/1000) + " ms"
		}
		return FormatNumber(float64(q.Least())/1000) + " ms"
	}
	committed, worst := "-", "-"
	if p.CommittedPPM > 0 {
		committed = percentOf(p.CommittedPPM)
	}
	if w := p.LeastServed; w != nil {
		worst = percentOf(w.CommittedPPM) + " (" + w.Name + ")"
	}
	return []string{fmt.Sprint(p.RatePerSecond), fmt.Sprint(p.Seed), p.Says, fmt.Sprint(p.ThroughputPerSecond),
		committed, worst, ms(p.P50Microseconds), ms(p.P99Microseconds), p.Why}
}

func searchData(s *Search, r *Results) SearchData {
	d := SearchData{Label: s.Label, System: s.System, Values: []string{}, Reason: s.Reason, Message: s.Message, PeakRatePerSecond: s.PeakRatePerSecond, Probes: []ProbeData{}}
	for _, v := range s.Values {
		d.Values = append(d.Values, v.String())
	}
	for _, p := range s.Probes {
		probe := ProbeData{RatePerSecond: p.Run.Run.Spec.Load.RatePerSecond, Seed: p.Run.Run.Spec.Seed, Says: p.Says(),
			Why: p.Missed + p.Unusable, ThroughputPerSecond: p.ThroughputPerSecond, CommittedPPM: p.CommittedPPM, LeastServed: p.LeastServed}
		if doc, err := r.Document(p.Run); err == nil {
			probe.P50Microseconds, probe.P99Microseconds = doc.Summary.LatencyMicroseconds.P50, doc.Summary.LatencyMicroseconds.P99
		}
		d.Probes = append(d.Probes, probe)
	}
	return d
}

// reportedByType are the figures in PointData.Types.
var reportedByType = metricsNamed("tput", "committed", "p50", "mean", "p99", "aborts")

// pointData returns the figures of a point. If there are several types, it includes the figures of each type.
func pointData(p *Point, types []string, r *Results) PointData {
	d := PointData{System: p.System, Values: []string{}, Median: map[string]float64{}}
	for _, v := range p.Values {
		d.Values = append(d.Values, v.String())
	}
	for i := range metrics {
		f, bound, err := r.atLeast(p, &metrics[i], scope{})
		switch {
		// The point has no such figure, for example because its engine does not report it.
		case err != nil:
			continue
		case math.IsInf(f.Median, 0):
			d.Infinite = append(d.Infinite, metrics[i].name)
			continue
		case bound:
			put(&d.LowerBound, metrics[i].name, f.Median)
			continue
		}
		d.Median[metrics[i].name] = f.Median
		if len(p.Runs) > 1 {
			put(&d.HalfWidth, metrics[i].name, f.HalfWidth)
		}
	}
	if len(types) < 2 {
		return d
	}
	for _, typ := range types {
		figures, bounds := map[string]float64{}, map[string]float64{}
		for _, m := range reportedByType {
			f, bound, err := r.atLeast(p, m, scope{typ: typ})
			switch {
			// Omit infinite figures: PointData does not list them by type.
			case err != nil || math.IsInf(f.Median, 0):
			case bound:
				bounds[m.name] = f.Median
			default:
				figures[m.name] = f.Median
			}
		}
		// No transaction of this type was executed at the point.
		if figures["committed"] == 0 && len(bounds) == 0 {
			continue
		}
		put(&d.Types, typ, figures)
		if len(bounds) > 0 {
			put(&d.TypeLowerBounds, typ, bounds)
		}
	}
	return d
}

// put sets a value in a map, and creates the map if it is nil.
func put[V any](to *map[string]V, name string, v V) {
	if *to == nil {
		*to = map[string]V{}
	}
	(*to)[name] = v
}

// Shown returns a figure of the point as text for tables. A lower bound has the prefix "> ", an infinite value is
// "infinite", and a missing value is "-".
func (d *PointData) Shown(name string) string {
	if v, ok := d.Median[name]; ok {
		return FormatNumber(v)
	}
	if v, ok := d.LowerBound[name]; ok {
		return "> " + FormatNumber(v)
	}
	if slices.Contains(d.Infinite, name) {
		return FormatNumber(math.Inf(1))
	}
	return "-"
}

// LeaveOutTypes removes the figures by type from all points.
func (out *Report) LeaveOutTypes() {
	for _, e := range out.Experiments {
		for i := range e.Points {
			e.Points[i].Types, e.Points[i].TypeLowerBounds = nil, nil
		}
	}
}

// ReadReport reads a Report from a file that result.WriteJSON has written.
func ReadReport(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := &Report{}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Check the kind, because any JSON object can be decoded into a Report.
	if out.APIVersion != v1alpha1.GroupVersion.String() || out.Kind != Kind {
		return nil, fmt.Errorf("%s: it is a %q of %q, not an %s of %s; `geobench verify --out DIR` writes one",
			path, out.Kind, out.APIVersion, Kind, v1alpha1.GroupVersion)
	}
	return out, nil
}

// Err returns nil if all claims hold, all runs gave correct answers, all Invalid runs are allowed, and all searches
// found a peak. Otherwise the error states the number of violations of each kind.
func (out *Report) Err() error {
	var parts []string
	var differ, unknown int
	for i := range out.Claims {
		switch out.Claims[i].Answer() {
		case "differs":
			differ++
		case "no result":
			unknown++
		}
	}
	if differ > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d claims differ", differ, len(out.Claims)))
	}
	if unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d claims have no result", unknown, len(out.Claims)))
	}
	if len(out.Wrong) > 0 {
		parts = append(parts, fmt.Sprintf("%d runs failed", len(out.Wrong)))
	}
	if len(out.Invalid) > 0 {
		parts = append(parts, fmt.Sprintf("%d runs are Invalid", len(out.Invalid)))
	}
	if n := len(out.NoPeak()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d searches found no peak", n))
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, ", "))
}

// NoPeak describes the searches that found no rate meeting the objectives, with the reasons.
func (out *Report) NoPeak() (all []string) {
	for _, e := range out.Experiments {
		for i := range e.Searches {
			if s := &e.Searches[i]; s.PeakRatePerSecond == 0 {
				all = append(all, fmt.Sprintf("%s: %s: %s: %s", e.Name, s.Label, s.Reason, s.Message))
			}
		}
	}
	return all
}

// columns are the titles and widths of the columns in the table of claims.
var columns = []struct {
	title string
	width int
}{{"CLAIM", 8}, {"SOURCE", 18}, {"SAYS", 36}, {"MEASURED", 44}, {"HOLDS", 9}}

// Table writes the claims as a table. Long texts wrap within their column.
func (out *Report) Table(w io.Writer) error {
	b := &strings.Builder{}
	row := func(cells ...string) {
		wrapped := make([][]string, len(cells))
		lines := 0
		for i, c := range cells {
			wrapped[i] = wrap(c, columns[i].width)
			lines = max(lines, len(wrapped[i]))
		}
		for n := range lines {
			var l strings.Builder
			for i, c := range wrapped {
				text := ""
				if n < len(c) {
					text = c[n]
				}
				fmt.Fprintf(&l, "%-*s  ", columns[i].width, text)
			}
			b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
		}
	}
	how := "in real time, " + cmp.Or(out.Place, "on this machine")
	if out.Simulated {
		how = "SIMULATED"
	}
	points := 0
	for _, e := range out.Experiments {
		points += len(e.Points)
	}
	fmt.Fprintf(b, "%s; %s; %s\n\n", Counted(len(out.Experiments), "experiment"), Counted(points, "point"), how)
	if len(out.Claims) > 0 {
		var titles []string
		for _, c := range columns {
			titles = append(titles, c.title)
		}
		row(titles...)
		for i := range out.Claims {
			f := &out.Claims[i]
			text := f.Measured
			if f.Error != "" {
				text = f.Error
			}
			if len(f.Invalid) > 0 {
				text += "; " + countsInvalid(f.Invalid)
			}
			row(f.ID, f.Source, f.Says, text, f.Answer())
		}
		holds := 0
		for i := range out.Claims {
			if out.Claims[i].Holds {
				holds++
			}
		}
		fmt.Fprintf(b, "\n%d of %s hold\n", holds, Counted(len(out.Claims), "claim"))
	}
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s\n", title)
		const most = 20
		for i, item := range items {
			if i == most {
				fmt.Fprintf(b, "  and %d more\n", len(items)-most)
				break
			}
			fmt.Fprintf(b, "  %s\n", item)
		}
	}
	for _, e := range out.Experiments {
		for i := range e.Tables {
			e.Tables[i].write(b, e.Name)
		}
		for i := range e.Searches {
			e.Searches[i].write(b, e.Name)
		}
	}
	list("runs that failed:", out.Wrong)
	list("runs in doubt:", out.Doubtful)
	_, err := io.WriteString(w, b.String())
	return err
}

// Round rounds all figures to this number of significant digits.
func (out *Report) Round(digits int) {
	for _, e := range out.Experiments {
		for _, p := range e.Points {
			for _, figures := range slices.Concat(slices.Collect(maps.Values(p.Types)),
				slices.Collect(maps.Values(p.TypeLowerBounds)), []map[string]float64{p.Median, p.HalfWidth,
					p.LowerBound}) {
				for name, v := range figures {
					// The error is always nil, because a formatted number can be parsed.
					figures[name], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
				}
			}
		}
	}
}

// shown are the figures in the table that Figures writes, in order.
var shown = metricsNamed("tput", "p50", "p90", "p99", "aborts", "bytes", "wanBytes", "cpu")

// Figures writes a table with the main figures of every point. They are medians over the repetitions.
func (out *Report) Figures(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var names, units []string
	for _, m := range shown {
		names = append(names, m.name)
		units = append(units, m.name+" in "+m.unit)
	}
	for _, e := range out.Experiments {
		titles := append(append([]string{e.Name}, e.Parameters...), names...)
		fmt.Fprintln(t, strings.Join(titles, "\t"))
		for _, p := range e.Points {
			row := append([]string{p.System}, p.Values...)
			for _, name := range names {
				row = append(row, p.Shown(name))
			}
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(units, "; "))
	return err
}

// Counted returns a number with its noun: 1 point, 2 points.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// wrap breaks a text into lines of at most width columns. It splits words that are longer than a line.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		runes := []rune(word)
		for len(runes) > width {
			if lines[len(lines)-1] != "" {
				lines = append(lines, "")
			}
			lines[len(lines)-1] = string(runes[:width])
			lines, runes = append(lines, ""), runes[width:]
		}
		word = string(runes)
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len([]rune(*last))+1+len(runes) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
