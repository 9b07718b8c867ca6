package controllers_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/geobench/geobench/controllers/worldtest"
)

// A repeated read returns the same answer as the API server.
func TestReadMemory(t *testing.T) {
	t.Parallel()
	const pods = "/api/v1/namespaces/t-1/pods"
	status, asked, underway := http.StatusOK, 0, func() {}
	server := worldtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
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
		// first is called before the path is read, underway before the first answer arrives, and between before the path is
		// read again.
		first, underway, between func(write func(path string, lost bool))
		// asks is the number of requests that reach the API server when the path is read twice.
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
			m := worldtest.NewReadMemory()
			written := &rest.Config{Transport: server}
			m.SeeWrites(written)
			read := rest.CopyConfig(written)
			m.AnswerReads(read)
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
			m.Forget("t-1")
			if request(read, http.MethodGet, path, false); asked != 2 {
				t.Errorf("after the namespace was forgotten, the API server was asked %d times", asked)
			}
		})
	}
}
