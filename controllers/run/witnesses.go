package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/ping"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// meters contains the readings of a witness at one time. A witness is a component that counts the bytes between nodes,
// such as the proxies of a mesh.
type meters struct {
	Meters []result.Meter `json:"meters,omitempty"`
	// Unread is the reason why there are no readings.
	Unread string `json:"unread,omitempty"`
	// Late is set if the counters lag behind the carried bytes, by up to mesh.ReportsEvery.
	Late bool `json:"late,omitempty"`
}

// readMeters reads the counters of the service mesh that carries the nodes' messages, and of the sidecars that emulate
// the network. Both results are nil without a mesh. A witness that does not answer does not fail the run.
func (s *scope) readMeters(ctx context.Context, gone []geo.NodeID) (ofMesh, ofEmulator *meters) {
	pods := make([]*corev1.Pod, 0, len(s.nodes))
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Pod != nil && !slices.Contains(gone, n.ID) {
			pods = append(pods, n.Pod)
		}
	}
	if len(pods) == 0 {
		return nil, nil
	}
	switch mesh.Of(pods[0]).Mode {
	case v1alpha1.MeshSidecar:
		ofMesh = s.readProxies(ctx, gone)
	case v1alpha1.MeshAmbient:
		ofMesh = s.readZtunnels(ctx)
	default:
		return nil, nil
	}
	if s.current.Emulation() == v1alpha1.EmulationSidecar {
		ofEmulator = s.readEmulators(ctx, gone)
	}
	return ofMesh, ofEmulator
}

