package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// dialect implements sqltarget.Dialect.
type dialect struct {
	server   sqltarget.Server
	options  sqltarget.Options
	level    level
	together bool
	table    string
	configs  map[sqltarget.Endpoint]*pgconn.Config
	// application is the application_name of this run's sessions.
	application string
	// product is nil for PostgreSQL.
	product *Product
	// homes computes the home regions of rows, or is nil if the database places rows itself.
	homes *homes
}

// Open opens a database: see sqltarget.Open.
func Open(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string) (sqltarget.Database, error) {
	d, err := newDialect(t, &s, &o, session)
	if err != nil {
		return nil, err
	}
	return sqltarget.Open(ctx, t, s, o.Options, d, session)
}

// Join joins a database that another process has opened: see sqltarget.Join.
func Join(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string, region geo.Region) (target.Target, time.Duration, error) {
	d, err := newDialect(t, &s, &o, session)
	if err != nil {
		return nil, 0, err
	}
	return sqltarget.Join(ctx, t, s, o.Options, d, session, region)
}

func newDialect(t *geo.Topology, s *sqltarget.Server, o *Options, session string) (*dialect, error) {
	l, err := levelOf(o.Isolation)
	if o.Product != nil {
		l, err = o.Product.level(o.Isolation)
	}
	if err != nil {
		return nil, err
	}
	d := &dialect{product: o.Product, server: *s, options: o.Options, level: l, together: o.Together, table: o.Place + ".rows", configs: map[sqltarget.Endpoint]*pgconn.Config{}, application: session}
	if o.Homes {
		d.homes = newHomes(t, o.Product.placement)
	}
	// Check the CA file here, because the driver's error for an unreadable file is less specific.
	if _, err := sqltarget.TLSConfig(s, "", o.TLS); err != nil {
		return nil, err
	}
	for _, e := range s.Endpoints {
		if d.configs[e], err = config(s, e, &o.Options); err != nil {
			return nil, sqltarget.Wrong(s.Field(e), e.Address, "cannot be connected to: %v", err)
		}
	}
	return d, nil
}

// conn implements sqltarget.Conn.
type conn struct{ *pgconn.PgConn }

// Broken implements sqltarget.Conn.
func (c conn) Broken() bool { return c.IsClosed() }

// Close implements sqltarget.Conn.
func (c conn) Close() error { return closeWithin(c.PgConn) }

// Name implements sqltarget.Dialect.
func (d *dialect) Name() string {
	if d.product != nil {
		return d.product.name
	}
	return "PostgreSQL"
}

// IsolationName implements sqltarget.Dialect.
func (d *dialect) IsolationName() string { return d.level.sql }

// Messages implements sqltarget.Dialect.
func (d *dialect) Messages() string {
	begin, rest := "BEGIN with the first statement", "each write alone"
	if d.options.BeginAlone {
		begin = "BEGIN alone"
	}
	switch form := d.options.Form == sqltarget.FormSQL; {
	case form && d.together:
		rest = "COMMIT with the last statements"
	case form:
		rest = "COMMIT alone"
	case d.together:
		rest = "writes with the next read or COMMIT"
	}
	return begin + ", " + rest
}

// PlaceParameter implements sqltarget.Dialect.
func (d *dialect) PlaceParameter() string { return schemaParameter }

// PlaceWord implements sqltarget.Dialect.
func (d *dialect) PlaceWord() string { return "schema" }

// yugabyte is a substring of YugabyteDB's version text, which starts with "PostgreSQL" like PostgreSQL's own.
const yugabyte = "-YB-"

// Look implements sqltarget.Dialect. For PostgreSQL, the server's identifier is empty, because all endpoints lead to
// one server.
func (d *dialect) Look(ctx context.Context, c conn, e sqltarget.Endpoint) (version, server string, err error) {
	if d.product != nil {
		return d.product.lookAt(ctx, c, &d.server, e)
	}
	facts, err := row(ctx, c, "select version(), pg_is_in_recovery(), current_setting('default_transaction_read_only')")
	switch {
	case err != nil:
		return "", "", err
	case facts[1] == "t":
		return "", "", sqltarget.Wrong(d.server.Field(e), e.Address, "the server is a standby, which is read-only: name the primary")
	case facts[2] == "on":
		return "", "", sqltarget.Wrong(d.server.Field(e), e.Address,
			"the database is read-only (default_transaction_read_only is on): turn it off, or name a database that can be written to")
	}
	if !strings.HasPrefix(facts[0], "PostgreSQL ") || strings.Contains(facts[0], yugabyte) {
		return "", "", sqltarget.Wrong(d.server.Field(e), e.Address,
			"the server speaks PostgreSQL's protocol and is %q: whether it is quiet, and whether another run uses it, cannot be asked there as of PostgreSQL, so that rows could be audited under transactions; name a PostgreSQL, or let the operator deploy the database by its own name", facts[0])
	}
	version, _, _ = strings.Cut(facts[0], " on ") // cut the platform for which the server was built
	return version, "", nil
}

