package fault

import (
	"time"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
)

// Disturbance is what a node must do to itself for its part of the conditions. lost are the nodes that are gone for good;
// lease as in admin.Disturbance.
func (c *Conditions) Disturbance(n geo.NodeID, t *geo.Topology, lost []geo.NodeID, lease time.Duration) *admin.Disturbance {
	d := &admin.Disturbance{SlowPercent: c.Nodes[n].SlowPercent, ClockOffset: c.Nodes[n].ClockOffset, Lease: lease}
	from := t.RegionOf(n)
	for to := range t.Regions {
		link, back := c.Links[from][to], c.Links[to][from]
		if link != t.Links[from][to] || back != t.Links[to][from] {
			d.Links = append(d.Links, admin.DisturbedLink{To: t.Regions[to], Link: link, Back: back})
		}
	}
	for i := range t.Nodes() {
		if id := geo.NodeID(i); id != n && c.Cut(n, id) {
			d.Cut = append(d.Cut, i)
		}
	}
	for _, id := range lost {
		if id != n {
			d.Lost = append(d.Lost, int(id))
		}
	}
	return d
}

// Lost are the nodes that lasting faults have taken away for good, or are about to.
func (t *Timeline) Lost() []geo.NodeID {
	var out []geo.NodeID
	for _, l := range t.Lives {
		if l.Lasting && l.Fault.Kills() && l.Injecting != nil {
			out = append(out, l.Targets.From...)
		}
	}
	return unique(out)
}
