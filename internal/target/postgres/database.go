package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/catalog"
)

// Database implements target.Database.
type Database struct {
	topology *geo.Topology
	server   Server
	options  Options
	level    level
	table    string
	configs  map[Endpoint]*pgconn.Config
	// application names the sessions of this database to the server.
	application string
	pending     atomic.Int64
	described   result.Target
	// made says what this database has made: the schema, and its table.
	madeSchema, madeTable bool
	data                  target.Dataset

	mu    sync.Mutex
	admin *pgconn.PgConn // for questions beside the clients', and the holder of the lock of the schema; nil when it broke
}

// Open opens a database for a topology, whose regions are those of the server's endpoints, looks whether it can be used, and makes
// schema and table. What a manifest has wrong is a *target.FieldError, and nothing is left behind then. The caller closes the database.
func Open(ctx context.Context, t *geo.Topology, s Server, o Options) (*Database, error) {
	l, err := o.level()
	if err != nil {
		return nil, err
	}
	d := &Database{
		topology: t, server: s, options: o, level: l, table: o.Schema + ".rows", configs: map[Endpoint]*pgconn.Config{},
		application: "geobench-" + strings.ToLower(rand.Text()),
	}
	d.described = result.Target{Isolation: l.sql}
	for _, e := range s.Endpoints {
		if d.configs[e], err = s.config(e, &o); err != nil {
			return nil, &target.FieldError{Field: s.field(e), Value: e.Address, Message: fmt.Sprintf("cannot be connected to: %v", err)}
		}
	}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.undo())
	}
	return d, nil
}

// open looks at every endpoint before anything is made.
func (d *Database) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(d.server.Endpoints))*(connectWithin+silence))
	defer cancel()
	conns := make([]*pgconn.PgConn, len(d.server.Endpoints))
	defer func() {
		for _, c := range conns {
			if c != nil && c != d.admin {
				_ = closeWithin(c)
			}
		}
	}()
	for i, e := range d.server.Endpoints {
		c, err := d.dialPlain(ctx, e)
		if err != nil {
			return d.server.explain(ctx, e, &d.options, d.configs[e], err)
		}
		conns[i] = c
		if err := d.look(ctx, c, e); err != nil {
			return err
		}
	}
	d.admin = conns[0]
	if err := d.capacity(ctx); err != nil {
		return err
	}
	if err := d.makeTable(ctx); err != nil {
		return err
	}
	for i, e := range d.server.Endpoints[1:] {
		if err := d.sameDatabase(ctx, conns[i+1], e); err != nil {
			return err
		}
	}
	return nil
}

// look sees what an endpoint leads to, and how far it is.
func (d *Database) look(ctx context.Context, c *pgconn.PgConn, e Endpoint) error {
	facts, err := row(ctx, c, "select version(), pg_is_in_recovery(), current_setting('default_transaction_read_only')")
	if err != nil {
		return err
	}
	switch {
	case facts[1] == "t":
		return &target.FieldError{Field: d.server.field(e), Value: e.Address, Message: "the server is a standby, which is read-only: name the primary"}
	case facts[2] == "on":
		return &target.FieldError{Field: d.server.field(e), Value: e.Address,
			Message: "the database is read-only (default_transaction_read_only is on): turn it off, or name a database that can be written to"}
	}
	took, err := roundTrip(ctx, c)
	if err != nil {
		return err
	}
	d.described.Server, _, _ = strings.Cut(facts[0], " on ") // and then the machine that it was built for
	d.described.Endpoints = append(d.described.Endpoints, result.TargetEndpoint{Region: e.Region, RTTMicroseconds: result.Microseconds(took)})
	return nil
}

// capacity sees whether the server has the connections that the clients need.
func (d *Database) capacity(ctx context.Context) error {
	facts, err := row(ctx, d.admin, `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- (select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name <> $1)`, d.application)
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(facts[0])
	if err != nil {
		return err
	}
	const own = 1 // for questions
	if need := len(d.server.Endpoints)*d.options.Connections + own; need > left {
		return &target.FieldError{Field: parameterField(connectionsParameter), Value: strconv.Itoa(d.options.Connections),
			Message: fmt.Sprintf("%d regions x %d connections and %d more are %d, and the server has %d left: take at most %d, or raise its max_connections",
				len(d.server.Endpoints), d.options.Connections, own, need, left, max(0, left-own)/len(d.server.Endpoints))}
	}
	return nil
}

// mark begins the comment of a table that Geobench has made: no other table is touched.
const mark = "made by geobench for "

