package experiment

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// maxAttempts is the maximum number of attempts at a run that is Invalid for a reason outside the database.
const maxAttempts = 3

// outsideReasons lists reasons that are caused by the environment, for example a component that exited or was too busy,
// so another attempt may pass. A reason that is caused by the manifest, such as NoTransactions, would occur again.
var outsideReasons = []string{
	"NodeLost", "PodChanged", "DatabaseReplaced", "DatabaseDeleted", "DatabaseLost", "WorkerFailed", "WorkerObjectDeleted", result.ReasonStartMissed,
	"ReportUnreadable", result.ReasonHistoryLost, result.ReasonWorkerLost, result.ReasonNodeRestarted, result.ReasonDriverBound, result.ReasonNetworkNotVerified,
	result.ReasonNetworkEdited, result.ReasonNodeStarved, result.ReasonTooManyGaps, reasonOther,
}

// reasonOther is the reason of an Invalid point whose run measured something else.
const reasonOther = "OtherManifests"

// pointState is the progress of a point of an experiment.
type pointState int

const (
	// pointWaiting means that the point has no run yet.
	pointWaiting pointState = iota
	// pointUnderway means that the run has not finished or has not released its objects yet, or that a forged run must be
	// removed first.
	pointUnderway
	// pointAgain means that the run has finished and must be repeated.
	pointAgain
	// pointDone means that the run has finished and needs no further attempt.
	pointDone
)

// point is a run of the expanded experiment with the object that executes it.
type point struct {
	*experiment.Run
	database *pointDatabase
	// object is nil until the run is created.
	object *v1alpha1.BenchmarkRun
	// forged is a run with the name of the point's run but another spec, which the operator has not created.
	forged *v1alpha1.BenchmarkRun
}

// overloaded reports whether the run is Invalid only because its database did not serve the load. Another
// attempt would have the same outcome.
func (p *point) overloaded() bool {
	s := p.object.Status.Summary
	return s != nil && s.Overloaded
}

func (p *point) state() pointState {
	switch {
	case p.forged != nil:
		return pointUnderway
	case p.object == nil:
		return pointWaiting
	case !kube.Settled(p.object):
		return pointUnderway
	}
	if verdict, reason, _ := p.ended(); verdict == v1alpha1.VerdictInvalid && slices.Contains(outsideReasons, reason) && !p.overloaded() && attemptOf(p.object) < maxAttempts {
		return pointAgain
	}
	return pointDone
}

// failed reports whether a finished run has no result for its point, or failed a check.
func (p *point) failed() bool {
	st := &p.object.Status
	return st.Stage == v1alpha1.StageFailed || p.isOther() ||
		slices.ContainsFunc(st.Checks, func(c v1alpha1.CheckStatus) bool { return !c.Passed })
}

// plays reports whether the object has the spec of the point, ignoring the name of the database. A user may have
// created an object of this name with another spec.
func (p *point) plays() bool {
	if p.object.Status.MeasuredDigest == p.MeasuredDigest {
		return true // the spec cannot have changed after the digest was recorded
	}
	is, want := p.object.Spec.Fixed(), p.Run.Run.Spec.Fixed()
	is.DatabaseRef = want.DatabaseRef
	return equality.Semantic.DeepEqual(is, want)
}

// isOther reports whether the run started with manifests other than its point's, and so measured something else: its
// database was edited or replaced. Runs that an earlier version of the operator accepted have no digest.
func (p *point) isOther() bool {
	measured := p.object.Status.MeasuredDigest
	return measured != "" && measured != p.MeasuredDigest
}

// pointDatabase is a database with the points that are measured on it, in order.
type pointDatabase struct {
	// name is the name of the GeoDatabase in the cluster. hash is the hash of its complete configuration:
	// experiment.Run.DatabaseHash.
	name, hash string
	// made is set for a database that the experiment creates, and deletes after its last point.
	made   bool
	points []*point
	// object is the GeoDatabase if made is set; nil while it does not exist.
	object *v1alpha1.GeoDatabase
}

// next returns the first point that is not done, or nil if all are.
func (d *pointDatabase) next() *point {
	i := slices.IndexFunc(d.points, func(p *point) bool { return p.state() != pointDone })
	if i < 0 {
		return nil
	}
	return d.points[i]
}

func (d *pointDatabase) underway() bool {
	return slices.ContainsFunc(d.points, func(p *point) bool { return p.state() == pointUnderway })
}

// schedule decides which objects to create and to delete. It changes nothing itself. Its decisions depend only on the
// existing objects, so a new operator continues like its predecessor.
type schedule struct {
	// databases lists the databases in the order in which they are needed.
	databases []*pointDatabase
	// concurrency is the maximum number of databases that may exist or be in use at the same time.
	concurrency int
	suspended   bool

	points map[string]*point
	// strayRuns are unfinished runs of points that are no longer in the spec.
	strayRuns []*v1alpha1.BenchmarkRun
	// strayDatabases are databases that belong to no point.
	strayDatabases []*v1alpha1.GeoDatabase
	// busy is the number of databases that exist or are in use.
	busy int
}

