package targettest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
	"github.com/geobench/geobench/internal/bench/workload/tpcc"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// Client runs one transaction after another.
type Client struct {
	session target.Session
	done    chan txn.Outcome
}

// NewClient opens a client of the first region, which is closed at the end of the test.
func NewClient(t testing.TB, db target.Database) *Client {
	t.Helper()
	return clientOf(t, db.Clients(0).(*target.Statements))
}

func clientOf(t testing.TB, clients *target.Statements) *Client {
	t.Helper()
	c := &Client{done: make(chan txn.Outcome, 1)}
	clients.Connections = 1
	var err error
	c.session, err = clients.Open(t.Context(), func(outcomes []txn.Outcome) {
		for _, o := range outcomes {
			// The target may reuse the result's bytes once the sink returns.
			o.Result = slices.Clone(o.Result)
			c.done <- o
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.session.Close() })
	return c
}

// Run runs a transaction and returns its outcome.
func (c *Client) Run(x *txn.Transaction) txn.Outcome {
	c.session.Submit(x)
	c.session.Flush()
	return <-c.done
}

// FormSpecs are the workloads with an SQL form, as in spec.workload. Each mix has all transactions of the workload.
var FormSpecs = map[string]string{
	"smallbank": "{smallbank: {customers: 100, multiHomePercent: 30, hotPercent: 50}}",
	"tpcc": "{tpcc: {rowsPercent: 2, warehousesPerPartition: 2, rollbackPercent: 10, remote: {distributionRatioPercent: 30, distributionDegree: 2, paymentPercent: 30}, " +
		"mix: {newOrder: 30, payment: 20, orderStatus: 8, delivery: 20, stockLevel: 7, updateStock: 5, updateBalance: 5, selectBalance: 5}, dike: {balanceGroup: 2}}}",
}

// LosingSpecs are mixes of SmallBank in which amalgamate loses money if updates are lost, because it writes values that
// it has computed from earlier reads.
var LosingSpecs = map[string]string{
	"all":      "{smallbank: {customers: 100, hotPercent: 90}}",
	"deposits": "{smallbank: {customers: 100, hotPercent: 90, mix: {balance: 0, writeCheck: 0, depositChecking: 40, transactSavings: 20, amalgamate: 40}}}",
}

// FormsAgree runs the same transactions on two databases of a plan: as procedures on the first, and as SQL on the
// second. It fails unless both databases return the same outcomes and have the same rows and audits.
//
// rows calls put with each row of the first database, in hexadecimal digits. It returns the rows of the second database
// by table name, in the format of COPY.
func FormsAgree(t *testing.T, p *plan.Plan, procedures, sql sqltarget.Database, rows func(put func(k, value string)) map[string][]string) {
	t.Helper()
	dbs := []sqltarget.Database{procedures, sql}
	var clients []*Client
	for _, db := range dbs {
		if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, NewClient(t, db))
	}
	const terminals, transactions = 20, 800
	seen := map[string]int{}
	generator := p.Workload.NewGenerator(workload.GeneratorConfig{Clients: terminals, RegionClients: terminals, Stream: 1, Measured: time.Minute})
	for i := range transactions {
		x := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
		r := generator.Next(i%terminals, 0, x)
		want, got := clients[0].Run(x), clients[1].Run(x)
		if want.Status != got.Status || want.Cause != got.Cause || want.Reason != got.Reason || want.Class != got.Class || !bytes.Equal(want.Result, got.Result) {
			t.Fatalf("transaction %d, %s with arguments %x:\nprocedure %+v\nSQL       %+v", i, p.Workload.Types()[r.Type], x.Args, want, got)
		}
		seen[p.Workload.Types()[r.Type]+" "+strings.TrimSpace(want.Status.String()+" "+want.Reason)]++
		generator.Done(i%terminals, want)
	}
	t.Logf("%v", seen)
	for _, kind := range p.Workload.Types() {
		if seen[kind+" committed"] < 10 {
			t.Errorf("%d of %s were committed", seen[kind+" committed"], kind)
		}
	}
	if p.Workload.Name() == "tpcc" && seen["newOrder aborted unused-item"] < 10 {
		t.Error("next to no order had an unused item")
	}
	want, form := map[string][]string{}, p.Workload.(sqlform.Workload).Form()
	got := rows(func(k, value string) {
		key, err := hex.DecodeString(k)
		v, wrong := hex.DecodeString(value)
		if err != nil || wrong != nil {
			t.Fatal(err, wrong)
		}
		var c sqlform.Columns
		table, err := form.Row(txn.Key(key), v, &c)
		if err != nil {
			t.Fatal(err)
		}
		if table != sqlform.NoTable {
			name := form.Tables[table].Name
			want[name] = append(want[name], string(c.Bytes))
		}
	})
	for _, table := range slices.Sorted(maps.Keys(want)) {
		slices.Sort(want[table])
		slices.Sort(got[table])
		if len(got[table]) != len(want[table]) {
			t.Errorf("%s has %d rows, not %d", table, len(got[table]), len(want[table]))
			continue
		}
		for i := range want[table] {
			if got[table][i] != want[table][i] {
				t.Errorf("%s has the row\n%s\nnot\n%s", table, got[table][i], want[table][i])
				break
			}
		}
	}
	var sums []map[string]int64
	for _, db := range dbs {
		a, err := db.Audit(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, shard := range a[0] {
			if shard.Sums != nil {
				sums = append(sums, shard.Sums)
			}
		}
	}
	if len(sums) != 2 || !maps.Equal(sums[0], sums[1]) {
		t.Errorf("the audits differ: %v", sums)
	}
}

// FormHolds runs a plan on a database. The history must satisfy the planned level, and the data must match the
// committed transactions.
func FormHolds(t *testing.T, p *plan.Plan, db sqltarget.Database) {
	t.Helper()
	d, err := inprocess.On(t.Context(), p, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	Judge(t, d)
	t.Logf("%d committed", d.Summary.Committed)
	if want := "SQL, foreign keys"; d.Target.Form != want {
		t.Errorf("the form is %q, not %q", d.Target.Form, want)
	}
}

// FormLosesMoney runs a plan of LosingSpecs, whose verification demands serializability, on a database that loses
// updates. Both the sums and the history must show the loss.
func FormLosesMoney(t *testing.T, p *plan.Plan, db sqltarget.Database) {
	t.Helper()
	d, err := inprocess.On(t.Context(), p, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]string{}
	for _, c := range d.Checks {
		if t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message); !c.Passed {
			failed[c.Name] = c.Message
		}
	}
	if failed["smallbank-total"] == "" || failed["serializable"] == "" {
		t.Errorf("of the checks failed %v", failed)
	}
}

// FormLoad is a case of FormLoads: a load of a database whose transactions are SQL. O is the type of the database's
// options.
type FormLoad[O any] struct {
	What   string
	Plan   *plan.Plan
	Change func(*O)
	// Meanwhile is SQL that another user executes after the database has been opened. Refused is a substring of the load's
	// expected error, or "" if the load must succeed.
	Meanwhile, Refused string
	Want               string
}

// FormLoads runs the cases one after another, and opens the database for each case. run executes SQL as another user.
// there returns the names of the tables in the database.
func FormLoads[O any](t *testing.T, cases []FormLoad[O], options func() O, open func(*plan.Plan, O) (sqltarget.Database, error), run func(sql string), there func() []string) {
	t.Helper()
	for _, tc := range cases {
		o := options()
		tc.Change(&o)
		db, err := open(tc.Plan, o)
		if err != nil {
			t.Fatal(err)
		}
		if tc.Meanwhile != "" {
			run(tc.Meanwhile)
		}
		err = errors.Join(db.Load(t.Context(), target.Dataset{Workload: tc.Plan.Workload, Traced: true}), db.Close())
		if tc.Refused == "" && err != nil || tc.Refused != "" && (err == nil || !strings.Contains(err.Error(), tc.Refused)) {
			t.Errorf("%s: %v, not %q", tc.What, err, tc.Refused)
		}
		names := there()
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tc.Want {
			t.Errorf("%s: there are %s, not %s", tc.What, got, tc.Want)
		}
	}
}

// Deposit returns SmallBank's deposit of an amount into the checking account of customer 1. The transaction has the
// sequence number n.
func Deposit(n, amount uint64) *txn.Transaction {
	const depositChecking, customer = 4, 1
	args := binary.BigEndian.AppendUint64(make([]byte, 0, 24), customer)
	args = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(args, customer), amount)
	return &txn.Transaction{ID: txn.MakeID(1, n), Proc: depositChecking, Args: args}
}

