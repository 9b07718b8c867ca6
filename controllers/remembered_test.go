package controllers

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// rememberingClient answers from a readMemory what it has decoded already: an object, and a namespace's objects of a
// kind, of which it picks those with the labels that are asked for. Of the worlds' processor time, decoding the same
// answers and asking for the same objects by other labels were a third.
type rememberingClient struct {
	client.WithWatch
	reads *readMemory
	// resources are the names of the collections of objects and lists of a type, "" for those that are not remembered.
	resources sync.Map
}

// objectRequest is an object of a type, or a list of a type where the name is empty.
type objectRequest struct {
	collection, name string
	of               reflect.Type
}

// objectAnswer holds while the writes are those before the API server was asked. Nobody changes its object.
type objectAnswer struct {
	before writesBefore
	object runtime.Object
}

// collectionOf returns where objects of a type are in a namespace, "" if they are not remembered.
func (c *rememberingClient) collectionOf(obj runtime.Object, namespace string) string {
	of := reflect.TypeOf(obj)
	resource, known := c.resources.Load(of)
	if !known {
		resource = c.resourceOf(obj)
		c.resources.Store(of, resource)
	}
	if resource == "" || namespace == "" {
		return ""
	}
	return namespace + "/" + resource.(string)
}

func (c *rememberingClient) resourceOf(obj runtime.Object) string {
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList: // of any kind
		return ""
	}
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return ""
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil || mapping.Scope.Name() != meta.RESTScopeNameNamespace || mapping.Resource.Resource == "resourcequotas" {
		return ""
	}
	return mapping.Resource.Resource
}

// answer returns the object that a request reads: the one that is remembered, or what fetch reads into an empty one.
func (c *rememberingClient) answer(r objectRequest, fetch func(into any) error) (runtime.Object, error) {
	before := c.reads.before(r.collection, r.name)
	c.reads.mu.Lock()
	a, known := c.reads.objects[r]
	c.reads.mu.Unlock()
	if known && a.before.same(before, r.name != "") {
		return a.object, nil
	}
	object := reflect.New(r.of).Interface()
	if err := fetch(object); err != nil {
		return nil, err
	}
	a = objectAnswer{before, object.(runtime.Object)}
	c.reads.mu.Lock()
	defer c.reads.mu.Unlock()
	c.reads.objects[r] = a
	return a.object, nil
}

// put copies an object into another of its type.
func put(into, object runtime.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
}

// Get implements client.Client.
func (c *rememberingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	in := c.collectionOf(obj, key.Namespace)
	if in == "" || len(opts) > 0 {
		return c.WithWatch.Get(ctx, key, obj, opts...)
	}
	object, err := c.answer(objectRequest{in, key.Name, reflect.TypeOf(obj).Elem()}, func(into any) error { return c.WithWatch.Get(ctx, key, into.(client.Object)) })
	if err != nil {
		return err
	}
	put(obj, object)
	return nil
}

// List implements client.Client.
func (c *rememberingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	in := c.collectionOf(list, o.Namespace)
	if in == "" || o.FieldSelector != nil || o.Limit > 0 || o.Continue != "" || o.Raw != nil {
		return c.WithWatch.List(ctx, list, opts...)
	}
	all, err := c.answer(objectRequest{in, "", reflect.TypeOf(list).Elem()}, func(into any) error {
		return c.WithWatch.List(ctx, into.(client.ObjectList), client.InNamespace(o.Namespace))
	})
	if err != nil {
		return err
	}
	if o.LabelSelector == nil {
		put(list, all)
		return nil
	}
	some := reflect.New(reflect.TypeOf(list).Elem())
	some.Elem().Set(reflect.ValueOf(all).Elem())
	items := reflect.ValueOf(all).Elem().FieldByName("Items")
	picked := reflect.MakeSlice(items.Type(), 0, items.Len())
	for i := range items.Len() {
		if o.LabelSelector.Matches(labels.Set(items.Index(i).Addr().Interface().(client.Object).GetLabels())) {
			picked = reflect.Append(picked, items.Index(i))
		}
	}
	some.Elem().FieldByName("Items").Set(picked)
	put(list, some.Interface().(runtime.Object))
	return nil
}

// What a remembering client answers is what the API server says, before and after writes, and belongs to who asked.
func TestRememberingClient(t *testing.T) {
	t.Parallel()
	c, namespace := newNamespace(t)
	plain, err := client.New(apiServer, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	compare := func(when string) {
		t.Helper()
		for range 2 {
			for selected, by := range map[string][]client.ListOption{
				"all": nil, "one label": {client.MatchingLabels{"a": "1"}}, "a label that is there": {client.HasLabels{"b"}}, "both": {client.MatchingLabels{"a": "1"}, client.HasLabels{"b"}},
				"nothing": {client.MatchingLabels{"a": "9"}}, "a name": {client.MatchingFields{"metadata.name": "two"}},
			} {
				for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &v1alpha1.NetworkProfileList{}, &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}} {
					want := list.DeepCopyObject().(client.ObjectList)
					by := append([]client.ListOption{client.InNamespace(namespace)}, by...)
					must(c.List(t.Context(), list, by...))
					must(plain.List(t.Context(), want, by...))
					for _, l := range []client.ObjectList{list, want} {
						l.SetResourceVersion("") // that of the API server goes on with writes elsewhere
					}
					if !equality.Semantic.DeepEqual(list, want) {
						t.Errorf("%s, %s: %+v, want %+v", when, selected, list, want)
					}
					must(meta.EachListItem(list, func(o runtime.Object) error {
						o.(client.Object).SetLabels(map[string]string{"a": "9"})
						return nil
					}))
				}
			}
			for _, name := range []string{"one", "two", "none"} {
				for _, obj := range []client.Object{&corev1.ConfigMap{}, &v1alpha1.NetworkProfile{}, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}} {
					want := obj.DeepCopyObject().(client.Object)
					obj.SetAnnotations(map[string]string{"of": "before"})
					key := client.ObjectKey{Namespace: namespace, Name: name}
					err, wantErr := c.Get(t.Context(), key, obj), plain.Get(t.Context(), key, want)
					if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
						t.Errorf("%s: %s: %v, want %v", when, name, err, wantErr)
					}
					if err == nil && !equality.Semantic.DeepEqual(obj, want) {
						t.Errorf("%s: %+v, want %+v", when, obj, want)
					}
					obj.SetLabels(map[string]string{"a": "9"})
				}
			}
		}
	}
	profile := func(name string) *v1alpha1.NetworkProfile {
		return &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"a": "1"}}, Spec: *makeDatabase("d").Spec.Network.Profile}
	}
	compare("before anything is there")
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace, Labels: map[string]string{"a": "1"}}}
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: namespace, Labels: map[string]string{"a": "1", "b": "2"}}}
	must(c.Create(t.Context(), one))
	compare("one is there")
	must(c.Create(t.Context(), two))
	must(c.Create(t.Context(), profile("two")))
	compare("two are there")
	base := one.DeepCopy()
	one.Labels = map[string]string{"b": "1"}
	must(c.Patch(t.Context(), one, client.MergeFrom(base)))
	compare("one has other labels")
	must(c.Delete(t.Context(), two))
	compare("one is gone")
	must(c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace)))
	compare("all are gone")
}
