package ycsb

import (
	"encoding/binary"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

const table txn.Table = 0

// Records of a cell are numbered in key order: loaded records from 0, then inserted records. Each stream of clients
// numbers its inserted records separately. place is the index of a record in its group, from 0 to groupSize-1.
//
//	point   integer key: the n-th shard number of the cell | of inserted records: stream + 1, 4 bytes
//	ordered ordered key: the (n / groupSize)-th shard number of the cell | no group name | place |
//	        of inserted records: stream + 1, 4 bytes
const groupSize = 64

// Sizes of keys, in bytes. Keys of inserted records are longer by streamSize.
const (
	pointSize   = 9
	orderedSize = 11
	streamSize  = 4
)

// ref identifies a record by the parts of its key.
type ref struct {
	shard  uint64
	place  uint8  // index in its group; 0 for a point key
	stream uint32 // stream that inserted it, plus 1; 0 if it was loaded
}

// refOf returns the n-th record of a cell. stream is the inserting stream plus 1, or 0 for a loaded record.
func refOf(p geo.Placement, ordered bool, c geo.Cell, n uint64, stream uint32) ref {
	if !ordered {
		return ref{p.ShardNumber(c, n), 0, stream}
	}
	return ref{p.ShardNumber(c, n/groupSize), uint8(n % groupSize), stream}
}

// appendKey appends the bytes of the record's key.
func (r ref) appendKey(b []byte, ordered bool) []byte {
	if ordered {
		b = append(txn.AppendGroupKey(b, table, r.shard), r.place)
	} else {
		b = txn.AppendIntKey(b, table, r.shard)
	}
	if r.stream > 0 {
		b = binary.BigEndian.AppendUint32(b, r.stream)
	}
	return b
}

// parseKey returns the record with key k; ok is false if no record can have that key.
func parseKey(k txn.Key) (r ref, ok bool) {
	if len(k) < pointSize || !k.Valid() || k.Table() != table {
		return ref{}, false
	}
	var rest txn.Key
	_, _, point := k[:pointSize].Plain()
	switch {
	case point:
		rest = k[pointSize:]
	case k.Ordered() && len(k) >= orderedSize && len(k.Unit()) == orderedSize-1:
		r.place = k[orderedSize-1]
		rest = k[orderedSize:]
	default:
		return ref{}, false
	}
	r.shard = k.Shard()
	switch len(rest) {
	case 0:
		return r, true
	case streamSize:
		r.stream = binary.BigEndian.Uint32([]byte(rest))
		return r, r.stream > 0
	}
	return ref{}, false
}

// A record is a header and its fields:
//
//	8 bytes   number of writes after a read of the record, since its last blind write
//	8 bytes   the client's ID of the transaction that last wrote the record; 0 if it was loaded
const headerSize = 16

func counter(record []byte) uint64 { return binary.BigEndian.Uint64(record) }
func writer(record []byte) uint64  { return binary.BigEndian.Uint64(record[8:]) }

// putHeader writes the header of a record.
func putHeader(record []byte, counter, writer uint64) {
	binary.BigEndian.PutUint64(record, counter)
	binary.BigEndian.PutUint64(record[8:], writer)
}
