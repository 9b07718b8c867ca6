// Package workloadtest tests that workloads satisfy their contract. Its database stores one copy, runs procedures one
// after another, and fails the test if they break a rule of package txn. Rows, Shares, Ledger, Streams and Invariants
// test the properties that all workloads share.
package workloadtest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Database is one copy of all rows.
type Database struct {
	*store.Hash
	t           testing.TB
	procedures  *txn.Registry
	traced      bool
	played      uint64             // transactions that Play has run
	topology    *geo.Topology      // of the loaded rows
	made        [64]made           // the latest transactions of generators
	workload    workload.Workload  // of the loaded rows
	failed      map[string]int     // number of mistakes, by kind
	interrupted map[txn.ProcID]int // transactions that were also run with failing reads, by procedure
	untouched   map[string]int     // accesses in exact footprints that runs did not make, by kind: see Case.Untouched
}

// New returns an empty database that fails t if a procedure breaks a rule of package txn. A procedure must not access a
// row outside its exact footprint, or declare a row without a group twice. It must not write if it is ReadOnly, or
// delete from a table that is not in Deletes. It must not behave differently on the same rows, change a value that it
// does not own, or use the Ctx during a scan. After a failed read, it must return the read's error and not continue.
func New(t testing.TB, procedures ...*txn.Procedure) *Database {
	return &Database{Hash: store.NewHash(), t: t, procedures: txn.NewRegistry(procedures...),
		failed: map[string]int{}, interrupted: map[txn.ProcID]int{}, untouched: map[string]int{}}
}

// NewTraced is New, but Run calls the traced forms of the procedures: see history.Trace.
func NewTraced(t testing.TB, procedures ...*txn.Procedure) *Database {
	d := New(t, history.TraceAll(procedures...)...)
	d.traced = true
	return d
}

