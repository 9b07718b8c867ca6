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
)

// NodeClient asks the nodes of a database. Addresses are host:port of a node's administration server.
type NodeClient interface {
	Status(ctx context.Context, addr string) (*admin.Status, error)
	Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error)
	Audit(ctx context.Context, addr string) (*admin.Audit, error)
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

func (c *httpNodeClient) Audit(ctx context.Context, addr string) (*admin.Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out := &admin.Audit{}
	return out, c.do(ctx, http.MethodGet, addr, "/audit", nil, out)
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
