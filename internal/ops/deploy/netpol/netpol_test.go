package netpol

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// endpoint is one end of a connection: a pod or, without a namespace, an address outside the cluster.
type endpoint struct {
	namespace string
	labels    map[string]string
	ip        string
}

// port is the destination port of a connection, for example 7000/TCP.
type port struct {
	number   int32
	protocol corev1.Protocol
}

func (p port) String() string { return fmt.Sprintf("%d/%s", p.number, p.protocol) }

// connects evaluates policies as specified by the API (networking.k8s.io/v1). Both sides must allow a connection. If no
// policy for the direction selects a side, that side allows everything. Otherwise a rule of a policy that selects the
// side must match.
func connects(policies []*networkingv1.NetworkPolicy, from, to endpoint, p port) bool {
	leaves, enters := true, true
	if own := selecting(policies, from, networkingv1.PolicyTypeEgress); len(own) > 0 {
		leaves = slices.ContainsFunc(own, func(policy *networkingv1.NetworkPolicy) bool {
			return slices.ContainsFunc(policy.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
				return portFits(r.Ports, p) && peerFits(r.To, to, policy.Namespace)
			})
		})
	}
	if own := selecting(policies, to, networkingv1.PolicyTypeIngress); len(own) > 0 {
		enters = slices.ContainsFunc(own, func(policy *networkingv1.NetworkPolicy) bool {
			return slices.ContainsFunc(policy.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
				return portFits(r.Ports, p) && peerFits(r.From, from, policy.Namespace)
			})
		})
	}
	return leaves && enters
}

func selecting(policies []*networkingv1.NetworkPolicy, e endpoint, direction networkingv1.PolicyType) (out []*networkingv1.NetworkPolicy) {
	for _, p := range policies {
		if e.namespace == p.Namespace && selects(&p.Spec.PodSelector, e.labels) && slices.Contains(p.Spec.PolicyTypes, direction) {
			out = append(out, p)
		}
	}
	return out
}

func selects(s *metav1.LabelSelector, l map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err)
	}
	return selector.Matches(labels.Set(l))
}

// portFits reports whether a rule covers a port. A rule without ports covers all ports.
func portFits(ports []networkingv1.NetworkPolicyPort, p port) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(r networkingv1.NetworkPolicyPort) bool {
		last := r.Port.IntVal
		if r.EndPort != nil {
			last = *r.EndPort
		}
		return *r.Protocol == p.protocol && r.Port.IntVal <= p.number && p.number <= last
	})
}

// peerFits reports whether peers include e. A rule without peers matches every endpoint, and a peer without a namespace
// selector matches only pods of the policy's namespace.
func peerFits(peers []networkingv1.NetworkPolicyPeer, e endpoint, namespace string) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return netip.MustParsePrefix(p.IPBlock.CIDR).Contains(netip.MustParseAddr(e.ip))
		}
		if e.namespace == "" {
			return false
		}
		if p.NamespaceSelector == nil && e.namespace != namespace ||
			p.NamespaceSelector != nil && !selects(p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: e.namespace}) {
			return false
		}
		return p.PodSelector == nil || selects(p.PodSelector, e.labels)
	})
}

var operatorLabels = map[string]string{"app.kubernetes.io/name": "geobench", "app.kubernetes.io/component": "operator"}

func podsOf(database, role string) map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "geobench", "geobench.dev/database": database, "geobench.dev/role": role}
}

func databaseNamed(name string) *Database {
	return &Database{
		Name: name, Namespace: "lab", Labels: map[string]string{"a": "b"}, Nodes: podsOf(name, "node"), Workers: podsOf(name, "worker"),
	}
}

func surroundings() *Cluster {
	return &Cluster{OperatorNamespace: "geobench-system", Operator: operatorLabels, APIServerPorts: []int32{443, 6443}, APIServerCIDRs: []string{"10.96.0.1/32"}}
}

