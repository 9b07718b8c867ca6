package chaosmesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/emulation"
)

// MaxLinks is the maximum number of distinct links that leave a region. The kernel's prio qdisc has 16 bands, and Chaos
// Mesh uses 3 of them for all other packets.
const MaxLinks = 13

// LabelSource is a label of a NetworkChaos object. Its value is the sending region, or "cut" for a Cut.
const LabelSource = "geobench.dev/source-region"

// Patience is the time after which a pending deletion is forced. If the object still exists after twice this time, its
// finalizers are removed.
const Patience = 30 * time.Second

// Backend emulates a network with a NetworkChaos for each region and distinct link that leaves the region.
type Backend struct {
	Cluster emulation.Cluster
	// Labels are put on every object; they also select the network's objects.
	Labels map[string]string
	// PodLabels select the pods of the network. RegionLabel is the label whose value is a pod's region.
	PodLabels   map[string]string
	RegionLabel string
	// Ceiling is Meta.Ceiling of every object.
	Ceiling time.Duration
	Now     func() time.Time
}

// Name returns EmulationChaosMesh.
func (b *Backend) Name() v1alpha1.Emulation { return v1alpha1.EmulationChaosMesh }

// group is a set of destination regions to which a region has equal links.
type group struct {
	link emulation.Link
	to   []string
}

// groups groups the destinations of a region by equal links.
func groups(n *emulation.Network, from int) []group {
	var out []group
	for to, l := range n.Links[from] {
		// A region with fewer than two pods has no packets between its pods.
		if l.Plain() || to == from && len(n.PodsIn(n.Regions[to])) < 2 {
			continue
		}
		i := slices.IndexFunc(out, func(g group) bool { return g.link == l })
		if i < 0 {
			out = append(out, group{link: l})
			i = len(out) - 1
		}
		out[i].to = append(out[i].to, n.Regions[to])
	}
	return out
}

// Check returns an error if more distinct links leave a region than Chaos Mesh supports.
func (b *Backend) Check(n *emulation.Network) error {
	for from, region := range n.Regions {
		different := map[emulation.Link]bool{}
		for _, l := range n.Links[from] {
			if !l.Plain() {
				different[l] = true
			}
		}
		if len(different) > MaxLinks {
			return fmt.Errorf("spec.network: %d different links leave region %s, and Chaos Mesh can tell at most %d apart; give some of them the same rtt, jitter, lossPPM and bandwidthMbps, or choose emulation Sidecar",
				len(different), region, MaxLinks)
		}
	}
	return nil
}

// Prepare does nothing: Chaos Mesh selects pods by their labels.
func (b *Backend) Prepare(*emulation.Network, string, *corev1.PodSpec) {}

