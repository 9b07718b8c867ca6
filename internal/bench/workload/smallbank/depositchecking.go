package smallbank

import "github.com/geobench/geobench/internal/base/txn"

// depositChecking adds the amount to checking(id1). It also reads savings(id2), so that single-home and multi-home
// transactions do the same amount of work.
var depositChecking = padded(twoIDsAndAmount, &txn.Procedure{
	ID:      procDepositChecking,
	Name:    "depositChecking",
	Declare: declarePair(twoIDsAndAmount, txn.ReadWrite, txn.Read),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		key, _, checking, _, err := readPair(c, args)
		if err != nil {
			return nil, err
		}
		c.Put(key, encodeAmount(checking+argAmount(args)))
		return nil, nil
	},
})
