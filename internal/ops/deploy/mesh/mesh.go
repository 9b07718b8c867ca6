// Package mesh contains Geobench's knowledge of Istio. It covers how pods join a mesh or stay outside, and how to
// detect which mesh a pod is in. It also covers which connections to the pod the mesh requires to be encrypted. It does
// no I/O.
package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// ProxyContainer is the name of the proxy container that Istio adds to a pod.
const ProxyContainer = "istio-proxy"

// Labels and annotations of pods that Istio reads or writes: see https://istio.io/latest/docs/reference/config/labels/
// and .../annotations/.
const (
	labelInject   = "sidecar.istio.io/inject"
	labelDataMode = "istio.io/dataplane-mode"
	revision      = "istio.io/rev" // as a label, the requested revision; as an annotation, the actual one

	annotationNative     = "sidecar.istio.io/nativeSidecar"
	annotationConfig     = "proxy.istio.io/config"
	annotationExcludeIn  = "traffic.sidecar.istio.io/excludeInboundPorts"
	annotationRedirected = "ambient.istio.io/redirection"
)

// Wanted returns the labels and annotations of a pod that should be in a mesh. The mesh exempts the ports in outside.
// Clients outside the mesh, such as the operator, Prometheus and kubelet, call these ports. The ports use their own TLS
// or serve nothing secret.
//
// The proxy is a native sidecar, which starts before the pod's containers and stops after them, so that the pods of
// Jobs complete. Before Istio 1.27, native sidecars are optional. With these versions, containers are held back until
// the proxy is running.
func Wanted(m v1alpha1.Mesh, outside ...int32) (labels, annotations map[string]string) {
	switch m {
	case v1alpha1.MeshNone:
		return map[string]string{labelInject: "false", labelDataMode: "none"}, nil
	case v1alpha1.MeshAmbient:
		return map[string]string{labelInject: "false", labelDataMode: "ambient"}, nil
	case v1alpha1.MeshSidecar:
		var ports []string
		for _, p := range outside {
			ports = append(ports, strconv.Itoa(int(p)))
		}
		return map[string]string{labelInject: "true", labelDataMode: "none"}, map[string]string{
			annotationNative: "true", annotationConfig: `{"holdApplicationUntilProxyStarts":true}`, annotationExcludeIn: strings.Join(ports, ","),
		}
	}
	return nil, nil
}

// Pod describes the mesh of a pod, as observed at the pod.
type Pod struct {
	// Mode is the kind of mesh, or None. It is never Auto.
	Mode v1alpha1.Mesh
	// Version is the tag of the proxy's image or, if there is none, the revision of the control plane; empty if both are
	// unknown.
	Version string
	// Restarts is the number of restarts of the pod's proxy. Down is the reason why the proxy is not running; empty if it
	// is running. Both apply only to proxies in pods.
	Restarts int32
	Down     string
}

// Of returns the mesh of a pod. It recognizes the mesh by the changes that the mesh makes to the pod. Begun must be
// true for the pod. Of reads only the pod's metadata and status.
func Of(pod *corev1.Pod) Pod {
	rev := cmp.Or(pod.Annotations[revision], pod.Labels[revision])
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	i := slices.IndexFunc(containers, func(c corev1.ContainerStatus) bool { return c.Name == ProxyContainer })
	if i < 0 {
		// In an ambient mesh the pod has no proxy container, only this annotation.
		if pod.Annotations[annotationRedirected] == "enabled" {
			return Pod{Mode: v1alpha1.MeshAmbient, Version: rev}
		}
		return Pod{Mode: v1alpha1.MeshNone}
	}
	c := &containers[i]
	p := Pod{Mode: v1alpha1.MeshSidecar, Version: cmp.Or(tag(c.Image), rev), Restarts: c.RestartCount}
	// If a container waits for its restart, its last termination contains the reason.
	switch t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated); {
	case c.State.Running != nil:
	case t != nil:
		p.Down = fmt.Sprintf("its proxy ended (%s, exit code %d)", t.Reason, t.ExitCode)
	default:
		p.Down = "its proxy does not run"
	}
	return p
}

// Tells reports whether Of reads this annotation.
func Tells(annotation string) bool {
	return annotation == annotationRedirected || annotation == revision
}

// Begun reports whether a pod has started far enough for Of to determine its mesh.
func Begun(pod *corev1.Pod) bool {
	return len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) > 0
}

// tag returns the tag of an image, or an empty string.
func tag(image string) string {
	// An image that is named by digest has no tag to report.
	if strings.Contains(image, "@") {
		return ""
	}
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// All applies Of to pods that should be in the same mesh. It returns their mesh, and a description of the first pod
// with a different mesh or proxy version than required. The required mesh is wanted or, if that is empty or Auto, the
// mesh of the first pod. The required version is the version of the first pod.
func All(wanted v1alpha1.Mesh, pods []*corev1.Pod) (is v1alpha1.MeshStatus, problem string) {
	for i, pod := range pods {
		p := Of(pod)
		if i == 0 {
			is = v1alpha1.MeshStatus{Mode: p.Mode, Version: p.Version}
		}
		switch {
		case wanted != "" && wanted != v1alpha1.MeshAuto && p.Mode != wanted:
			return is, fmt.Sprintf("spec.network.mesh is %s, and pod %s is %s: %s", wanted, pod.Name, place(p.Mode), cure(wanted))
		case p.Mode != is.Mode:
			return is, fmt.Sprintf("pod %s is %s, and pod %s is %s: say which by spec.network.mesh, or replace the pods that are older than the labels of their namespace",
				pods[0].Name, place(is.Mode), pod.Name, place(p.Mode))
		case p.Version != is.Version:
			return is, fmt.Sprintf("the proxy of pod %s is %s, that of pod %s is %s: replace the pods that are older than the mesh", pods[0].Name, cmp.Or(is.Version, "of no known version"), pod.Name, cmp.Or(p.Version, "of no known version"))
		}
	}
	return is, ""
}

func place(m v1alpha1.Mesh) string {
	switch m {
	case v1alpha1.MeshSidecar:
		return "in a mesh with a proxy in the pod"
	case v1alpha1.MeshAmbient:
		return "in an ambient mesh"
	}
	return "in no mesh"
}

func cure(wanted v1alpha1.Mesh) string {
	switch wanted {
	case v1alpha1.MeshSidecar:
		return "install Istio with its sidecar injector, of the revision that the namespace's label istio.io/rev names, or leave mesh out"
	case v1alpha1.MeshAmbient:
		return "install Istio with its profile ambient (istio-cni and ztunnel on every machine), or leave mesh out"
	}
	return "a mesh that takes no notice of the pods' labels is there: exclude the namespace from it"
}

// Name returns a short description of a mesh; "none" for nil.
func Name(m *v1alpha1.MeshStatus) string {
	if m == nil || m.Mode == v1alpha1.MeshNone {
		return "none"
	}
	name := string(m.Mode)
	if m.Version != "" {
		name += " " + m.Version
	}
	if m.MutualTLS != "" {
		name += ", mutual TLS " + string(m.MutualTLS)
	}
	return name
}
