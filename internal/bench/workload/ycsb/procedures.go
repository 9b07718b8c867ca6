package ycsb

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// Procedure numbers. They are part of messages, so they never change.
const (
	procPoints  txn.ProcID = 48
	procOrdered txn.ProcID = 49
)

// abortNoRecord occurs if a database shows a state older than an insert that the client knows to be committed, or if
// the database is faulty.
const abortNoRecord = txn.Abort("no-record")

// Procedures returns the stored procedures of YCSB, which execute the operations of a transaction in order. The first
// works on point keys, the second on ordered keys, which can be scanned.
func Procedures() []*txn.Procedure { return []*txn.Procedure{points, scannable} }

var (
	points    = procedure(procPoints, "ycsb", false)
	scannable = procedure(procOrdered, "ycsbOrdered", true)
)

// kind is the kind of an operation.
type kind uint8

const (
	opRead kind = iota
	opUpdate
	opInsert
	opScan // of places in one group; a scan of several groups is split into several opScan operations
	opReadModifyWrite
	numKinds
)

// allFields is the field number that stands for all fields.
const allFields = 1<<16 - 1

// Limits of a transaction's arguments.
const (
	maxOperations  = 2000
	maxRecordBytes = 1 << 16
	maxResultBytes = 32 << 20
)

// The arguments, big-endian:
//
//	operations 2 bytes, fields of a record 2, bytes of a field 4, writer 8
//	16 bytes for each operation: kind 1, place 1, field 2 (of a scan: the place after the last), stream 4, shard 8
//	data of each operation that writes: a field, all fields, or (of a blind write) the record with its header
const (
	argsHead      = 16
	operationSize = 16
)

type args []byte

func (a args) operations() int { return int(binary.BigEndian.Uint16(a)) }
func (a args) fields() int     { return int(binary.BigEndian.Uint16(a[2:])) }
func (a args) fieldBytes() int { return int(binary.BigEndian.Uint32(a[4:])) }
func (a args) writer() uint64  { return binary.BigEndian.Uint64(a[8:]) }

// recordBytes returns the size of a record in bytes.
func (a args) recordBytes() int { return headerSize + a.fields()*a.fieldBytes() }

// payload returns the bytes that the operations write.
func (a args) payload() []byte { return a[argsHead+a.operations()*operationSize:] }

type operation struct {
	kind  kind
	field uint16
	ref
}

func (a args) operation(i int) operation {
	b := a[argsHead+i*operationSize:]
	return operation{kind(b[0]), binary.BigEndian.Uint16(b[2:]),
		ref{binary.BigEndian.Uint64(b[8:]), b[1], binary.BigEndian.Uint32(b[4:])}}
}

func appendHead(b []byte, operations, fields, fieldBytes int, writer uint64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(operations))
	b = binary.BigEndian.AppendUint16(b, uint16(fields))
	b = binary.BigEndian.AppendUint32(b, uint32(fieldBytes))
	return binary.BigEndian.AppendUint64(b, writer)
}

func appendOperation(b []byte, o operation) []byte {
	b = append(b, byte(o.kind), o.place)
	b = binary.BigEndian.AppendUint16(b, o.field)
	b = binary.BigEndian.AppendUint32(b, o.stream)
	return binary.BigEndian.AppendUint64(b, o.shard)
}

// blind reports whether the operation writes a record without reading it.
func (o *operation) blind() bool {
	return o.kind == opInsert || o.kind == opUpdate && o.field == allFields
}

// increments reports whether the operation increments the write counter of the record.
func (o *operation) increments() bool {
	return o.kind == opReadModifyWrite || o.kind == opUpdate && o.field != allFields
}

// mode returns the access mode of the operation on its record.
func (o *operation) mode() txn.Mode {
	switch {
	case o.blind():
		return txn.Write
	case o.increments():
		return txn.ReadWrite
	}
	return txn.Read
}

// written returns the number of bytes that the operation takes from the payload.
func (o *operation) written(fieldBytes, recordBytes int) int {
	switch {
	case o.blind():
		return recordBytes
	case !o.increments():
		return 0
	case o.field == allFields:
		return recordBytes - headerSize
	}
	return fieldBytes
}

// read returns the maximum number of records in the operation's result.
func (o *operation) read() int {
	switch o.kind {
	case opRead, opReadModifyWrite:
		return 1
	case opScan:
		return int(o.field) - int(o.place)
	}
	return 0
}

