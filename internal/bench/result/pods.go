package result

import (
	"fmt"
	"slices"
	"strings"
)

// ReasonPodDiffers is the reason if a pod of the database or of the load generators differs from the pod that the
// operator created. Some component of the cluster must then have changed the pod at admission.
const ReasonPodDiffers = "PodDiffers"

// Pods describes pods of a run that are identical except for their names, as Kubernetes created them from their
// templates.
type Pods struct {
	// Role is node or worker. Names are the names of the pods.
	Role  string   `json:"role"`
	Names []string `json:"names"`
	// RuntimeClass and PriorityClass are empty if the cluster's default applies.
	RuntimeClass  string         `json:"runtimeClass,omitempty"`
	PriorityClass string         `json:"priorityClass,omitempty"`
	Containers    []PodContainer `json:"containers"`
}

// PodContainer describes a container as it runs.
type PodContainer struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Digest is the image digest that the container runtime reports; empty if it reports none.
	Digest string `json:"digest,omitempty"`
	// Limits and Requests map a resource (cpu, memory) to its quantity.
	Limits   map[string]string `json:"limits,omitempty"`
	Requests map[string]string `json:"requests,omitempty"`
}

// shape returns everything but the names of the pods, as text for comparison.
func (p *Pods) shape() string {
	s := fmt.Sprintf("%s %q %q", p.Role, p.RuntimeClass, p.PriorityClass)
	for _, c := range p.Containers {
		// fmt prints maps in the order of their keys, so equal pods yield equal text.
		s += fmt.Sprintf(" %s %q %q %v %v", c.Name, c.Image, c.Digest, c.Limits, c.Requests)
	}
	return s
}

// GroupPods merges entries of pods that are identical except for their names. The names of each group are sorted.
func GroupPods(pods []Pods) (out []Pods) {
	index := map[string]int{}
	for _, p := range pods {
		k := p.shape()
		i, known := index[k]
		if !known {
			i = len(out)
			index[k] = i
			names := p.Names
			p.Names = nil
			out, p = append(out, p), Pods{Names: names}
		}
		out[i].Names = append(out[i].Names, p.Names...)
	}
	for i := range out {
		slices.Sort(out[i].Names)
	}
	return out
}

// podsDiffer describes the differences between the pods of two results: image digests, CPU limits and requests, and
// classes.
func podsDiffer(a, b *Document) (out []string) {
	of := func(d *Document) map[string][]string {
		facts := map[string][]string{}
		add := func(what, value string) {
			if !slices.Contains(facts[what], value) {
				facts[what] = append(facts[what], value)
			}
		}
		for _, p := range d.Pods {
			add("the runtime class of "+p.Role+" pods", p.RuntimeClass)
			add("the priority class of "+p.Role+" pods", p.PriorityClass)
			for _, c := range p.Containers {
				of := fmt.Sprintf(" of container %s of %s pods", c.Name, p.Role)
				add("the image"+of, c.Digest)
				add("the CPU limit"+of, c.Limits["cpu"])
				add("the CPU request"+of, c.Requests["cpu"])
			}
		}
		for _, values := range facts {
			slices.Sort(values)
		}
		return facts
	}
	inA, inB := of(a), of(b)
	for what, values := range inA {
		if other, known := inB[what]; known && !slices.Equal(values, other) {
			out = append(out, fmt.Sprintf("%s differs: %s and %s", what, named(values), named(other)))
		}
	}
	slices.Sort(out)
	return out
}

// named joins values for display. It returns "none" if all values are empty.
func named(values []string) string {
	s := strings.Join(values, ", ")
	if s == "" {
		return "none"
	}
	return s
}
