package workloadtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/rmw"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
	"github.com/geobench/geobench/internal/bench/workload/ycsb"
)

// failing records the failures and log messages of the code under test.
type failing struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (f *failing) Helper()                         {}
func (f *failing) Cleanup(c func())                { f.cleanups = append(f.cleanups, c) }
func (f *failing) Logf(format string, args ...any) { f.Errorf(format, args...) }
func (f *failing) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}
func (f *failing) Fatal(args ...any) {
	f.failures = append(f.failures, fmt.Sprint(args...))
	panic(f)
}
func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// failures returns the failure messages of test.
func failures(t *testing.T, test func(testing.TB)) (all string) {
	f := &failing{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(f) {
			panic(p)
		}
		for _, c := range f.cleanups {
			c()
		}
		all = strings.Join(f.failures, "\n")
	}()
	test(f)
	return
}

var top = &geo.Topology{Regions: []string{"us", "eu"}, Partitions: 2, Replicas: 1}

// broken is rmw with defective replacements of its parts.
type broken struct {
	workload.Workload
	name       func(txn.Key) string
	home       bool   // all clients are in the first region
	seed       uint64 // replaces the suite's seed unless it is 0
	rows       func(right func(geo.Cell, func(txn.Key, []byte)), c geo.Cell, put func(txn.Key, []byte))
	everywhere func(put func(txn.Key, []byte))
	generator  func(workload.Generator) workload.Generator
	stream     uint32 // stream of all generators plus 1; 0 keeps the suite's streams
	verify     func([]workload.Check) []workload.Check
	judge      func(right verifier, copies []workload.Copy, l workload.Ledger) []workload.Check
}

type verifier func([]workload.Copy, workload.Ledger) []workload.Check

func (b *broken) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	if b.rows == nil {
		b.Workload.Rows(c, put)
		return
	}
	b.rows(b.Workload.Rows, c, put)
}

func (b *broken) KeyName(k txn.Key) string {
	if b.name == nil {
		return b.Workload.KeyName(k)
	}
	return b.name(k)
}

func (b *broken) Everywhere(put func(txn.Key, []byte)) {
	if b.everywhere != nil {
		b.everywhere(put)
	}
}

func (b *broken) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	right := c
	if b.stream > 0 {
		right.Stream = b.stream - 1
	}
	if b.home {
		right.Region = 0
	}
	g := b.Workload.NewGenerator(right)
	if b.generator == nil {
		return g
	}
	g = b.generator(g)
	if l, ok := g.(*labelled); ok {
		l.stream = byte(c.Stream)
	}
	return g
}

func (b *broken) Verify(copies []workload.Copy, l workload.Ledger) []workload.Check {
	if b.judge != nil {
		return b.judge(b.Workload.Verify, copies, l)
	}
	checks := b.Workload.Verify(copies, l)
	if b.verify != nil {
		return b.verify(checks)
	}
	return checks
}

// deaf changes the outcomes that a generator receives.
type deaf struct {
	workload.Generator
	done, late func(txn.Outcome) (txn.Outcome, bool)
}

func (d *deaf) Done(client int, o txn.Outcome) {
	if d.done != nil {
		o, _ = d.done(o)
	}
	d.Generator.Done(client, o)
}

func (d *deaf) Late(o txn.Outcome) {
	if o, heard := d.late(o); heard {
		d.Generator.Late(o)
	}
}

func hears(o txn.Outcome) (txn.Outcome, bool) { return o, true }

