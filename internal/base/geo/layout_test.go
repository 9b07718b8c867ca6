package geo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
)

// TestLayout checks that in every copy, exactly one node stores a row, and that Node returns this node. With home-only
// replication, the node is in the home of the row.
func TestLayout(t *testing.T) {
	top := &Topology{Regions: []string{"a", "b", "c"}, Partitions: 2, Replicas: 2}
	for _, homeOnly := range []bool{false, true} {
		l := top.Full()
		if homeOnly {
			l = top.HomeOnly()
		}
		if want := map[bool]int{false: 6, true: 2}[homeOnly]; l.Copies() != want || l.Copies()*l.Shards() != top.Nodes() {
			t.Errorf("home only %v: %d copies of %d sites over %d nodes", homeOnly, l.Copies(), l.Shards(), top.Nodes())
		}
		for n := range NodeID(12) {
			if got := l.Node(l.CopyOf(n), l.ShardOf(n)); got != n {
				t.Errorf("home only %v: node %d is shard %d of copy %d, which is node %d", homeOnly, n, l.ShardOf(n), l.CopyOf(n), got)
			}
		}
		for row := range uint64(20) {
			k := txn.IntKey(1, row)
			held := 0
			for n := range NodeID(12) {
				if !l.Holds(n, k) {
					continue
				}
				held++
				if p := top.Placement(); top.PartitionOf(n) != p.Partition(k) || homeOnly && top.RegionOf(n) != p.Home(k) {
					t.Errorf("home only %v: node %d holds %v", homeOnly, n, k)
				}
			}
			if held != l.Copies() {
				t.Errorf("home only %v: %d nodes hold %v, there are %d copies", homeOnly, held, k, l.Copies())
			}
		}
	}
}

// With one replica per partition, a home-only layout has one copy of each row. The group of each cell has a single
// member.
func TestOneCopy(t *testing.T) {
	top := &Topology{Regions: []string{"a", "b", "c"}, Partitions: 2, Replicas: 1}
	l := top.HomeOnly()
	if l.Shards() != 6 || l.Copies() != 1 || l.Replicated() {
		t.Errorf("%d shards, %d copies, replicated: %v", l.Shards(), l.Copies(), l.Replicated())
	}
	for shard := range l.Shards() {
		g, c := l.Group(shard), l.Cells(shard)[0]
		if want := top.Node(c.Home, c.Partition, 0); len(g.Members) != 1 || g.Members[0] != want || g.Leader != want {
			t.Errorf("shard %s is held by %v, led by %d; want %d alone", l.ShardName(shard), g.Members, g.Leader, want)
		}
	}
}

// TestPlaced checks that groups are in the regions that the topology specifies, with the leader's region first. Cells
// without a group have members in every region, and their leader in the home.
func TestPlaced(t *testing.T) {
	top := &Topology{Regions: []string{"a", "b", "c"}, Partitions: 2, Replicas: 2, Links: make([][]Link, 3)}
	for i := range top.Links {
		top.Links[i] = make([]Link, 3)
	}
	top.Groups = []CellGroup{{Cell: Cell{Home: 1, Partition: 0}, Replicas: []int{1, 2, 0}, Leader: 0}}
	if err := top.Validate(); err != nil {
		t.Fatal(err)
	}
	l := top.Placed()
	if l.Shards() != 6 || l.Copies() != 3 {
		t.Errorf("%d shards, %d copies", l.Shards(), l.Copies())
	}
	named := func(nodes []NodeID) (names []string) {
		for _, n := range nodes {
			names = append(names, top.NodeName(n))
		}
		return names
	}
	for shard, want := range map[int]string{
		0: "[a/0/0 a/0/1 b/0/0 b/0/1 c/0/0 c/0/1]",
		2: "[a/0/0 b/0/0 b/0/1]",
		3: "[b/1/0 b/1/1 a/1/0 a/1/1 c/1/0 c/1/1]",
	} {
		g := l.Group(shard)
		if got := fmt.Sprint(named(g.Members)); got != want || g.Leader != g.Members[0] {
			t.Errorf("shard %d (%s): members %s, led by %s; want %s", shard, l.ShardName(shard), got, top.NodeName(g.Leader), want)
		}
	}
	for n := range NodeID(12) {
		for _, shard := range l.ShardsOf(n) {
			c := l.Cells(shard)[0]
			k := txn.IntKey(1, top.Placement().ShardNumber(c, 7))
			if top.PartitionOf(n) != c.Partition || !l.Holds(n, k) || l.Shard(k) != shard {
				t.Errorf("node %s holds shard %s, but not %v", top.NodeName(n), l.ShardName(shard), k)
			}
		}
	}
	if got := fmt.Sprint(l.ShardsOf(top.Node(2, 0, 1))); got != "[0 4]" {
		t.Errorf("c/0/1 holds shards %s", got)
	}
	for want, g := range map[string]CellGroup{
		"there is no partition 2 of home 1":        {Cell: Cell{Home: 1, Partition: 2}, Replicas: []int{1, 1, 1}},
		"has no replica of the group":              {Cell: Cell{Home: 1, Partition: 1}, Replicas: []int{1, 0, 1}, Leader: 1},
		"not between 0 and replicasPerPartition":   {Cell: Cell{Home: 1, Partition: 1}, Replicas: []int{1, 3, 1}},
		"2 entries for 3 regions":                  {Cell: Cell{Home: 1, Partition: 1}, Replicas: []int{1, 1}},
		"partition 0 of region b is in two groups": {Cell: Cell{Home: 1, Partition: 0}, Replicas: []int{1, 1, 1}},
	} {
		bad := *top
		bad.Groups = append(slices.Clone(top.Groups), g)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
}