func (a args) check(ordered bool) error {
	if len(a) < argsHead {
		return fmt.Errorf("the arguments have %d bytes, not at least %d", len(a), argsHead)
	}
	n, size := a.operations(), a.recordBytes()
	switch {
	case n < 1 || n > maxOperations:
		return fmt.Errorf("there are %d operations, not 1 to %d", n, maxOperations)
	case len(a) < argsHead+n*operationSize:
		return fmt.Errorf("the arguments have %d bytes, too few for %d operations", len(a), n)
	case a.fields() < 1 || a.fieldBytes() < 1 || size > headerSize+maxRecordBytes:
		return fmt.Errorf("a record of %d fields with %d bytes each does not have 1 to %d bytes", a.fields(), a.fieldBytes(), maxRecordBytes)
	}
	written, read := 0, 0
	for i := range n {
		o := a.operation(i)
		switch {
		case o.kind >= numKinds:
			return fmt.Errorf("operation %d has the unknown kind %d", i, o.kind)
		case !ordered && (o.kind == opScan || o.place != 0):
			return fmt.Errorf("operation %d needs records that have an order", i)
		case o.place >= groupSize || o.kind == opScan && (int(o.field) <= int(o.place) || o.field > groupSize || o.stream != 0):
			return fmt.Errorf("operation %d is not inside a group of %d records", i, groupSize)
		case o.kind != opScan && o.field != allFields && int(o.field) >= a.fields():
			return fmt.Errorf("operation %d uses field %d of %d", i, o.field, a.fields())
		case (o.kind == opRead || o.kind == opInsert) && o.field != allFields:
			return fmt.Errorf("operation %d uses a single field", i)
		}
		written += o.written(a.fieldBytes(), size)
		read += o.read()
	}
	if err := txn.CheckLen(a, argsHead+n*operationSize+written); err != nil {
		return err
	}
	// check runs before execution, so a transaction can never build a result beyond the limit.
	if read*(size-headerSize) > maxResultBytes {
		return fmt.Errorf("%d records of %d bytes are read, more than %d bytes in all", read, size-headerSize, maxResultBytes)
	}
	return nil
}

// keys yields the keys of the operations in order. All keys share one string, which saves allocations: every node
// computes the keys of every transaction.
type keys struct {
	left    txn.Key
	ordered bool
}

func (a args) keys(ordered bool) keys {
	var room [256]byte
	b := room[:0]
	for i := range a.operations() {
		o := a.operation(i)
		b = o.appendKey(b, ordered)
		if o.kind == opScan {
			b = ref{shard: o.shard, place: uint8(o.field)}.appendKey(b, ordered)
		}
	}
	return keys{txn.Key(b), ordered}
}

// next returns the next key. stream is the stream that inserted its record, plus 1, or 0 if the record was loaded.
func (k *keys) next(stream uint32) txn.Key {
	n := pointSize
	if k.ordered {
		n = orderedSize
	}
	if stream > 0 {
		n += streamSize
	}
	key := k.left[:n]
	k.left = k.left[n:]
	return key
}

// span returns the next two keys as a range.
func (k *keys) span() txn.Range { return txn.Range{From: k.next(0), To: k.next(0)} }

func procedure(id txn.ProcID, name string, ordered bool) *txn.Procedure {
	return &txn.Procedure{
		ID:   id,
		Name: name,
		Declare: func(b []byte, f *txn.Footprint) error {
			a := args(b)
			if err := a.check(ordered); err != nil {
				return err
			}
			f.Accesses, f.Exact = slices.Grow(f.Accesses, a.operations()), true
			keys := a.keys(ordered)
			for i := range a.operations() {
				o := a.operation(i)
				switch {
				case o.kind == opScan:
					f.AddScan(keys.span())
				case ordered:
					f.Add(keys.next(o.stream), o.mode())
				default:
					addPoint(f, keys.next(o.stream), o.mode())
				}
			}
			return nil
		},
		Run: func(c txn.Ctx, b []byte) ([]byte, error) {
			return args(b).run(c, ordered)
		},
	}
}

// addPoint adds an access of a row without a group. If the row is already in f, it merges the modes.
func addPoint(f *txn.Footprint, k txn.Key, m txn.Mode) {
	for i := range f.Accesses {
		if a := &f.Accesses[i]; a.Key == k {
			a.Mode |= m
			return
		}
	}
	f.Add(k, m)
}

// run executes the operations. It returns the fields of all records that reads, scans and read-modify-writes return, in
// order.
func (a args) run(c txn.Ctx, ordered bool) (result []byte, err error) {
	size := a.recordBytes()
	reads, writes := 0, 0
	for i := range a.operations() {
		o := a.operation(i)
		reads += o.read()
		if o.increments() {
			writes++
		}
	}
	if reads > 0 {
		result = make([]byte, 0, reads*(size-headerSize))
	}
	var room []byte // The new values share one allocation.
	if writes > 0 {
		room = make([]byte, writes*size)
	}
	keys, payload := a.keys(ordered), a.payload()
	for i := range a.operations() {
		o := a.operation(i)
		bring := o.written(a.fieldBytes(), size)
		brought := payload[:bring:bring]
		payload = payload[bring:]
		switch {
		case o.kind == opScan:
			whole := true
			err = c.Scan(keys.span(), func(_ txn.Key, record []byte) bool {
				if whole = len(record) == size; whole {
					result = append(result, record[headerSize:]...)
				}
				return whole
			})
			if err != nil {
				return nil, err
			}
			if !whole {
				return nil, abortNoRecord
			}
			continue
		case o.blind():
			c.Put(keys.next(o.stream), brought)
			continue
		}
		k := keys.next(o.stream)
		old, err := c.Get(k)
		// A record of the wrong size was not written with this workload's parameters.
		if err == txn.ErrNotFound || err == nil && len(old) != size {
			return nil, abortNoRecord
		}
		if err != nil {
			return nil, err
		}
		if o.kind != opUpdate {
			result = append(result, old[headerSize:]...)
		}
		if !o.increments() {
			continue
		}
		// The capacity ends with the record, so that no write can reach the next value.
		record := room[:size:size]
		room = room[size:]
		putHeader(record, counter(old)+1, a.writer())
		copy(record[headerSize:], old[headerSize:])
		at := headerSize
		if o.field != allFields {
			at += int(o.field) * a.fieldBytes()
		}
		copy(record[at:], brought)
		c.Put(k, record)
	}
	return result, nil
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortNoRecord}
