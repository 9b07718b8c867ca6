package podclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

const (
	// NodeTimeout bounds a question to a node.
	NodeTimeout = 3 * time.Second
	// loadTimeout bounds the loading of its data.
	loadTimeout = 10 * time.Minute
)

// AtOnce is the number of pods that are queried concurrently.
const AtOnce = 32

// Nodes asks the nodes of a database, and the workers of a run. Addresses are host:port of a node's administration
// server.
type Nodes interface {
	Status(ctx context.Context, addr string) (*admin.Status, error)
	Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error)
	// Join notifies a waiting process of its node's incarnation.
	Join(ctx context.Context, addr string, j *admin.Join) error
	Disturb(ctx context.Context, addr string, a *admin.Agenda) error
	Log(ctx context.Context, addr string) (*admin.Log, error)
	Audit(ctx context.Context, addr string) (*admin.Audit, error)
	// History opens the history that the worker at addr has recorded.
	History(ctx context.Context, addr string) (io.ReadCloser, error)
	// Clock compares the clocks of the node or worker at addr with the local clock.
	Clock(ctx context.Context, addr string) (Clock, error)
}

// Clock has the readings of another process's clocks, relative to the operator's clock.
type Clock struct {
	// Ahead is by how much its clock is ahead.
	Ahead time.Duration
	// Zero is the time at which its monotonic clock showed 0, by the operator's clock.
	Zero time.Time
	// Within is the largest error of both.
	Within time.Duration
}

// Clients queries the pods of a database and of its runs. It queries no other process at one of their addresses, for
// example after an address was reused.
type Clients interface {
	// Nodes answer for the database with this UID.
	Nodes(database types.UID) Nodes
	// Sidecars answer which network is in force.
	Sidecars(database types.UID) emulation.Sidecars
	// Proxies are the proxies of a service mesh, which do not authenticate and answer every client.
	Proxies() Proxies
}

// Proxies ask the proxies of a service mesh.
type Proxies interface {
	// Counters hands the counters at http://addr+path, text that may be as long as it likes, to read.
	Counters(ctx context.Context, addr, path string, read func(io.Reader) error) error
}

// bound is the maximum size of an answer. An attacker with a pod's credentials may send any answer, and small texts
// with many values become large lists: an empty object of three bytes takes a hundred bytes in memory.
type bound struct{ bytes, values int }

var (
	// small bounds answers that hold only a few numbers.
	small = bound{64 << 10, 1000}
	// statusBound has room for a histogram for each of 32 regions, for the names of all shards, and for two lists of
	// nodes. These are the nodes that a node is cut off from and the nodes that are lost; each list may have all 16,384
	// nodes of the largest layout.
	statusBound = bound{512 << 10, 40_000}
	// listBound has room for a full log (admin.MaxLogValues, and the times in which links were too fast).
	listBound = bound{3 << 20, 64_000}
	// auditBound has room for the sums of all shards, where a workload's checks find everything wrong: 182 for a
	// warehouse of TPC-C.
	auditBound = bound{10 << 20, 200_000}
)

// aside is the size in bytes up to which answers are read concurrently. Longer answers are read and decoded one at a
// time.
const aside = 2 << 20

// reading is held while an answer is read that is longer than aside.
var reading sync.Mutex

// decoding is held while a larger answer is decoded, so that only one is decoded at a time: a decoder takes many times
// the memory of its text.
var decoding sync.Mutex

// podClients ask over mutual TLS.
type podClients struct {
	credentials *operatorca.Keeper

	mu      sync.Mutex
	clients map[types.UID]*podClient
}

// podClient keeps the connections to the pods of one database.
type podClient struct {
	http *http.Client
	used time.Time
}

// New returns the clients that prove themselves with what credentials keep.
func New(credentials *operatorca.Keeper) Clients {
	return &podClients{credentials: credentials, clients: map[types.UID]*podClient{}}
}

// clientLife is the time for which idle connections to a database are kept.
const clientLife = 10 * time.Minute

func (c *podClients) of(database types.UID) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.clients, func(_ types.UID, p *podClient) bool { return now.Sub(p.used) > clientLife })
	p := c.clients[database]
	if p == nil {
		p = &podClient{http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					config, err := c.credentials.TLS(ctx, database)
					if err != nil {
						return nil, err
					}
					return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: NodeTimeout}, Config: config}).DialContext(ctx, network, addr)
				},
				MaxIdleConnsPerHost: 2,
				IdleConnTimeout:     time.Minute,
			},
		}}
		c.clients[database] = p
	}
	p.used = now
	return p.http
}

func (c *podClients) Nodes(database types.UID) Nodes {
	return &httpNodes{httpPods{c.of(database)}}
}

// Proxies implements Clients.
func (c *podClients) Proxies() Proxies { return httpProxies{} }

// httpProxies ask over plain HTTP. They are asked twice in a run, so no connection is kept.
type httpProxies struct{}

