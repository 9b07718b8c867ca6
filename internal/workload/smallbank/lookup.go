package smallbank

import "github.com/geobench/geobench/internal/txn"

// lookup is a helper phase: it returns the id (8 bytes) of the customer whose padded name is the argument.
var lookup = &txn.Procedure{
	ID:   procLookup,
	Name: "lookup",
	Accesses: func(args []byte, dst []txn.Access) ([]txn.Access, error) {
		if err := checkLen(args, nameSize); err != nil {
			return nil, err
		}
		return append(dst, txn.Access{Key: txn.StringKey(tableAccount, string(args)), Mode: txn.Read}), nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		v, ok := c.Get(txn.StringKey(tableAccount, string(args)))
		if !ok || len(v) != 8 {
			return nil, abortNoCustomer
		}
		return v, nil
	},
}