// Load loads all rows of a workload. It fails the test if a row is loaded twice, or is put into the wrong cell.
func (d *Database) Load(w workload.Workload, t *geo.Topology) *Database {
	d.t.Helper()
	d.topology, d.workload = t, w
	put := func(k txn.Key, value []byte) {
		if _, found := d.Get(k); found {
			d.fail("workload "+w.Name(), "%s is loaded twice", w.KeyName(k))
		}
		d.Hash.Load(k, value)
	}
	for home := range geo.Region(len(t.Regions)) {
		for p := range t.Partitions {
			if err := workload.FillCell(w, t, geo.Cell{Home: home, Partition: p}, put); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	if err := workload.FillEverywhere(w, put); err != nil {
		d.t.Fatal(err)
	}
	return d
}

// Rows returns the rows of the database, for workload.Workload.Audit.
func (d *Database) Rows() workload.Rows {
	if d.traced {
		return audit.Traced(d.Hash)
	}
	return audit.All(d.Hash)
}

// Run runs a transaction to completion and applies its writes. It returns the procedure's result, without the trace. If
// the footprint is not exact and a workload is loaded, the outcome has the class of the accessed rows.
func (d *Database) Run(t *txn.Transaction) txn.Outcome {
	d.t.Helper()
	if !d.traced {
		return d.run(t)
	}
	o := d.run(&txn.Transaction{ID: t.ID, Proc: t.Proc + history.Traced, Args: append(codec.AppendID(nil, t.ID), t.Args...)})
	if o.Status == txn.Committed {
		var err error
		if o.Result, _, err = history.SplitTrace(o.Result); err != nil {
			d.t.Errorf("%v: %v", t.ID, err)
		}
	}
	return o
}

func (d *Database) run(t *txn.Transaction) txn.Outcome {
	d.t.Helper()
	writes, o := d.execute(t)
	d.Apply(t.ID, writes)
	return o
}

// execute runs a transaction and returns its writes if it commits. It runs the procedure twice, because databases may
// re-execute a procedure.
func (d *Database) execute(t *txn.Transaction) ([]txn.WriteEntry, txn.Outcome) {
	d.t.Helper()
	if err := d.procedures.Prepare(t); err != nil {
		d.t.Fatal(err)
	}
	p := d.procedures.Lookup(t.Proc)
	if k, ok := twice(t.Accesses); ok {
		d.fail(p.Name, "the footprint names %v twice: add a row without a group once, with all that is done to it", d.name(k))
	}
	writes, result, c, err := d.attempt(p, t)
	c.untouched(func(what string, table txn.Table) { d.untouched[fmt.Sprintf("%s: %s of t%d", p.Name, what, table)]++ })
	var class txn.Class
	if !t.Exact && d.topology != nil {
		class = d.topology.Placement().Class(c.touched)
	}
	again, other, _, otherErr := d.attempt(p, t)
	switch {
	case fmt.Sprint(err) != fmt.Sprint(otherErr):
		d.fail(p.Name, "the procedure ends with the error %v, and with %v the second time, though it read the same rows", err, otherErr)
	case !bytes.Equal(result, other):
		d.fail(p.Name, "the procedure returns %x, and %x the second time, though it read the same rows", result, other)
	case len(writes) != len(again):
		d.fail(p.Name, "the procedure writes %d rows, and %d the second time, though it read the same rows", len(writes), len(again))
	}
	for i := range min(len(writes), len(again)) {
		if a, b := writes[i], again[i]; a.Key != b.Key || a.Deleted != b.Deleted || !bytes.Equal(a.Value, b.Value) {
			d.fail(p.Name, "the procedure writes %x to %v, and %x to %v the second time, though it read the same rows", a.Value, d.name(a.Key), b.Value, d.name(b.Key))
			break
		}
	}
	// Skip traced procedures: a traced Put reads its row, but cannot report that the read failed.
	if !c.failed && !d.traced && d.interrupted[p.ID] < interruptions {
		d.interrupted[p.ID]++
		for i := range c.read {
			d.interrupt(p, t, i, len(c.read))
		}
	}
	if err != nil {
		var abort txn.Abort
		if !errors.As(err, &abort) {
			d.fail(p.Name, "%v", err)
		}
		o := txn.AbortOutcome(t.ID, err)
		o.Class = class
		return nil, o
	}
	return writes, txn.Outcome{ID: t.ID, Status: txn.Committed, Class: class, Result: result}
}

// fail reports an error of a procedure or of the workload. For each format, it reports the first error immediately, and
// the number of errors at the end of the test.
func (d *Database) fail(who, format string, args ...any) {
	d.t.Helper()
	kind := who + ": " + format
	if d.failed[kind]++; d.failed[kind] > 1 {
		return
	}
	d.t.Errorf("%s: "+format, append([]any{who}, args...)...)
	d.t.Cleanup(func() {
		if n := d.failed[kind]; n > 1 {
			d.t.Logf("%s: %d mistakes are like this one: "+format, append([]any{who, n}, args...)...)
		}
	})
}

// name returns the workload's name of a key. Without a loaded workload it returns k.String().
func (d *Database) name(k txn.Key) string {
	if d.workload == nil {
		return k.String()
	}
	return d.workload.KeyName(k)
}

func (d *Database) rangeName(r *txn.Range) string {
	return d.name(r.From) + strings.TrimPrefix(r.String(), r.From.String())
}

// interruptions is the number of transactions per procedure that are also run with failing reads.
const interruptions = 20

// interrupt runs a transaction whose read i, of n reads counted from 0, fails.
func (d *Database) interrupt(p *txn.Procedure, t *txn.Transaction, i, n int) {
	d.t.Helper()
	c := interrupted{View: store.View{Rows: d.Hash}, left: i}
	err := func() (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause)
			}
		}()
		_, err = p.Run(&c, t.Args)
		return err
	}()
	switch {
	case err != errInterrupted:
		d.fail(p.Name, "the procedure returns the error %v where its read %d of %d has failed: return the error of the database as it is", err, i+1, n)
	case c.left < -1:
		d.fail(p.Name, "the procedure reads on where its read %d of %d has failed: return the error of the database at once", i+1, n)
	}
}

