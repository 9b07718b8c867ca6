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
	// Writer is the transaction that wrote the version read, or 0 if the row was loaded or never existed.
	Writer txn.ID
	// Back is 0 for a committed version. Otherwise the version was uncommitted, and its writer preceded the reader by this
	// number of transactions at the reader's node.
	Back uint64
	// Absent is set if the row did not exist.
	Absent bool
}

// Range is the committed content of a scanned range of a group: all rows in [From, To). It extends only to the point
// where the procedure stopped reading; changes beyond that point do not matter.
type Range struct {
	From, To txn.Key
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

// Size returns the number of bytes that AppendTo appends.
func (r *Reads) Size() int {
	n := codec.SizeUvarint(uint64(len(r.Points))) + codec.SizeUvarint(uint64(len(r.Ranges)))
	for i := range r.Points {
		p := &r.Points[i]
		n += codec.SizeString(string(p.Key)) + codec.SizeUvarint(p.head()) + codec.SizeID(p.Writer)
	}
	for i := range r.Ranges {
		g := &r.Ranges[i]
		n += codec.SizeString(string(g.From)) + codec.SizeString(string(g.To)) + codec.SizeUvarint(uint64(len(g.Rows)))
		for j := range g.Rows {
			n += codec.SizeString(string(g.Rows[j].Key)) + codec.SizeID(g.Rows[j].Writer)
		}
	}
	return n
}

// head encodes Back and Absent: Absent is the low bit.
func (p *Point) head() uint64 {
	if p.Absent {
		return p.Back<<1 | 1
	}
	return p.Back << 1
}

// AppendTo appends the read set to b.
func (r *Reads) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(r.Points)))
	for i := range r.Points {
		p := &r.Points[i]
		b = codec.AppendID(codec.AppendUvarint(codec.AppendString(b, string(p.Key)), p.head()), p.Writer)
	}
	b = codec.AppendUvarint(b, uint64(len(r.Ranges)))
	for i := range r.Ranges {
		g := &r.Ranges[i]
		b = codec.AppendString(codec.AppendString(b, string(g.From)), string(g.To))
		b = codec.AppendUvarint(b, uint64(len(g.Rows)))
		for j := range g.Rows {
			b = codec.AppendID(codec.AppendString(b, string(g.Rows[j].Key)), g.Rows[j].Writer)
		}
	}
	return b
}

// maxBack is the maximum of Point.Back, which shares an integer with Point.Absent in messages.
const maxBack = 1<<48 - 1

// ReadReads decodes the output of Reads.AppendTo. It accepts only valid keys and ranges. The result aliases the
// reader's buffer.
func ReadReads(r *codec.Reader) Reads {
	var reads Reads
	if n := r.Count(5); n > 0 {
		reads.Points = make([]Point, n)
		for i := range reads.Points {
			p := &reads.Points[i]
			p.Key = r.Key()
			head := r.UvarintMax(maxBack<<1 | 1)
			p.Back, p.Absent = head>>1, head&1 != 0
			p.Writer = r.ID()
		}
	}
	if n := r.Count(3); n > 0 {
		reads.Ranges = make([]Range, n)
		for i := range reads.Ranges {
			g := &reads.Ranges[i]
			g.From, g.To = txn.Key(r.String()), txn.Key(r.String())
			whole := txn.Range{From: g.From, To: g.To}
			if r.Err() == nil && (whole.Point() || !whole.Valid()) {
				r.Fail(fmt.Errorf("%v is not a range that was scanned", &whole))
			}
			if rows := r.Count(3); rows > 0 {
				g.Rows = make([]Version, rows)
				for j := range g.Rows {
					g.Rows[j] = Version{r.Key(), r.ID()}
				}
			}
		}
	}
	return reads
}
