package mesh

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Addresses at which proxies publish their counters, in the text format of Prometheus.
const (
	// StatsPort and StatsPath are the address of Istio's proxies in pods. By default, the mesh exempts the port.
	StatsPort = 15090
	StatsPath = "/stats/prometheus?filter=tcp_(sent%7Creceived)_bytes_total%7Cupstream_cx_(tx%7Crx)_bytes_total"
	// ZtunnelPort and ZtunnelPath are the address of ztunnel, the proxy on machines. Its pods have the labels Ztunnels, in
	// RootNamespace.
	ZtunnelPort = 15020
	ZtunnelPath = "/metrics"
)

// Ztunnels are the labels of the proxies on machines.
var Ztunnels = map[string]string{"app": "ztunnel"}

// ReportsEvery is the maximum delay with which Istio's proxies in pods report the bytes of an open connection. It is
// the sum of tcp_reporting_duration, which is 5 s by default, and one second for the report. The counters of Envoy and
// ztunnel are always current.
const ReportsEvery = 6 * time.Second

// Nodes describes the nodes of a database by the names that occur in proxies' counters.
type Nodes struct {
	Namespace string
	// Regions maps the names of workloads and Services to regions.
	Regions map[string]string
	// Ports are the ports on which nodes accept connections from each other.
	Ports []int32
}

// Carried is the traffic between nodes that a proxy has carried since its counters started.
type Carried struct {
	// Counters is the kind of counters from which the traffic was read.
	Counters Counters
	// Links are sorted by the names of their regions.
	Links []CarriedLink
}

// Counters names a kind of proxy counters.
type Counters string

// Kinds of counters. Istio's counters name both ends of a connection, but not the port. Envoy's counters name the port.
const (
	CountersIstio Counters = "istio_tcp_*_bytes_total"
	CountersEnvoy Counters = "envoy_cluster_upstream_cx_*_bytes_total"
)

// CarriedLink is the traffic in one direction of a link. A region is empty if the counters do not state it.
type CarriedLink struct {
	From, To string
	Bytes    int64
}

// ErrUncounted is the error for a proxy without counters of the traffic between nodes.
var ErrUncounted = errors.New("it has neither " + string(CountersIstio) + " nor " + string(CountersEnvoy) + " of clusters that lead to the ports of nodes")

// longestLine is the maximum length of a line of counters in bytes. No proxy writes a longer line.
const longestLine = 64 << 10

// ReadCarried reads the counters of a proxy. own is the region of the proxy's pod; it is empty for a proxy on a
// machine.
//
// In Istio's metrics, "sent" is the data that the server of a connection sends, and "received" the data that the server
// receives. This does not depend on which end reports. So received data flows from source to destination, and sent data
// flows back. Both ends report a connection; ReadCarried uses the report of the source.
//
// Without Istio's filter there are only Envoy's counters. ReadCarried uses the counters of clusters that lead to the
// nodes' ports. Istio names these clusters outbound|PORT|SUBSET|HOST.
func ReadCarried(text io.Reader, n *Nodes, own string) (*Carried, error) {
	istio, envoy := map[[2]string]int64{}, map[[2]string]int64{}
	hasIstio, hasEnvoy := false, false
	clusters := map[string]bool{}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, longestLine)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	for lines.Scan() {
		metric, line := lines.Text(), lines.Text()
		if i := strings.IndexAny(metric, "{ "); i >= 0 {
			metric = metric[:i]
		}
		var add func(labels map[string]string, bytes int64)
		switch metric {
		case "istio_tcp_received_bytes_total", "istio_tcp_sent_bytes_total":
			hasIstio = true
			add = func(l map[string]string, bytes int64) {
				from, to, ok := n.between(l)
				if !ok {
					return
				}
				if metric == "istio_tcp_sent_bytes_total" {
					from, to = to, from
				}
				istio[[2]string{from, to}] += bytes
			}
		case "envoy_cluster_upstream_cx_tx_bytes_total", "envoy_cluster_upstream_cx_rx_bytes_total":
			add = func(l map[string]string, bytes int64) {
				name := cmp.Or(l["envoy_cluster_name"], l["cluster_name"])
				peer, ok := n.cluster(name)
				// Unless the proxy's region is known, Envoy's counters name only one end of the traffic.
				if !ok || own == "" {
					clusters[name] = true
					return
				}
				hasEnvoy = true
				from, to := own, peer
				if metric == "envoy_cluster_upstream_cx_rx_bytes_total" {
					from, to = to, from
				}
				envoy[[2]string{from, to}] += bytes
			}
		// Parse only these lines, because a proxy may publish thousands of other lines.
		default:
			continue
		}
		families, err := parser.TextToMetricFamilies(strings.NewReader(line + "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		for _, m := range families[metric].GetMetric() {
			labels := map[string]string{}
			for _, p := range m.GetLabel() {
				labels[p.GetName()] = p.GetValue()
			}
			bytes := value(m)
			if !(bytes >= 0 && bytes <= 1<<62) { // also rejects NaN
				return nil, fmt.Errorf("line %.200q: %g is no number of bytes", line, bytes)
			}
			add(labels, int64(bytes))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	switch {
	// Prefer Istio's counters, because they name the regions of both ends.
	case hasIstio:
		return &Carried{CountersIstio, links(istio)}, nil
	case hasEnvoy:
		return &Carried{CountersEnvoy, links(envoy)}, nil
	}
	if len(clusters) > 0 {
		names := slices.Sorted(maps.Keys(clusters))
		return nil, fmt.Errorf("%w; it has some of %.200q", ErrUncounted, strings.Join(names[:min(len(names), 3)], ", "))
	}
	return nil, ErrUncounted
}

// between returns the regions of the source and the destination of a connection between nodes, given the labels of
// Istio's metrics. ok is false unless the source has reported the metrics and both ends are nodes.
func (n *Nodes) between(l map[string]string) (from, to string, ok bool) {
	if l["reporter"] != "source" || l["source_workload_namespace"] != n.Namespace {
		return "", "", false
	}
	// A proxy learns the name of the remote workload from the remote proxy. If there is no remote proxy, it knows only the
	// Service.
	where, namespace := l["destination_workload"], l["destination_workload_namespace"]
	if where == "" || where == "unknown" {
		where, namespace = l["destination_service_name"], l["destination_service_namespace"]
	}
	if namespace != n.Namespace {
		return "", "", false
	}
	from, to = n.Regions[l["source_workload"]], n.Regions[where]
	return from, to, from != "" && to != ""
}

// cluster reports whether an Envoy cluster leads to nodes. It also returns the nodes' region if the cluster's name
// contains it.
func (n *Nodes) cluster(name string) (region string, ok bool) {
	parts := strings.Split(strings.TrimRight(name, ";"), "|")
	if len(parts) != 4 || parts[0] != "outbound" {
		return "", false
	}
	port, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || !slices.Contains(n.Ports, int32(port)) {
		return "", false
	}
	host, domain, qualified := strings.Cut(parts[3], ".")
	if qualified {
		namespace, _, _ := strings.Cut(domain, ".")
		if region = n.Regions[host]; region == "" || namespace != n.Namespace {
			return "", false // another Service with the same port
		}
	}
	return region, true
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue()
	}
	return m.GetGauge().GetValue()
}

func links(bytes map[[2]string]int64) (out []CarriedLink) {
	for at, n := range bytes {
		out = append(out, CarriedLink{at[0], at[1], n})
	}
	slices.SortFunc(out, func(a, b CarriedLink) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}
