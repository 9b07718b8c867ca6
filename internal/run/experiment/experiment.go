// Package experiment expands an Experiment into runs and evaluates its claims.
//
// The points of an experiment are all combinations of databases and swept values. Each point has one run for each
// repetition. A run is a pair of manifests, which is validated like hand-written manifests. Results collects the
// documents of the runs: package play adds them in this process, and the operator adds them on a cluster.
//
// The package computes medians over repetitions, evaluates the claims with these medians, and selects the data for
// plots, which package plot draws. For users, see docs/experiments.md.
package experiment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

// MaxPoints is the maximum number of runs of an experiment: databases times swept values times repetitions.
const MaxPoints = 10_000

// Experiment is an expanded Experiment: all its points are valid, and all its claims have been compiled.
type Experiment struct {
	Name string
	// Systems are the names of the databases, in manifest order.
	Systems []string
	// Parameters are the swept parameters, in manifest order.
	Parameters []Parameter
	// Points are ordered by system, then by the values of the parameters; the last parameter varies fastest.
	Points []*Point
	// Searches are the searches for the rates of points, in the order of the points. It is empty without spec.search.
	Searches []*Search
	// Claims are the claims of the experiment, in manifest order.
	Claims []v1alpha1.Claim
	// MostRuns is the maximum number of runs, including the runs that searches will create.
	MostRuns int

	source string
	object *v1alpha1.Experiment
}

// Parameter is a swept field.
type Parameter struct {
	// Path is the path of the field in the manifest. Name is the name in claims and plots. It is the last component
	// of the path, or the whole path if two parameters have the same last component.
	Path, Name string
	Values     []v1alpha1.SweepValue
	// with are fields that change together with the parameter. Claims and plots do not mention them.
	with []v1alpha1.SweepCompanion
}

// change is a field that takes a different value for each value of a parameter.
type change struct {
	field  string // field of the Experiment that declares the change
	path   string
	values []v1alpha1.SweepValue
}

// changes returns the fields that change with p, which is parameter i of the experiment. The first of them is the
// parameter's own field.
func (p *Parameter) changes(i int) []change {
	field := fmt.Sprintf("spec.sweep[%d]", i)
	list := []change{{field, p.Path, p.Values}}
	for k, w := range p.with {
		list = append(list, change{fmt.Sprintf("%s.with[%d]", field, k), w.Path, w.Values})
	}
	return list
}

// set sets the field in the manifest of the database or the run to its n-th value.
func (c *change) set(database, run map[string]any, n int) error {
	kind, object, path := "BenchmarkRun", run, c.path
	if rest, ok := strings.CutPrefix(c.path, "database."); ok {
		kind, object, path = "GeoDatabase", database, rest
	}
	var value any = c.values[n].StrVal
	if c.values[n].Type == intstr.Int {
		value = int64(c.values[n].IntVal)
	}
	return manifest.Set(kind, object, path, value)
}

// Point is a database with one combination of the parameters' values.
type Point struct {
	System string
	// Values are the values of Experiment.Parameters, in the same order.
	Values []v1alpha1.SweepValue
	// Label is the system followed by name=value pairs, for display.
	Label string
	// Runs are the repetitions of the point. With a search, Runs stays empty until the search has found the peak rate.
	Runs []*Run

	// manifests is one of the point's runs, whose manifests represent the point.
	manifests *Run
	// With a search, prober creates the runs of the point, at a rate of share percent of the peak. peak is the prober
	// whose search finds this peak. It equals prober, unless the point uses the peak of another point. missing is the
	// reason why there are no runs.
	prober  *prober
	peak    *prober
	share   int32
	missing string
}

// Run is a repetition of a point, with everything that a plan needs.
type Run struct {
	Run      *v1alpha1.BenchmarkRun
	Database *v1alpha1.GeoDatabase
	Profile  *v1alpha1.NetworkProfileSpec
	// Label is the point's label, followed by the number of the repetition if there are several.
	Label string
	// DatabaseHash is the SHA-256 of the database and its network, in hexadecimal. Runs with the same hash can use the
	// same database.
	DatabaseHash string
	// MeasuredDigest is result.Manifests.MeasuredDigest of the run. A run in a cluster counts as this run only if it
	// measured the same digest.
	MeasuredDigest string
	hash           string
}

