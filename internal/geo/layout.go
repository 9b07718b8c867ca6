package geo

import "github.com/geobench/geobench/internal/txn"

// Layout says which nodes hold which rows. A copy is a set of nodes that together hold every row once; the nodes of a copy are
// its sites, numbered from 0. With full replication a region holds as many copies as its partitions have replicas, and a site
// is a partition. With home-only replication a row is nowhere but in its home region: there are as many copies as partitions
// have replicas, each spans all regions, and a site is a partition in a region.
type Layout struct {
	Topology *Topology
	HomeOnly bool

	placement Placement
}

// Layout returns the layout of a database over this topology.
func (t *Topology) Layout(homeOnly bool) Layout {
	return Layout{Topology: t, HomeOnly: homeOnly, placement: t.Placement()}
}

// Sites returns the number of sites of a copy.
func (l *Layout) Sites() int {
	if l.HomeOnly {
		return len(l.Topology.Regions) * l.Topology.Partitions
	}
	return l.Topology.Partitions
}

// Site returns the site that holds k.
func (l *Layout) Site(k txn.Key) int {
	if l.HomeOnly {
		return int(l.placement.Home(k))*l.Topology.Partitions + l.placement.Partition(k)
	}
	return l.placement.Partition(k)
}

// SiteOf returns the site of node n in its copy.
func (l *Layout) SiteOf(n NodeID) int {
	if l.HomeOnly {
		return int(n) / l.Topology.Replicas
	}
	return l.Topology.PartitionOf(n)
}

// Holds reports whether node n holds k.
func (l *Layout) Holds(n NodeID, k txn.Key) bool { return l.Site(k) == l.SiteOf(n) }

// Copies returns the number of copies.
func (l *Layout) Copies() int {
	if l.HomeOnly {
		return l.Topology.Replicas
	}
	return l.Topology.Replicas * len(l.Topology.Regions)
}

// CopyOf returns the copy that node n belongs to.
func (l *Layout) CopyOf(n NodeID) int {
	k := l.Topology.ReplicaOf(n)
	if l.HomeOnly {
		return k
	}
	return int(l.Topology.RegionOf(n))*l.Topology.Replicas + k
}

// Node returns the node that is a site of a copy.
func (l *Layout) Node(copyNumber, site int) NodeID {
	t := l.Topology
	if l.HomeOnly {
		return NodeID(site*t.Replicas + copyNumber)
	}
	return t.Node(Region(copyNumber/t.Replicas), site, copyNumber%t.Replicas)
}
