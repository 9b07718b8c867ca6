package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// conn is a connection of the driver. It is used without database/sql, because the pool and the retries of database/sql
// would hide the failures that a run measures.
type conn struct{ driver.Conn }

// Ping implements sqltarget.Conn.
func (c *conn) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

// Broken implements sqltarget.Conn.
func (c *conn) Broken() bool { return !c.Conn.(driver.Validator).IsValid() }

// exec runs a statement that returns no rows.
func (c *conn) exec(ctx context.Context, sql string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, sql, nil)
	return err
}

// query sends a statement as text and calls row with the values of each row.
func (c *conn) query(ctx context.Context, sql string, row func(values []driver.Value)) error {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, sql, nil)
	if err != nil {
		return err
	}
	return read(rows, func(values []driver.Value) bool { row(values); return true })
}

// row runs a query that must return exactly one row, and returns the row's values as text; NULL becomes "".
func (c *conn) row(ctx context.Context, sql string) ([]string, error) {
	var texts [][]string
	err := c.query(ctx, sql, func(values []driver.Value) {
		var row []string
		for _, v := range values {
			switch v := v.(type) {
			case nil:
				row = append(row, "")
			case []byte:
				row = append(row, string(v))
			default:
				row = append(row, fmt.Sprint(v))
			}
		}
		texts = append(texts, row)
	})
	if err != nil {
		return nil, err
	}
	if len(texts) != 1 {
		return nil, fmt.Errorf("%d rows came of %q, not 1", len(texts), sql)
	}
	return texts[0], nil
}

// read calls row with the values of each row until row returns false. Byte slices are valid only during the call.
func read(rows driver.Rows, row func(values []driver.Value) bool) error {
	values := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return rows.Close()
		case err != nil:
			return errors.Join(err, rows.Close())
		case !row(values):
			return rows.Close()
		}
	}
}

// connection implements target.Connection. It contains the statement, because it runs only one transaction at a time.
type connection struct {
	*conn
	table, said                      string
	id                               string // connection ID at the server
	get, put, remove, scan, scanBack driver.Stmt
	// getAll maps a number of keys, which is a power of two, to the statement that reads this number of keys.
	getAll map[int]driver.Stmt
	tx     statement
	alone  bool // transactions begin with a separate message
}

// session returns the connection's ID at the server.
func (c *connection) session() string { return c.id }

// force keeps the optimizer from scanning a small table, because at SERIALIZABLE a scan locks the whole table.
const force = " force index (primary)"

// Connect implements sqltarget.Dialect. It returns a client's connection with its statements prepared. Autocommit is
// off, so a transaction starts with its first statement and BEGIN costs no round trip unless BeginAlone is set.
func (d *dialect) Connect(ctx context.Context, e sqltarget.Endpoint) (target.Connection, error) {
	opened, err := dial(ctx, d.clientConfig(e))
	if err != nil {
		return nil, err
	}
	c := &connection{conn: opened, table: d.table, said: d.said, getAll: map[int]driver.Stmt{}, alone: d.options.BeginAlone}
	settings := []string{"set session transaction isolation level " + d.level.sql, "set autocommit = 0"}
	if d.snapshots {
		settings = append(settings, fmt.Sprintf("set innodb_snapshot_isolation = %t", d.level.strict))
	}
	if p := d.options.Product; p != nil {
		settings = append(settings, p.clients(d.level)...)
	}
	if d.galera {
		settings = append(settings, fmt.Sprintf("set wsrep_sync_wait = %d", d.syncWait()))
	}
	if d.options.Form == sqltarget.FormSQL {
		settings = append(settings, formSettings...)
	}
	err = c.set(ctx, settings...)
	prepare := func(sql string) (s driver.Stmt) {
		if err == nil {
			s, err = c.prepare(ctx, sql)
		}
		return s
	}
	if err == nil {
		var id []string
		if id, err = c.row(ctx, "select connection_id()"); err == nil {
			c.id = id[0]
		}
	}
	c.get = prepare("select" + d.said + " v from " + c.table + force + " where k = ?")
	c.put = prepare("insert" + d.said + " into " + c.table + " (k, v) values (?, ?) on duplicate key update v = values(v)")
	c.remove = prepare("delete" + d.said + " from " + c.table + " where k = ?")
	c.scan = prepare("select" + d.said + " k, v from " + c.table + force + " where k >= ? and k < ? order by k limit ?")
	c.scanBack = prepare("select" + d.said + " k, v from " + c.table + force + " where k >= ? and k < ? order by k desc limit ?")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if d.options.Form == sqltarget.FormSQL {
		return &formConnection{connection: c, known: map[preparation]*template{}}, nil
	}
	return c, nil
}

