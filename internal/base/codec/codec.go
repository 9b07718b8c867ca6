// Package codec encodes and decodes the data that processes exchange: unsigned varints, length-prefixed bytes, and the
// transactions and outcomes composed of them. It imports no protocol and no driver, so both can use it.
//
// Appending never fails, and every append function has an exact size function. Reading is safe for any input. Values
// returned by a Reader may alias the input, which must not be changed or reused.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/geobench/geobench/internal/base/txn"
)

// AppendUvarint appends v in 1 to 10 bytes, 7 bits each.
func AppendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// SizeUvarint returns the number of bytes that AppendUvarint appends.
func SizeUvarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// AppendUint64 appends v in 8 bytes, little-endian. It is for hashes and other numbers that are rarely small.
func AppendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendBytes appends the length of v, followed by v.
func AppendBytes(b, v []byte) []byte { return append(AppendUvarint(b, uint64(len(v))), v...) }

// SizeBytes returns the number of bytes that AppendBytes appends.
func SizeBytes(v []byte) int { return SizeUvarint(uint64(len(v))) + len(v) }

// AppendString appends the length of s, followed by s.
func AppendString(b []byte, s string) []byte { return append(AppendUvarint(b, uint64(len(s))), s...) }

// SizeString returns the number of bytes that AppendString appends.
func SizeString(s string) int { return SizeUvarint(uint64(len(s))) + len(s) }

const counterBits = 40 // low bits of a transaction ID; the high bits are its stream

// AppendID appends the two parts of a transaction ID, which are small numbers.
func AppendID(b []byte, id txn.ID) []byte {
	b = AppendUvarint(b, uint64(id.Stream()))
	return AppendUvarint(b, uint64(id)&(1<<counterBits-1))
}

// SizeID returns the number of bytes that AppendID appends.
func SizeID(id txn.ID) int {
	return SizeUvarint(uint64(id.Stream())) + SizeUvarint(uint64(id)&(1<<counterBits-1))
}

// Flags for the optional parts of a transaction. If any part exists, the encoded procedure number is odd, and a byte of
// these flags follows it.
const (
	withAttempt = 1 << iota
	withFootprint
)

func extras(t *txn.Transaction) (e uint8) {
	if t.Attempt > 0 {
		e |= withAttempt
	}
	if t.Found {
		e |= withFootprint
	}
	return e
}

// AppendTransaction appends the ID, the procedure and its arguments, the attempt unless it is the first, and the
// footprint if it was found. A declared footprint follows from procedure and arguments and is not encoded.
func AppendTransaction(b []byte, t *txn.Transaction) []byte {
	b = AppendID(b, t.ID)
	e := extras(t)
	if e == 0 {
		b = AppendUvarint(b, uint64(t.Proc)<<1)
		return AppendBytes(b, t.Args)
	}
	b = append(AppendUvarint(b, uint64(t.Proc)<<1|1), e)
	if e&withAttempt != 0 {
		b = append(b, t.Attempt)
	}
	if e&withFootprint != 0 {
		b = AppendRanges(AppendAccesses(b, t.Accesses), t.Ranges)
	}
	return AppendBytes(b, t.Args)
}

// SizeTransaction returns the number of bytes that AppendTransaction appends.
func SizeTransaction(t *txn.Transaction) int {
	n := SizeID(t.ID) + SizeUvarint(uint64(t.Proc)<<1) + SizeBytes(t.Args)
	e := extras(t)
	if e == 0 {
		return n
	}
	n++
	if e&withAttempt != 0 {
		n++
	}
	if e&withFootprint != 0 {
		n += SizeAccesses(t.Accesses) + SizeRanges(t.Ranges)
	}
	return n
}

// AppendAccesses appends the number of accesses, and the mode and key of each.
func AppendAccesses(b []byte, accesses []txn.Access) []byte {
	b = AppendUvarint(b, uint64(len(accesses)))
	for i := range accesses {
		b = AppendString(append(b, byte(accesses[i].Mode)), string(accesses[i].Key))
	}
	return b
}

// SizeAccesses returns the number of bytes that AppendAccesses appends.
func SizeAccesses(accesses []txn.Access) int {
	n := SizeUvarint(uint64(len(accesses)))
	for i := range accesses {
		n += 1 + SizeString(string(accesses[i].Key))
	}
	return n
}

// Flags for the optional parts of a range, which follow its start.
const (
	rangeTo = 1 << iota
	rangeReverse
	rangeLimit
)

