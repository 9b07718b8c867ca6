package optimistic

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Point is a row that was read, or found absent.
type Point struct {
	Key txn.Key
	// Back is 0 for a committed version. Otherwise the version was uncommitted, and its writer preceded the reader by this
	// number of transactions at the reader's node.
	Back uint64 `codec:"as=back"`
	// Absent is set if the row did not exist.
	Absent bool `codec:"-"` // encoded with Back
	// Writer is the transaction that wrote the version read, or 0 if the row was loaded or never existed.
	Writer txn.ID
}

// Range is the committed content of a scanned range of a group: all rows in [From, To). It extends only to the point
// where the procedure stopped reading; changes beyond that point do not matter.
type Range struct {
	From, To txn.Key `codec:"as=bound"`
	Rows     []Version
}

// Version identifies a version of a row by its writer.
type Version struct {
	Key    txn.Key
	Writer txn.ID
}

// Contains reports whether k is in the range.
func (r *Range) Contains(k txn.Key) bool { return r.From <= k && k < r.To }

// Reads is a transaction's read set. A row may occur several times.
//
//codec:part
type Reads struct {
	Points []Point
	Ranges []Range
}

// Hold reports whether the reads of committed rows are still current: no row has changed, and no row has been inserted
// into a range.
func (r *Reads) Hold(rows store.Reader) bool {
	for i := range r.Points {
		// Only committed versions can be compared with the store. Reads with Back > 0 depend on transactions that the
		// engine validates itself.
		if p := &r.Points[i]; p.Back == 0 && !p.holds(rows) {
			return false
		}
	}
	for i := range r.Ranges {
		if !r.Ranges[i].holds(rows, true) {
			return false
		}
	}
	return true
}

// Overtaken reports whether the reads can never be valid again. A replaced version does not return, whereas an inserted
// row may be deleted again.
func (r *Reads) Overtaken(rows store.Reader) bool {
	for i := range r.Points {
		// A row that was absent may be inserted now and deleted later, so an absent point proves nothing here.
		if p := &r.Points[i]; p.Back == 0 && !p.Absent && !p.holds(rows) {
			return true
		}
	}
	for i := range r.Ranges {
		if !r.Ranges[i].holds(rows, false) {
			return true
		}
	}
	return false
}

// Len returns the number of rows with recorded versions.
func (r *Reads) Len() int {
	n := len(r.Points)
	for i := range r.Ranges {
		n += len(r.Ranges[i].Rows)
	}
	return n
}

func (p *Point) holds(rows store.Reader) bool {
	rec, found := rows.Get(p.Key)
	return found != p.Absent && rec.Writer == p.Writer
}

// holds compares the range's current rows with the recorded rows. If all is set, inserted rows count as a difference.
func (r *Range) holds(rows store.Reader, all bool) bool {
	left, same := r.Rows, true
	rows.Scan(txn.Range{From: r.From, To: r.To}, func(k txn.Key, rec store.Record) bool {
		if len(left) > 0 && left[0].Key == k {
			same = left[0].Writer == rec.Writer
			left = left[1:]
			return same
		}
		same = !all && (len(left) == 0 || k < left[0].Key) // else a recorded row is missing
		return same
	})
	// Recorded rows that remain lie after the last current row: they were deleted.
	return same && len(left) == 0
}

// maxBack is the maximum of Point.Back.
const maxBack = 1<<48 - 1

// Back and Absent are encoded as one number. Absent is its low bit.

func (p *Point) back() uint64 {
	if p.Absent {
		return p.Back<<1 | 1
	}
	return p.Back << 1
}

func (p *Point) sizeBack() int { return codec.SizeUvarint(p.back()) }

func (p *Point) appendBack(b []byte) []byte { return codec.AppendUvarint(b, p.back()) }

func (p *Point) readBack(r *codec.Reader) {
	v := r.UvarintMax(maxBack<<1 | 1)
	p.Back, p.Absent = v>>1, v&1 != 0
}

// The bounds of a range need not be valid keys of rows.

func sizeBound(k txn.Key) int { return codec.SizeString(string(k)) }

func appendBound(b []byte, k txn.Key) []byte { return codec.AppendString(b, string(k)) }

func readBound(r *codec.Reader) txn.Key { return txn.Key(r.String()) }

func (r *Range) check() error {
	if whole := (txn.Range{From: r.From, To: r.To}); whole.Point() || !whole.Valid() {
		return fmt.Errorf("%v is not a range that was scanned", &whole)
	}
	return nil
}
