package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
)

// differentImages describes two pods of the run that run different images although their manifests name the same image.
// The tag must then have been moved between the two pulls. differentImages returns "" if there are no such pods.
func (s *scope) differentImages(ctx context.Context) (string, error) {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
		return "", err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	first := map[string]string{} // pod name by role, server, container and repository; image has the same keys
	image := map[string]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		of := pod.Labels[kube.LabelRole]
		ours := of == kube.RoleNode && pod.Labels[kube.LabelIncarnation] == s.current.ID() ||
			of == kube.RoleWorker && pod.Labels[kube.LabelRun] == s.run.Name && pod.Labels[kube.LabelAttempt] == kube.Attempt(s.run)
		if !ours {
			continue
		}
		for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			repository, digest := imageOf(c.ImageID)
			key := strings.Join([]string{of, pod.Labels[kube.LabelServer], c.Name, repository}, " ")
			was := image[key]
			switch {
			// The image was not pulled yet, or the runtime reports no digest.
			case digest == "":
			case was == "":
				first[key], image[key] = pod.Name, digest
			case was != digest:
				return fmt.Sprintf("container %s of pod %s runs the image %s, and that of pod %s %s, though their manifests name the same one: its tag has moved; name it by its digest",
					c.Name, first[key], was, pod.Name, digest), nil
			}
		}
	}
	return "", nil
}

// imageOf parses the image ID that a container runtime reports. It returns the repository from which the image was
// pulled, and the digest. An imported image has no repository, and its digest has another meaning. Both results are
// empty for any other ID.
func imageOf(id string) (repository, digest string) {
	repository, digest, pulled := strings.Cut(id, "@")
	if !pulled {
		repository, digest = "", id
	}
	if !strings.HasPrefix(digest, "sha256:") {
		return "", ""
	}
	return repository, digest
}
