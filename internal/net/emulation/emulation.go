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

// Link is the current state of the link from one region to another, in that direction only.
type Link struct {
	// Link contains the one-way delay, the jitter (a standard deviation), the loss and the rate.
	geo.Link
	// LossCorrelationPercent is the correlation between the loss of a packet and the loss of the previous packet, from 0
	// (independent) to 100.
	LossCorrelationPercent int32
	// Cut is set if the link loses all packets.
	Cut bool
}

// Plain reports whether the link needs no emulation.
func (l Link) Plain() bool { return l == Link{} }

// Pod is a pod that is part of a network.
type Pod struct {
	Name string
	// UID distinguishes the pod from a replacement with the same name.
	UID    string
	Region string
	// Node is the Kubernetes node that the pod runs on.
	Node string
	// IPs are the pod's addresses; empty until the pod runs.
	IPs []string
	// Running is set while the pod's containers run.
	Running bool
	// Since is the time at which the pod's running containers started.
	Since time.Time
	// Generation is the last network generation sent to the pod, for backends that notify pods.
	Generation int64
}

// Network is the network that a backend must establish.
type Network struct {
	Namespace string
	// Database is the name of the GeoDatabase. UID is the object's UID, from which the names of cluster-wide objects are
	// derived.
	Database string
	UID      string
	// Regions lists the regions in the order of the database. Links[a][b] is the link from region a to region b.
	Regions []string
	Links   [][]Link
	// Pods lists the database's nodes and the load generators that currently exist, in any order.
	Pods []Pod
	// Cuts lists the cuts between sets of pods, in addition to the links that are cut.
	Cuts []Cut
	// Phases are scheduled changes of the network. They are used only by backends whose pods follow the schedule on their
	// own. For all other backends, Links and Cuts contain the current state.
	Phases []Phase
}

// Phase is the state of the network from a given time until the next phase.
type Phase struct {
	From  time.Time
	Links [][]Link
	Cuts  []Cut
}

// Cut is the loss of every packet from one set of pods to another. Both sets contain pod names.
type Cut struct {
	From, To []string
	// By is the name of the fault; empty if the cut is part of a severed link.
	By string
}

// NewNetwork returns the declared network of a topology, without pods and faults.
func NewNetwork(namespace, database, uid string, t *geo.Topology) *Network {
	n := &Network{Namespace: namespace, Database: database, UID: uid, Regions: t.Regions}
	for _, row := range t.Links {
		var links []Link
		for _, l := range row {
			// If connections are delayed outside the process, the kernel does their congestion control.
			l.Congestion = geo.CongestionOpen
			links = append(links, Link{Link: l})
		}
		n.Links = append(n.Links, links)
	}
	return n
}

// PodsIn returns the pods of a region, sorted by name.
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
	// Injected is set if every link of every pod is currently as the Network requires.
	Injected bool
	// Reason and Message form a Kubernetes condition: a CamelCase word and a sentence.
	Reason, Message string
	// Missing contains the UIDs of pods whose links are not established yet. While such a pod runs, measurements are
	// invalid.
	Missing map[string]bool
}

// Backend is a method of emulating a network.
type Backend interface {
	// Name returns the value of spec.network.emulation that selects the backend.
	Name() v1alpha1.Emulation
	// Check returns an error if the backend cannot emulate the network. The error names the field and suggests an
	// alternative.
	Check(n *Network) error
	// Prepare changes the pod template of a region. The result must be deterministic.
	Prepare(n *Network, region string, pod *corev1.PodSpec)
	Ensure(ctx context.Context, n *Network) error
	Observe(ctx context.Context, n *Network) (State, error)
	// Release removes everything that the backend has created for the database. It sets done once nothing is left. A
	// *StuckError names an object that cannot be removed.
	Release(ctx context.Context, n *Network) (done bool, err error)
}

// StuckError reports an object that still exists although its deletion was forced.
type StuckError struct{ What string }

func (e *StuckError) Error() string { return e.What }

// Object is a Kubernetes API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Cluster is the part of the Kubernetes API that backends need. Its methods return the errors of
// k8s.io/apimachinery/pkg/api/errors.
type Cluster interface {
	// Get reads an object from the API server, not from a cache.
	Get(ctx context.Context, namespace, name string, into Object) error
	// List reads the objects with the given labels from the API server, not from a cache.
	List(ctx context.Context, namespace string, labels map[string]string, into runtime.Object) error
	// Ensure creates obj, or updates the labels and the data of the existing object to match obj. The database owns the
	// object.
	Ensure(ctx context.Context, obj Object) error
	// Create creates obj. The database owns it.
	Create(ctx context.Context, obj Object) error
	Delete(ctx context.Context, obj Object) error
	// Patch applies a JSON merge patch.
	Patch(ctx context.Context, obj Object, patch []byte) error
}

// BuiltIn is the backend of native engines: nodes and workers read the links from the topology and delay their own
// messages.
type BuiltIn struct{}

// Name returns EmulationBuiltIn.
func (BuiltIn) Name() v1alpha1.Emulation { return v1alpha1.EmulationBuiltIn }

// Check accepts every network.
func (BuiltIn) Check(*Network) error { return nil }

// Prepare does nothing: the topology that the pods read contains the links.
func (BuiltIn) Prepare(*Network, string, *corev1.PodSpec) {}

// Ensure does nothing.
func (BuiltIn) Ensure(context.Context, *Network) error { return nil }

// Observe reports the network as injected once every pod runs.
func (BuiltIn) Observe(_ context.Context, n *Network) (State, error) {
	return running(n, State{Injected: true, Reason: string(v1alpha1.EmulationBuiltIn), Message: "every node delays what it sends as the profile declares"}), nil
}

// Release does nothing.
func (BuiltIn) Release(context.Context, *Network) (bool, error) { return true, nil }

// None is the backend for real wide-area networks. It injects nothing.
type None struct {
	// Why is the reason for injecting nothing, as shown in the status.
	Why string
}

// Name returns EmulationNone.
func (None) Name() v1alpha1.Emulation { return v1alpha1.EmulationNone }

// Check accepts every network, because package rtt measures whether the real network is as declared.
func (None) Check(*Network) error { return nil }

// Prepare does nothing.
func (None) Prepare(*Network, string, *corev1.PodSpec) {}

// Ensure does nothing.
func (None) Ensure(context.Context, *Network) error { return nil }

// Observe reports the network as injected, with a message that nothing is emulated.
func (b None) Observe(context.Context, *Network) (State, error) {
	return State{Injected: true, Reason: "NotInjected", Message: "nothing is injected: " + b.Why}, nil
}

// Release does nothing.
func (None) Release(context.Context, *Network) (bool, error) { return true, nil }

func resourceOf(quantity string) resource.Quantity { return resource.MustParse(quantity) }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// running returns state if every pod runs. Otherwise it returns a state that names a pod that is not running.
func running(n *Network, state State) State {
	for _, p := range n.Pods {
		if !p.Running {
			return State{Reason: "NodesNotReady", Message: fmt.Sprintf("pod %s does not run", p.Name), Missing: map[string]bool{p.UID: true}}
		}
	}
	return state
}
