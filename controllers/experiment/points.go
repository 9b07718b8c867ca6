package experiment

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/run/experiment"
)

const (
	// maxDatabaseName is the maximum length of the name of a GeoDatabase.
	maxDatabaseName = 27
	hashLength      = 8
)

// pointDatabaseName returns the name of a database that an experiment creates: the name of its template and a hash of
// its complete configuration. Eight digits of a hash can collide among thousands of databases. If the name with the
// previous number belongs to another database, the caller tries the next number, starting from 0.
func pointDatabaseName(e *v1alpha1.Experiment, run *experiment.Run, number int) string {
	name := run.Database.Name
	if room := maxDatabaseName - hashLength - 1; len(name) > room {
		name = name[:room]
	}
	parts := []string{e.Name, run.DatabaseHash[:hashLength]}
	if number > 0 {
		parts = append(parts, run.DatabaseHash, strconv.Itoa(number))
	}
	return name + "-" + deploy.ShortHash(parts...)
}

// restore reverts edits to the databases of the experiment. Runs that have already started continue with the edited
// database, and are not counted.
func (s *scope) restore(ctx context.Context) error {
	for _, d := range s.schedule.databases {
		want := &d.points[0].Database.Spec
		if d.object == nil || d.object.DeletionTimestamp != nil || equality.Semantic.DeepEqual(&d.object.Spec, want) {
			continue
		}
		base := d.object
		d.object = base.DeepCopy()
		d.object.Spec = *want.DeepCopy()
		err := s.Client.Patch(ctx, d.object, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsNotFound(err) {
			d.object = nil // deleted in the meantime: it is created again
			continue
		}
		if err != nil {
			return err
		}
		if err := keeps(d.object, want); err != nil {
			return err
		}
		s.events = append(s.events, kube.Warning("DatabaseRestored", "Restore", fmt.Sprintf("GeoDatabase %s was edited, and is what it is in the experiment again", d.name)))
	}
	return nil
}

// sweepUp deletes runs that are no longer in the spec or falsely claim to belong to the experiment. It also deletes
// databases that no point needs any longer.
func (s *scope) sweepUp(ctx context.Context) error {
	runs := s.schedule.strayRuns
	for _, p := range s.schedule.all() {
		if p.forged != nil {
			runs = append(runs, p.forged)
		}
	}
	for _, run := range runs {
		if err := s.remove(ctx, run, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	for _, db := range s.schedule.unneeded() {
		// With foreground deletion, the database exists until its pods are gone, so that these pods cannot disturb the next
		// measurement.
		if err := s.remove(ctx, db, metav1.DeletePropagationForeground); err != nil {
			return err
		}
	}
	return nil
}

func (s *scope) remove(ctx context.Context, obj client.Object, how metav1.DeletionPropagation) error {
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := obj.GetUID()
	err := s.Client.Delete(ctx, obj, client.PropagationPolicy(how), client.Preconditions{UID: &uid})
	if err == nil {
		now := metav1.NewTime(s.Clock.Now())
		obj.SetDeletionTimestamp(&now)
	}
	return client.IgnoreNotFound(err)
}

// advance starts the points that are due.
func (s *scope) advance(ctx context.Context) error {
	for _, p := range s.schedule.due() {
		if err := s.begin(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// begin creates a point's database if it does not exist, and then its run. If the run already exists, begin starts its
// next attempt.
func (s *scope) begin(ctx context.Context, p *point) error {
	if d := p.database; d.made && d.object == nil {
		db := &v1alpha1.GeoDatabase{ObjectMeta: s.objectMeta(d.name, kube.RolePoint), Spec: *p.Run.Database.Spec.DeepCopy()}
		if err := s.create(ctx, db); err != nil {
			return err
		}
		d.object = db
	}
	if p.object == nil {
		run := &v1alpha1.BenchmarkRun{ObjectMeta: s.objectMeta(p.Run.Run.Name, kube.RolePoint), Spec: *p.Run.Run.Spec.DeepCopy()}
		run.Spec.DatabaseRef.Name = p.database.name
		if err := s.create(ctx, run); err != nil {
			return err
		}
		p.object = run
		return nil
	}
	s.events = append(s.events, eventRetry(p))
	return s.tryAgain(ctx, p)
}

// create creates a database or a run of a point. It first makes a dry run, and refuses if the cluster would change the
// spec.
func (s *scope) create(ctx context.Context, obj client.Object) error {
	tried := obj.DeepCopyObject().(client.Object)
	err := s.Client.Create(ctx, tried, client.DryRunAll)
	if err == nil {
		err = keeps(tried, specOf(obj))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return kube.EnsureCreated(ctx, s.Client, s.Live, s.experiment, obj)
}

// keeps returns a refusal if the spec of obj differs from the spec that was written.
func keeps(obj client.Object, wrote any) error {
	if equality.Semantic.DeepEqual(specOf(obj), wrote) {
		return nil
	}
	return kube.Refuse("SpecChanged", "something in the cluster, such as a mutating webhook, changes the spec of %s %s when it is written, so that another database or load would be measured than the experiment says: have it leave objects with the label %s alone",
		kube.KindOf(obj), obj.GetName(), kube.LabelExperiment)
}

func specOf(obj client.Object) any {
	if db, ok := obj.(*v1alpha1.GeoDatabase); ok {
		return &db.Spec
	}
	return &obj.(*v1alpha1.BenchmarkRun).Spec
}

// tryAgain sets the runID of the run's next attempt. The lock on the resource version ensures that the run is still in
// the state that was observed.
func (s *scope) tryAgain(ctx context.Context, p *point) error {
	base := p.object
	p.object = base.DeepCopy()
	p.object.Spec.RunID = attemptPrefix + strconv.Itoa(attemptOf(base)+1)
	err := s.Client.Patch(ctx, p.object, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		p.object, err = nil, nil // deleted in the meantime: it is created again
	}
	return err
}

func (s *scope) objectMeta(name, role string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.experiment.Namespace, Labels: kube.ExperimentLabels(s.experiment, role)}
}