func TestSuiteFindsWhatIsBroken(t *testing.T) {
	rows := func(t testing.TB, c *workloadtest.Case) { workloadtest.Rows(t, c) }
	shares := func(t testing.TB, c *workloadtest.Case) { workloadtest.Shares(t, c, 2000, nil) }
	ledger := func(t testing.TB, c *workloadtest.Case) { workloadtest.Ledger(t, c, 200) }
	streams := func(t testing.TB, c *workloadtest.Case) { workloadtest.Streams(t, c, 100) }
	invariants := func(t testing.TB, c *workloadtest.Case) { workloadtest.Invariants(t, c, 100, "t0 altered at its end") }
	loads := 0
	for name, c := range map[string]struct {
		test func(testing.TB, *workloadtest.Case)
		with broken
		want string
	}{
		"nothing in the streams":    {streams, broken{}, ""},
		"nothing in the invariants": {invariants, broken{}, ""},
		"rows that nobody counts": {invariants, broken{judge: func(right verifier, copies []workload.Copy, l workload.Ledger) []workload.Check {
			return slices.DeleteFunc(right(copies, l), func(c workload.Check) bool { return c.Name == "rmw-records" })
		}}, "after loading: t0 deleted (record(2000)) in one of 1 copies is not noticed"},
		"checks of the first copy alone": {invariants, broken{judge: func(right verifier, copies []workload.Copy, l workload.Ledger) []workload.Check {
			return right(copies[:min(1, len(copies))], l)
		}}, "t0 deleted (record(2000)) in one of 2 copies is not noticed"},
		"checks that pass without copies": {invariants, broken{judge: func(right verifier, copies []workload.Copy, l workload.Ledger) []workload.Check {
			checks := right(copies, l)
			checks[0].Passed = checks[0].Passed || len(copies) == 0
			return checks
		}}, "the check rmw-writes passes without any copy"},
		"checks that look at the ledger's names": {invariants, broken{judge: func(right verifier, copies []workload.Copy, l workload.Ledger) []workload.Check {
			if len(l) == 0 && len(copies) == 1 {
				return nil
			}
			return right(copies, l)
		}}, "after loading: t0 added"},
		"checks of one name": {invariants, broken{verify: func(checks []workload.Check) []workload.Check {
			return append(checks, checks[0])
		}}, "two checks are called rmw-writes"},
		"other rows that nobody can notice": {func(t testing.TB, c *workloadtest.Case) {
			workloadtest.Invariants(t, c, 100, "t0 altered at its end", "t0 deleted", "t1 added")
		}, broken{}, "t0 deleted is noticed, though it is said not to be\nworkload rmw: t1 added cannot happen"},
		"nothing in the rows":   {rows, broken{}, ""},
		"nothing in the shares": {shares, broken{}, ""},
		"nothing in the ledger": {ledger, broken{}, ""},
		"a row of another cell": {rows, broken{rows: func(right func(geo.Cell, func(txn.Key, []byte)), c geo.Cell, put func(txn.Key, []byte)) {
			c.Home = 1 - c.Home
			right(c, put)
		}}, "workload rmw: Rows(us/0) put a row of eu/0: record(2)"},
		"a row that is everywhere": {rows, broken{rows: func(_ func(geo.Cell, func(txn.Key, []byte)), _ geo.Cell, put func(txn.Key, []byte)) {
			put(txn.EverywhereKey(3, []byte("x")), nil)
		}}, "which is everywhere: leave it to Everywhere"},
		"a row with a place": {rows, broken{everywhere: func(put func(txn.Key, []byte)) { put(txn.IntKey(0, 5), nil) }},
			"Everywhere put record(5), which has a place"},
		"a row that is loaded twice": {rows, broken{rows: func(right func(geo.Cell, func(txn.Key, []byte)), c geo.Cell, put func(txn.Key, []byte)) {
			right(c, put)
			right(c, put)
		}}, "record(0) is loaded twice"},
		"a row that depends on what was loaded before": {rows, broken{rows: func(right func(geo.Cell, func(txn.Key, []byte)), c geo.Cell, put func(txn.Key, []byte)) {
			right(c, func(k txn.Key, v []byte) {
				loads++
				v[8] = byte(loads)
				put(k, v)
			})
		}}, "when its cell is loaded alone"},
		"one name for all rows":    {rows, broken{name: func(txn.Key) string { return "record" }}, " and another row \"record\""},
		"rows without a name":      {rows, broken{name: func(txn.Key) string { return "" }}, "KeyName has no name for t0/"},
		"a name that is not there": {rows, broken{name: func(k txn.Key) string { return string(k[9:12]) }}, " panics: runtime error"},
		"a share that is not realised": {shares, broken{generator: func(g workload.Generator) workload.Generator { return half{g} }},
			"multi-home: "},
		"shares that nobody counts": {shares, broken{generator: func(g workload.Generator) workload.Generator { return mute{g} }},
			"workload rmw: Realised counts nothing"},
		"a share too many": {shares, broken{generator: func(g workload.Generator) workload.Generator { return wide{g} }},
			"workload rmw: Realised counts 3 shares of the mix, Shares has 2"},
		"a warm-up that counts": {shares, broken{generator: func(g workload.Generator) workload.Generator { return eager{g} }},
			"the warm-up counts for the share multi-home"},
		"arguments in used memory": {shares, broken{generator: func(g workload.Generator) workload.Generator { return &thrifty{Generator: g, args: true} }},
			"rmw: the generator has changed the arguments of an earlier transaction"},
		"a footprint in used memory": {ledger, broken{generator: func(g workload.Generator) workload.Generator { return &thrifty{Generator: g, accesses: true} }},
			"rmw: the generator has changed the footprint of an earlier transaction"},
		"another class":            {shares, broken{generator: func(g workload.Generator) workload.Generator { return modest{g} }}, "its accesses have"},
		"one stream":               {shares, broken{stream: 1}, "another stream makes 100 of the first 100 transactions alike"},
		"one seed of rows":         {rows, broken{seed: 3}, "another seed loads the same rows"},
		"one seed of transactions": {shares, broken{seed: 3}, "another seed makes 100 of the first 100 transactions alike"},
		"a stream that is in numbers alone": {shares, broken{stream: 1, generator: func(g workload.Generator) workload.Generator {
			return &labelled{Generator: g}
		}}, "another stream makes 90 of the first 100 transactions alike"},
		"clients of one region": {shares, broken{home: true}, "clients of eu work on the data of us in 1"},
		"clients of one region, on purpose": {func(t testing.TB, c *workloadtest.Case) {
			c.AnyHome = "all clients are students"
			shares(t, c)
		}, broken{home: true}, ""},
		"clients of no region, without need": {func(t testing.TB, c *workloadtest.Case) {
			c.AnyHome = "all clients are students"
			shares(t, c)
		}, broken{}, "all single-home transactions are on the data of their client's region, though Case.AnyHome says that they are not"},
		"the same on purpose": {func(t testing.TB, c *workloadtest.Case) {
			c.SameRows, c.SameTransactions = "each is different", "there is one"
			workloadtest.Rows(t, c)
			workloadtest.Shares(t, c, 2000, nil)
		}, broken{seed: 3, stream: 1}, ""},
		"the same without need": {func(t testing.TB, c *workloadtest.Case) {
			c.SameRows, c.SameTransactions = "each is different", "there is one"
			workloadtest.Rows(t, c)
			workloadtest.Shares(t, c, 2000, nil)
		}, broken{}, "though Case.SameRows says that it does not\nworkload rmw: other seeds and streams make other transactions"},
		"an unknown outcome that counts as committed": {ledger, broken{generator: func(g workload.Generator) workload.Generator {
			return &deaf{g, func(o txn.Outcome) (txn.Outcome, bool) {
				if o.Status == txn.Unknown {
					o.Status = txn.Committed
				}
				return o, true
			}, hears}
		}}, "while outcomes are unknown: [rmw-writes: "},
		"an unknown outcome that counts as aborted": {ledger, broken{generator: func(g workload.Generator) workload.Generator {
			return &deaf{g, func(o txn.Outcome) (txn.Outcome, bool) {
				if o.Status == txn.Unknown {
					o.Status = txn.Aborted
				}
				return o, true
			}, hears}
		}}, "while outcomes are unknown: [rmw-writes: "},
		"late outcomes that nobody hears": {ledger, broken{generator: func(g workload.Generator) workload.Generator {
			return &deaf{g, nil, func(o txn.Outcome) (txn.Outcome, bool) { return o, false }}
		}}, "is not exact, though all outcomes are known"},
		"checks that always pass": {ledger, broken{verify: func(checks []workload.Check) []workload.Check {
			for i := range checks {
				checks[i].Passed = true
			}
			return checks
		}}, "rmw torn, with a late outcome is not noticed"},
		"checks that say nothing": {ledger, broken{verify: func(checks []workload.Check) []workload.Check {
			for i := range checks {
				checks[i].Message = ""
			}
			return checks
		}}, "does not say what is wrong"},
		"blindness that is none": {func(t testing.TB, c *workloadtest.Case) { workloadtest.Ledger(t, c, 200, "rmw lost") }, broken{},
			"rmw lost is noticed, though it is said not to be: [rmw-writes: "},
		"blindness of nothing": {func(t testing.TB, c *workloadtest.Case) { workloadtest.Ledger(t, c, 200, "rmw forgotten") }, broken{},
			"rmw forgotten cannot happen"},
	} {
		t.Run(name, func(t *testing.T) {
			suite := workloadtest.Bind(t, rmw.New, v1alpha1.RMW{Records: 4000, RecordsPerTransaction: 4, WritesPerTransaction: 2, ValueBytes: 16,
				MultiHomePercent: 30, HomesPerMultiHome: 2}, top, rmw.Procedures())
			right := suite.New
			suite.New = func(seed uint64) workload.Workload {
				b := c.with
				if b.seed > 0 {
					seed = b.seed
				}
				b.Workload = right(seed)
				return &b
			}
			got := failures(t, func(t testing.TB) { c.test(t, suite) })
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("failures: %q, want %q", got, c.want)
			}
		})
	}
}

