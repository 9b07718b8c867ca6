package metrics

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// everything exports one sample of every metric in the table.
func everything() *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	for _, s := range All() {
		for _, d := range s.Metrics {
			values := slices.Repeat([]string{"x"}, len(d.Labels))
			if d.Type == Histogram {
				h := d.HistogramVec()
				h.WithLabelValues(values...).Observe(1)
				r.MustRegister(h)
				continue
			}
			r.MustRegister(NewCollector([]*Definition{d}, func(put Put) { put(d, 1, values...) }))
		}
	}
	return r
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything())
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	units := []string{"seconds", "bytes", "ratio", "cores", "celsius", "volts"}
	for _, s := range All() {
		for _, d := range s.Metrics {
			if d.Type == Counter && !strings.HasSuffix(d.Name, "_total") {
				t.Errorf("%s: a counter ends in _total", d.Name)
			}
			if !strings.HasSuffix(d.Help, ".") {
				t.Errorf("%s: its help is no sentence: %s", d.Name, d.Help)
			}
			// OpenMetrics requires that the name of a metric contains its unit. Metrics whose help texts start with these words
			// are times or sizes.
			for _, word := range []string{"CPU time", "Bytes", "Latency of", "Size of"} {
				if strings.HasPrefix(d.Help, word) && !slices.ContainsFunc(units, func(u string) bool { return strings.Contains(d.Name, u) || strings.Contains(d.Name, "_bytes") }) {
					t.Errorf("%s: no unit in the name of %q", d.Name, d.Help)
				}
			}
			for _, l := range d.Labels {
				if slices.Contains([]string{"client", "key", "id", "transaction_id"}, l) {
					t.Errorf("%s: label %s has no bounded number of values", d.Name, l)
				}
			}
		}
	}
}

// TestLintFindsMistakes checks that the linter used by TestLint detects wrong names.
func TestLintFindsMistakes(t *testing.T) {
	text := "# HELP geobench_wait_milliseconds Wait.\n# TYPE geobench_wait_milliseconds counter\ngeobench_wait_milliseconds 1\n"
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) < 2 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestDocumentation(t *testing.T) {
	got, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	Document(&want)
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/metrics.md is not what the table says: run make generate")
	}
}

func TestLinger(t *testing.T) {
	s, err := Serve("127.0.0.1:0", NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()       //nolint:errcheck // the test ends
	s.Linger(t.Context()) // no scrape yet, so Linger returns immediately
	take := func() {
		resp, err := http.Get("http://" + s.Address() + "/metrics")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	take()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.Linger(over) // Linger gives up when ctx ends
	lingered := make(chan struct{})
	go func() {
		s.Linger(t.Context())
		close(lingered)
	}()
	for done := false; !done; {
		take()
		select {
		case <-lingered:
			done = true
		default:
		}
	}
}
