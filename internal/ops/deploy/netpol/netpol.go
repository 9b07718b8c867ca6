// Package netpol builds the NetworkPolicies of a database: who reaches its nodes and the workers of its runs, and whom
// they reach.
//
// There are two, one for all nodes and one for the workers of all runs, so that they are made with the database and go
// with it. Network policies add up: a connection is let through when one of the policies that select a pod lets it
// through. Pods that no policy selects are open, and those of a cluster whose network plugin knows no policies stay so,
// which is why every port proves who calls it in any case (docs/security.md). The kubelet's probes come from the pod's
// own machine and are let through by all plugins.
package netpol

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

const (
	// firstOwnPort to lastOwnPort are Geobench's own in the pods of programs, which the API keeps free for it.
	firstOwnPort = 7001
	lastOwnPort  = 7009
	dnsPort      = 53
	// controlPlane is where Istio's proxies get their certificates and configuration, tunnels where those on machines talk
	// to each other for the pods (HBONE), in the pods' name and network.
	controlPlane = 15012
	tunnels      = 15008
)

// Database is what the policies have to know of a database.
type Database struct {
	// Name begins the names of the policies: <name>-nodes and <name>-workers. It must leave room for that in 253
	// characters.
	Name, Namespace string
	// Labels are put on the policies.
	Labels map[string]string
	// Nodes and Workers are the labels that the pods of the nodes have, and those of the workers of all runs on the
	// database, and no others of the namespace. app.kubernetes.io/managed-by has to be among them: admission
	// (config/admission) takes no policies for other pods.
	Nodes, Workers map[string]string
	// Programs are the TCP ports on which programs of any image take clients. Without any, the nodes are those of a native
	// engine.
	Programs []int32
	// Elsewhere says that the database runs elsewhere and has no nodes here. Endpoints are where its addresses have led,
	// as far as the administrator lets databases be there (Cluster.ExternalCIDRs).
	Elsewhere bool
	Endpoints []netip.AddrPort
	// Mesh is that of its pods: empty or None for no mesh.
	Mesh v1alpha1.Mesh
}

// Cluster is what the policies have to know of what is around the database.
type Cluster struct {
	// OperatorNamespace and Operator find the operator's pods: the name of their namespace, and labels.
	OperatorNamespace string            `json:"operatorNamespace,omitempty"`
	Operator          map[string]string `json:"operator"`
	// MetricsFrom are those who may read metrics; everybody without any.
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
	// APIServerPorts are the ports of the API server's endpoints, for example 443 and 6443, and APIServerCIDRs their
	// addresses: any without one.
	APIServerPorts []int32  `json:"apiServerPorts,omitempty"`
	APIServerCIDRs []string `json:"apiServerCIDRs,omitempty"`
	// ExternalCIDRs are the networks in which databases may run that run elsewhere. Policies add up: to let workers out to
	// such a database is to open what an administrator has closed for their namespace, so policies do that for addresses
	// of these networks alone, and without any they leave to others where workers of such databases connect to.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

// MayBeElsewhere reports whether a database that runs elsewhere may have an address.
func (c *Cluster) MayBeElsewhere(address netip.Addr) bool {
	return slices.ContainsFunc(c.ExternalCIDRs, func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		return err == nil && prefix.Contains(address.Unmap())
	})
}

// Policies builds the policies of a database's nodes and of its workers.
func Policies(db *Database, c *Cluster) []*networkingv1.NetworkPolicy {
	var out []*networkingv1.NetworkPolicy
	if !db.Elsewhere {
		out = append(out, nodes(db, c))
	}
	return append(out, workers(db, c))
}

func nodes(db *Database, c *Cluster) *networkingv1.NetworkPolicy {
	p := policy(db, "nodes", db.Nodes)
	peers, clients := pods(db.Nodes), pods(db.Workers)
	spec := &p.Spec
	if len(db.Programs) == 0 {
		spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		spec.Ingress = append(spec.Ingress, ingress(tcp(ports.Peer), peers, clients))
		spec.Egress = append(spec.Egress, dns(), egress(tcp(ports.Peer), peers))
		if db.Mesh == v1alpha1.MeshSidecar || db.Mesh == v1alpha1.MeshAmbient {
			// Nodes probe each other below the mesh and through it.
			probes := slices.Concat(tcp(ports.Probe), span(corev1.ProtocolUDP, ports.Probe, ports.Probe))
			spec.Ingress, spec.Egress = append(spec.Ingress, ingress(probes, peers)), append(spec.Egress, egress(probes, peers))
		}
	} else {
		// What a program says to the others it does on ports that its manifest need not name, and what it must reach
		// elsewhere nobody here knows. The probes beside programs send packets to each other.
		spec.Ingress = append(spec.Ingress,
			ingress(slices.Concat(span(corev1.ProtocolTCP, 1, firstOwnPort-1), span(corev1.ProtocolTCP, lastOwnPort+1, 65535),
				span(corev1.ProtocolUDP, 1, 65535), tcp(ports.Probe)), peers),
			ingress(tcp(db.Programs...), clients))
	}
	if db.Mesh == v1alpha1.MeshAmbient {
		spec.Ingress = append(spec.Ingress, ingress(tcp(tunnels), peers, clients))
	}
	if len(db.Programs) == 0 {
		spec.Egress = append(spec.Egress, meshed(db, peers)...)
	}
	spec.Ingress = append(spec.Ingress, administration(c), metrics(c))
	if db.Mesh == v1alpha1.MeshSidecar {
		// What proxies have carried is a witness of what nodes say that they have sent, for the operator and for dashboards.
		from := slices.Clone(c.MetricsFrom)
		if len(from) > 0 { // everybody includes the operator
			from = append(from, operator(c))
		}
		spec.Ingress = append(spec.Ingress, ingress(tcp(mesh.StatsPort), from...))
	}
	return p
}

