// Package workloadtest helps to test workloads: a database of one copy that runs their procedures one after the other, and
// holds each to what it has declared.
package workloadtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

// Database is one copy of all rows.
type Database struct {
	*store.Hash
	t          testing.TB
	procedures *txn.Registry
	traced     bool
	played     uint64 // transactions of Play
}

// New returns an empty database that fails t when a procedure touches what it has not declared.
func New(t testing.TB, procedures ...*txn.Procedure) *Database {
	return &Database{Hash: store.NewHash(), t: t, procedures: txn.NewRegistry(procedures...)}
}

// NewTraced is New, but Run calls the traced forms of the procedures: see history.Trace.
func NewTraced(t testing.TB, procedures ...*txn.Procedure) *Database {
	return &Database{Hash: store.NewHash(), t: t, procedures: txn.NewRegistry(history.TraceAll(procedures...)...), traced: true}
}

// Load loads all rows of a workload. It fails the test when a row is loaded twice, or into a cell that it does not lie in.
func (d *Database) Load(w workload.Workload, t *geo.Topology) *Database {
	d.t.Helper()
	put := func(k txn.Key, value []byte) {
		if _, found := d.Get(k); found {
			d.t.Errorf("workload %s: %s is loaded twice", w.Name(), w.KeyName(k))
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

// Rows are those of the database, for workload.Workload.Audit.
func (d *Database) Rows() workload.Rows {
	if d.traced {
		return audit.Traced(d.Hash)
	}
	return audit.All(d.Hash)
}

// Run runs a transaction to its end and applies its writes. The result is the procedure's own, traced or not.
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
	d.apply(t.ID, writes)
	return o
}

// execute runs a transaction and returns what it would write, if it commits.
func (d *Database) execute(t *txn.Transaction) ([]txn.WriteEntry, txn.Outcome) {
	d.t.Helper()
	if err := d.procedures.Prepare(t); err != nil {
		d.t.Fatal(err)
	}
	p := d.procedures.Lookup(t.Proc)
	c := checked{View: store.View{Rows: d.Hash}, f: &t.Footprint}
	result, err := p.Run(&c, t.Args)
	if c.err != nil {
		d.t.Errorf("%s: %v", p.Name, c.err)
	}
	if err != nil {
		var abort txn.Abort
		if !errors.As(err, &abort) {
			d.t.Errorf("%s: %v", p.Name, err)
		}
		return nil, txn.AbortOutcome(t.ID, err)
	}
	return c.Writes.Entries(), txn.Outcome{ID: t.ID, Status: txn.Committed, Result: result}
}

// apply makes writes and returns those that take them back.
func (d *Database) apply(id txn.ID, writes []txn.WriteEntry) (undo []txn.WriteEntry) {
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

// checked is a view that notes the first use of a row that an exact footprint does not name.
type checked struct {
	store.View
	f   *txn.Footprint
	err error
}

func (c *checked) check(what string, named bool, where fmt.Stringer) {
	if c.f.Exact && !named && c.err == nil {
		c.err = fmt.Errorf("the procedure %s %v, which its footprint does not name although it is said to be exact: "+
			"add it in Declare, or leave Exact false", what, where)
	}
}

// Get implements txn.Ctx.
func (c *checked) Get(k txn.Key) ([]byte, error) {
	r := txn.Point(k)
	c.check("reads", c.f.Reads(&r), k)
	return c.View.Get(k)
}

// GetAll implements txn.Ctx.
func (c *checked) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(c, keys) }

// Scan implements txn.Ctx.
func (c *checked) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	c.check("scans", c.f.Reads(&r), &r)
	return c.View.Scan(r, f)
}

// Put implements txn.Ctx.
func (c *checked) Put(k txn.Key, value []byte) {
	c.check("writes", c.f.Writes(k), k)
	c.View.Put(k, value)
}

// Delete implements txn.Ctx.
func (c *checked) Delete(k txn.Key) {
	c.check("deletes", c.f.Writes(k), k)
	c.View.Delete(k)
}
