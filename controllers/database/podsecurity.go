package database

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// nonroot is the numeric user of the image.
const nonroot = 65532

// podSecurity returns the pod-level restrictions of nodes and workers, which meet the Pod Security Standard
// "restricted".
func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		RunAsUser:      ptr.To[int64](nonroot),
		RunAsGroup:     ptr.To[int64](nonroot),
		FSGroup:        ptr.To[int64](nonroot),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		RunAsNonRoot:             ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// regionAffinity returns the affinity of a pod to the Kubernetes nodes of its region. A preference for a label that no
// node has is harmless, so the operator need not inspect the nodes.
func regionAffinity(placement v1alpha1.Placement, region string) *corev1.Affinity {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: kube.LabelTopologyRegion, Operator: corev1.NodeSelectorOpIn, Values: []string{region},
	}}}
	switch placement {
	case v1alpha1.PlacementAnywhere:
		return nil
	case v1alpha1.PlacementRequired:
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
	}}
}
