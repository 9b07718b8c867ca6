package rmw

import (
	"math"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/workloadtest"
)

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c", "d"}[:regions], Partitions: partitions, Replicas: 1}
}

// defaults are those of the API.
var defaults = v1alpha1.RMW{Records: 10_000, RecordsPerTransaction: 10, WritesPerTransaction: 10, ValueBytes: 100,
	HomesPerMultiHome: 2, PartitionsPerMultiPartition: 2}

func TestGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		change              func(*v1alpha1.RMW)
		homes, parts        int
	}{
		"local": {2, 2, func(*v1alpha1.RMW) {}, 1, 1},
		"mixed": {2, 2, func(s *v1alpha1.RMW) { s.MultiHomePercent, s.MultiPartitionPercent = 30, 60 }, 2, 2},
		"wide": {4, 4, func(s *v1alpha1.RMW) {
			s.MultiHomePercent, s.MultiPartitionPercent, s.HomesPerMultiHome, s.PartitionsPerMultiPartition = 100, 100, 3, 4
		}, 3, 4},
		"hot":          {2, 1, func(s *v1alpha1.RMW) { s.HotRecords, s.HotRecordsPerTransaction = 100, 2 }, 1, 1},
		"reads":        {1, 1, func(s *v1alpha1.RMW) { s.WritesPerTransaction = 0 }, 1, 1},
		"some writes":  {2, 1, func(s *v1alpha1.RMW) { s.WritesPerTransaction, s.MultiHomePercent = 3, 100 }, 2, 1},
		"many records": {2, 2, func(s *v1alpha1.RMW) { s.RecordsPerTransaction, s.WritesPerTransaction = 100, 50 }, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			spec := defaults
			c.change(&spec)
			top := topology(c.regions, c.partitions)
			w, err := New(spec, 5, top)
			if err != nil {
				t.Fatal(err)
			}
			st := workloadtest.New(t, Procedures()...).Load(w, top)
			g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: 1})
			place := top.Placement()
			const n = 5000
			mh, mp, hot := 0, 0, 0
			for i := range n {
				tx := &txn.Transaction{ID: txn.ID(i)}
				r := g.Next(0, 0, tx)
				homes, parts := map[geo.Region]bool{}, map[int]bool{}
				for j, a := range tx.Accesses {
					homes[place.Home(a.Key)], parts[place.Partition(a.Key)] = true, true
					if write := a.Mode == txn.ReadWrite; write != (j < int(spec.WritesPerTransaction)) {
						t.Fatalf("record %d has mode %d", j, a.Mode)
					}
					if spec.HotRecords > 0 && a.Key.Shard() < uint64(spec.HotRecords)*uint64(c.regions*c.partitions) {
						hot++
					}
				}
				if !homes[0] || r.Class.MultiHome() && len(homes) != c.homes || r.Class.MultiPartition() && len(parts) != c.parts {
					t.Fatalf("class %v with %d homes and %d partitions, want %d and %d", r.Class, len(homes), len(parts), c.homes, c.parts)
				}
				if r.Class.MultiHome() {
					mh++
				}
				if r.Class.MultiPartition() {
					mp++
				}
				o := st.Run(tx)
				if o.Status != txn.Committed {
					t.Fatal(o)
				}
				g.Done(0, o)
			}
			for what, s := range map[string][2]int{"multi-home": {mh, int(spec.MultiHomePercent)}, "multi-partition": {mp, int(spec.MultiPartitionPercent)}} {
				p := float64(s[1]) / 100
				if off := math.Abs(float64(s[0])/n - p); off > 4*math.Sqrt(p*(1-p)/n) {
					t.Errorf("%s: %d of %d, want %d%%", what, s[0], n, s[1])
				}
			}
			if want := n * int(spec.HotRecordsPerTransaction); hot != want {
				t.Errorf("%d hot records, want %d", hot, want)
			}
			audit := w.Audit(st.Rows())
			for _, c := range w.Verify([]map[string]int64{audit}, g.Ledger()) {
				if !c.Passed {
					t.Errorf("%s: %s", c.Name, c.Message)
				}
			}
			audit["writes"]-- // a lost update
			if spec.WritesPerTransaction > 0 && w.Verify([]map[string]int64{audit}, g.Ledger())[0].Passed {
				t.Error("a lost update passes")
			}
		})
	}
}

