package smallbank

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// The numbers of foreign single-home transactions and of dependent final phases match the manifest. The test determines
// the numbers from the transactions that the generator returns.
func TestKnobs(t *testing.T) {
	for name, spec := range map[string]v1alpha1.SmallBank{
		"foreign":                    {ForeignSingleHomePercent: 40, MultiHomePercent: 25, MultiPartitionPercent: 50},
		"dependent":                  {DependentPercent: 35, MultiHomePercent: 50, MultiPartitionPercent: 50},
		"dependent, lookups anyhome": {DependentPercent: 35, MultiHomePercent: 50, Lookups: v1alpha1.SmallBankLookupsAnyHome},
		"both":                       {DependentPercent: 100, ForeignSingleHomePercent: 100, HotPercent: 50},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Customers, spec.Mix = 20_000, paperMix
			top := topology(3, 2)
			place := top.Placement()
			c := workloadtest.Bind(t, New, spec, top, Procedures())
			if spec.ForeignSingleHomePercent > 0 || spec.Lookups != "" {
				c.AnyHome = "foreign transactions are asked for"
			}
			single, foreign, dependents, finals, abroad := 0, 0, 0, 0, 0
			workloadtest.Shares(t, c, 10_000, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
				if tx.Proc == procLookup {
					return
				}
				finals++
				if tx.Proc >= procBalanceByName {
					dependents++
					// The names that a dependent transaction reads have the same home as its accounts. This is the client's home,
					// unless the transaction is foreign.
					if place.Home(tx.Accesses[0].Key) != region {
						abroad++
					}
					return
				}
				if !r.Class.MultiHome() {
					single++
					if place.Home(tx.Accesses[0].Key) != region {
						foreign++
					}
				}
			})
			workloadtest.NearShare(t, "dependent", dependents, finals, float64(spec.DependentPercent)/100)
			if single > 0 {
				workloadtest.NearShare(t, "foreign", foreign, single, float64(spec.ForeignSingleHomePercent)/100)
			}
			if dependents > 0 {
				workloadtest.NearShare(t, "dependent and foreign", abroad, dependents, float64(spec.ForeignSingleHomePercent)/100)
			}
		})
	}
}

// Dependent transactions move money in the same way as phases do, and no money is lost.
func TestDependentSuite(t *testing.T) {
	c := workloadtest.Bind(t, New, v1alpha1.SmallBank{Customers: 1000, Mix: paperMix, MultiHomePercent: 50, MultiPartitionPercent: 50, DependentPercent: 60, PaddingBytes: 40},
		topology(3, 2), Procedures())
	workloadtest.Ledger(t, c, 5000, "amalgamate lost", "amalgamate doubled", "amalgamate invented")
	workloadtest.Streams(t, c, 1000)
}

// The arguments of every phase carry padding, and every result returns it. Padding changes nothing else.
func TestPadding(t *testing.T) {
	const padding = 250
	plain := v1alpha1.SmallBank{Customers: 1000, Mix: paperMix, MultiHomePercent: 50, MultiPartitionPercent: 50, DependentPercent: 30}
	padded := plain
	padded.PaddingBytes = padding
	type phase struct {
		Proc         txn.ProcID
		Args, Result []byte
		Ledger       workload.Interval
	}
	play := func(spec v1alpha1.SmallBank) (phases []phase) {
		s := newSmallBank(t, spec, topology(2, 2))
		db, g := loaded(t, s), s.NewGenerator(workload.GeneratorConfig{Clients: 1, Measured: time.Second})
		for i := range 2000 {
			tx := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
			g.Next(0, 0, tx)
			o := db.Run(tx)
			g.Done(0, o)
			phases = append(phases, phase{tx.Proc, tx.Args, o.Result, g.Ledger()[ledgerTotal]})
		}
		return phases
	}
	want, seen := play(plain), map[txn.ProcID]bool{}
	for i, got := range play(padded) {
		args, result := len(got.Args)-padding, len(got.Result)-padding
		if args < 0 || result < 0 {
			t.Fatalf("phase %d, procedure %d: %d bytes of arguments and %d of a result are no %d bytes of padding", i, got.Proc, len(got.Args), len(got.Result), padding)
		}
		got.Args, got.Result = got.Args[:args], got.Result[:result]
		if diff := cmp.Diff(want[i], got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("phase %d without its padding (-plain +padded):\n%s", i, diff)
		}
		seen[got.Proc] = true
	}
	if len(seen) != len(Procedures()) {
		t.Errorf("%d of %d procedures were called", len(seen), len(Procedures()))
	}
}

// Mixes follow each other over the measured time; the warm-up uses the first mix.
func TestMixPhases(t *testing.T) {
	spec := v1alpha1.SmallBank{Customers: 1000, Mix: paperMix, DependentPercent: 100, MixPhases: []v1alpha1.SmallBankMix{{Balance: 100}, {Balance: 30, Amalgamate: 70}}}
	s := newSmallBank(t, spec, topology(2, 2))
	g := s.NewGenerator(workload.GeneratorConfig{Clients: 1, Measured: 20 * time.Second})
	const each = 4000
	for part, want := range []float64{1, 1, 0.3} { // the warm-up first
		balances := 0
		for i := range each {
			elapsed := time.Duration(part-1)*10*time.Second + time.Duration(i)*10*time.Second/each
			if g.Next(0, elapsed, &txn.Transaction{}).Type == typeBalance {
				balances++
			}
			g.Done(0, txn.Outcome{Status: txn.Aborted})
		}
		workloadtest.NearShare(t, "balance", balances, each, want)
	}
	workloadtest.Near(t, s.Shares(), g.Realised())
	for kind, want := range map[string]string{"amalgamate": "", "writeCheck": "its share in spec.workload.smallbank.mixPhases is 0", "lookup": "spec.workload.smallbank.dependentPercent is 100"} {
		if got := Never(&spec, kind); got != want {
			t.Errorf("%s never runs: %q, want %q", kind, got, want)
		}
	}
}
