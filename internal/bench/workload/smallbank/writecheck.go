package smallbank

import "github.com/geobench/geobench/internal/base/txn"

// overdraftPenalty is the surcharge of a check that exceeds the sum of both accounts.
const overdraftPenalty = 1

// writeCheck subtracts a check from checking(id1): amount, or amount + 1 if checking(id1) + savings(id2) < amount. It
// returns the change of the balance, which depends on balances that the client does not know.
var writeCheck = padded(twoIDsAndAmount, &txn.Procedure{
	ID:      procWriteCheck,
	Name:    "writeCheck",
	Declare: declarePair(twoIDsAndAmount, txn.ReadWrite, txn.Read),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		key, _, checking, savings, err := readPair(c, args)
		if err != nil {
			return nil, err
		}
		delta := -argAmount(args)
		if checking+savings < argAmount(args) {
			delta -= overdraftPenalty
		}
		c.Put(key, encodeAmount(checking+delta))
		return encodeAmount(delta), nil
	},
})
