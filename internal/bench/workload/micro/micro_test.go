package micro

import (
	"bytes"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c"}[:regions], Partitions: partitions, Replicas: 1}
}

func TestGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		globalPercent       int32
	}{
		"local":           {2, 1, 0},
		"some are global": {2, 1, 10},
		"all are global":  {3, 2, 100},
		"one region":      {1, 2, 50},
		"one partition":   {1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			top := topology(c.regions, c.partitions)
			place := top.Placement()
			suite := workloadtest.Bind(t, New, v1alpha1.Micro{ItemsPerPartition: 500, GlobalPercent: c.globalPercent}, top, Procedures())
			seconds := map[geo.Cell]int{} // global transactions of clients in region 0, by second cell
			global := 0
			workloadtest.Shares(t, suite, 5000, func(home geo.Region, tx *txn.Transaction, r workload.Request) {
				first, second := place.Cell(tx.Accesses[0].Key), place.Cell(tx.Accesses[1].Key)
				if first.Home != home || (first != second) != (r.Type == typeGlobal) {
					t.Fatalf("type %d of a client in region %d has items in %v and %v", r.Type, home, first, second)
				}
				if first != second && home == 0 {
					seconds[second]++
					global++
				}
			})
			for cell, n := range seconds {
				// Clients in partitions of the same region never draw their own partition as the other partition.
				others := float64(c.regions*c.partitions - 1)
				p := 1 / others
				if cell.Home == 0 {
					p *= float64(c.partitions-1) / float64(c.partitions)
				}
				workloadtest.NearShare(t, "the second item lies in "+top.Regions[cell.Home], n, global, p)
			}
		})
	}
}

// TestRegionsWithoutRows checks that a region that is not a home has no items, and that global transactions use only
// homes.
func TestRegionsWithoutRows(t *testing.T) {
	top := topology(3, 1)
	top.Homes = 2
	w, err := New(v1alpha1.Micro{ItemsPerPartition: 500, GlobalPercent: 100}, 1, top)
	if err != nil {
		t.Fatal(err)
	}
	g := w.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1, RegionClients: 1})
	place, first := top.Placement(), 0
	for range 1000 {
		var tx txn.Transaction
		g.Next(0, 0, &tx)
		if a, b := place.Home(tx.Accesses[0].Key), place.Home(tx.Accesses[1].Key); a+b != 1 {
			t.Fatalf("a global transaction has items of homes %d and %d, want one of each of two", a, b)
		} else if a == 1 {
			first++
		}
		g.Done(0, txn.Outcome{Status: txn.Committed})
	}
	if first == 0 {
		t.Error("no transaction begins in its client's home")
	}
	top.Homes = 1
	if _, err := New(v1alpha1.Micro{ItemsPerPartition: 500, GlobalPercent: 1}, 1, top); err == nil {
		t.Error("one home with one partition has global transactions")
	}
}

func TestSuite(t *testing.T) {
	c := workloadtest.Bind(t, New, v1alpha1.Micro{ItemsPerPartition: 500, GlobalPercent: 30}, topology(3, 2), Procedures())
	c.SameRows = "items count their updates from 0"
	workloadtest.Rows(t, c)
	workloadtest.Ledger(t, c, 500)
	workloadtest.Streams(t, c, 200)
	workloadtest.Invariants(t, c, 200)
}

func TestUpdate(t *testing.T) {
	w, err := New(v1alpha1.Micro{ItemsPerPartition: 2}, 1, topology(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	d := workloadtest.New(t, Procedures()...).Load(w, topology(1, 1))
	for i, want := range [][]byte{{0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0, 0, 1}} {
		tx := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
		update.Call(tx, []byte{15: 1})
		if o := d.Run(tx); o.Status != txn.Committed || !bytes.Equal(o.Result, want) {
			t.Errorf("transaction %d returned %x (%v), want %x", i, o.Result, o.Status, want)
		}
	}
}

func TestNever(t *testing.T) {
	for percent, want := range map[int32]string{0: "global", 50: "", 100: "local"} {
		for _, transaction := range typeNames {
			if why := Never(&v1alpha1.Micro{GlobalPercent: percent}, transaction); (why != "") != (transaction == want) {
				t.Errorf("globalPercent %d: %s never runs: %q", percent, transaction, why)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		spec v1alpha1.Micro
		top  *geo.Topology
	}{
		"itemsPerPartition: 1 is not between 2 and":                                                        {v1alpha1.Micro{ItemsPerPartition: 1}, topology(2, 2)},
		"globalPercent: 101 is not between 0 and 100":                                                      {v1alpha1.Micro{ItemsPerPartition: 2, GlobalPercent: 101}, topology(2, 2)},
		"globalPercent: 1 needs two partitions, the database has one region with one partition; make it 0": {v1alpha1.Micro{ItemsPerPartition: 2, GlobalPercent: 1}, topology(1, 1)},
		"globalPercent: -1 is not between 0 and 100":                                                       {v1alpha1.Micro{ItemsPerPartition: 2, GlobalPercent: -1}, topology(1, 1)},
		"itemsPerPartition: 1000000001 is not between 2 and 1":                                             {v1alpha1.Micro{ItemsPerPartition: 1_000_000_001}, topology(1, 1)},
	} {
		if _, err := New(c.spec, 1, c.top); err == nil || !strings.Contains(err.Error(), "spec.workload.micro."+want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add([]byte{15: 1})
	f.Add([]byte{14: 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var footprint txn.Footprint
		if update.Declare(b, &footprint) != nil {
			return
		}
		st := store.NewHash()
		for _, a := range footprint.Accesses {
			st.Load(a.Key, make([]byte, itemSize))
		}
		if _, err := update.Run(&store.View{Rows: st}, b); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	w, err := New(v1alpha1.Micro{ItemsPerPartition: 1_000_000, GlobalPercent: 10}, 1, topology(2, 1))
	if err != nil {
		b.Fatal(err)
	}
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
	b.ReportAllocs()
	for b.Loop() {
		g.Next(0, 0, &txn.Transaction{})
		g.Done(0, txn.Outcome{Status: txn.Committed})
	}
}
