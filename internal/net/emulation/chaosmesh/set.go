package chaosmesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/geobench/geobench/internal/net/emulation"
)

// ErrNotInstalled is returned if the API server does not know one or more of a Set's kinds.
var ErrNotInstalled = errors.New("no Chaos Mesh is installed")

// Set is the set of all objects of certain kinds with certain labels.
type Set struct {
	Cluster emulation.Cluster
	Kinds   []string
	// Labels are put on every object; they also select the objects of the set.
	Labels map[string]string
	Now    func() time.Time
	// Abandon, if not nil, is called before the deletion of an object is forced. pods are the pods that the object may
	// still affect: its rules, processes and clock offsets may remain there permanently. Abandon should therefore replace
	// each of these pods that started before the given time.
	Abandon func(ctx context.Context, namespace string, pods []string, before time.Time) error
}

// List reads the objects. If the API server does not know a kind, List returns ErrNotInstalled along with the objects
// of the other kinds.
func (s *Set) List(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	var missing error
	for _, kind := range s.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(GroupVersion.WithKind(kind + "List"))
		err := s.Cluster.List(ctx, namespace, s.Labels, list)
		// In a cluster without the CRD, the API server does not know the resource. This is not a failure of the request.
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			missing = fmt.Errorf("%w: the API server knows no %s", ErrNotInstalled, kind)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, list.Items...)
	}
	return out, missing
}

func key(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// Ensure deletes unwanted objects, waits until they are gone, and creates missing objects. A missing object is not
// created while another object of its group is being deleted, because Chaos Mesh does not combine overlapping rules. If
// hold is set, Ensure creates nothing.
func (s *Set) Ensure(ctx context.Context, namespace string, desired []*unstructured.Unstructured, group func(*unstructured.Unstructured) string, hold bool) error {
	existing, err := s.List(ctx, namespace)
	if err != nil {
		return err
	}
	missing := map[string]*unstructured.Unstructured{}
	for _, o := range desired {
		missing[key(o)] = o
	}
	leaving := map[string]bool{}
	for i := range existing {
		o := &existing[i]
		// A wanted object that is being deleted cannot be kept; create it again once it is gone.
		if missing[key(o)] != nil && o.GetDeletionTimestamp() == nil {
			delete(missing, key(o))
			continue
		}
		leaving[group(o)] = true
		if err := s.remove(ctx, o); err != nil {
			return err
		}
	}
	if hold {
		return nil
	}
	// Sort, so that the order of requests is deterministic.
	for _, k := range slices.Sorted(maps.Keys(missing)) {
		o := missing[k]
		if leaving[group(o)] {
			continue
		}
		if err := s.Cluster.Create(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// A Flaw is a defect of an object in a Set.
type Flaw struct {
	Object  *unstructured.Unstructured
	Problem string
	// Leaving is set if the object should not exist any more.
	Leaving bool
}

// Flaws returns a Flaw for each desired object that is not injected into every pod that it selected. It also returns a
// Flaw for each existing object that is not desired.
func (s *Set) Flaws(ctx context.Context, namespace string, desired []*unstructured.Unstructured) ([]Flaw, error) {
	existing, err := s.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range existing {
		found[key(&existing[i])] = &existing[i]
	}
	var out []Flaw
	for _, want := range desired {
		o := found[key(want)]
		delete(found, key(want))
		switch {
		case o == nil:
			out = append(out, Flaw{Object: want, Problem: "does not exist yet"})
		case o.GetDeletionTimestamp() != nil:
			out = append(out, Flaw{Object: want, Problem: "is being deleted"})
		default:
			if p := ReadStatus(o).Problem(); p != "" {
				out = append(out, Flaw{Object: o, Problem: p})
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(found)) {
		out = append(out, Flaw{Object: found[k], Problem: "is not gone yet", Leaving: true})
	}
	return out, nil
}

// remove deletes an object, and forces the deletion if it takes too long. It first sets Chaos Mesh's annotation
// ForceFinalizer and later removes the finalizers. There is no other way if Chaos Mesh cannot revert a change because
// it never made the change.
func (s *Set) remove(ctx context.Context, o *unstructured.Unstructured) error {
	since := o.GetDeletionTimestamp()
	if since == nil {
		err := s.Cluster.Delete(ctx, o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	// Without finalizers, the API server deletes the object on its own.
	if s.Now().Sub(since.Time) <= Patience || len(o.GetFinalizers()) == 0 {
		return nil
	}
	// Abandon the pods before the object is gone, because only the object's status lists them.
	if held := held(o); s.Abandon != nil && len(held) > 0 {
		if err := s.Abandon(ctx, o.GetNamespace(), held, since.Time); err != nil {
			return err
		}
	}
	var err error
	switch {
	case s.Now().Sub(since.Time) > 2*Patience:
		err = s.Cluster.Patch(ctx, o, []byte(`{"metadata":{"finalizers":null}}`))
	case o.GetAnnotations()[ForceFinalizer] != Forced:
		err = s.Cluster.Patch(ctx, o, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, ForceFinalizer, Forced))
	}
	// The object may have been deleted since it was listed.
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// held returns the names of the pods that an object may still affect: the selected pods that it has not released.
func held(o *unstructured.Unstructured) []string {
	// A kill leaves no trace in a pod.
	if action, _, _ := unstructured.NestedString(o.Object, "spec", "action"); action == "pod-kill" || action == "container-kill" {
		return nil
	}
	var pods []string
	for _, r := range ReadStatus(o).Records {
		if r.Released {
			continue
		}
		// Containers of the same pod have separate records.
		if id := strings.Split(r.ID, "/"); len(id) > 1 && !slices.Contains(pods, id[1]) {
			pods = append(pods, id[1])
		}
	}
	return pods
}

// Release deletes all objects, and forces the deletion of objects that remain. It reports done once no object is left,
// and also if Chaos Mesh is not installed. An *emulation.StuckError names the objects that cannot be deleted.
func (s *Set) Release(ctx context.Context, namespace string) (done bool, err error) {
	existing, err := s.List(ctx, namespace)
	if err != nil && !errors.Is(err, ErrNotInstalled) {
		return false, err
	}
	var stuck []string
	for i := range existing {
		o := &existing[i]
		if err := s.remove(ctx, o); err != nil {
			return false, err
		}
		// By now the annotation has had one Patience to take effect, and the removal of the finalizers another.
		if since := o.GetDeletionTimestamp(); since != nil && s.Now().Sub(since.Time) > 3*Patience {
			stuck = append(stuck, key(o))
		}
	}
	if len(stuck) > 0 {
		return false, &emulation.StuckError{What: fmt.Sprintf("%s did not go away within %s although forced to; look at its pods' queueing disciplines", strings.Join(stuck, ", "), 3*Patience)}
	}
	return len(existing) == 0, nil
}
