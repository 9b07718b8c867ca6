package coco

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// run identifies an attempt at a transaction: the executing node, and the number of the attempt on that node, starting
// at 1.
type run struct {
	node   geo.NodeID
	number uint64
}

// row is the state of one row in the running epoch.
type row struct {
	txn.WriteEntry
	writer txn.ID
	// wts is the logical time of the transaction that wrote the row in this epoch, or 0. It identifies the version.
	wts uint64
	// rts is the time up to which the version is known to have been read; later writes need a higher time.
	rts uint64
	// locked is the run that holds the write lock; its number is 0 if the row is not locked.
	locked run
}

// scanned is a range that a transaction has scanned, with the time up to which the scan is valid.
type scanned struct {
	txn.Range
	rts uint64
}

// rows holds the rows of a node. The store has the state after the last committed epoch. The writes, reads and locks of
// the running epoch are separate. Times restart in each epoch, because all transactions of an epoch follow all
// transactions of the previous epoch. Discarding the separate entries rolls the epoch back.
type rows struct {
	store *store.Hash
	// logical is set if reads are validated with the logical clock (parameter concurrency).
	logical bool
	mistake mistake

	plain   map[txn.Key]*row
	ordered btree.Map[txn.Key, *row]
	order   []*row // all entries, in order of first use
	scans   map[txn.Key][]scanned
	locks   map[run][]*row
	// newer are the keys written by epochs that this node, as a new incarnation, has executed while it waits for the rows
	// of earlier epochs. It is nil at all other times.
	newer map[txn.Key]bool
}

func newRows(s *store.Hash, logical bool, m mistake) rows {
	return rows{store: s, logical: logical, mistake: m, plain: map[txn.Key]*row{}, scans: map[txn.Key][]scanned{}, locks: map[run][]*row{}}
}

// find returns the epoch's entry for a row, or nil.
func (e *rows) find(k txn.Key) *row {
	if k.Ordered() {
		w, _ := e.ordered.Get(k)
		return w
	}
	return e.plain[k]
}

// touch returns the epoch's entry for a row, and creates it if needed.
func (e *rows) touch(k txn.Key) *row {
	w := e.find(k)
	if w != nil {
		return w
	}
	// The key may refer to a message's buffer, which the entry would keep alive for the whole epoch.
	k = txn.Key(strings.Clone(string(k)))
	w = &row{WriteEntry: txn.WriteEntry{Key: k}}
	if k.Ordered() {
		e.ordered.Set(k, w)
	} else {
		e.plain[k] = w
	}
	e.order = append(e.order, w)
	return w
}

// Get implements store.Reader. The version is the time of the row's last write in this epoch, or 0 if the row is from
// the store.
func (e *rows) Get(k txn.Key) (store.Record, bool) {
	// wts 0 means that the epoch has read or locked the row but not written it: its value is in the store.
	if w := e.find(k); w != nil && w.wts > 0 {
		return store.Record{Value: w.Value, Version: w.wts, Writer: w.writer}, !w.Deleted
	}
	return e.store.Get(k)
}

// found is a row that a scan returns.
type found struct {
	key txn.Key
	store.Record
}

// Scan implements store.Reader.
func (e *rows) Scan(r txn.Range, f func(txn.Key, store.Record) bool) {
	var above []*row
	e.ordered.Ascend(r.From, func(k txn.Key, w *row) bool {
		// A deleted row must stay in the list, because it hides the row in the store.
		if k < r.To && w.wts > 0 {
			above = append(above, w)
		}
		return k < r.To
	})
	if len(above) == 0 {
		e.store.Scan(r, f)
		return
	}
	base := r
	if base.Limit > 0 {
		// Each of these rows can hide one row of the store, so the limit grows by their number.
		base.Limit += len(above)
	}
	var all []found
	e.store.Scan(base, func(k txn.Key, rec store.Record) bool {
		// A row that the epoch wrote or deleted replaces the stored version.
		if w := e.find(k); w == nil || w.wts == 0 {
			all = append(all, found{k, rec})
		}
		return true
	})
	for _, w := range above {
		if !w.Deleted {
			all = append(all, found{w.Key, store.Record{Value: w.Value, Version: w.wts, Writer: w.writer}})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(string(a.key), string(b.key)) })
	if r.Reverse {
		slices.Reverse(all)
	}
	// Apply the limit after merging: before that, rows of the epoch could still sort in front.
	if r.Limit > 0 && len(all) > r.Limit {
		all = all[:r.Limit]
	}
	for i := range all {
		if !f(all[i].key, all[i].Record) {
			return
		}
	}
}

