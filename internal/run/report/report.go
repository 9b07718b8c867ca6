// Package report writes a report of results, to be read, shared, or included in the appendix of a paper. The report is
// a single HTML page that works offline, with a chart and a table for every figure. The figures are also written as
// CSV, SVG and PNG files. Equal results yield identical reports.
package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "embed"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/base/style"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
	"github.com/geobench/geobench/internal/run/experiment"
)

// Input is the content of a report.
type Input struct {
	Documents   []*result.Document
	Experiments []*experiment.Report
	// Baseline contains the results with which the documents are compared; several results form a single sample. If
	// Baseline is empty, there is no comparison.
	Baseline []*result.Document
}

// Add adds the content of path, which is a result document, an experiment report, or a folder. A folder is either the
// output of `geobench verify --out` or a folder of results.
func (in *Input) Add(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		d, err := result.Read(path)
		// The file may be an experiment report instead of a result.
		if errors.Is(err, result.ErrNoResult) {
			if r, e := experiment.ReadReport(path); e == nil {
				in.Experiments = append(in.Experiments, r)
				return nil
			}
		}
		if err != nil {
			return err
		}
		in.Documents = append(in.Documents, d)
		return nil
	}
	r, err := experiment.ReadReport(filepath.Join(path, "report.json"))
	if err == nil {
		in.Experiments = append(in.Experiments, r)
		return nil
	}
	// An unreadable report.json is an error. If the folder has no report.json, it may contain results.
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := filepath.Glob(filepath.Join(path, "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	found := 0
	for _, f := range files {
		d, err := result.Read(f)
		// Ignore JSON files that are not results.
		if errors.Is(err, result.ErrNoResult) {
			continue
		} else if err != nil {
			return err
		}
		in.Documents = append(in.Documents, d)
		found++
	}
	if found == 0 {
		return fmt.Errorf("%s: there is neither a report.json of `geobench verify --out` nor a result document (*.json) in this folder", path)
	}
	return nil
}

// Page is the file name of the page in the folder of a report.
const Page = "index.html"

//go:embed page.html
var pageText string

// page is the data for the template.
type page struct {
	Title   string
	Version string
	Style   template.CSS
	// Simulated and Real are set if the report contains simulated results and results of real runs, respectively.
	Simulated, Real bool
	Overview        []*Figure
	Comparisons     []comparison
	Runs            []*run
	Sweeps          []Sweep
	// Wrong and Doubtful describe runs of experiments: see experiment.Report.
	Wrong, Doubtful []string
}

// run is a result on the page.
type run struct {
	*result.Document
	ID, Label string
	Why       string
	Facts     []fact
	Figures   map[string]*Figure
	Manifest  []applied
}

type fact struct{ Name, Value string }

type applied struct{ Kind, Text string }

// Write writes the report into a folder and returns the path of its page.
func Write(folder string, in Input) (string, error) {
	// Style is a constant of this program, so it needs no escaping.
	p := page{Title: "Geobench report", Version: version.String(), Style: template.CSS(style.CSS + chart.CSS(false) + "@media (prefers-color-scheme:dark){" + chart.CSS(true) + "}")} //nolint:gosec
	taken := map[string]bool{}
	files := map[string][]byte{}
	for _, d := range in.Documents {
		r := newRun(d, taken)
		p.Runs = append(p.Runs, r)
		p.Simulated, p.Real = p.Simulated || d.Simulated, p.Real || !d.Simulated
		var b bytes.Buffer
		if err := d.Write(&b); err != nil {
			return "", err
		}
		files["results/"+r.ID+".json"] = b.Bytes()
	}
	for _, e := range in.Experiments {
		p.Sweeps = append(p.Sweeps, sweeps(e)...)
		p.Simulated, p.Real = p.Simulated || e.Simulated, p.Real || !e.Simulated
		p.Wrong, p.Doubtful = append(p.Wrong, e.Wrong...), append(p.Doubtful, e.Doubtful...)
	}
	p.Overview = overview(in.Documents)
	p.Comparisons = comparisons(in.Baseline, in.Documents)
	switch {
	case len(p.Runs) == 1 && len(p.Sweeps) == 0:
		p.Title = "Run " + p.Runs[0].Name
	case len(p.Sweeps) == 1 && len(p.Runs) == 0:
		p.Title = "Experiment " + p.Sweeps[0].Name
	}
	for _, f := range p.figures() {
		if err := f.files(files); err != nil {
			return "", err
		}
	}
	t, err := template.New("page").Funcs(functions).Parse(pageText)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, &p); err != nil {
		return "", err
	}
	files[Page] = b.Bytes()
	// Write in a fixed order, so that a failed Write always leaves the same files.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil { //nolint:gosec // readable for every user
			return "", err
		}
	}
	return filepath.Join(folder, Page), nil
}