// AppendRange appends the encoded range.
func AppendRange(b []byte, r *txn.Range) []byte {
	var head uint8
	if !r.Point() {
		head |= rangeTo
	}
	if r.Reverse {
		head |= rangeReverse
	}
	if r.Limit > 0 {
		head |= rangeLimit
	}
	b = AppendString(append(b, head), string(r.From))
	if head&rangeTo != 0 {
		b = AppendString(b, string(r.To))
	}
	if head&rangeLimit != 0 {
		b = AppendUvarint(b, uint64(r.Limit))
	}
	return b
}

// SizeRange returns the number of bytes that AppendRange appends.
func SizeRange(r *txn.Range) int {
	n := 1 + SizeString(string(r.From))
	if !r.Point() {
		n += SizeString(string(r.To))
	}
	if r.Limit > 0 {
		n += SizeUvarint(uint64(r.Limit))
	}
	return n
}

// MinRange is the minimum size of an encoded range in bytes: see Reader.Count.
const MinRange = 2

// AppendRanges appends the number of ranges, followed by the ranges.
func AppendRanges(b []byte, ranges []txn.Range) []byte {
	b = AppendUvarint(b, uint64(len(ranges)))
	for i := range ranges {
		b = AppendRange(b, &ranges[i])
	}
	return b
}

// SizeRanges returns the number of bytes that AppendRanges appends.
func SizeRanges(ranges []txn.Range) int {
	n := SizeUvarint(uint64(len(ranges)))
	for i := range ranges {
		n += SizeRange(&ranges[i])
	}
	return n
}

// MinTransaction is the minimum size of an encoded transaction in bytes: see Reader.Count.
const MinTransaction = 4

// AppendRows appends the number of rows, and the key and value of each.
func AppendRows(b []byte, rows []txn.Row) []byte {
	b = AppendUvarint(b, uint64(len(rows)))
	for i := range rows {
		b = AppendBytes(AppendString(b, string(rows[i].Key)), rows[i].Value)
	}
	return b
}

// SizeRows returns the number of bytes that AppendRows appends.
func SizeRows(rows []txn.Row) int {
	n := SizeUvarint(uint64(len(rows)))
	for i := range rows {
		n += SizeString(string(rows[i].Key)) + SizeBytes(rows[i].Value)
	}
	return n
}

// Widths of the status and the cause in the byte that also holds an outcome's class.
const (
	statusBits = 3
	causeBits  = 3
)

// AppendWrites appends the number of writes, and for each its key, a size and the value. The size is 0 for a deleted
// row, otherwise the size of the value plus 1.
func AppendWrites(b []byte, writes []txn.WriteEntry) []byte {
	b = AppendUvarint(b, uint64(len(writes)))
	for i := range writes {
		w := &writes[i]
		b = AppendString(b, string(w.Key))
		if w.Deleted {
			b = append(b, 0)
		} else {
			b = append(AppendUvarint(b, uint64(len(w.Value))+1), w.Value...)
		}
	}
	return b
}

// SizeWrites returns the number of bytes that AppendWrites appends.
func SizeWrites(writes []txn.WriteEntry) int {
	n := SizeUvarint(uint64(len(writes)))
	for i := range writes {
		w := &writes[i]
		n += SizeString(string(w.Key))
		if w.Deleted {
			n++
		} else {
			n += SizeUvarint(uint64(len(w.Value))+1) + len(w.Value)
		}
	}
	return n
}

// Flags packs two booleans into a byte.
func Flags(a, b bool) (f uint8) {
	if a {
		f = 1
	}
	if b {
		f |= 2
	}
	return f
}

// AppendOutcome appends the encoded outcome.
func AppendOutcome(b []byte, o *txn.Outcome) []byte {
	b = AppendID(b, o.ID)
	b = append(b, byte(o.Status)|byte(o.Cause)<<statusBits|byte(o.Class)<<(statusBits+causeBits))
	b = AppendString(b, o.Reason)
	return AppendBytes(b, o.Result)
}

// SizeOutcome returns the number of bytes that AppendOutcome appends.
func SizeOutcome(o *txn.Outcome) int {
	return SizeID(o.ID) + 1 + SizeString(o.Reason) + SizeBytes(o.Result)
}

// MinOutcome is the minimum size of an encoded outcome in bytes: see Reader.Count.
const MinOutcome = 5

// Reader decodes a message body. After the first error, every method returns a zero value, so a decoder needs to check
// only once, with Done.
type Reader struct {
	b    []byte
	size int
	err  error
}

// NewReader returns a reader of b. The reader's results alias b, which must not be changed or reused.
func NewReader(b []byte) Reader { return Reader{b: b, size: len(b)} }

