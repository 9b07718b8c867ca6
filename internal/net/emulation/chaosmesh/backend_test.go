package chaosmesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/emulation"
)

// fakeCluster stores NetworkChaos objects. Deleted objects remain until chaosMesh releases them, as objects with
// finalizers do.
type fakeCluster struct {
	objects map[string]*unstructured.Unstructured
	now     time.Time
	log     []string
}

func (f *fakeCluster) Get(context.Context, string, string, emulation.Object) error {
	return errors.New("not used")
}
func (f *fakeCluster) Ensure(context.Context, emulation.Object) error { return errors.New("not used") }

func (f *fakeCluster) List(_ context.Context, _ string, _ map[string]string, into runtime.Object) error {
	list := into.(*unstructured.UnstructuredList)
	for _, o := range f.objects {
		list.Items = append(list.Items, *o.DeepCopy())
	}
	return nil
}

func (f *fakeCluster) Create(_ context.Context, o emulation.Object) error {
	u := o.(*unstructured.Unstructured).DeepCopy()
	if f.objects[u.GetName()] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, u.GetName())
	}
	u.SetFinalizers([]string{"chaos-mesh/records"})
	f.objects[u.GetName()] = u
	f.log = append(f.log, "create "+u.GetLabels()[LabelSource])
	return nil
}

func (f *fakeCluster) Delete(_ context.Context, o emulation.Object) error {
	at := metav1.NewTime(f.now)
	f.objects[o.GetName()].SetDeletionTimestamp(&at)
	f.log = append(f.log, "delete "+o.GetLabels()[LabelSource])
	return nil
}

func (f *fakeCluster) Patch(_ context.Context, o emulation.Object, patch []byte) error {
	var p struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return err
	}
	if _, ok := p.Metadata["finalizers"]; ok {
		delete(f.objects, o.GetName())
		f.log = append(f.log, "take finalizers")
		return nil
	}
	f.objects[o.GetName()].SetAnnotations(map[string]string{ForceFinalizer: Forced})
	f.log = append(f.log, "force")
	return nil
}

// chaosMesh simulates Chaos Mesh: it injects existing objects and releases deleted objects.
func (f *fakeCluster) chaosMesh(t *testing.T) {
	t.Helper()
	for name, o := range f.objects {
		if o.GetDeletionTimestamp() != nil {
			delete(f.objects, name)
			continue
		}
		conditions := []any{map[string]any{"type": "Selected", "status": "True"}, map[string]any{"type": "AllInjected", "status": "True"}}
		if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	}
}

func threeRegions() *emulation.Network {
	link := func(ms int) emulation.Link {
		return emulation.Link{Link: geo.Link{Delay: time.Duration(ms) * time.Millisecond}}
	}
	n := &emulation.Network{Namespace: "ns", Database: "d", UID: "uid", Regions: []string{"a", "b", "c"}, Links: [][]emulation.Link{
		{{}, link(10), link(10)}, {link(10), {}, link(20)}, {link(10), link(20), {}},
	}}
	for _, r := range n.Regions {
		n.Pods = append(n.Pods, emulation.Pod{Name: "d-" + r, UID: "u-" + r, Region: r, Running: true})
	}
	return n
}

