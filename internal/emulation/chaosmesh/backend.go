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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/emulation"
)

// MaxLinks is how many different links can leave a region: the kernel's prio qdisc has 16 bands, of which Chaos Mesh
// needs 3 for everything else.
const MaxLinks = 13

// LabelSource is the label, on a NetworkChaos, of the region that sends.
const LabelSource = "geobench.dev/source-region"

// Patience is how long an object may take to go away before it is forced to, and again before its finalizers are taken.
const Patience = 30 * time.Second

// Backend emulates a network by one NetworkChaos per region and distinct link that leaves it.
type Backend struct {
	Cluster emulation.Cluster
	// Labels are put on every object, and find them again.
	Labels map[string]string
	// PodLabels and RegionLabel find the pods of the network.
	PodLabels   map[string]string
	RegionLabel string
	Now         func() time.Time
}

// Name is ChaosMesh.
func (b *Backend) Name() v1alpha1.Emulation { return v1alpha1.EmulationChaosMesh }

// group is the regions that the same link leads to.
type group struct {
	link emulation.Link
	to   []string
}

// groups merges the links that leave a region.
func groups(n *emulation.Network, from int) []group {
	var out []group
	for to, l := range n.Links[from] {
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

// Check refuses a region with more different links than Chaos Mesh can tell apart.
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

// Prepare changes nothing: Chaos Mesh finds pods by their labels.
func (b *Backend) Prepare(*emulation.Network, string, *corev1.PodSpec) {}

// objects are what should be there. Their names stand for all that they say and for the pods that they hit: Chaos Mesh
// chooses pods once, when an object is made, so that other pods are another object.
func (b *Backend) objects(n *emulation.Network) []*unstructured.Unstructured {
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
				Name:      ObjectName(n.UID, region, strings.Join(g.to, ","), fmt.Sprintf("%+v", g.link), strings.Join(hit, ",")),
				Labels:    b.labels(region),
			}
			out = append(out, Delay(m, pods(region), pods(g.to...), g.link))
		}
	}
	for _, c := range n.Cuts {
		m := Meta{
			Namespace: n.Namespace,
			Name:      ObjectName(n.UID, "cut", strings.Join(sorted(c.From), ","), strings.Join(sorted(c.To), ",")),
			Labels:    b.labels("cut"),
		}
		out = append(out, Partition(m, Pods{Namespace: n.Namespace, Named: c.From}, Pods{Namespace: n.Namespace, Named: c.To}, true))
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

// list reads the objects of this network. Where Chaos Mesh is not installed there are none.
func (b *Backend) list(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(GroupVersion.WithKind(NetworkChaos + "List"))
	err := b.Cluster.List(ctx, namespace, b.Labels, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, errNotInstalled
	}
	return list.Items, err
}

var errNotInstalled = errors.New("no Chaos Mesh is installed: the API server knows no NetworkChaos")

// Ensure deletes what should not be there, waits until it is gone, since overlapping rules do not add up, and makes what is
// missing. It makes nothing before all pods run: an empty choice is never made again.
func (b *Backend) Ensure(ctx context.Context, n *emulation.Network) error {
	existing, err := b.list(ctx, n.Namespace)
	if errors.Is(err, errNotInstalled) {
		return nil // Observe says so
	}
	if err != nil {
		return err
	}
	desired := map[string]*unstructured.Unstructured{}
	for _, o := range b.objects(n) {
		desired[o.GetName()] = o
	}
	leaving := map[string]bool{}
	for i := range existing {
		o := &existing[i]
		if desired[o.GetName()] != nil && o.GetDeletionTimestamp() == nil {
			delete(desired, o.GetName())
			continue
		}
		leaving[o.GetLabels()[LabelSource]] = true
		if err := b.remove(ctx, o); err != nil {
			return err
		}
	}
	for _, p := range n.Pods {
		if !p.Running {
			return nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		o := desired[name]
		if leaving[o.GetLabels()[LabelSource]] {
			continue
		}
		if err := b.Cluster.Create(ctx, o); err != nil {
			return fmt.Errorf("NetworkChaos %s: %w", name, err)
		}
	}
	return nil
}

// remove deletes an object, and forces it when that takes too long: first by Chaos Mesh's own annotation, then by taking
// its finalizers, which is the only thing that helps where the kernel cannot undo what it never did.
func (b *Backend) remove(ctx context.Context, o *unstructured.Unstructured) error {
	var err error
	switch since := o.GetDeletionTimestamp(); {
	case since == nil:
		err = b.Cluster.Delete(ctx, o)
	case b.Now().Sub(since.Time) > 2*Patience && len(o.GetFinalizers()) > 0:
		err = b.Cluster.Patch(ctx, o, []byte(`{"metadata":{"finalizers":null}}`))
	case b.Now().Sub(since.Time) > Patience && o.GetAnnotations()[ForceFinalizer] != Forced:
		err = b.Cluster.Patch(ctx, o, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, ForceFinalizer, Forced))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Observe says whether every object is there and injected into every pod that it chose.
func (b *Backend) Observe(ctx context.Context, n *emulation.Network) (emulation.State, error) {
	existing, err := b.list(ctx, n.Namespace)
	if errors.Is(err, errNotInstalled) {
		return emulation.State{Reason: "ChaosMeshMissing", Message: err.Error()}, nil
	}
	if err != nil {
		return emulation.State{}, err
	}
	state := emulation.State{Injected: true, Reason: string(v1alpha1.EmulationChaosMesh), Missing: map[string]bool{}}
	problem := func(source, message string) {
		if state.Injected {
			state.Injected, state.Reason, state.Message = false, "ChaosNotInjected", message
		}
		for _, p := range n.PodsIn(source) {
			state.Missing[p.UID] = true
		}
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range existing {
		found[existing[i].GetName()] = &existing[i]
	}
	objects := b.objects(n)
	for _, want := range objects {
		source := want.GetLabels()[LabelSource]
		o := found[want.GetName()]
		delete(found, want.GetName())
		switch {
		case o == nil:
			problem(source, fmt.Sprintf("NetworkChaos %s, for what region %s sends, does not exist yet", want.GetName(), source))
		case o.GetDeletionTimestamp() != nil:
			problem(source, fmt.Sprintf("NetworkChaos %s, for what region %s sends, is being deleted", want.GetName(), source))
		default:
			if p := ReadStatus(o).Problem(); p != "" {
				problem(source, fmt.Sprintf("NetworkChaos %s, for what region %s sends: %s", o.GetName(), source, p))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		problem(found[name].GetLabels()[LabelSource], fmt.Sprintf("NetworkChaos %s, of an earlier network, is not gone yet", name))
	}
	if state.Injected {
		state.Message = fmt.Sprintf("%d NetworkChaos objects are injected into all of their pods", len(objects))
	}
	return state, nil
}

// Release deletes every object of the network, forcing those that do not go.
func (b *Backend) Release(ctx context.Context, n *emulation.Network) (bool, error) {
	existing, err := b.list(ctx, n.Namespace)
	if errors.Is(err, errNotInstalled) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var stuck []string
	for i := range existing {
		o := &existing[i]
		if err := b.remove(ctx, o); err != nil {
			return false, err
		}
		if since := o.GetDeletionTimestamp(); since != nil && b.Now().Sub(since.Time) > 3*Patience {
			stuck = append(stuck, o.GetName())
		}
	}
	if len(stuck) > 0 {
		return false, &emulation.StuckError{What: fmt.Sprintf("NetworkChaos %s did not go away within %s although forced to; look at its pods' queueing disciplines", strings.Join(stuck, ", "), 3*Patience)}
	}
	return len(existing) == 0, nil
}
