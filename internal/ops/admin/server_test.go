package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/store"
)

// fakeNode answers with err if it is set, and otherwise with values from the request.
type fakeNode struct{ err error }

func (n fakeNode) Status(context.Context) (*Status, error) { return &Status{Node: "a/0/0"}, n.err }
func (n fakeNode) Load(_ context.Context, r *LoadRequest) (*LoadResponse, error) {
	return &LoadResponse{Rows: int64(r.Seed)}, n.err
}
func (n fakeNode) Disturb(_ context.Context, a *Agenda) error {
	if a.Steps[0].SlowPercent < 0 {
		return &BadRequest{errors.New("slowPercent: negative")}
	}
	return n.err
}
func (n fakeNode) Join(_ context.Context, j *Join) error {
	if j.Process != "p" || j.NodeIncarnation != 2 || j.Loaded.Dataset != "d" {
		return &BadRequest{fmt.Errorf("joined by %+v", j)}
	}
	return n.err
}
func (n fakeNode) Log() *Log {
	return &Log{Process: "p", Entries: []LogEntry{{From: 5, Disturbance: Disturbance{SlowPercent: 7}}}}
}
func (n fakeNode) Audit(context.Context) (*Audit, error) {
	return &Audit{Shards: []store.ShardSums{{Digest: 1 << 63}}}, n.err
}
func (n fakeNode) Healthy() error { return n.err }
func (n fakeNode) Ready() error   { return n.err }

func TestHandler(t *testing.T) {
	const administration, public = false, true
	for name, tc := range map[string]struct {
		public       bool
		err          error
		method, path string
		body         string
		code         int
		want         string
	}{
		"status":         {administration, nil, "GET", "/status", "", 200, `"node":"a/0/0"`},
		"load":           {administration, nil, "POST", "/load", `{"dataset":"d","workload":{},"seed":7}`, 200, `"rows":7`},
		"load garbage":   {administration, nil, "POST", "/load", `{"dateset":"d"}`, 400, `unknown field "dateset"`},
		"load refused":   {administration, &BadRequest{errors.New("spec.workload: two")}, "POST", "/load", `{}`, 400, "spec.workload: two"},
		"load busy":      {administration, fmt.Errorf("%w: 3 pending", ErrBusy), "POST", "/load", `{}`, 409, "3 pending"},
		"load by get":    {administration, nil, "GET", "/load", "", 405, ""},
		"join":           {administration, nil, "POST", "/join", `{"process":"p","nodeIncarnation":2,"loaded":{"dataset":"d","workload":{},"seed":7}}`, 200, "{}"},
		"join what":      {administration, nil, "POST", "/join", `{"incarnation":2}`, 400, "the body is no Join"},
		"public join":    {public, nil, "POST", "/join", `{}`, 404, ""},
		"disturb":        {administration, nil, "POST", "/disturb", `{"steps":[{"cut":[1],"atNanoseconds":5}]}`, 200, "{}"},
		"disturb not":    {administration, nil, "POST", "/disturb", `{"steps":[{"slowPercent":-1}]}`, 400, "slowPercent"},
		"disturb what":   {administration, nil, "POST", "/disturb", `{"slower":1}`, 400, "unknown field"},
		"log":            {administration, nil, "GET", "/log", "", 200, `"entries":[{"fromNanoseconds":5,"disturbance":{"slowPercent":7}}]`},
		"clock":          {administration, nil, "GET", "/clock", "", 200, `"monotonicNanoseconds":`},
		"audit":          {administration, nil, "GET", "/audit", "", 200, `"digest":"9223372036854775808"`},
		"audit busy":     {administration, ErrBusy, "GET", "/audit", "", 409, ""},
		"stopped":        {administration, errors.New("the node has stopped"), "GET", "/audit", "", 503, "has stopped"},
		"healthy":        {public, nil, "GET", "/healthz", "", 200, "ok"},
		"not ready":      {public, errors.New("no peers"), "GET", "/readyz", "", 503, "no peers"},
		"public status":  {public, nil, "GET", "/status", "", 404, ""},
		"public load":    {public, nil, "POST", "/load", `{}`, 404, ""},
		"public disturb": {public, nil, "POST", "/disturb", `{}`, 404, ""},
		"public log":     {public, nil, "GET", "/log", "", 404, ""},
		"public audit":   {public, nil, "GET", "/audit", "", 404, ""},
		"metrics":        {public, nil, "GET", "/metrics", "", 200, "figures"},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("figures")) })
			h := NewHandler(fakeNode{tc.err})
			if tc.public {
				h = NewPublicHandler(fakeNode{tc.err}, metrics)
			}
			s := httptest.NewServer(h)
			defer s.Close()
			req, err := http.NewRequest(tc.method, s.URL+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.code || !strings.Contains(string(b), tc.want) {
				t.Errorf("%d %q, %v; want %d with %q", resp.StatusCode, b, err, tc.code, tc.want)
			}
		})
	}
}

func TestRTT(t *testing.T) {
	h := hdrhistogram.New(1, 60_000_000, 3)
	if err := h.RecordValue(100_250); err != nil {
		t.Fatal(err)
	}
	s, err := EncodeRTT(h)
	if err != nil {
		t.Fatal(err)
	}
	back, err := (&LinkStatus{To: "a", RTT: s}).Histogram()
	if err != nil || !back.Equals(h) {
		t.Errorf("%v, %v", back, err)
	}
	if s, err := EncodeRTT(nil); s != "" || err != nil {
		t.Errorf("no histogram is %q, %v", s, err)
	}
	if h, err := (&LinkStatus{}).Histogram(); h != nil || err != nil {
		t.Errorf("no round trips are %v, %v", h, err)
	}
	if _, err := (&LinkStatus{To: "a", RTT: "x"}).Histogram(); err == nil || !strings.Contains(err.Error(), "round trips to a") {
		t.Errorf("garbage is %v", err)
	}
}
