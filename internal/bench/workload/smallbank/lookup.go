package smallbank

import "github.com/geobench/geobench/internal/base/txn"

// lookup is a helper phase: it returns the ID (8 bytes) of the customer whose padded name is the argument.
var lookup = padded(nameSize, &txn.Procedure{
	ID:   procLookup,
	Name: "lookup", ReadOnly: true,
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, nameSize); err != nil {
			return err
		}
		f.Accesses = append(f.Accesses, txn.Access{Key: txn.StringKey(tableAccount, string(args)), Mode: txn.Read})
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		return txn.GetRow(c, txn.StringKey(tableAccount, string(args)), rowSize, abortNoCustomer)
	},
})
