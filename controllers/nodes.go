package controllers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/geo"
)

// nodeState is what is known of one node of an incarnation.
type nodeState struct {
	id     geo.NodeID
	region string
	// podName is where the node runs; pod is nil while there is no such pod in the incarnation.
	podName string
	pod     *corev1.Pod
	// address of the administration server, by the pod's IP: names of new pods take a while to be known.
	address string
	// status is the node's answer; nil when it gave none.
	status *admin.Status
	// ready: the node serves in this incarnation. problem says why not.
	ready   bool
	problem string
	// program: the pod runs a program that knows nothing of Geobench.
	program bool
	journal bool // it keeps one
	// lost says why the node has lost its state; empty when it has not.
	lost string
}

// observeNodes finds the pods of an incarnation and asks each node. What goes wrong with a node is in its state.
func observeNodes(ctx context.Context, reader client.Reader, clients PodClients, db *v1alpha1.GeoDatabase, d *deploy.Database) ([]nodeState, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(db.Namespace), client.MatchingLabels{LabelDatabase: db.Name, LabelRole: RoleNode}); err != nil {
		return nil, err
	}
	byName := make(map[string]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	t := &d.Topology
	states := make([]nodeState, t.Nodes())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxAsk)
	for i := range states {
		s := &states[i]
		s.id = geo.NodeID(i)
		s.region = t.Regions[t.RegionOf(s.id)]
		s.podName = nodePodName(db, t, s.id)
		s.journal = db.Spec.Durability == v1alpha1.DurabilityJournal
		s.inspectPod(byName[s.podName], d.Incarnation)
		s.program = db.Spec.Pods != nil
		if s.address == "" {
			if s.program {
				s.lost = ""
			}
			continue
		}
		group.Go(func() error {
			status, err := clients.Nodes(db.UID).Status(ctx, s.address)
			s.inspectStatus(status, err, d.Incarnation)
			if s.program {
				s.inspectProgram()
			}
			return nil
		})
	}
	return states, group.Wait()
}

func (s *nodeState) inspectPod(pod *corev1.Pod, incarnation string) {
	switch {
	case pod == nil:
		s.problem = "the pod does not exist yet"
		return
	case pod.Labels[LabelIncarnation] != incarnation:
		s.problem = "the pod of an earlier incarnation is being replaced"
		return
	case pod.DeletionTimestamp != nil:
		s.problem = "the pod is being deleted"
		s.lost = "its pod was deleted"
		s.pod = pod
		return
	}
	s.pod = pod
	for _, c := range pod.Status.ContainerStatuses {
		// With a journal, a container that is started again is the same process as before, or else tells so itself.
		if c.RestartCount > 0 && !s.journal {
			s.lost = fmt.Sprintf("its container restarted %d times", c.RestartCount)
			if t := c.LastTerminationState.Terminated; t != nil {
				s.lost = fmt.Sprintf("its container ended (%s, exit code %d) and was restarted", t.Reason, t.ExitCode)
			}
			s.problem = s.lost
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		s.lost = "its pod failed: " + cmp.Or(pod.Status.Message, pod.Status.Reason)
		s.problem = s.lost
		return
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		if s.problem == "" {
			s.problem = cmp.Or(podObstacle(pod), "the pod is "+cmp.Or(string(pod.Status.Phase), "new"))
		}
		return
	}
	s.address = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(adminPort))
}

func (s *nodeState) inspectStatus(status *admin.Status, err error, incarnation string) {
	switch {
	case err != nil:
		s.problem = cmp.Or(s.problem, "it does not answer: "+err.Error())
		return
	case status.Incarnation != incarnation:
		s.problem = fmt.Sprintf("it belongs to incarnation %s", status.Incarnation)
		return
	}
	s.status = status
	if status.Broken {
		s.lost = cmp.Or(s.lost, cmp.Or(status.Reason, "it says that the database lost its state"))
	}
	if !status.Ready {
		s.problem = cmp.Or(s.problem, cmp.Or(status.Reason, "it is not ready"))
	}
	s.ready = status.Ready && !status.Broken && s.lost == ""
}

// inspectProgram judges the pod of a program that knows nothing of Geobench: it is ready when Kubernetes says so and its
// probe has reached the others. Its state is its own business: a pod that was replaced has lost nothing that is known.
func (s *nodeState) inspectProgram() {
	s.lost = ""
	if s.pod.DeletionTimestamp != nil || s.status == nil {
		s.ready = false
		return
	}
	s.ready = s.status.Ready && podReady(s.pod)
	switch {
	case s.ready:
		s.problem = ""
	case s.status.Ready:
		s.problem = cmp.Or(podObstacle(s.pod), "the program does not accept connections yet")
	default:
		s.problem = cmp.Or(s.status.Reason, "its probe is not ready")
	}
}

// podObstacle says why a pod does not get to run, or nothing: no Kubernetes node takes it, or its image cannot be pulled.
func podObstacle(pod *corev1.Pod) string {
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
