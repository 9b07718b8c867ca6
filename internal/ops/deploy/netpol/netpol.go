// Package netpol builds the NetworkPolicies of a database. They define which peers can reach its nodes and the workers
// of its runs, and which peers nodes and workers can reach.
//
// A database has two policies, one for all nodes and one for the workers of all runs. The policies are created and
// deleted with the database. Policies are additive: a connection is allowed if any policy that selects the pod allows
// it. Pods that no policy selects are open, and so are all pods if the network plugin ignores policies. Therefore every
// port also authenticates its callers (docs/security.md). The kubelet's probes come from the pod's machine, and all
// plugins allow them.
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
	// firstOwnPort to lastOwnPort are reserved for Geobench in the pods of programs. The API rejects programs that use
	// these ports.
	firstOwnPort = 7001
	lastOwnPort  = 7009
	dnsPort      = 53
	// controlPlane is the port from which Istio's proxies get their certificates and configuration. tunnels is the port on
	// which proxies on machines communicate on behalf of the pods (HBONE), within the pods' network namespaces.
	controlPlane = 15012
	tunnels      = 15008
)

// Database contains the facts about a database on which its policies depend.
type Database struct {
	// Name is the prefix of the policies' names, <name>-nodes and <name>-workers. These must not exceed 253 characters.
	Name, Namespace string
	// Labels are the labels of the policies.
	Labels map[string]string
	// Nodes and Workers are the labels of the nodes' pods, and of the workers of all runs on the database. No other pods
	// in the namespace may have these labels. The labels must include app.kubernetes.io/managed-by, because admission
	// (config/admission) rejects policies for other pods.
	Nodes, Workers map[string]string
	// Programs are the TCP ports on which programs from any image accept clients. It is empty for the nodes of a native
	// engine.
	Programs []int32
	// Elsewhere is set if the database runs elsewhere, so that it has no nodes in the cluster. Endpoints are then its
	// resolved addresses, restricted to the networks that the administrator permits (Cluster.ExternalCIDRs).
	Elsewhere bool
	Endpoints []netip.AddrPort
	// Mesh is the mesh of the pods; empty or None for none.
	Mesh v1alpha1.Mesh
}

// Cluster contains the facts about the cluster on which the policies depend.
type Cluster struct {
	// OperatorNamespace is the name of the operator's namespace, and Operator contains the labels of its pods.
	OperatorNamespace string            `json:"operatorNamespace,omitempty"`
	Operator          map[string]string `json:"operator"`
	// MetricsFrom are the peers that may read metrics; empty if all peers may.
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
	// APIServerPorts are the ports of the API server's endpoints, for example 443 and 6443. APIServerCIDRs are the
	// endpoints' addresses; empty for any address.
	APIServerPorts []int32  `json:"apiServerPorts,omitempty"`
	APIServerCIDRs []string `json:"apiServerCIDRs,omitempty"`
	// ExternalCIDRs are the networks in which databases may run elsewhere. A policy for such a database may open
	// connections that an administrator has closed for the namespace, because policies are additive. Therefore policies
	// open only addresses in these networks. If ExternalCIDRs is empty, Geobench's policies neither restrict nor open the
	// workers' egress to such databases.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

// MayBeElsewhere reports whether the address is allowed for a database that runs elsewhere.
func (c *Cluster) MayBeElsewhere(address netip.Addr) bool {
	return slices.ContainsFunc(c.ExternalCIDRs, func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		return err == nil && prefix.Contains(address.Unmap())
	})
}

// Policies returns the policy of a database's workers and, unless the database runs elsewhere, the policy of its nodes.
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
		// Programs communicate with each other on ports that the manifest need not name, and may need external addresses that
		// are unknown. So do not restrict their egress. The probers alongside programs send packets to each other.
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
		// The operator and dashboards compare the proxies' traffic counters with the nodes' own counts.
		from := slices.Clone(c.MetricsFrom)
		if len(from) > 0 { // an empty list already includes the operator
			from = append(from, operator(c))
		}
		spec.Ingress = append(spec.Ingress, ingress(tcp(mesh.StatsPort), from...))
	}
	return p
}

func workers(db *Database, c *Cluster) *networkingv1.NetworkPolicy {
	p := policy(db, "workers", db.Workers)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{administration(c), metrics(c)}
	// With no egress policy, only the administrator's policies restrict connections from workers.
	if db.Elsewhere && len(c.ExternalCIDRs) == 0 {
		return p
	}
	p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	database := []networkingv1.NetworkPolicyEgressRule{egress(tcp(ports.Peer), pods(db.Nodes))}
	switch {
	case db.Elsewhere:
		database = nil
		// Each endpoint is a single address, so its prefix has the full length.
		for _, e := range db.Endpoints {
			address := e.Addr().Unmap()
			block := &networkingv1.IPBlock{CIDR: netip.PrefixFrom(address, address.BitLen()).String()}
			database = append(database, egress(tcp(int32(e.Port())), networkingv1.NetworkPolicyPeer{IPBlock: block}))
		}
	case len(db.Programs) > 0:
		database[0] = egress(tcp(db.Programs...), pods(db.Nodes))
	}
	// Workers send their reports to the API server.
	var apiServer []networkingv1.NetworkPolicyPeer
	for _, cidr := range c.APIServerCIDRs {
		apiServer = append(apiServer, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	p.Spec.Egress = slices.Concat([]networkingv1.NetworkPolicyEgressRule{dns()}, database,
		[]networkingv1.NetworkPolicyEgressRule{egress(tcp(c.APIServerPorts...), apiServer...)}, meshed(db, pods(db.Nodes)))
	return p
}

// meshed returns the egress rules that a pod's proxy needs, so that the pod can reach the pods in others.
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

// administration returns the rule for the operator's access to nodes, workers and their sidecars.
func administration(c *Cluster) networkingv1.NetworkPolicyIngressRule {
	return ingress(tcp(ports.Admin, ports.WANAdmin), operator(c))
}

// operator returns the peer that matches the operator's pods.
func operator(c *Cluster) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.OperatorNamespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: c.Operator},
	}
}

// metrics returns the rule for access to the read-only ports.
func metrics(c *Cluster) networkingv1.NetworkPolicyIngressRule {
	return ingress(tcp(ports.Metrics, ports.WANStatus), c.MetricsFrom...)
}

// dns returns the rule for access to name servers. It allows any address, because the labels of name servers differ
// between clusters, and some name servers use addresses of the machine.
func dns() networkingv1.NetworkPolicyEgressRule {
	return egress(slices.Concat(span(corev1.ProtocolUDP, dnsPort, dnsPort), tcp(dnsPort)))
}

// pods returns the peer that matches pods with all of these labels in the policy's namespace.
func pods(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

func ingress(ports []networkingv1.NetworkPolicyPort, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{Ports: ports, From: from}
}

func egress(ports []networkingv1.NetworkPolicyPort, to ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{Ports: ports, To: to}
}

// tcp returns single TCP ports by number, because not every plugin supports named ports of destinations.
func tcp(ports ...int32) (out []networkingv1.NetworkPolicyPort) {
	for _, port := range ports {
		out = append(out, span(corev1.ProtocolTCP, port, port)...)
	}
	return out
}

// span returns the ports from first to last, inclusive.
func span(protocol corev1.Protocol, first, last int32) []networkingv1.NetworkPolicyPort {
	p := networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(first))}
	if last > first {
		p.EndPort = ptr.To(last)
	}
	return []networkingv1.NetworkPolicyPort{p}
}
