package sim

import "github.com/geobench/geobench/internal/base/geo"

// ForgetSynced lets a crashed node forget which inputs were synced, and all but the first of them: a log that promises
// nothing.
func ForgetSynced(s *Sim, id geo.NodeID) {
	s.nodes[id].synced = 0
	s.LoseTail(id, 0)
}
