package smallbank

import "github.com/geobench/geobench/internal/bench/workload/sqlform"

// writeCheckSQL reads both accounts, and subtracts an amount that depends on their sum from the first account.
var writeCheckSQL = &sqlform.Transaction{Procedure: procWriteCheck, Statements: []*sqlform.Statement{selectChecking, selectSavings, addToChecking}, Run: func(call *sqlform.Call) ([]byte, error) {
	c := sqlCall{Call: call}
	var checking, savings int64
	c.read(selectChecking, tableChecking, argID1(c.Args), &checking)
	c.read(selectSavings, tableSavings, argID2(c.Args), &savings)
	if err := c.send(2); err != nil {
		return nil, err
	}
	delta := -argAmount(c.Args)
	if checking+savings < argAmount(c.Args) {
		delta -= overdraftPenalty
	}
	c.add(addToChecking, tableChecking, argID1(c.Args), delta)
	return encodeAmount(delta), c.send(3)
}}
