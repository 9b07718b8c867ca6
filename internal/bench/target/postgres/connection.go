package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// Names of the prepared statements. BEGIN is sent with the first statement of a transaction and costs no round trip,
// unless BeginAlone is set. With WritesTogether, writes are queued until the next read or COMMIT.
const (
	beginStatement    = "geobench_begin"
	commitStatement   = "geobench_commit"
	rollbackStatement = "geobench_rollback"
	getStatement      = "geobench_get"
	getAllStatement   = "geobench_get_all"
	scanStatement     = "geobench_scan"
	scanBackStatement = "geobench_scan_back"
	putStatement      = "geobench_put"
	deleteStatement   = "geobench_delete"
)

// statements returns the statements that each connection prepares. If rows are placed, each read or deletion also names
// the home region of its rows, because a server would otherwise search all regions.
func statements(table string, l level, h *homes) map[string]string {
	all := map[string]string{
		beginStatement:    "begin isolation level " + l.sql,
		commitStatement:   "commit",
		rollbackStatement: "rollback",
		getStatement:      "select v from " + table + " where k = $1",
		getAllStatement:   "select k, v from " + table + " where k = any($1)",
		scanStatement:     "select k, v from " + table + " where k >= $1 and k < $2 order by k limit $3",
		scanBackStatement: "select k, v from " + table + " where k >= $1 and k < $2 order by k desc limit $3",
		putStatement:      "insert into " + table + " (k, v) values ($1, $2) on conflict (k) do update set v = excluded.v",
		deleteStatement:   "delete from " + table + " where k = $1",
	}
	if h != nil {
		one := " and home = " + h.of("$1::bytea")
		all[getStatement] += one
		all[deleteStatement] += one
		all[getAllStatement] = "select r.k, r.v from unnest($1::bytea[]) as asked (k) join " + table + " as r on r.k = asked.k and r.home = " + h.of("asked.k")
		// All rows of a range belong to one group, and so have the same home.
		all[scanStatement] = strings.Replace(all[scanStatement], " order by", one+" order by", 1)
		all[scanBackStatement] = strings.Replace(all[scanBackStatement], " order by", one+" order by", 1)
	}
	return all
}

// binaryFormat selects the binary format for all parameters and results; bytea is sent as raw bytes.
var binaryFormat = []int16{1}

// connection implements target.Connection. It contains the statement, because it runs only one transaction at a time.
type connection struct {
	*pgconn.PgConn
	prepared map[string]*pgconn.StatementDescription
	// unlimited is the limit parameter of a scan without limit: NULL, or the largest number for products that may not
	// accept NULL.
	unlimited []byte
	together  bool // writes are queued until the next statement that needs an answer
	alone     bool // BEGIN is sent alone, before the first statement
	tx        statement
}

// Connect implements sqltarget.Dialect. It returns a client's connection with its statements prepared.
func (d *dialect) Connect(ctx context.Context, e sqltarget.Endpoint) (target.Connection, error) {
	c, err := d.dialClient(ctx, e)
	if err != nil {
		return nil, err
	}
	prepared, err := prepare(ctx, c, statements(d.table, d.level, d.homes))
	if err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	plain := &connection{PgConn: c, prepared: prepared, together: d.together, alone: d.options.BeginAlone}
	if d.product != nil {
		plain.unlimited = binary.BigEndian.AppendUint64(nil, math.MaxInt64)
	}
	if d.options.Form == sqltarget.FormSQL {
		return &formConnection{connection: plain}, nil
	}
	return plain, nil
}

