package inprocess

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// BenchmarkMetrics measures the cost of metrics. It compares the throughput of a saturated database (no emulated delay,
// all CPUs busy) with and without metrics that are scraped every second. Both kinds of runs alternate in one process.
// overhead-% is the median loss of throughput over all pairs of runs. cpu-overhead-% is the same for the throughput per
// second of CPU time.
func BenchmarkMetrics(b *testing.B) {
	text := strings.Replace(manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 200, warmup: 1s, duration: 6s}", 1),
		"network: {profileRef: {name: smallbank-two-regions}, emulation: BuiltIn}",
		"network: {emulation: None, profile: {intraRegion: {rtt: 0s}, links: [{from: us-west-2, to: ap-northeast-1, rtt: 0s}]}}", 1)
	p := planOf(b, text)
	// play returns the number of transactions per second of real time, and per second of CPU time. Other load on the
	// machine hardly affects the second number.
	play := func(observe bool) (rate, perCPU float64) {
		o := Observer{}
		if observe {
			registry := metrics.NewRegistry()
			o.Registry = registry
			server, err := metrics.Serve("127.0.0.1:0", registry)
			if err != nil {
				b.Fatal(err)
			}
			scraping, stop := context.WithCancel(b.Context())
			defer stop()
			go scrapeEverySecond(scraping, b, server)
			defer server.Close() //nolint:errcheck // the run is over
		}
		cpu := late.CPUTime()
		d, err := Observed(b.Context(), p, nil, o)
		if err != nil {
			b.Fatal(err)
		}
		return float64(d.Summary.ThroughputPerSecond), float64(d.Summary.Committed) / (late.CPUTime() - cpu).Seconds()
	}
	var overheads, cpu, with, without []float64
	for b.Loop() {
		for i := range 5 {
			// Alternate the order, so that the warming up of the machine favors neither kind of run.
			on, onCPU := play(i%2 == 0)
			off, offCPU := play(i%2 == 1)
			if i%2 == 1 {
				on, off, onCPU, offCPU = off, on, offCPU, onCPU
			}
			with, without = append(with, on), append(without, off)
			overheads, cpu = append(overheads, 100*(1-on/off)), append(cpu, 100*(1-onCPU/offCPU))
			b.Logf("pair %d: %.0f transactions/s with metrics, %.0f without: %.1f%%; per second of CPU %.0f and %.0f: %.1f%%",
				i+1, on, off, overheads[len(overheads)-1], onCPU, offCPU, cpu[len(cpu)-1])
		}
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(median(overheads), "overhead-%")
	b.ReportMetric(median(cpu), "cpu-overhead-%")
	b.ReportMetric(median(with), "with-txn/s")
	b.ReportMetric(median(without), "without-txn/s")
}

func scrapeEverySecond(ctx context.Context, b *testing.B, s *metrics.Server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address()+"/metrics", nil)
		req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