func (c *conn) prepare(ctx context.Context, sql string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, sql)
}

// Begin implements target.Connection.
func (c *connection) Begin(ctx context.Context, _ *txn.Transaction) (target.Statement, error) {
	c.tx = statement{c: c, ctx: ctx, values: c.tx.values[:0], began: c.alone}
	if c.alone {
		if err := c.conn.exec(ctx, "start transaction"+c.said); err != nil {
			return nil, err
		}
	}
	return &c.tx, nil
}

// statement implements target.Statement.
type statement struct {
	c      *connection
	ctx    context.Context
	began  bool
	values []driver.NamedValue // parameters of the next statement; reused
}

// bind sets the parameters of the next statement.
func (s *statement) bind(values ...driver.Value) {
	s.values = s.values[:0]
	for i, v := range values {
		s.values = append(s.values, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
}

// rows runs a prepared query and calls row with the values of each row until row returns false.
func (s *statement) rows(q driver.Stmt, row func(values []driver.Value) bool) error {
	// Set began even if the query fails: with autocommit off, the server may have opened a transaction.
	s.began = true
	rows, err := q.(driver.StmtQueryContext).QueryContext(s.ctx, s.values)
	if err != nil {
		return err
	}
	return read(rows, row)
}

func (s *statement) exec(q driver.Stmt) error {
	s.began = true
	_, err := q.(driver.StmtExecContext).ExecContext(s.ctx, s.values)
	return err
}

// bytesOf returns a non-nil copy of a column's bytes.
func bytesOf(v driver.Value) []byte {
	b, _ := v.([]byte)
	return sqltarget.CopyOf(b)
}

// Get implements target.Statement.
func (s *statement) Get(k txn.Key) (value []byte, err error) {
	s.bind([]byte(k))
	err = s.rows(s.c.get, func(values []driver.Value) bool { value = bytesOf(values[0]); return true })
	if err == nil && value == nil {
		err = txn.ErrNotFound
	}
	return value, err
}

// GetAll implements target.Statement. It prepares statements only for powers of two, and repeats the last key to fill
// the parameters.
func (s *statement) GetAll(keys []txn.Key) ([][]byte, error) {
	n := 1
	for n < len(keys) {
		n *= 2
	}
	q, ok := s.c.getAll[n]
	if !ok {
		var err error
		if q, err = s.c.prepare(s.ctx, "select"+s.c.said+" k, v from "+s.c.table+force+" where k in (?"+strings.Repeat(", ?", n-1)+")"); err != nil {
			return nil, err
		}
		s.c.getAll[n] = q
	}
	values := make([]driver.Value, n)
	for i := range values {
		values[i] = []byte(keys[min(i, len(keys)-1)])
	}
	s.bind(values...)
	found := make(map[txn.Key][]byte, len(keys))
	err := s.rows(q, func(values []driver.Value) bool {
		found[txn.Key(bytesOf(values[0]))] = bytesOf(values[1])
		return true
	})
	if err != nil {
		return nil, err
	}
	all := make([][]byte, len(keys))
	for i, k := range keys {
		all[i] = found[k]
	}
	return all, nil
}

// Scan implements target.Statement.
func (s *statement) Scan(r txn.Range, f func(k txn.Key, value []byte) bool) error {
	limit := int64(math.MaxInt64)
	if r.Limit > 0 {
		limit = int64(r.Limit)
	}
	q := s.c.scan
	if r.Reverse {
		q = s.c.scanBack
	}
	s.bind([]byte(r.From), []byte(r.To), limit)
	return s.rows(q, func(values []driver.Value) bool { return f(txn.Key(bytesOf(values[0])), bytesOf(values[1])) })
}

// Put implements target.Statement.
func (s *statement) Put(k txn.Key, value []byte) error {
	if value == nil {
		value = []byte{} // nil would be NULL
	}
	s.bind([]byte(k), value)
	return s.exec(s.c.put)
}

// Delete implements target.Statement.
func (s *statement) Delete(k txn.Key) error {
	s.bind([]byte(k))
	return s.exec(s.c.remove)
}

// Commit implements target.Statement.
func (s *statement) Commit(ctx context.Context) error {
	// No statement was sent, so the server has no open transaction.
	if !s.began {
		return nil
	}
	return s.c.conn.exec(ctx, "commit"+s.c.said)
}

// Rollback implements target.Statement.
func (s *statement) Rollback(ctx context.Context) error {
	if !s.began {
		return nil
	}
	return s.c.conn.exec(ctx, "rollback"+s.c.said)
}
