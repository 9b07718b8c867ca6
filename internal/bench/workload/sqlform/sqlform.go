// Package sqlform defines the SQL form of a workload, for databases on which running the workload's procedures row by
// row would be unfair. A form has tables with columns, keys and indexes as in the workload's specification. Its
// transactions are written as in a good application: prepared statements, sent together where possible.
//
// A form supplements the procedures. Its tables contain the columns of the same rows (Form.Row). A transaction has the
// arguments and the result of the procedure with the same number. An audit returns the sums of workload.Workload.Audit.
// Clients, ledgers and checks are therefore the same as for procedures.
//
// In recorded runs, the tables have two additional columns. Column version is the transaction that wrote the row, and
// prior is the writer of the previous version. A statement that reads a row returns version, and a statement that
// writes a row returns prior. A transaction reports these values like a traced procedure (package history).
//
// Statements are in PostgreSQL's dialect, which supports array parameters and returns updated rows. MySQL and MariaDB
// support neither, but accept several statements in one message. MySQLText derives such a message from the statement,
// unless Statement.MySQL contains it. A transaction has the same effect on the rows in all databases.
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
	// Tables are sorted so that each table follows the tables that it references.
	Tables []Table
	// Row appends the columns of one of the workload's rows, in table order. It returns the table's index in Tables, or
	// NoTable. It returns an error if key and value are not a row of the workload.
	Row func(k txn.Key, value []byte, c *Columns) (table int, err error)
	// Audit returns sums over the tables. All of its queries see the same snapshot.
	Audit func(q Query) (Audit, error)
}

// NoTable is the table of a row that is an index entry. In SQL, the database itself maintains its indexes.
const NoTable = -1

// Workload is a workload.Workload with a form. Its package lists the transactions.
type Workload interface {
	Form() *Form
}

// Table is a table of a specification.
type Table struct {
	Name string
	// Columns are the column definitions, such as "w_name varchar(10)", in the order of the columns in rows.
	Columns []string
	// Key lists the columns of the primary key, or is empty if there is none. Unique lists the columns of a unique key,
	// and each element of Indexes the columns of another index.
	Key     string
	Unique  string
	Indexes []string
	// References are the foreign keys.
	References []Reference
	// Recorded are further columns that the table has in recorded runs, in addition to Versions.
	Recorded []string
}

// Reference is a foreign key.
type Reference struct {
	// Columns reference Of, which is a table with its key columns, such as district (d_w_id, d_id).
	Columns, Of string
}

// Versions are the additional columns of every table in a recorded run: the row's writer, and the writer of the
// previous version. In loaded rows both are 0, which is history.Initial.
var Versions = []string{"version bigint not null default 0", "prior bigint not null default 0"}

// ColumnNames returns the names of the table's columns, without Recorded and Versions.
func (t *Table) ColumnNames() string {
	var names []string
	for _, c := range t.Columns {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Query runs a query and calls row for each row.
type Query func(sql string, row func(r *Row) error) error

// Audit is the result of Form.Audit.
type Audit struct {
	// Sums are the sums of workload.Workload.Audit.
	Sums map[string]int64
	// Rows is the number of rows in all tables, without the rows that every node stores. Everywhere is the number of rows
	// that every node stores.
	Rows, Everywhere int64
}

// Statement is a prepared statement. Text in braces applies only to recorded runs. In such runs, $v is an additional
// last parameter, the ID of the transaction:
//
//	update district set d_next_o_id = d_next_o_id + 1 {, prior = version, version = $v}
//	  where d_w_id = $1 returning d_tax {, prior}
type Statement struct {
	Name string
	SQL  string
	// MySQL is the text for MySQL and MariaDB if the output of MySQLText is unsuitable. It has one or several statements,
	// separated by semicolons, whose selects together return the rows. Text in brackets is repeated for each element of
	// the arrays of its parameters. Text in angle brackets, or else a comma, separates the repetitions:
	//
	//	[<; >update orders set o_carrier_id = $3 where o_w_id = $1 and o_id = $2];
	//	  select o_c_id from orders where o_w_id = $1 and o_id in ([$2])
	MySQL string
}

const versionParameter = "$v"

// Text returns the statement for PostgreSQL.
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

// cast matches the type annotation of a parameter, which only PostgreSQL needs.
var cast = regexp.MustCompile(`::[a-z]+`)

// MySQLText returns the statements that are sent to MySQL instead of this statement, with brackets as in
// Statement.MySQL. If the statement is an update of a single row that returns columns, a SELECT after the update
// returns them. The SELECT is in the same message and transaction. At every isolation level, the SELECT sees the values
// that the update has written.
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

// parameters returns the number of parameters in unrecorded runs.
func (s *Statement) parameters() (n int) {
	for n = 0; strings.Contains(s.SQL, "$"+strconv.Itoa(n+1)); n++ {
	}
	return n
}

// stamps reports whether the statement writes versions.
func (s *Statement) stamps() bool { return strings.Contains(s.SQL, versionParameter) }

// Transaction is a workload's transaction in SQL.
type Transaction struct {
	// Procedure is the procedure with the same arguments and the same result.
	Procedure txn.ProcID
	// Statements are all statements that Run uses.
	Statements []*Statement
	// Run runs the transaction, without its commit or rollback. It returns a txn.Abort if the transaction aborts itself.
	// Any other error comes from the database or reports an unreadable answer.
	Run func(c *Call) (result []byte, err error)
}

// Transactions maps procedure numbers to the transactions of all workloads.
type Transactions struct{ byID []*Transaction }

// NewTransactions returns the transactions of all workloads. It panics if two have the same number, which is a
// programming error.
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

// Lookup returns the transaction whose procedure has number id, or nil if there is none.
func (t *Transactions) Lookup(id txn.ProcID) *Transaction {
	if int(id) >= len(t.byID) {
		return nil
	}
	return t.byID[id]
}
