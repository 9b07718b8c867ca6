// Package geo describes geography: regions, the links between them, the nodes of a database, and the region and
// partition of each key.
package geo

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

// Region is the index of a region in Topology.Regions.
type Region int

// NodeID is the number of a node in its database, counted from 0. Nodes are ordered by region, then partition, then
// replica.
type NodeID uint16

// Link is a directed connection between two regions.
type Link struct {
	// Delay is the one-way delay: half the declared round trip.
	Delay time.Duration `json:"delayNanoseconds"`
	// Jitter is the standard deviation of the delay. Jitter never makes frames overtake each other.
	Jitter time.Duration `json:"jitterNanoseconds,omitempty"`
	// LossPPM is the share of packets lost, in parts per million.
	LossPPM int64 `json:"lossPPM,omitempty"`
	// BandwidthMbps limits the rate of each connection between two nodes, in 10^6 bits per second; 0 means unlimited.
	BandwidthMbps int64 `json:"bandwidthMbps,omitempty"`
	// Congestion is the congestion control of the connections that Geobench models.
	Congestion Congestion `json:"congestion,omitempty"`
}

// Topology is the shape of a database: regions x partitions x replicas, and the network between the regions.
type Topology struct {
	// Regions lists the names in the order that the user has chosen; the first region may have a special role in a
	// protocol.
	Regions []string `json:"regions"`
	// Homes is the number of regions that are homes of rows, which are the first regions. 0 means all. The remaining
	// regions store copies and have clients.
	Homes int `json:"homes,omitempty"`
	// Partitions is the number of partitions per region, at least 1.
	Partitions int `json:"partitionsPerRegion"`
	// Replicas is the number of replicas of each partition inside a region, at least 1.
	Replicas int `json:"replicasPerPartition"`
	// Links[a][b] is the link from region a to region b. Links[a][a] connects nodes and clients inside a region.
	Links [][]Link `json:"links"`
	// Groups assigns the rows of cells to nodes, for engines that allow this. Each cell occurs at most once. For cells
	// without a group, the engine chooses the nodes.
	Groups []CellGroup `json:"groups,omitempty"`
	// Absent lists the node numbers that no node has, in ascending order. Such numbers exist if regions have different
	// numbers of nodes, as in a database with several kinds of servers (GeoDatabase's spec.roles).
	Absent []NodeID `json:"absent,omitempty"`
}

// CellGroup specifies where the rows of a cell are stored.
type CellGroup struct {
	Cell
	// Replicas is, by region, the number of nodes of the cell's partition that store its rows.
	Replicas []int `json:"replicas"`
	// Leader is the region of the group's first leader. The group must have a replica in this region.
	Leader Region `json:"leader"`
}

// Nodes returns the number of nodes.
func (t *Topology) Nodes() int { return len(t.Regions) * t.Partitions * t.Replicas }

// Node returns the node that is replica k of partition p in region r.
func (t *Topology) Node(r Region, p, k int) NodeID {
	return NodeID((int(r)*t.Partitions+p)*t.Replicas + k)
}

// Present reports whether node n exists.
func (t *Topology) Present(n NodeID) bool { return !slices.Contains(t.Absent, n) }

// RegionOf returns the region of node n.
func (t *Topology) RegionOf(n NodeID) Region { return Region(int(n) / (t.Partitions * t.Replicas)) }

// PartitionOf returns the partition number of node n.
func (t *Topology) PartitionOf(n NodeID) int { return int(n) / t.Replicas % t.Partitions }

// ReplicaOf returns node n's index among the replicas of its partition in its region.
func (t *Topology) ReplicaOf(n NodeID) int { return int(n) % t.Replicas }

// NodeName formats node n as region/partition/replica.
func (t *Topology) NodeName(n NodeID) string {
	return fmt.Sprintf("%s/%d/%d", t.Regions[t.RegionOf(n)], t.PartitionOf(n), t.ReplicaOf(n))
}

