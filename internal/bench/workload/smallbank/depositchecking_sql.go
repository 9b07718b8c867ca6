package smallbank

import "github.com/geobench/geobench/internal/bench/workload/sqlform"

// depositCheckingSQL adds the amount to checking(id1) and reads savings(id2).
var depositCheckingSQL = &sqlform.Transaction{Procedure: procDepositChecking, Statements: []*sqlform.Statement{selectSavings, addToChecking},
	Run: change(selectSavings, tableSavings, addToChecking, tableChecking)}