var errInterrupted = errors.New("the database has failed")

// interrupted is a view on which every read fails once left reads have succeeded.
type interrupted struct {
	store.View
	left int
}

func (c *interrupted) fails() bool {
	c.left--
	return c.left < 0
}

// Get implements txn.Ctx.
func (c *interrupted) Get(k txn.Key) ([]byte, error) {
	if c.fails() {
		return nil, errInterrupted
	}
	return c.View.Get(k)
}

// GetAll implements txn.Ctx.
func (c *interrupted) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(c, keys) }

// Scan implements txn.Ctx.
func (c *interrupted) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if c.fails() {
		return errInterrupted
	}
	return c.View.Scan(r, f)
}

// twice returns the first key that occurs twice in accesses; ok is false if there is none.
func twice(accesses []txn.Access) (txn.Key, bool) {
	seen := make(map[txn.Key]bool, len(accesses))
	for i := range accesses {
		if k := accesses[i].Key; seen[k] {
			return k, true
		}
		seen[accesses[i].Key] = true
	}
	return "", false
}

// attempt runs a procedure once. c records the rows that the procedure accesses.
func (d *Database) attempt(p *txn.Procedure, t *txn.Transaction) (writes []txn.WriteEntry, result []byte, c *checked, err error) {
	d.t.Helper()
	// Use a new view, so that the second run does not see the writes of the first run.
	c = &checked{d: d, View: store.View{Rows: d.Hash}, f: &t.Footprint, p: p}
	args := bytes.Clone(t.Args)
	result, err = p.Run(c, t.Args)
	c.unchanged()
	if !bytes.Equal(args, t.Args) {
		c.fail("the procedure changes its arguments, which nodes share: copy them first")
	}
	return c.Writes.Entries(), result, c, err
}

// Apply applies writes and returns the writes that undo them.
func (d *Database) Apply(id txn.ID, writes []txn.WriteEntry) (undo []txn.WriteEntry) {
	for _, w := range writes {
		r, found := d.Get(w.Key)
		undo = append(undo, txn.WriteEntry{Key: w.Key, Value: bytes.Clone(r.Value), Deleted: !found})
		if w.Deleted {
			d.Delete(w.Key)
		} else {
			d.Put(w.Key, w.Value, id)
		}
	}
	return undo
}

// checked is a view that reports the first rule of txn.Ctx, txn.Footprint and txn.Procedure that a procedure breaks.
type checked struct {
	store.View
	d        *Database
	p        *txn.Procedure
	f        *txn.Footprint
	scanning bool
	lent     []lent
	touched  []txn.Access // filled only if the footprint is not exact
	read     []txn.Range
	written  []txn.Key // units
	failed   bool
}

// lent is a value that the database has passed to a procedure and that the procedure must not change.
type lent struct {
	what   string
	key    txn.Key
	value  []byte // including the spare bytes after it
	before uint64 // hash of value before the procedure could change it
}

// spare is the number of bytes that follow a lent value. They detect a procedure that appends in place.
const spare = 8

// lend returns a copy of value and records it in lent. The copy keeps a faulty procedure from corrupting the database.
func (c *checked) lend(what string, k txn.Key, value []byte) []byte {
	if value == nil {
		return nil
	}
	room := make([]byte, len(value)+spare)
	copy(room, value)
	c.keep(what, k, room)
	return room[:len(value)]
}

// keep records a value that must not change.
func (c *checked) keep(what string, k txn.Key, value []byte) {
	c.lent = append(c.lent, lent{what, k, value, maphash.Bytes(hashSeed, value)})
}

var hashSeed = maphash.MakeSeed()

// unchanged checks that no recorded value has changed.
func (c *checked) unchanged() {
	for _, l := range c.lent {
		if maphash.Bytes(hashSeed, l.value) != l.before {
			c.fail("the procedure changes the value of %v that it %s, or what lies behind it in memory: copy it first", c.d.name(l.key), l.what)
		}
	}
}