// figures returns all figures of the page.
func (p *page) figures() []*Figure {
	all := slices.Clone(p.Overview)
	for _, c := range p.Comparisons {
		all = append(all, c.Figure)
	}
	for _, r := range p.Runs {
		for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
			all = append(all, r.Figures[name])
		}
	}
	for i := range p.Sweeps {
		all = append(all, p.Sweeps[i].Figures...)
	}
	return all
}

// files adds the CSV, SVG and PNG files of the figure to files.
func (f *Figure) files(files map[string][]byte) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := errors.Join(w.Write(f.Header), w.WriteAll(f.Rows)); err != nil {
		return err
	}
	files["csv/"+f.ID+".csv"] = b.Bytes()
	files["svg/"+f.ID+".svg"] = []byte(f.scene.File(f.ID))
	picture, err := f.scene.PNG()
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.ID, err)
	}
	files["png/"+f.ID+".png"] = picture
	return nil
}

// SVG returns the chart of the figure for the page.
func (f *Figure) SVG() template.HTML { return template.HTML(f.scene.SVG(f.ID)) } //nolint:gosec // texts are escaped

var functions = template.FuncMap{
	"percent": percent,
	"ms": func(q v1alpha1.Quantile) string {
		text := fmt.Sprintf("%.1f ms", float64(q.Least())/1000)
		if q.IsBound() {
			text = "> " + text
		}
		return text
	},
	"thousands": thousands,
	"lower":     strings.ToLower,
	"instant":   instant,
	"join":      func(s []string) string { return strings.Join(s, ", ") },
	"slug":      slug,
	"add":       func(a, b int) int { return a + b },
	"plural":    experiment.Counted,
}

