package geo

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

func square(n int) [][]Link {
	links := make([][]Link, n)
	for i := range links {
		links[i] = make([]Link, n)
		for j := range links[i] {
			links[i][j] = Link{Delay: time.Duration(10*i+j) * time.Millisecond}
		}
	}
	return links
}

func TestNodeNumbering(t *testing.T) {
	top := &Topology{Regions: []string{"a", "b", "c"}, Partitions: 2, Replicas: 2, Links: square(3)}
	if err := top.Validate(); err != nil {
		t.Fatal(err)
	}
	next := NodeID(0)
	for r := range top.Regions {
		for p := range top.Partitions {
			for k := range top.Replicas {
				n := top.Node(Region(r), p, k)
				if n != next || top.RegionOf(n) != Region(r) || top.PartitionOf(n) != p || top.ReplicaOf(n) != k {
					t.Errorf("node %d/%d/%d is %d: %s", r, p, k, n, top.NodeName(n))
				}
				next++
			}
		}
	}
	if top.NodeName(7) != "b/1/1" {
		t.Errorf("node 7 is %s", top.NodeName(7))
	}
	if got := top.RTT(1, 2); got != 33*time.Millisecond {
		t.Errorf("RTT(b, c) = %v, want 12 ms + 21 ms", got)
	}
	if top.Index("c") != 2 || top.Index("d") != -1 {
		t.Errorf("Index: c is %d, d is %d", top.Index("c"), top.Index("d"))
	}
}

// TestPlacement checks that partition = shard mod P and home = (shard div P) mod R (SmallBank on Detock, listings 3 and
// 4).
func TestPlacement(t *testing.T) {
	p := Placement{Regions: 2, Partitions: 2}
	tests := []struct {
		id        uint64
		partition int
		home      Region
	}{{0, 0, 0}, {1, 1, 0}, {2, 0, 1}, {3, 1, 1}, {4, 0, 0}, {99_999, 1, 1}}
	for _, tc := range tests {
		k := txn.IntKey(1, tc.id)
		if p.Partition(k) != tc.partition || p.Home(k) != tc.home {
			t.Errorf("%v: partition %d, home %d; want %d, %d", k, p.Partition(k), p.Home(k), tc.partition, tc.home)
		}
	}
	name := txn.StringKey(0, "Client7")
	h := uint64(txn.HashString("Client7"))
	if p.Partition(name) != int(h%2) || p.Home(name) != Region(h/2%2) {
		t.Errorf("%v: partition %d, home %d", name, p.Partition(name), p.Home(name))
	}
}

func TestClassOfAccesses(t *testing.T) {
	p := Placement{Regions: 2, Partitions: 2}
	tests := map[string][]uint64{"SH-SP": {0, 4}, "SH-MP": {0, 1}, "MH-SP": {0, 2}, "MH-MP": {0, 3}}
	for want, ids := range tests {
		var a []txn.Access
		for _, id := range ids {
			a = append(a, txn.Access{Key: txn.IntKey(1, id), Mode: txn.Read})
		}
		if got := p.Class(a).String(); got != want {
			t.Errorf("%v is %s, want %s", ids, got, want)
		}
	}
}

func TestCoordinatorIsInTheClientsRegion(t *testing.T) {
	top := &Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 3, Links: square(2)}
	for id := range uint64(6) {
		tx := &txn.Transaction{ID: txn.ID(id), Footprint: txn.Footprint{Accesses: []txn.Access{{Key: txn.IntKey(1, 3), Mode: txn.Read}}}}
		n := top.Coordinator(1, tx, FirstKey)
		if top.RegionOf(n) != 1 || top.PartitionOf(n) != 1 || top.ReplicaOf(n) != int(id%3) {
			t.Errorf("transaction %d goes to %s", id, top.NodeName(n))
		}
		n = top.Coordinator(1, tx, RoundRobin)
		if top.RegionOf(n) != 1 || top.PartitionOf(n) != int(id/3) || top.ReplicaOf(n) != int(id%3) {
			t.Errorf("transaction %d goes to %s by turns", id, top.NodeName(n))
		}
	}
}

