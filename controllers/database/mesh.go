package database

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// Meshed adds the labels and annotations that put a pod into the mesh of spec.network.mesh, or exclude it. Connections
// to the administration and metrics ports bypass the mesh, because the operator, Prometheus and the kubelet need not be
// in it. The administration ports have their own TLS, and the metrics contain no secrets.
func Meshed(db *v1alpha1.GeoDatabase, pod *metav1.ObjectMeta) {
	labels, annotations := mesh.Wanted(db.Spec.Network.Mesh, ports.Metrics, ports.WANStatus, ports.Admin, ports.WANAdmin)
	for k, v := range labels {
		pod.Labels = kube.WithLabel(pod.Labels, k, v)
	}
	for k, v := range annotations {
		pod.Annotations = kube.WithLabel(pod.Annotations, k, v)
	}
}

// MeshNodes returns the names under which a database's nodes appear in the counters of a mesh.
func MeshNodes(db *v1alpha1.GeoDatabase) *mesh.Nodes {
	n := &mesh.Nodes{Namespace: db.Namespace, Regions: map[string]string{}}
	for i, region := range db.Spec.RegionNames() {
		for _, role := range rolesIn(db, i) {
			n.Regions[setName(db, region, role)] = region
		}
		for _, pod := range deploy.PodsIn(db, region) {
			if pod.ServiceOfItsOwn() {
				n.Regions[pod.Name] = region
			}
		}
	}
	open := []v1alpha1.PodPort{}
	if db.Spec.Pods != nil {
		open = append(open, db.Spec.Pods.Ports...)
	}
	for i := range db.Spec.Roles {
		open = append(open, db.Spec.Roles[i].Ports...)
	}
	for _, p := range open {
		n.Ports = append(n.Ports, p.Port)
	}
	if len(open) == 0 {
		n.Ports = []int32{ports.Peer}
	}
	return n
}

// FindMesh returns the mesh that the pods are in, and its requirement for connections to the nodes. problem is the
// reason why some pods are not in the required mesh.
func FindMesh(ctx context.Context, live client.Reader, db *v1alpha1.GeoDatabase, pods []*corev1.Pod) (found *v1alpha1.MeshStatus, problem string, err error) {
	if len(pods) == 0 {
		return nil, "", nil
	}
	is, problem := mesh.All(db.Spec.Network.Mesh, pods)
	if is.Mode == v1alpha1.MeshNone {
		return &is, problem, nil
	}
	port := int32(ports.Peer)
	switch {
	case len(db.Spec.Roles) > 0:
		port = db.Spec.Roles[0].Ports[0].Port
	case db.Spec.Pods != nil:
		port = db.Spec.Pods.Ports[0].Port
	}
	is.MutualTLS, err = mutualTLS(ctx, live, db.Namespace, pods[0].Labels, port)
	return &is, problem, err
}

// peerAuthentications is the list kind of PeerAuthentications, which set the mesh's requirements for connections.
var peerAuthentications = schema.GroupVersionKind{Group: "security.istio.io", Version: "v1", Kind: "PeerAuthenticationList"}

// mutualTLS returns the requirement of PeerAuthentications for connections to a port of a pod. It returns Unknown if
// the operator may not read PeerAuthentications.
func mutualTLS(ctx context.Context, live client.Reader, namespace string, labels map[string]string, port int32) (v1alpha1.MutualTLS, error) {
	var policies []mesh.PeerAuthentication
	for _, in := range []string{namespace, mesh.RootNamespace} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(peerAuthentications)
		err := live.List(ctx, list, client.InNamespace(in))
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return v1alpha1.MutualTLSUnknown, nil
		case err != nil:
			return "", err
		}
		for i := range list.Items {
			policies = append(policies, peerAuthentication(&list.Items[i]))
		}
		if namespace == mesh.RootNamespace {
			break
		}
	}
	return mesh.MutualTLS(policies, namespace, labels, port), nil
}

func peerAuthentication(o *unstructured.Unstructured) mesh.PeerAuthentication {
	p := mesh.PeerAuthentication{Namespace: o.GetNamespace(), Created: o.GetCreationTimestamp().Time, Ports: map[string]string{}}
	p.Selector, _, _ = unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	p.Mode, _, _ = unstructured.NestedString(o.Object, "spec", "mtls", "mode")
	ports, _, _ := unstructured.NestedMap(o.Object, "spec", "portLevelMtls")
	for port := range ports {
		p.Ports[port], _, _ = unstructured.NestedString(ports, port, "mode")
	}
	return p
}

// findMesh records the mesh of the database's pods in the status. It does not change the record while a run uses the
// pods: the run detects changes itself, and the policies must not change. Pods in a mesh other than the required one
// are marked as not ready, because a run would measure a different database.
func (s *scope) findMesh(ctx context.Context) error {
	var pods []*corev1.Pod
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Pod != nil && n.Pod.DeletionTimestamp == nil && mesh.Begun(n.Pod) {
			pods = append(pods, n.Pod)
		}
	}
	found, problem, err := FindMesh(ctx, s.Live, s.db, pods)
	st := &s.db.Status
	if used := st.ActiveRun != "" && st.Incarnation == s.current.ID() && st.Mesh != nil; !used {
		st.Mesh = found
	}
	if problem == "" {
		return err
	}
	for i := range s.nodes {
		s.nodes[i].Ready, s.nodes[i].Problem = false, problem
	}
	return err
}
