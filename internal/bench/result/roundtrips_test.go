package result

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// TestStatusesOfManyNodesFit merges the round trips of 256 nodes. Three sets of their statuses (before, at the end and
// after) must then fit into a ConfigMap. The links of the document must stay the same.
func TestStatusesOfManyNodesFit(t *testing.T) {
	top := &geo.Topology{Partitions: 32, Replicas: 1}
	for i := range 8 {
		top.Regions = append(top.Regions, fmt.Sprintf("region-%d", i))
		top.Links = append(top.Links, make([]geo.Link, 8))
	}
	rng := rand.New(rand.NewPCG(1, 0))
	var measured []string // different histograms, more than the window of gzip
	for range 512 {
		h := hdrhistogram.New(1, 1_000_000, 3)
		for range 100 {
			_ = h.RecordValue(int64(50_000 * math.Exp(rng.NormFloat64()/50)))
		}
		b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		measured = append(measured, string(b))
	}
	statuses := func() (nodes []admin.Status) {
		rng := rand.New(rand.NewPCG(2, 0))
		for n := range geo.NodeID(top.Nodes()) {
			s := admin.Status{Node: top.NodeName(n), ID: int(n), Incarnation: "i", Process: fmt.Sprint(rng.Uint64()), Counters: map[string]int64{}}
			for i := range 30 {
				s.Counters[fmt.Sprintf("counter_%d", i)] = rng.Int64N(1e9)
			}
			for _, to := range top.Regions {
				s.Links = append(s.Links, admin.LinkStatus{To: to, RTT: measured[rng.IntN(len(measured))], Traffic: geo.Traffic{Bytes: rng.Int64N(1e12)}})
			}
			nodes = append(nodes, s)
		}
		return nodes
	}
	links := func(nodes []admin.Status) []Link {
		d := &Document{}
		in := &Inputs{Topology: top, Measured: Measured{Before: nodes, After: nodes}, Prices: DefaultPrices()}
		d.fillNetwork(in, &Report{DurationMicroseconds: second, Repetitions: 1})
		return d.Links
	}
	whole, merged := statuses(), statuses()
	MergeRoundTrips(merged, top)
	before, err := compress.JSON(whole)
	if err != nil {
		t.Fatal(err)
	}
	after, err := compress.JSON(merged)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d merged", len(before), len(after))
	if len(after) > SnapshotRoom || len(before) <= SnapshotRoom {
		t.Errorf("statuses of %d nodes take %d bytes, and %d merged; there is room for %d", top.Nodes(), len(before), len(after), SnapshotRoom)
	}
	if want, got := links(whole), links(merged); !reflect.DeepEqual(got, want) {
		t.Errorf("other links than before:\n%+v\n%+v", got[0], want[0])
	}
}
