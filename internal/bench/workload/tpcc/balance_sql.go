package tpcc

import (
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// updateBalanceSQL updates the balances of a group one by one, in the drawn order. The order is random, so the
// transaction tests whether the database resolves deadlocks.
var updateBalanceSQL = &sqlform.Transaction{Procedure: procUpdateBalance, Statements: []*sqlform.Statement{updateBalanceStep}, Run: updateBalanceInSQL}

// selectBalanceSQL reads the balances of a group in one statement.
var selectBalanceSQL = &sqlform.Transaction{Procedure: procSelectBalance, Statements: []*sqlform.Statement{selectBalanceGroup}, Run: selectBalanceInSQL}

var (
	updateBalanceStep = &sqlform.Statement{Name: "update_balance_step", SQL: "update balance set b_amount = b_amount + $2 {, prior = version, version = $v} " +
		"where b_w_id = $1 returning b_w_id {, prior}"}
	selectBalanceGroup = &sqlform.Statement{Name: "select_balance_group", SQL: "select b_w_id, b_amount {, version} from balance where b_w_id = any($1::integer[])",
		MySQL: "select b_w_id, b_amount {, version} from balance where b_w_id in ([$1])"}
)

func updateBalanceInSQL(c *sqlform.Call) ([]byte, error) {
	a := balanceArgs(c.Args)
	found := 0
	for i := range a.warehouses() {
		c.Use(a.key(i))
		c.Do(updateBalanceStep, func(r *sqlform.Row) error {
			found++
			r.Skip(1)
			if c.Recorded() {
				c.Update(a.key(i), r)
			}
			return nil
		}, sqlform.Int(a.warehouse(i)), sqlform.Money(balanceStep))
	}
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < a.warehouses() {
		return nil, abortNoRow
	}
	return nil, nil
}

func selectBalanceInSQL(c *sqlform.Call) ([]byte, error) {
	a := balanceArgs(c.Args)
	var room [maxOrderLines]int64
	warehouses := room[:a.warehouses()]
	for i := range warehouses {
		warehouses[i] = int64(a.warehouse(i))
		c.Use(a.key(i))
	}
	found, first, differ := 0, int64(0), byte(0)
	c.Do(selectBalanceGroup, func(r *sqlform.Row) error {
		w, amount := uint32(r.Int()), r.Int()
		if found++; found == 1 {
			first = amount
		} else if amount != first {
			differ = 1
		}
		if c.Recorded() {
			c.Read(txn.Key(appendBalanceKey(nil, w)), r)
		}
		return nil
	}, sqlform.Ints(warehouses))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < len(warehouses) {
		return nil, abortNoRow
	}
	return []byte{differ}, nil
}