// Link returns the link from node a's region to node b's.
func (t *Topology) Link(a, b NodeID) *Link { return &t.Links[t.RegionOf(a)][t.RegionOf(b)] }

// RTT returns the declared round trip between two regions.
func (t *Topology) RTT(a, b Region) time.Duration { return t.Links[a][b].Delay + t.Links[b][a].Delay }

// LeastRTT returns a lower bound for the median of measured round trips between two regions, provided that the links
// are as declared. It is the declared round trip minus 5%, 1 ms and an allowance for jitter. It is negative if the
// regions are so close that no bound exists.
func (t *Topology) LeastRTT(a, b Region) time.Duration {
	return t.RTT(a, b)*95/100 - time.Millisecond - 3*(t.Links[a][b].Jitter+t.Links[b][a].Jitter)
}

// LongestRTT returns the longest declared round trip, within regions or between them.
func (t *Topology) LongestRTT() (d time.Duration) {
	for a := range t.Links {
		for b := range t.Links {
			d = max(d, t.RTT(Region(a), Region(b)))
		}
	}
	return d
}

// Index returns the index of the region with this name, or -1.
func (t *Topology) Index(name string) Region {
	for i, r := range t.Regions {
		if r == name {
			return Region(i)
		}
	}
	return -1
}

// Placement returns the placement of keys in this topology.
func (t *Topology) Placement() Placement {
	homes := t.Homes
	if homes == 0 {
		homes = len(t.Regions)
	}
	return Placement{Regions: homes, Partitions: t.Partitions}
}

// HomeOf returns the home of the rows that clients in region r treat as local. It is r if r is a home, and otherwise
// the home nearest to r. Among equally near homes, it is the first.
func (t *Topology) HomeOf(r Region) Region {
	homes := t.Placement().Regions
	// The homes are the first regions of the topology.
	if int(r) < homes {
		return r
	}
	nearest := Region(0)
	for h := range Region(homes) {
		if t.RTT(r, h) < t.RTT(r, nearest) {
			nearest = h
		}
	}
	return nearest
}

// Validate returns an error that names a missing or invalid field, or nil if there is none.
func (t *Topology) Validate() error {
	switch {
	case len(t.Regions) == 0:
		return fmt.Errorf("regions: none is given; a database needs at least one")
	case t.Homes < 0 || t.Homes > len(t.Regions):
		return fmt.Errorf("homes: %d is not between 1 and the number of regions (%d)", t.Homes, len(t.Regions))
	case t.Partitions < 1:
		return fmt.Errorf("partitionsPerRegion: %d is not at least 1", t.Partitions)
	case t.Replicas < 1:
		return fmt.Errorf("replicasPerPartition: %d is not at least 1", t.Replicas)
	case t.Nodes() > 1<<14:
		return fmt.Errorf("regions x partitionsPerRegion x replicasPerPartition: %d nodes are more than %d", t.Nodes(), 1<<14)
	case len(t.Links) != len(t.Regions):
		return fmt.Errorf("links: %d rows for %d regions", len(t.Links), len(t.Regions))
	}
	for i, row := range t.Links {
		if len(row) != len(t.Regions) {
			return fmt.Errorf("links[%s]: %d entries for %d regions", t.Regions[i], len(row), len(t.Regions))
		}
	}
	return t.validateGroups()
}