// everybody contains the endpoints of all tables: the pods of two databases in one namespace, a and b. It also contains
// other endpoints inside and outside the cluster.
var everybody = map[string]endpoint{
	"operator":             {"geobench-system", operatorLabels, "10.0.0.1"},
	"false operator":       {"lab", operatorLabels, "10.0.0.2"},
	"beside the operator":  {"geobench-system", map[string]string{"app": "x"}, "10.0.0.3"},
	"Prometheus":           {"monitoring", map[string]string{"app": "prometheus"}, "10.0.0.4"},
	"stranger":             {"elsewhere", podsOf("a", "worker"), "10.0.0.5"},
	"pod of the namespace": {"lab", map[string]string{"app": "x"}, "10.0.0.6"},
	"node of a":            {"lab", podsOf("a", "node"), "10.0.0.7"},
	"another node of a":    {"lab", podsOf("a", "node"), "10.0.0.8"},
	"worker on a":          {"lab", podsOf("a", "worker"), "10.0.0.9"},
	"another worker on a":  {"lab", podsOf("a", "worker"), "10.0.0.10"},
	"node of b":            {"lab", podsOf("b", "node"), "10.0.0.11"},
	"worker on b":          {"lab", podsOf("b", "worker"), "10.0.0.12"},
	"name server":          {"kube-system", map[string]string{"k8s-app": "kube-dns"}, "10.0.0.13"},
	"API server":           {"", nil, "10.96.0.1"},
	"the Internet":         {"", nil, "192.0.2.1"},
}

// everyPort contains all ports that the tables check.
var everyPort = func() (out []port) {
	for _, n := range []int32{22, 53, 443, 5432, 6443, 7000, 7001, 7002, 7003, 7004, 7005, 26257} {
		out = append(out, port{n, corev1.ProtocolTCP}, port{n, corev1.ProtocolUDP})
	}
	return out
}()

// reach returns the ports of endpoint to that endpoint from can reach. Ports without a protocol are TCP ports.
func reach(policies []*networkingv1.NetworkPolicy, from, to string) string {
	var open []string
	for _, p := range everyPort {
		if connects(policies, everybody[from], everybody[to], p) {
			open = append(open, strings.TrimSuffix(p.String(), "/TCP"))
		}
	}
	if len(open) == len(everyPort) {
		return "all"
	}
	return strings.Join(open, " ")
}

// dnsPorts are the ports of name servers.
const dnsPorts = "53 53/UDP"

