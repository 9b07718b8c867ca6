package smallbank

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:regions], Partitions: partitions, Replicas: 1}
}

var paperMix = v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5}

func newSmallBank(t *testing.T, spec v1alpha1.SmallBank, top *geo.Topology) *SmallBank {
	t.Helper()
	if spec.Mix == (v1alpha1.SmallBankMix{}) {
		spec.Mix = paperMix
	}
	s, err := New(spec, 7, top)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func loaded(t *testing.T, s *SmallBank) *workloadtest.Database {
	return workloadtest.New(t, Procedures()...).Load(s, s.topology)
}

func args(id1, id2 uint64, amount ...int64) []byte {
	b := appendArgs(nil, id1, id2)
	for _, a := range amount {
		b = append(b, encodeAmount(a)...)
	}
	return b
}

func TestProcedures(t *testing.T) {
	type accounts map[txn.Key]int64
	checking := func(id uint64) txn.Key { return txn.IntKey(tableChecking, id) }
	savings := func(id uint64) txn.Key { return txn.IntKey(tableSavings, id) }
	start := accounts{checking(1): 100, savings(1): 20, checking(2): 7, savings(2): 3}
	for name, c := range map[string]struct {
		proc   *txn.Procedure
		args   []byte
		result []byte
		change accounts
		abort  txn.Abort
	}{
		"balance reads both":                     {balance, args(1, 1), encodeAmount(120), nil, ""},
		"balance over two customers":             {balance, args(1, 2), encodeAmount(103), nil, ""},
		"balance of a stranger":                  {balance, args(1, 9), nil, nil, abortNoAccount},
		"depositChecking":                        {depositChecking, args(1, 2, 5), nil, accounts{checking(1): 105}, ""},
		"transactSavings deposits":               {transactSavings, args(1, 2, 5), nil, accounts{savings(2): 8}, ""},
		"transactSavings withdraws below zero":   {transactSavings, args(1, 2, -5), nil, accounts{savings(2): -2}, ""},
		"writeCheck that is covered":             {writeCheck, args(1, 1, 119), encodeAmount(-119), accounts{checking(1): -19}, ""},
		"writeCheck that is just covered":        {writeCheck, args(1, 1, 120), encodeAmount(-120), accounts{checking(1): -20}, ""},
		"writeCheck with a penalty of 1":         {writeCheck, args(1, 1, 121), encodeAmount(-122), accounts{checking(1): -22}, ""},
		"writeCheck looks at id2's savings":      {writeCheck, args(1, 2, 104), encodeAmount(-105), accounts{checking(1): -5}, ""},
		"amalgamate empties the first customer":  {amalgamate, args(1, 2), nil, accounts{checking(1): 0, savings(1): 0, checking(2): 127}, ""},
		"amalgamate leaves the second's savings": {amalgamate, args(2, 1), nil, accounts{checking(2): 0, savings(2): 0, checking(1): 110}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := workloadtest.New(t, Procedures()...)
			want := accounts{}
			for k, v := range start {
				d.Hash.Load(k, encodeAmount(v))
				want[k] = v
			}
			for k, v := range c.change {
				want[k] = v
			}
			tx := &txn.Transaction{ID: 1}
			c.proc.Call(tx, c.args)
			o := d.Run(tx)
			if o.Reason != string(c.abort) || string(o.Result) != string(c.result) {
				t.Errorf("result %x, abort %q; want %x, %q", o.Result, o.Reason, c.result, c.abort)
			}
			got := accounts{}
			d.Rows().Each(func(k txn.Key, value []byte) { got[k], _ = decodeAmount(value) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBadArguments(t *testing.T) {
	for _, p := range Procedures() {
		for n := range 40 {
			b := make([]byte, n)
			if n > 0 {
				b[n-1] = 1
			}
			var footprint txn.Footprint
			if p.Declare(b, &footprint) != nil {
				continue
			}
			for _, a := range footprint.Accesses {
				if !a.Key.Valid() {
					t.Errorf("%s: %d bytes give the invalid key %v", p.Name, n, a.Key)
				}
			}
		}
	}
	if amalgamate.Declare(args(3, 3), &txn.Footprint{}) == nil {
		t.Error("amalgamate takes one customer twice: a key would occur twice in its write set")
	}
}

func TestRows(t *testing.T) {
	top := topology(2, 2)
	s := newSmallBank(t, v1alpha1.SmallBank{Customers: 1000}, top)
	rows := 0
	loaded(t, s).Each(func(k txn.Key, r store.Record) {
		rows++
		if n, ok := decodeAmount(r.Value); k.Table() != tableAccount && (!ok || n < 1 || n > maxInitial) {
			t.Errorf("%v has the balance %d", k, n)
		}
	})
	if rows != 3000 {
		t.Errorf("%d rows, want 3000", rows)
	}
	if k := nameKey(17); string(k[1:]) != "Client17                " {
		t.Errorf("the key of customer 17 is %v", k)
	}
}

func TestSuite(t *testing.T) {
	c := workloadtest.Bind(t, New, v1alpha1.SmallBank{Customers: 1000, Mix: paperMix, MultiHomePercent: 50, MultiPartitionPercent: 50, HotPercent: 50},
		topology(2, 2), Procedures())
	workloadtest.Rows(t, c)
	// Amalgamate moves money without changing the total.
	workloadtest.Ledger(t, c, 5000, "amalgamate lost", "amalgamate doubled", "amalgamate invented")
	workloadtest.Streams(t, c, 1000)
	workloadtest.Invariants(t, c, 1000)
}

func TestInitialBalances(t *testing.T) {
	var sum float64
	const n = 100_000
	for id := range uint64(n) {
		sum += float64(initialBalance(3, tableSavings, id))
	}
	// The mean of n draws from 1..10000: 5000.5, with standard deviation 2887 / sqrt(n).
	if mean := sum / n; math.Abs(mean-5000.5) > 4*2887/math.Sqrt(n) {
		t.Errorf("the mean initial balance is %.1f", mean)
	}
}

func TestGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		mh, mp, hot         int32
	}{
		"paper":            {2, 2, 25, 25, 0},
		"single":           {1, 1, 0, 0, 0},
		"single home":      {3, 2, 0, 50, 0},
		"all multi":        {2, 2, 100, 100, 0},
		"eight regions":    {8, 4, 30, 60, 0},
		"hot":              {2, 2, 40, 10, 80},
		"multi home alone": {3, 1, 70, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			top := topology(c.regions, c.partitions)
			place := top.Placement()
			spec := v1alpha1.SmallBank{Customers: 20_000, Mix: paperMix, MultiHomePercent: c.mh, MultiPartitionPercent: c.mp, HotPercent: c.hot}
			var types [numTypes]int
			finals, mh, all := 0, 0, 0
			others := map[geo.Region]int{} // second homes, relative to the first home
			workloadtest.Shares(t, workloadtest.Bind(t, New, spec, top, Procedures()), 40_000/c.regions, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
				all++
				types[r.Type]++
				if home := place.Home(tx.Accesses[0].Key); home != region && r.Type != typeTransactSavings {
					t.Fatalf("%s starts at home %d, the client is in %d", typeNames[r.Type], home, region)
				}
				if r.Type == typeLookup {
					if r.Class != txn.SingleHomeSinglePartition {
						t.Fatalf("a lookup has class %v", r.Class)
					}
					return
				}
				finals++
				if r.Class.MultiHome() {
					mh++
					others[(place.Home(tx.Accesses[len(tx.Accesses)-1].Key)-region+geo.Region(c.regions))%geo.Region(c.regions)]++
				}
				if r.Class == txn.SingleHomeSinglePartition && r.Type != typeAmalgamate && argID1(tx.Args) != argID2(tx.Args) {
					t.Fatalf("a local %s works on two customers", typeNames[r.Type])
				}
			})
			for kind, share := range map[int]int32{typeBalance: 40, typeWriteCheck: 25, typeDepositChecking: 15, typeTransactSavings: 15, typeAmalgamate: 5} {
				workloadtest.NearShare(t, typeNames[kind], types[kind], finals, float64(share)/100)
			}
			workloadtest.NearShare(t, "final", finals, all, 1/2.05)
			for r, n := range others {
				workloadtest.NearShare(t, fmt.Sprintf("second home %d regions on", r), n, mh, 1/float64(c.regions-1))
			}
		})
	}
}

// With lookups at any home, the customers of multi-home transactions are in any region. With two regions, half of the
// lookups of multi-home transactions therefore leave the region. Lookups of single-home transactions stay local.
func TestLookupsAtAnyHome(t *testing.T) {
	top := topology(2, 2)
	place := top.Placement()
	for _, multiHome := range []int32{0, 40, 100} {
		spec := v1alpha1.SmallBank{Customers: 20_000, Mix: paperMix, MultiHomePercent: multiHome, MultiPartitionPercent: 50, Lookups: v1alpha1.SmallBankLookupsAnyHome}
		finals, multi, lookups, remote := 0, 0, 0, 0
		c := workloadtest.Bind(t, New, spec, top, Procedures())
		if multiHome > 0 {
			c.AnyHome = "lookups of multi-home transactions are remote as well"
		}
		workloadtest.Shares(t, c, 20_000, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
			if r.Type == typeLookup {
				lookups++
				if place.Home(tx.Accesses[0].Key) != region {
					remote++
				}
				return
			}
			finals++
			if r.Class.MultiHome() {
				multi++
			} else if place.Home(tx.Accesses[0].Key) != region {
				t.Fatalf("a single-home %s works elsewhere", typeNames[r.Type])
			}
		})
		workloadtest.NearShare(t, "multi-home", multi, finals, float64(multiHome)/100)
		workloadtest.NearShare(t, "remote lookups", remote, lookups, float64(multiHome)/200)
	}
}

func TestSunflower(t *testing.T) {
	top := topology(3, 1)
	s := newSmallBank(t, v1alpha1.SmallBank{Customers: 10_000, Mix: v1alpha1.SmallBankMix{Balance: 100}, Sunflower: []v1alpha1.SunflowerTarget{
		{Region: "a", HitPercent: 30}, {Region: "c", HitPercent: 100}, {Region: "b", HitPercent: 50}}}, top)
	const n, minute = 30_000, time.Minute
	g := s.NewGenerator(workload.GeneratorConfig{Region: 1, Clients: 1, Stream: 2, Measured: 3 * minute})
	// Ten seconds of warm-up, three minutes of measuring, and stragglers after the end.
	elapsed := func(i int) time.Duration { return -10*time.Second + time.Duration(i)*200*time.Second/n }
	var hits [3][3]int
	var count [3]int
	d := loaded(t, s)
	for i := range n {
		entry := max(0, min(2, int(elapsed(i)/minute)))
		d.Play(g, 1, 1, elapsed(i), func(tx *txn.Transaction, r workload.Request) {
			if r.Type == typeLookup {
				hits[entry][top.Placement().Home(tx.Accesses[0].Key)]++
				count[entry]++
			}
		})
	}
	for entry, want := range [3][3]float64{{0.3, 0.7, 0}, {0, 0, 1}, {0, 1, 0}} {
		for region, p := range want {
			workloadtest.NearShare(t, "entry "+top.Regions[entry]+", region "+top.Regions[region], hits[entry][region], count[entry], p)
		}
	}
}

func TestSkew(t *testing.T) {
	top := topology(1, 1)
	skewed := v1alpha1.SmallBankHotSkew("")
	busiest := func(hot int32) float64 {
		s := newSmallBank(t, v1alpha1.SmallBank{Customers: 8191, HotPercent: hot, HotSkew: skewed, Mix: v1alpha1.SmallBankMix{Balance: 100}}, top)
		g := s.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: 1})
		count := map[txn.Key]int{}
		const n = 100_000
		loaded(t, s).Play(g, 1, n, 0, func(tx *txn.Transaction, r workload.Request) {
			if r.Type == typeLookup {
				count[tx.Accesses[0].Key]++
			}
		})
		most := 0
		for _, c := range count {
			most = max(most, c)
		}
		return float64(most) / (n / 2) * 8191
	}
	// In NURand with A = 1023, the bits of A are all set with probability (3/4)^10. The hottest 8 customers
	// therefore have 2^10 (3/4)^10 = 57.7 times their share each.
	if x := busiest(0); x > 5 {
		t.Errorf("uniform: the busiest customer has %.1f times its share", x)
	}
	if x := busiest(100); x < 40 || x > 80 {
		t.Errorf("hot: the busiest customer has %.1f times its share, want about 58", x)
	}
	if a, b := busiest(50), busiest(100); a > 0.7*b {
		t.Errorf("hotPercent 50 gives %.1f, 100 gives %.1f", a, b)
	}
	// NURand with A = 8191 is the or of two uniform numbers of 13 bits. The customer with all bits set has 2^13
	// (3/4)^13 = 194.6 times its share. With A = 1% of the customers, 81, the lowest bits are more often set.
	skewed = v1alpha1.SmallBankHotSkewRange
	if x := busiest(0); x > 5 {
		t.Errorf("range 0: the busiest customer has %.1f times its share", x)
	}
	if x := busiest(100); x < 150 || x > 240 {
		t.Errorf("range 100: the busiest customer has %.1f times its share, want about 195", x)
	}
	if x := busiest(1); x < 5 || x > 60 {
		t.Errorf("range 1: the busiest customer has %.1f times its share", x)
	}
}

