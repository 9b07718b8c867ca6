package rmw

import (
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
	return &geo.Topology{Regions: []string{"a", "b", "c", "d"}[:regions], Partitions: partitions, Replicas: 1}
}

// defaults are the defaults of the API.
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
			place := top.Placement()
			n, hot := 0, 0
			workloadtest.Shares(t, workloadtest.Bind(t, New, spec, top, Procedures()), 2000, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
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
				if !homes[region] || r.Class.MultiHome() && len(homes) != c.homes || r.Class.MultiPartition() && len(parts) != c.parts {
					t.Fatalf("class %v with %d homes and %d partitions, want %d and %d", r.Class, len(homes), len(parts), c.homes, c.parts)
				}
				n++
			})
			if want := n * int(spec.HotRecordsPerTransaction); hot != want {
				t.Errorf("%d hot records, want %d", hot, want)
			}
		})
	}
}

func TestSuite(t *testing.T) {
	c := workloadtest.Bind(t, New, defaults, topology(3, 2), Procedures())
	workloadtest.Rows(t, c)
	workloadtest.Ledger(t, c, 500)
	workloadtest.Streams(t, c, 200)
	workloadtest.Invariants(t, c, 200, "t0 altered at its end") // no check covers a record's payload
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