// half counts only every second multi-home transaction.
type half struct{ workload.Generator }

func (h half) Realised() []workload.Count {
	counts := append([]workload.Count{}, h.Generator.Realised()...)
	counts[0].Hits /= 2
	return counts
}

// mute counts nothing.
type mute struct{ workload.Generator }

func (m mute) Realised() []workload.Count { return make([]workload.Count, len(m.Generator.Realised())) }

// wide reports an additional share.
type wide struct{ workload.Generator }

func (w wide) Realised() []workload.Count { return append(w.Generator.Realised(), workload.Count{}) }

// eager also counts the warm-up.
type eager struct{ workload.Generator }

func (e eager) Realised() []workload.Count {
	counts := append([]workload.Count{}, e.Generator.Realised()...)
	counts[0].Of++
	return counts
}

// thrifty reuses the memory of the previous transaction.
type thrifty struct {
	workload.Generator
	args, accesses bool
	last           txn.Transaction
}

func (g *thrifty) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	r := g.Generator.Next(client, elapsed, t)
	if g.args {
		t.Args = append(g.last.Args[:0], t.Args...)
	}
	if g.accesses {
		t.Accesses = append(g.last.Accesses[:0], t.Accesses...)
	}
	g.last = *t
	return r
}

// labelled writes its stream number at the end of every tenth transaction's arguments, as part of the payload.
type labelled struct {
	workload.Generator
	stream byte
	n      int
}

