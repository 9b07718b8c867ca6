package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/deploy"
)

// NodeClient asks the nodes of a database, and the workers of a run. Addresses are host:port of a node's administration server.
type NodeClient interface {
	Status(ctx context.Context, addr string) (*admin.Status, error)
	Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error)
	Disturb(ctx context.Context, addr string, a *admin.Agenda) error
	Log(ctx context.Context, addr string) (*admin.Log, error)
	Audit(ctx context.Context, addr string) (*admin.Audit, error)
	// History opens the history that the worker at addr has recorded.
	History(ctx context.Context, addr string) (io.ReadCloser, error)
	// Clock compares the clocks of the node or worker at addr with this one.
	Clock(ctx context.Context, addr string) (Clock, error)
}

// Clock is what the clocks of another process show, beside the operator's own.
type Clock struct {
	// Ahead is by how much its clock is ahead.
	Ahead time.Duration
	// Zero is when its monotonic clock showed 0, by the operator's clock.
	Zero time.Time
	// Within is how far both may be off.
	Within time.Duration
}

// maxAnswer bounds the answer of a node, in bytes: a status holds one histogram per region.
const maxAnswer = 16 << 20

// NewHTTPNodeClient returns a NodeClient that talks the protocol of package admin.
func NewHTTPNodeClient() NodeClient {
	return &httpNodeClient{&http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: nodeTimeout}).DialContext,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     time.Minute,
	}}}
}

type httpNodeClient struct{ http *http.Client }

func (c *httpNodeClient) Status(ctx context.Context, addr string) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	out := &admin.Status{}
	return out, c.do(ctx, http.MethodGet, addr, "/status", nil, out)
}

func (c *httpNodeClient) Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	out := &admin.LoadResponse{}
	return out, c.do(ctx, http.MethodPost, addr, "/load", req, out)
}

func (c *httpNodeClient) Disturb(ctx context.Context, addr string, a *admin.Agenda) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPost, addr, "/disturb", a, &struct{}{})
}

func (c *httpNodeClient) Log(ctx context.Context, addr string) (*admin.Log, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	out := &admin.Log{}
	return out, c.do(ctx, http.MethodGet, addr, "/log", nil, out)
}

func (c *httpNodeClient) Audit(ctx context.Context, addr string) (*admin.Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out := &admin.Audit{}
	return out, c.do(ctx, http.MethodGet, addr, "/audit", nil, out)
}

func (c *httpNodeClient) History(ctx context.Context, addr string) (io.ReadCloser, error) {
	resp, err := c.get(ctx, addr, deploy.PathHistory)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// clockProbes is how often a clock is asked: the quickest answer tells the most.
const clockProbes = 8

// Clock asks a clock as F. Cristian proposed (Probabilistic clock synchronization, 1989): what it shows was true at some time
// between the question and the answer.
func (c *httpNodeClient) Clock(ctx context.Context, addr string) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	best := Clock{Within: time.Hour}
	for range clockProbes {
		var shown admin.Reading
		asked := time.Now()
		if err := c.do(ctx, http.MethodGet, addr, admin.PathClock, nil, &shown); err != nil {
			return Clock{}, err
		}
		took := time.Since(asked)
		if middle := asked.Add(took / 2); took/2 < best.Within {
			best = Clock{Ahead: time.Duration(shown.Wall - middle.UnixNano()), Zero: middle.Add(-shown.Monotonic).Round(0), Within: took / 2}
		}
	}
	return best, nil
}

// get asks for something that is not JSON. The caller closes the body.
func (c *httpNodeClient) get(ctx context.Context, addr, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %s: %s", req.URL, resp.Status, strings.TrimSpace(string(b)))
	}
	return resp, nil
}

func (c *httpNodeClient) do(ctx context.Context, method, addr, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, req.URL, resp.Status, strings.TrimSpace(string(b[:min(len(b), 512)])))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s %s: the answer is no %T: %w", method, req.URL, out, err)
	}
	return nil
}
