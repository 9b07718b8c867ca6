package run

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPodDiffers(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, q := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if q != "" {
				out[name] = resource.MustParse(q)
			}
		}
		return out
	}
	template := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "wan", Image: "geobench:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{{Name: "node", Image: "db@sha256:11", Args: []string{"node"}, Env: []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}},
			Resources: corev1.ResourceRequirements{Limits: list("", "8Gi"), Requests: list("100m", "32Mi")}}},
	}
	running := func(c string, limits corev1.ResourceList) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: &corev1.ResourceRequirements{Limits: limits}}
	}
	proxy := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: "docker.io/istio/proxyv2:1.30"})
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, running(name, nil))
		}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"nothing": {func(*corev1.Pod) {}, ""},
		"the API server's defaults": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Priority, p.Spec.PreemptionPolicy = "n", ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access"})
		}, ""},
		"equal quantities": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("0.1", "33554432") }, ""},
		"variables of no matter": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "TEAM", Value: "a"})
		}, ""},
		"a CPU limit":       {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list("30m", "8Gi") }, "container node: limits.cpu is 30m, wanted was none"},
		"less memory":       {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list("", "1Gi") }, "limits.memory is 1Gi, wanted was 8Gi"},
		"a smaller request": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("1m", "32Mi") }, "requests.cpu is 1m, wanted was 100m"},
		"resized before the run": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{running("node", list("50m", "8Gi"))}
		}, "limits.cpu is 50m, wanted was none"},
		"resources of the pod": {func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("200m", "")} }, "spec.resources is"},
		"a sidecar's limit":    {func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Limits = list("10m", "") }, "container wan: limits.cpu is 10m"},
		"a runtime class":      {func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("gvisor") }, "spec.runtimeClassName is gvisor, wanted was none"},
		"a priority class":     {func(p *corev1.Pod) { p.Spec.PriorityClassName = "low" }, "spec.priorityClassName is low, wanted was none"},
		"another image":        {func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "geobench:2" }, "image is geobench:2, wanted was geobench:1"},
		"a mirror":             {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/db@sha256:11" }, ""},
		"a mirror of another":  {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/db@sha256:22" }, "image is mirror/db"},
		"other arguments":      {func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"node", "--slow"} }, "command is"},
		"a changed variable":   {func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "4"}} }, `env GOMAXPROCS is "4", wanted was "1"`},
		"a variable of the runtime's": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "GOGC", Value: "5"})
		}, `env GOGC is "5", wanted was none`},
		"a container more": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "agent", Image: "agent:1"})
		}, "container agent (image agent:1) is in it"},
		"an init container more": {func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "agent"})
		}, "container agent"},
		"a container less": {func(p *corev1.Pod) { p.Spec.InitContainers = nil }, "container wan of its template is not in it"},
		"somebody looks into it": {func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
		}, "container debugger"},
		"the proxy of a mesh":      {proxy("istio-proxy"), ""},
		"a proxy that is nobody's": {proxy("linkerd-proxy"), "container linkerd-proxy"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: *template.DeepCopy()}
		tt.change(pod)
		if got := podDiffers(pod, &template); tt.says == "" && got != "" || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q, want %q", name, got, tt.says)
		}
	}
	// An omitted request equals the limit.
	template.Containers[0].Resources.Requests = nil
	pod := &corev1.Pod{Spec: *template.DeepCopy()}
	pod.Spec.Containers[0].Resources.Requests = list("", "8Gi")
	if got := podDiffers(pod, &template); got != "" {
		t.Error(got)
	}
}
