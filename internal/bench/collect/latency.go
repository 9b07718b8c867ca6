package collect

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/geobench/geobench/internal/ops/metrics"
)

// A latency histogram counts an observation with three atomic additions, because the general histogram of client_golang
// takes longer than some databases need for a commit. Native buckets have schema 3, which means eight buckets per
// doubling: bucket i ends at 2^(i/8) s.
const (
	schema = 3
	// lowest and highest are the numbers of the first and last native bucket: 1 µs and 1024 s.
	lowest, highest = -159, 80
)

// bounds holds the upper bounds of the buckets within a doubling, as fractions from 1/2 to 1.
var bounds = func() (b [1 << schema]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i)/(1<<schema) - 1)
	}
	return b
}()

// nativeBucket returns the number of the bucket for v, in seconds.
func nativeBucket(v float64) int {
	if v <= 0 {
		return lowest
	}
	fraction, exponent := math.Frexp(v)
	i := 0
	for i < len(bounds) && fraction > bounds[i] {
		i++
	}
	// Latencies outside the range count in the first or last bucket.
	return min(max(i+(exponent-1)<<schema, lowest), highest)
}

// histogram is a histogram of latencies that any goroutine may update.
type histogram struct {
	native    [highest - lowest + 1]atomic.Int64
	classic   []atomic.Int64 // by Latency.Buckets, with an overflow bucket at the end
	sum       atomic.Int64   // in nanoseconds
	exemplars []atomic.Pointer[dto.Exemplar]
	created   time.Time
}

func newHistogram() *histogram {
	n := len(metrics.Latency.Buckets) + 1
	return &histogram{
		classic: make([]atomic.Int64, n), exemplars: make([]atomic.Pointer[dto.Exemplar], n), created: time.Now(),
	}
}

// observe counts a latency and returns the number of its classic bucket.
func (h *histogram) observe(latency time.Duration) int {
	v := latency.Seconds()
	h.native[nativeBucket(v)-lowest].Add(1)
	h.sum.Add(int64(latency))
	// The upper bounds of Prometheus buckets are inclusive, and so is this search.
	i := sort.SearchFloat64s(metrics.Latency.Buckets, v)
	h.classic[i].Add(1)
	return i
}

func (h *histogram) exemplify(bucket int, latency time.Duration, id string) {
	h.exemplars[bucket].Store(&dto.Exemplar{
		Label:     []*dto.LabelPair{{Name: proto.String("transaction_id"), Value: proto.String(id)}},
		Value:     proto.Float64(latency.Seconds()),
		Timestamp: timestamppb.Now(),
	})
}

// count returns the number of observations.
func (h *histogram) count() (n int64) {
	for i := range h.classic {
		n += h.classic[i].Load()
	}
	return n
}

// metric returns the histogram for Prometheus, with native and classic buckets that match its count.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) (prometheus.Metric, error) {
	buckets, n := map[int]int64{}, int64(0)
	for i := range h.native {
		if k := h.native[i].Load(); k > 0 {
			buckets[i+lowest] = k
			n += k
		}
	}
	m, err := prometheus.NewConstNativeHistogram(desc, uint64(n), float64(h.sum.Load())/1e9, buckets, nil, 0, schema, 0, h.created, labels...)
	return &latencies{m, h, n}, err
}

// latencies adds the classic buckets to a native histogram.
type latencies struct {
	prometheus.Metric
	h *histogram
	n int64
}

func (l *latencies) Write(out *dto.Metric) error {
	if err := l.Metric.Write(out); err != nil {
		return err
	}
	below := int64(0)
	for i, bound := range metrics.Latency.Buckets {
		// Other goroutines update the buckets while they are read one by one, so the sum could exceed the count.
		below = min(below+l.h.classic[i].Load(), l.n)
		out.Histogram.Bucket = append(out.Histogram.Bucket, &dto.Bucket{
			UpperBound: proto.Float64(bound), CumulativeCount: proto.Uint64(uint64(below)), Exemplar: l.h.exemplars[i].Load(),
		})
	}
	for i := range l.h.exemplars {
		if e := l.h.exemplars[i].Load(); e != nil {
			out.Histogram.Exemplars = append(out.Histogram.Exemplars, e)
		}
	}
	slices.SortFunc(out.Histogram.Exemplars, func(a, b *dto.Exemplar) int { return a.Timestamp.AsTime().Compare(b.Timestamp.AsTime()) })
	return nil
}