func TestTopologyValidate(t *testing.T) {
	tests := map[string]struct {
		top  Topology
		want string
	}{
		"no regions":    {Topology{Partitions: 1, Replicas: 1}, "regions"},
		"no partitions": {Topology{Regions: []string{"a"}, Replicas: 1, Links: square(1)}, "partitionsPerRegion"},
		"no replicas":   {Topology{Regions: []string{"a"}, Partitions: 1, Links: square(1)}, "replicasPerPartition"},
		"no links":      {Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}, "links"},
		"ragged links":  {Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1, Links: [][]Link{{}}}, "links[a]"},
		"too many":      {Topology{Regions: []string{"a"}, Partitions: 1 << 10, Replicas: 1 << 5, Links: square(1)}, "nodes are more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tc.top.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestShardNumbersOfACell(t *testing.T) {
	p := Placement{Regions: 3, Partitions: 2}
	for n := range uint64(20) {
		got := map[Cell]uint64{}
		for id := range n {
			c := p.Cell(txn.IntKey(0, id))
			if want := p.ShardNumber(c, got[c]); want != id {
				t.Errorf("number %d of %v is %d, not %d", got[c], c, want, id)
			}
			if cell, number := p.Locate(id); cell != c || number != got[c] {
				t.Errorf("%d is number %d of %v, not %d of %v", id, number, cell, got[c], c)
			}
			got[c]++
		}
		for home := range Region(3) {
			for partition := range 2 {
				c := Cell{home, partition}
				if below := p.ShardNumbersBelow(n, c); below != got[c] {
					t.Errorf("%v has %d numbers below %d, not %d", c, got[c], n, below)
				}
			}
		}
	}
}

// TestHomes checks that only the first Homes regions are homes of rows, and that all regions have copies. Clients in
// regions that are not homes must use the nearest home.
func TestHomes(t *testing.T) {
	top := Topology{Regions: []string{"eu", "us-east", "us-west"}, Homes: 2, Partitions: 1, Replicas: 1, Links: square(3)}
	top.Links[2][0].Delay, top.Links[2][1].Delay = 85*time.Millisecond, 50*time.Millisecond
	if err := top.Validate(); err != nil {
		t.Fatal(err)
	}
	for r, want := range []Region{0, 1, 1} {
		if got := top.HomeOf(Region(r)); got != want {
			t.Errorf("the home of clients in %s is %d, want %d", top.Regions[r], got, want)
		}
	}
	place := top.Placement()
	if place.Cells() != 2 {
		t.Errorf("%d cells, want 2", place.Cells())
	}
	for n := range uint64(10) {
		if home := place.Home(txn.IntKey(1, n)); home != Region(n%2) {
			t.Errorf("row %d calls region %d home", n, home)
		}
	}
	l := top.Placed()
	if l.Shards() != 2 || len(l.Group(1).Members) != 3 || l.Group(1).Leader != top.Node(1, 0, 0) {
		t.Errorf("%d shards, the second of which is %+v; want 2 with members in three regions", l.Shards(), l.Group(1))
	}
	whole := top.Whole(0)
	if cells := whole.Cells(0); len(cells) != 2 {
		t.Errorf("all rows lie in the cells %v, want 2", cells)
	}
	for homes, want := range map[int]string{-1: "homes: -1 is not between 1", 4: "homes: 4 is not between 1 and the number of regions (3)"} {
		top.Homes = homes
		if err := top.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d homes: %v, want %q", homes, err, want)
		}
	}
	top.Homes, top.Groups = 2, []CellGroup{{Cell: Cell{Home: 2}, Replicas: []int{1, 1, 1}, Leader: 2}}
	if err := top.Validate(); err == nil || !strings.Contains(err.Error(), "no partition 0 of home 2") {
		t.Errorf("a group of a region without rows: %v", err)
	}
}
