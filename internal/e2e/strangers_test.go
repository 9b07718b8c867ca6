//go:build e2e

package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/identity/identitytest"
)

// TestStrangers: a client that can reach the pods of a database but has no credentials gets no information and changes
// nothing. The nodes count its attempts.
func TestStrangers(t *testing.T) {
	c := newCluster(t)
	c.apply(t, database("calvin"))
	before := c.awaitVerified(t, "calvin", 3*time.Minute)
	requests := map[string]string{"/status": "GET", "/log": "GET", "/audit": "GET", "/clock": "GET", "/disturb": "POST", "/load": "POST"}
	for _, pod := range c.nodes(t) {
		for path, method := range requests {
			for how, tried := range map[string]struct {
				url  string
				with *tls.Config
			}{
				"on the public port":            {"http://" + pod.Status.PodIP + ":7001", nil},
				"without TLS":                   {"http://" + pod.Status.PodIP + ":7004", nil},
				"without a certificate":         {"https://" + pod.Status.PodIP + ":7004", &tls.Config{InsecureSkipVerify: true}},
				"with a certificate of his own": {"https://" + pod.Status.PodIP + ":7004", identitytest.Stranger(t)},
			} {
				req, err := http.NewRequestWithContext(t.Context(), method, tried.url+path, strings.NewReader(`{"steps":[{"slowPercent":100}]}`))
				if err != nil {
					t.Fatal(err)
				}
				client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: tried.with, DisableKeepAlives: true}}
				resp, err := client.Do(req)
				if err != nil {
					continue
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusBadRequest {
					t.Errorf("%s %s of %s %s: %s", method, path, pod.Name, how, resp.Status)
				}
			}
		}
		hello := wire.Hello{Database: before.Name, Incarnation: before.Status.Incarnation, Process: "stranger"}
		if conn, err := wire.Dial(t.Context(), net.JoinHostPort(pod.Status.PodIP, "7000"), hello, []byte("a key of his own"), nil); err == nil {
			conn.Close()
			t.Errorf("%s takes transactions of strangers", pod.Name)
		}
		if n, err := metric(&pod, 7001, "geobench_node_strangers_total"); err != nil || n < float64(len(requests)) {
			t.Errorf("%s has seen %g strangers, %v", pod.Name, n, err)
		}
	}
	if out := c.disturbed(t); len(out) > 0 {
		t.Errorf("%v are disturbed", out)
	}
	c.apply(t, run("after", 20, "1s", "5s"))
	c.mustPass(t, c.awaitEnd(t, "after", 3*time.Minute))
	after, err := c.database(t.Context(), "calvin")
	if err != nil || after.Status.Incarnation != before.Status.Incarnation {
		t.Errorf("the database was remade: incarnation %s after %s, %v", after.Status.Incarnation, before.Status.Incarnation, err)
	}
}
