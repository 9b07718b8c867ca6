package run

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// What workers take of the machine follows from the run's manifest, not from the database's.
func TestProcessorsOfWorkers(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "us-west-2"}}}}
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	run.Spec.Load.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	job := buildJob(run, db, &db.Spec.Regions[0], 1, "image", time.Minute, metav1.ObjectMeta{Name: "w"})
	if env := job.Spec.Template.Spec.Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "GOMAXPROCS", Value: "2"}) {
		t.Errorf("%v, want GOMAXPROCS 2", env)
	}
}
