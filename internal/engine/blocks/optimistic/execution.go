// Package optimistic executes transactions before they are ordered, and records their reads for later validation. This
// is the read phase of optimistic concurrency control (H. T. Kung and J. T. Robinson, On Optimistic Methods for
// Concurrency Control, TODS 6(2), 1981). It is for engines with nodes that store all rows which a procedure may need.
//
// A read set names the version of each row by its writer, so the store needs to keep only one version of a row. A scan
// is recorded as the range that the procedure has read, with all rows in it. So validation detects a row that is
// inserted into the range, a phantom.
package optimistic

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Written is a version of a row that is not committed.
type Written struct {
	txn.WriteEntry
	// Writer is the transaction that wrote the version. It precedes the reading transaction by Back transactions.
	Writer txn.ID
	Back   uint64
}

// Uncommitted provides versions that are newer than the committed ones.
type Uncommitted interface {
	// Get returns the newest uncommitted version of a row, if there is one.
	Get(k txn.Key) (w Written, found bool)
	// Scan calls f for the uncommitted rows from From up to, but not including, To, in the order of their keys, until f
	// returns false.
	Scan(from, to txn.Key, f func(Written) bool)
}

// Execution runs procedures, one after the other. It implements txn.Ctx.
type Execution struct {
	// Committed are the rows as of the last commit.
	Committed store.Reader
	// Uncommitted, if not nil, is read before them.
	Uncommitted Uncommitted

	t      *txn.Transaction
	hint   int  // the access used last
	stray  bool // the procedure has used what its exact footprint does not name
	reads  Reads
	writes txn.WriteSet
	rows   []merged // room for Scan
}

// Run runs the transaction's procedure. The error is the procedure's, or txn.ErrUndeclared.
func (e *Execution) Run(procs *txn.Registry, t *txn.Transaction) (result []byte, err error) {
	e.t, e.hint, e.stray = t, 0, false
	clear(e.reads.Points)
	clear(e.reads.Ranges)
	e.reads = Reads{e.reads.Points[:0], e.reads.Ranges[:0]}
	e.writes.Reset()
	result, err = procs.Lookup(t.Proc).Run(e, t.Args)
	if e.stray {
		return nil, txn.ErrUndeclared
	}
	return result, err
}

// Outcome runs the transaction's procedure and returns the outcome for its client, which is valid once its reads are
// validated.
func (e *Execution) Outcome(procs *txn.Registry, t *txn.Transaction, p geo.Placement) txn.Outcome {
	result, err := e.Run(procs, t)
	o := txn.Outcome{ID: t.ID, Status: txn.Committed, Result: result}
	if err != nil {
		o = txn.AbortOutcome(t.ID, err)
	}
	if !t.Exact {
		o.Class = e.Class(p)
	}
	return o
}

// Reads returns a copy of the last run's reads.
func (e *Execution) Reads() Reads {
	return Reads{slices.Clone(e.reads.Points), slices.Clone(e.reads.Ranges)}
}

// Writes returns the last run's writes, in key order. They are valid until the next run.
func (e *Execution) Writes() []txn.WriteEntry { return e.writes.Entries() }

// Class returns the class of the rows that the last run has used, or the footprint's class if the footprint is exact.
func (e *Execution) Class(p geo.Placement) txn.Class {
	if e.t.Exact {
		return p.Class(e.t.Accesses)
	}
	used := slices.Clone(e.t.Accesses)
	add := func(k txn.Key) {
		if !k.Everywhere() {
			used = append(used, txn.Access{Key: k})
		}
	}
	for i := range e.reads.Points {
		add(e.reads.Points[i].Key)
	}
	for i := range e.reads.Ranges {
		add(e.reads.Ranges[i].From)
	}
	for _, w := range e.writes.Entries() {
		add(w.Key)
	}
	return p.Class(used)
}

// few is the number of points up to which Get searches linearly for a point recorded before.
const few = 16

// note notes the read of a row.
func (e *Execution) note(p Point) {
	if len(e.reads.Points) <= few {
		for i := range e.reads.Points {
			if e.reads.Points[i].Key == p.Key {
				return
			}
		}
	}
	e.reads.Points = append(e.reads.Points, p)
}

// declared returns the access by way of which a row without a group may be used, or nil.
func (e *Execution) declared(k txn.Key) *txn.Access {
	all := e.t.Accesses
	for range all {
		if e.hint >= len(all) {
			e.hint = 0
		}
		if all[e.hint].Key == k {
			return &all[e.hint]
		}
		e.hint++
	}
	return nil
}

// mayRead reports whether the footprint allows a read, and notes that the procedure has gone astray where it does not.
func (e *Execution) mayRead(r *txn.Range) bool {
	switch {
	case !e.t.Exact:
		return true
	case r.From.Marked():
		e.stray = e.stray || !e.t.Reads(r)
	default:
		a := e.declared(r.From)
		e.stray = e.stray || a == nil || a.Mode&txn.Read == 0
	}
	return !e.stray
}