// read returns the rows of ranges and their versions. A range of a single row has a version even if the row does not
// exist.
func (e *rows) read(ranges []txn.Range) (rows []raftgroup.Found, versions []uint64) {
	rows = make([]raftgroup.Found, len(ranges))
	versions = make([]uint64, 0, len(ranges))
	single := make(raftgroup.Found, 0, len(ranges))
	for i := range ranges {
		r := &ranges[i]
		if r.Point() {
			rec, there := e.Get(r.From)
			versions = append(versions, rec.Version)
			if there {
				single = append(single, txn.Row{Value: rec.Value})
				rows[i] = single[len(single)-1 : len(single) : len(single)]
			}
			continue
		}
		e.Scan(*r, func(k txn.Key, rec store.Record) bool {
			rows[i] = append(rows[i], txn.Row{Key: k, Value: rec.Value})
			versions = append(versions, rec.Version)
			return true
		})
	}
	return rows, versions
}

// readUntil returns the time up to which a row was read, individually or by a scan.
func (e *rows) readUntil(w *row) uint64 {
	// A version counts as read at the time of its write, even if no validation has extended its read time.
	rts := max(w.rts, w.wts)
	if w.Key.Ordered() {
		for i := range e.scans[w.Key.Unit()] {
			// A scan also covers the gaps between rows: a row inserted into the range needs a later time than the scan.
			if s := &e.scans[w.Key.Unit()][i]; s.Contains(w.Key) {
				rts = max(rts, s.rts)
			}
		}
	}
	return rts
}

// lock locks rows for a run, either all of them or none, without waiting. It returns the earliest time at which the run
// may write them.
func (e *rows) lock(x run, keys []Expected) (verdict Verdict, least uint64) {
	least = 1
	for i := range keys {
		k := &keys[i]
		w := e.touch(k.Key)
		switch {
		// Locks never wait, so two transactions cannot deadlock.
		case w.locked.number != 0 && w.locked != x:
			verdict = LockHeld
		// The row has changed since the run read it, so validation would fail anyway.
		case k.Known && w.wts != k.Version && e.mistake != unchecked:
			verdict = WriteChanged
		default:
			if w.locked != x {
				w.locked = x
				e.locks[x] = append(e.locks[x], w)
			}
			// A write must be later than every read of the old version: TicToc orders these readers before the writer.
			least = max(least, e.readUntil(w)+1)
			continue
		}
		// All or none: a run that keeps some locks while it backs off would abort other runs in vain.
		e.unlock(x)
		return verdict, 0
	}
	return Valid, least
}

// unlock releases all locks of a run.
func (e *rows) unlock(x run) {
	for _, w := range e.locks[x] {
		w.locked = run{}
	}
	delete(e.locks, x)
}

// validate reports whether the reads of a run are valid at a time. All rows must have the versions that were read, and
// no other run may write one of the rows up to that time. With the physical clock, no other run may hold a write lock
// on a row at all.
func (e *rows) validate(x run, at uint64, points []Expected, ranges []ExpectedRange) Verdict {
	for i := range points {
		p := &points[i]
		w := e.find(p.Key)
		switch {
		// The row was read from the store, which has version 0, and this epoch has no entry for it.
		case w == nil && p.Version == 0:
		case w == nil || w.wts != p.Version:
			return ReadChanged
		case e.blocked(x, w, at):
			return ReadLocked
		}
	}
	for i := range ranges {
		if v := e.validateRange(x, at, &ranges[i]); v != Valid {
			return v
		}
	}
	// The physical clock compares versions and locks only, as in Silo. The logical clock extends read times, as in TicToc.
	if !e.logical || e.mistake == unextended {
		return Valid
	}
	for i := range points {
		// Record the time of this read, so that a later lock chooses a write time after it.
		if w := e.touch(points[i].Key); at > w.rts {
			w.rts = at
		}
	}
	for i := range ranges {
		e.extend(ranges[i].seen(), at)
	}
	return Valid
}

// blocked reports whether another run may write a row up to a time.
func (e *rows) blocked(x run, w *row, at uint64) bool {
	if e.mistake == unextended {
		return false
	}
	// A lock holder writes after readUntil. If it may write at or before at, a read at that time would miss the write.
	return w.locked.number != 0 && w.locked != x && (!e.logical || e.readUntil(w) < at)
}

