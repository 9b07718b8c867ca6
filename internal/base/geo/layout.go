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

// Layout says which nodes hold which rows. The rows are split into shards, and each shard is held by a group of nodes;
// rows that are everywhere (txn.Key.Everywhere) belong to no shard. Four kinds of layouts exist:
//
//   - Full: a shard is a partition, whatever the homes of its rows, and every region holds all shards, each as often as a
//     partition has replicas.
//   - HomeOnly: a shard is a cell, held nowhere but in its home region, as often as a partition has replicas.
//   - Placed: a shard is a cell, held by the nodes that Topology.Groups says.
//   - Whole: all rows are in the same shard, for databases that do not expose how they split them.
//
// A copy is a set of nodes that together hold every row once: the first members of all groups are copy 0, and so on.
type Layout struct {
	Topology *Topology
	// ByHome says that a shard is a cell, and not a whole partition.
	ByHome bool
	whole  bool // all rows are in the same shard
	groups []Group

	placement Placement
}

// Group is the nodes that hold a shard.
type Group struct {
	// Members are in the order of copies.
	Members []NodeID
	// Leader is the member that leads at first, where the engine has leaders.
	Leader NodeID
}

// Whole returns the layout with all rows in the same shard, of which each of these nodes has a copy.
func (t *Topology) Whole(members ...NodeID) Layout {
	return Layout{Topology: t, whole: true, placement: t.Placement(), groups: []Group{{members, members[0]}}}
}

// WholeEverywhere returns the layout with all rows in the same shard, of which every node has a copy.
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

// HomeOnly returns the layout with rows in their home regions only. With a single replica per partition it has a single
// copy of each row: every cell has a group of one member.
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

// Placed returns the layout that t.Groups asks for. Cells that it does not name have a group with the members of the
// partition in all regions, led from their home. Groups must have been checked: see Validate.
func (t *Topology) Placed() Layout {
	l := Layout{Topology: t, ByHome: true, placement: t.Placement()}
	for r := range l.placement.Regions {
		for p := range t.Partitions {
			l.groups = append(l.groups, t.group(Cell{Region(r), p}))
		}
	}
	return l
}

// group returns the nodes that hold a cell. The leader's region is first, and the remaining regions follow in topology
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
		return int(l.placement.Home(k))*l.Topology.Partitions + l.placement.Partition(k)
	}
	return l.placement.Partition(k)
}

// Group returns the nodes that hold a shard. The caller must not change it.
func (l *Layout) Group(shard int) *Group { return &l.groups[shard] }

// Cells returns the cells that a shard consists of.
func (l *Layout) Cells(shard int) []Cell {
	if l.ByHome {
		return []Cell{{Region(shard / l.Topology.Partitions), shard % l.Topology.Partitions}}
	}
	var cells []Cell
	for r := range l.placement.Regions {
		for p := range l.Topology.Partitions {
			if l.whole || p == shard {
				cells = append(cells, Cell{Region(r), p})
			}
		}
	}
	return cells
}

// ShardsOf returns the shards that node n holds, ascending.
func (l *Layout) ShardsOf(n NodeID) (shards []int) {
	for s := range l.groups {
		if l.member(s, n) >= 0 {
			shards = append(shards, s)
		}
	}
	return shards
}

// member returns node n's place among the members of a shard's group, -1 for none.
func (l *Layout) member(shard int, n NodeID) int {
	for i, m := range l.groups[shard].Members {
		if m == n {
			return i
		}
	}
	return -1
}

// ShardOf returns the shard that node n holds. The layout must not be Placed; in all other layouts a node holds a
// single shard.
func (l *Layout) ShardOf(n NodeID) int {
	if l.whole {
		return 0
	}
	if l.ByHome {
		return int(n) / l.Topology.Replicas
	}
	return l.Topology.PartitionOf(n)
}

// Holds reports whether node n holds k.
func (l *Layout) Holds(n NodeID, k txn.Key) bool {
	return k.Everywhere() || l.member(l.Shard(k), n) >= 0
}

// Copies returns the number of copies: the size of the smallest group. The further members of larger groups hold only
// additional replicas of their shard.
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

// CopyOf returns the copy that node n belongs to, in a layout that is not Placed.
func (l *Layout) CopyOf(n NodeID) int { return l.member(l.ShardOf(n), n) }

// Node returns the node that holds a shard in a copy.
func (l *Layout) Node(copyNumber, shard int) NodeID { return l.groups[shard].Members[copyNumber] }

// ShardName names a shard for a person: partition 0, or eu/0 where it is a cell.
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
