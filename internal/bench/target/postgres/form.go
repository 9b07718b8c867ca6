package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// transactions are the transactions for which workloads provide their own SQL.
var transactions = catalog.Transactions()

// formSettings adds the settings of clients' connections that run SQL transactions. They make plans look up rows by key
// instead of joining whole tables. At SERIALIZABLE, a full scan locks the whole table, even a small one. Times are text
// in a format that does not depend on the time zone.
func formSettings(settings map[string]string, schema string) {
	settings["search_path"] = schema
	settings["enable_hashjoin"], settings["enable_mergejoin"] = "off", "off"
	settings["datestyle"] = "ISO"
}

// formConnection is a connection on which transactions are SQL.
type formConnection struct {
	*connection
	known map[preparation]*pgconn.StatementDescription
	call  sqlform.Call
	texts texts
	form  formStatement
}

// preparation identifies a prepared statement: a statement of a form, in its version for runs with or without a
// recorded history.
type preparation struct {
	*sqlform.Statement
	recorded bool
}

// Begin implements target.Connection.
func (c *formConnection) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	if _, err := c.connection.Begin(ctx, t); err != nil {
		return nil, err
	}
	c.form = formStatement{statement: &c.tx, on: c}
	return &c.form, nil
}

// learn prepares the statements of a transaction at its first use, in one round trip. Connect cannot prepare them,
// because the tables are created after the clients connect.
func (c *formConnection) learn(ctx context.Context, x *sqlform.Transaction, recorded bool) error {
	texts, of := map[string]string{}, map[string]*sqlform.Statement{}
	for _, s := range x.Statements {
		if c.known[preparation{s, recorded}] == nil {
			name := s.Name
			if recorded {
				name += "_recorded"
			}
			texts[name], of[name] = s.Text(recorded), s
		}
	}
	if len(texts) == 0 {
		return nil
	}
	prepared, err := prepare(ctx, c.PgConn, texts)
	if err != nil {
		return err
	}
	if c.known == nil {
		c.known = map[preparation]*pgconn.StatementDescription{}
	}
	for name, described := range prepared {
		c.known[preparation{of[name], recorded}] = described
	}
	return nil
}

// formStatement implements target.Caller, and sqlform.Connection.
type formStatement struct {
	*statement
	on       *formConnection
	recorded bool
}

// texts are the parameters of one statement in the server's text format. The buffers are reused for the next statement.
type texts struct {
	arena  []byte
	ends   []int
	values [][]byte
}

// of returns the texts of parameters, which are valid until the next call.
func (t *texts) of(args []sqlform.Arg) [][]byte {
	t.arena, t.ends, t.values = t.arena[:0], t.ends[:0], t.values[:0]
	for i := range args {
		t.arena = args[i].Append(t.arena)
		t.ends = append(t.ends, len(t.arena))
	}
	// Slice the arena only after all appends: an append may have moved it.
	from := 0
	for _, to := range t.ends {
		t.values, from = append(t.values, t.arena[from:to:to]), to
	}
	return t.values
}

// Call implements target.Caller.
func (s *formStatement) Call(t *txn.Transaction, use func(txn.Key)) ([]byte, error) {
	x := transactions.Lookup(sqlform.Number(t))
	if x == nil {
		return nil, fmt.Errorf("procedure %d has no SQL: %w", t.Proc, txn.ErrProcedure)
	}
	s.recorded = sqlform.Recorded(t)
	if err := s.on.learn(s.ctx, x, s.recorded); err != nil {
		return nil, err
	}
	result, err := s.on.call.Run(x, t, s, use)
	if err == nil && !s.c.together {
		err = s.on.call.Send() // COMMIT then takes a separate round trip
	}
	return result, err
}

// Queue implements sqlform.Connection.
func (s *formStatement) Queue(q *sqlform.Statement, args []sqlform.Arg, row func(values [][]byte) bool) {
	s.enqueue(s.on.known[preparation{q, s.recorded}], s.on.texts.of(args), nil, row)
}

// Send implements sqlform.Connection.
func (s *formStatement) Send() error {
	if s.waiting == nil {
		return nil
	}
	_, err := s.send(s.ctx)
	return err
}

// madeTables lists the tables that Geobench has created for a form in the schema.
func (d *dialect) madeTables(ctx context.Context, c conn) (names []string, err error) {
	err = query(ctx, c, "select quote_ident(relname) from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r' and relname <> 'rows' "+
		"and obj_description(oid, 'pg_class') like $2 order by relname", func(values [][]byte) error {
		names = append(names, d.options.Place+"."+string(values[0]))
		return nil
	}, d.options.Place, sqltarget.Mark+"%")
	return names, err
}