var plain = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: NodeTimeout}).DialContext, DisableKeepAlives: true},
}

// mostCounters bounds the counters of a proxy, in bytes: the counters of a large mesh take some megabytes.
const mostCounters = 64 << 20

func (httpProxies) Counters(ctx context.Context, addr, path string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	resp, err := plain.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	body := &io.LimitedReader{R: resp.Body, N: mostCounters}
	if err := read(body); err != nil {
		return fmt.Errorf("GET %s: %w", req.URL, err)
	}
	if body.N == 0 {
		return fmt.Errorf("GET %s: the answer has more than %d bytes, which is more than that of any proxy", req.URL, mostCounters)
	}
	return nil
}

func (c *podClients) Sidecars(database types.UID) emulation.Sidecars {
	return &httpSidecars{httpPods{c.of(database)}}
}

// httpPods gives access to the pods of one database.
type httpPods struct{ http *http.Client }

type httpNodes struct{ httpPods }

type httpSidecars struct{ httpPods }

func (c *httpSidecars) Status(ctx context.Context, addr string) (*wan.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	out := &wan.Status{}
	return out, c.do(ctx, http.MethodGet, addr, "/status", nil, out, listBound)
}

func (c *httpSidecars) Log(ctx context.Context, addr string) (log *wan.Log, ahead, within time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	log = &wan.Log{}
	asked := time.Now()
	if err := c.do(ctx, http.MethodGet, addr, "/log", nil, log, listBound); err != nil {
		return nil, 0, 0, err
	}
	took := time.Since(asked)
	return log, log.Now.Sub(asked.Add(took / 2).Round(0)), took / 2, nil
}

func (c *httpNodes) Status(ctx context.Context, addr string) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	out := &admin.Status{}
	return out, c.do(ctx, http.MethodGet, addr, "/status", nil, out, statusBound)
}

func (c *httpNodes) Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	out := &admin.LoadResponse{}
	return out, c.do(ctx, http.MethodPost, addr, "/load", req, out, small)
}

func (c *httpNodes) Join(ctx context.Context, addr string, j *admin.Join) error {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPost, addr, "/join", j, &struct{}{}, small)
}

func (c *httpNodes) Disturb(ctx context.Context, addr string, a *admin.Agenda) error {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPost, addr, "/disturb", a, &struct{}{}, small)
}

func (c *httpNodes) Log(ctx context.Context, addr string) (*admin.Log, error) {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	out := &admin.Log{}
	return out, c.do(ctx, http.MethodGet, addr, "/log", nil, out, listBound)
}

// auditWithin is the time limit of an audit: a steward reads all rows over a network.
const auditWithin = 2 * time.Minute

func (c *httpNodes) Audit(ctx context.Context, addr string) (*admin.Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, auditWithin)
	defer cancel()
	out := &admin.Audit{}
	return out, c.do(ctx, http.MethodGet, addr, "/audit", nil, out, auditBound)
}

func (c *httpNodes) History(ctx context.Context, addr string) (io.ReadCloser, error) {
	resp, err := c.get(ctx, addr, deploy.PathHistory)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// clockProbes is the number of readings of a clock: the fastest answer is the most accurate.
const clockProbes = 8

// Clock reads a clock as F. Cristian proposed (Probabilistic clock synchronization, 1989): its value was correct at
// some time between the request and the answer.
func (c *httpNodes) Clock(ctx context.Context, addr string) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	best := Clock{Within: time.Hour}
	for range clockProbes {
		var shown admin.Reading
		asked := time.Now()
		if err := c.do(ctx, http.MethodGet, addr, admin.PathClock, nil, &shown, small); err != nil {
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
func (c httpPods) get(ctx context.Context, addr, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+path, nil)
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

func (c httpPods) do(ctx context.Context, method, addr, path string, in, out any, most bound) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+addr+path, body)
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
	limited := io.LimitReader(resp.Body, int64(most.bytes)+1)
	b, err := io.ReadAll(io.LimitReader(limited, aside))
	if err == nil && len(b) == aside {
		reading.Lock()
		defer reading.Unlock()
		var rest []byte
		rest, err = io.ReadAll(limited)
		b = append(b, rest...)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, req.URL, err)
	}
	if n := bytes.Count(b, []byte{','}); len(b) > most.bytes || n > most.values {
		return fmt.Errorf("%s %s: the answer has more than %d bytes or %d values, which is more than that of any node", method, req.URL, most.bytes, most.values)
	}
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s %s: %s: %s", method, req.URL, resp.Status, strings.TrimSpace(string(b[:min(len(b), 512)])))
		if resp.StatusCode == http.StatusBadRequest {
			return &admin.BadRequest{Err: err}
		}
		return err
	}
	if len(b) > small.bytes {
		decoding.Lock()
		defer decoding.Unlock()
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s %s: the answer is no %T: %w", method, req.URL, out, err)
	}
	return nil
}
