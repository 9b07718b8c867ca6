package smallbank

import (
	"encoding/binary"

	"github.com/geobench/geobench/internal/base/txn"
)

// Procedure numbers. They are part of messages, so they never change.
const (
	procLookup          txn.ProcID = 1
	procBalance         txn.ProcID = 2
	procWriteCheck      txn.ProcID = 3
	procDepositChecking txn.ProcID = 4
	procTransactSavings txn.ProcID = 5
	procAmalgamate      txn.ProcID = 6

	procBalanceByName         txn.ProcID = 7
	procWriteCheckByName      txn.ProcID = 8
	procDepositCheckingByName txn.ProcID = 9
	procTransactSavingsByName txn.ProcID = 10
	procAmalgamateByName      txn.ProcID = 11
)

// Tables of the schema (SmallBank on Detock, figure 1).
const (
	tableAccount  txn.Table = 0
	tableChecking txn.Table = 1
	tableSavings  txn.Table = 2
)

// Reasons why a procedure aborts. Neither occurs in a loaded database that works correctly.
const (
	abortNoCustomer = txn.Abort("no-customer")
	abortNoAccount  = txn.Abort("no-account")
)

// Procedures returns the stored procedures of SmallBank.
func Procedures() []*txn.Procedure {
	return []*txn.Procedure{lookup, balance, writeCheck, depositChecking, transactSavings, amalgamate,
		balanceByName, writeCheckByName, depositCheckingByName, transactSavingsByName, amalgamateByName}
}

// The arguments of a final phase are the two customers' IDs and, for phases that move money, an amount: 8 bytes each,
// big-endian.
const (
	twoIDs          = 16
	twoIDsAndAmount = 24
)

// padded extends p, whose arguments have size bytes. The extended procedure ignores additional bytes after the
// arguments, and appends the same number of bytes to the result: see SmallBank.PaddingBytes.
func padded(size int, p *txn.Procedure) *txn.Procedure {
	declare, run := p.Declare, p.Run
	p.Declare = func(args []byte, f *txn.Footprint) error { return declare(args[:min(size, len(args))], f) }
	p.Run = func(c txn.Ctx, args []byte) ([]byte, error) {
		own := min(size, len(args))
		result, err := run(c, args[:own])
		if err != nil || len(args) == own {
			return result, err
		}
		return append(result[:len(result):len(result)], args[own:]...), nil
	}
	return p
}

func appendArgs(b []byte, id1, id2 uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id1), id2)
}

func argID1(args []byte) uint64   { return binary.BigEndian.Uint64(args) }
func argID2(args []byte) uint64   { return binary.BigEndian.Uint64(args[8:]) }
func argAmount(args []byte) int64 { return int64(binary.BigEndian.Uint64(args[16:])) }

// keySize is the length of txn.IntKey.
const keySize = 9

// rowSize is the size of every row, which is an ID or an amount.
const rowSize = 8

// accountKeys returns checking(id1) and savings(id2). They share one string to save allocations, because every node
// calls accountKeys for every transaction.
func accountKeys(id1, id2 uint64) (checking, savings txn.Key) {
	var b [2 * keySize]byte
	b[0] = byte(tableChecking)
	binary.BigEndian.PutUint64(b[1:], id1)
	b[keySize] = byte(tableSavings)
	binary.BigEndian.PutUint64(b[keySize+1:], id2)
	s := txn.Key(b[:])
	return s[:keySize], s[keySize:]
}

// declarePair returns the Declare function of a procedure that takes size bytes of arguments and accesses checking(id1)
// and savings(id2) in these modes.
func declarePair(size int, checkingMode, savingsMode txn.Mode) func([]byte, *txn.Footprint) error {
	return func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, size); err != nil {
			return err
		}
		checking, savings := accountKeys(argID1(args), argID2(args))
		f.Accesses = append(f.Accesses, txn.Access{Key: checking, Mode: checkingMode}, txn.Access{Key: savings, Mode: savingsMode})
		f.Exact = true
		return nil
	}
}

// readPair reads checking(id1) and savings(id2).
func readPair(c txn.Ctx, args []byte) (checkingKey, savingsKey txn.Key, checking, savings int64, err error) {
	checkingKey, savingsKey = accountKeys(argID1(args), argID2(args))
	if checking, err = readAmount(c, checkingKey); err != nil {
		return
	}
	savings, err = readAmount(c, savingsKey)
	return
}

func readAmount(c txn.Ctx, k txn.Key) (int64, error) {
	v, err := txn.GetRow(c, k, rowSize, abortNoAccount)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

func encodeAmount(v int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, rowSize), uint64(v))
}

func decodeAmount(b []byte) (int64, bool) {
	if len(b) != rowSize {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b)), true
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortNoCustomer, abortNoAccount}
