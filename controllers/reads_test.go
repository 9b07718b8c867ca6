package controllers

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// readMemory answers reads of the worlds' namespaces as the API server did the last time, unless something has been
// written since: 19 of 20 requests of the worlds are reads, mostly of what has not changed. It sees every write, where
// nothing but this process writes there: no controller of Kubernetes runs.
type readMemory struct {
	mu sync.Mutex
	// writes of each collection, as in "t-1/pods", and of each object, as in "t-1/pods/a"; those outside namespaces, under
	// "", count for all collections. wholes are those of a collection that name no object and make none.
	writes, wholes map[string]int
	// unsure are collections with a write that may take effect later: nobody knows how it ended.
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

// writesBefore counts the writes that can have changed what is read: those outside namespaces, those of the collection,
// and those of the object or of all objects at once.
type writesBefore struct {
	everywhere, here, object int
	unsure                   bool
}

// same tells whether what was read before is what would be read now. Other objects of the collection do not matter to
// one that was there.
func (b writesBefore) same(now writesBefore, there bool) bool {
	return !now.unsure && b.everywhere == now.everywhere && b.object == now.object && (there || b.here == now.here)
}

func newReadMemory() *readMemory {
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

// collection returns which objects a request reads or writes, "" for those outside namespaces, and the name of the one
// that it is about, "" if it names none. An object written as a member of one API group may be read as one of another,
// so the group is no part of it.
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

// seeWrites lets the memory know what the clients of a configuration write.
func (m *readMemory) seeWrites(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
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

// answerReads lets the clients of a configuration read from the memory.
func (m *readMemory) answerReads(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return m.read(next, r) })
	})
}

// forget drops the answers about a namespace.
func (m *readMemory) forget(namespace string) {
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

// What is read again is what the API server would say.
func TestReadMemory(t *testing.T) {
	t.Parallel()
	const pods = "/api/v1/namespaces/t-1/pods"
	status, asked, underway := http.StatusOK, 0, func() {}
	server := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			if r.Header.Get("Lost") != "" {
				return nil, io.ErrUnexpectedEOF
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
		asked++
		answer := strconv.Itoa(asked)
		underway()
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer))}, nil
	})
	for name, tc := range map[string]struct {
		path   string
		status int
		// first happens before the path is read, underway before the first answer is there, between before the path is read
		// again.
		first, underway, between func(write func(path string, lost bool))
		// asks is how often the API server is asked when the path is read twice.
		asks int
	}{
		"nothing has changed":                       {asks: 1},
		"an object that is not there":               {path: pods + "/a", status: http.StatusNotFound, asks: 1},
		"a refusal":                                 {status: http.StatusForbidden, asks: 2},
		"a watch":                                   {path: pods + "?watch=true", asks: 2},
		"a quota":                                   {path: "/api/v1/namespaces/t-1/resourcequotas", asks: 2},
		"what is in no namespace":                   {path: "/api/v1/nodes", asks: 2},
		"another collection is written":             {between: func(write func(string, bool)) { write("/api/v1/namespaces/t-1/configmaps/a", false) }, asks: 1},
		"another namespace is written":              {between: func(write func(string, bool)) { write("/api/v1/namespaces/t-2/pods/a", false) }, asks: 1},
		"an object that is not there, made":         {path: pods + "/a", status: http.StatusNotFound, asks: 2, between: func(write func(string, bool)) { write("make in "+pods, false) }},
		"an object beside another":                  {path: pods + "/a", asks: 1, between: func(write func(string, bool)) { write(pods+"/b", false) }},
		"an object whose status is written":         {path: pods + "/a", asks: 2, between: func(write func(string, bool)) { write(pods+"/a/status", false) }},
		"an object, and another is made":            {path: pods + "/a", asks: 1, between: func(write func(string, bool)) { write("make in "+pods, false) }},
		"all objects are written at once":           {path: pods + "/a", asks: 2, between: func(write func(string, bool)) { write(pods, false) }},
		"an object beside one that nobody knows of": {path: pods + "/a", asks: 2, first: func(write func(string, bool)) { write(pods+"/b", true) }},
		"an object is written":                      {between: func(write func(string, bool)) { write(pods+"/a", false) }, asks: 2},
		"its status is written":                     {between: func(write func(string, bool)) { write(pods+"/a/status", false) }, asks: 2},
		"what is in no namespace, written":          {between: func(write func(string, bool)) { write("/api/v1/nodes/n1", false) }, asks: 2},
		"nobody knows how a write ended":            {first: func(write func(string, bool)) { write(pods+"/a", true) }, asks: 2},
		"written while it is read":                  {underway: func(write func(string, bool)) { write(pods+"/a", false) }, asks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := newReadMemory()
			written := &rest.Config{Transport: server}
			m.seeWrites(written)
			read := rest.CopyConfig(written)
			m.answerReads(read)
			request := func(c *rest.Config, method, path string, lost bool) string {
				client, err := rest.HTTPClientFor(c)
				if err != nil {
					t.Fatal(err)
				}
				r := httptest.NewRequestWithContext(t.Context(), method, "http://api"+path, nil)
				r.RequestURI = ""
				if lost {
					r.Header.Set("Lost", "true")
				}
				response, err := client.Do(r)
				if lost {
					if err == nil {
						t.Fatal("the write has an answer")
					}
					return ""
				}
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return string(body)
			}
			write := func(path string, lost bool) {
				path, made := strings.CutPrefix(path, "make in ")
				switch {
				case made:
					request(written, http.MethodPost, path, lost)
				case path == pods:
					request(written, http.MethodDelete, path, lost)
				default:
					request(written, http.MethodPut, path, lost)
				}
			}
			path := cmp.Or(tc.path, pods)
			status, asked, underway = cmp.Or(tc.status, http.StatusOK), 0, func() {
				if tc.underway != nil && asked == 1 {
					tc.underway(write)
				}
			}
			if tc.first != nil {
				tc.first(write)
			}
			request(read, http.MethodGet, path, false)
			if tc.between != nil {
				tc.between(write)
			}
			if got := request(read, http.MethodGet, path, false); asked != tc.asks || got != strconv.Itoa(tc.asks) {
				t.Errorf("the API server was asked %d times, want %d; the last answer is %s", asked, tc.asks, got)
			}
			if tc.asks > 1 {
				return
			}
			m.forget("t-1")
			if request(read, http.MethodGet, path, false); asked != 2 {
				t.Errorf("after the namespace was forgotten, the API server was asked %d times", asked)
			}
		})
	}
}