func (c *checked) fail(format string, args ...any) {
	c.d.t.Helper()
	if !c.failed {
		c.d.fail(c.p.Name, format, args...)
	}
	c.failed = true
}

// check checks one use of the Ctx for the row or range r. named is set if the footprint includes r.
func (c *checked) check(what string, named bool, r txn.Range) {
	c.d.t.Helper()
	if !c.f.Exact && !r.From.Everywhere() {
		c.touched = append(c.touched, txn.Access{Key: r.From.Unit()})
	}
	if c.f.Exact && !named {
		c.fail("the procedure "+what+" %s, which its footprint does not name although it is said to be exact: "+
			"add it in Declare, or leave Exact false", c.d.rangeName(&r))
	}
	if c.scanning {
		c.fail("the procedure "+what+" %s from the function that it gave to Scan: use the Ctx after the scan", c.d.rangeName(&r))
	}
}

// untouched calls f for each access that an exact footprint declares and the procedure did not make.
func (c *checked) untouched(f func(what string, table txn.Table)) {
	if !c.f.Exact {
		return
	}
	reads := func(declared *txn.Range) bool {
		// A scan may stop early, and one declared range may be read in several pieces.
		return slices.ContainsFunc(c.read, func(r txn.Range) bool { return declared.Covers(&r) || r.Covers(declared) })
	}
	for _, a := range c.f.Accesses {
		row := txn.Point(a.Key)
		if a.Mode&txn.Read != 0 && !a.Key.Ordered() && !reads(&row) {
			f("read", a.Key.Table())
		}
		if a.Mode&txn.Write != 0 && !slices.Contains(c.written, a.Key) {
			f("write", a.Key.Table())
		}
	}
	for i := range c.f.Ranges {
		switch r := &c.f.Ranges[i]; {
		case reads(r):
		case r.Point():
			f("read", r.From.Table())
		default:
			f("scan", r.From.Table())
		}
	}
}

// checkWrite checks a Put or a Delete.
func (c *checked) checkWrite(what string, k txn.Key) {
	if c.p.ReadOnly {
		c.fail("the procedure "+what+" %s, although it is said to be ReadOnly", c.d.name(k))
	}
	c.check(what, c.f.Writes(k), txn.Point(k))
	// Consecutive writes to a unit are recorded once. Other duplicates are harmless.
	if unit := k.Unit(); len(c.written) == 0 || c.written[len(c.written)-1] != unit {
		c.written = append(c.written, unit)
	}
}

// Get implements txn.Ctx.
func (c *checked) Get(k txn.Key) ([]byte, error) {
	r := txn.Point(k)
	c.check("reads", c.f.Reads(&r), r)
	c.read = append(c.read, r)
	value, err := c.View.Get(k)
	return c.lend("got", k, value), err
}

// GetAll implements txn.Ctx.
func (c *checked) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(c, keys) }

// Scan implements txn.Ctx.
func (c *checked) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	c.check("scans", c.f.Reads(&r), r)
	c.read = append(c.read, r)
	c.scanning = true
	defer func() { c.scanning = false }()
	return c.View.Scan(r, func(k txn.Key, value []byte) bool { return f(k, c.lend("scanned", k, value)) })
}

// Put implements txn.Ctx. The database owns value after the call.
func (c *checked) Put(k txn.Key, value []byte) {
	c.checkWrite("writes", k)
	c.keep("has put", k, value)
	c.View.Put(k, value)
}

// Delete implements txn.Ctx.
func (c *checked) Delete(k txn.Key) {
	c.checkWrite("deletes", k)
	if !c.p.Deletes.Has(k.Table()) {
		c.fail("the procedure deletes %s, and table %d is not among its Deletes", c.d.name(k), k.Table())
	}
	c.View.Delete(k)
}
