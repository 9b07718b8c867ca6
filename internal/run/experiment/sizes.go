package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// size computes the number of runs and checks it before any point is created.
func (x *expansion) size(_ context.Context) {
	each := int(x.object.Spec.Repetitions)
	what := fmt.Sprintf("%d repetitions", each)
	if s := x.object.Spec.Search; s != nil {
		what = fmt.Sprintf("(%d probes + %d shares of the peak x %s)", s.MaxProbes, len(s.PeakPercents), what)
		each = int(s.MaxProbes) + len(s.PeakPercents)*each
	}
	n := len(x.Systems) * each
	factors := []string{fmt.Sprintf("%d databases", len(x.Systems))}
	for _, p := range x.Parameters {
		n *= len(p.Values) // no overflow: a parameter has at most 1,000 values, and n is checked in each iteration
		factors = append(factors, fmt.Sprintf("%d values of %s", len(p.Values), p.Name))
		if n > MaxPoints {
			break
		}
	}
	x.MostRuns = n
	if n > MaxPoints {
		x.problem("spec.sweep", "", "%s x %s is %d points or more: an experiment has at most %d", strings.Join(factors, " x "), what, n, MaxPoints)
		return
	}
	x.bytes()
}

// Limits for the manifests of all points together, in bytes of JSON. mostKeptBytes limits the manifests that stay in
// memory; each byte of JSON takes about five bytes there. mostCheckedBytes limits the manifests that are validated: one
// database for each run.
const (
	mostKeptBytes    = 24 << 20
	mostCheckedBytes = 32 << 20
	// mostValueBytes is the maximum length of a swept value, because labels and messages contain it.
	mostValueBytes = 1024
)

// bytes checks the total size of the manifests before any point is created.
func (x *expansion) bytes() {
	run, err := document("BenchmarkRun", x.Name, x.object.Spec.Run.Spec)
	if err != nil {
		x.problem("spec.run", "", "%v", err)
		return
	}
	databases, label, longest := 1, 0, 0
	for i, p := range x.Parameters {
		ofDatabase, most := false, 0
		for _, c := range p.changes(i) {
			ofDatabase = ofDatabase || strings.HasPrefix(c.path, "database.")
			for k, v := range c.values {
				size := len(v.String())
				if most = max(most, size); size > mostValueBytes {
					x.problem(fmt.Sprintf("%s.values[%d]", c.field, k), "", "the value has %d bytes; the limit is %d: put long text into the templates, and sweep only what differs", size, mostValueBytes)
					return
				}
			}
		}
		if ofDatabase {
			// Only parameters of the database create further databases, because runs with equal databases share the database
			// object.
			databases *= len(p.Values)
		}
		label += len(p.Name) + most
	}
	kept := x.MostRuns * (len(run) + label)
	for _, d := range x.databases {
		kept += databases * len(d.text)
		longest = max(longest, len(d.text))
	}
	checked := x.MostRuns * (len(run) + longest)
	what := "list fewer values, or shorten the templates, for example with profileRef instead of profile"
	switch {
	case kept > mostKeptBytes:
		x.problem("spec.sweep", "", "the manifests of %d points are %d bytes of JSON together; the limit is %d: %s", x.MostRuns, kept, mostKeptBytes, what)
	case checked > mostCheckedBytes:
		x.problem("spec.sweep", "", "%d points with a run of %d bytes of JSON and a database of %d are %d bytes to check; the limit is %d: %s",
			x.MostRuns, len(run), longest, checked, mostCheckedBytes, what)
	}
}

// Runs returns the number of runs of a spec without expanding it, including all runs that searches may need. It returns
// MaxPoints + 1 if there are more than MaxPoints.
func Runs(spec *v1alpha1.ExperimentSpec) int {
	each := int(spec.Repetitions)
	if s := spec.Search; s != nil {
		each = int(s.MaxProbes) + len(s.PeakPercents)*each
	}
	n := (len(spec.Databases) + len(spec.DatabaseRefs)) * max(1, each)
	for i := range spec.Sweep {
		n = min(n*len(spec.Sweep[i].Values), MaxPoints+1)
	}
	return n
}
