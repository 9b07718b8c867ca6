package raftgroup

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	KindRaft = 245 + iota
	KindLead
)

const (
	// MaxShard and MaxNode bound the numbers of shards and nodes in messages.
	MaxShard = 1<<31 - 1
	MaxNode  = 1<<16 - 1
)

// Raft carries a consensus message of a group.
type Raft struct {
	Group int `codec:"max=MaxShard"`
	*consensus.Message
}

func (m *Raft) String() string { return fmt.Sprintf("group %d %v", m.Group, m.Message) }

// Lead announces to every node that the sender leads a group from a term on.
type Lead struct {
	Group int `codec:"max=MaxShard"`
	Term  uint64
}

func (m *Lead) String() string { return fmt.Sprintf("leads group %d in term %d", m.Group, m.Term) }

// Decode is a protocol.Decoder for the messages of this package.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	return decodeMessage(kind, body, procs)
}

// Name identifies a transaction of a database by its coordinator and by the number that the coordinator assigned, from
// 1. A restarted transaction gets a new name.
//
//codec:part
type Name struct {
	Coordinator geo.NodeID
	Number      uint64
}

func (n Name) String() string { return fmt.Sprintf("%d/%d", n.Coordinator, n.Number) }

// Compare orders names by coordinator and number.
func (n Name) Compare(o Name) int {
	if n.Coordinator != o.Coordinator {
		return int(n.Coordinator) - int(o.Coordinator)
	}
	switch {
	case n.Number < o.Number:
		return -1
	case n.Number > o.Number:
		return 1
	}
	return 0
}

// AppendShards appends a list of shard numbers to b.
func AppendShards(b []byte, shards []int) []byte {
	b = codec.AppendUvarint(b, uint64(len(shards)))
	for _, s := range shards {
		b = codec.AppendUvarint(b, uint64(s))
	}
	return b
}

// ReadShards decodes a list of shard numbers.
func ReadShards(r *codec.Reader) []int {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	shards := make([]int, n)
	for i := range shards {
		shards[i] = int(r.UvarintMax(MaxShard))
	}
	return shards
}

// Found holds the rows of a range, in order. A row has no key if the range consists of that single row.
type Found []txn.Row

// Find returns the rows of the ranges of(0) to of(n-1) as of version at. Single rows share one allocation.
func Find(s *store.Versioned, at uint64, n int, of func(i int) *txn.Range) []Found {
	s.Warm(n, func(i int) txn.Key { return of(i).From })
	rows, found := s.At(at), make([]Found, n)
	// One allocation is enough for all single rows, since each range contributes at most one.
	room := make(Found, 0, n)
	for i := range found {
		r := of(i)
		if r.Point() {
			if rec, there := rows.Get(r.From); there {
				room = append(room, txn.Row{Value: rec.Value})
				// The capacity ends with the row, so an append to found[i] cannot overwrite the next range's row.
				found[i] = room[len(room)-1 : len(room) : len(room)]
			}
			continue
		}
		rows.Scan(*r, func(k txn.Key, rec store.Record) bool {
			found[i] = append(found[i], txn.Row{Key: k, Value: rec.Value})
			return true
		})
	}
	return found
}

// Supply passes to a task the rows that were found for its needs.
func Supply(t *rerun.Task, needs []rerun.Need, found []Found) {
	n := 0
	for _, f := range found {
		n += len(f)
	}
	rows := make([]rerun.Row, 0, n) // of all ranges
	for i, f := range found {
		first, r := len(rows), needs[i].Range
		for _, w := range f {
			// Find omits the key of a single row, because the reader of the message knows it from its request.
			if w.Key == "" {
				w.Key = r.From
			}
			rows = append(rows, rerun.Row{Key: w.Key, Record: store.Record{Value: w.Value}})
		}
		t.Supply(rerun.Read{Range: r, Rows: rows[first:len(rows):len(rows)]})
	}
}

// SizeFound returns the number of bytes that AppendFound appends.
func SizeFound(found []Found) int {
	n := codec.SizeUvarint(uint64(len(found)))
	for _, f := range found {
		n += codec.SizeRows(f)
	}
	return n
}

// AppendFound appends the rows of several ranges.
func AppendFound(b []byte, found []Found) []byte {
	b = codec.AppendUvarint(b, uint64(len(found)))
	for _, f := range found {
		b = codec.AppendRows(b, f)
	}
	return b
}

// ReadFound decodes the rows of several ranges. The values alias the message body.
func ReadFound(r *codec.Reader) []Found {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	found := make([]Found, n)
	for i := range found {
		// Each row takes at least two bytes: the lengths of its key and value.
		rows := r.Count(2)
		if rows == 0 {
			continue
		}
		found[i] = make(Found, rows)
		for j := range found[i] {
			w := &found[i][j]
			w.Key, w.Value = txn.Key(r.String()), r.Bytes()
			// An empty key is the key of the request: see Find.
			if r.Err() == nil && w.Key != "" && !w.Key.Valid() {
				r.Fail(fmt.Errorf("a row under %v", w.Key))
			}
		}
	}
	return found
}

// FoundString formats the rows of several ranges for a trace.
func FoundString(found []Found) string {
	var b strings.Builder
	for i, f := range found {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('[')
		for j, w := range f {
			if j > 0 {
				b.WriteByte(' ')
			}
			if w.Key != "" {
				fmt.Fprintf(&b, "%v=", w.Key)
			}
			fmt.Fprintf(&b, "%x", w.Value)
		}
		b.WriteByte(']')
	}
	return b.String()
}

// WritesString formats a transaction's writes for a trace.
func WritesString(writes []txn.WriteEntry) string {
	var b strings.Builder
	for i := range writes {
		if w := &writes[i]; w.Deleted {
			fmt.Fprintf(&b, " %v deleted", w.Key)
		} else {
			fmt.Fprintf(&b, " %v=%x", w.Key, w.Value)
		}
	}
	return b.String()
}
