package sim

import "github.com/geobench/geobench/internal/base/geo"

// ForgetSynced removes all inputs from the log of a crashed node, including synced inputs, as if syncing guaranteed
// nothing. If the node has no checkpoint, its first input remains, which is the start.
func ForgetSynced(s *Sim, id geo.NodeID) {
	s.nodes[id].synced = 0
	s.LoseTail(id, 0)
}
