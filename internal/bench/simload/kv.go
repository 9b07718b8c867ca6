// Package simload generates load for protocols in the simulator. It has a key-value procedure with readable arguments,
// closed-loop clients, and topologies. The explorer and the tests of engines use it.
package simload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
)

// Table is the table of the rows, which are numbered from 0. The value of a row is a signed integer.
const Table txn.Table = 1

// Procedures contains the procedure KV, number 1. Its arguments are words. Each word is an operation:
//
//	r7     reads row 7
//	a7+5   adds 5 to row 7 (a7-5 subtracts); a missing row is 0
//	s7-5   the same, but aborts the transaction with reason "funds" if the row would become negative
//	w7=3   writes row 7 without reading it
//	d7     deletes row 7
//	x7     reads row 7 and fails
//	u7     reads row 7, but omits it from the footprint
//	c7-9=5 reads rows 7 to 8, and aborts the transaction with reason "sum" unless the sum of the rows is 5
//	C7-9=5 the same, but omits the rows from the footprint
//	j7+5   reads row 7, and adds 5 to the row whose number is the value of row 7 modulo Jumps
//
// Groups have rows with ordered keys, numbered from 0 to 255:
//
//	g2.7+5 adds 5 to row 7 of group 2; a missing row is 0
//	p2.7=3 writes row 7 of group 2 without reading it
//	q2.7   deletes row 7 of group 2
//	l2.3-8 reads rows 3 to 7 of group 2
//	o2     deletes the first row of group 2, if there is one
//	t2     deletes the last row of group 2, if there is one
//	e2+3   adds 3 to the last row number of group 2 (-1 if empty), and inserts this row if its number is at most 255
//
// The result lists the values that the operations have read or computed, such as "7=3 8=none 2.7=5".
var Procedures = txn.NewRegistry(&txn.Procedure{ID: 1, Name: "kv", Declare: declare, Run: run, Deletes: txn.TablesOf(Table)})

// Traced contains KV and its traced form, for recording a history.
var Traced = txn.NewRegistry(history.TraceAll(Procedures.Lookup(1))...)

// ReasonSum is the abort reason of a transaction whose operation c or C finds a sum other than the expected sum.
const ReasonSum = "sum"

// Txn returns a transaction that calls KV, ready to be submitted. It panics if the arguments are invalid.
func Txn(id txn.ID, ops string) *txn.Transaction {
	t := &txn.Transaction{ID: id, Proc: 1, Args: []byte(ops)}
	if err := Procedures.Prepare(t); err != nil {
		panic(err)
	}
	return t
}

// Jumps is the number of different rows that j can write.
const Jumps = 3

// Key returns the key of a row.
func Key(row uint64) txn.Key { return txn.IntKey(Table, row) }

// GroupKey returns the key of a row in a group.
func GroupKey(group uint64, row uint8) txn.Key { return txn.OrderedKey(Table, group, nil, []byte{row}) }

// Fill loads rows 0 to n-1, each with the given value, into the stores of a topology with a full copy in each region.
func Fill(t *geo.Topology, n uint64, value int64, storeOf func(geo.NodeID) store.Store) {
	FillLayout(t.Full(), n, value, storeOf)
}

// FillLayout is Fill for any layout, not only a full copy in each region.
func FillLayout(l geo.Layout, n uint64, value int64, storeOf func(geo.NodeID) store.Store) {
	for row := range n {
		k := Key(row)
		for _, m := range l.Group(l.Shard(k)).Members {
			storeOf(m).Load(k, encode(value))
		}
	}
}

// FillGroups loads rows 0 to n-1 of groups 0 to groups-1, each with the value 1, into the stores of layout l.
func FillGroups(l geo.Layout, groups uint64, n int, storeOf func(geo.NodeID) store.Store) {
	for group := range groups {
		for row := range n {
			k := GroupKey(group, uint8(row))
			for _, m := range l.Group(l.Shard(k)).Members {
				storeOf(m).Load(k, encode(1))
			}
		}
	}
}

// Sum returns the sum of the rows of a store.
func Sum(s store.Store) (sum int64) {
	s.Each(func(_ txn.Key, r store.Record) { sum += Value(r) })
	return sum
}

// Value returns the number in a row.
func Value(r store.Record) int64 { return decode(r.Value) }

