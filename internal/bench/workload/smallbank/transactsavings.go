package smallbank

import "github.com/geobench/geobench/internal/base/txn"

// transactSavings adds the amount, which may be negative, to savings(id2). It also reads checking(id1), so that
// single-home and multi-home transactions do the same amount of work.
var transactSavings = padded(twoIDsAndAmount, &txn.Procedure{
	ID:      procTransactSavings,
	Name:    "transactSavings",
	Declare: declarePair(twoIDsAndAmount, txn.Read, txn.ReadWrite),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		_, key, _, savings, err := readPair(c, args)
		if err != nil {
			return nil, err
		}
		c.Put(key, encodeAmount(savings+argAmount(args)))
		return nil, nil
	},
})