// FormCutAtCommit cuts a client's connection during commits of SmallBank in SQL: either before the database receives
// the commit, or after it has executed it. In both cases the outcome must be unknown, and the next deposit shows the
// actual outcome. arm makes the proxy cut the next commit. balance returns the balance of customer 1's checking
// account. FormCutAtCommit returns a function that deposits 5 into the account.
func FormCutAtCommit(t *testing.T, clients *target.Statements, arm func(served bool), balance func() int) (deposit func() txn.Outcome) {
	t.Helper()
	c, deposits := clientOf(t, clients), uint64(0)
	deposit = func() txn.Outcome {
		deposits++
		return c.Run(Deposit(deposits, 5))
	}
	for _, served := range []bool{false, true, true, false} {
		before := balance()
		arm(served)
		if o := deposit(); o.Status != txn.Unknown || o.Cause != txn.CauseNode || o.Reason != "connection-lost" {
			t.Errorf("a commit that was cut (served: %v) ended as %+v", served, o)
		}
		want := before
		if served {
			want += 5
		}
		if o := deposit(); o.Status != txn.Committed {
			t.Errorf("after a commit that was cut: %+v", o)
		}
		if got := balance(); got != want+5 {
			t.Errorf("after a commit that was cut (served: %v) and one that was not, %d became %d", served, before, got)
		}
	}
	return deposit
}

