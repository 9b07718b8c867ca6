package rmw

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func ptr[T any](v T) *T { return &v }

// The numbers of foreign single-home transactions and of dependent transactions match the manifest. The test determines
// the numbers from the transactions that the generator returns.
func TestKnobs(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.RMW){
		"foreign":   func(s *v1alpha1.RMW) { s.ForeignSingleHomePercent, s.MultiHomePercent = 40, 25 },
		"dependent": func(s *v1alpha1.RMW) { s.DependentPercent, s.MultiHomePercent, s.MultiPartitionPercent = 35, 50, 50 },
		"both": func(s *v1alpha1.RMW) {
			s.DependentPercent, s.ForeignSingleHomePercent, s.WritesPerTransaction, s.HotRecords, s.HotRecordsPerTransaction = 100, 100, 1, 50, 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := defaults
			change(&spec)
			top := topology(3, 2)
			place := top.Placement()
			c := workloadtest.Bind(t, New, spec, top, Procedures())
			if spec.ForeignSingleHomePercent > 0 {
				c.AnyHome = "foreign transactions are asked for"
			}
			single, foreign, dependents, all := 0, 0, 0, 0
			homes := map[geo.Region]int{} // foreign transactions by home, relative to the client's region
			workloadtest.Shares(t, c, 4000, func(region geo.Region, tx *txn.Transaction, _ workload.Request) {
				all++
				if tx.Proc == procDependent {
					dependents++
					if len(tx.Accesses) != int(spec.RecordsPerTransaction)-1 || tx.Exact {
						t.Fatalf("a dependent transaction declares %d accesses, exact %v", len(tx.Accesses), tx.Exact)
					}
				}
				if place.Class(tx.Accesses).MultiHome() {
					return
				}
				single++
				if home := place.Home(tx.Accesses[0].Key); home != region {
					foreign++
					homes[(home-region+3)%3]++
				}
			})
			workloadtest.NearShare(t, "foreign", foreign, single, float64(spec.ForeignSingleHomePercent)/100)
			workloadtest.NearShare(t, "dependent", dependents, all, float64(spec.DependentPercent)/100)
			for r, n := range homes {
				workloadtest.NearShare(t, "foreign home", n, foreign, 0.5)
				if r == 0 {
					t.Error("a foreign home is the client's")
				}
			}
		})
	}
}

// Dependent transactions are atomic and are counted like all other transactions.
func TestDependentSuite(t *testing.T) {
	spec := defaults
	spec.DependentPercent, spec.MultiHomePercent, spec.ForeignSingleHomePercent = 50, 50, 50
	c := workloadtest.Bind(t, New, spec, topology(3, 2), Procedures())
	c.AnyHome = "foreign transactions are asked for"
	workloadtest.Ledger(t, c, 500)
	workloadtest.Streams(t, c, 200)
}

// mixed returns a workload of two types: small read-only transactions, and large transactions on hot records.
func mixed() v1alpha1.RMW {
	spec := defaults
	spec.Types = []v1alpha1.RMWType{
		{Name: "look", Percent: 70, RecordsPerTransaction: ptr(int32(2)), WritesPerTransaction: ptr(int32(0)), DependentPercent: ptr(int32(20))},
		{Name: "change", Percent: 30, HotRecords: ptr(int64(20)), HotRecordsPerTransaction: ptr(int32(3)), MultiHomePercent: ptr(int32(60))},
	}
	return spec
}

// Each type uses its configured share, keys, skew and homes.
func TestTypes(t *testing.T) {
	top := topology(2, 2)
	kinds := [2]int{}
	workloadtest.Shares(t, workloadtest.Bind(t, New, mixed(), top, Procedures()), 4000, func(_ geo.Region, tx *txn.Transaction, r workload.Request) {
		kinds[r.Type]++
		hot := 0
		for _, a := range tx.Accesses {
			if a.Key.Shard() < 20*4 {
				hot++
			}
		}
		if r.Type == 0 && (len(tx.Accesses) > 2 || tx.Accesses[0].Mode != txn.Read) || r.Type == 1 && (len(tx.Accesses) != 10 || hot != 3) {
			t.Fatalf("a transaction of type %d has %d keys, %d of them hot", r.Type, len(tx.Accesses), hot)
		}
	})
	workloadtest.NearShare(t, "look", kinds[0], kinds[0]+kinds[1], 0.7)
}

