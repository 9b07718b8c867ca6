package txn

import (
	"slices"
	"strings"
)

// WriteEntry is a transaction's write to a row.
type WriteEntry struct {
	Key     Key
	Value   []byte
	Deleted bool
}

// Own copies the values of writes into a new allocation. Otherwise, the rows would keep the whole received message in
// memory.
func Own(writes []WriteEntry) {
	n := 0
	for i := range writes {
		n += len(writes[i].Value)
	}
	all := make([]byte, 0, n)
	for i := range writes {
		w := &writes[i]
		from := len(all)
		all = append(all, w.Value...)
		// Limit the capacity to the value, so that an append does not overwrite the next value.
		w.Value = all[from:len(all):len(all)]
	}
}

// WriteSet collects a transaction's writes until it commits, in key order. The zero value is an empty set.
type WriteSet struct{ entries []WriteEntry }

// Entries returns the writes, one entry per row, in key order. The slice is valid until the next change.
func (w *WriteSet) Entries() []WriteEntry { return w.entries }

// Len returns the number of rows written.
func (w *WriteSet) Len() int { return len(w.entries) }

// Grow allocates space for n more rows.
func (w *WriteSet) Grow(n int) { w.entries = slices.Grow(w.entries, n) }

// Reset removes all writes.
func (w *WriteSet) Reset() {
	clear(w.entries)
	w.entries = w.entries[:0]
}

func (w *WriteSet) search(k Key) (int, bool) {
	// Fast path: most transactions write rows in key order.
	if n := len(w.entries); n == 0 || w.entries[n-1].Key < k {
		return n, false
	}
	return slices.BinarySearchFunc(w.entries, k, func(e WriteEntry, k Key) int { return strings.Compare(string(e.Key), string(k)) })
}

func (w *WriteSet) set(e WriteEntry) {
	at, found := w.search(e.Key)
	if found {
		w.entries[at] = e
		return
	}
	w.entries = slices.Insert(w.entries, at, e)
}

// Put writes a row.
func (w *WriteSet) Put(k Key, value []byte) { w.set(WriteEntry{Key: k, Value: value}) }

// Delete deletes a row.
func (w *WriteSet) Delete(k Key) { w.set(WriteEntry{Key: k, Deleted: true}) }

// Get returns the write of row k, or nil if the transaction has not written it.
func (w *WriteSet) Get(k Key) *WriteEntry {
	if at, found := w.search(k); found {
		return &w.entries[at]
	}
	return nil
}

// in returns the writes in a range.
func (w *WriteSet) in(r *Range) []WriteEntry {
	from, _ := w.search(r.From)
	to, _ := w.search(r.To)
	return w.entries[from:to]
}

// Widen returns the range of database rows that Scan needs in order to determine the rows of r.
func (w *WriteSet) Widen(r Range) Range {
	if r.Limit == 0 || r.Point() {
		return r
	}
	for _, e := range w.in(&r) {
		// A deletion may hide a row of the database, so that one more row fits into the limit.
		if e.Deleted {
			r.Limit++
		}
	}
	return r
}

// Scan calls f for the rows of r as the transaction sees them; r must not be a point. It merges the transaction's
// writes with the rows of the database, for which base calls its function.
func (w *WriteSet) Scan(r Range, base func(r Range, f func(Key, []byte) bool) error, f func(Key, []byte) bool) error {
	if len(w.entries) == 0 {
		return base(r, f)
	}
	own := w.in(&r)
	if len(own) == 0 {
		return base(r, f)
	}
	left, more := r.Limit, true
	tell := func(k Key, v []byte) {
		left--
		more = f(k, v) && left != 0
	}
	// next passes the transaction's writes up to key k, which is the key of a database row, to f. It reports whether a
	// write has replaced that row.
	next := func(k Key, all bool) (replaced bool) {
		for more && len(own) > 0 {
			e := own[0]
			if r.Reverse {
				e = own[len(own)-1]
			}
			if order := strings.Compare(string(e.Key), string(k)); !all && (order > 0) != r.Reverse && order != 0 {
				return false
			}
			if r.Reverse {
				own = own[:len(own)-1]
			} else {
				own = own[1:]
			}
			if !e.Deleted {
				tell(e.Key, e.Value)
			}
			if e.Key == k {
				return true
			}
		}
		return false
	}
	err := base(w.Widen(r), func(k Key, v []byte) bool {
		if !next(k, false) && more {
			tell(k, v)
		}
		return more
	})
	// The remaining writes are after the last row of the database.
	if err == nil && more {
		next("", true)
	}
	return err
}
