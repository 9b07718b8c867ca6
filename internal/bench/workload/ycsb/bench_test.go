package ycsb

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// single returns the transaction form of mix m, on records of the usual size.
func single(m v1alpha1.YCSBMix, operations int32) v1alpha1.YCSB {
	spec := defaults("")
	spec.Mix, spec.Records, spec.FieldCount, spec.FieldBytes, spec.OperationsPerTransaction = &m, 100_000, 10, 100, operations
	return spec
}

var mixes = []struct {
	name string
	spec v1alpha1.YCSB
}{
	{"read", single(v1alpha1.YCSBMix{Read: 100}, 1)},
	{"update", single(v1alpha1.YCSBMix{Update: 100}, 1)},
	{"insert", single(v1alpha1.YCSBMix{Insert: 100}, 1)},
	{"scan", single(v1alpha1.YCSBMix{Scan: 100}, 1)},
	{"readModifyWrite", single(v1alpha1.YCSBMix{ReadModifyWrite: 100}, 1)},
	{"10 operations 50-50", single(v1alpha1.YCSBMix{Read: 50, Update: 50}, 10)},
	{"10 operations 50-50 blind", func() v1alpha1.YCSB {
		s := single(v1alpha1.YCSBMix{Read: 50, Update: 50}, 10)
		s.WriteAllFields = true
		return s
	}()},
}

func BenchmarkNext(b *testing.B) {
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			g := bind(b, m.spec, topology(2, 1)).NewGenerator(workload.GeneratorConfig{Clients: 1})
			b.ReportAllocs()
			for b.Loop() {
				g.Next(0, 0, &txn.Transaction{ID: 1})
				g.Done(0, txn.Outcome{Status: txn.Committed})
			}
		})
	}
}

// made returns generated transactions of spec.
func made(b *testing.B, spec v1alpha1.YCSB) (txns []*txn.Transaction) {
	g := bind(b, spec, topology(2, 1)).NewGenerator(workload.GeneratorConfig{Clients: 1})
	for i := range 1000 {
		t := &txn.Transaction{ID: txn.ID(i + 1)}
		g.Next(0, 0, t)
		g.Done(0, txn.Outcome{Status: txn.Refused})
		txns = append(txns, t)
	}
	return txns
}

func BenchmarkDeclare(b *testing.B) {
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			procs, txns := txn.NewRegistry(Procedures()...), made(b, m.spec)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := procs.Prepare(txns[i%len(txns)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			top := topology(2, 1)
			procs, txns := txn.NewRegistry(Procedures()...), made(b, m.spec)
			st := workloadtest.New(b).Load(bind(b, m.spec, top), top)
			b.ReportAllocs()
			v := store.View{Rows: st.Hash}
			for i := 0; b.Loop(); i++ {
				t := txns[i%len(txns)]
				v.Writes.Reset()
				if _, err := procs.Lookup(t.Proc).Run(&v, t.Args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRows loads a cell of records of 1 KB.
func BenchmarkRows(b *testing.B) {
	for _, m := range mixes[:4:4] {
		if m.name != "read" && m.name != "scan" {
			continue
		}
		b.Run(m.name, func(b *testing.B) {
			w := bind(b, m.spec, topology(2, 1))
			for b.Loop() {
				st := store.NewHash()
				w.Rows(geo.Cell{}, st.Load)
			}
			b.ReportMetric(float64(b.N)*float64(w.loaded(geo.Cell{}))/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