// thousands formats an integer with commas, such as 1,234,567.
func thousands(n int64) string {
	// Do not put a comma directly after a minus sign.
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func newRun(d *result.Document, taken map[string]bool) *run {
	r := &run{Document: d, Label: d.Name}
	id := slug(d.Name)
	// Results may share a name, but files and anchors need distinct IDs.
	for n := 2; taken[id]; n++ {
		id = fmt.Sprintf("%s-%d", slug(d.Name), n)
		r.Label = fmt.Sprintf("%s (%d)", d.Name, n)
	}
	taken[id] = true
	r.ID = id
	r.Figures = figures(id+"-", d)
	// A document without reasons has passed. List the checks on which this verdict is based.
	if len(d.Reasons) == 0 {
		r.Why = fmt.Sprintf("The network was the declared one, the load generators kept up and the mix was the configured one; %s passed, %s.",
			experiment.Counted(len(d.Checks), "check"), objectives(d))
	}
	r.facts()
	if m := d.Manifests; m != nil {
		add := func(kind string, v any) {
			text, err := yaml.Marshal(v)
			if err == nil {
				r.Manifest = append(r.Manifest, applied{kind, string(text)})
			}
		}
		if m.Run != nil {
			add("BenchmarkRun", m.Run)
		}
		if m.Database != nil {
			add("GeoDatabase", m.Database)
		}
		if m.Network != nil {
			add("NetworkProfile", m.Network)
		}
	}
	return r
}

func objectives(d *result.Document) string {
	if len(d.Objectives) == 0 {
		return "no objective was set"
	}
	return experiment.Counted(len(d.Objectives), "objective") + " held"
}

const noMachine = "none: simulated in virtual time; the same manifests, seed and version give the same bytes"

func machine(m *result.Machine) string {
	return fmt.Sprintf("%s/%s, %s, %s", m.OS, m.Arch, experiment.Counted(m.CPUs, "CPU"), m.Go)
}

// facts fills r.Facts with the database, the workload, the load and the environment of the run.
func (r *run) facts() {
	d := r.Document
	add := func(name, format string, args ...any) {
		r.Facts = append(r.Facts, fact{name, fmt.Sprintf(format, args...)})
	}
	engine := d.Engine
	for _, k := range slices.Sorted(maps.Keys(d.Parameters)) {
		engine += fmt.Sprintf(", %s %s", k, d.Parameters[k])
	}
	add("Engine", "%s", engine)
	if d.Target != nil {
		add("Target", "%s", d.Target)
		if where := d.Target.Where(); where != "" {
			add("Server", "%s", where)
		}
	}
	if d.Homes > 0 {
		add("Homes", "the first %s", experiment.Counted(d.Homes, "region"))
	}
	add("Layout", "%s x %s x %s", experiment.Counted(len(d.Regions), "region"), experiment.Counted(d.PartitionsPerRegion, "partition"), experiment.Counted(d.ReplicasPerPartition, "replica"))
	add("Network", "emulation %s", d.Emulation)
	if d.Mesh != nil {
		add("Service mesh", "%s", mesh.Name(d.Mesh))
	}
	for i := range d.Witnesses {
		w := &d.Witnesses[i]
		add("Bytes between nodes, by "+strings.ToLower(string(w.Name)), "%s", w.Say())
	}
	if d.Durability != "" {
		add("Durability", "%s", d.Durability)
	}
	l := d.Spec.Load
	how := fmt.Sprintf("closed loop, %s per region", experiment.Counted(int(l.ClientsPerRegion), "client"))
	if l.RatePerSecond > 0 {
		how = fmt.Sprintf("%s arrivals, %d per second and region, at most %d under way", strings.ToLower(string(l.Arrival)), l.RatePerSecond, l.ClientsPerRegion)
	}
	if l.Curve != nil {
		how += ", over time " + l.Curve.Describe()
	}
	add("Workload", "%s", d.Workload)
	add("Load", "%s; %s of %s after %s of warm-up", how, experiment.Counted(max(1, int(l.Repetitions)), "window"), l.Duration, l.Warmup)
	if l.Retry != nil {
		add("Retry", "%s", l.Retry.Describe())
	}
	if text := d.Summary.TpmCInWords(); text != "" {
		add("TPC-C", "%s", text)
	}
	add("Mix", "%s", strings.Join(d.Summary.Realised.Mix(), "; "))
	add("Seed", "%d", d.Seed)
	add("Version", "%s", d.Version)
	if d.WorkerVersion != "" {
		add("Workers' version", "%s", d.WorkerVersion)
	}
	switch {
	case d.Simulated:
		add("Machine", noMachine)
	case d.Machine != nil:
		add("Machine", "%s", machine(d.Machine))
	}
	for _, w := range d.Workers {
		said := []string{experiment.Counted(w.Clients, "client")}
		if w.CPUSharePPM != nil {
			said = append(said, percent(*w.CPUSharePPM)+" of its CPU allowance")
		}
		if late := w.LateMicroseconds; late != nil {
			said = append(said, fmt.Sprintf("late for what was due by %s ms (p50), %s ms (p99)", ms(late.P50), ms(late.P99)))
		}
		if len(said) > 1 {
			add(fmt.Sprintf("Load generator %s/%d", w.Region, w.Index), "%s", strings.Join(said, ", "))
		}
	}
	add("Hashes", "workload %s, load %s, topology %s", d.Spec.WorkloadHash, d.Spec.LoadHash, d.Spec.TopologyHash)
}

// Balance reports whether the run has node figures.
func (r *run) Balance() bool {
	return r.Figures["balance-operations"] != nil || r.Figures["balance-data"] != nil
}
