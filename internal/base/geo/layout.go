package geo

import (
	"slices"
	"strconv"

	"github.com/geobench/geobench/internal/base/txn"
)

// Cell identifies the rows of a partition that have the same home region. Workloads load a database cell by cell.
type Cell struct {
	Home      Region `json:"home"`
	Partition int    `json:"partition"`
}

// Layout defines which nodes store which rows. The rows are divided into shards, and a group of nodes stores each
// shard. Rows that are everywhere (txn.Key.Everywhere) belong to no shard. Four kinds of layouts exist:
//
//   - Full: a shard is a partition, with the rows of all homes. Every region stores all shards, each with the number of
//     replicas of the partition.
//   - HomeOnly: a shard is a cell, stored only in its home region, with the number of replicas of the partition.
//   - Placed: a shard is a cell, stored by the nodes that Topology.Groups specifies.
//   - Whole: all rows are in the same shard, for databases that do not show how they distribute rows.
//
// A copy is a set of nodes that together store every row once: the first members of all groups are copy 0, and so on.
type Layout struct {
	Topology *Topology
	// ByHome is set if each shard is a cell rather than a whole partition.
	ByHome bool
	whole  bool // all rows are in the same shard
	groups []Group

	placement Placement
}

// Group is the nodes that store a shard.
type Group struct {
	// Members lists the nodes of the group, in the order of copies.
	Members []NodeID
	// Leader is the leader at the start, if the engine has leaders.
	Leader NodeID
}

// Whole returns the layout in which all rows are in the same shard, and each of the given nodes stores a copy.
func (t *Topology) Whole(members ...NodeID) Layout {
	return Layout{Topology: t, whole: true, placement: t.Placement(), groups: []Group{{members, members[0]}}}
}

// WholeEverywhere returns the layout in which all rows are in the same shard, and every node stores a copy.
func (t *Topology) WholeEverywhere() Layout {
	all := make([]NodeID, t.Nodes())
	for n := range all {
		all[n] = NodeID(n)
	}
	return t.Whole(all...)
}

// Full returns the layout with all rows in every region.
func (t *Topology) Full() Layout {
	l := Layout{Topology: t, placement: t.Placement(), groups: make([]Group, t.Partitions)}
	for p := range l.groups {
		var members []NodeID
		for r := range t.Regions {
			members = append(members, t.members(Region(r), p, t.Replicas)...)
		}
		l.groups[p] = Group{members, members[0]}
	}
	return l
}

// HomeOnly returns the layout in which rows are stored only in their home regions. With a single replica per partition,
// each row has a single copy, because every cell has a group of one member.
func (t *Topology) HomeOnly() Layout {
	l := Layout{Topology: t, ByHome: true, placement: t.Placement()}
	for r := range l.placement.Regions {
		for p := range t.Partitions {
			members := t.members(Region(r), p, t.Replicas)
			l.groups = append(l.groups, Group{members, members[0]})
		}
	}
	return l
}

// Placed returns the layout that t.Groups specifies. If a cell has no group, the members of its partition in all
// regions store it, and the leader is in the cell's home. Groups must be valid: see Validate.
func (t *Topology) Placed() Layout {
	l := Layout{Topology: t, ByHome: true, placement: t.Placement()}
	for r := range l.placement.Regions {
		for p := range t.Partitions {
			l.groups = append(l.groups, t.group(Cell{Region(r), p}))
		}
	}
	return l
}

// group returns the nodes that store a cell. The leader's region is first, and the other regions follow in topology
// order.
func (t *Topology) group(c Cell) Group {
	counts, leader := make([]int, len(t.Regions)), c.Home
	for r := range counts {
		counts[r] = t.Replicas
	}
	for _, g := range t.Groups {
		if g.Cell == c {
			counts, leader = g.Replicas, g.Leader
		}
	}
	members := t.members(leader, c.Partition, counts[leader])
	for r := range counts {
		if Region(r) != leader {
			members = append(members, t.members(Region(r), c.Partition, counts[r])...)
		}
	}
	return Group{members, members[0]}
}

// members returns the first n replicas of a partition in a region.
func (t *Topology) members(r Region, partition, n int) (members []NodeID) {
	for k := range n {
		members = append(members, t.Node(r, partition, k))
	}
	return members
}

// Shards returns the number of shards.
func (l *Layout) Shards() int { return len(l.groups) }

// Shard returns the shard that k belongs to.
func (l *Layout) Shard(k txn.Key) int {
	if l.whole {
		return 0
	}
	if l.ByHome {
		// HomeOnly and Placed create the groups in this order.
		return int(l.placement.Home(k))*l.Topology.Partitions + l.placement.Partition(k)
	}
	return l.placement.Partition(k)
}

// Group returns the nodes that store a shard. The caller must not change it.
func (l *Layout) Group(shard int) *Group { return &l.groups[shard] }

// Cells returns the cells of a shard.
func (l *Layout) Cells(shard int) []Cell {
	if l.ByHome {
		return []Cell{{Region(shard / l.Topology.Partitions), shard % l.Topology.Partitions}}
	}
	var cells []Cell
	for r := range l.placement.Regions {
		for p := range l.Topology.Partitions {
			// In the layout Full, a shard contains the rows of a partition from all homes.
			if l.whole || p == shard {
				cells = append(cells, Cell{Region(r), p})
			}
		}
	}
	return cells
}

// ShardsOf returns the shards that node n stores, in ascending order.
func (l *Layout) ShardsOf(n NodeID) (shards []int) {
	for s := range l.groups {
		if l.member(s, n) >= 0 {
			shards = append(shards, s)
		}
	}
	return shards
}

// member returns node n's index among the members of a shard's group, or -1.
func (l *Layout) member(shard int, n NodeID) int {
	for i, m := range l.groups[shard].Members {
		if m == n {
			return i
		}
	}
	return -1
}

// ShardOf returns the shard that node n stores. The layout must not be Placed: in all other layouts, a node stores
// exactly one shard.
func (l *Layout) ShardOf(n NodeID) int {
	if l.whole {
		return 0
	}
	if l.ByHome {
		// Nodes are ordered by region, partition and replica, and shards by region and partition.
		return int(n) / l.Topology.Replicas
	}
	return l.Topology.PartitionOf(n)
}

// Holds reports whether node n stores k.
func (l *Layout) Holds(n NodeID, k txn.Key) bool {
	return k.Everywhere() || l.member(l.Shard(k), n) >= 0
}

// Copies returns the number of copies, which is the size of the smallest group. Further members of larger groups belong
// to no copy.
func (l *Layout) Copies() int {
	n := len(l.groups[0].Members)
	for i := range l.groups {
		n = min(n, len(l.groups[i].Members))
	}
	return n
}

// Replicated reports whether any shard has more than one copy.
func (l *Layout) Replicated() bool {
	return slices.ContainsFunc(l.groups, func(g Group) bool { return len(g.Members) > 1 })
}

// CopyOf returns the copy that node n belongs to. The layout must not be Placed.
func (l *Layout) CopyOf(n NodeID) int { return l.member(l.ShardOf(n), n) }

// Node returns the node that stores a shard in a copy.
func (l *Layout) Node(copyNumber, shard int) NodeID { return l.groups[shard].Members[copyNumber] }

// ShardName returns a shard's name for display: "partition 0", or "eu/0" for a cell.
func (l *Layout) ShardName(shard int) string {
	if l.whole {
		return "all rows"
	}
	c := l.Cells(shard)[0]
	if l.ByHome {
		return l.Topology.Regions[c.Home] + "/" + strconv.Itoa(c.Partition)
	}
	return "partition " + strconv.Itoa(c.Partition)
}