// Objects returns the desired objects. The name of an object encodes its content and the UIDs of its pods. Chaos Mesh
// selects pods only when an object is created, so a change of the pods requires a new object.
func (b *Backend) Objects(n *emulation.Network) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	pods := func(regions ...string) Pods {
		return Pods{Namespace: n.Namespace, Labels: b.PodLabels, RegionLabel: b.RegionLabel, Regions: regions}
	}
	for from, region := range n.Regions {
		for _, g := range groups(n, from) {
			var hit []string
			for _, r := range append([]string{region}, g.to...) {
				for _, p := range n.PodsIn(r) {
					hit = append(hit, p.UID)
				}
			}
			m := Meta{
				Namespace: n.Namespace,
				// Include the pods' UIDs in the name. A replacement of a pod has none of the rules, so the objects for the pod must
				// be created again.
				Name:   ObjectName(n.UID, region, strings.Join(g.to, ","), fmt.Sprintf("%+v", g.link), strings.Join(hit, ",")),
				Labels: b.labels(region), Ceiling: b.Ceiling,
			}
			// A link with only a rate needs no netem, which some kernels lack.
			if g.link == (emulation.Link{Link: geo.Link{BandwidthMbps: g.link.BandwidthMbps}}) {
				out = append(out, Bandwidth(m, pods(region), pods(g.to...), g.link.BandwidthMbps))
				continue
			}
			out = append(out, Delay(m, pods(region), pods(g.to...), g.link))
		}
	}
	for i, c := range n.Cuts {
		// Use one object for both directions of a fault, because two objects take Chaos Mesh twice as long. Never merge the
		// cuts of two faults: they start and stop independently, and replacing one object with another would leave a gap.
		from, to := sorted(c.From), sorted(c.To)
		back := slices.IndexFunc(n.Cuts, func(o emulation.Cut) bool {
			return o.By != "" && o.By == c.By && slices.Equal(sorted(o.From), to) && slices.Equal(sorted(o.To), from)
		})
		// The object of the earlier cut also covers this direction.
		if back >= 0 && back < i {
			continue
		}
		what := "cut"
		if back > i {
			what = "cut both"
		}
		m := Meta{
			Namespace: n.Namespace,
			Name:      ObjectName(n.UID, what, strings.Join(from, ","), strings.Join(to, ",")),
			Labels:    b.labels("cut"), Ceiling: b.Ceiling,
		}
		out = append(out, Partition(m, Pods{Namespace: n.Namespace, Named: c.From}, Pods{Namespace: n.Namespace, Named: c.To}, back < 0))
	}
	return out
}

func (b *Backend) labels(source string) map[string]string {
	l := maps.Clone(b.Labels)
	if l == nil {
		l = map[string]string{}
	}
	l[LabelSource] = source
	return l
}

// set returns the Set of all objects of this network.
func (b *Backend) set() *Set {
	return &Set{Cluster: b.Cluster, Kinds: []string{NetworkChaos}, Labels: b.Labels, Now: b.Now}
}

func source(o *unstructured.Unstructured) string { return o.GetLabels()[LabelSource] }

// Ensure deletes unwanted objects, waits until they are gone, and creates missing objects. It creates nothing until all
// pods run, because Chaos Mesh never repeats an empty selection.
func (b *Backend) Ensure(ctx context.Context, n *emulation.Network) error {
	hold := slices.ContainsFunc(n.Pods, func(p emulation.Pod) bool { return !p.Running })
	err := b.set().Ensure(ctx, n.Namespace, b.Objects(n), source, hold)
	if errors.Is(err, ErrNotInstalled) {
		return nil // Observe reports it
	}
	return err
}

// Observe reports whether every object exists and is injected into all pods that it selected.
func (b *Backend) Observe(ctx context.Context, n *emulation.Network) (emulation.State, error) {
	objects := b.Objects(n)
	flaws, err := b.set().Flaws(ctx, n.Namespace, objects)
	if errors.Is(err, ErrNotInstalled) {
		return emulation.State{Reason: "ChaosMeshMissing", Message: err.Error()}, nil
	}
	if err != nil {
		return emulation.State{}, err
	}
	state := emulation.State{Injected: true, Reason: string(v1alpha1.EmulationChaosMesh), Missing: map[string]bool{},
		Message: fmt.Sprintf("%d NetworkChaos objects are injected into all of their pods", len(objects))}
	for _, f := range flaws {
		// The first flaw determines the message; all flaws count for Missing.
		if state.Injected {
			state.Injected, state.Reason = false, "ChaosNotInjected"
			state.Message = fmt.Sprintf("NetworkChaos %s, for what region %s sends: %s", f.Object.GetName(), source(f.Object), f.Problem)
		}
		for _, p := range n.PodsIn(source(f.Object)) {
			state.Missing[p.UID] = true
		}
	}
	return state, nil
}

// Release deletes all objects of the network, and forces the deletion of objects that remain.
func (b *Backend) Release(ctx context.Context, n *emulation.Network) (bool, error) {
	return b.set().Release(ctx, n.Namespace)
}
