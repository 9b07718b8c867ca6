package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/servers"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

// Run checks a run against its database. The database must not have problems of its own.
func Run(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, a Abilities) Problems {
	// Faults cannot be injected into a database that already runs.
	if t := Target(); db.Spec.External != nil {
		a.Faults, a.Place = t.Faults, t.Place
	}
	// the profile only affects how long servers wait for each other, which does not matter here
	db, _ = rendered(db, nil, a)
	r := benchmarkRun{run, db, a}
	var ps Problems
	for _, rule := range []func(*Problems){
		r.target,
		r.workload,
		r.deadline,
		r.timeline,
		r.objectives,
		r.samples,
		r.faults,
		r.verify,
		r.history,
		r.functionalTests,
	} {
		rule(&ps)
	}
	return ps.about("BenchmarkRun", run.Name)
}

type benchmarkRun struct {
	*v1alpha1.BenchmarkRun
	db *v1alpha1.GeoDatabase
	Abilities
}

// target checks that load generators can connect to the database.
func (r *benchmarkRun) target(ps *Problems) {
	d := database{GeoDatabase: r.db, Abilities: r.Abilities}
	if c := r.Spec.Load.Coordinator; c != "" && (r.db.Spec.RunsPrograms() || r.db.Spec.External != nil) {
		ps.add("spec.load.coordinator", string(c), "clients choose among the nodes of Geobench's own engines; those of GeoDatabase %s have the connections that it gives them: leave coordinator out", r.db.Name)
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil && sb.PaddingBytes > 0 && (r.db.Spec.RunsPrograms() || r.db.Spec.External != nil) {
		ps.add("spec.workload.smallbank.paddingBytes", strconv.Itoa(int(sb.PaddingBytes)), "messages of Geobench's own engines alone can be padded, and GeoDatabase %s has messages of its own: leave paddingBytes out, or name a database with one of the engines %s",
			r.db.Name, list(r.Engines.Names()))
	}
	// The remaining rules are about clients of other databases. If the database itself has problems, another check reports
	// them.
	if !r.db.Spec.RunsPrograms() && (r.db.Spec.External == nil || !r.Pods) || len(Database(r.db, nil, r.Abilities)) > 0 {
		return
	}
	if name := r.db.Spec.Engine.Name; r.db.Spec.RunsPrograms() && !d.talked() && deployedOnly(name) {
		why := ""
		if f := servers.FactsOf(name); f != nil && f.Unmeasured != "" {
			why = ": " + f.Unmeasured
		}
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s is %s, of which no client is built in%s; it is deployed over the emulated network (untested), and cannot be loaded; name a database of %s, or with one of the engines %s",
			r.db.Name, name, why, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	if len(r.db.Spec.Roles) > 0 && !d.talked() {
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s has roles, and does not say how load generators talk to it: set client.secretRef of one of its spec.roles, for one of %s, or name a database with one of the engines %s",
			r.db.Name, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	if r.db.Spec.Pods != nil && !d.talked() {
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s runs a program of its own, and does not say how load generators talk to it: set its spec.pods.client, for one of %s, or name a database with one of the engines %s",
			r.db.Name, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	engine, ok := d.catalog().Lookup(r.db.Spec.Engine.Name)
	if !ok {
		return
	}
	params, errs := engine.Resolve(r.db.Spec.Engine.Parameters)
	if len(errs) > 0 {
		return
	}
	if name, with := r.Spec.Workload.Name(), catalog.WithSQL(); targets.WantsSQL(engine.Name, params) && !slices.Contains(with, name) {
		ps.add("spec.workload", name, "the workload has no SQL of its own, and GeoDatabase %s has spec.engine.parameters.form: %s: leave that out, or take one of %s",
			r.db.Name, sqltarget.FormSQL, list(with))
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil && sb.DependentPercent > 0 && targets.WantsSQL(engine.Name, params) {
		ps.add("spec.workload.smallbank.dependentPercent", strconv.Itoa(int(sb.DependentPercent)), "transactions that are not split into phases have no SQL of their own, and GeoDatabase %s has spec.engine.parameters.form: %s: make it 0, or leave form out",
			r.db.Name, sqltarget.FormSQL)
	}
	if n := targets.Connections(params); n > 0 && int(r.Spec.Load.WorkersPerRegion) > n {
		ps.add("spec.load.workersPerRegion", strconv.Itoa(int(r.Spec.Load.WorkersPerRegion)), "%d workers share the %d connections that the clients of a region have: take at most as many workers, or raise spec.engine.parameters.connections of GeoDatabase %s",
			r.Spec.Load.WorkersPerRegion, n, r.db.Name)
	}
}

// workload checks that the workload fits the regions and partitions of the database.
func (r *benchmarkRun) workload(ps *Problems) {
	shape := geo.Topology{
		Regions:    r.db.Spec.RegionNames(),
		Partitions: int(r.db.Spec.PartitionsPerRegion),
		Replicas:   int(r.db.Spec.ReplicasPerPartition),
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil {
		r.sunflower(ps, sb)
		// The workload's own checks would report an unknown region again.
		if len(*ps) > 0 {
			return
		}
	}
	w, err := catalog.New(r.Spec.Workload, uint64(r.Spec.Seed), &shape)
	if err != nil {
		*ps = append(*ps, fromError(err))
		return
	}
	r.memory(ps, w)
}

func (r *benchmarkRun) sunflower(ps *Problems, sb *v1alpha1.SmallBank) {
	regions := r.db.Spec.RegionNames()
	for i, s := range sb.Sunflower {
		if !slices.Contains(regions, s.Region) {
			ps.add(fmt.Sprintf("spec.workload.smallbank.sunflower[%d].region", i), s.Region, "region %s is not in GeoDatabase %s%s; its regions are %s",
				s.Region, r.db.Name, didYouMean(s.Region, regions), list(regions))
		}
	}
}

// fromError splits a workload's error of the form "field: message".
func fromError(err error) Problem {
	field, message, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsAny(field, " ") {
		return Problem{Field: "spec.workload", Message: err.Error()}
	}
	return Problem{Field: field, Message: message}
}

// deadline checks that the load fits into the deadline.
func (r *benchmarkRun) deadline(ps *Problems) {
	l := &r.Spec.Load
	takes := v1alpha1.DurationOf(load.PlanOf(*l, 0).LastWindow())
	// After the load, the run still has to audit the rows, so equality is not enough.
	if d := r.Spec.Deadline; d != nil && d.Duration <= takes.Duration {
		ps.add("spec.deadline", d.String(), "deadline %s is not longer than the load takes: %d x (warmup %s + duration %s) and the pauses between are %s; leave the deadline out for %s more than that",
			d, l.Repetitions, l.Warmup, l.Duration, takes, v1alpha1.DurationOf(v1alpha1.DeadlineMargin))
	}
}

// timeline checks that the measured time fits into a result.
func (r *benchmarkRun) timeline(ps *Problems) {
	l := &r.Spec.Load
	if total := l.Duration.Duration * time.Duration(l.Repetitions); r.Timeline > 0 && total > r.Timeline {
		ps.add("spec.load.duration", l.Duration.String(), "%s x repetitions %d is %s; a result holds at most %s of timeline: take a shorter duration or fewer repetitions",
			l.Duration, l.Repetitions, v1alpha1.DurationOf(total), v1alpha1.DurationOf(r.Timeline))
	}
}

// objectives checks that each objective names a transaction that the workload runs and a region of the database. Its
// bounds must be satisfiable.
func (r *benchmarkRun) objectives(ps *Problems) {
	types, regions := catalog.TypesOf(r.Spec.Workload), r.db.Spec.RegionNames()
	for i := range r.Spec.Objectives {
		o := &r.Spec.Objectives[i]
		path := fmt.Sprintf("spec.objectives[%d]", i)
		switch why := catalog.Never(r.Spec.Workload, o.Transaction); {
		case o.Transaction == "":
		case !slices.Contains(types, o.Transaction):
			ps.add(path+".transaction", o.Transaction, "workload %s has no transaction %s%s; it has %s",
				r.Spec.Workload.Name(), o.Transaction, didYouMean(o.Transaction, types), list(types))
		case why != "":
			ps.add(path+".transaction", o.Transaction, "%s never runs: %s", o.Transaction, why)
		}
		if o.Region != "" && !slices.Contains(regions, o.Region) {
			ps.add(path+".region", o.Region, "region %s is not in GeoDatabase %s%s; its regions are %s",
				o.Region, r.db.Name, didYouMean(o.Region, regions), list(regions))
		}
		lo, hi, err := o.Limits()
		switch {
		case err != nil:
			field, _, _ := strings.Cut(err.Error(), ":")
			ps.add(path+"."+field, "", "%s", strings.TrimPrefix(err.Error(), field+": "))
		case lo != nil && hi != nil && *lo > *hi:
			ps.add(path+".min", o.Min.String(), "min %s is greater than max (%s): no value can hold", o.Min.String(), o.Max.String())
		case (o.Metric == v1alpha1.MetricAbortPPM || o.Metric == v1alpha1.MetricUnknownPPM) && lo != nil && *lo > 1_000_000:
			ps.add(path+".min", o.Min.String(), "min %s is more than 1000000 parts per million: no value can hold", o.Min.String())
		}
	}
}

// verify checks that each verification is available.
func (r *benchmarkRun) verify(ps *Problems) {
	for i, v := range r.Spec.Verify {
		if !slices.Contains(r.Verifications, v) {
			ps.add(fmt.Sprintf("spec.verify[%d]", i), string(v), "verification %s is not available; choose from %s", v, list(r.Verifications))
		}
	}
}

// functionalTests checks that the names of the tests' runs are short enough, and that the tests can run on the
// database.
func (r *benchmarkRun) functionalTests(ps *Problems) {
	const field = "spec.functionalTests"
	if len(r.Spec.FunctionalTests) > 0 && len(r.Name) > acceptance.MaxName {
		ps.add("metadata.name", r.Name, "%s names the BenchmarkRuns of %s too, with -deadlock and -snapshot behind: make it at most %d characters, or leave %[2]s out",
			r.Name, field, acceptance.MaxName)
	}
	for i, test := range acceptance.Runs(r.BenchmarkRun) {
		for _, p := range Run(test, r.db, r.Abilities) {
			if slices.ContainsFunc(*ps, func(own Problem) bool { return own.Field == p.Field && own.Message == p.Message }) {
				continue // the run itself has the same problem
			}
			ps.add(fmt.Sprintf("%s[%d]", field, i), string(r.Spec.FunctionalTests[i]), "%s cannot be played on GeoDatabase %s: %s: %s", r.Spec.FunctionalTests[i], r.db.Name, p.Field, p.Message)
		}
	}
}