func (g *labelled) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	r := g.Generator.Next(client, elapsed, t)
	if g.n++; g.n%10 == 0 {
		t.Args[len(t.Args)-1] = g.stream
	}
	return r
}

// modest reports every transaction as local.
type modest struct{ workload.Generator }

func (m modest) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	r := m.Generator.Next(client, elapsed, t)
	r.Class = txn.SingleHomeSinglePartition
	return r
}

func TestNearShare(t *testing.T) {
	for name, c := range map[string]struct {
		hits, n int
		p       float64
		want    string
	}{
		"exact":           {250, 1000, 0.25, ""},
		"by chance":       {300, 1000, 0.25, ""}, // The standard deviation is 13.7 hits.
		"too many":        {310, 1000, 0.25, "hits: 310 of 1000 are 0.3100, want 0.2500"},
		"too few":         {190, 1000, 0.25, "hits: 190 of 1000 are 0.1900, want 0.2500"},
		"all":             {1000, 1000, 1, ""},
		"all but one":     {999, 1000, 1, "hits: 999 of 1000 are 0.9990, want 1.0000"},
		"nothing counted": {0, 0, 0.25, "hits: 0 of 0 are "},
	} {
		got := failures(t, func(t testing.TB) { workloadtest.NearShare(t, "hits", c.hits, c.n, c.p) })
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: failures %q, want %q", name, got, c.want)
		}
	}
}

