package database

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// Node is the observed state of one node of an incarnation.
type Node struct {
	// ID is the number of the node in the topology.
	ID     geo.NodeID
	region string
	// PodName is the name of the node's pod. Pod is nil if the incarnation has no such pod at present.
	PodName string
	Pod     *corev1.Pod
	// Address is the address of the administration server. It contains the pod's IP, because DNS names of new pods are
	// not available immediately.
	Address string
	// Status is the node's answer, or nil if it did not answer.
	Status *admin.Status
	// Ready is set if the node serves in this incarnation. Otherwise, Problem is the reason.
	Ready   bool
	Problem string
	// role is the role of the pod in spec.roles, or "" if the database has no roles.
	role string
	// program is set if the pod runs a program that is not part of Geobench.
	program bool
	journal bool // set if the node keeps a journal
	// replaceable is set if a new incarnation can replace the node.
	replaceable bool
	// Lost is the reason why the node has lost its state, or "" if it has not.
	Lost string
	// Shape contains the resources of the pod's containers.
	Shape Shape
	// Restarts is the number of restarts of the pod's containers, except a mesh's proxy. Ended describes the last exit. A
	// restarted program is a different process, although its probe is the same. A restarted node with a journal continues
	// as the same process.
	Restarts int32
	Ended    string
	// EndedAt is the time of the last exit, rounded to seconds, or zero if Kubernetes does not report it.
	EndedAt time.Time
}

// ObserveNodes finds the pods of an incarnation and queries each node. If the query of a node fails, the node's Problem
// contains the error.
func ObserveNodes(ctx context.Context, reader client.Reader, clients podclient.Clients, db *v1alpha1.GeoDatabase, d *deploy.Database) ([]Node, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(db.Namespace), client.MatchingLabels{kube.LabelDatabase: db.Name, kube.LabelRole: kube.RoleNode}); err != nil {
		return nil, err
	}
	byName := make(map[string]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	t := &d.Topology
	replaceable := engines.Replaceable(d.Engine, d.Parameters, t)
	states := make([]Node, 0, d.NodeCount())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range d.NodeCount() {
		if d.Nodes[i].Admin == "" {
			continue // the region has fewer pods than another region
		}
		states = append(states, Node{ID: geo.NodeID(i)})
		s := &states[len(states)-1]
		s.region = t.Regions[t.RegionOf(s.ID)]
		s.PodName = kube.NodePodName(db, t, s.ID)
		if pods := deploy.PodsIn(db, s.region); len(db.Spec.Roles) > 0 && t.ReplicaOf(s.ID) < len(pods) {
			s.role = pods[t.ReplicaOf(s.ID)].Role.Name
		}
		s.journal = db.Spec.Durability == v1alpha1.DurabilityJournal
		s.replaceable = !s.journal && slices.Contains(replaceable, s.ID)
		s.inspectPod(byName[s.PodName], d.Incarnation)
		s.program = db.Spec.RunsPrograms()
		if s.Address == "" {
			if s.program {
				s.Lost = ""
			}
			continue
		}
		group.Go(func() error {
			status, err := clients.Nodes(db.UID).Status(ctx, s.Address)
			s.inspectStatus(status, err, d.Incarnation)
			if s.program {
				s.inspectProgram()
			}
			return nil
		})
	}
	return states, group.Wait()
}

// noPod is the Problem of a node without a pod.
const noPod = "the pod does not exist yet"

func (s *Node) inspectPod(pod *corev1.Pod, incarnation string) {
	switch {
	case pod == nil:
		s.Problem = noPod
		return
	case pod.Labels[kube.LabelIncarnation] != incarnation:
		s.Problem = "the pod of an earlier incarnation is being replaced"
		return
	case pod.DeletionTimestamp != nil:
		s.Problem = "the pod is being deleted"
		s.Lost = "its pod was deleted"
		s.Pod = pod
		return
	}
	s.Pod, s.Shape = pod, shapeOf(pod)
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == mesh.ProxyContainer {
			continue // it stores none of the node's state
		}
		if c.RestartCount == 0 {
			continue
		}
		s.Restarts += c.RestartCount
		s.Ended = fmt.Sprintf("its container restarted %d times", c.RestartCount)
		if t := c.LastTerminationState.Terminated; t != nil {
			s.Ended = fmt.Sprintf("its container ended (%s, exit code %d) and was restarted", t.Reason, t.ExitCode)
			if t.FinishedAt.After(s.EndedAt) {
				s.EndedAt = t.FinishedAt.Time
			}
		}
		// With a journal, a restarted container continues as the same process, or reports that it cannot. If a new
		// incarnation can replace the node, the new process reports whether it is still waiting for its incarnation.
		if ended := c.State.Running == nil; !s.journal && (!s.replaceable || ended) {
			s.Lost, s.Problem = s.Ended, s.Ended
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		s.Lost = "its pod failed: " + cmp.Or(pod.Status.Message, pod.Status.Reason)
		s.Problem = s.Lost
		return
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		if s.Problem == "" {
			s.Problem = cmp.Or(PodObstacle(pod), gate(pod), "the pod is "+cmp.Or(string(pod.Status.Phase), "new"))
		}
		return
	}
	s.Address = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ports.Admin))
}

func (s *Node) inspectStatus(status *admin.Status, err error, incarnation string) {
	switch {
	case err != nil:
		s.Problem = cmp.Or(s.Problem, "it does not answer: "+err.Error())
		return
	// A pod keeps its IP address only while it exists, so another database's pod may have received the address.
	case status.Incarnation != incarnation:
		s.Problem = fmt.Sprintf("it belongs to incarnation %s", status.Incarnation)
		return
	}
	s.Status = status
	// A process that waits to join after a restart has no state.
	if status.Waiting && s.Restarts > 0 {
		s.Lost = cmp.Or(s.Lost, s.Ended)
	}
	if status.Broken {
		s.Lost = cmp.Or(s.Lost, cmp.Or(status.Reason, "it says that the database lost its state"))
	}
	if !status.Ready {
		s.Problem = cmp.Or(s.Problem, cmp.Or(status.Reason, "it is not ready"))
	}
	s.Ready = status.Ready && !status.Broken && s.Lost == ""
}

// inspectProgram determines the state of a pod whose program is not part of Geobench. The pod is ready if Kubernetes
// reports it ready and its probe has reached the other pods. Geobench does not track the program's state, so a replaced
// pod does not count as lost.
func (s *Node) inspectProgram() {
	s.Lost = ""
	if s.Pod.DeletionTimestamp != nil || s.Status == nil {
		s.Ready = false
		return
	}
	s.Ready = s.Status.Ready && podReady(s.Pod)
	switch {
	case s.Ready:
		s.Problem = ""
	case s.Status.Ready:
		s.Problem = cmp.Or(PodObstacle(s.Pod), "the program does not accept connections yet")
	default:
		s.Problem = cmp.Or(s.Status.Reason, "its probe is not ready")
	}
}

// gate returns a message that names the role for which a pod waits before it starts its program. It returns "" if the
// pod does not wait.
func gate(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if role, ok := strings.CutPrefix(c.Name, afterContainer); ok && c.State.Running != nil {
			return "it waits until role " + role + " accepts connections"
		}
	}
	return ""
}

// PodObstacle returns the reason why a pod does not start, for example that no Kubernetes node accepts it or that its
// image cannot be pulled. It returns "" if no reason is known.
func PodObstacle(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return fmt.Sprintf("%s: %s", w.Reason, w.Message)
		}
	}
	return ""
}
