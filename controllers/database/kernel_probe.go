package database

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/kernel"
	"github.com/geobench/geobench/internal/ops/deploy"
)

const (
	// probePatience is the time that a probe pod may take to answer.
	probePatience = 2 * time.Minute
	// probeKept is the time for which an answer is valid. It is limited, because a kernel module may be installed later.
	probeKept = 10 * time.Minute
	// anyNode means the Kubernetes node that the scheduler selects. It is used if nodes cannot be listed.
	anyNode = ""
)

// kernelProbes determines the capabilities of each Kubernetes node's kernel with a probe pod.
type kernelProbes struct {
	client client.Client
	live   client.Reader
	image  string
	clock  clock.PassiveClock

	mu sync.Mutex
	// answers is indexed by namespace, node name and boot ID. Namespaces do not share answers, because a tenant can forge
	// the answers in its namespace.
	answers map[string]kernelAnswer
}

type kernelAnswer struct {
	kernel.Answer
	at time.Time
}

// PendingError means that an answer is not available yet.
type PendingError struct{ Message string }

func (e *PendingError) Error() string { return e.Message }

// lacks describes which of the queueing disciplines that Chaos Mesh needs are missing on a node on which db's pods may
// run. It returns "" if all nodes have them, and a *PendingError until every node has answered.
func (k *kernelProbes) lacks(ctx context.Context, db *v1alpha1.GeoDatabase, qdiscs []string) (string, error) {
	nodes, err := k.nodes(ctx, db)
	if err != nil {
		return "", err
	}
	var waits error
	why := ""
	for name, boot := range nodes {
		answer, err := k.ask(ctx, db, name, boot)
		var pending *PendingError
		switch {
		case errors.As(err, &pending):
			waits = err
		case err != nil:
			return "", err
		case why == "" && answer.Lacks(qdiscs) != "":
			what := "delay packets"
			if !slices.Contains(qdiscs, "netem") {
				what = "limit what goes to some pods only"
			}
			why = fmt.Sprintf("the kernel of %s cannot %s: %s", nodeCalled(name), what, answer.Lacks(qdiscs))
		}
	}
	if waits != nil {
		return "", waits
	}
	return why, nil
}

func nodeCalled(name string) string {
	if name == anyNode {
		return "the node that was tried"
	}
	return "node " + name
}

// nodes returns the names of the nodes on which the database's pods may run, with their boot IDs.
func (k *kernelProbes) nodes(ctx context.Context, db *v1alpha1.GeoDatabase) (map[string]string, error) {
	list := &corev1.NodeList{}
	err := k.live.List(ctx, list)
	if apierrors.IsForbidden(err) {
		return map[string]string{anyNode: ""}, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range list.Items {
		n := &list.Items[i]
		if !n.Spec.Unschedulable && hostsRegion(n, db) {
			out[n.Name] = n.Status.NodeInfo.BootID
		}
	}
	if len(out) == 0 {
		out[anyNode] = ""
	}
	return out, nil
}

// hostsRegion reports whether pods of one of db's regions may run on the node.
func hostsRegion(n *corev1.Node, db *v1alpha1.GeoDatabase) bool {
	for i := range db.Spec.Regions {
		r := &db.Spec.Regions[i]
		if db.Spec.Placement == v1alpha1.PlacementRequired && n.Labels[kube.LabelTopologyRegion] != r.Name {
			continue
		}
		fits := true
		for key, value := range r.NodeSelector {
			fits = fits && n.Labels[key] == value
		}
		for _, taint := range n.Spec.Taints {
			// Ignore taints for temporary conditions of the node, such as not being ready yet.
			tolerated := taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/")
			for t := range r.Tolerations {
				tolerated = tolerated || tolerates(&r.Tolerations[t], &taint)
			}
			fits = fits && tolerated
		}
		if fits {
			return true
		}
	}
	return false
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == taint.Value
}

// ask returns the capabilities of a node's kernel: a recent answer, or the result of a probe pod.
func (k *kernelProbes) ask(ctx context.Context, db *v1alpha1.GeoDatabase, node, boot string) (*kernel.Answer, error) {
	key := db.Namespace + "/" + node + "/" + boot
	k.mu.Lock()
	known, ok := k.answers[key]
	k.mu.Unlock()
	if ok && k.clock.Now().Sub(known.at) < probeKept {
		return &known.Answer, nil
	}
	pod := k.pod(db, node)
	found := &corev1.Pod{}
	err := k.live.Get(ctx, client.ObjectKeyFromObject(pod), found)
	if apierrors.IsNotFound(err) {
		if err := controllerutil.SetControllerReference(db, pod, k.client.Scheme()); err != nil {
			return nil, err
		}
		why, err := refusal(ctx, k.client, pod, k.client.Create(ctx, pod.DeepCopy()))
		if why != "" {
			return &kernel.Answer{Error: "its probe is refused: " + why}, nil
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		return nil, &PendingError{"asking the kernel of " + nodeCalled(node) + " whether it can delay packets"}
	}
	if err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(found, db) {
		return nil, kube.NameTaken(found)
	}
	answer := readProbe(found)
	if answer == nil {
		if k.clock.Now().Sub(found.CreationTimestamp.Time) < probePatience {
			return nil, &PendingError{"waiting for the probe of " + nodeCalled(node) + ": " + cmp.Or(PodObstacle(found), string(found.Status.Phase))}
		}
		answer = &kernel.Answer{Error: "its probe did not answer: " + cmp.Or(PodObstacle(found), "pod "+found.Name+" is "+string(found.Status.Phase))}
	}
	k.mu.Lock()
	if k.answers == nil {
		k.answers = map[string]kernelAnswer{}
	}
	k.answers[key] = kernelAnswer{*answer, k.clock.Now()}
	k.mu.Unlock()
	return answer, client.IgnoreNotFound(k.client.Delete(ctx, found, client.GracePeriodSeconds(0)))
}

// readProbe returns the answer of a probe pod, or nil if the pod has not answered yet.
func readProbe(pod *corev1.Pod) *kernel.Answer {
	for _, c := range pod.Status.ContainerStatuses {
		t := c.State.Terminated
		if t == nil {
			continue
		}
		answer := &kernel.Answer{}
		if err := json.Unmarshal([]byte(strings.TrimSpace(t.Message)), answer); err != nil {
			return &kernel.Answer{Error: fmt.Sprintf("its probe ended with %s, exit code %d%s", t.Reason, t.ExitCode, kube.Suffix(t.Message))}
		}
		return answer
	}
	return nil
}

// pod returns the probe pod for one node. It has the rights of a sidecar, and its own network namespace.
func (k *kernelProbes) pod(db *v1alpha1.GeoDatabase, node string) *corev1.Pod {
	pod := probePod(db, k.image, deploy.JoinName(63, db.Name, "kernel", cmp.Or(node, "any")))
	if node != anyNode {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}}},
		}}}
		// The region's pods may tolerate any taint of the node, so the probe must tolerate all taints.
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return pod
}

// probePod returns a pod that, like a sidecar, may change its own network.
func probePod(db *v1alpha1.GeoDatabase, image, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: db.Namespace, Labels: kube.DatabaseLabels(db, kube.RoleNetwork)},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "probe", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"probe-kernel"},
				SecurityContext: emulation.SidecarSecurity(),
				Resources:       WithDefaultRequests(corev1.ResourceRequirements{}, "10m", "32Mi"),
			}},
		},
	}
}