func encode(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func decode(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

type op struct {
	kind byte
	row  uint64 // or group
	of   uint8  // row in the group
	to   uint64 // exclusive end of the rows of c and C
	n    int64
}

// key returns the key of the operation's row if it accesses a single row.
func (o *op) key() txn.Key {
	switch o.kind {
	case 'g', 'p', 'q':
		return GroupKey(o.row, o.of)
	}
	return Key(o.row)
}

// sums reports whether the operation reads a sum of rows.
func (o *op) sums() bool { return o.kind == 'c' || o.kind == 'C' }

// scan returns the range that l, o, t or e reads.
func (o *op) scan() txn.Range {
	all := txn.Prefix(GroupKey(o.row, 0).Unit())
	switch o.kind {
	case 'o':
		all.Limit = 1
	case 't', 'e':
		all.Limit, all.Reverse = 1, true
	default:
		all.From, all.To = GroupKey(o.row, o.of), GroupKey(o.row, uint8(o.n))
	}
	return all
}

func parse(word string) (op, error) {
	end := 1
	for end < len(word) && word[end] >= '0' && word[end] <= '9' {
		end++
	}
	row, err := strconv.ParseUint(word[1:end], 10, 64)
	if err != nil {
		return op{}, fmt.Errorf("operation %q: %w", word, err)
	}
	o := op{kind: word[0], row: row}
	if end < len(word) && word[end] == '.' {
		from := end + 1
		for end = from; end < len(word) && word[end] >= '0' && word[end] <= '9'; {
			end++
		}
		of, err := strconv.ParseUint(word[from:end], 10, 8)
		if err != nil {
			return op{}, fmt.Errorf("operation %q: %w", word, err)
		}
		o.of = uint8(of)
	}
	if o.kind == 'l' {
		to, err := strconv.ParseUint(strings.TrimPrefix(word[end:], "-"), 10, 8)
		if err != nil || uint8(to) <= o.of {
			return op{}, fmt.Errorf("operation %q: the rows do not end behind where they begin", word)
		}
		o.n = int64(to)
		return o, nil
	}
	if o.sums() {
		to := word[end:]
		if i := strings.IndexByte(to, '='); i >= 0 {
			to, end = to[:i], end+i
		}
		if o.to, err = strconv.ParseUint(strings.TrimPrefix(to, "-"), 10, 64); err != nil || o.to <= o.row {
			return op{}, fmt.Errorf("operation %q: the rows do not end behind where they begin", word)
		}
	}
	if rest := strings.TrimPrefix(word[end:], "="); rest != "" {
		if o.n, err = strconv.ParseInt(rest, 10, 64); err != nil {
			return op{}, fmt.Errorf("operation %q: %w", word, err)
		}
	}
	return o, nil
}

func declare(args []byte, f *txn.Footprint) error {
	f.Exact = true
	for word := range strings.FieldsSeq(string(args)) {
		o, err := parse(word)
		if err != nil {
			return err
		}
		a := txn.Access{Key: Key(o.row), Mode: txn.Read}
		switch o.kind {
		case 'r', 'x':
		case 'j':
			// The second row is known only once the first row has been read, so the footprint is only a hint.
			f.Exact = false
		case 'c':
			for row := o.row; row < o.to; row++ {
				f.Add(Key(row), txn.Read)
			}
			continue
		case 'C':
			f.Exact = false
			continue
		case 'g':
			f.Add(o.key(), txn.ReadWrite)
			continue
		case 'p', 'q':
			f.Add(o.key(), txn.Write)
			continue
		case 'l':
			f.AddScan(o.scan())
			continue
		case 'o', 't', 'e':
			f.AddScan(o.scan())
			// A group is a unit of locking, so any key of the group declares the write of a key that is not known yet.
			f.Add(o.scan().From, txn.Write)
			continue
		case 'a', 's':
			a.Mode = txn.ReadWrite
		case 'w', 'd':
			a.Mode = txn.Write
		case 'u':
			// u reads a row that its footprint deliberately omits.
			continue
		default:
			return fmt.Errorf("operation %q: unknown kind", word)
		}
		for _, b := range f.Accesses {
			if b.Key == a.Key {
				return fmt.Errorf("operation %q: row %d occurs twice", word, o.row)
			}
		}
		f.Accesses = append(f.Accesses, a)
	}
	return nil
}

var errBroken = errors.New("the procedure is broken")

func run(c txn.Ctx, args []byte) ([]byte, error) {
	var result []byte
	name := func(k txn.Key) {
		if len(result) > 0 {
			result = append(result, ' ')
		}
		result = strconv.AppendUint(result, k.Shard(), 10)
		if k.Ordered() {
			result = strconv.AppendUint(append(result, '.'), uint64(k[len(k)-1]), 10)
		}
		result = append(result, '=')
	}
	tell := func(k txn.Key, n int64) {
		name(k)
		result = strconv.AppendInt(result, n, 10)
	}
	read := func(k txn.Key) (int64, error) {
		v, err := c.Get(k)
		if err == txn.ErrNotFound {
			err = nil
		}
		return decode(v), err
	}
	for word := range strings.FieldsSeq(string(args)) {
		o, err := parse(word)
		if err != nil {
			return nil, err
		}
		k := o.key()
		switch o.kind {
		case 'r', 'x', 'u':
			v, err := c.Get(k)
			if err != nil && err != txn.ErrNotFound {
				return nil, err
			}
			if o.kind == 'x' {
				return nil, errBroken
			}
			tell(k, decode(v))
			if err != nil {
				result = append(result[:len(result)-1], "none"...)
			}
		case 'j':
			n, err := read(k)
			if err != nil {
				return nil, err
			}
			tell(k, n)
			k = Key(uint64(n) % Jumps)
			if n, err = read(k); err != nil {
				return nil, err
			}
			c.Put(k, encode(n+o.n))
			tell(k, n+o.n)
		case 'a', 's', 'g':
			n, err := read(k)
			if err != nil {
				return nil, err
			}
			n += o.n
			if o.kind == 's' && n < 0 {
				return nil, txn.Abort("funds")
			}
			c.Put(k, encode(n))
			tell(k, n)
		case 'w', 'p':
			c.Put(k, encode(o.n))
		case 'd', 'q':
			c.Delete(k)
		case 'c', 'C':
			var sum int64
			for row := o.row; row < o.to; row++ {
				n, err := read(Key(row))
				if err != nil {
					return nil, err
				}
				sum += n
			}
			if sum != o.n {
				return nil, txn.Abort(ReasonSum)
			}
		case 'l', 'o', 't', 'e':
			var first txn.Key
			err := c.Scan(o.scan(), func(k txn.Key, v []byte) bool {
				first = k
				tell(k, decode(v))
				return true
			})
			if err != nil {
				return nil, err
			}
			switch {
			case o.kind == 'e':
				row := o.n - 1
				if first != "" {
					row = int64(first[len(first)-1]) + o.n
				}
				// A row number above 255 does not exist; the operation then inserts nothing.
				if row <= math.MaxUint8 {
					c.Put(GroupKey(o.row, uint8(row)), encode(o.n))
				}
			case o.kind != 'l' && first != "":
				c.Delete(first)
			}
		}
	}
	return result, nil
}
