package controllers_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// A remembering client gives the same answers as the API server, before and after writes, and the caller may modify
// them.
func TestRememberingClient(t *testing.T) {
	t.Parallel()
	c, namespace := worldtest.NewNamespace(t)
	plain, err := client.New(worldtest.APIServer, client.Options{Scheme: kube.Scheme()})
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
						l.SetResourceVersion("") // the resource version of a list in the API server advances with writes elsewhere
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
		return &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"a": "1"}}, Spec: *worldtest.MakeDatabase("d").Spec.Network.Profile}
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
