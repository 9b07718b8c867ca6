package smallbank

import (
	"encoding/binary"
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// amalgamate moves all money of customer id1 to the checking account of customer id2.
var amalgamate = padded(twoIDs, &txn.Procedure{
	ID:   procAmalgamate,
	Name: "amalgamate",
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, twoIDs); err != nil {
			return err
		}
		if argID1(args) == argID2(args) {
			return fmt.Errorf("both customers are %d", argID1(args))
		}
		from, savings, to := amalgamateKeys(args)
		f.Accesses = append(f.Accesses, txn.Access{Key: from, Mode: txn.ReadWrite}, txn.Access{Key: savings, Mode: txn.ReadWrite},
			txn.Access{Key: to, Mode: txn.ReadWrite})
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		fromKey, savingsKey, toKey := amalgamateKeys(args)
		from, err := readAmount(c, fromKey)
		if err != nil {
			return nil, err
		}
		savings, err := readAmount(c, savingsKey)
		if err != nil {
			return nil, err
		}
		to, err := readAmount(c, toKey)
		if err != nil {
			return nil, err
		}
		c.Put(fromKey, encodeAmount(0))
		c.Put(savingsKey, encodeAmount(0))
		c.Put(toKey, encodeAmount(to+from+savings))
		return nil, nil
	},
})

// amalgamateKeys returns checking(id1), savings(id1) and checking(id2), which share one string.
func amalgamateKeys(args []byte) (from, savings, to txn.Key) {
	var b [3 * keySize]byte
	b[0] = byte(tableChecking)
	binary.BigEndian.PutUint64(b[1:], argID1(args))
	b[keySize] = byte(tableSavings)
	binary.BigEndian.PutUint64(b[keySize+1:], argID1(args))
	b[2*keySize] = byte(tableChecking)
	binary.BigEndian.PutUint64(b[2*keySize+1:], argID2(args))
	s := txn.Key(b[:])
	return s[:keySize], s[keySize : 2*keySize], s[2*keySize:]
}