// The message of the check reports how much money appeared.
func TestMessages(t *testing.T) {
	s := newSmallBank(t, v1alpha1.SmallBank{Customers: 200}, topology(1, 1))
	st := loaded(t, s)
	k := txn.IntKey(tableChecking, 1)
	v, _ := st.Get(k)
	n, _ := decodeAmount(v.Value)
	st.Put(k, encodeAmount(n+1), 1)
	failed := st.Verify(s, workload.Ledger{})
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "smallbank-total: a holds") || !strings.Contains(failed[0], "(+1)") {
		t.Errorf("money from nowhere: %v", failed)
	}
}

func TestWrongLookup(t *testing.T) {
	top := topology(1, 1)
	s := newSmallBank(t, v1alpha1.SmallBank{Customers: 10}, top)
	g := s.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: 1})
	tx := &txn.Transaction{ID: 1}
	g.Next(0, 0, tx)
	g.Done(0, txn.Outcome{ID: 1, Status: txn.Committed, Result: encodeAmount(1 << 40)})
	failed := false
	for _, c := range s.Verify(workloadtest.Copies(s.Audit(loaded(t, s).Rows())), g.Ledger()) {
		failed = failed || c.Name == "smallbank-lookup" && !c.Passed
	}
	if !failed {
		t.Error("a lookup with a wrong answer passes")
	}
}

