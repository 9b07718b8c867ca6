package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// agreeing is a workload whose only invariant is that copies are equal. It has two rows that every node stores.
type agreeing struct{ workload.Workload }

func (agreeing) Verify(copies []workload.Copy, _ workload.Ledger) []workload.Check {
	return []workload.Check{workload.CopiesAgree(copies)}
}

func (agreeing) Everywhere(put func(txn.Key, []byte)) {
	put(txn.EverywhereKey(1, nil), nil)
	put(txn.EverywhereKey(2, nil), nil)
}

// replicated returns the topology with two replicas of each partition.
func replicated(t geo.Topology) geo.Topology {
	t.Replicas = 2
	return t
}

func TestInvariantsFindWhatIsWrong(t *testing.T) {
	two := geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 1}
	three := geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 1, Replicas: 1}
	// There are four regions, and each shard has members in three of them.
	spread := geo.Topology{Regions: []string{"a", "b", "c", "d"}, Partitions: 1, Replicas: 1}
	for r := range spread.Regions {
		counts := []int{1, 1, 1, 1}
		counts[(r+1)%4] = 0
		spread.Groups = append(spread.Groups, geo.CellGroup{Cell: geo.Cell{Home: geo.Region(r)}, Replicas: counts, Leader: geo.Region(r)})
	}
	out := func(nodes ...int) func(*Audits) {
		return func(a *Audits) {
			a.Out = make([]string, len(a.Nodes))
			for _, n := range nodes {
				a.Out[n], a.Nodes[n] = "is gone", nil
			}
		}
	}
	extra := func(node int) func(*Audits) {
		return func(a *Audits) { a.Nodes[node][1].Sums["extra"] = 1 }
	}
	both := func(f, g func(*Audits)) func(*Audits) { return func(a *Audits) { f(a); g(a) } }
	tests := map[string]struct {
		topology geo.Topology
		layout   func(*geo.Topology) geo.Layout
		spoil    func(*Audits)
		failed   string
		says     string // text in the first check
	}{
		"nothing":                          {two, (*geo.Topology).Full, func(*Audits) {}, "", "2 copies have equal sums"},
		"a copy's rows":                    {two, (*geo.Topology).Full, func(a *Audits) { a.Nodes[1][1].Digest = 8 }, "convergence", ""},
		"money in one copy":                {two, (*geo.Topology).Full, extra(1), "copies-agree convergence", "extra is 1 in a and 0 in b"},
		"a node":                           {two, (*geo.Topology).Full, out(1), "", "(1 of 2 copies are left out: node a/1/0 is gone)"},
		"all of a shard":                   {two, (*geo.Topology).Full, out(1, 3), "", ""},
		"a region, another is wrong":       {three, (*geo.Topology).Full, both(out(0), extra(2)), "copies-agree convergence", "extra is 0 in b and 1 in c"},
		"a replica is wrong":               {replicated(two), (*geo.Topology).Full, extra(1), "copies-agree convergence", "a (replica 0) and 1 in a (replica 1)"},
		"led from each region":             {three, (*geo.Topology).Placed, func(*Audits) {}, "", "3 copies have equal sums"},
		"a region of those":                {three, (*geo.Topology).Placed, out(1), "", "2 copies have equal sums (1 of 3 copies are left out: node b/0/0 is gone)"},
		"spread":                           {spread, (*geo.Topology).Placed, func(*Audits) {}, "", "3 copies have equal sums"},
		"a region of a spread database":    {spread, (*geo.Topology).Placed, out(1), "", "2 copies have equal sums (1 of 3 copies are left out: node b/0/0 is gone)"},
		"rows at home only":                {two, (*geo.Topology).HomeOnly, func(*Audits) {}, "", "the only copy has no other to agree with"},
		"a node of those":                  {two, (*geo.Topology).HomeOnly, out(2), "", ""},
		"rows of every node untold on one": {two, (*geo.Topology).Full, func(a *Audits) { a.Nodes[2] = a.Nodes[2][1:] }, "everywhere", ""},
		"rows of every node on one":        {two, (*geo.Topology).Full, func(a *Audits) { a.Nodes[2][0] = store.ShardSums{Shard: store.Everywhere} }, "everywhere convergence", ""},
		"rows of every node on all": {two, (*geo.Topology).Full, func(a *Audits) {
			for n := range a.Nodes {
				a.Nodes[n][0] = store.ShardSums{Shard: store.Everywhere}
			}
		}, "everywhere", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			layout := tc.layout(&tc.topology)
			var audits Audits
			for n := range geo.NodeID(tc.topology.Nodes()) {
				held := []store.ShardSums{{Shard: store.Everywhere, Rows: 2}}
				for _, shard := range layout.ShardsOf(n) {
					held = append(held, store.ShardSums{Shard: shard, Sums: map[string]int64{}, Digest: 7})
				}
				audits.Nodes = append(audits.Nodes, held)
			}
			tc.spoil(&audits)
			checks := Verify(&layout, agreeing{}, audits, nil, []v1alpha1.Verification{v1alpha1.VerifyInvariants})
			for _, c := range checks {
				if c.Passed == slices.Contains(strings.Fields(tc.failed), c.Name) {
					t.Errorf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
				}
			}
			audited := !strings.HasPrefix(name, "all of") && name != "a node of those"
			if why := audits.Unaudited(&layout,
				[]v1alpha1.Verification{v1alpha1.VerifyInvariants}); audited != (why == "") {
				t.Errorf("not audited: %q", why)
			}
			for _, name := range strings.Fields(tc.failed) {
				if !slices.ContainsFunc(checks, func(c workload.Check) bool { return c.Name == name }) {
					t.Errorf("there is no check %s", name)
				}
			}
			if tc.says != "" && !strings.Contains(checks[0].Message, tc.says) {
				t.Errorf("%s: %q says nothing of %q", checks[0].Name, checks[0].Message, tc.says)
			}
		})
	}
}

