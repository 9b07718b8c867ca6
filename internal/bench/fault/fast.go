package fault

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// FastLink is a period in which a node measured a link that was faster than declared.
type FastLink struct {
	// Node is the node that measured. Far is the region or node with the short round trips.
	Node, Far string
	Interval
	Median, Declared time.Duration
}

// FastLinks returns the times within windows at which node n measured links that were too fast although no fault of the
// timeline changes these links. zero is defined as in Agenda, and may be off by up to the duration within.
func (t *Timeline) FastLinks(n geo.NodeID, log *admin.Log, zero, within time.Duration, windows []Interval) (out []FastLink) {
	topology := t.Plan.Topology
	from := topology.RegionOf(n)
	for _, f := range log.Fast {
		to := topology.Index(f.To)
		if to < 0 {
			continue
		}
		changed := t.changed(from, to, within)
		for _, w := range windows {
			rest := []Interval{{max(f.From+zero, w.From), min(f.Until+zero, w.To)}}
			if rest[0].From >= rest[0].To {
				continue
			}
			for _, c := range changed {
				rest = without(rest, c)
			}
			for _, r := range rest {
				out = append(out, FastLink{topology.NodeName(n), cmp.Or(f.Node, f.To), r, f.Median, topology.RTT(from, to)})
			}
		}
	}
	return out
}

// changed returns the times at which faults change the links between two regions: from their start to their end,
// extended by their tolerances. A fault of Chaos Mesh counts for all links, because Chaos Mesh recreates all emulated
// links of a pod for any change. The pod briefly has none of them.
func (t *Timeline) changed(a, b geo.Region, within time.Duration) (out []Interval) {
	for _, l := range t.Lives {
		between := l.Fault.Between()
		if between == nil {
			continue
		}
		touches := l.Injector == string(v1alpha1.InjectorChaosMesh) || slices.ContainsFunc(Links(between, t.Plan.Topology), func(x Link) bool {
			return x.From == a && x.To == b || x.From == b && x.To == a
		})
		if !touches {
			continue
		}
		slack := l.Tolerance() + within
		// The plan and the actual times may differ, so the interval covers both.
		i := Interval{l.Fault.At - slack, Forever}
		if l.Injecting != nil {
			i.From = min(i.From, *l.Injecting-slack)
		}
		// A fault that has not recovered explains fast links until the end of the run.
		if l.Recovered != nil {
			i.To = max(l.end(), *l.Recovered) + slack
		}
		out = append(out, i)
	}
	return out
}
