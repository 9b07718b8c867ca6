package sunstorm

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/invariant"
)

// If several values of a log decrease in one step, the check always reports the same one of them.
func TestTheSameIsTold(t *testing.T) {
	topology := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}
	told := map[string]bool{}
	for range 100 {
		c := invariant.NewChecker("sunstorm", topology)
		r := &Replica{}
		r.wal.last, r.wal.sent, r.wal.durable, r.wal.shipped = 4, 3, 2, 1
		r.Check(c)
		r.wal.last, r.wal.sent, r.wal.durable, r.wal.shipped = 3, 2, 1, 0
		r.Check(c)
		if c.Broken() == nil {
			t.Fatal("nothing is told")
		}
		told[c.Broken().Values] = true
	}
	if len(told) != 1 {
		t.Errorf("one and the same mistake is told as %v", told)
	}
}
