// Package codec is the alphabet of everything that travels between processes: unsigned varints, length-prefixed bytes,
// and the transactions and outcomes made of them. It is a leaf, so that protocols and drivers can share it. Appending
// never fails and every append has a size function that is exact; reading survives any input, and what it returns may
// alias the input, whose owner does not reuse it.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/geobench/geobench/internal/txn"
)

// AppendUvarint appends v in 1 to 10 bytes, 7 bits each.
func AppendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// SizeUvarint is the number of bytes that AppendUvarint adds.
func SizeUvarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// AppendUint64 appends v in 8 bytes, little-endian: for hashes and other numbers that are rarely small.
func AppendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendBytes appends the length of v and v.
func AppendBytes(b, v []byte) []byte { return append(AppendUvarint(b, uint64(len(v))), v...) }

// SizeBytes is the number of bytes that AppendBytes adds.
func SizeBytes(v []byte) int { return SizeUvarint(uint64(len(v))) + len(v) }

// AppendString appends the length of s and s.
func AppendString(b []byte, s string) []byte { return append(AppendUvarint(b, uint64(len(s))), s...) }

// SizeString is the number of bytes that AppendString adds.
func SizeString(s string) int { return SizeUvarint(uint64(len(s))) + len(s) }

const counterBits = 40 // of a transaction id; the rest is its stream

// AppendID appends a transaction id as its two parts, each of which is small.
func AppendID(b []byte, id txn.ID) []byte {
	b = AppendUvarint(b, uint64(id.Stream()))
	return AppendUvarint(b, uint64(id)&(1<<counterBits-1))
}

// SizeID is the number of bytes that AppendID adds.
func SizeID(id txn.ID) int {
	return SizeUvarint(uint64(id.Stream())) + SizeUvarint(uint64(id)&(1<<counterBits-1))
}

// AppendTransaction appends id, procedure and arguments; Accesses follow from them and do not travel.
func AppendTransaction(b []byte, t *txn.Transaction) []byte {
	b = AppendID(b, t.ID)
	b = AppendUvarint(b, uint64(t.Proc))
	return AppendBytes(b, t.Args)
}

// SizeTransaction is the number of bytes that AppendTransaction adds.
func SizeTransaction(t *txn.Transaction) int {
	return SizeID(t.ID) + SizeUvarint(uint64(t.Proc)) + SizeBytes(t.Args)
}

// MinTransaction is the least number of bytes of a transaction: see Reader.Count.
const MinTransaction = 4

// AppendOutcome appends o.
func AppendOutcome(b []byte, o *txn.Outcome) []byte {
	b = AppendID(b, o.ID)
	b = append(b, byte(o.Status))
	b = AppendString(b, o.Reason)
	return AppendBytes(b, o.Result)
}

// SizeOutcome is the number of bytes that AppendOutcome adds.
func SizeOutcome(o *txn.Outcome) int {
	return SizeID(o.ID) + 1 + SizeString(o.Reason) + SizeBytes(o.Result)
}

// MinOutcome is the least number of bytes of an outcome: see Reader.Count.
const MinOutcome = 5

// Reader takes a body apart. The first error sticks: after it every method returns a zero value, so that a decoder
// checks once, at its end, with Done.
type Reader struct {
	b    []byte
	size int
	err  error
}

// NewReader returns a reader of b. What it returns aliases b, which must not be changed or reused.
func NewReader(b []byte) Reader { return Reader{b: b, size: len(b)} }

var (
	errShort    = errors.New("the body ends early")
	errOverflow = errors.New("a varint is longer than 64 bits, or longer than it need be")
)

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d of %d: %w", r.size-len(r.b), r.size, err)
	}
	r.b = nil
}

// Fail makes the reader fail with err, for a decoder's own checks.
func (r *Reader) Fail(err error) { r.fail(err) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes not yet read.
func (r *Reader) Len() int { return len(r.b) }

// Done returns the first error, or one that says how much was left over.
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

// Uvarint reads what AppendUvarint wrote, and nothing else: a padded varint is refused, so that every value has one
// encoding.
func (r *Reader) Uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	var v uint64
	for i, c := range r.b {
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
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
	if len(r.b) >= 10 || (len(r.b) > 0 && r.b[len(r.b)-1] < 0x80) {
		r.fail(errOverflow)
	} else {
		r.fail(errShort)
	}
	return 0
}

// UvarintMax reads a number that is at most limit.
func (r *Reader) UvarintMax(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.fail(fmt.Errorf("%d is more than %d", v, limit))
		return 0
	}
	return v
}

// Count reads the number of elements that follow, each of at least size bytes. It refuses a number that the rest of
// the body cannot hold, so that a decoder may allocate that many.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/max(size, 1)) {
		r.fail(fmt.Errorf("%d elements of at least %d bytes do not fit into %d bytes", n, size, len(r.b)))
		return 0
	}
	return int(n)
}

// Bytes reads what AppendBytes wrote. It returns nil for no bytes.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// String reads what AppendString wrote. The string aliases the body: a few short ones keep all of it in memory.
func (r *Reader) String() string {
	b := r.Bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// ID reads what AppendID wrote.
func (r *Reader) ID() txn.ID {
	stream := r.UvarintMax(1<<(64-counterBits) - 1)
	n := r.UvarintMax(1<<counterBits - 1)
	return txn.MakeID(uint32(stream), n)
}

// Transaction reads what AppendTransaction wrote into t. Accesses are emptied; txn.Registry.Prepare fills them in.
func (r *Reader) Transaction(t *txn.Transaction) {
	t.ID = r.ID()
	t.Proc = txn.ProcID(r.UvarintMax(1<<16 - 1))
	t.Args = r.Bytes()
	t.Accesses = t.Accesses[:0]
}

// Outcome reads what AppendOutcome wrote into o.
func (r *Reader) Outcome(o *txn.Outcome) {
	o.ID = r.ID()
	o.Status = txn.Status(r.Uint8())
	if r.err == nil && (o.Status < txn.Committed || o.Status > txn.Unknown) {
		r.fail(fmt.Errorf("%d is not the status of an outcome", o.Status))
	}
	o.Reason = r.String()
	o.Result = r.Bytes()
}
