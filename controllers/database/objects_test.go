package database

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
)

// What programs take of the machine follows from the manifest, not from the machine.
func TestProcessorsAndMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		resources string
		want      []corev1.EnvVar
	}{
		"by default":     {`{}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}}},
		"a fraction":     {`{requests: {cpu: 100m}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}}},
		"a request":      {`{requests: {cpu: "2"}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "2"}}},
		"a limit counts": {`{requests: {cpu: "2"}, limits: {cpu: 2500m}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "3"}}},
		"memory":         {`{limits: {memory: 1Gi}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}, {Name: "GOMEMLIMIT", Value: "966367638"}}},
	} {
		var r corev1.ResourceRequirements
		if err := yaml.Unmarshal([]byte(tt.resources), &r); err != nil {
			t.Fatal(err)
		}
		if got := GoRuntime(r); !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "us-west-2"}}}}
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	if env := nodePodSpec(db, &db.Spec.Regions[0], "i", "image").Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "GOMAXPROCS", Value: "4"}) {
		t.Errorf("%v, want GOMAXPROCS 4", env)
	}
}

func TestDefaultRequests(t *testing.T) {
	got := WithDefaultRequests(corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}, "100m", "128Mi")
	if got.Requests.Cpu().String() != "2" || got.Requests.Memory().String() != "1Gi" || len(got.Limits) != 1 {
		t.Errorf("resources are %+v", got)
	}
}