// Hash returns the SHA-256, in hexadecimal, of the run's spec and its database's name, spec and network. Runs with the
// same hash differ at most in their names.
func (r *Run) Hash() string { return r.hash }

// New expands an experiment of a bundle, validates every point, and compiles and tries out every claim. It returns
// manifest.Problems that refer to fields of the Experiment. If ctx is done before the expansion is complete, it returns
// the cause of ctx.
func New(ctx context.Context, b *manifest.Bundle, object *v1alpha1.Experiment, a check.Abilities) (*Experiment, error) {
	e := &Experiment{Name: object.Name, Claims: object.Spec.Claims, source: b.Source("Experiment", object.Name), object: object}
	a.Targets = nil // each point runs on its own database, without other users
	x := &expansion{Experiment: e, bundle: b, abilities: a, taken: map[string]bool{}}
	for _, step := range []func(context.Context){x.allowed, x.systems, x.parameters, x.size, x.expand, x.names, x.claims, x.tables} {
		step(ctx)
		// A canceled step may have found only some of the problems.
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		// Each step relies on the results of the previous steps.
		if len(x.problems) > 0 {
			return nil, x.problems
		}
	}
	return e.With(NewResults("")), nil
}

// expansion is an experiment that is being expanded. The expansion stops after the first step that finds a problem.
type expansion struct {
	*Experiment
	bundle    *manifest.Bundle
	abilities check.Abilities
	databases []template
	problems  manifest.Problems
	// shared maps the SHA-256 of each database with its network to a run, so that runs with equal databases share one
	// database object. There may be thousands of points, and databases make up most of their memory.
	shared sync.Map
	// rates caches the candidate rates of searches, by minimum rate.
	rates sync.Map
	// steps is the maximum number of steps of the claims checked so far.
	steps uint64
	// taken contains the names of all runs. naming guards it, because searches create and name runs concurrently.
	naming sync.Mutex
	taken  map[string]bool
}

// template is a database before its parameters are set.
type template struct {
	name string
	// field is the field of the Experiment that contains the template.
	field string
	text  []byte // JSON of the whole GeoDatabase
}

// ended reports whether ctx is done, so that the expansion must stop.
func (x *expansion) ended(ctx context.Context) bool { return ctx.Err() != nil }

