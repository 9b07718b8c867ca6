package faultstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
)

// A new operator knows only the status of the faults: the conversion from the status to the timeline and back loses
// nothing.
func TestTimelineAndStatusAgree(t *testing.T) {
	start := metav1.NewMicroTime(time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC))
	at := func(d time.Duration) *metav1.MicroTime {
		when := metav1.NewMicroTime(start.Add(d))
		return &when
	}
	run := &v1alpha1.BenchmarkRun{}
	if err := yaml.Unmarshal([]byte(`
- {name: cut, at: 5s, duration: 4s, networkPartition: {from: {regions: [eu]}, oneWay: true}}
- {name: down, at: 7s, duration: 2s, nodeShutdown: {target: {regions: [us]}}}
- {name: kill, at: 8s, podKill: {target: {regions: [eu]}}}
`), &run.Spec.Faults); err != nil {
		t.Fatal(err)
	}
	topology := &geo.Topology{Regions: []string{"eu", "us"}, Partitions: 1, Replicas: 1}
	if Timeline(run, topology) != nil {
		t.Error("a run that does not measure yet plays faults")
	}
	run.Status.MeasureStartTime = &start
	run.Status.Faults = []v1alpha1.FaultStatus{
		{Name: "cut", State: string(fault.Active), StateStartTime: at(5 * time.Second), Injector: v1alpha1.InjectorSidecar,
			Targets: []string{"eu/0/0"}, OtherSide: []string{"us/0/0"}, InjectingTime: at(4999 * time.Millisecond), InjectedTime: at(5001 * time.Millisecond)},
		{Name: "down", State: string(fault.Done), StateStartTime: at(9 * time.Second), Injector: v1alpha1.InjectorKubernetes, Lasting: true, Replaced: true,
			Message: "given up", Targets: []string{"us/0/0"}, Processes: []string{"uid/process/0"},
			InjectingTime: at(7 * time.Second), InjectedTime: at(8 * time.Second), RecoveringTime: at(9 * time.Second), RecoveredTime: at(9 * time.Second)},
		{Name: "kill", State: string(fault.Waiting), StateStartTime: at(0)},
	}
	tl := Timeline(run, topology)
	for region, want := range map[string]bool{"eu": false, "us": true} {
		if got := StaysDown(tl, region); got != want {
			t.Errorf("pods of region %s stay down: %t, want %t", region, got, want)
		}
	}
	if l := LifeOf(run, "down"); l.State != fault.Done || !l.Lasting {
		t.Errorf("the life of down is %+v", l)
	}
	kept := run.DeepCopy()
	Keep(kept, tl)
	if diff := cmp.Diff(run.Status.Faults, kept.Status.Faults); diff != "" {
		t.Errorf("the status before and after: %s", diff)
	}
}
