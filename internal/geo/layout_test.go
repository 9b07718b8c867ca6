package geo

import (
	"testing"

	"github.com/geobench/geobench/internal/txn"
)

// Every copy holds every row at one node, which is where Site says; with home-only replication that is in the row's home.
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
