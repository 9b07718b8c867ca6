package mesh_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

func proxied(name, image string, state corev1.ContainerState, restarts int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"istio.io/rev": "stable"}}, Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "istio-init"}, {Name: mesh.ProxyContainer, Image: image, State: state, RestartCount: restarts}},
	}}
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func TestOf(t *testing.T) {
	bare := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "node"}}}}
	ambient := bare.DeepCopy()
	ambient.Annotations = map[string]string{"ambient.istio.io/redirection": "enabled", "istio.io/rev": "1-30"}
	left := bare.DeepCopy()
	left.Annotations = map[string]string{"ambient.istio.io/redirection": "disabled"}
	old := proxied("p", "", running, 0)
	old.Status.ContainerStatuses, old.Status.InitContainerStatuses = old.Status.InitContainerStatuses, nil // not a native sidecar
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want mesh.Pod
	}{
		"none":              {bare, mesh.Pod{Mode: v1alpha1.MeshNone}},
		"ambient":           {ambient, mesh.Pod{Mode: v1alpha1.MeshAmbient, Version: "1-30"}},
		"no longer ambient": {left, mesh.Pod{Mode: v1alpha1.MeshNone}},
		"tagged":            {proxied("p", "localhost:5000/istio/proxyv2:1.30.1-distroless", running, 3), mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "1.30.1-distroless", Restarts: 3}},
		"by its digest":     {proxied("p", "docker.io/istio/proxyv2@sha256:aa", running, 0), mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "stable"}},
		"untagged":          {proxied("p", "localhost:5000/istio/proxyv2", running, 0), mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "stable"}},
		"beside":            {old, mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "stable"}},
		"ended":             {proxied("p", "proxyv2:1", killed, 1), mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "1", Restarts: 1, Down: "its proxy ended (OOMKilled, exit code 137)"}},
		"not begun":         {proxied("p", "proxyv2:1", corev1.ContainerState{}, 0), mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "1", Down: "its proxy does not run"}},
	} {
		if got := mesh.Of(tc.pod); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestAll(t *testing.T) {
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	one, two := proxied("one", "proxyv2:1.30.1", running, 0), proxied("two", "proxyv2:1.30.2", running, 0)
	for name, tc := range map[string]struct {
		wanted v1alpha1.Mesh
		pods   []*corev1.Pod
		says   []string
	}{
		"alike":          {"", []*corev1.Pod{one, one}, nil},
		"as asked":       {v1alpha1.MeshSidecar, []*corev1.Pod{one}, nil},
		"nobody":         {v1alpha1.MeshSidecar, nil, nil},
		"one of two":     {v1alpha1.MeshAuto, []*corev1.Pod{one, bare}, []string{"pod one is in a mesh with a proxy in the pod", "pod bare is in no mesh", "spec.network.mesh"}},
		"another":        {v1alpha1.MeshAmbient, []*corev1.Pod{one}, []string{"spec.network.mesh is Ambient", "pod one is in a mesh with a proxy", "profile ambient"}},
		"in spite of it": {v1alpha1.MeshNone, []*corev1.Pod{bare, one}, []string{"spec.network.mesh is None", "pod one", "exclude the namespace"}},
		"two versions":   {"", []*corev1.Pod{one, two}, []string{"pod one is 1.30.1", "pod two is 1.30.2", "replace the pods"}},
	} {
		_, problem := mesh.All(tc.wanted, tc.pods)
		if (problem == "") != (tc.says == nil) {
			t.Errorf("%s: %q", name, problem)
		}
		for _, part := range tc.says {
			if !strings.Contains(problem, part) {
				t.Errorf("%s: %q does not say %q", name, problem, part)
			}
		}
	}
}

// The rules follow Istio's reference: the most specific policy that sets a mode applies. Of several policies at the
// same level, the oldest applies.
func TestMutualTLS(t *testing.T) {
	labels := map[string]string{"app": "node"}
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	ofMesh := mesh.PeerAuthentication{Namespace: mesh.RootNamespace, Mode: "STRICT"}
	ofNamespace := mesh.PeerAuthentication{Namespace: "lab", Mode: "DISABLE"}
	ofPod := mesh.PeerAuthentication{Namespace: "lab", Selector: labels, Mode: "PERMISSIVE", Ports: map[string]string{"7004": "DISABLE", "7000": "STRICT"}}
	for name, tc := range map[string]struct {
		policies []mesh.PeerAuthentication
		port     int32
		want     v1alpha1.MutualTLS
	}{
		"nobody says anything":  {nil, 7000, v1alpha1.MutualTLSPermissive},
		"the mesh":              {[]mesh.PeerAuthentication{ofMesh}, 7000, v1alpha1.MutualTLSStrict},
		"the namespace":         {[]mesh.PeerAuthentication{ofMesh, ofNamespace}, 7000, v1alpha1.MutualTLSDisabled},
		"the pod":               {[]mesh.PeerAuthentication{ofMesh, ofNamespace, ofPod}, 7002, v1alpha1.MutualTLSPermissive},
		"the port":              {[]mesh.PeerAuthentication{ofMesh, ofNamespace, ofPod}, 7000, v1alpha1.MutualTLSStrict},
		"another namespace":     {[]mesh.PeerAuthentication{{Namespace: "other", Mode: "STRICT"}}, 7000, v1alpha1.MutualTLSPermissive},
		"other pods":            {[]mesh.PeerAuthentication{{Namespace: "lab", Selector: map[string]string{"app": "web"}, Mode: "STRICT"}}, 7000, v1alpha1.MutualTLSPermissive},
		"unset":                 {[]mesh.PeerAuthentication{ofMesh, {Namespace: "lab", Mode: "UNSET"}}, 7000, v1alpha1.MutualTLSStrict},
		"the oldest of several": {[]mesh.PeerAuthentication{{Namespace: "lab", Mode: "DISABLE", Created: at(2)}, {Namespace: "lab", Mode: "STRICT", Created: at(1)}}, 7000, v1alpha1.MutualTLSStrict},
		"selectors of the root": {[]mesh.PeerAuthentication{{Namespace: mesh.RootNamespace, Selector: labels, Mode: "STRICT"}}, 7000, v1alpha1.MutualTLSPermissive},
	} {
		if got := mesh.MutualTLS(tc.policies, "lab", labels, tc.port); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestWanted(t *testing.T) {
	for m, inject := range map[v1alpha1.Mesh]string{"": "", v1alpha1.MeshAuto: "", v1alpha1.MeshNone: "false", v1alpha1.MeshAmbient: "false", v1alpha1.MeshSidecar: "true"} {
		labels, annotations := mesh.Wanted(m, 7001, 7004)
		if labels["sidecar.istio.io/inject"] != inject || (labels["istio.io/dataplane-mode"] == "ambient") != (m == v1alpha1.MeshAmbient) {
			t.Errorf("%s: labels %v", m, labels)
		}
		if ports := annotations["traffic.sidecar.istio.io/excludeInboundPorts"]; (ports == "7001,7004") != (m == v1alpha1.MeshSidecar) {
			t.Errorf("%s: annotations %v", m, annotations)
		}
	}
}
