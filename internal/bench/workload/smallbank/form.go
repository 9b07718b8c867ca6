package smallbank

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// This file is SmallBank in SQL: the tables of Alomari et al., section III.B, with integers for balances. Each
// transaction is in the file named after it.

// tables are indexed by table number.
var tables = []sqlform.Table{
	tableAccount: {
		Name:    "account",
		Columns: []string{"name char(24) not null", "customer_id bigint not null"},
		Key:     "name",
		Unique:  "customer_id",
	},
	tableChecking: {
		Name:       "checking",
		Columns:    []string{"customer_id bigint not null", "balance bigint not null"},
		Key:        "customer_id",
		References: []sqlform.Reference{{Columns: "customer_id", Of: "account (customer_id)"}},
	},
	tableSavings: {
		Name:       "savings",
		Columns:    []string{"customer_id bigint not null", "balance bigint not null"},
		Key:        "customer_id",
		References: []sqlform.Reference{{Columns: "customer_id", Of: "account (customer_id)"}},
	},
}

// Form implements sqlform.Workload.
func (s *SmallBank) Form() *sqlform.Form {
	return &sqlform.Form{Tables: tables, Row: appendColumns, Audit: auditSQL}
}

// Transactions returns SmallBank's transactions in SQL.
func Transactions() []*sqlform.Transaction {
	return []*sqlform.Transaction{lookupSQL, balanceSQL, writeCheckSQL, depositCheckingSQL, transactSavingsSQL, amalgamateSQL}
}

// appendColumns implements sqlform.Form.Row. It converts a row of the procedures to columns.
func appendColumns(k txn.Key, v []byte, c *sqlform.Columns) (table int, err error) {
	n, ok := decodeAmount(v)
	if !ok || !k.Valid() || int(k.Table()) >= len(tables) {
		return 0, fmt.Errorf("%s with %d bytes is no row of SmallBank", KeyName(k), len(v))
	}
	if k.Table() == tableAccount {
		c.Text([]byte(k[1:]))
	} else {
		c.Int(int64(k.Shard()))
	}
	c.Int(n)
	return int(k.Table()), nil
}

// auditSQL is the SQL variant of Audit.
func auditSQL(q sqlform.Query) (sqlform.Audit, error) {
	var total, named, rows int64
	err := q(`select (select coalesce(sum(balance), 0) from checking) + (select coalesce(sum(balance), 0) from savings),
		(select coalesce(sum(case when name = concat('Client', customer_id) then 1 else -1 end), 0) from account),
		(select count(*) from account), (select count(*) from checking) + (select count(*) from savings)`, func(r *sqlform.Row) error {
		total, named = r.Int(), r.Int()
		accounts, balances := r.Int(), r.Int()
		named, rows = named+balances, accounts+balances
		return nil
	})
	return sqlform.Audit{Sums: map[string]int64{auditTotal: total, auditRows: named}, Rows: rows}, err
}

// Statements that several transactions use.
var (
	selectChecking = &sqlform.Statement{Name: "select_checking", SQL: "select balance {, version} from checking where customer_id = $1"}
	selectSavings  = &sqlform.Statement{Name: "select_savings", SQL: "select balance {, version} from savings where customer_id = $1"}
	addToChecking  = &sqlform.Statement{Name: "add_to_checking", SQL: "update checking set balance = balance + $2 {, prior = version, version = $v} where customer_id = $1 returning customer_id {, prior}"}
	addToSavings   = &sqlform.Statement{Name: "add_to_savings", SQL: "update savings set balance = balance + $2 {, prior = version, version = $v} where customer_id = $1 returning customer_id {, prior}"}
)

// sqlCall is a call that counts the rows found by its statements.
type sqlCall struct {
	*sqlform.Call
	found int
}

// read queues a statement that reads an account into balance.
func (c *sqlCall) read(s *sqlform.Statement, table txn.Table, id uint64, balance *int64) {
	k := txn.IntKey(table, id)
	c.Use(k)
	c.Do(s, func(r *sqlform.Row) error {
		c.found++
		*balance = r.Int()
		if c.Recorded() {
			c.Read(k, r)
		}
		return nil
	}, sqlform.Int(id))
}

// add queues a statement that adds amount to an account.
func (c *sqlCall) add(s *sqlform.Statement, table txn.Table, id uint64, amount int64) {
	c.Do(s, c.changed(table, id, (*sqlform.Call).Update), sqlform.Int(id), sqlform.Int(amount))
}

// empty queues a statement that sets the balance of an account to 0 without reading it.
func (c *sqlCall) empty(s *sqlform.Statement, table txn.Table, id uint64) {
	c.Do(s, c.changed(table, id, (*sqlform.Call).Overwrite), sqlform.Int(id))
}

func (c *sqlCall) changed(table txn.Table, id uint64, note func(*sqlform.Call, txn.Key, *sqlform.Row)) func(*sqlform.Row) error {
	k := txn.IntKey(table, id)
	c.Use(k)
	return func(r *sqlform.Row) error {
		c.found++
		r.Skip(1)
		if c.Recorded() {
			note(c.Call, k, r)
		}
		return nil
	}
}

// send sends the queued statements. It returns abortNoAccount if the statements found fewer rows than found.
func (c *sqlCall) send(found int) error {
	if err := c.Send(); err != nil {
		return err
	}
	if c.found < found {
		return abortNoAccount
	}
	return nil
}

// change returns the Run function of a transaction with one round trip. The transaction reads one account of a pair and
// adds an amount to the second account.
func change(read *sqlform.Statement, readTable txn.Table, add *sqlform.Statement, addTable txn.Table) func(*sqlform.Call) ([]byte, error) {
	return func(call *sqlform.Call) ([]byte, error) {
		c := sqlCall{Call: call}
		readID, addID := argID2(c.Args), argID1(c.Args)
		if addTable == tableSavings {
			readID, addID = addID, readID
		}
		var other int64
		c.read(read, readTable, readID, &other)
		c.add(add, addTable, addID, argAmount(c.Args))
		return nil, c.send(2)
	}
}