// ofNodes reads one meter per node pod. It stops after the first failure, because the remaining readings would be
// useless. A node that a fault has removed has no counters, which counts as a failure.
func (s *scope) ofNodes(who string, gone []geo.NodeID, read func(region string, pod *corev1.Pod) (result.Meter, error)) *meters {
	out := &meters{Meters: make([]result.Meter, len(s.nodes))}
	unread := make([]error, len(s.nodes))
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(podclient.AtOnce)
	t := &s.current.Database.Topology
	for i := range s.nodes {
		n := &s.nodes[i]
		group.Go(func() error {
			var err error
			switch m := &out.Meters[i]; {
			case failed.Load():
				return nil
			case slices.Contains(gone, n.ID):
				err = errors.New("a fault has taken it")
			case n.Pod == nil || n.Pod.Status.PodIP == "":
				err = errors.New("the pod is not there")
			default:
				*m, err = read(t.Regions[t.RegionOf(n.ID)], n.Pod)
				m.Who = fmt.Sprintf("the %s of pod %s", who, n.PodName)
			}
			if err != nil {
				unread[i] = fmt.Errorf("the %s of pod %s: %w", who, n.PodName, err)
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in unread
	if i := slices.IndexFunc(unread, func(err error) bool { return err != nil }); i >= 0 {
		return &meters{Unread: unread[i].Error()}
	}
	return out
}

// readProxies reads the counters of the proxies in the nodes' pods.
func (s *scope) readProxies(ctx context.Context, gone []geo.NodeID) *meters {
	nodes := database.MeshNodes(s.db)
	out := s.ofNodes("proxy", gone, func(region string, pod *corev1.Pod) (result.Meter, error) {
		m, err := s.readCarried(ctx, pod.Status.PodIP, mesh.StatsPort, mesh.StatsPath, nodes, region)
		m.Process = fmt.Sprintf("%s/%d", pod.UID, mesh.Of(pod).Restarts)
		return m, err
	})
	out.Late = slices.ContainsFunc(out.Meters, countsByIstio)
	return out
}

func countsByIstio(m result.Meter) bool { return m.Counters == string(mesh.CountersIstio) }

// readZtunnels reads the counters of the ztunnel proxies on the machines of the nodes.
func (s *scope) readZtunnels(ctx context.Context) *meters {
	pods := &corev1.PodList{}
	err := s.Live.List(ctx, pods, client.InNamespace(mesh.RootNamespace), client.MatchingLabels(mesh.Ztunnels))
	switch {
	case apierrors.IsForbidden(err):
		return &meters{Unread: fmt.Sprintf("the operator may not list the pods of namespace %s, where the proxies of machines are: mesh.readZtunnels of the chart lets it", mesh.RootNamespace)}
	case err != nil:
		return &meters{Unread: "the proxies of machines are not known: " + err.Error()}
	}
	machines := map[string]bool{}
	for i := range s.nodes {
		if pod := s.nodes[i].Pod; pod != nil {
			machines[pod.Spec.NodeName] = true
		}
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !machines[p.Spec.NodeName] || p.DeletionTimestamp != nil })
	if len(pods.Items) == 0 {
		return &meters{Unread: fmt.Sprintf("namespace %s has no pods of ztunnel on the machines of the nodes", mesh.RootNamespace)}
	}
	nodes := database.MeshNodes(s.db)
	out := &meters{Meters: make([]result.Meter, len(pods.Items))}
	var group errgroup.Group
	group.SetLimit(podclient.AtOnce)
	for i := range pods.Items {
		pod, m := &pods.Items[i], &out.Meters[i]
		group.Go(func() error {
			got, err := s.readCarried(ctx, pod.Status.PodIP, mesh.ZtunnelPort, mesh.ZtunnelPath, nodes, "")
			if err != nil {
				got = result.Meter{Problem: err.Error()}
			}
			got.Who, got.Process = "ztunnel pod "+pod.Name, string(pod.UID)
			for _, c := range pod.Status.ContainerStatuses {
				got.Process += fmt.Sprintf("/%d", c.RestartCount)
			}
			*m = got
			return nil
		})
	}
	_ = group.Wait() // errors are in the meters
	return out
}

func (s *scope) readEmulators(ctx context.Context, gone []geo.NodeID) *meters {
	return s.ofNodes("emulator", gone, func(region string, pod *corev1.Pod) (result.Meter, error) {
		status, err := s.Pods.Sidecars(s.db.UID).Status(ctx, address(pod.Status.PodIP, ports.WANAdmin))
		if err != nil {
			return result.Meter{}, err
		}
		m := result.Meter{Process: status.Process}
		for _, l := range status.Links {
			if s.current.Database.Topology.Index(l.From) >= 0 { // omits links of network partitions, which pass nothing
				m.Links = append(m.Links, result.Traffic{From: l.From, To: region, Bytes: int64(l.Bytes)})
			}
		}
		return m, nil
	})
}

func (s *scope) readCarried(ctx context.Context, ip string, port int, path string, nodes *mesh.Nodes, region string) (m result.Meter, err error) {
	err = s.Pods.Proxies().Counters(ctx, address(ip, port), path, func(text io.Reader) error {
		carried, err := mesh.ReadCarried(text, nodes, region)
		if err != nil {
			return err
		}
		m = result.Meter{Counters: string(carried.Counters)}
		for _, l := range carried.Links {
			m.Links = append(m.Links, result.Traffic(l))
		}
		return nil
	})
	return m, err
}

func address(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

// readings returns the counts of each witness before and after the run, or nil if no mesh carried the messages.
func (s *scope) readings(before, after *snapshot) (out []result.Readings) {
	add := func(name result.WitnessName, counts string, before, after *meters) {
		if before == nil && after == nil {
			return
		}
		r := result.Readings{Witness: name, Counts: counts}
		if before != nil {
			r.Before, r.Unread = before.Meters, before.Unread
		}
		if after != nil {
			r.After, r.Unread = after.Meters, cmp.Or(r.Unread, after.Unread)
		}
		out = append(out, r)
	}
	add(result.WitnessMesh, result.CountsPayload, before.Mesh, after.Mesh)
	add(result.WitnessEmulator, result.CountsPackets, before.Emulator, after.Emulator)
	for i := range out {
		if out[i].Witness == result.WitnessMesh {
			out[i].Besides = s.probes(out[i].Before, after.TakenAt.Sub(before.TakenAt))
		}
	}
	return out
}

// probes returns the traffic that the nodes' probes have sent each other through the mesh. It must be subtracted from
// Istio's counters, which do not distinguish ports. The result is nil for other counters.
func (s *scope) probes(of []result.Meter, lasted time.Duration) (out []result.Traffic) {
	d := &s.current.Database
	if !d.Meshed || !slices.ContainsFunc(of, countsByIstio) {
		return nil
	}
	nodes := map[string]int64{}
	for i := range s.nodes {
		nodes[d.Topology.Regions[d.Topology.RegionOf(s.nodes[i].ID)]]++
	}
	for _, from := range d.Topology.Regions {
		for _, to := range d.Topology.Regions {
			out = append(out, result.Traffic{From: from, To: to, Bytes: ping.ThroughMesh(lasted) * nodes[from] * nodes[to]})
		}
	}
	return out
}
