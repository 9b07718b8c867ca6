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

// ErrNotInstalled says that the API server knows none of a Set's kinds.
var ErrNotInstalled = errors.New("no Chaos Mesh is installed")

// Set is all objects of some kinds with the same labels.
type Set struct {
	Cluster emulation.Cluster
	Kinds   []string
	// Labels are put on every object, and find them again.
	Labels map[string]string
	Now    func() time.Time
	// Abandon, where it is set, is told before an object is forced away which pods it may still hold, for then nobody
	// takes its rules, processes and clocks from them: they should be replaced, unless they are younger than before.
	Abandon func(ctx context.Context, namespace string, pods []string, before time.Time) error
}

// List reads the objects. It fails with ErrNotInstalled where the API server does not know a kind, and returns those of
// the others.
func (s *Set) List(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	var missing error
	for _, kind := range s.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(GroupVersion.WithKind(kind + "List"))
		err := s.Cluster.List(ctx, namespace, s.Labels, list)
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

// Ensure deletes what should not be there, waits until it is gone, since overlapping rules do not add up, and makes
// what is missing: an object whose group is leaving waits. With hold, nothing is made.
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

// A Flaw is what is wrong with an object of a Set.
type Flaw struct {
	Object  *unstructured.Unstructured
	Problem string
	// Leaving objects should not be there any more.
	Leaving bool
}

// Flaws says of each desired object that is not injected into every pod that it chose why, and names those that should
// not be there.
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

// remove deletes an object, and forces it when that takes too long: first by Chaos Mesh's own annotation, then by
// taking its finalizers, which is the only thing that helps where the kernel cannot undo what it never did.
func (s *Set) remove(ctx context.Context, o *unstructured.Unstructured) error {
	since := o.GetDeletionTimestamp()
	if since == nil {
		err := s.Cluster.Delete(ctx, o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if s.Now().Sub(since.Time) <= Patience || len(o.GetFinalizers()) == 0 {
		return nil
	}
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
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// held names the pods that an object may still do something to: all that it chose and has not let go.
func held(o *unstructured.Unstructured) []string {
	if action, _, _ := unstructured.NestedString(o.Object, "spec", "action"); action == "pod-kill" || action == "container-kill" {
		return nil
	}
	var pods []string
	for _, r := range ReadStatus(o).Records {
		if r.Released {
			continue
		}
		if id := strings.Split(r.ID, "/"); len(id) > 1 && !slices.Contains(pods, id[1]) {
			pods = append(pods, id[1])
		}
	}
	return pods
}

// Release deletes every object, forcing those that do not go; done once nothing is left. An *emulation.StuckError says
// that something does not go. Where Chaos Mesh is not installed, nothing is left.
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
		if since := o.GetDeletionTimestamp(); since != nil && s.Now().Sub(since.Time) > 3*Patience {
			stuck = append(stuck, key(o))
		}
	}
	if len(stuck) > 0 {
		return false, &emulation.StuckError{What: fmt.Sprintf("%s did not go away within %s although forced to; look at its pods' queueing disciplines", strings.Join(stuck, ", "), 3*Patience)}
	}
	return len(existing) == 0, nil
}
