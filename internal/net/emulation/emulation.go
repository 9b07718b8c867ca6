package emulation

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// Link is the current state of one direction between two regions.
type Link struct {
	// Link has the one-way delay, jitter (a standard deviation), loss and rate.
	geo.Link
	// LossCorrelationPercent is the correlation of a packet's loss with the previous packet's loss, from 0 (independent)
	// to 100.
	LossCorrelationPercent int32
	// Cut loses every packet.
	Cut bool
}

// Plain reports whether the link is not emulated at all.
func (l Link) Plain() bool { return l == Link{} }

// Pod takes part in a network.
type Pod struct {
	Name string
	// UID distinguishes a pod from its replacement of the same name.
	UID    string
	Region string
	// Node is the Kubernetes node that the pod is on.
	Node string
	// IPs of the pod; none before it runs.
	IPs []string
	// Running: the pod's containers run.
	Running bool
	// Since is the time at which the pod got its present containers.
	Since time.Time
	// Generation is the last network generation sent to the pod, for backends that notify pods.
	Generation int64
}

// Network is the network that a backend must establish.
type Network struct {
	Namespace string
	// Database is the GeoDatabase's name, UID the object's: names of cluster-wide things are made from it.
	Database string
	UID      string
	// Regions in the database's order; Links[a][b] is the direction from region a to region b.
	Regions []string
	Links   [][]Link
	// Pods that play now, in any order: nodes and load generators.
	Pods []Pod
	// Cuts separate pods, in addition to the links that are cut.
	Cuts []Cut
	// Phases change the network at set times. Only backends whose pods keep time themselves follow Phases; for other
	// backends, Links and Cuts hold the current state.
	Phases []Phase
}

// Phase is the state of the network from a time until the next phase.
type Phase struct {
	From  time.Time
	Links [][]Link
	Cuts  []Cut
}

// Cut loses every packet from one set of pods to another; both sets hold pod names.
type Cut struct {
	From, To []string
	// By names the fault; empty for a link that is severed.
	By string
}

// NewNetwork is the declared network of a topology, without pods.
func NewNetwork(namespace, database, uid string, t *geo.Topology) *Network {
	n := &Network{Namespace: namespace, Database: database, UID: uid, Regions: t.Regions}
	for _, row := range t.Links {
		var links []Link
		for _, l := range row {
			l.Congestion = geo.CongestionOpen // connections delayed from outside use the kernel's congestion control
			links = append(links, Link{Link: l})
		}
		n.Links = append(n.Links, links)
	}
	return n
}

// PodsIn lists the pods of a region by name.
func (n *Network) PodsIn(region string) []Pod {
	var out []Pod
	for _, p := range n.Pods {
		if p.Region == region {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// State is the state of the network as a backend observes it.
type State struct {
	// Injected: every pod has its links as they should be now.
	Injected bool
	// Reason is a CamelCase word and Message a sentence, for a condition.
	Reason, Message string
	// Missing holds the UIDs of pods whose links are not established yet. Measurements taken while such a pod runs are in
	// a gap.
	Missing map[string]bool
}

// Backend is a way of emulating a network.
type Backend interface {
	// Name as in spec.network.emulation.
	Name() v1alpha1.Emulation
	// Check says what of the network the backend cannot do, naming the field and a way out; nil when it can do it all.
	Check(n *Network) error
	// Prepare changes the pod that a region's pods are made from. It must do the same every time.
	Prepare(n *Network, region string, pod *corev1.PodSpec)
	Ensure(ctx context.Context, n *Network) error
	Observe(ctx context.Context, n *Network) (State, error)
	// Release takes everything of the database's network away; done once nothing is left. A *StuckError says that
	// something does not go.
	Release(ctx context.Context, n *Network) (done bool, err error)
}

// StuckError says what does not go away although it was forced to.
type StuckError struct{ What string }

func (e *StuckError) Error() string { return e.What }

// Object is an object of the API server.
type Object interface {
	metav1.Object
	runtime.Object
}

// Cluster is the part of the API server that backends need. Its methods return errors of apimachinery's api/errors.
type Cluster interface {
	// Get reads an object from the API server itself.
	Get(ctx context.Context, namespace, name string, into Object) error
	// List reads the objects with these labels from the API server itself.
	List(ctx context.Context, namespace string, labels map[string]string, into runtime.Object) error
	// Ensure makes obj, or changes its labels and data to obj's, as the database's own.
	Ensure(ctx context.Context, obj Object) error
	// Create makes obj as the database's own.
	Create(ctx context.Context, obj Object) error
	Delete(ctx context.Context, obj Object) error
	// Patch applies a JSON merge patch.
	Patch(ctx context.Context, obj Object, patch []byte) error
}

// BuiltIn is the backend of native engines: nodes and workers receive the links and delay what they send.
type BuiltIn struct{}

// Name is BuiltIn.
func (BuiltIn) Name() v1alpha1.Emulation { return v1alpha1.EmulationBuiltIn }

// Check accepts every network.
func (BuiltIn) Check(*Network) error { return nil }

// Prepare changes nothing: the links are in the topology that the pods read.
func (BuiltIn) Prepare(*Network, string, *corev1.PodSpec) {}

// Ensure has nothing to do.
func (BuiltIn) Ensure(context.Context, *Network) error { return nil }

// Observe reports every running node as delaying what it sends.
func (BuiltIn) Observe(_ context.Context, n *Network) (State, error) {
	return running(n, State{Injected: true, Reason: string(v1alpha1.EmulationBuiltIn), Message: "every node delays what it sends as the profile declares"}), nil
}

// Release has nothing to do.
func (BuiltIn) Release(context.Context, *Network) (bool, error) { return true, nil }

// None is the backend of real wide-area networks: nothing is injected.
type None struct {
	// Why nothing is, for the status.
	Why string
}

// Name is None.
func (None) Name() v1alpha1.Emulation { return v1alpha1.EmulationNone }

// Check accepts every network: package rtt measures whether it is the declared one.
func (None) Check(*Network) error { return nil }

// Prepare changes nothing.
func (None) Prepare(*Network, string, *corev1.PodSpec) {}

// Ensure has nothing to do.
func (None) Ensure(context.Context, *Network) error { return nil }

// Observe says that nothing is injected.
func (b None) Observe(context.Context, *Network) (State, error) {
	return State{Injected: true, Reason: "NotInjected", Message: "nothing is injected: " + b.Why}, nil
}

// Release has nothing to do.
func (None) Release(context.Context, *Network) (bool, error) { return true, nil }

func resourceOf(quantity string) resource.Quantity { return resource.MustParse(quantity) }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// running returns state once every pod runs; until then it names a pod that does not run.
func running(n *Network, state State) State {
	for _, p := range n.Pods {
		if !p.Running {
			return State{Reason: "NodesNotReady", Message: fmt.Sprintf("pod %s does not run", p.Name), Missing: map[string]bool{p.UID: true}}
		}
	}
	return state
}