func newSchedule(e *v1alpha1.Experiment, expanded *experiment.Experiment) *schedule {
	s := &schedule{concurrency: max(1, int(e.Spec.Concurrency)), suspended: e.Spec.Suspend, points: map[string]*point{}}
	refs := map[string]bool{}
	for _, ref := range e.Spec.DatabaseRefs {
		refs[ref.Name] = true
	}
	byName := map[string]*pointDatabase{}
	for _, run := range expanded.Runs() {
		name, made := run.Database.Name, !refs[run.Database.Name]
		if made {
			name = pointDatabaseName(e, run, 0)
			for i := 1; byName[name] != nil && byName[name].hash != run.DatabaseHash; i++ {
				name = pointDatabaseName(e, run, i)
			}
		}
		d := byName[name]
		if d == nil {
			d = &pointDatabase{name: name, hash: run.DatabaseHash, made: made}
			byName[name] = d
			s.databases = append(s.databases, d)
		}
		p := &point{Run: run, database: d}
		d.points = append(d.points, p)
		s.points[run.Run.Name] = p
	}
	return s
}

// all returns all points, in the order in which they run.
func (s *schedule) all() []*point {
	var out []*point
	for _, d := range s.databases {
		out = append(out, d.points...)
	}
	return out
}

func (s *schedule) hasRun(run *v1alpha1.BenchmarkRun) {
	p := s.points[run.Name]
	if p == nil {
		if !kube.Settled(run) {
			s.strayRuns = append(s.strayRuns, run)
		}
		return
	}
	// A run on another database has measured something else, even if its spec is the same otherwise.
	if p.object = run; !p.plays() || run.Spec.DatabaseRef.Name != p.database.name {
		p.object, p.forged = nil, run
	}
}

func (s *schedule) hasDatabase(db *v1alpha1.GeoDatabase) {
	i := slices.IndexFunc(s.databases, func(d *pointDatabase) bool { return d.made && d.name == db.Name })
	if i < 0 {
		s.strayDatabases = append(s.strayDatabases, db)
		return
	}
	s.databases[i].object = db
}

// settle counts the databases in use. It must be called once all existing objects are known.
func (s *schedule) settle() {
	s.busy = len(s.strayDatabases)
	for _, d := range s.databases {
		if d.object != nil || d.underway() {
			s.busy++
		}
	}
	for _, run := range s.strayRuns {
		// A stray run on a database that was already counted does not count again.
		name := run.Spec.DatabaseRef.Name
		if !slices.ContainsFunc(s.strayDatabases, func(db *v1alpha1.GeoDatabase) bool { return db.Name == name }) &&
			!slices.ContainsFunc(s.databases, func(d *pointDatabase) bool { return d.name == name && (d.object != nil || d.underway()) }) {
			s.busy++
		}
	}
}

// unneeded returns the databases that can be deleted. No run uses them, and no point will start on them.
func (s *schedule) unneeded() []*v1alpha1.GeoDatabase {
	inUse := func(name string) bool {
		return slices.ContainsFunc(s.strayRuns, func(run *v1alpha1.BenchmarkRun) bool { return run.Spec.DatabaseRef.Name == name })
	}
	var out []*v1alpha1.GeoDatabase
	for _, db := range s.strayDatabases {
		if !inUse(db.Name) {
			out = append(out, db)
		}
	}
	for _, d := range s.databases {
		if d.object != nil && !d.underway() && !inUse(d.name) && (s.suspended || d.next() == nil) {
			out = append(out, d.object)
		}
	}
	return out
}

// due returns the points to start now. These are the next points of existing idle databases and, up to the concurrency
// limit, the first points of further databases.
func (s *schedule) due() []*point {
	if s.suspended {
		return nil
	}
	// A stray run may use a database that points need.
	idle := func(d *pointDatabase) bool {
		return !d.underway() && !slices.ContainsFunc(s.strayRuns, func(run *v1alpha1.BenchmarkRun) bool { return run.Spec.DatabaseRef.Name == d.name })
	}
	var out []*point
	for _, d := range s.databases {
		if p := d.next(); p != nil && d.object != nil && d.object.DeletionTimestamp == nil && idle(d) {
			out = append(out, p)
		}
	}
	room := s.concurrency - s.busy
	for _, d := range s.databases {
		if p := d.next(); p != nil && d.object == nil && idle(d) && room > 0 {
			out = append(out, p)
			room--
		}
	}
	return out
}

// done reports whether every point is done and no database of the experiment is left.
func (s *schedule) done() bool {
	return s.busy == 0 && !slices.ContainsFunc(s.databases, func(d *pointDatabase) bool { return d.next() != nil })
}