// If a footprint is only a hint, the class of the transaction depends on the rows that it accesses.
func TestClassOfHints(t *testing.T) {
	keys := []txn.Key{txn.IntKey(0, 0), txn.IntKey(0, 1), txn.IntKey(0, 2)} // us/0, us/1, eu/0
	p := &txn.Procedure{ID: 1, Name: "hinted", Declare: func([]byte, *txn.Footprint) error { return nil }, Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		for _, i := range args[1:] {
			if _, err := c.Get(keys[i]); err != nil {
				return nil, err
			}
		}
		if args[0] == 1 {
			return nil, txn.Abort("enough")
		}
		return nil, nil
	}}
	w, err := rmw.New(v1alpha1.RMW{Records: 4000, RecordsPerTransaction: 1, ValueBytes: 16}, 1, top)
	if err != nil {
		t.Fatal(err)
	}
	d := workloadtest.New(t, p).Load(w, top)
	for args, want := range map[string]txn.Class{
		"\x00\x00": txn.ClassOf(false, false), "\x00\x00\x01": txn.ClassOf(false, true), "\x00\x00\x02": txn.ClassOf(true, false),
		"\x01\x00\x01\x02": txn.ClassOf(true, true),
	} {
		if o := d.Run(&txn.Transaction{ID: 1, Proc: 1, Args: []byte(args)}); o.Class != want {
			t.Errorf("%x: class %v, want %v", args, o.Class, want)
		}
	}
}

// The suite reports a footprint that names rows which the procedure does not access. The results are correct, but the
// footprint costs locks and round trips.
func TestSharesFindsWhatIsDeclaredInVain(t *testing.T) {
	group := txn.Prefix(txn.OrderedKey(3, 0, nil, nil))
	for name, c := range map[string]struct {
		also      func(*txn.Footprint)
		untouched map[string]string
		want      string
	}{
		"nothing":        {func(*txn.Footprint) {}, nil, ""},
		"a read":         {func(f *txn.Footprint) { f.Add(txn.IntKey(1, 0), txn.Read) }, nil, "rmw: read of t1 is declared by exact footprints, and was not done 840 times"},
		"a write":        {func(f *txn.Footprint) { f.Add(txn.IntKey(1, 0), txn.Write) }, nil, "rmw: write of t1 is declared"},
		"another mode":   {func(f *txn.Footprint) { f.Accesses[3].Mode = txn.ReadWrite }, nil, "rmw: write of t0 is declared"},
		"a scan":         {func(f *txn.Footprint) { f.AddScan(group) }, nil, "rmw: scan of t3 is declared"},
		"a group":        {func(f *txn.Footprint) { f.Add(group.From, txn.Write) }, nil, "rmw: write of t3 is declared"},
		"a row of one":   {func(f *txn.Footprint) { f.Add(group.From+"x", txn.Read) }, nil, "rmw: read of t3 is declared"},
		"with a reason":  {func(f *txn.Footprint) { f.AddScan(group) }, map[string]string{"rmw: scan of t3": "to see it"}, ""},
		"without need":   {func(*txn.Footprint) {}, map[string]string{"rmw: scan of t3": "to see it"}, "rmw: scan of t3 is always done"},
		"of another row": {func(f *txn.Footprint) { f.AddScan(group) }, map[string]string{"rmw: scan of t2": "to see it"}, "rmw: scan of t3 is declared"},
	} {
		suite := workloadtest.Bind(t, rmw.New, v1alpha1.RMW{Records: 4000, RecordsPerTransaction: 4, WritesPerTransaction: 2, ValueBytes: 16},
			&geo.Topology{Regions: []string{"us"}, Partitions: 1, Replicas: 1}, nil)
		p := *rmw.Procedures()[0]
		right := p.Declare
		p.Declare = func(args []byte, f *txn.Footprint) error {
			defer c.also(f)
			return right(args, f)
		}
		suite.Procedures, suite.Untouched = []*txn.Procedure{&p}, c.untouched
		got := failures(t, func(t testing.TB) { workloadtest.Shares(t, suite, 800, nil) })
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: failures: %q, want %q", name, got, c.want)
		}
	}
}