// makeTable makes schema and table where they are not there, and holds the lock of the schema from then on.
func (d *Database) makeTable(ctx context.Context) error {
	schema := d.options.Schema
	field := parameterField(schemaParameter)
	// The session of a run that has just ended may be about to end.
	err := exec(ctx, d.admin, fmt.Sprintf("set lock_timeout = '2s'; select pg_advisory_lock(hashtext('geobench'), hashtext('%s')); reset lock_timeout", schema))
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == lockNotAvailable {
		return &target.FieldError{Field: field, Value: schema, Message: "another run uses this schema of the database now: wait for it, or use another schema"}
	}
	if err != nil {
		return err
	}
	there, err := row(ctx, d.admin, `select to_regnamespace($1) is not null, to_regclass($2) is not null, coalesce(obj_description(to_regclass($2), 'pg_class'), '')`, schema, d.table)
	if err != nil {
		return err
	}
	hasSchema, hasTable, comment := there[0] == "t", there[1] == "t", there[2]
	if hasTable && !strings.HasPrefix(comment, mark) {
		return &target.FieldError{Field: field, Value: schema, Message: fmt.Sprintf("the table %s there is not Geobench's, which would replace all its rows: use another schema", d.table)}
	}
	var sql []string
	if !hasSchema {
		sql = append(sql, "create schema "+schema)
	}
	if !hasTable {
		sql = append(sql, "create table "+d.table+" (k bytea primary key, v bytea not null)")
	}
	sql = append(sql, fmt.Sprintf("comment on table %s is '%s%s'", d.table, mark, d.application))
	// Several statements that are sent together are one transaction.
	err = exec(ctx, d.admin, strings.Join(sql, "; "))
	if errors.As(err, &answer) && answer.Code == noPrivilege {
		return &target.FieldError{Field: databaseField, Value: d.configs[d.server.Endpoints[0]].Database, Message: fmt.Sprintf(
			"user %s may not make the schema %s there (%s): grant create on the database, or make the schema for this user (create schema %[2]s authorization %[1]s)",
			d.configs[d.server.Endpoints[0]].User, schema, answer.Message)}
	}
	if err != nil {
		return err
	}
	d.madeSchema, d.madeTable = !hasSchema, !hasTable
	return nil
}

// sameDatabase sees whether an endpoint leads to the database of the first one.
func (d *Database) sameDatabase(ctx context.Context, c *pgconn.PgConn, e Endpoint) error {
	comment, err := row(ctx, c, "select coalesce(obj_description(to_regclass($1), 'pg_class'), '')", d.table)
	if err == nil && comment[0] != mark+d.application {
		err = &target.FieldError{Field: d.server.field(e), Value: e.Address, Message: fmt.Sprintf(
			"the table %s there is not the one of this run, made at %s (region %s): all endpoints lead to the same database, and nobody else uses the schema meanwhile",
			d.table, d.server.Endpoints[0].Address, d.server.Endpoints[0].Region)}
	}
	return err
}

// undo drops what was made, of a database that is not opened after all, and closes it.
func (d *Database) undo() error {
	if d.admin == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	var err error
	if d.madeTable {
		err = d.drop(ctx, d.madeSchema)
	}
	return errors.Join(err, closeWithin(d.admin))
}

// drop drops the table, and the schema if nobody else has something there.
func (d *Database) drop(ctx context.Context, schema bool) error {
	if err := exec(ctx, d.admin, "drop table if exists "+d.table); err != nil || !schema {
		return err
	}
	others, err := row(ctx, d.admin, "select exists (select from pg_class where relnamespace = to_regnamespace($1)) or exists (select from pg_proc where pronamespace = to_regnamespace($1)) "+
		"or exists (select from pg_type where typnamespace = to_regnamespace($1))", d.options.Schema)
	if err != nil || others[0] == "t" {
		return err
	}
	return exec(ctx, d.admin, "drop schema if exists "+d.options.Schema)
}

// Close drops the table, and the schema if it is empty then, where Options.DropSchema asks for it, and ends the last connection. The
// clients are gone by then.
func (d *Database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.options.DropSchema {
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		if err = d.reach(ctx); err == nil {
			err = d.drop(ctx, true)
		}
		if err != nil {
			err = fmt.Errorf("the schema %s could not be dropped: %w", d.options.Schema, err)
		}
	}
	if d.admin != nil {
		err = errors.Join(err, closeWithin(d.admin))
		d.admin = nil
	}
	return err
}

// dialPlain opens a connection with the server's own settings, dial one of a client, whose plans never read a whole table: a small table
// would otherwise be locked as a whole by SERIALIZABLE.
func (d *Database) dialPlain(ctx context.Context, e Endpoint) (*pgconn.PgConn, error) {
	c := d.configs[e].Copy()
	c.RuntimeParams["application_name"] = d.application
	return pgconn.ConnectConfig(ctx, c)
}

func (d *Database) dial(ctx context.Context, e Endpoint) (*pgconn.PgConn, error) {
	c := d.configs[e].Copy()
	c.RuntimeParams["application_name"] = d.application
	for _, setting := range []string{"enable_seqscan", "enable_bitmapscan"} {
		c.RuntimeParams[setting] = "off"
	}
	c.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	return pgconn.ConnectConfig(ctx, c)
}

// reach opens the connection for questions again if it has broken. Its lock was lost then: the mark of the table tells whether another
// run has used the schema since.
func (d *Database) reach(ctx context.Context) error {
	if d.admin != nil && !d.admin.IsClosed() {
		return nil
	}
	e := d.server.Endpoints[0]
	c, err := d.dialPlain(ctx, e)
	if err != nil {
		return err
	}
	if err := d.sameDatabase(ctx, c, e); err != nil {
		return errors.Join(err, closeWithin(c))
	}
	d.admin = c
	return nil
}

