// Package simtest helps to test protocols in the simulator: a key-value procedure whose arguments a person can read,
// closed-loop clients, and topologies.
package simtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// Table is the table of the rows, numbered from 0. A row is a signed number.
const Table txn.Table = 1

// Procedures holds the procedure KV, number 1. Its arguments are words, each an operation on a row:
//
//	r7     reads row 7
//	a7+5   adds 5 to row 7 (a7-5 subtracts); a missing row is 0
//	s7-5   the same, but aborts the transaction with reason "funds" when the row would be negative
//	w7=3   writes row 7 without reading it
//	d7     deletes row 7
//	x7     reads row 7 and fails
//	u7     uses row 7, but does not say so
//
// The result repeats the reads and sums: "7=3 8=none".
var Procedures = txn.NewRegistry(&txn.Procedure{ID: 1, Name: "kv", Declare: declare, Run: run})

// Txn returns a call of KV, prepared.
func Txn(id txn.ID, ops string) *txn.Transaction {
	t := &txn.Transaction{ID: id, Proc: 1, Args: []byte(ops)}
	if err := Procedures.Prepare(t); err != nil {
		panic(err)
	}
	return t
}

// Key returns the key of a row.
func Key(row uint64) txn.Key { return txn.IntKey(Table, row) }

// Fill fills stores with rows 0 to n-1, all equal to value.
func Fill(t *geo.Topology, n uint64, value int64, storeOf func(geo.NodeID) store.Store) {
	FillLayout(t.Full(), n, value, storeOf)
}

// FillLayout is Fill for another layout than a full copy in each region.
func FillLayout(l geo.Layout, n uint64, value int64, storeOf func(geo.NodeID) store.Store) {
	for row := range n {
		k := Key(row)
		for _, m := range l.Group(l.Shard(k)).Members {
			storeOf(m).Load(k, encode(value))
		}
	}
}

// Sum adds up the rows of a store.
func Sum(s store.Store) (sum int64) {
	s.Each(func(_ txn.Key, r store.Record) { sum += decode(r.Value) })
	return sum
}

func encode(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func decode(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

type op struct {
	kind byte
	row  uint64
	n    int64
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
		case 'a', 's':
			a.Mode = txn.ReadWrite
		case 'w', 'd':
			a.Mode = txn.Write
		case 'u':
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
	tell := func(row uint64, n int64) {
		if len(result) > 0 {
			result = append(result, ' ')
		}
		result = append(strconv.AppendUint(result, row, 10), '=')
		result = strconv.AppendInt(result, n, 10)
	}
	for word := range strings.FieldsSeq(string(args)) {
		o, err := parse(word)
		if err != nil {
			return nil, err
		}
		k := Key(o.row)
		switch o.kind {
		case 'r', 'x', 'u':
			v, err := c.Get(k)
			if err != nil && err != txn.ErrNotFound {
				return nil, err
			}
			if o.kind == 'x' {
				return nil, errBroken
			}
			tell(o.row, decode(v))
			if err != nil {
				result = append(result[:len(result)-1], "none"...)
			}
		case 'a', 's':
			v, err := c.Get(k)
			if err != nil && err != txn.ErrNotFound {
				return nil, err
			}
			n := decode(v) + o.n
			if o.kind == 's' && n < 0 {
				return nil, txn.Abort("funds")
			}
			c.Put(k, encode(n))
			tell(o.row, n)
		case 'w':
			c.Put(k, encode(o.n))
		case 'd':
			c.Delete(k)
		}
	}
	return result, nil
}
