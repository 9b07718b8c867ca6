// Package optimistic executes transactions before they are ordered, and records their reads for later validation. This
// is the read phase of optimistic concurrency control (H. T. Kung and J. T. Robinson, On Optimistic Methods for
// Concurrency Control, TODS 6(2), 1981). It requires that a node stores all rows that a procedure may need.
//
// A read set identifies the version of each row by its writer, so the store keeps only one version per row. A scan is
// recorded as the range that the procedure has read, with all its rows. Validation therefore detects phantoms: rows
// inserted into the range.
package optimistic

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Written is an uncommitted version of a row.
type Written struct {
	txn.WriteEntry
	// Writer is the transaction that wrote the version. It precedes the reading transaction by Back transactions.
	Writer txn.ID
	Back   uint64
}

// Uncommitted provides uncommitted versions, which replace the committed ones.
type Uncommitted interface {
	// Get returns the newest uncommitted version of a row, if there is one.
	Get(k txn.Key) (w Written, found bool)
	// Scan calls f for the uncommitted rows in [from, to), in key order, until f returns false.
	Scan(from, to txn.Key, f func(Written) bool)
}

// Execution runs procedures, one at a time. It implements txn.Ctx.
type Execution struct {
	// Committed provides the rows as of the last commit.
	Committed store.Reader
	// Uncommitted, if not nil, takes precedence over Committed.
	Uncommitted Uncommitted

	t      *txn.Transaction
	hint   int  // index of the access that declared found last
	stray  bool // the procedure has used a row outside its exact footprint
	reads  Reads
	writes txn.WriteSet
	rows   []merged // buffer for scan
}

// Run runs the transaction's procedure. It returns the procedure's error, or txn.ErrUndeclared if the procedure used a
// row outside its exact footprint.
func (e *Execution) Run(procs *txn.Registry, t *txn.Transaction) (result []byte, err error) {
	e.t, e.hint, e.stray = t, 0, false
	clear(e.reads.Points)
	clear(e.reads.Ranges)
	e.reads = Reads{e.reads.Points[:0], e.reads.Ranges[:0]}
	e.writes.Reset()
	result, err = procs.Lookup(t.Proc).Run(e, t.Args)
	// The procedure may have swallowed the error of an undeclared access, so its own result does not count.
	if e.stray {
		return nil, txn.ErrUndeclared
	}
	return result, err
}

// Outcome runs the transaction's procedure and returns the outcome for its client. The outcome is valid only if the
// validation of the recorded reads succeeds.
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

// Reads returns a copy of the reads of the last run.
func (e *Execution) Reads() Reads {
	return Reads{slices.Clone(e.reads.Points), slices.Clone(e.reads.Ranges)}
}

// Writes returns the writes of the last run, in key order. The slice is valid until the next run.
func (e *Execution) Writes() []txn.WriteEntry { return e.writes.Entries() }

// Class returns the class of the rows that the last run used, or of the footprint if it is exact.
func (e *Execution) Class(p geo.Placement) txn.Class {
	if e.t.Exact {
		return p.Class(e.t.Accesses)
	}
	used := slices.Clone(e.t.Accesses)
	add := func(k txn.Key) {
		// Every node stores this row, so it has no home that could change the class.
		if !k.Everywhere() {
			used = append(used, txn.Access{Key: k})
		}
	}
	for i := range e.reads.Points {
		add(e.reads.Points[i].Key)
	}
	for i := range e.reads.Ranges {
		// A scan stays inside one group, so its first key determines the home and partition of the whole range.
		add(e.reads.Ranges[i].From)
	}
	for _, w := range e.writes.Entries() {
		add(w.Key)
	}
	return p.Class(used)
}

// few is the number of points up to which note removes duplicates by a linear search.
const few = 16

// note records the read of a row. With more than few points it may record a row repeatedly.
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

// declared returns the footprint's access to a row without a group, or nil. The search starts at the access found last.
func (e *Execution) declared(k txn.Key) *txn.Access {
	all := e.t.Accesses
	// Procedures tend to use rows in the order of their footprint, so the next row is usually at the hint or right after
	// it.
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

// mayRead reports whether the footprint allows a read. If not, it sets e.stray.
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

// mayWrite sets e.stray if the footprint does not allow a write.
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
	// A read of the transaction's own write does not depend on the database, so it needs no validation.
	if w := e.writes.Get(k); w != nil {
		return value(w.Value, !w.Deleted)
	}
	r := txn.Point(k)
	if !e.mayRead(&r) {
		return nil, txn.ErrUndeclared
	}
	// Rows that every node stores are read-only during a run, so reads of these rows are not validated.
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
	// An absent row is recorded, too: an insertion by another transaction must invalidate this read.
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

// merged is a row of a scan with its committed version, its uncommitted version, or both.
type merged struct {
	key         txn.Key
	record      store.Record
	written     Written
	committed   bool
	uncommitted bool
}

// scan calls f for the rows of a range; uncommitted versions replace committed ones. It records only the part of the
// range up to the last row passed to f.
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
			// A deleted row does not count toward the limit. Without a limit, left starts at 0 and never returns to it.
			left--
			more = f(m.key, v) && left != 0
		}
	}
	noted := Range{From: r.From, To: r.To}
	// The procedure stopped here, so later changes beyond this row cannot have influenced it.
	if !more {
		last := at(seen - 1).key
		if r.Reverse {
			noted.From = last
		} else {
			// To is exclusive, and this is the smallest key after last.
			noted.To = last + "\x00"
		}
	}
	for i := range all {
		m := &all[i]
		if !noted.Contains(m.key) {
			continue
		}
		// The committed version is recorded even if an uncommitted version hides it, because Range.holds expects every
		// committed row of the range.
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

// merge collects, in key order, all rows that scan may need. For a range with a limit it may collect more rows than the
// limit.
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
		base.Limit += len(e.rows) // each uncommitted deletion may hide a committed row
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