func TestReach(t *testing.T) {
	const (
		metrics  = "7001 7003"
		operator = "7001 7003 7004 7005"
		// Programs may communicate with each other on any port. On Geobench's TCP ports, however, they can only read metrics
		// (7001 and 7003) and measure round trips (7002).
		peers = "22 22/UDP 53 53/UDP 443 443/UDP 5432 5432/UDP 6443 6443/UDP 7000 7000/UDP 7001 7001/UDP 7002 7002/UDP 7003 7003/UDP 7004/UDP 7005/UDP 26257 26257/UDP"
	)
	type pair struct{ node, worker string }
	program := func(name string) *Database {
		d := databaseNamed(name)
		d.Programs = []int32{5432}
		return d
	}
	elsewhere := func(name string) *Database {
		d := databaseNamed(name)
		d.Elsewhere, d.Endpoints = true, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:26257")}
		return d
	}
	for title, test := range map[string]struct {
		database    func(name string) *Database
		metricsFrom []networkingv1.NetworkPolicyPeer
		// external are the networks in which databases may run elsewhere.
		external []string
		// inwards lists, by endpoint, the ports of "node of a" and "worker on a" that the endpoint can reach.
		inwards map[string]pair
		// outwards lists, by endpoint, the ports of the endpoint that "node of a" and "worker on a" can reach.
		outwards map[string]pair
	}{
		"native": {
			database: databaseNamed,
			inwards: map[string]pair{
				"operator":             {operator, operator},
				"false operator":       {metrics, metrics},
				"beside the operator":  {metrics, metrics},
				"Prometheus":           {metrics, metrics},
				"stranger":             {metrics, metrics},
				"pod of the namespace": {metrics, metrics},
				"another node of a":    {"7000", ""},
				"worker on a":          {"7000", ""},
				"another worker on a":  {"7000", ""},
				"node of a":            {"7000", ""},
				"node of b":            {"", ""},
				"worker on b":          {"", ""},
			},
			outwards: map[string]pair{
				"name server":          {dnsPorts, dnsPorts},
				"API server":           {dnsPorts, dnsPorts + " 443 6443"},
				"the Internet":         {dnsPorts, dnsPorts},
				"operator":             {dnsPorts, dnsPorts},
				"pod of the namespace": {dnsPorts, dnsPorts},
				"node of b":            {"", ""},
				"worker on b":          {"", ""},
			},
		},
		"programs of any image": {
			database: program,
			inwards: map[string]pair{
				"operator":             {operator, operator},
				"false operator":       {metrics, metrics},
				"beside the operator":  {metrics, metrics},
				"Prometheus":           {metrics, metrics},
				"stranger":             {metrics, metrics},
				"pod of the namespace": {metrics, metrics},
				"another node of a":    {peers, metrics},
				"worker on a":          {"5432", ""},
				"another worker on a":  {"5432", ""},
				"node of a":            {peers, metrics},
				"node of b":            {metrics, metrics},
				"worker on b":          {"", ""},
			},
			// It is unknown which destinations a program needs, so all of them are open.
			outwards: map[string]pair{
				"name server":          {"all", dnsPorts},
				"API server":           {"all", dnsPorts + " 443 6443"},
				"the Internet":         {"all", dnsPorts},
				"operator":             {"all", dnsPorts},
				"pod of the namespace": {"all", dnsPorts},
				"node of b":            {metrics, ""},
				"worker on b":          {metrics, ""},
			},
		},
		"metrics for Prometheus": {
			database: databaseNamed,
			metricsFrom: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"}},
			}},
			inwards: map[string]pair{
				"operator":             {"7004 7005", "7004 7005"},
				"false operator":       {"", ""},
				"beside the operator":  {"", ""},
				"Prometheus":           {metrics, metrics},
				"stranger":             {"", ""},
				"pod of the namespace": {"", ""},
				"another node of a":    {"7000", ""},
				"worker on a":          {"7000", ""},
				"another worker on a":  {"7000", ""},
				"node of a":            {"7000", ""},
				"node of b":            {"", ""},
				"worker on b":          {"", ""},
			},
		},
		"a database that runs elsewhere": {
			database: elsewhere,
			external: []string{"192.0.2.0/24"},
			outwards: map[string]pair{
				"name server":          {"all", dnsPorts},
				"API server":           {"all", dnsPorts + " 443 6443"},
				"the Internet":         {"all", dnsPorts + " 26257"},
				"operator":             {"all", dnsPorts},
				"pod of the namespace": {"all", dnsPorts},
			},
		},
		// Egress is open unless another policy restricts it.
		"a database that runs elsewhere, of which the administrator has said nothing": {
			database: elsewhere,
			outwards: map[string]pair{"name server": {"all", "all"}, "the Internet": {"all", "all"}},
		},
	} {
		t.Run(title, func(t *testing.T) {
			c := surroundings()
			c.MetricsFrom, c.ExternalCIDRs = test.metricsFrom, test.external
			policies := slices.Concat(Policies(test.database("a"), c), Policies(test.database("b"), c))
			for from, want := range test.inwards {
				if got := (pair{reach(policies, from, "node of a"), reach(policies, from, "worker on a")}); got != want {
					t.Errorf("%s reaches of a node and of a worker\n%+v, want\n%+v", from, got, want)
				}
			}
			for to, want := range test.outwards {
				if got := (pair{reach(policies, "node of a", to), reach(policies, "worker on a", to)}); got != want {
					t.Errorf("a node and a worker reach of %s\n%+v, want\n%+v", to, got, want)
				}
			}
		})
	}
}