// validateRange validates a scan: the range must contain the same rows and versions as when it was scanned.
func (e *rows) validateRange(x run, at uint64, r *ExpectedRange) Verdict {
	same, left := true, r.Rows
	if e.mistake == rowsOnly {
		for i := range left {
			if rec, there := e.Get(left[i].Key); !there || rec.Version != left[i].Version {
				return ReadChanged
			}
		}
		return Valid
	}
	e.Scan(r.Range, func(k txn.Key, rec store.Record) bool {
		same = len(left) > 0 && left[0].Key == k && left[0].Version == rec.Version
		if same {
			left = left[1:]
		}
		return same
	})
	// A row that is missing at the end of the range is a change too, like an inserted row.
	if !same || len(left) > 0 {
		return ReadChanged
	}
	seen, verdict := r.seen(), Valid
	e.ordered.Ascend(seen.From, func(k txn.Key, w *row) bool {
		// The lock holder may insert or delete the row at a time before the scan, and the scan has not seen this change.
		if k < seen.To && e.blocked(x, w, at) {
			verdict = ReadLocked
		}
		return k < seen.To && verdict == Valid
	})
	return verdict
}

// extend records that a range was read up to a time.
func (e *rows) extend(r txn.Range, at uint64) {
	unit := r.From.Unit()
	all := e.scans[unit]
	for i := range all {
		// A repeated scan of a range needs no second entry. A scan inside a range that was read up to the same or a later
		// time needs none either. This bounds the list.
		if all[i].From <= r.From && r.To <= all[i].To && (all[i].rts >= at || all[i].Range == r) {
			all[i].rts = max(all[i].rts, at)
			return
		}
	}
	e.scans[txn.Key(strings.Clone(string(unit)))] = append(all, scanned{r, at})
}

// write applies the writes that a run makes at a time, and releases the run's locks on this node. Several nodes send
// writes of the same row, which may arrive in any order.
func (e *rows) write(x run, writer txn.ID, at uint64, writes []txn.WriteEntry) {
	for i := range writes {
		w := e.touch(writes[i].Key)
		// Writes of one row may arrive in another order than their times. The latest time wins on every copy (Thomas write
		// rule).
		if at > w.wts || e.mistake == arrival {
			w.Value, w.Deleted, w.writer, w.wts = writes[i].Value, writes[i].Deleted, writer, at
		}
	}
	e.unlock(x)
}

// dirty reports whether the epoch has written anything here.
func (e *rows) dirty() bool {
	return slices.ContainsFunc(e.order, func(w *row) bool { return w.wts > 0 })
}

// commit applies the epoch's writes to the store.
func (e *rows) commit() {
	for _, w := range e.order {
		// Rows written since the start of the transfer are newer than the transferred rows, which must not
		// replace them.
		if w.wts > 0 && e.newer != nil {
			e.newer[w.Key] = true
		}
		switch {
		case w.wts == 0:
		case w.Deleted:
			e.store.Delete(w.Key)
		default:
			// The value may be part of a message that other entries share, so the store keeps its own copy.
			e.store.Put(w.Key, slices.Clone(w.Value), w.writer)
		}
	}
	e.forget()
}

// forget discards the state of the epoch.
func (e *rows) forget() {
	clear(e.plain)
	e.ordered.Clear()
	clear(e.order)
	e.order = e.order[:0]
	clear(e.scans)
	clear(e.locks)
}

// snapshot returns the committed rows of a shard in key order, in pieces of at most limit bytes, but at least one row
// each. It returns at least one piece, which is empty if the shard is empty.
func (e *rows) snapshot(l *geo.Layout, shard, limit int) [][]SnapshotRow {
	pieces, bytes := [][]SnapshotRow{nil}, 0
	for _, w := range e.committed(l, shard) {
		last := len(pieces) - 1
		if bytes += w.size(); bytes > limit && len(pieces[last]) > 0 {
			pieces, bytes = append(pieces, nil), w.size()
			last++
		}
		pieces[last] = append(pieces[last], w)
	}
	return pieces
}

// committed returns the committed rows of a shard in key order.
func (e *rows) committed(l *geo.Layout, shard int) (all []SnapshotRow) {
	for _, k := range raftgroup.Keys(e.store, l, shard) {
		rec, _ := e.store.Get(k)
		all = append(all, SnapshotRow{k, rec.Writer, rec.Value})
	}
	return all
}

// drop deletes the committed rows of a shard.
func (e *rows) drop(l *geo.Layout, shard int) {
	for _, k := range raftgroup.Keys(e.store, l, shard) {
		e.store.Delete(k)
	}
}

// restore stores committed rows from a snapshot.
func (e *rows) restore(all []SnapshotRow) {
	for i := range all {
		e.store.Put(all[i].Key, slices.Clone(all[i].Value), all[i].Writer)
	}
}
