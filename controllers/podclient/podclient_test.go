package podclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/identity/identitytest"
)

func TestHTTPWorkerClient(t *testing.T) {
	credentials, folder := unitCredentials(t, "uid")
	addr := identitytest.Serve(t, folder, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case admin.PathClock:
			_ = json.NewEncoder(w).Encode(admin.Reading{Wall: time.Now().Add(time.Hour).UnixNano(), Monotonic: time.Minute})
		case deploy.PathHistory:
			http.Error(w, "the history is still being written", http.StatusConflict)
		}
	})
	c := New(credentials).Nodes("uid")
	clock, err := c.Clock(t.Context(), addr)
	if err != nil || clock.Within <= 0 || clock.Within > time.Minute || (clock.Ahead-time.Hour).Abs() > clock.Within || (time.Since(clock.Zero)-time.Minute).Abs() > time.Minute/2 {
		t.Errorf("the clocks are %+v, %v; they are an hour ahead, and began a minute ago", clock, err)
	}
	if _, err := c.History(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "409 Conflict: the history is still") {
		t.Errorf("a history that is being written gave %v", err)
	}
	body, err := c.History(t.Context(), identitytest.Serve(t, folder, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "all of it") }))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close() //nolint:errcheck // a test
	if b, err := io.ReadAll(body); err != nil || string(b) != "all of it" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestHTTPNodeClient(t *testing.T) {
	credentials, folder := unitCredentials(t, "uid")
	server := identitytest.Serve(t, folder, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET/status":
			fmt.Fprint(w, `{"node": "a/0/0", "pod": "p", "ready": true}`)
		case "GET/log":
			fmt.Fprint(w, `{"process": "p", "now": "2026-01-01T00:00:00Z"}`)
		case "GET/clock":
			http.Redirect(w, r, "/status", http.StatusFound)
		case "POST/load":
			fmt.Fprint(w, `{"rows": 7}`)
		default:
			http.Error(w, "3 transactions are pending", http.StatusConflict)
		}
	})
	pods := New(credentials)
	addr, c := server, pods.Nodes("uid")
	if s, err := c.Status(t.Context(), addr); err != nil || s.Node != "a/0/0" || !s.Ready {
		t.Errorf("status is %+v, %v", s, err)
	}
	if r, err := c.Load(t.Context(), addr, &admin.LoadRequest{Dataset: "d"}); err != nil || r.Rows != 7 {
		t.Errorf("load is %+v, %v", r, err)
	}
	if _, err := c.Audit(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "409 Conflict: 3 transactions are pending") {
		t.Errorf("audit says %v", err)
	}
	if _, err := c.Clock(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("a redirection is followed: %v", err)
	}
	if s, err := pods.Sidecars("uid").Status(t.Context(), addr); err != nil || s.Pod != "p" {
		t.Errorf("the sidecar's status is %+v, %v", s, err)
	}
	if l, ahead, within, err := pods.Sidecars("uid").Log(t.Context(), addr); err != nil || l.Process != "p" || ahead.Abs() < time.Hour || within <= 0 {
		t.Errorf("the sidecar's log is %+v, %s ahead within %s, %v", l, ahead, within, err)
	}
	if _, err := pods.Nodes("other").Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "not other.database.geobench.dev") {
		t.Errorf("another database's pod is believed: %v", err)
	}
	stranger, _ := unitCredentials(t, "uid")
	if _, err := New(stranger).Nodes("uid").Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("whoever has the address is believed: %v", err)
	}
}