func workers(db *Database, c *Cluster) *networkingv1.NetworkPolicy {
	p := policy(db, "workers", db.Workers)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{administration(c), metrics(c)}
	if db.Elsewhere && len(c.ExternalCIDRs) == 0 {
		return p
	}
	p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	database := []networkingv1.NetworkPolicyEgressRule{egress(tcp(ports.Peer), pods(db.Nodes))}
	switch {
	case db.Elsewhere:
		database = nil
		for _, e := range db.Endpoints {
			address := e.Addr().Unmap()
			block := &networkingv1.IPBlock{CIDR: netip.PrefixFrom(address, address.BitLen()).String()}
			database = append(database, egress(tcp(int32(e.Port())), networkingv1.NetworkPolicyPeer{IPBlock: block}))
		}
	case len(db.Programs) > 0:
		database[0] = egress(tcp(db.Programs...), pods(db.Nodes))
	}
	// Workers hand in their reports at the API server.
	var apiServer []networkingv1.NetworkPolicyPeer
	for _, cidr := range c.APIServerCIDRs {
		apiServer = append(apiServer, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	p.Spec.Egress = slices.Concat([]networkingv1.NetworkPolicyEgressRule{dns()}, database,
		[]networkingv1.NetworkPolicyEgressRule{egress(tcp(c.APIServerPorts...), apiServer...)}, meshed(db, pods(db.Nodes)))
	return p
}

// meshed is what the proxy of a pod must reach so that the pod reaches others.
func meshed(db *Database, others networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyEgressRule {
	switch db.Mesh {
	case v1alpha1.MeshSidecar:
		return []networkingv1.NetworkPolicyEgressRule{egress(tcp(controlPlane))}
	case v1alpha1.MeshAmbient:
		return []networkingv1.NetworkPolicyEgressRule{egress(tcp(tunnels), others)}
	}
	return nil
}

func policy(db *Database, suffix string, selected map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: db.Name + "-" + suffix, Namespace: db.Namespace, Labels: maps.Clone(db.Labels)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selected},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}

// administration is for the operator: of nodes and workers, and of the sidecars beside them.
func administration(c *Cluster) networkingv1.NetworkPolicyIngressRule {
	return ingress(tcp(ports.Admin, ports.WANAdmin), operator(c))
}

// operator are the operator's pods.
func operator(c *Cluster) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.OperatorNamespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: c.Operator},
	}
}

// metrics are on ports that change nothing.
func metrics(c *Cluster) networkingv1.NetworkPolicyIngressRule {
	return ingress(tcp(ports.Metrics, ports.WANStatus), c.MetricsFrom...)
}

// dns is any server on the port of name servers: they bear other labels in each cluster, and some have addresses of the
// machine.
func dns() networkingv1.NetworkPolicyEgressRule {
	return egress(slices.Concat(span(corev1.ProtocolUDP, dnsPort, dnsPort), tcp(dnsPort)))
}

// pods are those with all of these labels in the policy's namespace.
func pods(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

func ingress(ports []networkingv1.NetworkPolicyPort, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{Ports: ports, From: from}
}

func egress(ports []networkingv1.NetworkPolicyPort, to ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{Ports: ports, To: to}
}

// tcp are single ports by number: not every plugin knows the named ports of a destination.
func tcp(ports ...int32) (out []networkingv1.NetworkPolicyPort) {
	for _, port := range ports {
		out = append(out, span(corev1.ProtocolTCP, port, port)...)
	}
	return out
}

// span are the ports from first to last.
func span(protocol corev1.Protocol, first, last int32) []networkingv1.NetworkPolicyPort {
	p := networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(first))}
	if last > first {
		p.EndPort = ptr.To(last)
	}
	return []networkingv1.NetworkPolicyPort{p}
}