// Mixes follow each other over the measured time; the warm-up uses the first mix.
func TestMixPhases(t *testing.T) {
	spec := mixed()
	spec.MixPhases = []v1alpha1.RMWMix{{Percents: []int32{100, 0}}, {Percents: []int32{20, 80}}, {Percents: []int32{50, 50}}}
	w, err := New(spec, 1, topology(2, 2))
	if err != nil {
		t.Fatal(err)
	}
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Measured: 30 * time.Second})
	const each = 4000
	for part, want := range []float64{100, 100, 20, 50} { // the warm-up first
		looks := 0
		for i := range each {
			elapsed := time.Duration(part-1)*10*time.Second + time.Duration(i)*10*time.Second/each
			if g.Next(0, elapsed, &txn.Transaction{}).Type == 0 {
				looks++
			}
			g.Done(0, txn.Outcome{Status: txn.Committed})
		}
		workloadtest.NearShare(t, "look", looks, each, want/100)
	}
	workloadtest.Near(t, w.Shares(), g.Realised())
	if never := Never(&spec, "look"); never != "" {
		t.Errorf("look runs, and %q", never)
	}
	spec.MixPhases = spec.MixPhases[:1]
	if never := Never(&spec, "change"); never != "its share in spec.workload.rmw.mixPhases is 0" {
		t.Errorf("change never runs: %q", never)
	}
}

func TestKnobsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.RMW)
		want   string
	}{
		"foreign in one region": {func(s *v1alpha1.RMW) { s.ForeignSingleHomePercent = 5 }, "foreignSingleHomePercent: 5 needs two regions"},
		"one record":            {func(s *v1alpha1.RMW) { s.DependentPercent, s.RecordsPerTransaction, s.WritesPerTransaction = 5, 1, 1 }, "dependentPercent: 5 needs a record to read"},
		"hot alone":             {func(s *v1alpha1.RMW) { s.DependentPercent, s.HotRecords, s.HotRecordsPerTransaction = 5, 10, 10 }, "dependentPercent: 5 needs a last record that is not hot"},
		"percent":               {func(s *v1alpha1.RMW) { *s = mixed(); s.Types[0].Percent = 60 }, "types[].percent: the shares sum to 90"},
		"twice":                 {func(s *v1alpha1.RMW) { *s = mixed(); s.Types[1].Name = "look" }, `types[1].name: "look" is empty or the name of another type`},
		"a type's own":          {func(s *v1alpha1.RMW) { *s = mixed(); s.Types[0].WritesPerTransaction = ptr(int32(3)) }, "types[0].writesPerTransaction: 3 is not between 0 and"},
		"mixes of nothing":      {func(s *v1alpha1.RMW) { s.MixPhases = []v1alpha1.RMWMix{{}} }, "mixPhases: 1 mixes of types, but there are no types"},
		"short mix":             {func(s *v1alpha1.RMW) { *s = mixed(); s.MixPhases = []v1alpha1.RMWMix{{Percents: []int32{100}}} }, "mixPhases[0].percents: 1 shares of 2 types"},
		"mix":                   {func(s *v1alpha1.RMW) { *s = mixed(); s.MixPhases = []v1alpha1.RMWMix{{Percents: []int32{50, 51}}} }, "mixPhases[0]: the shares sum to 101"},
	} {
		spec := defaults
		c.change(&spec)
		regions := 2
		if strings.Contains(name, "one region") {
			regions = 1
		}
		if spec.Types != nil {
			spec.MultiHomePercent = 0
		}
		if _, err := New(spec, 1, topology(regions, 2)); err == nil || !strings.Contains(err.Error(), "spec.workload.rmw."+c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
