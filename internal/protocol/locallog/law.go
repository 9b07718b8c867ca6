package locallog

import (
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// SingleHomeLaw is the latency of a single-home transaction without the client's hop, from the parameters batch and
// forward: a batch at its home, and, if that is elsewhere, the forwarder's batch and the way there and back. Nodes other
// than the first of the home region also ask that one for a position; the law is the mean.
func SingleHomeLaw(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	home := c
	if len(homes) > 0 {
		home = homes[0]
	}
	order := ToFirst(t, home, home)
	if home == c {
		return p.Duration("batch") + order + FromFirst(t, c, c)
	}
	return p.Duration("forward") + t.Links[c][home].Delay + p.Duration("batch") + order + t.Links[home][c].Delay
}

// ToFirst is the mean delay from the nodes of region c to the first node of region r.
func ToFirst(t *geo.Topology, c, r geo.Region) time.Duration {
	return mean(t, t.Links[c][r].Delay, c == r)
}

// FromFirst is the mean delay from the first node of region r to the nodes of region c.
func FromFirst(t *geo.Topology, r, c geo.Region) time.Duration {
	return mean(t, t.Links[r][c].Delay, c == r)
}

// mean spares one of the nodes the hop if it is inside the region.
func mean(t *geo.Topology, hop time.Duration, inside bool) time.Duration {
	if !inside {
		return hop
	}
	n := time.Duration(t.Partitions * t.Replicas)
	return hop * (n - 1) / n
}
