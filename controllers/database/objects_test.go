package database

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// The processors and memory of programs depend on the manifest, not on the machine.
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

// If the user omits the memory limit, it is the larger of the default and the user's request. The user may set any
// limit. CPU has no default limit.
func TestOwnResources(t *testing.T) {
	for name, tt := range map[string]struct{ resources, request, limit string }{
		"by default":     {`{}`, "128Mi", deploy.OwnMemory},
		"a CPU limit":    {`{limits: {cpu: "2"}}`, "128Mi", deploy.OwnMemory},
		"a request":      {`{requests: {memory: 1Gi}}`, "1Gi", deploy.OwnMemory},
		"a huge request": {`{requests: {memory: 32Gi}}`, "32Gi", "32Gi"},
		"a limit":        {`{limits: {memory: 256Mi}}`, "256Mi", "256Mi"},
	} {
		var r corev1.ResourceRequirements
		if err := yaml.Unmarshal([]byte(tt.resources), &r); err != nil {
			t.Fatal(err)
		}
		got := OwnResources(r)
		if got.Requests.Memory().String() != tt.request || got.Limits.Memory().String() != tt.limit || !got.Limits.Cpu().Equal(*r.Limits.Cpu()) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "us-west-2"}}}}
	node := nodePodSpec(db, &db.Spec.Regions[0], "i", "image").Containers[0]
	if !slices.Contains(node.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "7730941131"}) {
		t.Errorf("%v, want 90%% of 8Gi for GOMEMLIMIT", node.Env)
	}
}

// The size of a node's journal is limited by its limit of ephemeral storage, or by the default.
func TestJournalLimit(t *testing.T) {
	db := &v1alpha1.GeoDatabase{}
	if got := journalLimit(db); got.String() != mostJournal {
		t.Errorf("without a limit a journal may have %s, want %s", got, mostJournal)
	}
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")}
	if got := journalLimit(db); got.String() != "2Gi" {
		t.Errorf("with a limit of 2Gi a journal may have %s", got)
	}
}

// The name of a kernel probe pod is valid even for a node with a long name, and if nodes cannot be listed.
func TestProbesHaveNames(t *testing.T) {
	for _, node := range []string{anyNode, "n1", "ip-10-0-0-1.ap-northeast-1.compute.internal." + strings.Repeat("x", 80)} {
		pod := (&kernelProbes{}).pod(&v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, node)
		if wrong := validation.IsDNS1123Subdomain(pod.Name); wrong != nil {
			t.Errorf("the probe of node %q is called %q: %v", node, pod.Name, wrong)
		}
	}
}

// A program configures the readiness check of its pods; by default it is a connection to the first port.
func TestProgramReady(t *testing.T) {
	for name, tt := range map[string]struct{ ready, want string }{
		"by default":   {`null`, `{tcpSocket: {port: 5432}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 3, successThreshold: 1}`},
		"over HTTP":    {`{http: {port: 8080, path: "/health?ready=1"}}`, `{httpGet: {port: 8080, path: "/health?ready=1", scheme: HTTP}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 3, successThreshold: 1}`},
		"by a command": {`{command: [pg_isready, -q]}`, `{exec: {command: [pg_isready, -q]}, periodSeconds: 5, timeoutSeconds: 10, failureThreshold: 3, successThreshold: 1}`},
	} {
		p := &v1alpha1.Program{Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}, {Name: "http", Port: 8080}}}
		want := &corev1.Probe{}
		if err := errors.Join(yaml.Unmarshal([]byte(tt.ready), &p.Ready), yaml.Unmarshal([]byte(tt.want), want)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, programReady(p)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
