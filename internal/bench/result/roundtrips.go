package result

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// SnapshotRoom is the maximum size in bytes of the packed statuses of all nodes. A ConfigMap holds three such sets of
// statuses, along with other notes of a run.
const SnapshotRoom = compress.MaxPacked / 4

// MergeRoundTrips merges the round trips between each pair of regions into the status of one node of the first region.
// With many nodes, round trips make up most of the size of the statuses, and a document merges them in any case.
func MergeRoundTrips(nodes []admin.Status, t *geo.Topology) {
	type link struct {
		from geo.Region
		to   string
	}
	first := map[link]*admin.LinkStatus{}
	for i := range nodes {
		s := &nodes[i]
		if s.ID < 0 || s.ID >= t.Nodes() {
			continue
		}
		for j := range s.Links {
			l := &s.Links[j]
			k := link{t.RegionOf(geo.NodeID(s.ID)), l.To}
			f := first[k]
			if f == nil {
				first[k] = l
				continue
			}
			moveRTT(&f.RTT, &l.RTT)
			if l.Mesh != nil && f.Mesh != nil {
				moveRTT(&f.Mesh.Below, &l.Mesh.Below)
				moveRTT(&f.Mesh.Through, &l.Mesh.Through)
			}
		}
	}
}

// moveRTT adds the encoded histogram *from to the encoded histogram *to, and then clears *from. Unreadable histograms
// count as not measured.
func moveRTT(to, from *string) {
	if h := mergeRTT(mergeRTT(nil, *to), *from); h != nil {
		if b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
			*to, *from = string(b), ""
		}
	}
}
