package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// server returns the URL of the API server. The URL is the same on the host and on the node.
func (c *Cluster) server() string { return "https://" + c.Subnets.Node().String() + ":6443" }

// get sends a request as the administrator, to the API server or to the health endpoint of a component. If v is not
// nil, it decodes the JSON answer into v.
func (c *Cluster) get(ctx context.Context, url string, v any) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, reason(body))
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(body, v)
}

// reason returns the reason of a failure from the body of an answer. The reason is the message of a Kubernetes status,
// or otherwise the last lines of the text.
func reason(body []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return lastLines(strings.TrimSpace(string(body)), 5)
}

// httpClient returns a client that trusts only the certificate authority of the cluster, and presents the
// administrator's certificate.
func (c *Cluster) httpClient() (*http.Client, error) {
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", c.path("pki", "ca.crt"))
	}
	admin, err := tls.LoadX509KeyPair(c.path("pki", "admin.crt"), c.path("pki", "admin.key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{ // no proxy: the cluster is on this machine
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{admin}},
	}}, nil
}

// kubectlCache returns the folder in which kubectl caches API discovery.
func (c *Cluster) kubectlCache() string { return c.path("kubectl-cache") }

// kubectl runs kubectl as the administrator.
func (c *Cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, c.binary("kubernetes", "kubectl"), append([]string{
		"--kubeconfig=" + c.kubeconfig(), "--cache-dir=" + c.kubectlCache(),
	}, args...)...)
}