// The proxies of a mesh can reach each other and their control plane. Ports that only one kind of mesh needs are closed
// unless the database is in that kind of mesh.
func TestReachInAMesh(t *testing.T) {
	for m, want := range map[v1alpha1.Mesh]string{
		"":                   "",
		v1alpha1.MeshNone:    "",
		v1alpha1.MeshSidecar: "node and worker reach the control plane, probes of nodes reach each other, counters for everybody, with Prometheus for it and the operator",
		v1alpha1.MeshAmbient: "tunnels between nodes, from workers to nodes, probes of nodes reach each other",
	} {
		of := func(name string) *Database {
			d := databaseNamed(name)
			d.Mesh = m
			return d
		}
		policies := slices.Concat(Policies(of("a"), surroundings()), Policies(of("b"), surroundings()))
		reaches := func(from, to string, number int32) bool {
			return connects(policies, everybody[from], everybody[to], port{number, corev1.ProtocolTCP})
		}
		var got []string
		if reaches("node of a", "pod of the namespace", controlPlane) && reaches("worker on a", "pod of the namespace", controlPlane) {
			got = append(got, "node and worker reach the control plane")
		}
		if reaches("node of a", "another node of a", tunnels) {
			got = append(got, "tunnels between nodes")
		}
		if reaches("worker on a", "node of a", tunnels) {
			got = append(got, "from workers to nodes")
		}
		probed := func(from string) bool {
			return reaches(from, "node of a", ports.Probe) || connects(policies, everybody[from], everybody["node of a"], port{ports.Probe, corev1.ProtocolUDP})
		}
		if reaches("another node of a", "node of a", ports.Probe) && connects(policies, everybody["another node of a"], everybody["node of a"], port{ports.Probe, corev1.ProtocolUDP}) {
			got = append(got, "probes of nodes reach each other")
		}
		for _, from := range []string{"node of b", "worker on a", "stranger"} {
			if probed(from) {
				got = append(got, "probes of a "+from)
			}
		}
		for _, pair := range [][2]string{{"node of a", "worker on a"}, {"node of b", "node of a"}, {"worker on b", "node of a"}, {"stranger", "node of a"}, {"node of a", "the Internet"}} {
			if reaches(pair[0], pair[1], tunnels) {
				got = append(got, "a tunnel from "+pair[0]+" to "+pair[1])
			}
		}
		if reaches("stranger", "node of a", mesh.StatsPort) && reaches("operator", "node of a", mesh.StatsPort) {
			got = append(got, "counters for everybody")
		}
		c := surroundings()
		c.MetricsFrom = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"}}}}
		policies = Policies(of("a"), c)
		if reaches("Prometheus", "node of a", mesh.StatsPort) && reaches("operator", "node of a", mesh.StatsPort) && !reaches("stranger", "node of a", mesh.StatsPort) {
			got = append(got, "with Prometheus for it and the operator")
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("mesh %q: %s; want %s", m, got, want)
		}
	}
}

// Without policies every endpoint reaches every port, so all restrictions in the tables result from the policies.
func TestReachWithoutPolicies(t *testing.T) {
	for from := range everybody {
		if got := reach(nil, from, "node of a"); got != "all" {
			t.Errorf("%s reaches %s", from, got)
		}
	}
}

func TestNames(t *testing.T) {
	d := databaseNamed("a")
	got := Policies(d, surroundings())
	if len(got) != 2 || got[0].Name != "a-nodes" || got[1].Name != "a-workers" {
		t.Fatalf("policies %v, want a-nodes and a-workers", got)
	}
	for _, p := range got {
		if p.Namespace != "lab" || p.Labels["a"] != "b" {
			t.Errorf("policy %s is in namespace %s with labels %v", p.Name, p.Namespace, p.Labels)
		}
	}
	d.Elsewhere = true
	if got := Policies(d, surroundings()); len(got) != 1 || got[0].Name != "a-workers" {
		t.Errorf("policies of a database that runs elsewhere %v, want a-workers alone", got)
	}
}

// A policy for a database that runs elsewhere opens only networks that the administrator has permitted. It opens
// nothing else that the administrator's own policies close.
func TestDefaultDenyStays(t *testing.T) {
	deny := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny", Namespace: "lab"},
		Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}
	d := databaseNamed("a")
	d.Elsewhere, d.Endpoints = true, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:443"), netip.MustParseAddrPort("[::ffff:192.0.2.1]:6443")}
	for _, test := range []struct {
		external []string
		want     string
	}{{nil, ""}, {[]string{"192.0.2.0/24"}, dnsPorts + " 443 6443"}} {
		c := surroundings()
		c.ExternalCIDRs = test.external
		if got := reach(append(Policies(d, c), deny), "worker on a", "the Internet"); got != test.want {
			t.Errorf("with %v a worker reaches %q of the Internet, want %q", test.external, got, test.want)
		}
		if got := reach(append(Policies(d, c), deny), "worker on a", "pod of the namespace"); got != strings.TrimSuffix(test.want, " 443 6443") {
			t.Errorf("with %v a worker reaches %q of another pod", test.external, got)
		}
	}
}
