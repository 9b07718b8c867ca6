package result

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/api/v1alpha1"
)

// All latency histograms have this shape, so that they can be merged without loss. Values are in microseconds, from 1
// to 2 h, with three significant digits. The API limits requestTimeout to 1 h. The range thus covers any attempt with
// an answer in time, after up to an hour in the queue of an open loop. A longer latency counts as unobserved; exact
// maximum and sum are stored separately.
const (
	HistogramLowest  = 1
	HistogramHighest = 7_200_000_000
	HistogramDigits  = 3

	// formerHighest is the HistogramHighest of result documents before version 0.1, which clipped at 120 s.
	formerHighest = 120_000_000
)

// NewHistogram returns an empty latency histogram in microseconds.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(HistogramLowest, HistogramHighest, HistogramDigits)
}

// Microseconds rounds d to microseconds, the resolution of histograms. A negative d yields 0.
func Microseconds(d time.Duration) int64 {
	return max(0, int64((d+500*time.Nanosecond)/time.Microsecond))
}

// EncodeHistogram encodes h in the compressed HDR V2 format, in base64. An empty or nil histogram yields the empty
// string.
func EncodeHistogram(h *hdrhistogram.Histogram) string {
	if h == nil || h.TotalCount() == 0 {
		return ""
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic("result: encoding a histogram: " + err.Error()) // it writes to memory and cannot fail
	}
	return string(b)
}

// DecodeHistogram decodes the output of EncodeHistogram, including the output of earlier versions. It refuses
// histograms of any other shape.
func DecodeHistogram(s string) (*hdrhistogram.Histogram, error) {
	if s == "" {
		return NewHistogram(), nil
	}
	// The shape must be checked first: Decode allocates memory for whatever shape the header claims.
	if err := checkShape(s); err != nil {
		return nil, err
	}
	h, err := hdrhistogram.Decode([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}

// checkShape checks only the header, because decoding a histogram of another shape could take any amount of memory.
func checkShape(s string) error {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if len(b) < 8 {
		return fmt.Errorf("histogram: %d bytes are too short", len(b))
	}
	z, err := zlib.NewReader(bytes.NewReader(b[8:]))
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	var head [hdrhistogram.ENCODING_HEADER_SIZE]byte
	if _, err := io.ReadFull(z, head[:]); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	digits, lowest, highest := binary.BigEndian.Uint32(head[12:]), binary.BigEndian.Uint64(head[16:]), binary.BigEndian.Uint64(head[24:])
	// Results of earlier versions must stay readable.
	if digits != HistogramDigits || lowest != HistogramLowest || highest != HistogramHighest && highest != formerHighest {
		return fmt.Errorf("histogram: it has %d digits from %d to %d us, not %d digits from %d to %d us",
			digits, lowest, highest, HistogramDigits, HistogramLowest, HistogramHighest)
	}
	return nil
}

// SecondHistogram is a small latency histogram for one second of a timeline. It has sixteen buckets per doubling, so
// percentiles are accurate to 3.2%. The zero value is empty.
type SecondHistogram struct {
	counts [secondBuckets]uint32
}

// secondBuckets is the index of the bucket of HistogramHighest, plus one.
const secondBuckets = 475

func secondBucket(us int64) int {
	v := uint64(min(us, HistogramHighest))
	// Below 16, the number of bits to shift by would be negative.
	if v < 16 {
		return int(v)
	}
	shift := bits.Len64(v) - 5
	return 16*shift + int(v>>shift)
}

// secondValue returns the middle of bucket i in microseconds.
func secondValue(i int) int64 {
	if i < 32 {
		return int64(i)
	}
	shift := i/16 - 1
	return int64(16+i%16)<<shift + int64(1)<<(shift-1)
}

// Record counts one latency of us microseconds, 0 or more.
func (s *SecondHistogram) Record(us int64) { s.counts[secondBucket(us)]++ }

// Percentile returns the p-th percentile, in microseconds. It covers the recorded latencies, and transactions without a
// latency, which rank above all latencies. never is the number of these transactions. The result is 0 if there are no
// transactions.
func (s *SecondHistogram) Percentile(p float64, never int64) v1alpha1.Quantile {
	total := never
	for _, c := range s.counts {
		total += int64(c)
	}
	if total <= 0 {
		return v1alpha1.Quantile{}
	}
	r := int64(rank(p, total))
	var sum, largest int64
	for i, c := range s.counts {
		if c == 0 {
			continue
		}
		largest = secondValue(i)
		if sum += int64(c); sum >= r {
			return v1alpha1.Observed(largest)
		}
	}
	// The rank falls among the transactions without a latency, so only a lower bound is known.
	return v1alpha1.MoreThan(largest)
}

// AppendTo appends the non-empty buckets as pairs of varints: the distance from the previous bucket, and the count.
func (s *SecondHistogram) AppendTo(b []byte) []byte {
	last := 0
	for i, c := range s.counts {
		if c > 0 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = binary.AppendUvarint(b, uint64(c))
			last = i
		}
	}
	return b
}

// Add adds the buckets in b, which AppendTo wrote.
func (s *SecondHistogram) Add(b []byte) error {
	at := uint64(0)
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("timeline: a bucket is cut off")
		}
		count, m := binary.Uvarint(b[n:])
		// Reports come over the network, so every index and count is checked before it is used.
		if m <= 0 || gap >= secondBuckets || at+gap >= secondBuckets || count > 1<<32-1 {
			return fmt.Errorf("timeline: bucket %d with count %d is out of range", at+gap, count)
		}
		at += gap
		if uint64(s.counts[at])+count > 1<<32-1 {
			return fmt.Errorf("timeline: bucket %d overflows", at)
		}
		s.counts[at] += uint32(count)
		b = b[n+m:]
	}
	return nil
}
