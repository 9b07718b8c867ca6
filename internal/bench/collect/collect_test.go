package collect

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/ops/metrics"
)

func TestWorkerCounts(t *testing.T) {
	w := NewWorker(WorkerLabels{Run: "r", Database: "d", Region: "eu", Index: 1}, []string{"balance", "pay"})
	w.Watch(func() load.Progress {
		return load.Progress{Underway: 5, Dropped: 2, Repetition: 3, Stage: load.Measure}
	})
	end := func(typ uint8, s txn.Status, reason string, latency, now time.Duration) {
		causes := map[txn.Status]txn.Cause{
			txn.Aborted: txn.CauseProcedure, txn.Refused: txn.CauseNode, txn.Unknown: txn.CauseNode,
		}
		o := txn.Outcome{ID: txn.MakeID(7, 9), Status: s, Cause: causes[s], Reason: reason}
		w.Ended(typ, txn.MultiHomeSinglePartition, &o, latency, now)
	}
	for i := range 10 {
		end(1, txn.Committed, "", 20*time.Millisecond, time.Duration(i)*time.Second)
	}
	end(1, txn.Aborted, "insufficient funds", 0, 0)
	end(1, txn.Refused, "overloaded", 0, 0)
	end(1, txn.Unknown, "connection lost", 0, 0)
	end(1, txn.Unknown, load.Timeout, 0, 0)
	for range 3 {
		o := txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "overtaken"}
		w.Retried(1, txn.MultiHomeSinglePartition, &o)
	}
	o := txn.Outcome{Status: txn.Refused, Cause: txn.CauseNode, Reason: "overloaded"}
	w.Retried(1, txn.MultiHomeSinglePartition, &o)
	attempts := func(outcome, cause string, n int) string {
		return fmt.Sprintf(`geobench_worker_attempts_total{cause="%s",class="MH-SP",database="d",outcome="%s",`+
			`region="eu",run="r",transaction="pay",worker="1"} %d`, cause, outcome, n)
	}
	const of = `{class="MH-SP",database="d",region="eu",run="r",transaction="pay",worker="1"} `
	withReason := func(name, reason string) string {
		return fmt.Sprintf(`%s{class="MH-SP",database="d",reason="%s",`+
			`region="eu",run="r",transaction="pay",worker="1"} 1`, name, reason)
	}
	text := scrape(t, w)
	for _, want := range []string{
		"geobench_worker_committed_total" + of + "10",
		"geobench_worker_timed_out_total" + of + "1",
		attempts("committed", "none", 10),
		attempts("aborted", "procedure", 1),
		attempts("aborted", "conflict", 3),
		attempts("refused", "node", 2),
		attempts("unknown", "node", 2),
		withReason("geobench_worker_aborted_total", "insufficient funds"),
		withReason("geobench_worker_refused_total", "overloaded"),
		withReason("geobench_worker_unknown_total", "connection lost"),
		`geobench_worker_in_flight_transactions{database="d",region="eu",run="r",worker="1"} 5`,
		`geobench_worker_dropped_total{database="d",region="eu",run="r",worker="1"} 2`,
		`geobench_worker_repetition{database="d",region="eu",run="r",worker="1"} 3`,
		`geobench_worker_measuring{database="d",region="eu",run="r",worker="1"} 1`,
		`transaction="pay",worker="1",le="0.025"} 10 # {transaction_id="7.9"} 0.02`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// TestReasonsAreBounded checks that a database that reports a different reason for each transaction does not create an
// unlimited number of time series.
func TestReasonsAreBounded(t *testing.T) {
	w := NewWorker(WorkerLabels{}, []string{"t"})
	for i := range 10 * maxReasons {
		w.Ended(0, 0, &txn.Outcome{Status: txn.Aborted, Reason: fmt.Sprint("reason ", i)}, 0, 0)
	}
	if n := testutil.CollectAndCount(w, metrics.Aborted.Name); n != maxReasons+1 {
		t.Errorf("%d reasons are kept, not %d and one for the rest", n, maxReasons)
	}
}

// TestHistogramIsNativeAndClassic checks both kinds of buckets. Dashboards use the classic buckets if Prometheus does
// not scrape native buckets.
func TestHistogramIsNativeAndClassic(t *testing.T) {
	w := NewWorker(WorkerLabels{}, []string{"t"})
	w.Ended(0, 0, &txn.Outcome{Status: txn.Committed}, 107*time.Millisecond, time.Hour)
	r := prometheus.NewRegistry()
	r.MustRegister(w)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == metrics.Latency.Name })
	h := families[i].GetMetric()[0].GetHistogram()
	if len(h.GetBucket()) != len(metrics.Latency.Buckets) || len(h.GetPositiveSpan()) == 0 || h.GetSchema() < 3 {
		t.Errorf("%d classic buckets, native schema %d with %d spans",
			len(h.GetBucket()), h.GetSchema(), len(h.GetPositiveSpan()))
	}
}

func scrape(t *testing.T, c prometheus.Collector) string {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	s, err := metrics.Serve("127.0.0.1:0", r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test ends
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	b, err := io.ReadAll(resp.Body)
	kind := resp.Header.Get("Content-Type")
	if err != nil || !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(string(b), "# EOF\n") {
		t.Fatalf("%v, %s", err, kind)
	}
	return string(b)
}

// TestNativeBuckets compares bucket numbers with their definition.
func TestNativeBuckets(t *testing.T) {
	for _, v := range []float64{1.1e-6, 5e-6, .001, .0059, .107, .5, .50001, 1, 1.0001, 2, 60, 1000} {
		i := nativeBucket(v)
		low, high := math.Exp2(float64(i-1)/8), math.Exp2(float64(i)/8)
		if v <= low || v > high {
			t.Errorf("%g is in bucket %d, which is (%g, %g]", v, i, low, high)
		}
	}
	for v, want := range map[float64]int{0: lowest, -1: lowest, 1e-9: lowest, 1e9: highest} {
		if got := nativeBucket(v); got != want {
			t.Errorf("%g is in bucket %d, want %d", v, got, want)
		}
	}
}

func BenchmarkEnded(b *testing.B) {
	w := NewWorker(WorkerLabels{}, []string{"t"})
	o := &txn.Outcome{ID: txn.MakeID(1, 1), Status: txn.Committed}
	var now time.Duration
	for b.Loop() {
		now += 5 * time.Microsecond
		w.Ended(0, 0, o, 107*time.Millisecond+now%time.Millisecond, now)
	}
}
