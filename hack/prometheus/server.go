package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// server is a running Prometheus. It scraped a run in the period between from and to.
type server struct {
	url      string
	from, to time.Time
	// rateInterval is the value of $__rate_interval. As in Grafana, it is at least four times the scrape interval.
	rateInterval time.Duration
	stop         func()
}

// observe starts a Prometheus that scrapes every second, and runs a manifest with geobench run.
func observe(ctx context.Context, c config, native bool) (*server, error) {
	if c.server == "" || c.geobench == "" {
		return nil, fmt.Errorf("-server and -geobench: both are needed where no -url is given")
	}
	folder, err := os.MkdirTemp("", "geobench-prometheus")
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	rules, err := filepath.Abs(filepath.Join(c.dashboards, "rules.yaml"))
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s, scrape_native_histograms: %t}
rule_files: [%q]
scrape_configs:
- job_name: geobench
  static_configs: [{targets: [%q], labels: {namespace: local}}]
`, native, rules, addresses[1])
	file := filepath.Join(folder, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, c.server, "--config.file", file, "--storage.tsdb.path", filepath.Join(folder, "data"),
		"--web.listen-address", addresses[0], "--enable-feature=exemplar-storage", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	s := &server{url: "http://" + addresses[0], rateInterval: 5 * time.Second, stop: func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-exited
		_ = os.RemoveAll(folder)
	}}
	fail := func(err error) (*server, error) {
		s.stop()
		return nil, fmt.Errorf("%w\n%s", err, log.String())
	}
	for ready := false; !ready; {
		select {
		case err := <-exited:
			exited <- err
			return fail(fmt.Errorf("prometheus ended: %w", err))
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(50 * time.Millisecond):
			resp, err := http.Get(s.url + "/-/ready")
			if err == nil {
				_ = resp.Body.Close()
				ready = resp.StatusCode == http.StatusOK
			}
		}
	}
	s.from = time.Now()
	play := exec.CommandContext(ctx, c.geobench, "run", "-f", c.manifest, "--metrics-address", addresses[1], "-q", "-o", "json")
	var complaints bytes.Buffer
	play.Stdout, play.Stderr = io.Discard, &complaints
	// The scraped data can be used even if the verdict is not Passed, for example because the machine is busy.
	if err := play.Run(); err != nil && play.ProcessState.ExitCode() != 1 {
		return fail(fmt.Errorf("geobench run: %w: %s", err, complaints.String()))
	}
	s.to = time.Now()
	if err := s.endWithLastScrape(ctx); err != nil {
		return fail(err)
	}
	return s, nil
}

// endWithLastScrape moves the end of the period to the last successful scrape. The process may stop serving some time
// before it exits, and a scrape that fails in between marks all series as ended.
func (s *server) endWithLastScrape(ctx context.Context) error {
	answer, err := s.evaluate(ctx, `max(max_over_time(timestamp(up{job="geobench"} == 1)[1m:100ms]))`, true)
	if err != nil {
		return err
	}
	if len(answer) == 0 || answer[0].Value == nil {
		return errors.New("no scrape was answered during the last minute")
	}
	s.to = time.UnixMilli(int64(answer[0].Value.value * 1000))
	return nil
}

func freeAddresses(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		out = append(out, l.Addr().String())
		defer l.Close() //nolint:errcheck // it was opened only to find a free port
	}
	return out, nil
}

// series is a time series in the result of a query.
type series struct {
	Labels map[string]string `json:"metric"`
	Value  *sample           `json:"value"`
	Values []sample          `json:"values"`
	// Histogram and Histograms are the values of a native histogram. Its buckets are lists of a lower bound, an upper
	// bound and a count.
	Histogram  *histogram  `json:"histogram"`
	Histograms []histogram `json:"histograms"`
}

// points returns the number of values that are not NaN, including histograms.
func (s *series) points() int {
	n := len(s.Histograms)
	if s.Histogram != nil {
		n++
	}
	values := s.Values
	if s.Value != nil {
		values = append(values, *s.Value)
	}
	for _, v := range values {
		if !math.IsNaN(v.value) {
			n++
		}
	}
	return n
}

type sample struct {
	at, value float64
}

func (s *sample) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &[]any{&s.at, &text}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(text, 64)
	s.value = v
	return err
}

type histogram struct {
	at      float64
	buckets [][3]float64
}

func (h *histogram) UnmarshalJSON(b []byte) error {
	var body struct {
		Buckets [][4]any `json:"buckets"`
	}
	if err := json.Unmarshal(b, &[]any{&h.at, &body}); err != nil {
		return err
	}
	for _, raw := range body.Buckets {
		var bucket [3]float64
		for i := range bucket {
			v, err := strconv.ParseFloat(fmt.Sprint(raw[i+1]), 64)
			if err != nil {
				return err
			}
			bucket[i] = v
		}
		h.buckets = append(h.buckets, bucket)
	}
	return nil
}

// get sends a request to the API of the server, and decodes the data of the answer into data.
func (s *server) get(ctx context.Context, path string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/"+path, bytes.NewBufferString(query.Encode()))
	if query == nil {
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/"+path, nil)
	}
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// step is the resolution of range queries.
const step = time.Second

// evaluate evaluates a query: at the end of the run if instant is set, and otherwise over the whole run.
func (s *server) evaluate(ctx context.Context, expr string, instant bool) ([]series, error) {
	var data struct{ Result []series }
	query, path := url.Values{"query": {expr}}, "query_range"
	if instant {
		query.Set("time", stamp(s.to))
		path = "query"
	} else {
		query.Set("start", stamp(s.from))
		query.Set("end", stamp(s.to))
		query.Set("step", fmt.Sprint(step.Seconds()))
	}
	err := s.get(ctx, path, query, &data)
	return data.Result, err
}
