package smallbank

import (
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

var selectAccount = &sqlform.Statement{Name: "select_account", SQL: "select customer_id {, version} from account where name = $1"}

// lookupSQL finds the customer by name.
var lookupSQL = &sqlform.Transaction{Procedure: procLookup, Statements: []*sqlform.Statement{selectAccount}, Run: func(c *sqlform.Call) (result []byte, err error) {
	k := txn.StringKey(tableAccount, string(c.Args))
	c.Use(k)
	c.Do(selectAccount, func(r *sqlform.Row) error {
		result = encodeAmount(r.Int())
		if c.Recorded() {
			c.Read(k, r)
		}
		return nil
	}, sqlform.Text(c.Args))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if result == nil {
		return nil, abortNoCustomer
	}
	return result, nil
}}
