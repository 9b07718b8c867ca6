package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// notePods is the key of the effective specs of the run's pods in the run's snapshot ConfigMap: a []result.Pods.
const notePods = "pods.json.gz"

// holdPods compares all pods of the database and of the load generators with their templates, and stores their
// effective specs. LimitRanges, default classes and mutating webhooks can change a pod at admission, and no manifest
// declares such a change. The error for the first difference ends the run.
func (s *scope) holdPods(ctx context.Context) error {
	pods, err := s.podsOfRun(ctx)
	if err != nil {
		return err
	}
	// Skip pods that a fault has removed: Chaos Mesh shuts a pod down by replacing its image.
	gone := faultstatus.PodNames(s.db, &s.current.Database.Topology, s.taken())
	templates := map[types.UID]*corev1.PodSpec{}
	var seen []result.Pods
	for i := range pods {
		pod := &pods[i]
		if slices.Contains(gone, pod.Name) {
			continue
		}
		template, err := s.templateOf(ctx, pod, templates)
		if err != nil {
			return err
		}
		if template == nil {
			return troubled(result.ReasonPodDiffers, "pod %s was made from no StatefulSet or Job of the operator's", pod.Name)
		}
		if differs := podDiffers(pod, template); differs != "" {
			return troubled(result.ReasonPodDiffers, "pod %s is not what the operator asked for: %s; something in the cluster has changed it when it was made, "+
				"such as a LimitRange, a default class or a mutating webhook: exempt the namespace from it, or ask for the same in spec.resources of the database", pod.Name, differs)
		}
		seen = append(seen, podAsItIs(pod))
	}
	seen = result.GroupPods(seen)
	var was []result.Pods
	// Later calls only compare: the result shows the specs from before the start.
	if found, err := s.noted(ctx, notePods, &was); found || err != nil {
		return err
	}
	return s.note(ctx, notePods, seen)
}

// notedPods returns the effective specs that were stored before the start.
func (s *scope) notedPods(ctx context.Context) (pods []result.Pods, err error) {
	_, err = s.noted(ctx, notePods, &pods)
	return pods, err
}

// podsOfRun lists the pods of the database's incarnation and of the run's attempt, sorted by name. It reads from the
// API server, because the cache omits pod specs.
func (s *scope) podsOfRun(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := s.Live.List(ctx, list, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		switch pod.Labels[kube.LabelRole] {
		case kube.RoleNode:
			return pod.Labels[kube.LabelIncarnation] != s.current.ID()
		case kube.RoleWorker:
			return pod.Labels[kube.LabelRun] != s.run.Name || pod.Labels[kube.LabelAttempt] != kube.Attempt(s.run)
		}
		return true
	})
	slices.SortFunc(ours, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return ours, nil
}

// templateOf returns the pod template of the pod's controller, or nil if the operator did not create the controller.
func (s *scope) templateOf(ctx context.Context, pod *corev1.Pod, known map[types.UID]*corev1.PodSpec) (*corev1.PodSpec, error) {
	of := metav1.GetControllerOf(pod)
	if of == nil {
		return nil, nil
	}
	if spec, ok := known[of.UID]; ok {
		return spec, nil
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: of.Name}
	var owner client.Object
	var spec *corev1.PodSpec
	switch of.Kind {
	case "StatefulSet":
		set := &appsv1.StatefulSet{}
		owner, spec = set, &set.Spec.Template.Spec
	case "Job":
		job := &batchv1.Job{}
		owner, spec = job, &job.Spec.Template.Spec
	default:
		return nil, nil
	}
	if err := s.Live.Get(ctx, key, owner); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	// Any user can create a controller with this name and have it own the pod.
	if owner.GetUID() != of.UID || owner.GetLabels()[kube.LabelManagedBy] != kube.ManagedBy {
		return nil, nil
	}
	known[of.UID] = spec
	return spec, nil
}

// podDiffers describes the first difference between a pod and its template that can affect measurements: the field, its
// actual value and the expected value. It returns "" if there is none.
func podDiffers(pod *corev1.Pod, template *corev1.PodSpec) string {
	differs := func(field, got, wanted string) string {
		if got == wanted {
			return ""
		}
		none := func(v string) string {
			if v == "" {
				return "none"
			}
			return v
		}
		return fmt.Sprintf("%s is %s, wanted was %s", field, none(got), none(wanted))
	}
	for _, d := range []string{
		differs("spec.runtimeClassName", ptr.Deref(pod.Spec.RuntimeClassName, ""), ptr.Deref(template.RuntimeClassName, "")),
		differs("spec.priorityClassName", pod.Spec.PriorityClassName, template.PriorityClassName),
		differs("spec.hostNetwork", fmt.Sprint(pod.Spec.HostNetwork), fmt.Sprint(template.HostNetwork)),
		differs("spec.resources", resourcesText(pod.Spec.Resources), resourcesText(template.Resources)),
	} {
		if d != "" {
			return d
		}
	}
	got, wanted := containersOf(&pod.Spec), containersOf(template)
	for _, c := range got {
		if !slices.ContainsFunc(wanted, func(w corev1.Container) bool { return w.Name == c.Name }) && !ofMesh(pod, c.Name) {
			return fmt.Sprintf("container %s (image %s) is in it, which its template does not have", c.Name, c.Image)
		}
	}
	// No template contains ephemeral containers, so a user added this one.
	for _, c := range pod.Spec.EphemeralContainers {
		return fmt.Sprintf("container %s (image %s) was put into it", c.Name, c.Image)
	}
	for i := range wanted {
		w := &wanted[i]
		at := slices.IndexFunc(got, func(c corev1.Container) bool { return c.Name == w.Name })
		if at < 0 {
			return fmt.Sprintf("container %s of its template is not in it", w.Name)
		}
		if d := containerDiffers(pod, &got[at], w); d != "" {
			return fmt.Sprintf("container %s: %s", w.Name, d)
		}
	}
	return ""
}

