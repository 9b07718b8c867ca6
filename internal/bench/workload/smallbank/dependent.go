package smallbank

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// byName turns a final phase, which works on IDs, into a whole transaction as in Alomari et al. The transaction reads
// the IDs of its customers by name, and then accesses the accounts with these IDs, which are unknown in advance.
//
// The arguments start with the first name. The second name follows if names is 2, and otherwise the second ID, where
// sameID stands for the ID of the first customer. The arguments of the final phase without its IDs come last.
func byName(id txn.ProcID, final *txn.Procedure, names int) *txn.Procedure {
	head := names*nameSize + (2-names)*rowSize
	return &txn.Procedure{
		ID: id, Name: final.Name + "ByName", ReadOnly: final.ReadOnly,
		Declare: func(args []byte, f *txn.Footprint) error {
			if len(args) < head {
				return fmt.Errorf("the arguments have %d bytes, not at least %d", len(args), head)
			}
			for i := range names {
				f.Accesses = append(f.Accesses, txn.Access{Key: txn.StringKey(tableAccount, string(args[i*nameSize:(i+1)*nameSize])), Mode: txn.Read})
			}
			// Let the final phase check its arguments, with two arbitrary IDs.
			var ignored txn.Footprint
			return final.Declare(append(appendArgs(nil, 0, 1), args[head:]...), &ignored)
		},
		Run: func(c txn.Ctx, args []byte) ([]byte, error) {
			var ids [2]uint64
			for i := range names {
				row, err := txn.GetRow(c, txn.StringKey(tableAccount, string(args[i*nameSize:(i+1)*nameSize])), rowSize, abortNoCustomer)
				if err != nil {
					return nil, err
				}
				id, _ := decodeAmount(row[:rowSize])
				ids[i] = uint64(id)
			}
			if names == 1 {
				if ids[1] = argID1(args[nameSize:]); ids[1] == sameID {
					ids[1] = ids[0]
				}
			}
			return final.Run(c, append(appendArgs(nil, ids[0], ids[1]), args[head:]...))
		},
	}
}

// sameID in the arguments stands for the ID of the first customer.
const sameID = 1<<64 - 1

// Dependent forms of the final phases.
var (
	balanceByName         = byName(procBalanceByName, balance, 1)
	writeCheckByName      = byName(procWriteCheckByName, writeCheck, 1)
	depositCheckingByName = byName(procDepositCheckingByName, depositChecking, 1)
	transactSavingsByName = byName(procTransactSavingsByName, transactSavings, 1)
	amalgamateByName      = byName(procAmalgamateByName, amalgamate, 2)
)
