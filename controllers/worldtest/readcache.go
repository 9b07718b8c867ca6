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

// readMemory answers reads of the simulated clusters' namespaces with the API server's last answer, unless something
// has been written since. 19 of 20 requests of the simulated clusters are reads, mostly of unchanged objects. It sees
// every write, provided that only this process writes there: no controller of Kubernetes runs.
type readMemory struct {
	mu sync.Mutex
	// writes counts the writes of each collection, as in "t-1/pods", and of each object, as in "t-1/pods/a". Writes
	// outside namespaces, under "", count for all collections. wholes counts the writes of a collection that name no
	// object and make none.
	writes, wholes map[string]int
	// unsure holds collections with a write of unknown outcome, which may take effect later.
	unsure  map[string]bool
	answers map[readRequest]readAnswer
	// objects are answers as typed clients decode them.
	objects map[objectRequest]objectAnswer
}

type readRequest struct{ collection, url, accept string }

// readAnswer holds while the writes are those before the API server was asked.
type readAnswer struct {
	before   writesBefore
	response *http.Response
	body     []byte
}

// writesBefore counts the writes that can have changed the answer to a request: writes outside namespaces, of the
// collection, and of the object or of all objects at the same time.
type writesBefore struct {
	everywhere, here, object int
	unsure                   bool
}

// same reports whether an earlier answer is still valid. Writes of other objects of the collection do not affect an
// object that existed.
func (b writesBefore) same(now writesBefore, there bool) bool {
	return !now.unsure && b.everywhere == now.everywhere && b.object == now.object && (there || b.here == now.here)
}

func NewReadMemory() *readMemory {
	return &readMemory{writes: map[string]int{}, wholes: map[string]int{}, unsure: map[string]bool{}, answers: map[readRequest]readAnswer{}, objects: map[objectRequest]objectAnswer{}}
}

// before returns the writes until now of a collection and of the object that is called so in it, "" for none.
func (m *readMemory) before(in, name string) writesBefore {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := writesBefore{everywhere: m.writes[""], here: m.writes[in], unsure: m.unsure[""] || m.unsure[in]}
	if name != "" {
		b.object = m.writes[in+"/"+name] + m.wholes[in]
	}
	return b
}

// collection returns the collection of objects that a request reads or writes, "" outside namespaces. name is the name
// of the request's object, "" if it names none. An object written as a member of one API group may be read as a member
// of another, so the group is not part of the collection.
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

// SeeWrites informs the memory of all writes by clients of a configuration.
func (m *readMemory) SeeWrites(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.Method != http.MethodGet {
				m.mu.Lock()
				defer m.mu.Unlock()
				in, name := collection(r)
				m.writes[in]++
				switch {
				case name != "":
					m.writes[in+"/"+name]++
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

// AnswerReads lets the clients of a configuration read from the memory.
func (m *readMemory) AnswerReads(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) { return m.read(next, r) })
	})
}

// Forget drops the answers about a namespace.
func (m *readMemory) Forget(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.answers, func(r readRequest, _ readAnswer) bool { return strings.HasPrefix(r.collection, namespace+"/") })
	maps.DeleteFunc(m.objects, func(r objectRequest, _ objectAnswer) bool { return strings.HasPrefix(r.collection, namespace+"/") })
}

func (m *readMemory) read(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	in, name := collection(r)
	// The API server writes quotas when others write pods.
	if r.Method != http.MethodGet || in == "" || strings.HasSuffix(in, "/resourcequotas") || r.URL.Query().Has("watch") {
		return next.RoundTrip(r)
	}
	key := readRequest{in, r.URL.String(), r.Header.Get("Accept")}
	m.mu.Lock()
	a, known := m.answers[key]
	m.mu.Unlock()
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

// rememberingClient answers from a readMemory with decoded objects: a single object, or a namespace's objects of a
// kind, from which it selects by label. Decoding the same answers and requesting the same objects by other labels took
// a third of the simulated clusters' processor time.
type rememberingClient struct {
	client.WithWatch
	reads *readMemory
	// resources maps the types of objects and lists to the names of their collections, "" for types that are not
	// remembered.
	resources sync.Map
}

// objectRequest is an object of a type, or a list of a type where the name is empty.
type objectRequest struct {
	collection, name string
	of               reflect.Type
}

// objectAnswer is valid while the writes are unchanged since before the request to the API server. Its object is never
// modified.
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

// answer returns the object that a request reads: the remembered object, or an empty object that fetch has filled.
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