func TestNewRefuses(t *testing.T) {
	good := v1alpha1.SmallBank{Customers: 1000, Mix: paperMix}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.SmallBank)
		regions int
		want    string
	}{
		"mix":               {func(s *v1alpha1.SmallBank) { s.Mix.Balance = 41 }, 2, "mix: the shares sum to 101"},
		"no customer":       {func(s *v1alpha1.SmallBank) { s.Customers = 0 }, 2, "customers: 0 is not"},
		"too few customers": {func(s *v1alpha1.SmallBank) { s.Customers = 3 }, 2, "customers: 3 customers leave"},
		"multi-home alone":  {func(s *v1alpha1.SmallBank) { s.MultiHomePercent = 1 }, 1, "multiHomePercent: 1 needs two regions"},
		"sunflower region":  {func(s *v1alpha1.SmallBank) { s.Sunflower = []v1alpha1.SunflowerTarget{{Region: "x"}} }, 2, `sunflower[0].region: "x" is not one of [a b]`},
		"padding":           {func(s *v1alpha1.SmallBank) { s.PaddingBytes = -1 }, 2, "paddingBytes: -1 is not between 0 and 10000 (bytes)"},
		"hot skew":          {func(s *v1alpha1.SmallBank) { s.HotSkew = "Rank" }, 2, `hotSkew: "Rank" is not one of [Share Range]`},
		"mix of a phase":    {func(s *v1alpha1.SmallBank) { s.MixPhases = []v1alpha1.SmallBankMix{paperMix, {Balance: 9}} }, 2, "mixPhases[1]: the shares sum to 9"},
		"dependent":         {func(s *v1alpha1.SmallBank) { s.DependentPercent = 101 }, 2, "dependentPercent: 101 is not between 0 and 100"},
		"foreign alone":     {func(s *v1alpha1.SmallBank) { s.ForeignSingleHomePercent = 1 }, 1, "foreignSingleHomePercent: 1 needs two regions"},
		"foreign sunflower": {func(s *v1alpha1.SmallBank) {
			s.ForeignSingleHomePercent, s.Sunflower = 1, []v1alpha1.SunflowerTarget{{Region: "a"}}
		}, 2, "foreignSingleHomePercent: 1, but sunflower says already"},
		"percent": {func(s *v1alpha1.SmallBank) { s.HotPercent = 101 }, 2, "hotPercent: 101 is not between 0 and 100"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := good
			c.change(&spec)
			if _, err := New(spec, 1, topology(c.regions, 2)); err == nil || !strings.Contains(err.Error(), "spec.workload.smallbank."+c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A sunflower can only name home regions. New rejects a region without rows.
func TestSunflowerOfARegionWithoutRows(t *testing.T) {
	top := topology(2, 2)
	top.Homes = 1
	spec := v1alpha1.SmallBank{Customers: 1000, Mix: paperMix, Sunflower: []v1alpha1.SunflowerTarget{{Region: "b"}}}
	if _, err := New(spec, 1, top); err == nil || !strings.Contains(err.Error(), "spec.workload.smallbank.sunflower[0].region: no row calls b home; take one of [a]") {
		t.Errorf("the error is %v", err)
	}
}

// TestMinimumCustomers checks that the number in the error is the smallest valid number of customers.
func TestMinimumCustomers(t *testing.T) {
	p := geo.Placement{Regions: 3, Partitions: 2}
	least := uint64(1)
	for checkCustomers(least, p, true, true) != nil {
		least++
	}
	for n := uint64(1); n < least; n++ {
		if err := checkCustomers(n, p, true, true); err == nil {
			t.Fatalf("%d customers are enough, but %d are not", n, least-1)
		}
	}
	// The generator also works with this minimum.
	s := newSmallBank(t, v1alpha1.SmallBank{Customers: int64(least), MultiHomePercent: 50, MultiPartitionPercent: 50, Mix: paperMix}, topology(3, 2))
	for r := range geo.Region(3) {
		g := s.NewGenerator(workload.GeneratorConfig{Region: r, Clients: 2, Stream: uint32(r)})
		loaded(t, s).Play(g, 2, 5000, 0, nil)
	}
}