// FormCutAtBegin cuts a client's connection at the start of a transaction of SmallBank in SQL. It cuts the connection
// either before the database receives the start, or after the database has executed it. In both cases the transaction
// must be refused, and the next transaction must commit. The function arm makes the proxy cut the next start.
func FormCutAtBegin(t *testing.T, clients *target.Statements, arm func(served bool)) {
	t.Helper()
	c := clientOf(t, clients)
	for n, served := range []bool{false, true} {
		arm(served)
		if o := c.Run(Deposit(uint64(2*n+1), 5)); o.Status != txn.Refused || o.Cause != txn.CauseNode || o.Reason != "connection-lost" {
			t.Errorf("a transaction that was cut as it began (served: %v) ended as %+v", served, o)
		}
		if o := c.Run(Deposit(uint64(2*n+2), 5)); o.Status != txn.Committed {
			t.Errorf("after one that was cut as it began: %+v", o)
		}
	}
}

// roundTrips are the numbers of round trips per transaction of FormSpecs, including COMMIT. A transaction has two
// numbers if a last name may need a lookup, or if there may be nothing to deliver.
var roundTrips = map[string][]int64{
	"lookup": {2}, "balance": {2}, "writeCheck": {3}, "depositChecking": {2}, "transactSavings": {2}, "amalgamate": {3},
	"newOrder": {3}, "payment": {3, 4}, "orderStatus": {3, 4}, "delivery": {2, 4}, "stockLevel": {2}, "updateStock": {2}, "updateBalance": {2}, "selectBalance": {2},
}

// RoundTrips executes the steps of a transaction: begin, read a row, write it, read another row, commit. It fails
// unless the steps send the numbers of messages in want. sent returns the number of messages that clients have sent so
// far. A client waits for each answer before it sends the next message, so a message is a round trip.
func RoundTrips(t *testing.T, clients *target.Statements, sent func() int64, want [5]int64) {
	t.Helper()
	c, err := clients.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the server is stopped
	var st target.Statement
	var got [5]int64
	for i, step := range []func() error{
		func() (err error) { st, err = c.Begin(t.Context(), nil); return err },
		func() error { _, err := st.Get(txn.IntKey(9, 1)); return err },
		func() error { return st.Put(txn.IntKey(9, 1), []byte("one")) },
		func() error { _, err := st.Get(txn.IntKey(9, 2)); return err },
		func() error { return st.Commit(t.Context()) },
	} {
		before := sent()
		if err := step(); err != nil && err != txn.ErrNotFound {
			t.Fatal(err)
		}
		got[i] = sent() - before
	}
	if got != want {
		t.Errorf("begin, read, write, read, commit: %d messages, not %d", got, want)
	}
}

