package run

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
)

// The resources of workers depend on the manifest of the run, not on the database's.
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

// The reports of the longest runs that preflight accepts can be read, whatever happens in each second. Nevertheless,
// the size of a report is bounded.
func TestReportsOfLongRunsAreRead(t *testing.T) {
	longest := check.Default(nil).Timeline
	tenths := [10]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		workers, repetitions int
		duration             time.Duration
		faults               bool
	}{
		{5, 1, longest, false},
		{6, 1, 62 * time.Minute, true},
		{32, 4, longest / 4, true},
		{2, 10, longest/10 - time.Millisecond, true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			run := &v1alpha1.BenchmarkRun{Spec: v1alpha1.BenchmarkRunSpec{Load: v1alpha1.Load{Duration: v1alpha1.DurationOf(c.duration), Repetitions: int32(c.repetitions)}}}
			second := result.Second{Region: "us-west-2", Committed: 1, Aborted: 1, Failed: 1, Attempts: 3, Latency: []byte{1, 2}}
			if c.faults {
				run.Spec.Faults = make([]v1alpha1.Fault, 1)
				second.Tenths = &result.Tenths{Committed: tenths, Aborted: tenths, Failed: tenths}
			}
			r := &result.Report{Kind: result.ReportKind, Version: result.ReportVersion, Workload: "w", Arrival: "Closed",
				DurationMicroseconds: c.duration.Microseconds(), Repetitions: c.repetitions, Workers: []result.LoadGenerator{{Region: "us-west-2", Clients: 1}}}
			for i := range c.repetitions {
				for s := range int((c.duration + time.Second - 1) / time.Second) {
					second.Repetition, second.Second = i+1, s
					r.Timeline = append(r.Timeline, second)
				}
			}
			b, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			left := mostReportValues(run, c.workers)
			_, values, err := result.DecodeReport(b, left/c.workers)
			if err != nil {
				t.Errorf("each of %d workers has %d values in a run of %d: %v", c.workers, values, left, err)
			}
			if most := 2*c.workers*values + 600_000; left > most {
				t.Errorf("%d values are read of a run whose reports have %d", left, c.workers*values)
			}
		})
	}
}
