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
	// NodeTimeout bounds a request to a node.
	NodeTimeout = 3 * time.Second
	// loadTimeout bounds the loading of a node's data.
	loadTimeout = 10 * time.Minute
)

// AtOnce is the number of pods that are queried concurrently.
const AtOnce = 32

// Nodes queries the nodes of a database and the workers of its runs. Addresses are host:port of the administration
// server.
type Nodes interface {
	Status(ctx context.Context, addr string) (*admin.Status, error)
	Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error)
	// Join notifies a waiting process of its node's incarnation.
	Join(ctx context.Context, addr string, j *admin.Join) error
	Disturb(ctx context.Context, addr string, a *admin.Agenda) error
	Log(ctx context.Context, addr string) (*admin.Log, error)
	Audit(ctx context.Context, addr string) (*admin.Audit, error)
	// History opens the history that the worker at addr has recorded. The caller must close it.
	History(ctx context.Context, addr string) (io.ReadCloser, error)
	// Clock compares the clock of the node or worker at addr with the operator's clock.
	Clock(ctx context.Context, addr string) (Clock, error)
}

// Clock relates the clocks of another process to the operator's clock.
type Clock struct {
	// Ahead is the time by which the other process's clock is ahead; negative if it is behind.
	Ahead time.Duration
	// Zero is the time, by the operator's clock, at which the other process's monotonic clock was 0.
	Zero time.Time
	// Within is the maximum error of Ahead and Zero.
	Within time.Duration
}

// Clients queries the pods of a database and of its runs. It rejects answers from any other process at one of these
// addresses, for example after an address was reused.
type Clients interface {
	// Nodes returns a client for nodes that can prove that they belong to the database with this UID.
	Nodes(database types.UID) Nodes
	// Sidecars returns a client for the sidecars that emulate the network of the database.
	Sidecars(database types.UID) emulation.Sidecars
	// Proxies returns a client for the proxies of a service mesh, which answer every client without authentication.
	Proxies() Proxies
}

// Proxies queries the proxies of a service mesh.
type Proxies interface {
	// Counters passes the counters at http://addr+path, as text of any length, to read.
	Counters(ctx context.Context, addr, path string, read func(io.Reader) error) error
}

// bound is the maximum size of an answer. An attacker with a pod's credentials can send any answer. The number of
// values is limited too, because a short text can need much memory: an empty object of three bytes occupies a hundred
// bytes.
type bound struct{ bytes, values int }

var (
	// small bounds answers that hold only a few numbers.
	small = bound{64 << 10, 1000}
	// statusBound has room for a histogram for each of 32 regions, for the names of all shards, and for two lists
	// of nodes. The lists contain the nodes from which a node is cut off, and the lost nodes. Each list may contain
	// all 16,384 nodes of the largest layout.
	statusBound = bound{512 << 10, 40_000}
	// listBound has room for a full log: admin.MaxLogValues, and the periods in which links were too fast.
	listBound = bound{3 << 20, 64_000}
	// auditBound has room for the sums of all shards, even if a workload's checks find an error everywhere: 182 values
	// per warehouse of TPC-C.
	auditBound = bound{10 << 20, 200_000}
)

// aside is the size in bytes up to which several answers are read at the same time. Longer answers are read and decoded
// one at a time.
const aside = 2 << 20

// reading is held while an answer longer than aside is read.
var reading sync.Mutex

// decoding is held while an answer larger than small is decoded, because a decoder uses many times the memory of its
// text.
var decoding sync.Mutex

// podClients implements Clients with mutual TLS.
type podClients struct {
	credentials *operatorca.Keeper

	mu      sync.Mutex
	clients map[types.UID]*podClient
}

// podClient holds the connections to the pods of one database.
type podClient struct {
	http *http.Client
	used time.Time
}

// New returns clients that authenticate with the operator's credentials.
func New(credentials *operatorca.Keeper) Clients {
	return &podClients{credentials: credentials, clients: map[types.UID]*podClient{}}
}

// clientLife is the time after which the connections to an unused database are dropped.
const clientLife = 10 * time.Minute

func (c *podClients) of(database types.UID) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.clients, func(_ types.UID, p *podClient) bool { return now.Sub(p.used) > clientLife })
	p := c.clients[database]
	if p == nil {
		p = &podClient{http: &http.Client{
			// A redirect could lead requests with the operator's credentials to another address.
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

// httpProxies implements Proxies over plain HTTP. Proxies are queried twice per run, so no connection is kept.
type httpProxies struct{}

var plain = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: NodeTimeout}).DialContext, DisableKeepAlives: true},
}

// mostCounters is the maximum size of a proxy's response with its counters, in bytes. In a large mesh, the response is
// several megabytes long.
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
	// The limit was reached, so the text is incomplete.
	if body.N == 0 {
		return fmt.Errorf("GET %s: the answer has more than %d bytes, which is more than that of any proxy", req.URL, mostCounters)
	}
	return nil
}

func (c *podClients) Sidecars(database types.UID) emulation.Sidecars {
	return &httpSidecars{httpPods{c.of(database)}}
}

// httpPods sends requests to the pods of one database.
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
	// As in Clock, log.Now is the node's time at some moment during the request. The middle of the request differs from
	// that moment by at most half of the request's duration.
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

// auditWithin bounds an audit. It is long, because a steward reads all rows over a network.
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

// clockProbes is the number of readings of a clock. The reading with the fastest answer is the most accurate.
const clockProbes = 8

// Clock reads a clock by the method of F. Cristian (Probabilistic clock synchronization, 1989). The reading was taken
// at some time between the sending of the request and the arrival of the answer.
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

// get requests a body that is not JSON. The caller must close the body.
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
	// One byte more than permitted is read, to detect a longer answer.
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
	// The number of commas bounds the number of values before anything is decoded.
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
