package smallbank

import "github.com/geobench/geobench/internal/base/txn"

// balance returns checking(id1) + savings(id2).
var balance = padded(twoIDs, &txn.Procedure{
	ID:   procBalance,
	Name: "balance", ReadOnly: true,
	Declare: declarePair(twoIDs, txn.Read, txn.Read),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		_, _, checking, savings, err := readPair(c, args)
		if err != nil {
			return nil, err
		}
		return encodeAmount(checking + savings), nil
	},
})
