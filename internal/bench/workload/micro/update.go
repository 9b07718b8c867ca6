package micro

import (
	"encoding/binary"
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// procUpdate is the procedure's number. It is part of messages, so it never changes.
const procUpdate txn.ProcID = 64

const table txn.Table = 0

const (
	// itemSize is the length of an item: the number of its updates, big-endian.
	itemSize            = 4
	itemsPerTransaction = 2
	// argsSize is the length of the arguments: the numbers of both items, 8 bytes each, big-endian.
	argsSize = 8 * itemsPerTransaction
	// keySize is the length of txn.IntKey.
	keySize = 9
)

// abortNoItem is the abort for a missing item. It does not occur in a loaded database that works correctly.
const abortNoItem = txn.Abort("no-item")

// Procedures returns the stored procedures; there is only one.
func Procedures() []*txn.Procedure { return []*txn.Procedure{update} }

// keysOf returns the keys of both items. They share one string to save allocations, because every node calls keysOf for
// every transaction.
func keysOf(args []byte) [itemsPerTransaction]txn.Key {
	var b [itemsPerTransaction * keySize]byte
	for i := range itemsPerTransaction {
		txn.AppendIntKey(b[:i*keySize], table, binary.BigEndian.Uint64(args[8*i:]))
	}
	s := txn.Key(b[:])
	return [itemsPerTransaction]txn.Key{s[:keySize], s[keySize:]}
}

// update reads both items and increments their update counts. It returns the values that it read.
var update = &txn.Procedure{
	ID:   procUpdate,
	Name: "microUpdate",
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, argsSize); err != nil {
			return err
		}
		keys := keysOf(args)
		if keys[0] == keys[1] {
			return fmt.Errorf("both items are %d", keys[0].Shard())
		}
		for _, k := range keys {
			f.Accesses = append(f.Accesses, txn.Access{Key: k, Mode: txn.ReadWrite})
		}
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		keys := keysOf(args)
		read := make([]byte, 0, itemsPerTransaction*itemSize)
		for _, k := range keys {
			item, err := txn.GetRow(c, k, itemSize, abortNoItem)
			if err != nil {
				return nil, err
			}
			read = append(read, item[:itemSize]...)
		}
		for i, k := range keys {
			updates := binary.BigEndian.Uint32(read[i*itemSize:])
			c.Put(k, binary.BigEndian.AppendUint32(make([]byte, 0, itemSize), updates+1))
		}
		return read, nil
	},
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortNoItem}
