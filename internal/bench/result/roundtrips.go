package result

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// SnapshotRoom is the number of bytes that the packed statuses of all nodes may have. A ConfigMap holds three of them,
// along with other notes of a run.
const SnapshotRoom = compress.MaxPacked / 4

// MergeRoundTrips merges the round trips between two regions at one node of the first region; a document merges them in
// any case. The round trips of many nodes are most of the size of their statuses.
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

// moveRTT adds an encoded histogram of round trips to another histogram and empties it. Unreadable histograms count as
// not measured.
func moveRTT(to, from *string) {
	if h := mergeRTT(mergeRTT(nil, *to), *from); h != nil {
		if b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
			*to, *from = string(b), ""
		}
	}
}
