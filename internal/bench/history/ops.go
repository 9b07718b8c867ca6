package history

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
)

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations.
const (
	Read Kind = iota
	Write
	// Scan reads all rows of a range.
	Scan
)

// Initial is the version of a row that no recorded transaction wrote: the row was loaded, or it never existed.
const Initial txn.ID = 0

// Op is an operation of a transaction on a row, or on the rows of a range.
//
// In a list of operations, a scan follows the reads of the rows that it found, including deleted rows. The scan found
// exactly the rows of its range that its transaction reads or writes before the scan in this list. All other rows were
// absent, in their initial version. A scan may stop early, for example because it found enough rows; its range then
// covers only the scanned part.
type Op struct {
	// Key is the key of the row, or the smallest key of a scan's range.
	Key txn.Key
	// To is the exclusive end of a scan's range.
	To txn.Key
	// Version is the ID of the transaction that wrote the version that was read or overwritten. The new version of a
	// write is named after the writing transaction. For a scan, Version, Known and Nth are unused.
	Version txn.ID
	Kind    Kind
	// Known is set if Version is known. An engine may not know which version a blind write overwrites, or which
	// transaction deleted a missing row.
	Known bool
	// Nth numbers the writes of a row by the same transaction, from 1. For a read, it is the number of the write that was
	// read. For a write, it is the total number of writes by this transaction. 0 means unknown and counts as the last
	// write.
	Nth uint8
	// Gone is set if the row was missing (for a read) or was deleted (for a write). For a scan, it is set if the
	// scan does not report deleted rows. A row that it did not find may then have existed before.
	Gone bool
}

// Bits of the head byte of an encoded operation. Typically, a row is read and then written; such a write is encoded
// with the key and version of the previous operation.
const (
	opWrite       = 1 << iota
	opKnown       // the version follows, unless opSameVersion is set
	opGone        //
	opFirst       // Nth is 1
	opNth         // Nth follows
	opSameKey     // the key of the previous operation
	opSameVersion // the version of the previous operation
	opScan        // only To follows the key
)

// minOp is the minimum encoded size of an operation in bytes.
const minOp = 1

// AppendOps appends the number of operations and the operations. A read of a row with an integer key takes about 12
// bytes. A write of the row that was just read takes 1 byte, and a scan between integer keys takes 20 bytes.
func AppendOps(b []byte, ops []Op) []byte {
	b = codec.AppendUvarint(b, uint64(len(ops)))
	var last Op
	for i := range ops {
		o := &ops[i]
		at := len(b)
		head := byte(o.Kind) & opWrite
		b = append(b, 0)
		if i > 0 && o.Key == last.Key {
			head |= opSameKey
		} else {
			b = codec.AppendString(b, string(o.Key))
		}
		if o.Gone {
			head |= opGone
		}
		if o.Kind == Scan {
			b = codec.AppendString(b, string(o.To))
			// A scan has no version that the next operation could repeat.
			b[at], last = head|opScan, Op{Key: o.Key}
			continue
		}
		if o.Known {
			head |= opKnown
			if i > 0 && last.Known && o.Version == last.Version {
				head |= opSameVersion
			} else {
				b = codec.AppendID(b, o.Version)
			}
		}
		switch o.Nth {
		case 0:
		case 1:
			head |= opFirst
		default:
			head |= opNth
			b = append(b, o.Nth)
		}
		b[at] = head
		last = *o
	}
	return b
}

var errHead = errors.New("an operation's head byte contradicts itself")

// DecodeOps decodes the output of AppendOps and returns the remaining bytes. Keys alias b.
func DecodeOps(b []byte) (ops []Op, rest []byte, err error) {
	r := codec.NewReader(b)
	ops = readOps(&r, nil)
	if err := r.Err(); err != nil {
		return nil, nil, fmt.Errorf("operations: %w", err)
	}
	return ops, b[len(b)-r.Len():], nil
}

// readOps decodes the output of AppendOps and appends the operations to dst.
func readOps(r *codec.Reader, dst []Op) []Op {
	n := r.Count(minOp)
	if free := cap(dst) - len(dst); free < n {
		// An operation may take one byte encoded and 48 in memory, so the count alone must not determine the allocation.
		grown := make([]Op, len(dst), len(dst)+min(n, 1024))
		copy(grown, dst)
		dst = grown
	}
	var last Op
	for i := range n {
		head := r.Uint8()
		// A head that contradicts itself must not decode to an arbitrary operation.
		if head&opScan != 0 && head&^(opScan|opGone|opSameKey) != 0 || head&opFirst != 0 && head&opNth != 0 ||
			head&opSameVersion != 0 && (head&opKnown == 0 || !last.Known) || i == 0 && head&(opSameKey|opSameVersion) != 0 {
			r.Fail(errHead)
		}
		o := Op{Kind: Kind(head & opWrite), Known: head&opKnown != 0, Gone: head&opGone != 0}
		if head&opSameKey != 0 {
			o.Key = last.Key
		} else if o.Key = txn.Key(r.String()); r.Err() == nil && !o.Key.Valid() {
			r.Fail(fmt.Errorf("%v", o.Key))
		}
		if head&opScan != 0 {
			o.Kind, o.To = Scan, txn.Key(r.String())
			if r.Err() == nil && o.To <= o.Key {
				r.Fail(fmt.Errorf("the range of a scan from %v to %x has no rows", o.Key, string(o.To)))
			}
		}
		switch {
		case head&opSameVersion != 0:
			o.Version = last.Version
		case o.Known:
			o.Version = r.ID()
		}
		switch {
		case head&opFirst != 0:
			o.Nth = 1
		case head&opNth != 0:
			// 0 and 1 are encoded in the head byte alone.
			if o.Nth = r.Uint8(); r.Err() == nil && o.Nth < 2 {
				r.Fail(errHead)
			}
		}
		if r.Err() != nil {
			return dst
		}
		dst = append(dst, o)
		last = o
	}
	return dst
}

// traceLength is the size of the length at the end of a trace.
const traceLength = 4

// AppendTrace appends a procedure's operations to its result. The result stays at the front.
func AppendTrace(result []byte, ops []Op) []byte {
	from := len(result)
	result = AppendOps(result, ops)
	return binary.LittleEndian.AppendUint32(result, uint32(len(result)-from))
}

// SplitTrace reverses AppendTrace. The result is nil if it is empty, as returned by procedures. Result and operations
// alias traced.
func SplitTrace(traced []byte) (result []byte, ops []Op, err error) {
	if len(traced) < traceLength {
		return nil, nil, fmt.Errorf("trace: %d bytes are too few for its length", len(traced))
	}
	body := traced[:len(traced)-traceLength]
	n := binary.LittleEndian.Uint32(traced[len(body):])
	// The bytes come from a database under test, which may return anything.
	if uint64(n) > uint64(len(body)) {
		return nil, nil, fmt.Errorf("trace: it has %d bytes, but says %d", len(body), n)
	}
	at := len(body) - int(n)
	ops, rest, err := DecodeOps(body[at:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left over", len(rest))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	if at > 0 {
		// Without the bound on its capacity, an append by the caller would overwrite the operations.
		result = body[:at:at]
	}
	return result, ops, nil
}