// An error that all transactions make is reported once, with the workload's row names.
func TestMistakesAreReportedOnce(t *testing.T) {
	suite := workloadtest.Bind(t, rmw.New, v1alpha1.RMW{Records: 4000, RecordsPerTransaction: 4, WritesPerTransaction: 2, ValueBytes: 16}, top, nil)
	p := *rmw.Procedures()[0]
	run := p.Run
	p.Run = func(c txn.Ctx, args []byte) ([]byte, error) {
		if _, err := c.Get(txn.IntKey(0, 3999)); err != nil {
			return nil, err
		}
		return run(c, args)
	}
	suite.Procedures = []*txn.Procedure{&p}
	const wrong = "the procedure reads record(3999), which its footprint does not name although it is said to be exact: add it in Declare, or leave Exact false"
	const want = "rmw: " + wrong + "\nrmw: 3352 mistakes are like this one: " + wrong // in two runs of each transaction
	if got := failures(t, func(t testing.TB) { workloadtest.Shares(t, suite, 800, nil) }); got != want {
		t.Errorf("failures: %.1000q, want %q", got, want)
	}
}

// KeyName is also called with keys of groups.
func TestRowsNamesGroups(t *testing.T) {
	suite := workloadtest.Bind(t, ycsb.New, v1alpha1.YCSB{Records: 400, FieldCount: 1, FieldBytes: 8, OperationsPerTransaction: 1, MaxScanRecords: 5,
		Mix: &v1alpha1.YCSBMix{Scan: 100}, Distribution: v1alpha1.YCSBUniform}, top, ycsb.Procedures())
	right := suite.New
	for name, want := range map[string]string{"": "", "rows alone": "/[]) panics: there is no row"} {
		suite.New = func(seed uint64) workload.Workload {
			w := right(seed)
			return &broken{Workload: w, name: func(k txn.Key) string {
				if name != "" && k == k.Unit() {
					panic("there is no row")
				}
				return w.KeyName(k)
			}}
		}
		if got := failures(t, func(t testing.TB) { workloadtest.Rows(t, suite) }); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: failures: %q, want %q", name, got, want)
		}
	}
}

// The suite detects two streams that insert the same records, although each stream is correct alone.
func TestStreamsFindsCollisions(t *testing.T) {
	suite := workloadtest.Bind(t, ycsb.New, v1alpha1.YCSB{Records: 400, FieldCount: 1, FieldBytes: 8, OperationsPerTransaction: 1,
		Mix: &v1alpha1.YCSBMix{Read: 50, Insert: 50}, Distribution: v1alpha1.YCSBUniform}, top, ycsb.Procedures())
	right := suite.New
	for stream, want := range []string{"", "two streams in each region: [ycsb-records: "} {
		suite.New = func(seed uint64) workload.Workload { return &broken{Workload: right(seed), stream: uint32(stream)} }
		if got := failures(t, func(t testing.TB) { workloadtest.Streams(t, suite, 100) }); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("failures: %q, want %q", got, want)
		}
	}
}
