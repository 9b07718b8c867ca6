package smallbank

import "github.com/geobench/geobench/internal/bench/workload/sqlform"

// transactSavingsSQL adds the amount to savings(id2) and reads checking(id1).
var transactSavingsSQL = &sqlform.Transaction{Procedure: procTransactSavings, Statements: []*sqlform.Statement{selectChecking, addToSavings},
	Run: change(selectChecking, tableChecking, addToSavings, tableSavings)}
