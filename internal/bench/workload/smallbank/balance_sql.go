package smallbank

import "github.com/geobench/geobench/internal/bench/workload/sqlform"

// balanceSQL reads both accounts in one round trip.
var balanceSQL = &sqlform.Transaction{Procedure: procBalance, Statements: []*sqlform.Statement{selectChecking, selectSavings}, Run: func(call *sqlform.Call) ([]byte, error) {
	c := sqlCall{Call: call}
	var checking, savings int64
	c.read(selectChecking, tableChecking, argID1(c.Args), &checking)
	c.read(selectSavings, tableSavings, argID2(c.Args), &savings)
	if err := c.send(2); err != nil {
		return nil, err
	}
	return encodeAmount(checking + savings), nil
}}
