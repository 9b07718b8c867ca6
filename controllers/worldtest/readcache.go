package worldtest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readMemory caches the API server's answers to reads in the namespaces of the simulated clusters. An answer is valid
// until an object is written that may change it. 19 of 20 requests of the simulated clusters are reads, mostly of
// unchanged objects. The cache requires that only this process writes there, so no Kubernetes controller may run.
type readMemory struct {
	mu sync.Mutex
	// writes counts the writes of each collection, for example "t-1/pods", and of each object, for example "t-1/pods/a".
	// Writes outside namespaces have the key "" and count for all collections. wholes counts the writes of a collection
	// that neither name nor create a single object.
	writes, wholes map[string]int
	// unsure contains collections with a write whose outcome is unknown. The write may still take effect later.
	unsure  map[string]bool
	answers map[readRequest]readAnswer
	// objects caches answers in the decoded form for typed clients.
	objects map[objectRequest]objectAnswer
}

type readRequest struct{ collection, url, accept string }

// readAnswer is valid while the counts of writes equal the counts before the request to the API server.
type readAnswer struct {
	before   writesBefore
	response *http.Response
	body     []byte
}

// writesBefore counts the writes that can have changed the answer to a request. These are writes outside namespaces,
// writes of the collection, and writes of the object or of all objects together.
type writesBefore struct {
	everywhere, here, object int
	unsure                   bool
}

// same reports whether an answer from before b is still valid. there is set if the answer contained the requested
// object. Then writes of other objects in the collection do not matter.
func (b writesBefore) same(now writesBefore, there bool) bool {
	return !now.unsure && b.everywhere == now.everywhere && b.object == now.object && (there || b.here == now.here)
}

func NewReadMemory() *readMemory {
	return &readMemory{writes: map[string]int{}, wholes: map[string]int{}, unsure: map[string]bool{}, answers: map[readRequest]readAnswer{}, objects: map[objectRequest]objectAnswer{}}
}

// before returns the current counts of writes for a collection and for its object with the given name, or "" for no
// object.
func (m *readMemory) before(in, name string) writesBefore {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := writesBefore{everywhere: m.writes[""], here: m.writes[in], unsure: m.unsure[""] || m.unsure[in]}
	if name != "" {
		b.object = m.writes[in+"/"+name] + m.wholes[in]
	}
	return b
}

// collection returns the collection that a request reads or writes, or "" outside namespaces, and the name of the
// request's object, or "". An object that is written in one API group may be read in another, so the group is not part
// of the collection.
func collection(r *http.Request) (in, name string) {
	_, inNamespace, _ := strings.Cut(r.URL.Path, "/namespaces/")
	namespace, rest, _ := strings.Cut(inNamespace, "/")
	resource, rest, _ := strings.Cut(rest, "/")
	if resource == "" {
		return "", ""
	}
	name, _, _ = strings.Cut(rest, "/")
	return namespace + "/" + resource, name
}

// SeeWrites makes the memory count all writes by clients of a configuration.
func (m *readMemory) SeeWrites(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			// The write is counted after the response. A read that started earlier has an older count, so its answer is not
			// reused.
			if r.Method != http.MethodGet {
				m.mu.Lock()
				defer m.mu.Unlock()
				in, name := collection(r)
				m.writes[in]++
				switch {
				case name != "":
					m.writes[in+"/"+name]++
				// A POST to a collection creates one object and leaves the existing objects unchanged.
				case r.Method != http.MethodPost:
					m.wholes[in]++
				}
				if err != nil {
					m.unsure[in] = true
				}
			}
			return response, err
		})
	})
}

// AnswerReads makes the clients of a configuration read from the memory.
func (m *readMemory) AnswerReads(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) { return m.read(next, r) })
	})
}

// Forget drops the answers for a namespace.
func (m *readMemory) Forget(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.answers, func(r readRequest, _ readAnswer) bool { return strings.HasPrefix(r.collection, namespace+"/") })
	maps.DeleteFunc(m.objects, func(r objectRequest, _ objectAnswer) bool { return strings.HasPrefix(r.collection, namespace+"/") })
}

func (m *readMemory) read(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	in, name := collection(r)
	// Quotas are not cached, because the API server itself writes them when pods are written.
	if r.Method != http.MethodGet || in == "" || strings.HasSuffix(in, "/resourcequotas") || r.URL.Query().Has("watch") {
		return next.RoundTrip(r)
	}
	key := readRequest{in, r.URL.String(), r.Header.Get("Accept")}
	m.mu.Lock()
	a, known := m.answers[key]
	m.mu.Unlock()
	// Take the count before the request: a write during the request then makes the answer outdated.
	before := m.before(in, name)
	if !known || !a.before.same(before, name != "" && a.response.StatusCode == http.StatusOK) {
		response, err := next.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if closed := response.Body.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		a = readAnswer{before, response, body}
		m.mu.Lock()
		m.answers[key] = a
		m.mu.Unlock()
	}
	response := *a.response
	response.Request, response.Header, response.Body = r, a.response.Header.Clone(), io.NopCloser(bytes.NewReader(a.body))
	return &response, nil
}

// rememberingClient answers from a readMemory with decoded objects: a single object, or all objects of a kind in a
// namespace, which it filters by label. Before, a third of the simulated clusters' processor time was spent on decoding
// equal answers and on requesting the same objects with other labels.
type rememberingClient struct {
	client.WithWatch
	reads *readMemory
	// resources maps the types of objects and lists to the names of their collections, or "" for types that are not
	// cached.
	resources sync.Map
}

// objectRequest identifies an object of a type or, if the name is empty, the list of all objects of the type.
type objectRequest struct {
	collection, name string
	of               reflect.Type
}

// objectAnswer is a cached answer. It is valid while the counts of writes equal the counts before the request to the
// API server. object is never modified.
type objectAnswer struct {
	before writesBefore
	object runtime.Object
}

// collectionOf returns the path of the collection of obj's type in namespace, or "" if the type is not cached.
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
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList: // objects of any kind
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

// answer returns the requested object: the cached object, or a new object that fetch has filled.
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

// put copies object to into, which has the same type.
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
