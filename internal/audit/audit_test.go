package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/workload"
)

// agreeing is a workload whose only invariant is that copies agree.
type agreeing struct{ workload.Workload }

func (agreeing) Verify(copies []map[string]int64, _ workload.Ledger) []workload.Check {
	return []workload.Check{workload.CopiesAgree([]string{"a", "b"}, copies)}
}

func TestInvariantsFindWhatIsWrong(t *testing.T) {
	topology := &geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 1}
	layout := topology.Full()
	tests := map[string]struct {
		spoil  func(*Audits)
		failed string
	}{
		"nothing":           {func(*Audits) {}, ""},
		"a copy's rows":     {func(a *Audits) { a.Nodes[1][0].Digest = 8 }, "convergence"},
		"money in one copy": {func(a *Audits) { a.Nodes[1][0].Sums["extra"] = 1 }, "copies-agree convergence"},
		"a node":            {func(a *Audits) { a.Out = []string{"", "is gone", "", ""}; a.Nodes[1] = nil }, ""},
		"two nodes":         {func(a *Audits) { a.Out = []string{"", "is gone", "", "waits"} }, "invariants"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var audits Audits
			for n := range geo.NodeID(4) {
				audits.Nodes = append(audits.Nodes, []Shard{{Shard: layout.ShardOf(n), Sums: map[string]int64{}, Digest: 7}})
			}
			tc.spoil(&audits)
			for _, c := range Invariants(&layout, agreeing{}, audits, nil) {
				if c.Passed == slices.Contains(strings.Fields(tc.failed), c.Name) {
					t.Errorf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
				}
			}
		})
	}
}