func (x *expansion) problem(field, value, format string, args ...any) {
	x.report(manifest.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

// mostProblems is the maximum number of problems that an experiment reports.
const mostProblems = 200

// report adds a problem of the experiment, unless the problem is already listed.
func (x *expansion) report(p manifest.Problem) {
	p.Source, p.Object = x.source, "Experiment "+x.Name
	if len(x.problems) >= mostProblems {
		return
	}
	for _, q := range x.problems {
		if q.Field == p.Field && q.Message == p.Message {
			return
		}
	}
	x.problems = append(x.problems, p)
}

// systems lists the databases: first spec.databases, then spec.databaseRefs.
func (x *expansion) systems(_ context.Context) {
	add := func(field, name string, spec *v1alpha1.GeoDatabaseSpec) {
		text, err := document("GeoDatabase", name, spec)
		if err != nil {
			x.problem(field, "", "%v", err)
			return
		}
		x.Systems = append(x.Systems, name)
		x.databases = append(x.databases, template{name, field, text})
	}
	for i := range x.object.Spec.Databases {
		d := &x.object.Spec.Databases[i]
		add(fmt.Sprintf("spec.databases[%d].template", i), d.Name, &d.Template.Spec)
	}
	for i, ref := range x.object.Spec.DatabaseRefs {
		field := fmt.Sprintf("spec.databaseRefs[%d]", i)
		db, ok := x.bundle.Databases[ref.Name]
		if !ok {
			x.report(manifest.Problem{Field: field + ".name", Value: ref.Name, NotFound: true,
				Message: fmt.Sprintf("there is no GeoDatabase %s in %s%s", ref.Name, cmp.Or(x.bundle.Place, "the files"), nearest(ref.Name, keys(x.bundle.Databases)))})
			continue
		}
		add(field, ref.Name, &db.Spec)
	}
}

// parameters sets the names of the swept parameters, and reports fields and values that are listed twice.
func (x *expansion) parameters(_ context.Context) {
	last := map[string]int{}
	for _, s := range x.object.Spec.Sweep {
		last[lastName(s.Path)]++
	}
	if search := x.object.Spec.Search; search != nil {
		var swept []string
		for _, s := range x.object.Spec.Sweep {
			swept = append(swept, s.Path)
		}
		for i, path := range search.SharedBy {
			if !slices.Contains(swept, path) {
				x.problem(fmt.Sprintf("spec.search.sharedBy[%d]", i), path, "%s is not swept%s", path, nearest(path, swept))
			}
		}
	}
	fields := map[string]string{}
	for i, s := range x.object.Spec.Sweep {
		fields[s.Path] = fmt.Sprintf("spec.sweep[%d]", i)
	}
	for i, s := range x.object.Spec.Sweep {
		p := Parameter{Path: s.Path, Name: lastName(s.Path), Values: s.Values, with: s.With}
		for k, w := range s.With {
			field := fmt.Sprintf("spec.sweep[%d].with[%d]", i, k)
			if other, twice := fields[w.Path]; twice {
				x.problem(field+".path", w.Path, "%s already changes at %s: a field can have one value at a point", w.Path, other)
			}
			fields[w.Path] = field
		}
		if last[p.Name] > 1 {
			p.Name = p.Path
		}
		seen := map[v1alpha1.SweepValue]bool{}
		for j, v := range s.Values {
			if seen[v] {
				x.problem(fmt.Sprintf("spec.sweep[%d].values[%d]", i, j), v.String(), "%s is listed twice: each value is one point of the sweep", v.String())
			}
			seen[v] = true
		}
		x.Parameters = append(x.Parameters, p)
	}
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// expand creates and validates the points.
func (x *expansion) expand(ctx context.Context) {
	run, err := document("BenchmarkRun", x.Name, x.object.Spec.Run.Spec)
	if err != nil {
		x.problem("spec.run", "", "%v", err)
		return
	}
	type made struct {
		points   []*Point
		database int
		indices  []int
		problems manifest.Problems
		pathErr  error
		field    string // field of the Experiment with the wrong path, if pathErr is set
	}
	var all []*made
	for d := range x.databases {
		indices := make([]int, len(x.Parameters))
		// Enumerate all combinations; the last parameter varies fastest.
		for done := false; !done; {
			all = append(all, &made{database: d, indices: slices.Clone(indices)})
			done = true
			for i := len(indices) - 1; i >= 0; i-- {
				if indices[i]++; indices[i] < len(x.Parameters[i].Values) {
					done = false
					break
				}
				indices[i] = 0
			}
		}
	}
	make1 := func(m *made) {
		if x.ended(ctx) {
			return
		}
		m.points, m.problems, m.field, m.pathErr = x.point(run, m.database, m.indices)
	}
	// The first point of each database reveals wrong paths and templates. If it has problems, report only these, because
	// all other points would repeat them.
	for i, m := range all {
		if i > 0 && m.database == all[i-1].database {
			continue
		}
		make1(m)
		if m.pathErr != nil {
			x.problem(m.field+".path", "", "%v", m.pathErr)
		}
	}
	if len(x.problems) > 0 || x.ended(ctx) {
		return
	}
	var g errgroup.Group
	g.SetLimit(max(1, runtime.GOMAXPROCS(0)/2)) // leave CPU time for other work of the operator
	for _, m := range all {
		// The first point of each database was created above.
		if m.points == nil && m.problems == nil {
			g.Go(func() error { make1(m); return nil })
		}
	}
	_ = g.Wait() // the tasks return no errors
	if x.ended(ctx) {
		return
	}
	// Collect the points in the order of all, not in the order of completion, so that the order of points and problems is
	// deterministic.
	for _, m := range all {
		if m.pathErr != nil {
			x.problem(m.field+".path", "", "%v", m.pathErr)
		}
		for _, p := range m.problems {
			x.blame(p, m.database, m.indices)
		}
		x.Points = append(x.Points, m.points...)
	}
	if x.object.Spec.Search != nil && len(x.problems) == 0 {
		x.searches()
	}
}

// searches creates the searches of the points, and adds the share of the peak as a parameter. Points that differ only
// in parameters of sharedBy share a search. The first of these points provides the prober: there, all shared parameters
// have their first values.
func (x *expansion) searches() {
	shared := x.object.Spec.Search.SharedBy
	first := map[string]*prober{}
	for _, p := range x.Points {
		// The key contains the values of all parameters that are not shared.
		key := p.System
		for i, parameter := range x.Parameters {
			if !slices.Contains(shared, parameter.Path) {
				key += fmt.Sprintf(" %q", p.Values[i].String())
			}
		}
		if first[key] == nil {
			first[key] = p.prober
			x.Searches = append(x.Searches, &Search{System: p.System, Values: p.Values[:len(x.Parameters)], Label: p.prober.label, prober: p.prober})
		}
		p.peak = first[key]
	}
	share := Parameter{Path: SharePath, Name: ShareName}
	for _, percent := range x.object.Spec.Search.PeakPercents {
		share.Values = append(share.Values, intstr.FromInt32(percent))
	}
	x.Parameters = append(x.Parameters, share)
}

// blame turns a problem of a point into a problem of the experiment. The new problem refers to a swept value or to the
// template.
func (x *expansion) blame(p manifest.Problem, database int, indices []int) {
	inDatabase := strings.HasPrefix(p.Object, "GeoDatabase ")
	prefix, template := "", "spec.run."
	if inDatabase {
		prefix, template = "database.", x.databases[database].field+"."
	}
	for i, s := range x.Parameters {
		for _, c := range s.changes(i) {
			if c.path != prefix+p.Field {
				continue
			}
			text := p.Message
			// Prepend the value, unless the message already contains it.
			if v := c.values[indices[i]].String(); !strings.Contains(text, v) {
				text = v + " " + text
			}
			p.Field, p.Value, p.Message = fmt.Sprintf("%s.values[%d]", c.field, indices[i]), "", c.path+": "+text
			x.report(p)
			return
		}
	}
	p.Field = template + p.Field
	if len(indices) > 0 {
		// Report only one point for each field. If other points fail for a different reason, the next validation reports
		// them.
		for _, q := range x.problems {
			if q.Field == p.Field {
				return
			}
		}
		p.Message += fmt.Sprintf(" (at %s)", x.label(database, indices))
	}
	x.report(p)
}

func (x *expansion) label(database int, indices []int) string {
	parts := []string{x.databases[database].name}
	for i, p := range x.Parameters {
		parts = append(parts, p.Name+"="+p.Values[indices[i]].String())
	}
	return strings.Join(parts, " ")
}

// point creates and validates a point. With a search, it creates one point for each share of the peak. If a path is
// wrong, it returns an error and the field of the Experiment that contains the path.
func (x *expansion) point(run []byte, database int, indices []int) ([]*Point, manifest.Problems, string, error) {
	t := x.databases[database]
	point := &Point{System: t.name, Label: x.label(database, indices)}
	db, r, err := decode(t.text, run)
	if err != nil {
		return nil, manifest.Problems{{Object: "BenchmarkRun " + x.Name, Field: "spec", Message: err.Error()}}, "", nil
	}
	for i, p := range x.Parameters {
		point.Values = append(point.Values, p.Values[indices[i]])
		for _, c := range p.changes(i) {
			if err := c.set(db, r, indices[i]); err != nil {
				return nil, nil, c.field, err
			}
		}
	}
	spec := r["spec"].(map[string]any)
	spec["databaseRef"] = map[string]any{"name": t.name}
	first, _ := spec["seed"].(int64)
	if x.object.Spec.Search != nil {
		points, problems := x.searched(point, db, r, first)
		return points, problems, "", nil
	}
	for k := range x.object.Spec.Repetitions {
		// Repetitions use consecutive seeds, starting with the seed of the template.
		spec["seed"] = first + int64(k)
		made := &Run{Label: point.Label}
		if x.object.Spec.Repetitions > 1 {
			made.Label += fmt.Sprintf(" (repetition %d of %d)", k+1, x.object.Spec.Repetitions)
		}
		// Repetitions differ only in their seeds, so a full validation of one repetition suffices.
		if problems := x.validate(made, db, r, k == 0); len(problems) > 0 {
			return nil, problems, "", nil
		}
		point.Runs = append(point.Runs, made)
	}
	point.manifests = point.Runs[0]
	return []*Point{point}, nil, "", nil
}

// searched creates the points of a search, one for each share of the peak that the search will find. It validates the
// manifests at the minimum and the maximum rate; they are then valid at all rates in between.
func (x *expansion) searched(point *Point, db, run map[string]any, seed int64) ([]*Point, manifest.Problems) {
	search := x.object.Spec.Search
	spec := run["spec"].(map[string]any)
	load := spec["load"].(map[string]any)
	least, _ := load["ratePerSecond"].(int64)
	make1 := func(rate, seed int64, full bool) (*Run, manifest.Problems) {
		load["ratePerSecond"], spec["seed"] = rate, seed
		made := &Run{Label: point.Label}
		return made, x.validate(made, db, run, full)
	}
	if _, problems := make1(search.MaxRatePerSecond, seed, false); len(problems) > 0 {
		return nil, problems
	}
	checked, problems := make1(least, seed, true)
	if len(problems) > 0 {
		return nil, problems
	}
	p := &prober{label: point.Label, spec: search, seed: seed, made: map[[2]int64]*Run{},
		rates: x.ratesFrom(least)}
	p.create = func(rate, seed int64) (*Run, error) {
		made, problems := make1(rate, seed, false)
		if len(problems) > 0 {
			return nil, problems
		}
		x.name(made)
		return made, nil
	}
	var points []*Point
	for _, percent := range search.PeakPercents {
		points = append(points, &Point{System: point.System, Values: append(slices.Clone(point.Values), intstr.FromInt32(percent)),
			Label:     fmt.Sprintf("%s %s=%d", point.Label, ShareName, percent),
			manifests: checked, prober: p, share: percent})
	}
	return points, nil
}

// validate reads the two manifests of a run and checks them like `geobench validate`. With full it also follows
// references and plans the workload, which takes milliseconds.
func (x *expansion) validate(made *Run, db, run map[string]any, full bool) manifest.Problems {
	var docs []manifest.Document
	for _, o := range []map[string]any{db, run} {
		docs = append(docs, manifest.Document{Object: copyObject(o)})
	}
	bundle, problems := manifest.Build(docs)
	if len(problems) > 0 {
		return problems
	}
	bundle.Profiles, bundle.Place = x.bundle.Profiles, x.bundle.Place
	made.Run, made.Database = bundle.Runs[0], bundle.Databases[db["metadata"].(map[string]any)["name"].(string)]
	if full {
		for _, p := range bundle.Check(x.abilities) {
			// Profiles were already checked when they were read.
			if !strings.HasPrefix(p.Object, "NetworkProfile ") {
				problems = append(problems, p)
			}
		}
		if len(problems) > 0 {
			return problems
		}
	}
	var err error
	if _, made.Profile, err = bundle.Resolve(made.Run); err != nil {
		problems, _ := check.As(err)
		return problems
	}
	text, err := json.Marshal([]any{made.Run.Spec, made.Database.Name, made.Database.Spec, made.Profile})
	if err != nil {
		return manifest.Problems{{Object: "BenchmarkRun " + x.Name, Field: "spec", Message: err.Error()}}
	}
	sum := sha256.Sum256(text)
	made.hash = hex.EncodeToString(sum[:])
	made.Run.Name = x.runName(made.hash)
	if made.MeasuredDigest, err = (&result.Manifests{Run: &made.Run.Spec, Database: &made.Database.Spec, Network: made.Profile}).MeasuredDigest(); err != nil {
		return manifest.Problems{{Object: "BenchmarkRun " + x.Name, Field: "spec", Message: err.Error()}}
	}
	if text, err = json.Marshal([]any{made.Database.Name, made.Database.Spec, made.Profile}); err != nil {
		return manifest.Problems{{Object: "GeoDatabase " + made.Database.Name, Field: "spec", Message: err.Error()}}
	}
	sum = sha256.Sum256(text)
	made.DatabaseHash = hex.EncodeToString(sum[:])
	// Runs with equal databases share one database object, so that the garbage collector can free this copy.
	if same, ok := x.shared.LoadOrStore(sum, made); ok {
		made.Database, made.Profile = same.(*Run).Database, same.(*Run).Profile
	}
	return nil
}

const (
	// maxRunName is the maximum length of the name of a BenchmarkRun.
	maxRunName = 32
	// searchDigits is the number of hexadecimal digits in the names of a search's runs.
	searchDigits = 12
)

// runName returns a name for a run, derived from its experiment and its complete configuration.
//
// Searches create their runs as results arrive. On a name collision, the run created first keeps the name, so a
// restarted operator could confuse the two runs. Names of searches' runs therefore have twelve digits, which makes
// collisions practically impossible. The name of the experiment is truncated to make room for them, so the hash
// includes the full name.
func (x *expansion) runName(hash string) string {
	if x.object.Spec.Search == nil {
		return x.Name + "-" + hash[:8]
	}
	sum := sha256.Sum256([]byte(x.Name + " " + hash))
	room := maxRunName - searchDigits - 1
	return x.Name[:min(len(x.Name), room)] + "-" + hex.EncodeToString(sum[:])[:searchDigits]
}

// names ensures that all runs have different names.
func (x *expansion) names(_ context.Context) {
	for _, run := range x.Runs() {
		x.name(run)
	}
}

// name renames a run if another run already has its name: with eight digits, collisions among thousands of runs are
// possible. Two runs of searches share a name only if they are equal, and equal runs are interchangeable.
func (x *expansion) name(run *Run) {
	x.naming.Lock()
	defer x.naming.Unlock()
	for hash := run.hash; x.taken[run.Run.Name]; {
		// Hash the hash again instead of appending a counter, so that the new name depends only on this run and the runs
		// before it.
		sum := sha256.Sum256([]byte(hash))
		hash = hex.EncodeToString(sum[:])
		run.Run.Name = x.runName(hash)
	}
	x.taken[run.Run.Name] = true
}

// Runs returns the runs of all points, in order. With searches it returns the runs created so far, starting with the
// probes.
func (e *Experiment) Runs() []*Run {
	var runs []*Run
	known := map[*Run]bool{}
	add := func(run *Run) {
		// A probe at the peak rate is also a run of the point.
		if !known[run] {
			known[run] = true
			runs = append(runs, run)
		}
	}
	for _, s := range e.Searches {
		for _, p := range s.Probes {
			add(p.Run)
		}
		if s.Next != nil {
			add(s.Next)
		}
	}
	for _, p := range e.Points {
		for _, run := range p.Runs {
			add(run)
		}
	}
	return runs
}

// types returns the transaction types of the workloads of the given systems, or of all systems if none is given.
func (e *Experiment) types(systems ...string) []string {
	var types []string
	for _, p := range e.Points {
		if len(systems) > 0 && !slices.Contains(systems, p.System) {
			continue
		}
		for _, t := range catalog.TypesOf(p.manifests.Run.Spec.Workload) {
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types
}
