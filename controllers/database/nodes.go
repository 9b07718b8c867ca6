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
	// ID is its number in the topology.
	ID     geo.NodeID
	region string
	// PodName is the name of the node's pod; Pod is nil while there is no such pod in the incarnation.
	PodName string
	Pod     *corev1.Pod
	// Address of the administration server, by the pod's IP: names of new pods take a while to be known.
	Address string
	// Status is the node's answer; nil when it gave none.
	Status *admin.Status
	// Ready: the node serves in this incarnation. Otherwise Problem is the reason.
	Ready   bool
	Problem string
	// role is the pod's in spec.roles; empty where there are none.
	role string
	// program: the pod runs a program that knows nothing of Geobench.
	program bool
	journal bool // journal: the node keeps a journal
	// replaceable: a new incarnation can take its place.
	replaceable bool
	// Lost is the reason why the node has lost its state; empty if it has not.
	Lost string
	// Shape is the pod's shape.
	Shape Shape
	// Restarts counts the restarts of its containers, except a mesh's, and Ended has the reason of the last exit. After a
	// restart a program is another process, with the same probe. A node with a journal continues as the same process.
	Restarts int32
	Ended    string
	// EndedAt is the time of the last exit, to the second; zero if Kubernetes does not report it.
	EndedAt time.Time
}

// ObserveNodes finds the pods of an incarnation and queries each node. A node's state contains its errors.
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
			continue // it has none of the node's state
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
		// With a journal, a restarted container continues as the same process, or otherwise reports that it does not. If new
		// incarnations can replace a node, the process reports whether it was notified that it is one.
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
	case status.Incarnation != incarnation:
		s.Problem = fmt.Sprintf("it belongs to incarnation %s", status.Incarnation)
		return
	}
	s.Status = status
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

// inspectProgram judges the pod of a program that knows nothing of Geobench. The pod is ready when Kubernetes reports
// it ready and its probe has reached the other pods. Its state is not tracked: a pod that was replaced has lost nothing
// that is known.
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

// gate says which role's pods a pod waits for before it starts its program, or nothing.
func gate(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if role, ok := strings.CutPrefix(c.Name, afterContainer); ok && c.State.Running != nil {
			return "it waits until role " + role + " accepts connections"
		}
	}
	return ""
}

// PodObstacle returns the reason why a pod does not start, or nothing: no Kubernetes node accepts it, or its image
// cannot be pulled.
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
