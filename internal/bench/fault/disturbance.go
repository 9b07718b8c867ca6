package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Disturbance returns the part of the conditions that node n must apply to itself. lost are the permanently lost nodes.
func (c *Conditions) Disturbance(n geo.NodeID, t *geo.Topology, lost []geo.NodeID) *admin.Disturbance {
	d := &admin.Disturbance{SlowPercent: c.Nodes[n].SlowPercent, ClockOffset: c.Nodes[n].ClockOffset}
	from := t.RegionOf(n)
	for to := range t.Regions {
		link, back := c.Links[from][to], c.Links[to][from]
		// The disturbance names both directions of a link, so a change of either must be included.
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

// Lost returns the nodes that lasting faults have permanently removed or are about to remove.
func (t *Timeline) Lost() []geo.NodeID {
	var out []geo.NodeID
	for _, l := range t.Lives {
		if l.Lasting && l.Fault.Kills() && l.Injecting != nil {
			out = append(out, l.Targets.From...)
		}
	}
	return unique(out)
}

// Departure is a node that a lasting fault removes permanently, with the planned time.
type Departure struct {
	Node geo.NodeID
	At   time.Duration
}

// Departures returns all planned and past departures, ordered by time.
func (t *Timeline) Departures() (out []Departure) {
	for _, l := range t.Lives {
		if !l.Lasting || !l.Fault.Kills() || !l.Planned() {
			continue
		}
		for _, n := range l.Targets.From {
			out = append(out, Departure{n, l.Fault.At})
		}
	}
	slices.SortStableFunc(out, func(a, b Departure) int { return cmp.Compare(a.At, b.At) })
	return out
}

// Departed returns the nodes that have been removed by now, or that should have been removed according to the plan. The
// remaining nodes follow the plan even if the operator is late.
func (t *Timeline) Departed(now time.Duration) []geo.NodeID {
	out := t.Lost()
	for _, d := range t.Departures() {
		if d.At <= now {
			out = append(out, d.Node)
		}
	}
	return unique(out)
}

// What describes the effect of a disturbance on node self.
func What(d *admin.Disturbance, t *geo.Topology, self geo.NodeID) string {
	var parts []string
	for _, l := range d.Links {
		parts = append(parts, fmt.Sprintf("link %s -> %s %s", t.Regions[t.RegionOf(self)], l.To, linkText(l.Link)))
		if l.Back != l.Link {
			parts = append(parts, fmt.Sprintf("link %s -> %s %s", l.To, t.Regions[t.RegionOf(self)], linkText(l.Back)))
		}
	}
	if n := len(d.Cut); n > 0 {
		text := fmt.Sprintf("cut off from node %s", t.NodeName(geo.NodeID(d.Cut[0])))
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		parts = append(parts, text)
	}
	if d.SlowPercent != 0 {
		parts = append(parts, fmt.Sprintf("slower by %d%%", d.SlowPercent))
	}
	if d.ClockOffset != 0 {
		parts = append(parts, fmt.Sprintf("clock set by %s", d.ClockOffset))
	}
	if len(parts) == 0 {
		return "undisturbed"
	}
	return strings.Join(parts, ", ")
}

func linkText(l geo.Link) string {
	text := fmt.Sprintf("delay %s", l.Delay)
	if l.Jitter != 0 {
		text += fmt.Sprintf(" +- %s", l.Jitter)
	}
	if l.LossPPM != 0 {
		text += fmt.Sprintf(", loss %d ppm", l.LossPPM)
	}
	if l.BandwidthMbps != 0 {
		text += fmt.Sprintf(", %d Mbit/s", l.BandwidthMbps)
	}
	if l.Congestion != geo.CongestionOpen {
		text += ", " + string(l.Congestion)
	}
	return text
}