// dropTables drops the form tables of an earlier load. It fails if objects of other users refer to the tables.
func (d *dialect) dropTables(ctx context.Context, c conn) error {
	names, err := d.madeTables(ctx, c)
	if err != nil || len(names) == 0 {
		return err
	}
	// A single statement drops all tables together, so their foreign keys to each other do not matter.
	err = exec(ctx, c, "drop table "+strings.Join(names, ", "))
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == dependentObjects {
		return sqltarget.Wrong(sqltarget.ParameterField(schemaParameter), d.options.Place,
			"the tables that Geobench has made there cannot be dropped, since something else refers to them (%s): drop that, or use another schema", strings.ReplaceAll(answer.Detail, "\n", "; "))
	}
	return err
}

// MakeTables implements sqltarget.Former.
func (d *dialect) MakeTables(ctx context.Context, c conn, f *sqlform.Form, recorded bool, mark string) error {
	var sql []string
	for i := range f.Tables {
		t := &f.Tables[i]
		name := d.options.Place + "." + t.Name
		there, err := row(ctx, c, "select to_regclass($1) is not null", name)
		if err != nil {
			return err
		}
		if there[0] == "t" {
			return sqltarget.Wrong(sqltarget.ParameterField(schemaParameter), d.options.Place,
				"the table %s there is not Geobench's, which would make one of this name: use another schema", name)
		}
		columns := t.Columns[:len(t.Columns):len(t.Columns)]
		if recorded {
			columns = append(append(columns, sqlform.Versions...), t.Recorded...)
		}
		sql = append(sql, fmt.Sprintf("create table %s (%s)", name, strings.Join(columns, ", ")), fmt.Sprintf("comment on table %s is '%s'", name, mark))
	}
	return exec(ctx, c, strings.Join(sql, "; "))
}

// CopyInto implements sqltarget.Former. It runs one COPY for each chunk.
func (d *dialect) CopyInto(ctx context.Context, e sqltarget.Endpoint, f *sqlform.Form, chunks <-chan sqltarget.Chunk) error {
	c, err := d.Dial(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the rows are loaded, or COPY has returned its error
	if err := exec(ctx, c, "set datestyle = 'ISO'"); err != nil {
		return err
	}
	for chunk := range chunks {
		t := &f.Tables[chunk.Table]
		if _, err := c.CopyFrom(ctx, bytes.NewReader(chunk.Rows), fmt.Sprintf("copy %s.%s (%s) from stdin", d.options.Place, t.Name, t.ColumnNames())); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// Finish implements sqltarget.Former.
func (d *dialect) Finish(ctx context.Context, c conn, t *sqlform.Table) error {
	name := d.options.Place + "." + t.Name
	var sql []string
	if t.Key != "" {
		sql = append(sql, fmt.Sprintf("alter table %s add primary key (%s)", name, t.Key))
	}
	if t.Unique != "" {
		sql = append(sql, fmt.Sprintf("alter table %s add unique (%s)", name, t.Unique))
	}
	for _, columns := range t.Indexes {
		sql = append(sql, fmt.Sprintf("create index on %s (%s)", name, columns))
	}
	return exec(ctx, c, strings.Join(sql, "; "))
}

// Refer implements sqltarget.Former.
func (d *dialect) Refer(ctx context.Context, c conn, f *sqlform.Form) error {
	for i := range f.Tables {
		t := &f.Tables[i]
		for _, r := range t.References {
			if err := exec(ctx, c, fmt.Sprintf("alter table %s.%s add foreign key (%s) references %[1]s.%[4]s", d.options.Place, t.Name, r.Columns, r.Of)); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

// Refine implements sqltarget.Former. It vacuums and analyzes like Settle.
func (d *dialect) Refine(ctx context.Context, c conn, f *sqlform.Form) error {
	var names []string
	for i := range f.Tables {
		names = append(names, d.options.Place+"."+f.Tables[i].Name)
	}
	return exec(ctx, c, "vacuum (analyze) "+strings.Join(names, ", "))
}

// Snapshot implements sqltarget.Former.
func (d *dialect) Snapshot(ctx context.Context, c conn, f func(q sqlform.Query) error) error {
	if err := exec(ctx, c, "begin isolation level repeatable read read only; set local search_path = "+d.options.Place); err != nil {
		return err
	}
	err := f(func(sql string, row func(r *sqlform.Row) error) error {
		return query(ctx, c, sql, func(values [][]byte) error {
			r := sqlform.NewRow(values)
			return row(&r)
		})
	})
	// The snapshot's transaction must not stay open on the query connection.
	if err != nil {
		_ = exec(ctx, c, "rollback")
		return err
	}
	return exec(ctx, c, "commit")
}