// Left implements sqltarget.Dialect.
func (d *dialect) Left(ctx context.Context, c conn) (int, error) {
	// A product that does not report its limit counts as unlimited.
	if d.product != nil && !d.product.limits {
		return sqltarget.Unlimited, nil
	}
	facts, err := row(ctx, c, `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- (select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name <> $1)`, d.application)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(facts[0])
}

// Lock implements sqltarget.Dialect. It waits up to 2 s, because the session of a run that has just ended may still be
// closing.
func (d *dialect) Lock(ctx context.Context, c conn) (bool, error) {
	// Products are deployed for one run at a time and need no lock.
	if d.product != nil {
		return true, nil
	}
	err := exec(ctx, c, fmt.Sprintf("set lock_timeout = '2s'; select pg_advisory_lock(hashtext('geobench'), hashtext('%s')); reset lock_timeout", d.options.Place))
	// The lock timed out, so another session has the lock: this is a result, not an error.
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == lockNotAvailable {
		return false, nil
	}
	return err == nil, err
}

// Make implements sqltarget.Dialect. The mark is the comment on the table.
func (d *dialect) Make(ctx context.Context, c conn, mark string) (sqltarget.Made, error) {
	schema, user, database := d.options.Place, d.configs[d.server.Endpoints[0]].User, d.configs[d.server.Endpoints[0]].Database
	there, err := row(ctx, c, `select to_regnamespace($1) is not null, to_regclass($2) is not null, coalesce(obj_description(to_regclass($2)::oid, 'pg_class'), '')`, schema, d.table)
	if err != nil {
		return sqltarget.Made{}, err
	}
	hasSchema, hasTable, comment := there[0] == "t", there[1] == "t", there[2]
	if hasTable && !strings.HasPrefix(comment, sqltarget.Mark) {
		return sqltarget.Made{}, sqltarget.Wrong(sqltarget.ParameterField(schemaParameter), schema,
			"the table %s there is not Geobench's, which would replace all its rows: use another schema", d.table)
	}
	var sql []string
	if !hasSchema {
		sql = append(sql, "create schema "+schema)
	}
	if d.homes != nil {
		if hasTable { // its rows may have been placed for other regions
			sql = append(sql, "drop table "+d.table)
			hasTable = false
		}
		sql = append(sql, d.product.placement.regions(d.configs[d.server.Endpoints[0]].Database, d.homes.regions)...)
	}
	if !hasTable {
		sql = append(sql, d.createTable())
		if d.product != nil && d.product.afterwards != "" {
			sql = append(sql, fmt.Sprintf(d.product.afterwards, d.table))
		}
	}
	// The mark is written even if the table exists: it names the latest run, which sameDatabase compares.
	sql = append(sql, fmt.Sprintf("comment on table %s is '%s'", d.table, mark))
	err = d.steps(ctx, c, sql)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == noPrivilege {
		return sqltarget.Made{}, sqltarget.Wrong(sqltarget.DatabaseField, database,
			"user %s may not make the schema %s there (%s): grant create on the database, or make the schema for this user (create schema %[2]s authorization %[1]s)",
			user, schema, answer.Message)
	}
	if err != nil {
		return sqltarget.Made{}, err
	}
	return sqltarget.Made{Place: !hasSchema, Table: !hasTable}, nil
}

// Marked implements sqltarget.Dialect.
func (d *dialect) Marked(ctx context.Context, c conn) (string, error) {
	comment, err := row(ctx, c, "select coalesce(obj_description(to_regclass($1)::oid, 'pg_class'), '')", d.table)
	if err != nil {
		return "", err
	}
	return comment[0], nil
}

// Drop implements sqltarget.Dialect.
func (d *dialect) Drop(ctx context.Context, c conn, schema bool) error {
	if d.product != nil {
		place := ""
		if schema {
			place = d.options.Place
		}
		return d.product.dropIn(ctx, c, d.table, place)
	}
	if err := d.dropTables(ctx, c); err != nil {
		return err
	}
	if err := exec(ctx, c, "drop table if exists "+d.table); err != nil || !schema {
		return err
	}
	others, err := row(ctx, c, "select exists (select from pg_class where relnamespace = to_regnamespace($1)) or exists (select from pg_proc where pronamespace = to_regnamespace($1)) "+
		"or exists (select from pg_type where typnamespace = to_regnamespace($1))", d.options.Place)
	// Keep a schema that contains objects of other users, because drop schema would fail.
	if err != nil || others[0] == "t" {
		return err
	}
	return exec(ctx, c, "drop schema if exists "+d.options.Place)
}

