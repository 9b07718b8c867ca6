package run

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Pods that request more CPU than all machines have would never start. Nothing is refused if the cluster may grow or
// its size is unknown.
func TestCrowded(t *testing.T) {
	machine := func(cpu string, change func(*corev1.Node)) corev1.Node {
		n := corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
		if change != nil {
			change(&n)
		}
		return n
	}
	two := []corev1.Node{machine("2", nil)}
	for name, c := range map[string]struct {
		machines   []corev1.Node
		partitions int32
		change     func(*v1alpha1.GeoDatabase, *v1alpha1.BenchmarkRun)
		want       string
	}{
		"120 nodes on two CPUs":        {two, 20, nil, "120 nodes of GeoDatabase d x 100m (spec.resources.requests.cpu) and 3 load generators x 100m (spec.load.resources.requests.cpu) ask for 12300m CPU, and the 1 machines of the cluster have 2 together"},
		"six nodes":                    {two, 1, nil, ""},
		"two machines":                 {append([]corev1.Node{machine("10300m", nil)}, two...), 20, nil, ""},
		"a machine that is closed":     {append([]corev1.Node{machine("64", func(n *corev1.Node) { n.Spec.Unschedulable = true })}, two...), 20, nil, "the 1 machines of the cluster have 2"},
		"a cluster that may grow":      {append([]corev1.Node{machine("1", func(n *corev1.Node) { n.Labels = map[string]string{"karpenter.sh/nodepool": "p"} })}, two...), 20, nil, ""},
		"a machine that does not tell": {append([]corev1.Node{{}}, two...), 20, nil, ""},
		"a cluster without any":        {nil, 20, nil, ""},
		"nodes that ask for more": {two, 1, func(db *v1alpha1.GeoDatabase, _ *v1alpha1.BenchmarkRun) {
			db.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, "6 nodes of GeoDatabase d x 1 "},
		"nodes that ask for little": {two, 20, func(db *v1alpha1.GeoDatabase, _ *v1alpha1.BenchmarkRun) {
			db.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		}, ""},
		"many load generators": {two, 1, func(_ *v1alpha1.GeoDatabase, run *v1alpha1.BenchmarkRun) { run.Spec.Load.WorkersPerRegion = 10 }, "30 load generators x 100m"},
		"somebody else's database": {two, 20, func(db *v1alpha1.GeoDatabase, _ *v1alpha1.BenchmarkRun) {
			db.Spec.External = &v1alpha1.External{}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{
				Regions: []v1alpha1.Region{{Name: "a"}, {Name: "b"}, {Name: "c"}}, PartitionsPerRegion: c.partitions, ReplicasPerPartition: 2}}
			run := &v1alpha1.BenchmarkRun{Spec: v1alpha1.BenchmarkRunSpec{Load: v1alpha1.Load{WorkersPerRegion: 1}}}
			if c.change != nil {
				c.change(db, run)
			}
			if got := crowded(c.machines, db, run); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