// TestVerifyChecksWhatIsAsked checks that each requested check runs once. With several copies, invariants are
// meaningless unless the copies are equal.
func TestVerifyChecksWhatIsAsked(t *testing.T) {
	const invariants, convergence = v1alpha1.VerifyInvariants, v1alpha1.VerifyConvergence
	topology := geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1}
	for name, tc := range map[string]struct {
		layout geo.Layout
		verify []v1alpha1.Verification
		want   string
	}{
		"nothing":                    {topology.Full(), nil, ""},
		"a history":                  {topology.Full(), []v1alpha1.Verification{v1alpha1.VerifyIsolation}, ""},
		"invariants":                 {topology.Full(), []v1alpha1.Verification{invariants}, "copies-agree convergence"},
		"convergence":                {topology.Full(), []v1alpha1.Verification{convergence}, "convergence"},
		"both":                       {topology.Full(), []v1alpha1.Verification{convergence, invariants}, "copies-agree convergence"},
		"invariants without copies":  {topology.HomeOnly(), []v1alpha1.Verification{invariants}, "copies-agree"},
		"convergence without copies": {topology.HomeOnly(), []v1alpha1.Verification{convergence}, "convergence"},
		"both without copies":        {topology.HomeOnly(), []v1alpha1.Verification{invariants, convergence}, "copies-agree convergence"},
	} {
		t.Run(name, func(t *testing.T) {
			audits := Audits{}
			for range topology.Nodes() {
				// Add the rows of agreeing that every node stores.
				audits.Nodes = append(audits.Nodes, []store.ShardSums{{Shard: store.Everywhere, Rows: 2}})
			}
			var names []string
			for _, c := range Verify(&tc.layout, agreeing{}, audits, nil, tc.verify) {
				names = append(names, c.Name)
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%q are checked, want %q", got, tc.want)
			}
		})
	}
}

// TestComplete checks that an audit is incomplete if a shard is missing on a node on which the layout places it. The
// whole node may be missing, or only the shard. Omitted nodes are ignored.
func TestComplete(t *testing.T) {
	topology := geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 2}
	l := topology.Full()
	all := func() (a Audits) {
		for n := range geo.NodeID(topology.Nodes()) {
			held := []store.ShardSums{{Shard: store.Everywhere}}
			for _, shard := range l.ShardsOf(n) {
				held = append(held, store.ShardSums{Shard: shard})
			}
			a.Nodes = append(a.Nodes, held)
		}
		return a
	}
	last := topology.Nodes() - 1
	for name, tc := range map[string]struct {
		spoil func(*Audits)
		fails bool
	}{
		"all":                     {func(*Audits) {}, false},
		"a node is missing":       {func(a *Audits) { a.Nodes = a.Nodes[:last] }, true},
		"a node tells nothing":    {func(a *Audits) { a.Nodes[last] = nil }, true},
		"a shard is missing":      {func(a *Audits) { a.Nodes[last] = a.Nodes[last][:1] }, true},
		"a node that is left out": {func(a *Audits) { a.Nodes[last], a.Out = nil, make([]string, last+1); a.Out[last] = "is gone" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := all()
			tc.spoil(&a)
			if err := a.Complete(&l); (err != nil) != tc.fails {
				t.Errorf("error %v, want one: %v", err, tc.fails)
			}
		})
	}
}

// TestRowsWhereTheyDoNotBelong checks that misplaced rows are reported as a shard that differs from all other copies.
func TestRowsWhereTheyDoNotBelong(t *testing.T) {
	topology := geo.Topology{Regions: []string{"a"}, Partitions: 2, Replicas: 1}
	l := topology.Full()
	rows := store.NewHash()
	for n := range uint64(2) { // one row of each partition
		rows.Put(txn.IntKey(1, n), []byte{1}, 1)
	}
	for n := range geo.NodeID(2) {
		told := Digests(n, &l, rows, false)
		stranger := l.ShardsOf(1 - n)[0]
		i := slices.IndexFunc(told, func(s store.ShardSums) bool { return s.Shard == stranger })
		if i < 0 || told[i].Rows != 1 || told[i].Digest == 0 {
			t.Errorf("node %d tells %+v, and nothing of its row of shard %d", n, told, stranger)
		}
	}
}

// TestNothingIsLeftToAudit checks that no check fails without any audited node; Unaudited then returns the reason.
func TestNothingIsLeftToAudit(t *testing.T) {
	topology := geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1}
	layout := topology.Full()
	for _, verify := range []v1alpha1.Verification{v1alpha1.VerifyInvariants, v1alpha1.VerifyConvergence} {
		audits := Audits{Nodes: make([][]store.ShardSums, 2), Out: []string{"is gone", "waits for it"}}
		asked := []v1alpha1.Verification{verify}
		if checks, why := Verify(&layout, agreeing{}, audits, nil, asked), audits.Unaudited(&layout,
			asked); len(checks) > 0 || !strings.Contains(why, "waits for it") {
			t.Errorf("%s: checks %+v, not audited: %q", verify, checks, why)
		}
		if why := audits.Unaudited(&layout, nil); why != "" {
			t.Errorf("nothing is asked for, and %q", why)
		}
	}
}
