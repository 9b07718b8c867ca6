package mysql

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// transactions are the SQL transactions of all workloads.
var transactions = catalog.Transactions()

// formSettings are the settings of sessions that use the tables of a form. They override the server's settings. With
// sql_mode, strings are in single quotes with backslash escapes, || concatenates strings, and a value that does not fit
// into a column is an error. The setting max_seeks_for_key makes plans prefer indexes, because at SERIALIZABLE a table
// scan locks the whole table.
var formSettings = []string{
	"set sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT'",
	"set max_seeks_for_key = 1",
}

func (c *conn) set(ctx context.Context, settings ...string) error {
	for _, sql := range settings {
		if err := c.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// formConnection is a connection whose transactions are SQL. Statements that can be sent together form one message with
// several statements. The protocol cannot pipeline in any other way, and it sends each prepared statement separately.
type formConnection struct {
	*connection
	known map[preparation]*template
	call  sqlform.Call
	form  formStatement
	// text holds the queued statements, and rows the functions that receive their rows. arena and values hold the values
	// of the current row. All four are reused.
	text   []byte
	rows   []func(values [][]byte) bool
	arena  []byte
	values [][]byte
}

// preparation identifies a parsed statement: a statement of a form, in its version for runs with or without a recorded
// history.
type preparation struct {
	*sqlform.Statement
	recorded bool
}

// Begin implements target.Connection.
func (c *formConnection) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	if _, err := c.connection.Begin(ctx, t); err != nil {
		return nil, err
	}
	c.text, c.rows = c.text[:0], c.rows[:0]
	c.form = formStatement{statement: &c.tx, on: c, recorded: sqlform.Recorded(t)}
	return &c.form, nil
}

// learn parses the statements of a transaction at its first use.
func (c *formConnection) learn(x *sqlform.Transaction, recorded bool) (err error) {
	for _, s := range x.Statements {
		p := preparation{s, recorded}
		if c.known[p] != nil {
			continue
		}
		if c.known[p], err = newTemplate(s.MySQLText(recorded), c.said); err != nil {
			return fmt.Errorf("statement %s: %w", s.Name, err)
		}
	}
	return nil
}

// formStatement implements target.Caller, and sqlform.Connection.
type formStatement struct {
	*statement
	on       *formConnection
	recorded bool
}

// Call implements target.Caller. It sends the last queued statements before COMMIT, which takes a separate round trip.
// If the connection breaks during Call, nothing was committed. If it breaks during COMMIT, the outcome is unknown.
func (s *formStatement) Call(t *txn.Transaction, use func(txn.Key)) ([]byte, error) {
	x := transactions.Lookup(sqlform.Number(t))
	if x == nil {
		return nil, fmt.Errorf("procedure %d has no SQL: %w", t.Proc, txn.ErrProcedure)
	}
	if err := s.on.learn(x, s.recorded); err != nil {
		return nil, err
	}
	result, err := s.on.call.Run(x, t, s, use)
	if err == nil {
		err = s.on.call.Send()
	}
	return result, err
}

// Queue implements sqlform.Connection.
func (s *formStatement) Queue(q *sqlform.Statement, args []sqlform.Arg, row func(values [][]byte) bool) {
	c := s.on
	if len(c.text) > 0 {
		c.text = append(c.text, "; "...)
	}
	var results int
	// A repeated SELECT returns one result per element; all of them go to the same function.
	c.text, results = c.known[preparation{q, s.recorded}].append(c.text, args)
	for range results {
		c.rows = append(c.rows, row)
	}
}

// Send implements sqlform.Connection.
func (s *formStatement) Send() error {
	c := s.on
	if len(c.text) == 0 {
		return nil
	}
	// Set began even if sending fails: the server may have received statements that opened a transaction.
	s.began = true
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(s.ctx, string(c.text), nil)
	if err == nil {
		err = errors.Join(c.readAll(rows), rows.Close())
	}
	c.text, c.rows = c.text[:0], c.rows[:0]
	return err
}

// readAll passes the rows of each result to the function of the result's statement.
func (c *formConnection) readAll(rows driver.Rows) error {
	results := rows.(driver.RowsNextResultSet)
	// The driver skips results without columns, so none are left if no statement returns rows.
	if len(rows.Columns()) == 0 {
		if len(c.rows) > 0 {
			return fmt.Errorf("the server has answered %d queries without rows", len(c.rows))
		}
		return nil
	}
	for i := 0; ; i++ {
		// Fewer or more results than expected would pass rows to the wrong statement.
		if i == len(c.rows) {
			return fmt.Errorf("the server has returned more than the %d results that were asked for", len(c.rows))
		}
		if err := c.readRows(rows, c.rows[i]); err != nil {
			return err
		}
		switch err := results.NextResultSet(); {
		case errors.Is(err, io.EOF) && i+1 < len(c.rows):
			return fmt.Errorf("the server has returned %d results, and not the %d that were asked for", i+1, len(c.rows))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readRows reads one result. It discards the remaining rows once row returns false.
func (c *formConnection) readRows(rows driver.Rows, row func(values [][]byte) bool) error {
	columns := len(rows.Columns())
	taken := make([]driver.Value, columns)
	for {
		switch err := rows.Next(taken); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case row == nil:
			continue
		}
		c.arena, c.values = c.arena[:0], c.values[:0]
		for _, v := range taken {
			from := len(c.arena)
			switch v := v.(type) {
			case nil:
				c.values = append(c.values, nil)
				continue
			case []byte:
				c.values = append(c.values, v)
				continue
			case int64:
				c.arena = strconv.AppendInt(c.arena, v, 10)
			case uint64:
				c.arena = strconv.AppendUint(c.arena, v, 10)
			default:
				c.arena = fmt.Append(c.arena, v)
			}
			c.values = append(c.values, c.arena[from:len(c.arena):len(c.arena)])
		}
		if !row(c.values) {
			row = nil
		}
	}
}

// lockTables takes the lock of the form tables for connection c. The specifications fix the names of these tables, so
// only one run in a database can use them, whatever its table parameter is.
func (d *dialect) lockTables(ctx context.Context, c *conn) error {
	locked, err := c.row(ctx, "select get_lock(concat('geobench.form.', md5(database())), 2)")
	if err == nil && locked[0] != "1" {
		err = sqltarget.Wrong(sqltarget.DatabaseField, d.server.Database, "another run with %s: %s uses the tables of this database now, which have the names of their specification: wait for it, or name another database",
			sqltarget.FormParameter, sqltarget.FormSQL)
	}
	return err
}

// quoted returns a name in MySQL's backquotes.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// literal returns text as an SQL string literal. It assumes that sql_mode lacks NO_BACKSLASH_ESCAPES.
func literal(text string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'"
}

// madeTables lists the tables that Geobench has created for a form in the database.
func (d *dialect) madeTables(ctx context.Context, c *conn) (names []string, err error) {
	err = c.query(ctx, "select table_name from information_schema.tables where table_schema = database() and table_type = 'BASE TABLE' and table_comment like '"+
		sqltarget.Mark+"%' order by table_name", func(values []driver.Value) {
		if name := string(bytesOf(values[0])); !slices.Contains(tables, name) {
			names = append(names, name)
		}
	})
	return names, err
}

// dropTables drops the form tables of an earlier load. It fails if tables of other users refer to them.
func (d *dialect) dropTables(ctx context.Context, c *conn) error {
	names, err := d.madeTables(ctx, c)
	if err != nil || len(names) == 0 {
		return err
	}
	literals := make([]string, len(names))
	for i, name := range names {
		literals[i] = literal(name)
	}
	list := strings.Join(literals, ", ")
	var others []string
	err = c.query(ctx, "select distinct concat(table_schema, '.', table_name) from information_schema.key_column_usage where referenced_table_schema = database() and referenced_table_name in ("+list+
		") and not (table_schema = database() and table_name in ("+list+")) order by 1", func(values []driver.Value) {
		others = append(others, string(bytesOf(values[0])))
	})
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return sqltarget.Wrong(sqltarget.DatabaseField, d.server.Database, "the tables that Geobench has made there cannot be dropped, since the tables %s refer to them: drop these, or name another database", strings.Join(others, ", "))
	}
	for i, name := range names {
		names[i] = quoted(name)
	}
	// The tables refer to each other, so foreign key checks would reject the drops in any order. The checks can safely be
	// off, because no other table refers to these tables.
	if err := c.exec(ctx, "set foreign_key_checks = 0"); err != nil {
		return err
	}
	return errors.Join(c.exec(ctx, "drop table "+strings.Join(names, ", ")), c.exec(ctx, "set foreign_key_checks = 1"))
}

// columnTypes replaces PostgreSQL's column types with MySQL's. MySQL's timestamp ends in 2038, and by default has no
// fractional seconds.
var columnTypes = strings.NewReplacer(" timestamp", " datetime(6)", ` collate "C"`, "")

// MakeTables implements sqltarget.Former. It also creates the primary keys: InnoDB stores rows in key order, so adding
// a primary key later would rewrite all rows. Text columns sort by bytes.
func (d *dialect) MakeTables(ctx context.Context, c *conn, f *sqlform.Form, recorded bool, mark string) error {
	for i := range f.Tables {
		t := &f.Tables[i]
		there, err := c.row(ctx, "select count(*) from information_schema.tables where table_schema = database() and table_name = '"+t.Name+"'")
		if err != nil {
			return err
		}
		if there[0] != "0" {
			return sqltarget.Wrong(sqltarget.DatabaseField, d.server.Database, "the table %s there is not Geobench's, which would make one of this name: name another database", t.Name)
		}
		var columns []string
		for _, column := range t.Columns {
			columns = append(columns, columnTypes.Replace(column))
		}
		if recorded {
			columns = append(append(columns, sqlform.Versions...), t.Recorded...)
		}
		if t.Key != "" {
			columns = append(columns, "primary key ("+t.Key+")")
		}
		err = c.exec(ctx, fmt.Sprintf("create table %s (%s) engine = InnoDB default character set latin1 collate latin1_bin comment = '%s'", t.Name, strings.Join(columns, ", "), mark))
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// CopyInto implements sqltarget.Former. It runs one INSERT for each chunk.
func (d *dialect) CopyInto(ctx context.Context, e sqltarget.Endpoint, f *sqlform.Form, chunks <-chan sqltarget.Chunk) error {
	c, err := d.dial(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the rows are loaded, or INSERT has returned its error
	if err := c.set(ctx, formSettings...); err != nil {
		return err
	}
	var sql []byte
	for chunk := range chunks {
		t := &f.Tables[chunk.Table]
		sql = fmt.Appendf(sql[:0], "insert%s into %s (%s) values ", d.said, t.Name, t.ColumnNames())
		sql = appendValues(sql, chunk.Rows)
		if err := c.exec(ctx, string(sql)); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// appendValues converts rows from the text format of COPY to a VALUES list. Both formats use the same backslash
// escapes, so only single quotes need escaping. The server converts texts to numbers exactly.
func appendValues(b, rows []byte) []byte {
	separator := "("
	for len(rows) > 0 {
		end := bytes.IndexAny(rows, "\t\n")
		b = append(b, separator...)
		if field := rows[:end]; string(field) == `\N` {
			b = append(b, "null"...)
		} else {
			b = append(b, '\'')
			for {
				at := bytes.IndexByte(field, '\'')
				if at < 0 {
					break
				}
				b = append(append(b, field[:at]...), `\'`...)
				field = field[at+1:]
			}
			b = append(append(b, field...), '\'')
		}
		if separator = ","; rows[end] == '\n' {
			b = append(b, ')')
			separator = ",("
		}
		rows = rows[end+1:]
	}
	return b
}

// Finish implements sqltarget.Former. The primary key already exists.
func (d *dialect) Finish(ctx context.Context, c *conn, t *sqlform.Table) error {
	var add []string
	if t.Unique != "" {
		add = append(add, "add unique ("+t.Unique+")")
	}
	for _, columns := range t.Indexes {
		add = append(add, "add index ("+columns+")")
	}
	return alter(ctx, c, t, add)
}

// alter applies all changes in a single ALTER TABLE, because each ALTER TABLE may rewrite all rows.
func alter(ctx context.Context, c *conn, t *sqlform.Table, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	if err := c.exec(ctx, "alter table "+t.Name+" "+strings.Join(changes, ", ")); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}

// Refer implements sqltarget.Former. The server adds the indexes that foreign keys need if the specification does not
// define them.
func (d *dialect) Refer(ctx context.Context, c *conn, f *sqlform.Form) error {
	for i := range f.Tables {
		t := &f.Tables[i]
		var add []string
		for _, r := range t.References {
			add = append(add, fmt.Sprintf("add foreign key (%s) references %s", r.Columns, r.Of))
		}
		if err := alter(ctx, c, t, add); err != nil {
			return err
		}
	}
	return nil
}

// Refine implements sqltarget.Former. It updates the statistics like Settle.
func (d *dialect) Refine(ctx context.Context, c *conn, f *sqlform.Form) error {
	var names []string
	for i := range f.Tables {
		names = append(names, f.Tables[i].Name)
	}
	return c.query(ctx, "analyze local table "+strings.Join(names, ", "), func([]driver.Value) {})
}

// Snapshot implements sqltarget.Former. The session is at REPEATABLE READ, and a Galera node applies all earlier
// commits before the snapshot.
func (d *dialect) Snapshot(ctx context.Context, c *conn, f func(q sqlform.Query) error) error {
	if err := c.set(ctx, append(slices.Clone(formSettings), "start transaction with consistent snapshot, read only")...); err != nil {
		return err
	}
	// Read the rows of the snapshot with the code that reads clients' rows.
	reader := formConnection{connection: &connection{conn: c}}
	err := f(func(sql string, row func(r *sqlform.Row) error) error {
		rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, sql, nil)
		if err != nil {
			return err
		}
		var wrong error
		err = reader.readRows(rows, func(values [][]byte) bool {
			r := sqlform.NewRow(values)
			wrong = row(&r)
			return wrong == nil
		})
		return errors.Join(err, wrong, rows.Close())
	})
	if err != nil {
		_ = c.exec(ctx, "rollback")
		return err
	}
	return c.exec(ctx, "commit")
}

// clientConfig returns the settings of clients' connections. With FormSQL, a message may contain several statements.
func (d *dialect) clientConfig(e sqltarget.Endpoint) *mysql.Config {
	c := d.configs[e]
	if d.options.Form == sqltarget.FormSQL {
		c = c.Clone()
		c.MultiStatements = true
	}
	return c
}
