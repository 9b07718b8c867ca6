// Package sqlform is what a workload says of itself in SQL, where running its procedures row by row would be unfair to the database: tables
// with columns, keys and indexes as its specification has them, and transactions as a good application writes them, of prepared statements
// that go together where they may. A form comes beside the workload's procedures, and not in their place: its tables hold the columns of the
// same rows (Form.Row), a transaction takes the arguments of the procedure of the same number and has its result, and an audit has the sums of
// workload.Workload.Audit, so that clients, ledgers and checks are those of the procedures.
//
// Histories are recorded through columns, which the tables of a recorded run have besides: the transaction that wrote a row, and the one that
// wrote it before. A statement that reads a row returns the first, one that writes it the second, and a transaction reports them as a traced
// procedure does (package history).
//
// Statements are PostgreSQL's, which takes arrays and returns what it updates. MySQL and MariaDB do neither, and take several statements in one
// message instead: MySQLText makes those of the same statement, or Statement.MySQL says them. What a transaction does with the rows is the same
// for all.
package sqlform

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Form is a workload in SQL.
type Form struct {
	// Tables in an order in which each comes behind those that it references.
	Tables []Table
	// Row appends the columns of one of the workload's rows, in the order of its table's, and returns the table's place in Tables, or NoTable.
	// It fails on what is no row of the workload.
	Row func(k txn.Key, value []byte, c *Columns) (table int, err error)
	// Audit sums up the tables, with queries that all see the same snapshot.
	Audit func(q Query) (Audit, error)
}

// NoTable is the table of a row that is an entry of an index in SQL, which the database keeps by itself.
const NoTable = -1

// Workload is a workload.Workload that has a form. Its transactions are listed by its package.
type Workload interface {
	Form() *Form
}

// Table is a table as a specification has it.
type Table struct {
	Name string
	// Columns as they are created: w_name varchar(10). Rows have them in this order.
	Columns []string
	// Key are the columns of the primary key, none for a table without one, and Indexes those of the other indexes.
	Key     string
	Unique  string
	Indexes []string
	// References are the foreign keys.
	References []Reference
	// Recorded are columns that the tables of recorded runs have besides Versions.
	Recorded []string
}

// Reference is a foreign key.
type Reference struct {
	// Columns that refer to Of, a table with its key: district (d_w_id, d_id).
	Columns, Of string
}

// Versions are the columns that every table of a recorded run has besides its own: who wrote the row, and who wrote it before. Loaded rows
// have 0, which is history.Initial.
var Versions = []string{"version bigint not null default 0", "prior bigint not null default 0"}

// ColumnNames lists the names of a table's own columns.
func (t *Table) ColumnNames() string {
	var names []string
	for _, c := range t.Columns {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Query asks for rows, and gives each to row.
type Query func(sql string, row func(r *Row) error) error

// Audit is what the tables add up to.
type Audit struct {
	// Sums are those of workload.Workload.Audit.
	Sums map[string]int64
	// Rows are those of all tables but Everywhere, which are those that the workload has everywhere.
	Rows, Everywhere int64
}

// Statement is a prepared statement. In its text, what is in braces is of recorded runs alone, and $v there is a parameter behind the others,
// the number of the transaction:
//
//	update district set d_next_o_id = d_next_o_id + 1 {, prior = version, version = $v} where d_w_id = $1 returning d_tax {, prior}
type Statement struct {
	Name string
	SQL  string
	// MySQL is for MySQL and MariaDB, where what MySQLText makes of SQL is not to be used: one statement or several, between semicolons, whose
	// selects return the rows together. What is in brackets is repeated for each element of the arrays whose parameters are there, with what
	// comes between two of them in angle brackets, else a comma:
	//
	//	[<; >update orders set o_carrier_id = $3 where o_w_id = $1 and o_id = $2]; select o_c_id from orders where o_w_id = $1 and o_id in ([$2])
	MySQL string
}

const versionParameter = "$v"

// Text returns the statement as it is sent to PostgreSQL.
func (s *Statement) Text(recorded bool) string { return s.text(s.SQL, recorded) }

func (s *Statement) text(sql string, recorded bool) string {
	var b strings.Builder
	for rest := sql; ; {
		plain, behind, more := strings.Cut(rest, "{")
		b.WriteString(plain)
		if !more {
			break
		}
		within, behind, _ := strings.Cut(behind, "}")
		if recorded {
			b.WriteString(within)
		}
		rest = behind
	}
	return strings.ReplaceAll(b.String(), versionParameter, "$"+strconv.Itoa(s.parameters()+1))
}

// cast is what PostgreSQL is told of a parameter's type.
var cast = regexp.MustCompile(`::[a-z]+`)

// MySQLText returns the statements that are sent to MySQL in the place of this one, with brackets as in Statement.MySQL. What an update of one
// row returns is selected behind it, in the same message and transaction: it is what the update has left there, at every level of isolation.
func (s *Statement) MySQLText(recorded bool) string {
	if s.MySQL != "" {
		return s.text(s.MySQL, recorded)
	}
	sql := cast.ReplaceAllString(s.Text(recorded), "")
	update, returning, returns := strings.Cut(sql, " returning ")
	if !returns {
		return sql
	}
	table := strings.Fields(update)[1] // update TABLE set
	where := update[strings.LastIndex(update, " where "):]
	return update + "; select " + returning + " from " + table + where
}

// parameters counts those that the statement has in every run.
func (s *Statement) parameters() (n int) {
	for n = 0; strings.Contains(s.SQL, "$"+strconv.Itoa(n+1)); n++ {
	}
	return n
}

// stamps reports whether the statement writes versions.
func (s *Statement) stamps() bool { return strings.Contains(s.SQL, versionParameter) }

// Transaction is one of a workload's transactions in SQL.
type Transaction struct {
	// Procedure has the same arguments and the same result.
	Procedure txn.ProcID
	// Statements are all that Run uses.
	Statements []*Statement
	// Run runs the transaction but for its end. The error is a txn.Abort where the transaction gives up by its own decision, and otherwise
	// the database's, or about what that has answered.
	Run func(c *Call) (result []byte, err error)
}

// Transactions are those of all workloads, by the number of their procedures.
type Transactions struct{ byID []*Transaction }

// NewTransactions returns those of all workloads. It panics when two have one number, which is a programmer's mistake.
func NewTransactions(all ...*Transaction) *Transactions {
	t := &Transactions{}
	for _, x := range all {
		for int(x.Procedure) >= len(t.byID) {
			t.byID = append(t.byID, nil)
		}
		if t.byID[x.Procedure] != nil {
			panic(fmt.Sprintf("sqlform: two transactions have number %d", x.Procedure))
		}
		t.byID[x.Procedure] = x
	}
	return t
}

// Lookup returns the transaction whose procedure has number id, or nil.
func (t *Transactions) Lookup(id txn.ProcID) *Transaction {
	if int(id) >= len(t.byID) {
		return nil
	}
	return t.byID[id]
}
