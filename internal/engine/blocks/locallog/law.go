package locallog

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// SingleHomeLaw is the latency of a single-home transaction without the client's hop, from the parameters batch and
// forward: a batch at its home, and, if that is elsewhere, the forwarder's batch and the way there and back. Nodes
// other than the first of the home region also ask that one for a position; the law is the mean. With replicated home
// logs there is no forwarder, and a place takes copies of the batch, if it needs any, and a majority.
func SingleHomeLaw(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	home := c
	if len(homes) > 0 {
		home = homes[0]
	}
	if Replicated(p) { // the coordinator is a sequencer of the home's log
		return p.Duration("batch") + PlaceLaw(t, p, c, home) + FromFirst(t, home, c)
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

// ReturnLaw is the time from the moments at which the first nodes of the homes put the parts of a multi-home
// transaction into their batches, told by inserted, to its execution where the client's region c hears of it, without
// the batch. With full replication c executes it once all logs have come there. With home-only replication the homes
// tell each other, c executes it if it is one of them, and hears from the first one otherwise. It holds for
// transactions that write in all homes.
func ReturnLaw(t *geo.Topology, homeOnly bool, c geo.Region, homes []geo.Region, inserted func(geo.Region) time.Duration) (d time.Duration) {
	if !homeOnly {
		for _, r := range homes {
			d = max(d, inserted(r)+FromFirst(t, r, c))
		}
		return d
	}
	at, back := c, time.Duration(0)
	if !slices.Contains(homes, c) {
		at = slices.Min(homes)
		back = t.Links[at][c].Delay
	}
	for _, r := range homes {
		hop := time.Duration(0)
		if r != at {
			hop = t.Links[r][at].Delay
		}
		d = max(d, inserted(r)+FromFirst(t, r, r)+hop)
	}
	return d + back
}