// Dial implements sqltarget.Dialect. The connection uses the server's default settings.
func (d *dialect) Dial(ctx context.Context, e sqltarget.Endpoint) (conn, error) {
	c := d.configs[e].Copy()
	c.RuntimeParams["application_name"] = d.application
	p, err := pgconn.ConnectConfig(ctx, c)
	return conn{p}, err
}

// dialClient opens a client's connection. Its settings keep plans from using sequential scans, because at SERIALIZABLE
// a sequential scan locks the whole table.
func (d *dialect) dialClient(ctx context.Context, e sqltarget.Endpoint) (*pgconn.PgConn, error) {
	c := d.configs[e].Copy()
	c.RuntimeParams["application_name"] = d.application
	settings := indexScans
	if d.product != nil {
		settings = d.product.settings
	}
	maps.Copy(c.RuntimeParams, settings)
	if d.options.Form == sqltarget.FormSQL {
		formSettings(c.RuntimeParams, d.options.Place)
	}
	return pgconn.ConnectConfig(ctx, c)
}

// Classify implements sqltarget.Dialect.
func (d *dialect) Classify(err error) target.Failure { return Classify(err) }

// Working implements sqltarget.Dialect. It finds the run's sessions by their application_name.
func (d *dialect) Working(ctx context.Context, c conn) (int, error) {
	count := ownSessions
	if d.product != nil {
		count = d.product.working
	}
	working, err := row(ctx, c, count, d.application)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(working[0])
}

// Waits implements sqltarget.Dialect. A session waits if pg_blocking_pids returns any process that blocks the session.
func (d *dialect) Waits(ctx context.Context, c conn, client target.Connection) (bool, error) {
	if d.product != nil {
		return false, fmt.Errorf("who waits for whom is not known of %s", d.product.name)
	}
	blocked, err := row(ctx, c, "select cardinality(pg_blocking_pids($1::int)) > 0", strconv.FormatUint(uint64(client.(interface{ PID() uint32 }).PID()), 10))
	return err == nil && blocked[0] == "t", err
}

// CatchUp implements sqltarget.Dialect. It has nothing to wait for, because all endpoints lead to one server.
func (d *dialect) CatchUp(context.Context, conn) error { return nil }

// Rows implements sqltarget.Dialect.
func (d *dialect) Rows(ctx context.Context, c conn, f func(k, value []byte)) error {
	r := c.ExecParams(ctx, "select k, v from "+d.table, nil, nil, nil, binaryFormat)
	for r.NextRow() {
		v := r.Values()
		f(v[0], v[1])
	}
	_, err := r.Close()
	return err
}

// Empty implements sqltarget.Dialect.
func (d *dialect) Empty(ctx context.Context, c conn) error {
	if d.product == nil {
		if err := d.dropTables(ctx, c); err != nil {
			return err
		}
	}
	return exec(ctx, c, "truncate "+d.table)
}

// Settle implements sqltarget.Dialect. It updates the table's statistics and visibility map, so that plans are as good
// as for a table in regular use.
func (d *dialect) Settle(ctx context.Context, c conn) error {
	settle := "vacuum (analyze) %s"
	if d.product != nil {
		settle = d.product.settle
	}
	return exec(ctx, c, fmt.Sprintf(settle, d.table))
}

// Copy implements sqltarget.Dialect. A single COPY loads all chunks that the connection receives.
func (d *dialect) Copy(ctx context.Context, e sqltarget.Endpoint, chunks <-chan []byte) error {
	c, err := d.Dial(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the rows are loaded, or COPY has returned its error
	if d.product != nil {
		if err := d.steps(ctx, c, d.product.copyIn); err != nil {
			return err
		}
	}
	_, err = c.CopyFrom(ctx, &source{chunks: chunks, rest: []byte(copyHeader)}, "copy "+d.table+" (k, v) from stdin binary")
	return err
}

// The binary format of COPY (PostgreSQL documentation, COPY, section Binary Format).
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // signature, flags, length of the extension
	copyTrailer = "\xff\xff"
)

// AppendRow implements sqltarget.Dialect.
func (d *dialect) AppendRow(b []byte, k txn.Key, value []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, 2)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(k))), k...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// source is the input of one COPY: the header, then chunks of rows until the channel is closed, then the trailer.
type source struct {
	chunks <-chan []byte
	rest   []byte
	over   bool
}

func (s *source) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		var ok bool
		switch s.rest, ok = <-s.chunks; {
		case ok:
		// The channel is closed and the trailer was sent.
		case s.over:
			return 0, io.EOF
		default:
			s.over, s.rest = true, bytes.Clone([]byte(copyTrailer))
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