// ofMesh reports whether a service mesh injected the container. The result describes the mesh separately.
func ofMesh(pod *corev1.Pod, name string) bool {
	return slices.Contains([]string{mesh.ProxyContainer, "istio-init", "istio-validation"}, name) && mesh.Of(pod).Mode == v1alpha1.MeshSidecar
}

func containersOf(spec *corev1.PodSpec) []corev1.Container {
	return slices.Concat(spec.InitContainers, spec.Containers)
}

// runtimeVariables lists environment variables that change the speed of a program.
var runtimeVariables = []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "LD_PRELOAD", "JAVA_TOOL_OPTIONS"}

// containerDiffers describes how a container differs from its template, or returns "" if it does not.
func containerDiffers(pod *corev1.Pod, got, wanted *corev1.Container) string {
	if got.Image != wanted.Image && !sameDigest(got.Image, wanted.Image) {
		return fmt.Sprintf("image is %s, wanted was %s", got.Image, wanted.Image)
	}
	if !slices.Equal(got.Command, wanted.Command) || !slices.Equal(got.Args, wanted.Args) {
		return fmt.Sprintf("command is %q, wanted was %q", slices.Concat(got.Command, got.Args), slices.Concat(wanted.Command, wanted.Args))
	}
	for _, e := range got.Env {
		at := slices.IndexFunc(wanted.Env, func(w corev1.EnvVar) bool { return w.Name == e.Name })
		// Webhooks often add variables. Only variables that affect the speed are rejected.
		switch {
		case at < 0 && slices.Contains(runtimeVariables, e.Name):
			return fmt.Sprintf("env %s is %q, wanted was none", e.Name, e.Value)
		case at >= 0 && wanted.Env[at].ValueFrom == nil && e.Value != wanted.Env[at].Value:
			return fmt.Sprintf("env %s is %q, wanted was %q", e.Name, e.Value, wanted.Env[at].Value)
		}
	}
	requests := wanted.Resources.Requests.DeepCopy()
	for name, limit := range wanted.Resources.Limits { // the API server sets an omitted request to the limit
		if _, known := requests[name]; !known {
			if requests == nil {
				requests = corev1.ResourceList{}
			}
			requests[name] = limit
		}
	}
	if d := listDiffers("limits", got.Resources.Limits, wanted.Resources.Limits); d != "" {
		return d
	}
	if d := listDiffers("requests", got.Resources.Requests, requests); d != "" {
		return d
	}
	// The limits of a running container can be changed in place, without a change of its template.
	if running := statusOf(pod, got.Name); running != nil && running.Resources != nil && running.State.Running != nil {
		told := corev1.ResourceList{} // a runtime may omit some limits from its report
		for name, limit := range wanted.Resources.Limits {
			if _, known := running.Resources.Limits[name]; known {
				told[name] = limit
			}
		}
		return listDiffers("limits", running.Resources.Limits, told)
	}
	return ""
}

// listDiffers describes the resources whose quantities differ, or returns "" if all are equal.
func listDiffers(field string, got, wanted corev1.ResourceList) string {
	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{got, wanted} {
		for name := range list {
			names[name] = true
		}
	}
	say := func(list corev1.ResourceList, name corev1.ResourceName) string {
		if q, known := list[name]; known {
			return q.String()
		}
		return "none"
	}
	var out []string
	for name := range names {
		a, inGot := got[name]
		b, inWanted := wanted[name]
		if inGot != inWanted || a.Cmp(b) != 0 {
			out = append(out, fmt.Sprintf("%s.%s is %s, wanted was %s", field, name, say(got, name), say(wanted, name)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// sameDigest reports whether two image names contain the same digest. Mirrors change the rest of the name.
func sameDigest(a, b string) bool {
	_, ofA, pinned := strings.Cut(a, "@")
	_, ofB, _ := strings.Cut(b, "@")
	return pinned && ofA == ofB
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	if i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == container }); i >= 0 {
		return &all[i]
	}
	return nil
}

// resourcesText formats the pod-level resources, "" if there are none.
func resourcesText(r *corev1.ResourceRequirements) string {
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return ""
	}
	return fmt.Sprint(quantities(r.Limits), quantities(r.Requests))
}

func quantities(list corev1.ResourceList) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

// podAsItIs returns the effective spec of a pod, for the result.
func podAsItIs(pod *corev1.Pod) result.Pods {
	p := result.Pods{Role: pod.Labels[kube.LabelRole], Names: []string{pod.Name}, RuntimeClass: ptr.Deref(pod.Spec.RuntimeClassName, ""), PriorityClass: pod.Spec.PriorityClassName}
	for _, c := range containersOf(&pod.Spec) {
		out := result.PodContainer{Name: c.Name, Image: c.Image, Limits: quantities(c.Resources.Limits), Requests: quantities(c.Resources.Requests)}
		if status := statusOf(pod, c.Name); status != nil {
			_, out.Digest = imageOf(status.ImageID)
			if status.Resources != nil {
				out.Limits, out.Requests = quantities(status.Resources.Limits), quantities(status.Resources.Requests)
			}
		}
		p.Containers = append(p.Containers, out)
	}
	return p
}