func TestLedger(t *testing.T) {
	w, err := New(defaults, 5, topology(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 2, Stream: 1})
	next := func(client int, id txn.ID) { g.Next(client, 0, &txn.Transaction{ID: id}) }
	expect := func(low, high int64) {
		t.Helper()
		if got := g.Ledger()[ledgerWrites]; got != (workload.Interval{Low: low, High: high}) {
			t.Errorf("the ledger is %+v, want %d to %d", got, low, high)
		}
	}
	next(0, 1)
	expect(0, 10)
	g.Done(0, txn.Outcome{ID: 1, Status: txn.Aborted})
	expect(0, 0)
	next(0, 2)
	next(1, 3)
	g.Done(0, txn.Outcome{ID: 2, Status: txn.Unknown})
	g.Done(1, txn.Outcome{ID: 3, Status: txn.Unknown})
	expect(0, 20)
	g.Late(txn.Outcome{ID: 2, Status: txn.Committed})
	expect(10, 20)
	g.Late(txn.Outcome{ID: 3, Status: txn.Aborted})
	g.Late(txn.Outcome{ID: 3, Status: txn.Committed})
	expect(10, 10)
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.RMW)
		want   string
	}{
		"too many writes": {func(s *v1alpha1.RMW) { s.WritesPerTransaction = 11 }, "writesPerTransaction: 11 is not"},
		"tiny value":      {func(s *v1alpha1.RMW) { s.ValueBytes = 7 }, "valueBytes: 7 is not"},
		"too many homes":  {func(s *v1alpha1.RMW) { s.MultiHomePercent, s.HomesPerMultiHome = 1, 3 }, "homesPerMultiHome: 3 is not between 2 and the number of regions (2)"},
		"one record":      {func(s *v1alpha1.RMW) { s.MultiHomePercent, s.RecordsPerTransaction, s.WritesPerTransaction = 1, 1, 1 }, "recordsPerTransaction: 1 records cannot lie in 2 homes"},
		"few records":     {func(s *v1alpha1.RMW) { s.Records = 39 }, "records: 39 is too few for 2 regions with 2 partitions each; make it at least 40"},
		"few hot records": {func(s *v1alpha1.RMW) { s.HotRecords, s.HotRecordsPerTransaction = 1, 2 }, "hotRecords: 1 hot records"},
	} {
		spec := defaults
		c.change(&spec)
		if _, err := New(spec, 1, topology(2, 2)); err == nil || !strings.Contains(err.Error(), "spec.workload.rmw."+c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	w, err := New(defaults, 5, topology(1, 1))
	if err != nil {
		f.Fatal(err)
	}
	tx := &txn.Transaction{}
	w.NewGenerator(workload.GeneratorConfig{Clients: 1}).Next(0, 0, tx)
	f.Add(tx.Args)
	f.Add([]byte{0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		var footprint txn.Footprint
		if readModifyWrite.Declare(b, &footprint) != nil {
			return
		}
		seen := map[txn.Key]bool{}
		st := store.NewHash()
		for _, a := range footprint.Accesses {
			if !a.Key.Valid() || seen[a.Key] {
				t.Fatalf("%v is invalid or occurs twice", a.Key)
			}
			seen[a.Key] = true
			st.Load(a.Key, make([]byte, 16))
		}
		if _, err := readModifyWrite.Run(&store.View{Rows: st}, b); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	spec := defaults
	spec.Records = 100_000
	w, err := New(spec, 1, topology(2, 1))
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