var (
	errShort    = errors.New("the body ends early")
	errOverflow = errors.New("a varint is longer than 64 bits, or longer than it need be")
)

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d of %d: %w", r.size-len(r.b), r.size, err)
	}
	// Without input, every later read fails, too, and a loop over elements stops early.
	r.b = nil
}

// Fail makes the reader fail with err. Decoders use it for additional checks.
func (r *Reader) Fail(err error) { r.fail(err) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes not yet read.
func (r *Reader) Len() int { return len(r.b) }

// Done returns the first error. If there is none but bytes are left, it returns an error with their number.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes are left over", len(r.b)))
	}
	return r.err
}

// Uint8 reads a byte.
func (r *Reader) Uint8() uint8 {
	if len(r.b) == 0 {
		r.fail(errShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Flags decodes the output of codec.Flags.
func (r *Reader) Flags() (a, b bool) {
	f := r.Uint8()
	if f > 3 {
		r.fail(fmt.Errorf("%#x has more than two flags", f))
	}
	return f&1 != 0, f&2 != 0
}

// Flag decodes the output of codec.Flags(a, false).
func (r *Reader) Flag() bool {
	a, b := r.Flags()
	if b {
		r.fail(errors.New("there are two flags instead of one"))
	}
	return a
}

// Uint64 reads 8 bytes, little-endian.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Uvarint decodes the output of AppendUvarint. It rejects padded varints, so that every value has a unique encoding.
func (r *Reader) Uvarint() uint64 {
	// Fast path for numbers below 128, the common case.
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	var v uint64
	for i, c := range r.b {
		// The tenth byte holds bit 63 only.
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			// A last byte of 0 adds no bits: the varint is padded.
			if c == 0 {
				break
			}
			r.b = r.b[i+1:]
			return v
		}
		if i == 9 {
			break
		}
	}
	// The varint has ended or exceeded 10 bytes, so more input would not make it valid.
	if len(r.b) >= 10 || (len(r.b) > 0 && r.b[len(r.b)-1] < 0x80) {
		r.fail(errOverflow)
	} else {
		r.fail(errShort)
	}
	return 0
}

// UvarintMax decodes a varint and rejects values above limit.
func (r *Reader) UvarintMax(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.fail(fmt.Errorf("%d is more than %d", v, limit))
		return 0
	}
	return v
}

// UvarintIn decodes a varint and rejects values below first and above last.
func (r *Reader) UvarintIn(first, last uint64) uint64 {
	v := r.UvarintMax(last)
	if r.err == nil && v < first {
		r.fail(fmt.Errorf("%d is less than %d", v, first))
		return 0
	}
	return v
}

// ReadEnum reads a byte and rejects values outside the enumeration from first to last.
func ReadEnum[T ~uint8](r *Reader, first, last T) T {
	v := T(r.Uint8())
	if r.err == nil && (v < first || v > last) {
		r.fail(fmt.Errorf("%d is not a %T", uint8(v), v))
	}
	return v
}

// Count decodes the number of the following elements, each of at least size bytes. It rejects a number that cannot fit
// into the remaining body, so that a decoder may allocate that number of elements.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/max(size, 1)) {
		r.fail(fmt.Errorf("%d elements of at least %d bytes do not fit into %d bytes", n, size, len(r.b)))
		return 0
	}
	return int(n)
}

// Bytes decodes the output of AppendBytes. It returns nil if the length is 0.
func (r *Reader) Bytes() []byte { return r.Take(r.Uvarint()) }

