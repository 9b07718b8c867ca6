package database

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Shape is what Kubernetes says of a pod that can be changed while it runs: by container what it may use, as JSON, and
// those that somebody has put in to look around (kubectl debug), with nothing.
type Shape map[string]string

// shapeOf leaves out containers of which nothing is told, because they do not run.
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

// Changed says what is another than before; empty when nothing is that both tell of.
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
