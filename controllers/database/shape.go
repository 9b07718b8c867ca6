package database

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Shape is the part of a pod that can change while the pod runs. It maps each container to its resources as JSON, and
// each ephemeral container (kubectl debug) to "".
type Shape map[string]string

// shapeOf returns the shape of a pod. It omits containers that are not running.
func shapeOf(pod *corev1.Pod) Shape {
	out := Shape{}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.Resources == nil || c.State.Running == nil {
			continue
		}
		text, err := json.Marshal(map[string]corev1.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests})
		if err == nil {
			out[c.Name] = string(text)
		}
	}
	for _, c := range pod.Status.EphemeralContainerStatuses {
		out[c.Name] = ""
	}
	return out
}

// Changed describes the first difference from an earlier shape, or returns "" if there is none. It ignores containers
// that are in only one of the shapes, except new ephemeral containers.
func (s Shape) Changed(before Shape) string {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		switch was, known := before[name]; {
		case known && was != s[name]:
			return fmt.Sprintf("container %s may use %s, no longer %s", name, s[name], was)
		case !known && s[name] == "":
			return fmt.Sprintf("container %s was put into it", name)
		}
	}
	return ""
}
