package explore

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// clone returns a copy of the scenario that shares no mutable data with the original.
func (w *world) clone() *world {
	v := *w
	t := *w.topology
	t.Regions, t.Groups = slices.Clone(t.Regions), slices.Clone(t.Groups)
	t.Links = cloneLinks(t.Links)
	v.topology, v.params, v.offsets = &t, maps.Clone(w.params), slices.Clone(w.offsets)
	v.faults, v.calls, v.timeline = slices.Clone(w.faults), slices.Clone(w.calls), slices.Clone(w.timeline)
	v.core.faults, v.core.regions, v.core.links = slices.Clone(w.core.faults), slices.Clone(w.core.regions), cloneLinks(w.core.links)
	return &v
}

func cloneLinks(links [][]geo.Link) [][]geo.Link {
	links = slices.Clone(links)
	for a := range links {
		links[a] = slices.Clone(links[a])
	}
	return links
}

// chancy reports whether the network is random, that is, has packet loss or jitter.
func (w *world) chancy() bool {
	return slices.ContainsFunc(w.topology.Links, func(row []geo.Link) bool {
		return slices.ContainsFunc(row, func(l geo.Link) bool { return l.LossPPM > 0 || l.Jitter > 0 })
	})
}

// settle recomputes calm, the time at which the last fault has ended.
func (w *world) settle() {
	w.calm = 0
	w.sortFaults()
}

