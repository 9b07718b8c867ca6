package kube

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Settled reports whether a run has finished and released everything.
func Settled(run *v1alpha1.BenchmarkRun) bool {
	return run.DeletionTimestamp == nil && Over(run) && run.Status.RunID == run.Spec.RunID && !controllerutil.ContainsFinalizer(run, Finalizer)
}

// Finished reports whether the experiment has completed for its current spec.
func Finished(e *v1alpha1.Experiment) bool {
	return e.Status.ObservedGeneration == e.Generation && meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionCompleted)
}

// Finalizer is set on a run while it may have reserved a database or have objects to clean up.
const Finalizer = "geobench.dev/cleanup"

// Over reports whether a run has reached its final stage.
func Over(run *v1alpha1.BenchmarkRun) bool {
	return run.Status.Stage == v1alpha1.StageCompleted || run.Status.Stage == v1alpha1.StageFailed
}

// HoldsDatabase reports whether run may still use db. A run without the finalizer has released everything.
func HoldsDatabase(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase) bool {
	return controllerutil.ContainsFinalizer(run, Finalizer) && run.Status.DatabaseUID == string(db.UID)
}
