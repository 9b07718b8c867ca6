package workloadtest

import (
	"bytes"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Case is a workload under test with its environment.
type Case struct {
	Topology   *geo.Topology
	Procedures []*txn.Procedure
	// New returns a new instance of the workload with a seed.
	New func(seed uint64) workload.Workload
	// Untouched explains why an exact footprint may name rows that its transaction does not access, which costs engines
	// locks and round trips. The key "newOrder: read of t4" stands for rows of table 4 that the procedure newOrder
	// declares and does not read. Keys with write and scan stand for the other accesses.
	Untouched map[string]string
	// SameRows explains why the loaded rows do not depend on the seed.
	SameRows string
	// SameTransactions explains why most transactions do not depend on the seed or on the stream.
	SameTransactions string
	// AnyHome explains why single-home transactions may access data of a region other than their client's.
	AnyHome string
}

// Seeds of the suite's workloads; otherSeed is for workloads that should differ.
const (
	suiteSeed = 7
	otherSeed = 8
)

// Bind returns the case of a workload. make is the function New of the workload's package, which creates the workload
// from spec.
func Bind[S any, W workload.Workload](t testing.TB, make func(S, uint64, *geo.Topology) (W, error), spec S, top *geo.Topology,
	procedures []*txn.Procedure) *Case {
	return &Case{Topology: top, Procedures: procedures, New: func(seed uint64) workload.Workload {
		t.Helper()
		w, err := make(spec, seed, top)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}}
}

// Rows tests that cells can be loaded separately, in any order, with the same rows as when all cells are loaded
// together. Each row must be loaded once, and into its own cell. KeyName must return a unique name for each row and
// must accept groups. Rows must depend on the seed, unless Case.SameRows is set.
func Rows(t testing.TB, c *Case) {
	t.Helper()
	w := c.New(suiteSeed)
	once := New(t, c.Procedures...).Load(w, c.Topology)
	apart := store.NewHash()
	for home := len(c.Topology.Regions) - 1; home >= 0; home-- {
		for partition := c.Topology.Partitions - 1; partition >= 0; partition-- {
			if err := workload.FillCell(c.New(suiteSeed), c.Topology, geo.Cell{Home: geo.Region(home), Partition: partition}, apart.Load); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := workload.FillEverywhere(c.New(suiteSeed), apart.Load); err != nil {
		t.Fatal(err)
	}
	if once.Len() != apart.Len() {
		t.Errorf("workload %s: %d rows are loaded at once, %d cell by cell", w.Name(), once.Len(), apart.Len())
	}
	different := 0
	once.Each(func(k txn.Key, r store.Record) {
		if other, found := apart.Get(k); !found || !bytes.Equal(other.Value, r.Value) {
			if different++; different == 1 {
				t.Errorf("workload %s: %s is %x when all cells are loaded at once, and %x when its cell is loaded alone: a row must depend on "+
					"the seed and its key alone", w.Name(), w.KeyName(k), r.Value, other.Value)
			}
		}
	})
	checkNames(t, w, once.Hash)
	seeded := false
	if err := workload.FillCell(c.New(otherSeed), c.Topology, geo.Cell{}, func(k txn.Key, value []byte) {
		r, found := once.Get(k)
		seeded = seeded || !found || !bytes.Equal(r.Value, value)
	}); err != nil {
		t.Fatal(err)
	}
	switch {
	case !seeded && c.SameRows == "":
		t.Errorf("workload %s: another seed loads the same rows: draw them by the seed, or say in Case.SameRows why not", w.Name())
	case seeded && c.SameRows != "":
		t.Errorf("workload %s: another seed loads other rows, though Case.SameRows says that it does not", w.Name())
	}
}

// checkNames tests KeyName on all rows and their groups. It reports only the first mistake.
func checkNames(t testing.TB, w workload.Workload, h *store.Hash) {
	t.Helper()
	names := make(map[uint64]struct{}, h.Len()) // hashes, because there may be a million rows
	var key txn.Key
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("workload %s: KeyName(%v) panics: %v", w.Name(), key, p)
		}
	}()
	failed := false
	fail := func(format string, args ...any) {
		if !failed {
			t.Errorf("workload "+w.Name()+": "+format, args...)
		}
		failed = true
	}
	h.Each(func(k txn.Key, _ store.Record) {
		key = k
		name := w.KeyName(key)
		hash := maphash.String(hashSeed, name)
		if _, taken := names[hash]; name == "" {
			fail("KeyName has no name for %v", key)
		} else if taken {
			fail("KeyName calls %v and another row %q", key, name)
		}
		names[hash] = struct{}{}
		if key = k.Unit(); key != k && w.KeyName(key) == "" {
			fail("KeyName has no name for the group %v", key)
		}
	})
}

// Play runs n transactions of a generator's clients, one after another. If see is not nil, Play calls it for each
// transaction before the transaction runs. Play fails the test if the generator changes a transaction that it has
// returned before.
func (d *Database) Play(g workload.Generator, clients, n int, elapsed time.Duration, see func(*txn.Transaction, workload.Request)) {
	d.t.Helper()
	for i := range n {
		tx, r := d.next(g, i%clients, elapsed)
		if see != nil {
			see(tx, r)
		}
		g.Done(i%clients, d.Run(tx))
	}
	d.checkMade()
}

// checkMade checks the latest transactions of generators. Earlier transactions were checked by next.
func (d *Database) checkMade() {
	d.t.Helper()
	for i := range d.made {
		d.unchanged(&d.made[i])
	}
}

// next returns a client's next transaction.
func (d *Database) next(g workload.Generator, client int, elapsed time.Duration) (*txn.Transaction, workload.Request) {
	d.t.Helper()
	d.played++
	tx := &txn.Transaction{ID: txn.MakeID(1, d.played)}
	r := g.Next(client, elapsed, tx)
	last := &d.made[d.played%uint64(len(d.made))]
	d.unchanged(last)
	*last = made{*tx, bytes.Clone(tx.Args), slices.Clone(tx.Accesses), slices.Clone(tx.Ranges)}
	return tx, r
}

// made is a transaction as its generator returned it, with copies of the memory that the transaction refers to.
type made struct {
	tx       txn.Transaction
	args     []byte
	accesses []txn.Access
	ranges   []txn.Range
}

// unchanged checks that a transaction has not changed since its generator returned it. A database may keep the
// transaction for any length of time.
func (d *Database) unchanged(m *made) {
	d.t.Helper()
	what := ""
	switch {
	case !bytes.Equal(m.tx.Args, m.args):
		what = "arguments"
	case !slices.Equal(m.tx.Accesses, m.accesses) || !slices.Equal(m.tx.Ranges, m.ranges):
		what = "footprint"
	}
	if what != "" {
		d.fail(d.procedures.Lookup(m.tx.Proc).Name, "the generator has changed the %s of an earlier transaction: use memory once, since databases keep it", what)
	}
	*m = made{}
}

// Shares runs n transactions of the clients of each region. It tests that the realised shares match the configured
// shares within statistical bounds, and that the warm-up is not counted. A stream's transactions must depend only on
// the seed and the stream. Most transactions must depend on both, unless Case.SameTransactions is set.
//
// Requests must have a valid type and the class of their accesses. Single-home requests must access data of their
// client's region, unless Case.AnyHome is set. Exact footprints must name only rows that are accessed, except for
// Case.Untouched. The workload's checks must pass at the end.
//
// If see is not nil, Shares calls it for each transaction after the warm-up, before the transaction runs. The
// parameters are the client's region, the transaction and the generator's request. see tests properties of a single
// workload, such as how often a type reads a contended row, and fails the test itself.
func Shares(t testing.TB, c *Case, n int, see func(geo.Region, *txn.Transaction, workload.Request)) {
	t.Helper()
	const clients = 10
	w, place := c.New(suiteSeed), c.Topology.Placement()
	d := New(t, c.Procedures...).Load(w, c.Topology)
	abroad := false
	ledger, counts := workload.Ledger{}, make([]workload.Count, len(w.Shares()))
	for region := range geo.Region(len(c.Topology.Regions)) {
		config := workload.GeneratorConfig{Region: region, Clients: clients, RegionClients: clients, Stream: uint32(region), Measured: time.Hour}
		g := w.NewGenerator(config)
		if counted := len(g.Realised()); counted != len(counts) {
			t.Fatalf("workload %s: Realised counts %d shares of the mix, Shares has %d", w.Name(), counted, len(counts))
		}
		d.Play(g, clients, n/20, -time.Second, nil)
		for i, count := range g.Realised() {
			if count != (workload.Count{}) {
				t.Errorf("workload %s: the warm-up counts for the share %s: Realised is about requests with elapsed 0 or more", w.Name(), w.Shares()[i].Name)
			}
		}
		strays, home := 0, region
		d.Play(g, clients, n, 0, func(tx *txn.Transaction, r workload.Request) {
			if int(r.Type) >= len(w.Types()) {
				t.Fatalf("workload %s: a request has type %d of %d", w.Name(), r.Type, len(w.Types()))
			}
			if want := place.Class(tx.Accesses); tx.Exact && r.Class != want {
				t.Fatalf("workload %s: a request of type %s has class %v, its accesses have %v", w.Name(), w.Types()[r.Type], r.Class, want)
			}
			if len(tx.Accesses) > 0 && !place.Class(tx.Accesses).MultiHome() && place.Home(tx.Accesses[0].Key) != region {
				strays++
				home = place.Home(tx.Accesses[0].Key)
			}
			if see != nil {
				see(region, tx, r)
			}
		})
		if abroad = abroad || strays > 0; strays > 0 && c.AnyHome == "" {
			t.Errorf("workload %s: clients of %s work on the data of %s in %d of %d transactions that are single-home: take GeneratorConfig.Region, "+
				"or say in Case.AnyHome why not", w.Name(), c.Topology.Regions[region], c.Topology.Regions[home], strays, n)
		}
		for i, count := range g.Realised() {
			counts[i].Hits += count.Hits
			counts[i].Of += count.Of
		}
		ledger.Merge(g.Ledger())
	}
	checkChance(t, c, workload.GeneratorConfig{Region: geo.Region(len(c.Topology.Regions) - 1), Clients: clients, RegionClients: clients, Measured: time.Hour})
	if len(counts) > 0 && !slices.ContainsFunc(counts, func(c workload.Count) bool { return c.Of > 0 }) {
		t.Errorf("workload %s: Realised counts nothing", w.Name())
	}
	Near(t, w.Shares(), counts)
	if !abroad && c.AnyHome != "" {
		t.Errorf("workload %s: all single-home transactions are on the data of their client's region, though Case.AnyHome says that they are not", w.Name())
	}
	for _, kind := range slices.Sorted(maps.Keys(d.untouched)) {
		if c.Untouched[kind] == "" {
			t.Errorf("workload %s: %s is declared by exact footprints, and was not done %d times: do not declare it, or say in Case.Untouched why it must be",
				w.Name(), kind, d.untouched[kind])
		}
	}
	for kind := range c.Untouched {
		if d.untouched[kind] == 0 {
			t.Errorf("workload %s: %s is always done, though it is said not to be", w.Name(), kind)
		}
	}
	if failed := d.Verify(w, ledger); len(failed) > 0 {
		t.Errorf("workload %s: %v", w.Name(), failed)
	}
}

// checkChance tests that a generator's transactions depend on the seed and the stream, and on nothing else.
func checkChance(t testing.TB, c *Case, config workload.GeneratorConfig) {
	t.Helper()
	w := c.New(suiteSeed)
	first := begin(w, config)
	if !slices.EqualFunc(first, begin(c.New(suiteSeed), config), bytes.Equal) {
		t.Errorf("workload %s: a stream makes other transactions the second time", w.Name())
	}
	seed := begin(c.New(otherSeed), config)
	config.Stream += 1000
	same := false
	for what, other := range map[string][][]byte{"stream": begin(w, config), "seed": seed} {
		n := alike(first, other)
		if n <= len(first)/2 {
			continue
		}
		if same = true; c.SameTransactions == "" {
			t.Errorf("workload %s: another %s makes %d of the first %d transactions alike: draw all chance from both, or say in Case.SameTransactions why not",
				w.Name(), what, n, len(first))
		}
	}
	if !same && c.SameTransactions != "" {
		t.Errorf("workload %s: other seeds and streams make other transactions, though Case.SameTransactions says that they do not", w.Name())
	}
}

// alike returns the number of positions at which a and b are equal.
func alike(a, b [][]byte) (n int) {
	for i := range a {
		if bytes.Equal(a[i], b[i]) {
			n++
		}
	}
	return n
}

// begin returns the arguments of a generator's first 100 transactions, all of which abort.
func begin(w workload.Workload, c workload.GeneratorConfig) (first [][]byte) {
	g := w.NewGenerator(c)
	for i := range 100 {
		tx := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
		g.Next(i%c.Clients, 0, tx)
		g.Done(i%c.Clients, txn.Outcome{ID: tx.ID, Status: txn.Aborted, Cause: txn.CauseConflict})
		first = append(first, slices.Concat([]byte{byte(tx.Proc)}, tx.Args))
	}
	return first
}

// Near fails the test for each share whose count differs from the expected count by more than four standard deviations
// plus 0.01 percentage points. It also fails the test for each mean that differs by more than its tolerance.
func Near(t testing.TB, shares []workload.Share, counts []workload.Count) {
	t.Helper()
	if len(shares) != len(counts) {
		t.Fatalf("there are %d shares and %d counts", len(shares), len(counts))
	}
	for i, s := range shares {
		p, n := float64(s.ConfiguredPPM)/1e6, float64(counts[i].Of)
		if n == 0 {
			continue
		}
		allowed := float64(s.TolerancePercent) / 100 * p
		if !s.Mean {
			allowed = fourSigma(p, n) + 1e-4
		}
		if got := float64(counts[i].Hits) / n; math.Abs(got-p) > allowed {
			t.Errorf("%s: %d of %d %s are %.4f, configured is %.4f", s.Name, counts[i].Hits, counts[i].Of, s.Of, got, p)
		}
	}
}

// NearShare fails the test if n is 0, or if the share hits/n differs from p by more than four standard deviations.
func NearShare(t testing.TB, what string, hits, n int, p float64) {
	t.Helper()
	const rounding = 1e-9
	if got := float64(hits) / float64(n); n == 0 || math.Abs(got-p) > fourSigma(p, float64(n))+rounding {
		t.Errorf("%s: %d of %d are %.4f, want %.4f", what, hits, n, got, p)
	}
}

// fourSigma returns four standard deviations of the observed share of hits in n draws with probability p.
func fourSigma(p, n float64) float64 { return 4 * math.Sqrt(p*(1-p)/n) }

// Verify returns the failed checks of the workload on the database's rows, as "name: message".
func (d *Database) Verify(w workload.Workload, ledger workload.Ledger) []string {
	return failures(w, ledger, w.Audit(d.Rows()))
}

// Copies returns a copy for each element of sums, named a, b, c and so on.
func Copies(sums ...map[string]int64) (copies []workload.Copy) {
	for i := range sums {
		copies = append(copies, workload.Copy{Name: string(rune('a' + i)), Sums: sums[i]})
	}
	return copies
}

func failures(w workload.Workload, ledger workload.Ledger, sums ...map[string]int64) (failed []string) {
	for _, c := range w.Verify(Copies(sums...), ledger) {
		if !c.Passed {
			failed = append(failed, c.Name+": "+c.Message)
		}
	}
	return failed
}

// Database errors in a single transaction that a ledger should detect.
const (
	lost     = "lost"     // committed, but not applied
	torn     = "torn"     // committed, but with one write missing
	doubled  = "doubled"  // applied twice
	invented = "invented" // applied, but not committed
)

// Ledger runs n transactions with every kind of outcome, including late outcomes. It tests that the checks pass, and
// that the ledger is exact once all outcomes are known.
//
// Then it injects each error into a transaction of each writing type, once with an outcome in time and once with a late
// outcome. A check must fail for each error. The exceptions in blind are errors that the workload cannot detect, such
// as "amalgamate lost".
func Ledger(t testing.TB, c *Case, n int, blind ...string) {
	t.Helper()
	const clients = 3
	w := c.New(suiteSeed)
	l := &ledgerTest{t: t, w: w, d: New(t, c.Procedures...).Load(w, c.Topology), writes: make([]bool, len(w.Types()))}
	initial := w.Audit(l.d.Rows())
	l.g = w.NewGenerator(workload.GeneratorConfig{Clients: clients, RegionClients: clients, Stream: 1, Measured: time.Hour})
	var truth []txn.Outcome // true outcomes of transactions whose client timed out
	for i := range n {
		client := i % clients
		tx, r := l.d.next(l.g, client, 0)
		writes, o := l.d.execute(tx)
		l.writes[r.Type] = l.writes[r.Type] || len(writes) > 0
		told := o
		switch i % 11 {
		case 3:
			writes, told = nil, txn.Outcome{ID: tx.ID, Status: txn.Refused, Cause: txn.CauseNode}
		case 5:
			writes, told = nil, txn.Outcome{ID: tx.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "deadlock"}
		case 7:
			truth = append(truth, o)
			told = unknown(tx)
		case 9:
			truth = append(truth, txn.Outcome{ID: tx.ID, Status: txn.Aborted, Cause: txn.CauseConflict})
			writes, told = nil, unknown(tx)
		}
		l.d.Apply(tx.ID, writes)
		l.g.Done(client, told)
	}
	l.pass("while outcomes are unknown")
	if exact(l.g.Ledger()) {
		t.Errorf("workload %s: the ledger %v bounds nothing from two sides, though outcomes are unknown", w.Name(), l.g.Ledger())
	}
	for _, o := range truth {
		l.g.Late(o)
		l.g.Late(o) // the second report must not count
	}
	l.pass("once late outcomes are known")
	if !exact(l.g.Ledger()) {
		t.Errorf("workload %s: the ledger %v is not exact, though all outcomes are known", w.Name(), l.g.Ledger())
	}

	if len(failures(w, l.g.Ledger(), w.Audit(l.d.Rows()), initial)) == 0 {
		t.Errorf("workload %s: a second copy that was never written passes", w.Name())
	}
	if len(failures(w, l.g.Ledger())) == 0 {
		t.Errorf("workload %s: a run without any copy passes", w.Name())
	}
	known := map[string]bool{}
	for kind, name := range w.Types() {
		for _, how := range []string{lost, torn, doubled, invented} {
			if l.writes[kind] {
				known[name+" "+how] = true
				for _, late := range []bool{false, true} {
					l.plant(uint8(kind), how, late, slices.Contains(blind, name+" "+how))
				}
			}
		}
	}
	for _, b := range blind {
		if !known[b] {
			t.Errorf("workload %s: %s cannot happen", w.Name(), b)
		}
	}
	l.pass("after all mistakes are mended")
	l.d.checkMade()
}

func unknown(tx *txn.Transaction) txn.Outcome {
	return txn.Outcome{ID: tx.ID, Status: txn.Unknown, Cause: txn.CauseClient, Reason: "timeout"}
}

func exact(l workload.Ledger) bool {
	for _, i := range l {
		if i.Low != i.High {
			return false
		}
	}
	return true
}

// ledgerTest is a generator and the database that runs its clients' transactions.
type ledgerTest struct {
	t      testing.TB
	w      workload.Workload
	d      *Database
	g      workload.Generator
	writes []bool // by type
}

func (l *ledgerTest) pass(when string) {
	l.t.Helper()
	if failed := l.d.Verify(l.w, l.g.Ledger()); len(failed) > 0 {
		l.t.Errorf("workload %s: %s: %v", l.w.Name(), when, failed)
	}
}

// plant injects the error how into the next transaction of type kind that changes rows, runs the checks, and repairs
// the rows.
func (l *ledgerTest) plant(kind uint8, how string, late, blind bool) {
	l.t.Helper()
	what := l.w.Types()[kind] + " " + how
	if late {
		what += ", with a late outcome"
	}
	tx, writes, o := l.find(kind)
	if tx == nil {
		l.t.Errorf("workload %s: no transaction of type %s writes", l.w.Name(), l.w.Types()[kind])
		return
	}
	var mend []txn.WriteEntry
	told := o
	switch how {
	case lost:
		mend = writes
	case torn:
		i := slices.IndexFunc(writes, l.changes)
		mend = writes[i : i+1]
		l.d.Apply(tx.ID, slices.Delete(slices.Clone(writes), i, i+1))
	case doubled:
		l.d.Apply(tx.ID, writes)
		again, _ := l.d.execute(tx)
		mend = l.d.Apply(tx.ID, again)
	case invented:
		mend = l.d.Apply(tx.ID, writes)
		told = txn.Outcome{ID: tx.ID, Status: txn.Aborted, Cause: txn.CauseConflict}
	}
	if late {
		l.g.Done(0, unknown(tx))
	}
	if how == lost || how == invented {
		l.pass(what + ", before its client knows")
	}
	if late {
		l.g.Late(told)
	} else {
		l.g.Done(0, told)
	}
	failed := l.d.Verify(l.w, l.g.Ledger())
	switch {
	case blind && len(failed) > 0:
		l.t.Errorf("workload %s: %s is noticed, though it is said not to be: %v", l.w.Name(), what, failed)
	case !blind && len(failed) == 0:
		l.t.Errorf("workload %s: %s is not noticed: no check fails; if none can, give Ledger %q and say why", l.w.Name(), what,
			l.w.Types()[kind]+" "+how)
	}
	for _, f := range failed {
		if strings.HasSuffix(f, ": ") {
			l.t.Errorf("workload %s: %s: the check %sdoes not say what is wrong", l.w.Name(), what, f)
		}
	}
	l.d.Apply(tx.ID, mend)
}

// changes reports whether the write w would change its row.
func (l *ledgerTest) changes(w txn.WriteEntry) bool {
	r, found := l.d.Get(w.Key)
	return w.Deleted == found || found && !bytes.Equal(w.Value, r.Value)
}

// find runs transactions until client 0 has a transaction of type kind in flight that changes rows. It returns this
// transaction with its writes and outcome, or nil after 10,000 attempts.
func (l *ledgerTest) find(kind uint8) (*txn.Transaction, []txn.WriteEntry, txn.Outcome) {
	l.t.Helper()
	for range 10_000 {
		tx, r := l.d.next(l.g, 0, 0)
		writes, o := l.d.execute(tx)
		if r.Type == kind && slices.ContainsFunc(writes, l.changes) {
			return tx, writes, o
		}
		l.d.Apply(tx.ID, writes)
		l.g.Done(0, o)
	}
	return nil, nil, txn.Outcome{}
}
