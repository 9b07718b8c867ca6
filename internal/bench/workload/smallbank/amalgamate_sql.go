package smallbank

import "github.com/geobench/geobench/internal/bench/workload/sqlform"

var (
	emptyChecking = &sqlform.Statement{Name: "empty_checking", SQL: "update checking set balance = 0 {, prior = version, version = $v} where customer_id = $1 returning customer_id {, prior}"}
	emptySavings  = &sqlform.Statement{Name: "empty_savings", SQL: "update savings set balance = 0 {, prior = version, version = $v} where customer_id = $1 returning customer_id {, prior}"}
)

// amalgamateSQL reads a customer's balances and then moves them, as in the paper. At READ COMMITTED, a deposit between
// the read and the write is lost.
var amalgamateSQL = &sqlform.Transaction{Procedure: procAmalgamate, Statements: []*sqlform.Statement{selectChecking, selectSavings, emptyChecking, emptySavings, addToChecking},
	Run: func(call *sqlform.Call) ([]byte, error) {
		c := sqlCall{Call: call}
		var checking, savings int64
		c.read(selectChecking, tableChecking, argID1(c.Args), &checking)
		c.read(selectSavings, tableSavings, argID1(c.Args), &savings)
		if err := c.send(2); err != nil {
			return nil, err
		}
		c.empty(emptyChecking, tableChecking, argID1(c.Args))
		c.empty(emptySavings, tableSavings, argID1(c.Args))
		c.add(addToChecking, tableChecking, argID2(c.Args), checking+savings)
		return nil, c.send(5)
	}}