func (t *Topology) validateGroups() error {
	seen := map[Cell]bool{}
	for i, g := range t.Groups {
		switch {
		case g.Home < 0 || int(g.Home) >= t.Placement().Regions || g.Partition < 0 || g.Partition >= t.Partitions:
			return fmt.Errorf("groups[%d]: there is no partition %d of home %d", i, g.Partition, g.Home)
		case seen[g.Cell]:
			return fmt.Errorf("groups[%d]: partition %d of region %s is in two groups", i, g.Partition, t.Regions[g.Home])
		case len(g.Replicas) != len(t.Regions):
			return fmt.Errorf("groups[%d].replicas: %d entries for %d regions", i, len(g.Replicas), len(t.Regions))
		case g.Leader < 0 || int(g.Leader) >= len(t.Regions) || g.Replicas[g.Leader] < 1:
			return fmt.Errorf("groups[%d].leader: region %d has no replica of the group", i, g.Leader)
		}
		seen[g.Cell] = true
		for r, n := range g.Replicas {
			if n < 0 || n > t.Replicas {
				return fmt.Errorf("groups[%d].replicas: %d in region %s is not between 0 and replicasPerPartition (%d)", i, n, t.Regions[r], t.Replicas)
			}
		}
	}
	return nil
}

// Placement maps keys to homes and partitions, as in the SmallBank and Detock papers. The partition is shard mod P, and
// the home is (shard div P) mod R. Here R is the number of regions that are homes of rows.
type Placement struct{ Regions, Partitions int }

// Cells returns the number of cells.
func (p Placement) Cells() int { return p.Regions * p.Partitions }

// Partition returns the partition of k.
func (p Placement) Partition(k txn.Key) int { return int(k.Shard() % uint64(p.Partitions)) }

// Home returns the home region of k.
func (p Placement) Home(k txn.Key) Region {
	return Region(k.Shard() / uint64(p.Partitions) % uint64(p.Regions))
}

// Cell returns the cell of k.
func (p Placement) Cell(k txn.Key) Cell { return Cell{p.Home(k), p.Partition(k)} }

// ShardNumber returns the n-th shard number (see txn.Key) that is placed in a cell, from 0.
func (p Placement) ShardNumber(c Cell, n uint64) uint64 {
	return (n*uint64(p.Regions)+uint64(c.Home))*uint64(p.Partitions) + uint64(c.Partition)
}

// Locate returns the cell of a shard number, and the index of the number among the cell's numbers. It is the inverse of
// ShardNumber.
func (p Placement) Locate(shard uint64) (c Cell, n uint64) {
	regions, partitions := uint64(p.Regions), uint64(p.Partitions)
	return Cell{Region(shard / partitions % regions), int(shard % partitions)}, shard / partitions / regions
}

// ShardNumbersBelow returns the number of shard numbers below n that are placed in a cell.
func (p Placement) ShardNumbersBelow(n uint64, c Cell) uint64 {
	first := p.ShardNumber(c, 0)
	if n <= first {
		return 0
	}
	return (n-1-first)/uint64(p.Regions*p.Partitions) + 1
}

// Class returns the class of a transaction with this read and write set.
func (p Placement) Class(accesses []txn.Access) txn.Class {
	var mh, mp bool
	for i := 1; i < len(accesses); i++ {
		mh = mh || p.Home(accesses[i].Key) != p.Home(accesses[0].Key)
		mp = mp || p.Partition(accesses[i].Key) != p.Partition(accesses[0].Key)
	}
	return txn.ClassOf(mh, mp)
}

// Coordinators is the rule by which a client chooses a node of its region as coordinator of a transaction.
type Coordinators uint8

const (
	// FirstKey selects the partition of the first key in the transaction's footprint, which saves a hop inside the region.
	// The transaction ID determines the replica and, if no key is known, also the partition.
	FirstKey Coordinators = iota
	// RoundRobin cycles through all partitions and replicas, regardless of the keys, like clients that do not know the
	// partitions.
	RoundRobin
)

// Coordinator returns the node to which a client in region r sends a transaction.
func (t *Topology) Coordinator(r Region, tx *txn.Transaction, c Coordinators) NodeID {
	n := uint64(tx.ID)
	if c == RoundRobin || len(tx.Accesses) == 0 {
		return t.Node(r, int(n/uint64(t.Replicas)%uint64(t.Partitions)), int(n%uint64(t.Replicas)))
	}
	return t.Node(r, t.Placement().Partition(tx.Accesses[0].Key), int(n%uint64(t.Replicas)))
}