// Take reads n bytes. It returns nil if n is 0.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	// The capacity ends with the value, so an append by the caller cannot overwrite the following bytes.
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// String decodes the output of AppendString. The string aliases the body, so a few short strings keep the whole body in
// memory.
func (r *Reader) String() string {
	b := r.Bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// ID decodes the output of AppendID.
func (r *Reader) ID() txn.ID {
	stream := r.UvarintMax(1<<(64-counterBits) - 1)
	n := r.UvarintMax(1<<counterBits - 1)
	return txn.MakeID(uint32(stream), n)
}

// Transaction decodes the output of AppendTransaction into t. If the encoding has no footprint, t.Footprint is empty
// afterwards; txn.Registry.Prepare then fills and checks it.
func (r *Reader) Transaction(t *txn.Transaction) {
	t.ID = r.ID()
	// A procedure number has 16 bits, and another bit indicates extras.
	head := r.UvarintMax(1<<17 - 1)
	t.Proc, t.Attempt, t.Found = txn.ProcID(head>>1), 0, false
	t.Accesses = t.Accesses[:0]
	t.Ranges = t.Ranges[:0]
	if head&1 != 0 {
		e := r.Uint8()
		// AppendTransaction writes this byte only if a flag is set, so 0 would be a second encoding.
		if e == 0 || e&^(withAttempt|withFootprint) != 0 {
			r.fail(fmt.Errorf("%d does not say what comes with a transaction", e))
		}
		if e&withAttempt != 0 {
			// AppendTransaction omits the number of the first attempt, so 0 would be a second encoding.
			if t.Attempt = r.Uint8(); t.Attempt == 0 && r.err == nil {
				r.fail(errors.New("the first attempt is said to be another one"))
			}
		}
		if e&withFootprint != 0 {
			t.Found = true
			t.Footprint = txn.Footprint{Accesses: r.Accesses(t.Accesses), Ranges: r.Ranges(), Exact: true}
		}
	}
	t.Args = r.Bytes()
}

// Accesses appends decoded accesses to dst. It accepts only valid modes and keys.
func (r *Reader) Accesses(dst []txn.Access) []txn.Access {
	// An access takes at least two bytes: its mode and the length of its key.
	n := r.Count(2)
	if cap(dst)-len(dst) < n {
		dst = append(make([]txn.Access, 0, len(dst)+n), dst...)
	}
	for range n {
		a := txn.Access{Mode: txn.Mode(r.Uint8()), Key: txn.Key(r.String())}
		if r.err == nil && (a.Mode == 0 || a.Mode&^txn.ReadWrite != 0 || !a.Key.Valid()) {
			r.fail(fmt.Errorf("%v is not a valid access", a.Key))
		}
		dst = append(dst, a)
	}
	return dst
}

// Ranges decodes the output of AppendRanges. It accepts only valid ranges.
func (r *Reader) Ranges() []txn.Range {
	n := r.Count(MinRange)
	if n == 0 {
		return nil
	}
	ranges := make([]txn.Range, n)
	for i := range ranges {
		ranges[i] = r.Range()
	}
	return ranges
}

// Range decodes the output of AppendRange. It accepts only a valid range.
func (r *Reader) Range() txn.Range {
	head := r.Uint8()
	g := txn.Range{From: txn.Key(r.String()), Reverse: head&rangeReverse != 0}
	if head&rangeTo != 0 {
		g.To = txn.Key(r.String())
	}
	if head&rangeLimit != 0 {
		g.Limit = int(r.UvarintMax(1<<31 - 1))
	}
	// A flag must agree with its part, or a range would have several encodings.
	if r.err == nil && (head&^(rangeTo|rangeReverse|rangeLimit) != 0 || g.Point() != (head&rangeTo == 0) ||
		(g.Limit > 0) != (head&rangeLimit != 0) || !g.Valid()) {
		r.fail(fmt.Errorf("%v is not a valid range", &g))
	}
	if r.err != nil {
		return txn.Range{}
	}
	return g
}

// Rows decodes the output of AppendRows. It accepts only valid keys.
func (r *Reader) Rows() []txn.Row {
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	rows := make([]txn.Row, n)
	for i := range rows {
		rows[i] = txn.Row{Key: r.Key(), Value: r.Bytes()}
	}
	return rows
}

// Writes decodes the output of AppendWrites.
func (r *Reader) Writes() []txn.WriteEntry {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	writes := make([]txn.WriteEntry, n)
	for i := range writes {
		w := &writes[i]
		w.Key = r.Key()
		if size := r.Uvarint(); size > 0 {
			w.Value = r.Take(size - 1)
		} else {
			w.Deleted = true
		}
	}
	return writes
}

// Key decodes the key of a row, as encoded by AppendString. It accepts only a valid key.
func (r *Reader) Key() txn.Key {
	k := txn.Key(r.String())
	if r.err == nil && !k.Valid() {
		r.fail(fmt.Errorf("%v is no key of a row", k))
	}
	return k
}

// Outcome decodes the output of AppendOutcome into o.
func (r *Reader) Outcome(o *txn.Outcome) {
	o.ID = r.ID()
	head := r.Uint8()
	o.Status = txn.Status(head & (1<<statusBits - 1))
	o.Cause = txn.Cause(head >> statusBits & (1<<causeBits - 1))
	o.Class = txn.Class(head >> (statusBits + causeBits))
	if r.err == nil && (o.Status < txn.Committed || o.Status > txn.Unknown || o.Cause >= txn.NumCauses) {
		r.fail(fmt.Errorf("%#x does not hold the status of an outcome", head))
	}
	o.Reason = r.String()
	o.Result = r.Bytes()
}