// ask asks the server something that changes nothing, and once more where the connection turns out to be broken.
func (d *Database) ask(ctx context.Context, question func(*pgconn.PgConn) error) error {
	for again := true; ; again = false {
		if err := d.reach(ctx); err != nil {
			return err
		}
		err := question(d.admin)
		if err == nil || !again || !d.admin.IsClosed() || ctx.Err() != nil {
			return err
		}
	}
}

// Describe implements target.Described.
func (d *Database) Describe() result.Target { return d.described }

// Clients implements target.Database.
func (d *Database) Clients(region geo.Region) target.Target {
	return &target.Statements{
		Procedures: catalog.Procedures(), Placement: d.topology.Placement(), Connections: d.options.Connections, Pending: &d.pending,
		Connect:  func(ctx context.Context) (target.Connection, error) { return d.connect(ctx, int(region)) },
		Classify: Classify,
	}
}

// Layout implements target.Database: one copy.
func (d *Database) Layout() geo.Layout { return d.topology.Whole(0) }

// Status implements target.Database.
func (d *Database) Status(context.Context) ([]admin.Status, error) { return nil, nil }

// Activity implements target.Database. Transactions whose connections broke may go on at the server: it knows them by the application's
// name.
func (d *Database) Activity(ctx context.Context) (a target.Activity, err error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	var working []string
	err = d.ask(ctx, func(c *pgconn.PgConn) (err error) {
		working, err = row(ctx, c, "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle' and pid <> pg_backend_pid()", d.application)
		return err
	})
	if err != nil {
		return a, err
	}
	n, err := strconv.Atoi(working[0])
	a.Pending = max(n, int(d.pending.Load()))
	return a, err
}

// Audit implements target.Database: one statement reads all rows, in a snapshot.
func (d *Database) Audit(ctx context.Context, _ func(geo.NodeID) bool) ([][]audit.Shard, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hung := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has said nothing for %v", silence)) })
	defer hung.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows store.Store
	err := d.ask(ctx, func(c *pgconn.PgConn) error {
		rows = store.NewHash()
		r := c.ExecParams(ctx, "select k, v from "+d.table, nil, nil, nil, binaryFormat)
		const often = 1024
		for n := 1; r.NextRow(); n++ {
			v := r.Values()
			rows.Load(txn.Key(v[0]), copyOf(v[1]))
			if n%often == 0 {
				hung.Reset(silence)
			}
		}
		_, err := r.Close()
		return err
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	layout := d.Layout()
	return [][]audit.Shard{audit.Of(0, &layout, rows, d.data.Workload, d.data.Traced)}, nil
}

// causeOf is why a context ended, if it did, else the error.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

const (
	// chunk is about how many bytes of rows a loader takes at a time, and loadersMost how many there are: they are to keep the server
	// busy, and not to drown it.
	chunk       = 256 << 10
	loadersMost = 8
)

// Load implements target.Database: by COPY, over several connections.
func (d *Database) Load(ctx context.Context, data target.Dataset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reach(ctx); err != nil {
		return err
	}
	if err := exec(ctx, d.admin, "truncate "+d.table); err != nil {
		return err
	}
	d.data = data
	if err := d.copyIn(ctx, data); err != nil {
		return fmt.Errorf("loading: %w", err)
	}
	// Plans and index scans are those of a table that is not new.
	return exec(ctx, d.admin, "vacuum (analyze) "+d.table)
}

func (d *Database) copyIn(ctx context.Context, data target.Dataset) error {
	chunks := make(chan []byte)
	g, ctx := errgroup.WithContext(ctx)
	for range min(loadersMost, 2*runtime.GOMAXPROCS(0), d.options.Connections) {
		g.Go(func() error {
			c, err := d.dialPlain(ctx, d.server.Endpoints[0])
			if err != nil {
				return err
			}
			defer closeWithin(c) //nolint:errcheck // the rows are there, or the error is the COPY's
			_, err = c.CopyFrom(ctx, &source{chunks: chunks, rest: []byte(copyHeader)}, "copy "+d.table+" (k, v) from stdin with (format binary)")
			return err
		})
	}
	g.Go(func() error {
		defer close(chunks)
		layout := d.Layout()
		var rows int64
		var buffer []byte
		send := func() {
			if len(buffer) == 0 {
				return
			}
			select {
			case chunks <- buffer:
				if data.Progress != nil {
					data.Progress(rows)
				}
			case <-ctx.Done():
			}
			buffer = nil
		}
		err := workload.Fill(data.Workload, &layout, 0, func(k txn.Key, value []byte) {
			buffer = appendRow(buffer, k, value)
			rows++
			if len(buffer) >= chunk {
				send()
			}
		})
		send()
		return err
	})
	return g.Wait()
}

// The binary format of COPY: PostgreSQL documentation, COPY, section Binary Format.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // signature, flags, length of the extension
	copyTrailer = "\xff\xff"
)

func appendRow(b []byte, k txn.Key, value []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, 2)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(k))), k...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// source is what one COPY reads: the header, chunks of rows until there are no more, and the trailer.
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