// mayWrite does the same for a write.
func (e *Execution) mayWrite(k txn.Key) {
	switch {
	case !e.t.Exact:
	case k.Marked():
		e.stray = e.stray || !e.t.Writes(k)
	default:
		a := e.declared(k)
		e.stray = e.stray || a == nil || a.Mode&txn.Write == 0
	}
}

// Get implements txn.Ctx.
func (e *Execution) Get(k txn.Key) ([]byte, error) {
	if w := e.writes.Get(k); w != nil {
		return value(w.Value, !w.Deleted)
	}
	r := txn.Point(k)
	if !e.mayRead(&r) {
		return nil, txn.ErrUndeclared
	}
	if k.Everywhere() {
		rec, found := e.Committed.Get(k)
		return value(rec.Value, found)
	}
	if e.Uncommitted != nil {
		if w, found := e.Uncommitted.Get(k); found {
			e.note(Point{Key: k, Writer: w.Writer, Back: w.Back, Absent: w.Deleted})
			return value(w.Value, !w.Deleted)
		}
	}
	rec, found := e.Committed.Get(k)
	e.note(Point{Key: k, Writer: rec.Writer, Absent: !found})
	return value(rec.Value, found)
}

func value(v []byte, found bool) ([]byte, error) {
	if !found {
		return nil, txn.ErrNotFound
	}
	return v, nil
}

// GetAll implements txn.Ctx.
func (e *Execution) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(e, keys) }

// Scan implements txn.Ctx.
func (e *Execution) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if err := r.CheckScan(); err != nil {
		return err
	}
	if !e.mayRead(&r) {
		return txn.ErrUndeclared
	}
	return e.writes.Scan(r, func(r txn.Range, f func(txn.Key, []byte) bool) error {
		e.scan(r, f)
		return nil
	}, f)
}

// merged is a row of a scan: a committed version, an uncommitted one, or both.
type merged struct {
	key         txn.Key
	record      store.Record
	written     Written
	committed   bool
	uncommitted bool
}

// scan calls f for the rows of a range, with uncommitted rows in place of committed ones. It records the part of the
// range that f has seen.
func (e *Execution) scan(r txn.Range, f func(txn.Key, []byte) bool) {
	e.merge(&r)
	all, seen := e.rows, 0
	at := func(i int) *merged {
		if r.Reverse {
			return &all[len(all)-1-i]
		}
		return &all[i]
	}
	more, left := true, r.Limit
	for more && seen < len(all) {
		m := at(seen)
		seen++
		v, there := m.record.Value, m.committed
		if m.uncommitted {
			v, there = m.written.Value, !m.written.Deleted
		}
		if there {
			left--
			more = f(m.key, v) && left != 0
		}
	}
	noted := Range{From: r.From, To: r.To}
	if !more {
		last := at(seen - 1).key
		if r.Reverse {
			noted.From = last
		} else {
			noted.To = last + "\x00"
		}
	}
	for i := range all {
		m := &all[i]
		if !noted.Contains(m.key) {
			continue
		}
		if m.committed {
			noted.Rows = append(noted.Rows, Version{m.key, m.record.Writer})
		}
		if m.uncommitted {
			e.note(Point{Key: m.key, Writer: m.written.Writer, Back: m.written.Back, Absent: m.written.Deleted})
		}
	}
	e.reads.Ranges = append(e.reads.Ranges, noted)
	clear(all)
}

// merge gathers, in the order of keys, all that scan may need of a range, and more of a range with a limit.
func (e *Execution) merge(r *txn.Range) {
	e.rows = e.rows[:0]
	base := *r
	if e.Uncommitted != nil {
		e.Uncommitted.Scan(r.From, r.To, func(w Written) bool {
			e.rows = append(e.rows, merged{key: w.Key, written: w, uncommitted: true})
			return true
		})
	}
	if base.Limit > 0 {
		base.Limit += len(e.rows) // as many may be hidden
	}
	uncommitted := len(e.rows)
	e.Committed.Scan(base, func(k txn.Key, rec store.Record) bool {
		at, found := slices.BinarySearchFunc(e.rows[:uncommitted], k, func(m merged, k txn.Key) int { return compare(m.key, k) })
		if found {
			e.rows[at].record, e.rows[at].committed = rec, true
		} else {
			e.rows = append(e.rows, merged{key: k, record: rec, committed: true})
		}
		return true
	})
	slices.SortFunc(e.rows, func(a, b merged) int { return compare(a.key, b.key) })
}

func compare(a, b txn.Key) int { return strings.Compare(string(a), string(b)) }

// Put implements txn.Ctx.
func (e *Execution) Put(k txn.Key, value []byte) {
	e.mayWrite(k)
	e.writes.Put(k, value)
}

// Delete implements txn.Ctx.
func (e *Execution) Delete(k txn.Key) {
	e.mayWrite(k)
	e.writes.Delete(k)
}
