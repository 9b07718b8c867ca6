package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/smallbank"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/sim"
)

// runOn runs a procedure on a store and applies its writes.
func runOn(s *store.Hash, p *txn.Procedure, id txn.ID, args []byte) ([]byte, error) {
	v := store.View{Rows: s}
	result, err := p.Run(&v, args)
	for _, w := range v.Writes.Entries() {
		if w.Deleted {
			s.Delete(w.Key)
		} else {
			s.Put(w.Key, w.Value, id)
		}
	}
	return result, err
}

// plain returns a copy of a store without stamps.
func plain(s store.Store) store.Store {
	out := store.NewHash()
	s.Each(func(k txn.Key, r store.Record) {
		if v, there := history.Plain(k, r.Value); there {
			out.Put(k, v, r.Writer)
		}
	})
	return out
}

// call runs a traced KV procedure and returns its result and its operations.
func call(t *testing.T, s *store.Hash, id txn.ID, args string) (string, []history.Op) {
	t.Helper()
	x := &txn.Transaction{ID: id, Proc: 1 + history.Traced, Args: append(codec.AppendID(nil, id), args...)}
	if err := procedures.Prepare(x); err != nil {
		t.Fatal(err)
	}
	for _, a := range x.Accesses {
		if a.Mode&txn.Read == 0 {
			t.Errorf("%s: %v is not read", args, a.Key)
		}
	}
	result, err := runOn(s, procedures.Lookup(x.Proc), id, x.Args)
	if err != nil {
		t.Fatal(err)
	}
	result, ops, err := history.SplitTrace(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(result), ops
}

func tell(ops []history.Op) string {
	var words []string
	for _, o := range ops {
		w := fmt.Sprintf("%c%d:%v.%d", "rw"[o.Kind], o.Key.Shard(), o.Version, o.Nth)
		if o.Gone {
			w += "-"
		}
		if !o.Known {
			w += "?"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// TestTrace checks that a traced procedure returns the result of the plain procedure, and the versions that it read and
// overwrote.
func TestTrace(t *testing.T) {
	traced, untraced := store.NewHash(), store.NewHash()
	for n, tc := range []struct{ args, ops string }{
		{"r1 a2+5", "r1:0.0.0- r2:0.0.0- w2:0.0.1"},
		{"r2 w3=4", "r2:0.1.1 r3:0.0.0- w3:0.0.1"},
		{"a2+1 d3", "r2:0.1.1 w2:0.1.1 r3:0.2.1 w3:0.2.1-"},
		{"r3 r2", "r3:0.3.1- r2:0.3.1"},
		{"w3=9", "r3:0.3.1- w3:0.3.1"},
		{"s2-3 r3", "r2:0.3.1 w2:0.3.1 r3:0.5.1"},
	} {
		id := txn.MakeID(0, uint64(n+1))
		result, ops := call(t, traced, id, tc.args)
		want, err := runOn(untraced, procedures.Lookup(1), id, []byte(tc.args))
		if err != nil || result != string(want) {
			t.Errorf("%s: the result is %q, not %q, %v", tc.args, result, want, err)
		}
		if got := tell(ops); got != tc.ops {
			t.Errorf("%s: did %s, want %s", tc.args, got, tc.ops)
		}
		if d := history.Differences(plain(traced), untraced, nil, 3); len(d) > 0 || store.Digest(plain(traced)) != store.Digest(untraced) {
			t.Errorf("after %s: without stamps the store is not what it would be: %v", tc.args, d)
		}
	}
}

// TestTraceDeletes checks that scans keep their limits in tables without deletions, and that a procedure cannot delete
// from undeclared tables.
func TestTraceDeletes(t *testing.T) {
	const kept, cleared, queue = txn.Table(1), txn.Table(2), txn.Table(3)
	row := func(table txn.Table) txn.Key { return txn.OrderedKey(table, 0, nil, []byte{1}) }
	scan := &txn.Procedure{ID: 1, Name: "scan", Declare: func(_ []byte, f *txn.Footprint) error {
		for _, table := range []txn.Table{kept, cleared} {
			r := txn.Prefix(row(table).Unit())
			r.Limit, r.Reverse = 3, true
			f.AddScan(r)
		}
		f.Exact = true
		return nil
	}}
	remove := &txn.Procedure{ID: 2, Name: "remove", Deletes: txn.TablesOf(cleared), Declare: func([]byte, *txn.Footprint) error { return nil },
		Run: func(c txn.Ctx, args []byte) ([]byte, error) {
			c.Delete(row(txn.Table(args[0])))
			return nil, nil
		}}
	traced := txn.NewRegistry(history.TraceAll(scan, remove)...)
	var f txn.Footprint
	if err := traced.Lookup(scan.ID+history.Traced).Declare(codec.AppendID(nil, 7), &f); err != nil {
		t.Fatal(err)
	}
	if a, b := f.Ranges[0], f.Ranges[1]; a.Limit != 3 || !a.Reverse || b.Limit != 0 || b.Reverse {
		t.Errorf("footprint %+v", f.Ranges)
	}
	for table, want := range map[txn.Table]string{cleared: "", kept: "does not have its table 1", queue: "does not have its table 3"} {
		_, err := runOn(store.NewHash(), traced.Lookup(remove.ID+history.Traced), 7, append(codec.AppendID(nil, 7), byte(table)))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("a row of table %d is deleted: %v", table, err)
		}
	}
}

// TestScanMeetsDeletedRows checks that a scan records the deleted rows that it finds, by their stamps, so that the
// deleting transaction precedes the scan.
func TestScanMeetsDeletedRows(t *testing.T) {
	const queue = txn.Table(2)
	row := func(n byte) txn.Key { return txn.OrderedKey(queue, 0, nil, []byte{n}) }
	declare := func([]byte, *txn.Footprint) error { return nil }
	remove := &txn.Procedure{ID: 1, Name: "remove", Deletes: txn.TablesOf(queue), Declare: declare, Run: func(c txn.Ctx, _ []byte) ([]byte, error) {
		c.Delete(row(1))
		return nil, nil
	}}
	met := 0
	scan := &txn.Procedure{ID: 2, Name: "scan", Declare: declare, Run: func(c txn.Ctx, _ []byte) ([]byte, error) {
		return nil, c.Scan(txn.Prefix(row(0).Unit()), func(txn.Key, []byte) bool { met++; return true })
	}}
	traced := txn.NewRegistry(history.TraceAll(remove, scan)...)
	s := store.NewHash()
	s.Put(row(1), []byte("a"), 0)
	s.Put(row(2), []byte("b"), 0)
	var result []byte
	for _, p := range []*txn.Procedure{remove, scan} {
		var err error
		if result, err = runOn(s, traced.Lookup(p.ID+history.Traced), txn.ID(p.ID), codec.AppendID(nil, txn.ID(p.ID))); err != nil {
			t.Fatal(err)
		}
	}
	_, ops, err := history.SplitTrace(result)
	if err != nil {
		t.Fatal(err)
	}
	gone := slices.IndexFunc(ops, func(o history.Op) bool { return o.Kind == history.Read && o.Key == row(1) })
	if met != 1 || gone < 0 || !ops[gone].Gone || ops[gone].Version != txn.ID(remove.ID) || !ops[gone].Known {
		t.Errorf("%d rows were met, and recorded was %+v; want the row that is left, and the other one as transaction %d has deleted it", met, ops, remove.ID)
	}
}

// BenchmarkTrace runs a transfer between two rows, plain and traced.
func BenchmarkTrace(b *testing.B) {
	for name, proc := range map[string]txn.ProcID{"plain": 1, "traced": 1 + history.Traced} {
		b.Run(name, func(b *testing.B) {
			s := store.NewHash()
			args := []byte("a1-1 a2+1")
			if proc > 1 {
				args = append(codec.AppendID(nil, 7), args...)
			}
			p := procedures.Lookup(proc)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := runOn(s, p, 7, args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMisplacedValue checks that a value under a wrong key has no valid stamp.
func TestMisplacedValue(t *testing.T) {
	s := store.NewHash()
	call(t, s, 7, "w1=5 w2=6")
	r, _ := s.Get(simload.Key(1))
	s.Put(simload.Key(2), r.Value, 7)
	if _, ops := call(t, s, 8, "r1 r2"); tell(ops) != "r1:0.7.1 r2:0.0.0" {
		t.Errorf("read %s", tell(ops))
	}
}

func TestTraceRefuses(t *testing.T) {
	for name, args := range map[string][]byte{"no arguments": nil, "a padded id": {0x80, 0, 1}, "no id": {0, 0, 'r', '1'}} {
		x := &txn.Transaction{ID: 1, Proc: 1 + history.Traced, Args: args}
		if err := procedures.Prepare(x); err == nil || !strings.Contains(err.Error(), "do not start with a transaction's id") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"short": {1, 2, 3}, "length": {0, 9, 0, 0, 0}, "left over": {0, 0, 2, 0, 0, 0}, "key": {1, 0, 1, 'x', 4, 0, 0, 0}} {
		if _, _, err := history.SplitTrace(b); err == nil || !strings.HasPrefix(err.Error(), "trace: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unreadable is a view of a store in which every read fails.
type unreadable struct{ store.View }

var errUnreadable = errors.New("the row cannot be read")

func (*unreadable) Get(txn.Key) ([]byte, error) { return nil, errUnreadable }

// TestTraceOfWhatCannotBeRead checks a traced write-only procedure, which reads the rows that it overwrites. If such a
// read fails, only the trace reports the error, and the operations are unknown.
func TestTraceOfWhatCannotBeRead(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		run  func(c txn.Ctx) error
		want error
	}{
		"a write":               {func(c txn.Ctx) error { c.Put(txn.IntKey(1, 1), nil); return nil }, errUnreadable},
		"a row that is deleted": {func(c txn.Ctx) error { c.Delete(txn.IntKey(1, 1)); return nil }, errUnreadable},
		"a row of a group":      {func(c txn.Ctx) error { c.Put(txn.OrderedKey(1, 1, nil, []byte{1}), nil); return nil }, nil},
		"an error of its own":   {func(c txn.Ctx) error { c.Put(txn.IntKey(1, 1), nil); return refused }, refused},
	} {
		p := history.Trace(&txn.Procedure{
			ID: 1, Name: "blind", Deletes: txn.TablesOf(1), Run: func(c txn.Ctx, _ []byte) ([]byte, error) { return nil, tc.run(c) },
		}, txn.TablesOf(1))
		if _, err := p.Run(&unreadable{store.View{Rows: store.NewHash()}}, codec.AppendID(nil, 7)); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestRecorder(t *testing.T) {
	s := store.NewHash()
	s.Put(simload.Key(1), []byte("a"), 5)
	lookup := func(k txn.Key) (txn.ID, uint8, bool) {
		r, found := s.Get(k)
		return r.Writer, 0, found
	}
	var r history.Recorder
	for range 2 { // a recorder can be reused
		r.Reset(&store.View{Rows: s}, lookup)
		r.Get(simload.Key(1))
		r.Get(simload.Key(1))
		r.Put(simload.Key(1), []byte("b"))
		r.Get(simload.Key(1))
		r.Put(simload.Key(1), []byte("c"))
		r.Put(simload.Key(2), []byte("d"))
		r.Delete(simload.Key(2))
		r.Get(simload.Key(3))
		r.Put(simload.Key(4), []byte("e"))
		r.Get(simload.Key(4))
		if got := tell(r.Ops()); got != "r1:0.5.0 w1:0.5.2 w2:0.0.2-? r3:0.0.0-? w4:0.0.1?" {
			t.Errorf("recorded %s", got)
		}
		s.Put(simload.Key(1), []byte("a"), 5)
	}
}

// TestRecorderOfScans checks that only the scanned part of a range is recorded. The scanned part extends up to the
// limit, or up to and including the row at which the procedure stopped.
func TestRecorderOfScans(t *testing.T) {
	s := store.NewHash()
	key := func(n byte) txn.Key { return txn.OrderedKey(1, 1, nil, []byte{n}) }
	for n := range byte(4) {
		s.Put(key(n), []byte{n}, 5)
	}
	lookup := func(txn.Key) (txn.ID, uint8, bool) { return 5, 0, true }
	all := txn.Range{From: key(0), To: key(9)}
	for name, tc := range map[string]struct {
		limit   int
		reverse bool
		enough  int // number of rows after which the procedure stops
		want    txn.Range
	}{
		"all":                 {want: all},
		"to the limit":        {limit: 2, want: txn.Range{From: key(0), To: key(1) + "\x00"}},
		"backwards":           {limit: 2, reverse: true, want: txn.Range{From: key(2), To: key(9)}},
		"until it has enough": {enough: 3, want: txn.Range{From: key(0), To: key(2) + "\x00"}},
		"beyond all rows":     {limit: 5, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			var r history.Recorder
			r.Reset(&store.View{Rows: s}, lookup)
			g, met := all, 0
			g.Limit, g.Reverse = tc.limit, tc.reverse
			if err := r.Scan(g, func(txn.Key, []byte) bool { met++; return met != tc.enough }); err != nil {
				t.Fatal(err)
			}
			ops := r.Ops()
			if o := ops[len(ops)-1]; o.Kind != history.Scan || o.Key != tc.want.From || o.To != tc.want.To || len(ops) != met+1 {
				t.Errorf("%d rows were met, and %d operations recorded, the last one from %q to %q; want %q to %q", met, len(ops), o.Key, o.To, tc.want.From, tc.want.To)
			}
		})
	}
}

func TestConverged(t *testing.T) {
	a := history.Copy{Name: "a/0/0", Digest: 1, Rows: 2, Sums: map[string]int64{"total": 5}}
	b := a
	b.Name = "b/0/0"
	other := history.Copy{Name: "a/1/0", Partition: 1, Digest: 7}
	c := b
	c.Sums, c.Digest = map[string]int64{"total": 6}, 9
	d := b
	d.Digest = 9
	for name, tc := range map[string]struct {
		copies []history.Copy
		want   workload.Check
	}{
		"none":   {nil, workload.Check{Message: "no copy was audited"}},
		"single": {[]history.Copy{a}, workload.Check{Passed: true, Message: "the only copy of 1 partition has no other to differ from"}},
		"everywhere": {[]history.Copy{a, {Name: "a/0/0", Partition: -1, Digest: 3}}, workload.Check{Passed: true,
			Message: "the only copy of 1 partition has no other to differ from"}},
		"each alone": {[]history.Copy{a, other}, workload.Check{Passed: true, Message: "the only copies of 2 partitions have no others to differ from"}},
		"one":        {[]history.Copy{a, b}, workload.Check{Passed: true, Message: "the 2 copies of 1 partition hold the same rows"}},
		"equal":      {[]history.Copy{a, other, b}, workload.Check{Passed: true, Message: "the 3 copies of 2 partitions hold the same rows"}},
		"sums":       {[]history.Copy{a, other, c}, workload.Check{Message: "1 of 3 copies differ: b/0/0 differs from a/0/0: total 6, not 5"}},
		"two alike": {[]history.Copy{a, d, {Name: "c/0/0", Digest: 9, Rows: 2, Sums: d.Sums}}, workload.Check{
			Message: "2 of 3 copies differ: b/0/0 differs from a/0/0: other values or other rows; c/0/0 differs from a/0/0: other values or other rows"}},
		"no sums": {[]history.Copy{{Name: "a/0/0", Rows: 2, Digest: 1}, {Name: "b/0/0", Rows: 2, Digest: 2}},
			workload.Check{Message: "1 of 2 copies differ: b/0/0 differs from a/0/0: other values or other rows"}},
		"rows": {[]history.Copy{a, d}, workload.Check{Message: "1 of 2 copies differ: b/0/0 differs from a/0/0: other values or other rows"}},
	} {
		tc.want.Name = "convergence"
		if got := history.Converged(tc.copies); got != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTapClasses checks the class of committed transactions whose footprint is only a hint against the rows that they
// used. The class may or may not cover the other rows of the hint. It does not cover rows that every node stores.
func TestTapClasses(t *testing.T) {
	// Two regions have two partitions each: row n is in partition n mod 2, and its home is region n div 2 mod 2.
	row := func(n uint64) history.Op { return history.Op{Key: txn.IntKey(1, n), Kind: history.Read} }
	group := txn.OrderedKey(1, 1, nil, []byte{1})
	everywhere := history.Op{Key: txn.EverywhereKey(2, []byte{3}), Kind: history.Read}
	for name, tc := range map[string]struct {
		hint   []uint64
		exact  bool
		ops    []history.Op
		right  []txn.Class
		status txn.Status
	}{
		"one row":              {ops: []history.Op{row(0)}, right: []txn.Class{txn.SingleHomeSinglePartition}},
		"two homes":            {ops: []history.Op{row(0), row(2)}, right: []txn.Class{txn.MultiHomeSinglePartition}},
		"two partitions":       {ops: []history.Op{row(0), row(1)}, right: []txn.Class{txn.SingleHomeMultiPartition}},
		"a scan elsewhere":     {ops: []history.Op{row(0), {Key: group, To: group.End(), Kind: history.Scan}}, right: []txn.Class{txn.SingleHomeMultiPartition}},
		"rows everywhere":      {ops: []history.Op{everywhere, row(0)}, right: []txn.Class{txn.SingleHomeSinglePartition}},
		"nothing":              {right: []txn.Class{txn.SingleHomeSinglePartition}},
		"a hint that reaches":  {hint: []uint64{2}, ops: []history.Op{row(0)}, right: []txn.Class{txn.SingleHomeSinglePartition, txn.MultiHomeSinglePartition}},
		"a hint of both kinds": {hint: []uint64{3}, ops: []history.Op{row(0), row(1)}, right: []txn.Class{txn.SingleHomeMultiPartition, txn.MultiHomeMultiPartition}},
		"an exact footprint":   {exact: true, hint: []uint64{0, 2}, ops: []history.Op{row(0), row(2)}, right: []txn.Class{0, 1, 2, 3}},
		"an abort":             {status: txn.Aborted, ops: []history.Op{row(0), row(2)}, right: []txn.Class{0, 1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			procedures := txn.NewRegistry(history.TraceAll(&txn.Procedure{ID: 1, Name: "p", Declare: func(_ []byte, f *txn.Footprint) error {
				for _, n := range tc.hint {
					f.Add(txn.IntKey(1, n), txn.Read)
				}
				f.Exact = tc.exact
				return nil
			}})...)
			for class := range txn.NumClasses {
				tap := history.NewTap(nowhere{}, history.TapConfig{
					Placement: geo.Placement{Regions: 2, Partitions: 2}, Procedures: procedures,
					Client: func(txn.ID) uint32 { return 0 }, Record: func(*history.Txn) {},
				})
				client := tap.Attach(nobody{})
				id := txn.MakeID(1, 7)
				tap.Submit(&txn.Transaction{ID: id, Proc: 1})
				client.Complete(txn.Outcome{ID: id, Status: max(txn.Committed, tc.status), Class: class, Result: history.AppendTrace(nil, tc.ops)})
				n, example := tap.Misclassified()
				if right := slices.Contains(tc.right, class); right != (n == 0) || right != (example == "") {
					t.Errorf("class %v: %d are wrong, %q; right are %v", class, n, example, tc.right)
				}
				if n > 0 && !strings.Contains(example, fmt.Sprintf("transaction 1.7 was answered with class %v; the rows that it has used make it %v", class, tc.right[0])) {
					t.Errorf("class %v is explained as %q", class, example)
				}
			}
		})
	}
}

// TestTapTimes checks that a tap records the times of sending and answer to the nanosecond. With later answers, the
// history would have fewer real-time orders; with earlier answers, it would have wrong orders. A transaction without an
// answer may have committed.
func TestTapTimes(t *testing.T) {
	procedures := txn.NewRegistry(history.TraceAll(&txn.Procedure{ID: 1, Name: "p", Declare: func(_ []byte, f *txn.Footprint) error {
		f.Add(txn.IntKey(1, 1), txn.Read)
		f.Exact = true
		return nil
	}})...)
	env := &clock{now: 7 * time.Millisecond}
	var recorded []history.Txn
	tap := history.NewTap(env, history.TapConfig{
		Placement: geo.Placement{Regions: 1, Partitions: 1}, Procedures: procedures,
		Client: func(id txn.ID) uint32 { return uint32(id) }, Record: func(x *history.Txn) { recorded = append(recorded, *x) },
	})
	client := tap.Attach(nobody{})
	answered, aborted, never := txn.MakeID(1, 1), txn.MakeID(1, 2), txn.MakeID(1, 3)
	for _, id := range []txn.ID{answered, aborted, never} {
		tap.Submit(&txn.Transaction{ID: id, Proc: 1})
		env.now++
	}
	env.now = 9 * time.Millisecond
	client.Complete(txn.Outcome{ID: answered, Status: txn.Committed, Result: history.AppendTrace(nil, nil)})
	env.now++
	client.Complete(txn.Outcome{ID: aborted, Status: txn.Aborted})
	if err := tap.Finish(); err != nil {
		t.Fatal(err)
	}
	const sent = 7 * time.Millisecond
	for i, want := range []history.Txn{
		{ID: answered, Client: uint32(answered), Invoked: sent, Answered: 9 * time.Millisecond, Status: txn.Committed},
		{ID: aborted, Client: uint32(aborted), Invoked: sent + 1, Answered: 9*time.Millisecond + 1, Status: txn.Aborted},
		{ID: never, Client: uint32(never), Invoked: sent + 2, Answered: sent + 2, Status: txn.Unknown},
	} {
		if len(recorded) != 3 || fmt.Sprintf("%+v", recorded[i]) != fmt.Sprintf("%+v", want) {
			t.Errorf("%d were recorded, number %d as %+v, want %+v", len(recorded), i, recorded[i], want)
		}
	}
}

// clock is an environment with a clock that the test sets. It ignores everything else.
type clock struct {
	nowhere
	now time.Duration
}

func (c *clock) Now() time.Duration { return c.now }

// nowhere is an environment that does nothing, and nobody is a client that does nothing.
type (
	nowhere struct{ protocol.ClientEnv }
	nobody  struct{ protocol.Client }
)

func (nowhere) Now() time.Duration      { return 0 }
func (nowhere) Submit(*txn.Transaction) {}
func (nobody) Complete(txn.Outcome)     {}

// TestTapLoadGenerator runs the load generator's clients through a tap. The clients must not notice the tap, the
// workload's invariants must hold on the plain rows, and the history must be strictly serializable. Half of the clients
// time out before their answers arrive.
func TestTapLoadGenerator(t *testing.T) {
	topology := simload.TwoRegions(2)
	registry := txn.NewRegistry(history.TraceAll(smallbank.Procedures()...)...)
	bank, err := smallbank.New(v1alpha1.SmallBank{
		Customers: 40, Mix: v1alpha1.SmallBankMix{Balance: 20, WriteCheck: 20, DepositChecking: 20, TransactSavings: 20, Amalgamate: 20},
		MultiHomePercent: 50, MultiPartitionPercent: 50,
	}, 1, topology)
	if err != nil {
		t.Fatal(err)
	}
	params, _ := calvin.Engine.Resolve(nil)
	s := sim.New(sim.Config{Topology: topology, Engine: calvin.Engine, Params: params, Procedures: registry, Seed: 1, Costs: sim.DefaultCosts, CheckCodec: true})
	for n := range geo.NodeID(topology.Nodes()) {
		layout := topology.Full()
		if err := workload.Fill(bank, &layout, n, s.Store(n).Load); err != nil {
			t.Fatal(err)
		}
	}
	taps := &history.Taps{Placement: topology.Placement(), Procedures: registry}
	var machines []*load.Machine
	const clients = 20
	for r := range topology.Regions {
		ms, err := load.Machines(load.WorkerConfig{
			Workload: bank, Topology: topology, Region: geo.Region(r), Workers: 1, Shards: 1, Seed: 1,
			Load: v1alpha1.Load{
				ClientsPerRegion: clients, Arrival: v1alpha1.ArrivalClosed, Warmup: v1alpha1.Duration{Duration: time.Second},
				Duration: v1alpha1.Duration{Duration: 3 * time.Second}, RequestTimeout: v1alpha1.Duration{Duration: 100 * time.Millisecond},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := ms[0]
		machines = append(machines, m)
		process := func(id txn.ID) uint32 { return uint32((uint64(id)&(1<<40-1) - 1) % clients) }
		s.AddClient(geo.Region(r), taps.Client(topology.Regions[r], process, m.Attach))
	}
	s.Run(10 * time.Second)
	if err := taps.Finish(); err != nil {
		t.Fatal(err)
	}
	v := history.Check(&taps.History, isolation.StrictSerializable)
	if !v.Passed || v.Stats.Committed < 1000 || v.Stats.Unknown > 0 {
		t.Errorf("%+v\n%s", v.Stats, v.Explanation)
	}
	t.Log(v.Check().Message)
	ledger := workload.Ledger{}
	late := int64(0)
	for _, m := range machines {
		r := m.Report()
		ledger.Merge(r.Ledger)
		late += r.Late
	}
	if late < 100 {
		t.Errorf("only %d answers came late", late)
	}
	var copies []workload.Copy
	for r, name := range topology.Regions {
		sums := map[string]int64{}
		for p := range topology.Partitions {
			for name, n := range bank.Audit(audit.All(plain(s.Store(topology.Node(geo.Region(r), p, 0))))) {
				sums[name] += n
			}
		}
		copies = append(copies, workload.Copy{Name: name, Sums: sums})
	}
	for _, c := range bank.Verify(copies, ledger) {
		if !c.Passed {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
	}
	if i := slices.IndexFunc(machines, func(m *load.Machine) bool { return !m.Finished() }); i >= 0 {
		t.Errorf("machine %d has not finished", i)
	}
}
