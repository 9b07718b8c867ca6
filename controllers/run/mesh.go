package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// noteMesh is the key, in the run's snapshot ConfigMap, of the mesh in which the run started.
const noteMesh = "mesh.json.gz"

// meshNote is the mesh in which a run started.
type meshNote struct {
	Mesh v1alpha1.MeshStatus `json:"mesh"`
	// Proxies are the sidecar proxies, by pod name.
	Proxies map[string]proxy `json:"proxies,omitempty"`
}

// proxy identifies an instance of a pod's sidecar proxy. A different UID or restart count means that the proxy has been
// replaced or restarted.
type proxy struct {
	UID      string `json:"uid"` // UID of the pod
	Restarts int32  `json:"restarts"`
}

// meshPods returns the running pods whose messages a mesh carries: the pods of the database and of the run.
func (s *scope) meshPods(ctx context.Context) (pods []*corev1.Pod, err error) {
	for i := range s.nodes {
		if p := s.nodes[i].Pod; p != nil && p.DeletionTimestamp == nil && mesh.Begun(p) {
			pods = append(pods, p)
		}
	}
	list := &corev1.PodList{}
	err = s.Client.List(ctx, list, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelRun: s.run.Name, kube.LabelAttempt: kube.Attempt(s.run)})
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning {
			pods = append(pods, p)
		}
	}
	return pods, err
}

// enterMesh stores the mesh of nodes and workers before the measurement. It returns false while the pods are not all in
// the same mesh, or a proxy is down.
func (s *scope) enterMesh(ctx context.Context) (bool, error) {
	pods, err := s.meshPods(ctx)
	if err != nil {
		return false, err
	}
	found, problem, err := database.FindMesh(ctx, s.Live, s.db, pods)
	if err != nil || found == nil {
		return err == nil, err
	}
	if problem != "" {
		s.condition(v1alpha1.ConditionMeasured, false, "WaitingForMesh", problem)
		if s.inStage() > readyDeadline {
			s.fail("MeshMismatch", "%s", problem)
		}
		return false, nil
	}
	if found.Mode == v1alpha1.MeshNone {
		return true, nil
	}
	n := meshNote{Mesh: *found, Proxies: map[string]proxy{}}
	for _, pod := range pods {
		p := mesh.Of(pod)
		if p.Down != "" {
			s.condition(v1alpha1.ConditionMeasured, false, "WaitingForMesh", fmt.Sprintf("pod %s: %s", pod.Name, p.Down))
			return false, nil
		}
		// Proxies of an ambient mesh are on the machines, not in the pods.
		if p.Mode == v1alpha1.MeshSidecar {
			n.Proxies[pod.Name] = proxy{string(pod.UID), p.Restarts}
		}
	}
	return true, s.note(ctx, noteMesh, n)
}

// beganInMesh returns the mesh that enterMesh stored. The mode is MeshNone for a run that started without a mesh or has
// not started yet.
func (s *scope) beganInMesh(ctx context.Context) (*meshNote, error) {
	n := &meshNote{Mesh: v1alpha1.MeshStatus{Mode: v1alpha1.MeshNone}}
	if s.run.Status.WarmupStartTime == nil {
		return n, nil
	}
	m := s.remember()
	if m != nil && m.mesh != nil {
		return m.mesh, nil
	}
	if _, err := s.noted(ctx, noteMesh, n); err != nil {
		return nil, err
	}
	if m != nil {
		m.mesh = n
	}
	return n, nil
}

// proxyLost ends the run if a proxy of the run's mesh has exited. The exit has broken connections, and no fault of the
// manifest declares this.
func (s *scope) proxyLost(ctx context.Context) error {
	began, err := s.beganInMesh(ctx)
	if err != nil || len(began.Proxies) == 0 {
		return err
	}
	pods, err := s.meshPods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		was, known := began.Proxies[pod.Name]
		if !known || was.UID != string(pod.UID) || pod.DeletionTimestamp != nil {
			continue // a replaced pod is handled by checkHealth
		}
		switch p := mesh.Of(pod); {
		case p.Restarts > was.Restarts:
			s.fail(result.ReasonMeshChanged, "the mesh's proxy in pod %s was started again in stage %s", pod.Name, s.run.Status.Stage)
			return nil
		case p.Down != "":
			s.fail(result.ReasonMeshChanged, "in stage %s, pod %s: %s", s.run.Status.Stage, pod.Name, p.Down)
			return nil
		}
	}
	return nil
}

// leftMesh returns the mesh for the result, or nil for none, and the changes of the mesh since the run started.
func (s *scope) leftMesh(ctx context.Context) (*v1alpha1.MeshStatus, []result.Reason, error) {
	began, err := s.beganInMesh(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods, err := s.meshPods(ctx)
	if err != nil {
		return nil, nil, err
	}
	now, problem, err := database.FindMesh(ctx, s.Live, s.db, pods)
	if err != nil {
		return nil, nil, err
	}
	if problem == "" && now != nil && *now != began.Mesh {
		problem = fmt.Sprintf("it was %s when the run began and is %s at its end", mesh.Name(&began.Mesh), mesh.Name(now))
	}
	var changed []result.Reason
	if problem != "" {
		changed = []result.Reason{{Reason: result.ReasonMeshChanged, Message: "the service mesh has changed: " + problem}}
	}
	if began.Mesh.Mode == v1alpha1.MeshNone {
		return nil, changed, nil
	}
	return &began.Mesh, changed, nil
}