// prepare prepares statements in one round trip. It returns the server's descriptions, so that later executions need
// not request them.
func prepare(ctx context.Context, c *pgconn.PgConn, statements map[string]string) (map[string]*pgconn.StatementDescription, error) {
	p := c.StartPipeline(ctx)
	var names []string
	for name, sql := range statements {
		names = append(names, name)
		p.SendPrepare(name, sql, nil)
	}
	if err := p.Sync(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	prepared := map[string]*pgconn.StatementDescription{}
	for _, name := range names {
		r, err := p.GetResults()
		described, ok := r.(*pgconn.StatementDescription)
		if err == nil && !ok {
			err = fmt.Errorf("the server answered the preparation of %s by %T", name, r)
		}
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		described.Name = name
		prepared[name] = described
	}
	return prepared, p.Close()
}

// Begin implements target.Connection.
func (c *connection) Begin(ctx context.Context, _ *txn.Transaction) (target.Statement, error) {
	// With BeginAlone, began prevents enqueue from adding BEGIN again.
	c.tx = statement{c: c, ctx: ctx, values: c.tx.values[:0], rows: c.tx.rows[:0], began: c.alone}
	if c.alone {
		if _, err := c.tx.run(ctx, beginStatement, nil); err != nil {
			return nil, err
		}
	}
	return &c.tx, nil
}

// Close implements target.Connection. If a context ended during a statement, the driver has already canceled the
// statement.
func (c *connection) Close() error { return closeWithin(c.PgConn) }

// statement implements target.Statement.
type statement struct {
	c     *connection
	ctx   context.Context
	began bool
	// waiting holds the queued statements; nil if there are none. rows holds, for each queued statement, the function
	// that receives its rows; nil if the statement returns none.
	waiting *pgconn.Batch
	rows    []func(values [][]byte) bool
	values  [][]byte // parameters of the next statement; reused
}

// queue queues a prepared statement, which is sent with the next statement that is run.
func (s *statement) queue(name string, row func(values [][]byte) bool) {
	s.enqueue(s.c.prepared[name], s.values, binaryFormat, row)
}

// enqueue queues a prepared statement with its parameters. format applies to parameters and results.
func (s *statement) enqueue(d *pgconn.StatementDescription, values [][]byte, format []int16, row func(values [][]byte) bool) {
	if s.waiting == nil {
		s.waiting, s.rows = &pgconn.Batch{}, s.rows[:0]
	}
	// BEGIN must precede the first statement in the same message.
	if !s.began {
		s.began = true
		s.waiting.ExecStatement(s.c.prepared[beginStatement], nil, nil, nil)
		s.rows = append(s.rows, nil)
	}
	s.waiting.ExecStatement(d, values, format, format)
	s.rows = append(s.rows, row)
}

// run sends the queued statements and a prepared statement in one round trip. It calls row with the values of each row
// of the last statement until row returns false. The values are valid only during the call. The error is the error of
// the first statement that failed; the server skips all later statements.
func (s *statement) run(ctx context.Context, name string, row func(values [][]byte) bool) (pgconn.CommandTag, error) {
	if s.began && s.waiting == nil {
		return s.read(s.c.ExecStatement(ctx, s.c.prepared[name], s.values, binaryFormat, binaryFormat), row)
	}
	s.queue(name, row)
	return s.send(ctx)
}

// send sends the queued statements. It returns the tag of the last statement and the first error.
func (s *statement) send(ctx context.Context) (pgconn.CommandTag, error) {
	sent := !s.c.IsClosed() && ctx.Err() == nil
	results := s.c.ExecBatch(ctx, s.waiting)
	s.waiting = nil
	tag, err := s.readAll(results)
	var answer *pgconn.PgError
	if err != nil && sent && !errors.As(err, &answer) {
		// If a connection breaks while the driver reads the answer, the driver may claim that nothing was sent, although the
		// statements were sent. Wrapping the error with %v hides this false claim from Classify.
		err = fmt.Errorf("statements that were sent together: %v", err)
	}
	return tag, err
}

// readAll reads the results of several statements. It returns the tag of the last statement.
func (s *statement) readAll(results *pgconn.MultiResultReader) (tag pgconn.CommandTag, err error) {
	for i := 0; results.NextResult(); i++ {
		if tag, err = s.read(results.ResultReader(), s.rows[i]); err != nil {
			_ = results.Close()
			return tag, err
		}
	}
	return tag, results.Close()
}

// write runs a statement that returns no rows, or queues it if writes are sent together.
func (s *statement) write(name string) error {
	if s.c.together {
		s.queue(name, nil)
		return nil
	}
	_, err := s.run(s.ctx, name, nil)
	return err
}

func (s *statement) read(r *pgconn.ResultReader, row func(values [][]byte) bool) (pgconn.CommandTag, error) {
	for r.NextRow() {
		if row != nil && !row(r.Values()) {
			break
		}
	}
	return r.Close()
}

// bind sets the parameters of the next statement.
func (s *statement) bind(values ...[]byte) { s.values = append(s.values[:0], values...) }

// Get implements target.Statement.
func (s *statement) Get(k txn.Key) (value []byte, err error) {
	s.bind([]byte(k))
	_, err = s.run(s.ctx, getStatement, func(values [][]byte) bool { value = sqltarget.CopyOf(values[0]); return true })
	if err == nil && value == nil {
		err = txn.ErrNotFound
	}
	return value, err
}

// GetAll implements target.Statement.
func (s *statement) GetAll(keys []txn.Key) ([][]byte, error) {
	found := make(map[txn.Key][]byte, len(keys))
	s.bind(byteaArray(keys))
	_, err := s.run(s.ctx, getAllStatement, func(values [][]byte) bool {
		found[txn.Key(values[0])] = sqltarget.CopyOf(values[1])
		return true
	})
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, k := range keys {
		values[i] = found[k]
	}
	return values, nil
}

// byteaOID is the OID of the type bytea, which is the same on every server.
const byteaOID = 17

// byteaArray encodes keys as a one-dimensional bytea[] in binary format.
func byteaArray(keys []txn.Key) []byte {
	b := make([]byte, 0, 20+32*len(keys))
	for _, n := range []uint32{1, 0, byteaOID, uint32(len(keys)), 1} { // dimensions, nulls, type; length and lower bound of the dimension
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, k := range keys {
		b = binary.BigEndian.AppendUint32(b, uint32(len(k)))
		b = append(b, k...)
	}
	return b
}

// Scan implements target.Statement.
func (s *statement) Scan(r txn.Range, f func(k txn.Key, value []byte) bool) error {
	limit := s.c.unlimited // all
	if r.Limit > 0 {
		limit = binary.BigEndian.AppendUint64(nil, uint64(r.Limit))
	}
	name := scanStatement
	if r.Reverse {
		name = scanBackStatement
	}
	s.bind([]byte(r.From), []byte(r.To), limit)
	_, err := s.run(s.ctx, name, func(values [][]byte) bool { return f(txn.Key(values[0]), sqltarget.CopyOf(values[1])) })
	return err
}

// Put implements target.Statement.
func (s *statement) Put(k txn.Key, value []byte) error {
	if value == nil {
		value = []byte{} // nil would be NULL
	}
	s.bind([]byte(k), value)
	return s.write(putStatement)
}

// Delete implements target.Statement.
func (s *statement) Delete(k txn.Key) error {
	s.bind([]byte(k))
	return s.write(deleteStatement)
}

// Commit implements target.Statement. If an earlier statement failed, the server answers COMMIT with ROLLBACK and
// without an error, so Commit checks the tag.
func (s *statement) Commit(ctx context.Context) error {
	// No statement was sent, so the server has no open transaction.
	if !s.began {
		return nil
	}
	s.bind()
	tag, err := s.run(ctx, commitStatement, nil)
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("%w (%s)", errNotCommitted, tag)
	}
	return err
}

// idle is the transaction status of a connection outside a transaction.
const idle = 'I'

// Rollback implements target.Statement.
func (s *statement) Rollback(ctx context.Context) error {
	// Drop the queued writes: the server never received them.
	s.waiting = nil
	// ROLLBACK would be a wasted round trip: the server has already ended the transaction or has never started it.
	if !s.c.IsClosed() && s.c.TxStatus() == idle {
		return nil
	}
	s.bind()
	_, err := s.run(ctx, rollbackStatement, nil)
	return err
}