// pairs returns the indexes of the faults in groups: a cut with its heal, a crash with its restart, or a single fault.
func (w *world) pairs() (pairs [][]int) {
	taken := map[int]bool{}
	for i, f := range w.faults {
		if taken[i] {
			continue
		}
		pair := []int{i}
		if ends, ok := map[faultKind]faultKind{cut: heal, crash: restart}[f.kind]; ok {
			for j := i + 1; j < len(w.faults); j++ {
				// Assign to each cut the first heal that is not assigned to an earlier cut. In the network, any heal ends all cuts
				// of its link. This assignment ensures that removing groups removes as many heals as cuts.
				if g := w.faults[j]; !taken[j] && g.kind == ends && g.a == f.a && g.b == f.b && g.node == f.node {
					taken[j] = true
					pair = append(pair, j)
					break
				}
			}
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// leaveOut removes region gone with its nodes, clients and faults.
func (w *world) leaveOut(gone geo.Region) {
	var kept []geo.Region
	for r := range w.topology.Regions {
		if geo.Region(r) != gone {
			kept = append(kept, geo.Region(r))
		}
	}
	w.reshape(kept, w.topology.Partitions, w.topology.Replicas)
}

// reshape reduces a scenario to the regions in kept (nil for all), and to the given numbers of partitions and replicas
// in each region.
func (w *world) reshape(kept []geo.Region, partitions, replicas int) {
	old := w.topology
	if kept == nil {
		for r := range old.Regions {
			kept = append(kept, geo.Region(r))
		}
	}
	t := &geo.Topology{Partitions: partitions, Replicas: replicas}
	for _, r := range kept {
		t.Regions = append(t.Regions, old.Regions[r])
		if int(r) < old.Homes {
			t.Homes++
		}
	}
	// 0 means all regions.
	if t.Homes == len(kept) {
		t.Homes = 0
	}
	among := func(links [][]geo.Link) (left [][]geo.Link) {
		for _, a := range kept {
			var row []geo.Link
			for _, b := range kept {
				row = append(row, links[a][b])
			}
			left = append(left, row)
		}
		return left
	}
	region := func(r geo.Region) (geo.Region, bool) {
		i := slices.Index(kept, r)
		return geo.Region(i), i >= 0
	}
	node := func(n geo.NodeID) (geo.NodeID, bool) {
		r, ok := region(old.RegionOf(n))
		p, k := old.PartitionOf(n), old.ReplicaOf(n)
		return t.Node(r, p, k), ok && p < partitions && k < replicas
	}
	t.Links = among(old.Links)
	for _, g := range old.Groups {
		home, ok := region(g.Home)
		leader, led := region(g.Leader)
		// Without its home region, the group has no rows. Without its leader's region, the engine would reject the group.
		if !ok || !led || g.Partition >= partitions {
			continue
		}
		g.Home, g.Leader = home, leader
		var members []int
		for _, r := range kept {
			members = append(members, min(g.Replicas[r], replicas))
		}
		g.Replicas = members
		t.Groups = append(t.Groups, g)
	}
	var offsets []time.Duration
	for n, offset := range w.offsets {
		if _, ok := node(geo.NodeID(n)); ok {
			offsets = append(offsets, offset)
		}
	}
	left := func(faults []fault) (still []fault) {
		for _, f := range faults {
			ok, okB := false, true
			switch f.kind {
			case cut, heal:
				f.a, ok = region(f.a)
				f.b, okB = region(f.b)
			case lose:
				f.a, ok = region(f.a)
			case unreadable, vanish:
				f.a, ok = region(f.a)
				f.node, okB = node(f.node)
			default:
				f.node, ok = node(f.node)
			}
			if ok && okB {
				still = append(still, f)
			}
		}
		return still
	}
	w.faults, w.core.faults = left(w.faults), left(w.core.faults)
	if w.core.begins > 0 {
		w.core.links = among(w.core.links)
		var regions []geo.Region
		for _, r := range w.core.regions {
			if r, ok := region(r); ok {
				regions = append(regions, r)
			}
		}
		w.core.regions = regions
	}
	var calls []call
	for _, c := range w.calls {
		if r, ok := region(c.region); ok {
			c.region = r
			calls = append(calls, c)
		}
	}
	w.topology, w.offsets, w.calls = t, offsets, calls
	// Filter the timeline after the topology is set, because the filter looks up names in the topology.
	w.keepTimeline()
	w.settle()
}

// legal reports whether the engine makes promises about the scenario, so that a failure would be a fault of the engine.
// It also updates core.answers, the promised bound, which depends on the regions that are left.
func (w *world) legal(e *protocol.Engine) bool {
	t := w.topology
	// Without calls there is nothing to check. A database that may lose acknowledged transactions is legal only in wide
	// scenarios, which skip the check of its history.
	if t.Validate() != nil || t.Homes < 0 || e.Accepts(t, w.params) != nil || w.loses(e) && !w.isWide || len(w.calls) == 0 {
		return false
	}
	// Resolve would replace inconsistent parameters. The scenario would then run with other parameters than the shrinker
	// records.
	if params, errs := e.Resolve(w.params); len(errs) > 0 || !maps.Equal(params, w.params) {
		return false
	}
	s := e.Tolerance(t, w.params)
	lost := w.lost()
	all := slices.Clone(lost)
	for _, f := range w.core.faults {
		all = append(all, f.a)
	}
	if len(all) > s.Most || slices.ContainsFunc(all, func(r geo.Region) bool { return !slices.Contains(s.Regions, r) }) {
		return false
	}
	if w.core.begins > 0 {
		// The second phase needs a loss, a region whose clients send, and the time that the engine takes to settle.
		if len(all) == 0 || len(w.core.regions) == 0 || w.core.begins-w.core.breaks < s.Settles {
			return false
		}
		w.core.answers = s.Answers
	}
	down := map[geo.NodeID]bool{}
	for _, f := range w.faults {
		if f.kind == crash || f.kind == restart {
			// Crashes and restarts of a node must alternate, and the first one must be a crash.
			if down[f.node] != (f.kind == restart) {
				return false
			}
			down[f.node] = f.kind == crash
		}
		switch touches := slices.Contains(lost, f.a) || slices.Contains(lost, f.b); {
		case f.kind == cut && touches && !s.InFlight, f.kind == crash && !w.durable:
			return false
		case f.kind == vanish && (w.durable || !w.replaces(e, f)):
			return false
		// Two clocks may jump in opposite directions, so each jump may use half of the bound.
		case f.kind == jump && (e.ClockBound == nil || f.by.Abs() > e.ClockBound(w.params)/2):
			return false
		}
	}
	for n := range geo.NodeID(t.Nodes()) {
		if down[n] && !slices.Contains(lost, t.RegionOf(n)) { // no protocol replaces a node that never restarts
			return false
		}
	}
	return w.timelineLegal(e) && (!w.durable || len(lost) == 0 || s.InFlight)
}

// shake makes four kinds of random changes, each with probability one half. The changes are other random numbers, other
// times of the calls, other regions or rows of the calls, and other times of the faults.
func (w *world) shake(r *rand.Rand) {
	half := func() bool { return r.IntN(2) == 0 }
	if half() {
		w.seed = r.Uint64()
	}
	if half() {
		last := w.lastCall()
		for i := range w.calls {
			w.calls[i].at = upTo(r, last)
		}
	}
	if half() {
		for i := range w.calls {
			w.calls[i].region = geo.Region(r.IntN(len(w.topology.Regions)))
		}
	}
	// Draw the permutation unconditionally, so that later draws do not depend on this decision.
	if rows := r.Perm(w.load.rows); half() {
		for i := range w.calls {
			w.calls[i].args = w.load.rename(&w.calls[i], rows)
		}
	}
	if half() {
		for _, pair := range w.pairs() {
			begins, ends := w.faults[pair[0]].at, w.faults[pair[len(pair)-1]].at
			// Shift the whole group by the same amount, so that a heal stays after its cut. The group must still end by calm.
			later := upTo(r, w.calm-(ends-begins)) - begins
			for _, i := range pair {
				w.faults[i].at += later
			}
		}
		w.settle()
	}
	w.sortCalls()
}

// lastCall returns the time at which the last scripted transaction is sent.
func (w *world) lastCall() (at time.Duration) {
	for _, c := range w.calls {
		at = max(at, c.at)
	}
	return at
}

func (w *world) sortCalls() {
	slices.SortStableFunc(w.calls, func(x, y call) int { return int(x.at - y.at) })
}