// Answers that are far longer than any node's answers are neither read completely nor decoded.
func TestAnswersAreBounded(t *testing.T) {
	credentials, folder := unitCredentials(t, "uid")
	for name, c := range map[string]struct {
		begin, element, end string
		most                bound
	}{
		"a status of many links":    {`{"links": [`, `{}`, `]}`, statusBound},
		"a status of a long reason": {`{"reason": "`, "0123456789", `"}`, statusBound},
		"a log of many entries":     {`{"entries": [`, `{}`, `]}`, listBound},
		"an audit of many shards":   {`{"shards": [`, `{}`, `]}`, auditBound},
		"a clock":                   {`{"wallNanoseconds": [`, `0`, `]}`, small},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			addr := identitytest.Serve(t, folder, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, c.begin, c.element)
				part := []byte(strings.Repeat(","+c.element, 1000))
				for sent < 16<<20 {
					n, err := w.Write(part)
					if sent += n; err != nil {
						return // the client has stopped reading
					}
				}
				fmt.Fprint(w, c.end)
			})
			nodes := New(credentials).Nodes("uid")
			var err error
			switch strings.Fields(name)[1] {
			case "status":
				_, err = nodes.Status(t.Context(), addr)
			case "log":
				_, err = nodes.Log(t.Context(), addr)
			case "audit":
				_, err = nodes.Audit(t.Context(), addr)
			case "clock":
				_, err = nodes.Clock(t.Context(), addr)
			}
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more than %d bytes or %d values", c.most.bytes, c.most.values)) {
				t.Errorf("%v, want that it has more than %+v", err, c.most)
			}
		})
	}
	// A small answer may contain many values.
	addr := identitytest.Serve(t, folder, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"links": [{}%s]}`, strings.Repeat(",{}", statusBound.values+1))
	})
	if _, err := New(credentials).Nodes("uid").Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("%v, want that it has too many values", err)
	}
}

// The largest answers of correct nodes are within the bounds.
func TestLargestAnswersAreRead(t *testing.T) {
	all := make([]int, 16_384) // nodes of the largest layout
	for i := range all {
		all[i] = i
	}
	regions := make([]admin.LinkStatus, 32)
	for i := range regions {
		regions[i] = admin.LinkStatus{To: "ap-northeast-1", Traffic: geo.Traffic{Bytes: 1 << 40, Messages: 1 << 40, Segments: 1 << 40}, RTT: strings.Repeat("x", 2000)}
	}
	status := &admin.Status{Links: regions, Disturbance: &admin.Disturbance{Cut: all, Lost: all}}
	link := geo.Link{Delay: time.Minute, Jitter: time.Minute, LossPPM: 999_999, BandwidthMbps: 100_000}
	links := &admin.Disturbance{SlowPercent: 100, ClockOffset: time.Hour}
	for range 31 {
		links.Links = append(links.Links, admin.DisturbedLink{To: "ap-northeast-1", Link: link, Back: link})
	}
	logs := map[string]*admin.Log{}
	for name, d := range map[string]*admin.Disturbance{"of links": links, "of cuts": {Cut: all[:135]}, "of all nodes": {Cut: all, Lost: all}} {
		log := &admin.Log{Process: "p"}
		for i := range time.Duration(2 * admin.MaxLog) {
			log.Change(time.Hour+i*time.Minute, d)
		}
		for i := range time.Duration(100 * 32) {
			log.Fast = append(log.Fast, admin.FastLink{To: "ap-northeast-1", From: time.Hour + i, Until: 2*time.Hour + i, Median: time.Second})
		}
		logs[name] = log
	}
	sums := map[string]int64{}
	for w := range uint64(1000) {
		for i := range uint64(182) {
			sums[workload.FindingName("12", "by-number", 163_830_000+w, i)] = math.MinInt64
		}
	}
	largest := &admin.Audit{Shards: []store.ShardSums{{Sums: sums}}}

	credentials, folder := unitCredentials(t, "uid")
	var answer any
	addr := identitytest.Serve(t, folder, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	nodes := New(credentials).Nodes("uid")
	answer = status
	if s, err := nodes.Status(t.Context(), addr); err != nil || !cmp.Equal(s, status) {
		t.Errorf("the status is not read: %v", err)
	}
	for name, log := range logs {
		answer = log
		if l, err := nodes.Log(t.Context(), addr); err != nil || !cmp.Equal(l, log) {
			t.Errorf("a log %s is not read: %v", name, err)
		}
	}
	answer = largest
	if a, err := nodes.Audit(t.Context(), addr); err != nil || !cmp.Equal(a, largest) {
		t.Errorf("an audit of %d sums is not read: %v", len(sums), err)
	}
}

// unitCredentials returns the credentials of an operator, and of the pods of one of its databases.
func unitCredentials(t *testing.T, database types.UID) (*operatorca.Keeper, identity.Folder) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).Build()
	credentials := &operatorca.Keeper{Client: c, Live: c, Namespace: "geobench-system", Clock: clock.RealClock{}}
	a, err := credentials.Authority(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(identity.ServerName(string(database)), false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for file, b := range map[string][]byte{identity.FileCert: cert.Cert, identity.FileKey: cert.Key, identity.FileSigners: a.Signers()} {
		if err := os.WriteFile(filepath.Join(folder, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return credentials, identity.Folder(folder)
}

// The counters of a mesh's proxy are read only from the given address, only as far as the reader needs, and within a
// bound.
func TestProxies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stats/prometheus":
			fmt.Fprint(w, "x 1\n", r.URL.RawQuery)
		case "/elsewhere":
			http.Redirect(w, r, "/stats/prometheus", http.StatusFound)
		case "/endless":
			for b := make([]byte, 1<<20); ; {
				if _, err := w.Write(b); err != nil {
					return // the client has stopped reading
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	addr, proxies := server.Listener.Addr().String(), New(nil).Proxies()
	var text []byte
	all := func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	}
	if err := proxies.Counters(t.Context(), addr, "/stats/prometheus?usedonly&filter=a%7Cb", all); err != nil || string(text) != "x 1\nusedonly&filter=a%7Cb" {
		t.Errorf("%q, %v", text, err)
	}
	discard := func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	for path, says := range map[string]string{"/elsewhere": "302 Found", "/nothing": "404 Not Found", "/endless": "more than that of any proxy"} {
		if err := proxies.Counters(t.Context(), addr, path, discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	unreadable := errors.New("this is no number")
	if err := proxies.Counters(t.Context(), addr, "/stats/prometheus", func(io.Reader) error { return unreadable }); !errors.Is(err, unreadable) {
		t.Errorf("what is wrong with the text is not said: %v", err)
	}
}