func TestLifeOfANetwork(t *testing.T) {
	f := &fakeCluster{objects: map[string]*unstructured.Unstructured{}, now: time.Unix(1000, 0)}
	b := &Backend{Cluster: f, Labels: map[string]string{"database": "d"}, RegionLabel: "region", Now: func() time.Time { return f.now }}
	n := threeRegions()
	ensure := func() {
		t.Helper()
		if err := b.Ensure(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	observe := func() emulation.State {
		t.Helper()
		s, err := b.Observe(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	logged := func(want ...string) {
		t.Helper()
		slices.Sort(f.log)
		if !slices.Equal(f.log, want) {
			t.Errorf("did %q, want %q", f.log, want)
		}
		f.log = nil
	}

	n.Pods[2].Running = false
	ensure()
	logged() // nothing is created before all pods run
	n.Pods[2].Running = true
	ensure()
	logged("create a", "create b", "create b", "create c", "create c") // a's links are equal, so they share an object
	if s := observe(); s.Injected || s.Reason != "ChaosNotInjected" || len(s.Missing) != 3 {
		t.Errorf("state %+v", s)
	}
	f.chaosMesh(t)
	if s := observe(); !s.Injected || s.Message != "5 NetworkChaos objects are injected into all of their pods" {
		t.Errorf("state %+v", s)
	}
	ensure()
	logged()

	// Replace a pod. All objects that selected the old pod are created again, but only once the old objects are gone.
	n.Pods[0].UID = "u-a2"
	ensure()
	logged("delete a", "delete b", "delete c")
	if s := observe(); s.Injected || len(s.Missing) != 3 {
		t.Errorf("state %+v", s)
	}
	ensure()
	logged()
	f.chaosMesh(t)
	ensure()
	logged("create a", "create b", "create c")
	f.chaosMesh(t)
	if s := observe(); !s.Injected {
		t.Errorf("state %+v", s)
	}

	// Merge a fault on a pair of regions into the object of the pair.
	n.Links[0][1].LossPPM = 20_000
	ensure()
	f.chaosMesh(t)
	ensure()
	logged("create a", "create a", "delete a")
	for _, o := range f.objects {
		loss, _, _ := unstructured.NestedString(o.Object, "spec", "loss", "loss")
		latency, _, _ := unstructured.NestedString(o.Object, "spec", "delay", "latency")
		if loss != "" && (loss != "2" || latency != "10000us") {
			t.Errorf("loss %s beside latency %s", loss, latency)
		}
	}

	// The objects have finalizers, so Release first forces the deletion and later removes the finalizers.
	for i, want := range [][]string{{"delete a", "delete a", "delete b", "delete b", "delete c", "delete c"}, {"force", "force", "force", "force", "force", "force"}, {"take finalizers", "take finalizers", "take finalizers", "take finalizers", "take finalizers", "take finalizers"}} {
		done, err := b.Release(t.Context(), n)
		if done || err != nil {
			t.Errorf("release %d: %t, %v", i, done, err)
		}
		logged(want...)
		f.now = f.now.Add(Patience + time.Second)
	}
	if done, err := b.Release(t.Context(), n); !done || err != nil {
		t.Errorf("release: %t, %v", done, err)
	}
}

func TestAtMostThirteenLinks(t *testing.T) {
	b := &Backend{}
	n := &emulation.Network{}
	for i := range MaxLinks + 2 {
		n.Regions = append(n.Regions, fmt.Sprintf("r%02d", i))
	}
	for range n.Regions {
		n.Links = append(n.Links, make([]emulation.Link, len(n.Regions)))
	}
	for i := range MaxLinks {
		n.Links[0][i+1].Delay = time.Duration(i+1) * time.Millisecond
	}
	n.Links[0][MaxLinks+1].Delay = time.Millisecond // equal to another link
	if err := b.Check(n); err != nil {
		t.Errorf("%d different links: %v", MaxLinks, err)
	}
	n.Links[0][MaxLinks+1].Delay = time.Hour
	if err := b.Check(n); err == nil || !strings.Contains(err.Error(), "14 different links leave region r00") || !strings.Contains(err.Error(), "choose emulation Sidecar") {
		t.Errorf("14 different links: %v", err)
	}
}

// A fault that cuts both directions needs one object. Two faults that each cut one direction need two objects.
func TestCuts(t *testing.T) {
	b := &Backend{}
	cut := func(by, from, to string) emulation.Cut {
		return emulation.Cut{From: strings.Fields(from), To: strings.Fields(to), By: by}
	}
	n := &emulation.Network{Namespace: "lab", UID: "u", Cuts: []emulation.Cut{
		cut("both", "a", "b c"), cut("both", "c b", "a"), cut("one", "b", "c"), cut("other", "c", "b"), cut("", "b", "d"), cut("", "d", "b"),
	}}
	var got []string
	names := map[string]bool{}
	for _, o := range b.Objects(n) {
		names[o.GetName()] = true
		direction, _, _ := unstructured.NestedString(o.Object, "spec", "direction")
		from, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", "lab")
		to, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "target", "selector", "pods", "lab")
		got = append(got, fmt.Sprint(from, " ", direction, " ", to))
	}
	if want := []string{"[a] both [b c]", "[b] to [c]", "[c] to [b]", "[b] to [d]", "[d] to [b]"}; !slices.Equal(got, want) || len(names) != len(want) {
		t.Errorf("got %q by %d names, want %q", got, len(names), want)
	}
}