// FormRoundTrips runs transactions of a plan of FormSpecs, one after another. It fails unless each transaction takes an
// allowed number of round trips, increased by more. sent returns the number of messages that clients have sent so far.
// A client waits for each answer before it sends the next message, so a message is a round trip.
func FormRoundTrips(t *testing.T, p *plan.Plan, clients *target.Statements, more int64, sent func() int64) {
	t.Helper()
	const terminals, known, transactions, rare = 20, 200, 800, 10
	c := clientOf(t, clients)
	counts := map[string]map[int64]int{}
	generator := p.Workload.NewGenerator(workload.GeneratorConfig{Clients: terminals, RegionClients: terminals, Stream: 1, Measured: time.Minute})
	for i := range transactions {
		x := &txn.Transaction{ID: txn.MakeID(1, uint64(i+1))}
		r := generator.Next(i%terminals, 0, x)
		before := sent()
		o := c.Run(x)
		// Skip the first transactions, which also prepare their statements.
		if kind := p.Workload.Types()[r.Type]; o.Status == txn.Committed && i >= known {
			if counts[kind] == nil {
				counts[kind] = map[int64]int{}
			}
			counts[kind][sent()-before]++
		}
		generator.Done(i%terminals, o)
	}
	for _, kind := range p.Workload.Types() {
		all := 0
		for _, n := range counts[kind] {
			all += n
		}
		// A message may occasionally arrive in two pieces and count twice.
		maps.DeleteFunc(counts[kind], func(_ int64, n int) bool { return rare*n < all })
		got := slices.Sorted(maps.Keys(counts[kind]))
		want := slices.Clone(roundTrips[kind])
		for i := range want {
			want[i] += more
		}
		if t.Logf("%s: %v round trips, %d times", kind, got, all); !slices.Equal(got, want) {
			t.Errorf("%s takes %v round trips, not %v", kind, got, want)
		}
	}
}

// spoiled is TPC-C with some wrong rows in its initial data.
type spoiled struct {
	*tpcc.TPCC
	seed uint64
}

// Rows changes about one row in a hundred: it omits the row, adds a copy under another key, or changes a number in it.
// In tables 1 and 2, which have few rows, it changes one row in three.
func (s spoiled) Rows(c geo.Cell, put func(k txn.Key, value []byte)) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(c.Home)))
	// Offsets of the numbers in rows that audits sum or compare, by table.
	numbers := map[txn.Table][]int{1: {7}, 2: {7, 11}, 3: {7, 15, 23}, 4: {3}, 5: {5, 7, 23}, 6: {9, 10, 11}, 8: {11}}
	s.TPCC.Rows(c, func(k txn.Key, value []byte) {
		rare := 100
		if k.Table() == 1 || k.Table() == 2 {
			rare = 3
		}
		if rng.IntN(rare) > 0 {
			put(k, value)
			return
		}
		places := numbers[k.Table()]
		switch what := rng.IntN(3); {
		case what == 0:
		case what == 1 && (k.Table() == 6 || k.Table() == 7 || k.Table() == 8):
			put(k, value)
			b := []byte(k)
			b[14] ^= 0x80 // a byte of O_ID
			put(txn.Key(b), value)
		case len(places) > 0:
			b := slices.Clone(value)
			b[places[rng.IntN(len(places))]] ^= 1 << rng.IntN(3)
			put(k, b)
		default:
			put(k, value)
		}
	})
}

// AuditsAgree loads TPC-C with some wrong rows. It fails unless the audit in SQL returns the same sums under the same
// names as Audit over the rows. It also fails unless each of the twelve consistency conditions was violated at least
// once. The database has no foreign keys.
func AuditsAgree(t *testing.T, p *plan.Plan, db sqltarget.Database) {
	t.Helper()
	found := map[string]bool{}
	for seed := range uint64(5) {
		w := spoiled{p.Workload.(*tpcc.TPCC), seed}
		if err := db.Load(t.Context(), target.Dataset{Workload: w}); err != nil {
			t.Fatal(err)
		}
		rows := store.NewHash()
		layout := p.Topology.Whole(0)
		if err := workload.Fill(w, &layout, 0, rows.Load); err != nil {
			t.Fatal(err)
		}
		a, err := db.Audit(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := a[0][1].Sums, w.Audit(audit.All(rows))
		for _, sums := range []map[string]int64{got, want} {
			delete(sums, "customers-by-name") // the database maintains its own indexes, so they miss no entry
			delete(sums, "orders-by-customer")
			maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
		}
		for name := range want {
			rule, _, _ := strings.Cut(name, "/")
			found[rule] = true
			if got[name] != want[name] {
				t.Errorf("seed %d: %s is %d, and %d by SQL", seed, name, want[name], got[name])
			}
		}
		for name := range got {
			if want[name] == 0 {
				t.Errorf("seed %d: %s is %d by SQL alone", seed, name, got[name])
			}
		}
	}
	for condition := range 12 {
		if name := fmt.Sprint(condition + 1); !found[name] {
			t.Errorf("condition %s was never broken", name)
		}
	}
}
