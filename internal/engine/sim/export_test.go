package sim

import "github.com/geobench/geobench/internal/base/geo"

// ForgetSynced marks all inputs of a crashed node except the first as not synced, as with a log that guarantees
// nothing.
func ForgetSynced(s *Sim, id geo.NodeID) {
	s.nodes[id].synced = 0
	s.LoseTail(id, 0)
}
