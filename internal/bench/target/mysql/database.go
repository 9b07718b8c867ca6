package mysql

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// UserVariable and PasswordVariable are the environment variables that contain the credentials if there is no Secret.
// MySQL's own clients also read PasswordVariable.
const (
	UserVariable     = "MYSQL_USER"
	PasswordVariable = "MYSQL_PWD"
)

// dialect implements sqltarget.Dialect.
type dialect struct {
	server  sqltarget.Server
	options Options
	level   level
	table   string
	configs map[sqltarget.Endpoint]*mysql.Config
	// galera is set if the servers are nodes of Galera, and snapshots if they support innodb_snapshot_isolation.
	galera, snapshots bool
	nodes             map[string]bool
	// said is a comment in every statement of this run. The server reports the statement that each of its sessions
	// executes, so the comment identifies the sessions of this run.
	said string
	// locksSeen is the time of the latest query of the server's lock waits.
	locksSeen time.Time
	// lease is the lease that Lock took in a Galera cluster, or nil.
	lease *lease
}

// Open opens a database: see sqltarget.Open.
func Open(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string) (sqltarget.Database, error) {
	d, err := newDialect(&s, &o, session)
	if err != nil {
		return nil, err
	}
	return sqltarget.Open(ctx, t, s, o.Options, d, session)
}

// Join joins a database that another process has opened: see sqltarget.Join.
func Join(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string, region geo.Region) (target.Target, time.Duration, error) {
	d, err := newDialect(&s, &o, session)
	if err != nil {
		return nil, 0, err
	}
	return sqltarget.Join(ctx, t, s, o.Options, d, session, region)
}

func newDialect(s *sqltarget.Server, o *Options, session string) (*dialect, error) {
	l, err := levelOf(o)
	if err != nil {
		return nil, err
	}
	if s.User == "" {
		s.User = os.Getenv(UserVariable)
		if s.Password == "" {
			s.Password = os.Getenv(PasswordVariable)
		}
	}
	switch {
	case s.Database == "":
		return nil, sqltarget.Wrong(sqltarget.DatabaseField, "", "MySQL has no database of its own accord: name one that is there, in which Geobench makes the table %s", o.Place)
	case s.User == "":
		return nil, sqltarget.Wrong(sqltarget.SecretField, "", "no user is named: give a Secret with the keys username and password, or set %s and %s", UserVariable, PasswordVariable)
	}
	d := &dialect{
		server: *s, options: *o, level: l, table: o.Place, configs: map[sqltarget.Endpoint]*mysql.Config{}, nodes: map[string]bool{},
		said: " /* " + session + " */",
	}
	for _, e := range s.Endpoints {
		if d.configs[e], err = config(s, e, &o.Options); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// config returns the connection settings of an endpoint. The password is never part of a connection string, and the
// driver's log is disabled, so no text can show the password.
func config(s *sqltarget.Server, e sqltarget.Endpoint, o *sqltarget.Options) (*mysql.Config, error) {
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, sqltarget.Wrong(s.Field(e), e.Address, "cannot be connected to: %v", err)
	}
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", net.JoinHostPort(host, port)
	c.User, c.Passwd, c.DBName = s.User, s.Password, s.Database
	c.Timeout, c.Logger = sqltarget.ConnectWithin, &mysql.NopLogger{}
	c.TLS, err = sqltarget.TLSConfig(s, host, o.TLS)
	return c, err
}

// Name implements sqltarget.Dialect.
func (d *dialect) Name() string {
	if p := d.options.Product; p != nil {
		return p.name
	}
	return "MySQL"
}

// Messages implements sqltarget.Dialect.
func (d *dialect) Messages() string {
	begin, rest := "no BEGIN (autocommit is off)", "each write alone"
	if d.options.BeginAlone {
		begin = "BEGIN alone"
	}
	if d.options.Form == sqltarget.FormSQL {
		rest = "COMMIT alone"
	}
	return begin + ", " + rest
}

// IsolationName implements sqltarget.Dialect.
func (d *dialect) IsolationName() string {
	if p := d.options.Product; p != nil {
		return p.levelName(d.level)
	}
	return d.level.name()
}

// PlaceParameter implements sqltarget.Dialect.
func (d *dialect) PlaceParameter() string { return tableParameter }

// PlaceWord implements sqltarget.Dialect.
func (d *dialect) PlaceWord() string { return "table" }

// Values of wsrep_sync_wait: bits for reads, updates and deletes, and inserts and replaces.
const (
	syncNothing    = 0
	syncStatements = 1 | 2 | 4
)

func (d *dialect) syncWait() int {
	if d.options.SyncWait {
		return syncStatements
	}
	return syncNothing
}

// dial opens a connection that loads rows or runs queries, as opposed to a client's connection.
func (d *dialect) dial(ctx context.Context, e sqltarget.Endpoint) (*conn, error) {
	c, err := dial(ctx, d.configs[e])
	if err != nil || d.options.Product == nil {
		return c, err
	}
	if err := c.set(ctx, d.options.Product.others...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func dial(ctx context.Context, config *mysql.Config) (*conn, error) {
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	opened, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{opened}, nil
}

// variable returns the value of a server variable, or "" if the server has no variable of this name. kind is the text
// between SHOW and LIKE, such as variables or status.
func (c *conn) variable(ctx context.Context, kind, name string) (value string, err error) {
	err = c.query(ctx, "show "+kind+" like '"+name+"'", func(values []driver.Value) {
		b, _ := values[1].([]byte)
		value = string(b)
	})
	return value, err
}

// Dial implements sqltarget.Dialect. Queries on the connection see the latest state on any Galera node.
func (d *dialect) Dial(ctx context.Context, e sqltarget.Endpoint) (*conn, error) {
	c, err := d.dial(ctx, e)
	if err != nil {
		return nil, err
	}
	err = c.exec(ctx, "set session transaction isolation level repeatable read")
	galera, wrong := c.variable(ctx, "variables", "wsrep_on")
	if err = errors.Join(err, wrong); err == nil && galera == "ON" {
		err = c.exec(ctx, fmt.Sprintf("set wsrep_sync_wait = %d", syncStatements))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// onlySpeaks returns the name of the product if the server only speaks MySQL's protocol, according to its version and
// version_comment. It returns "" for MySQL and MariaDB.
func onlySpeaks(version, comment string) string {
	for _, other := range []string{"TiDB", "OceanBase"} {
		if strings.Contains(version, other) || strings.Contains(comment, other) {
			return other
		}
	}
	return ""
}

// Look implements sqltarget.Dialect.
func (d *dialect) Look(ctx context.Context, c *conn, e sqltarget.Endpoint) (version, server string, err error) {
	if p := d.options.Product; p != nil {
		return p.look(ctx, c, &d.server, e)
	}
	// Check wsrep_ready first: a node that is not ready rejects most other statements.
	ready, err := c.variable(ctx, "status", "wsrep_ready")
	if err != nil {
		return "", "", err
	}
	on, err := c.variable(ctx, "variables", "wsrep_on")
	if err != nil {
		return "", "", err
	}
	galera := on == "ON"
	field := d.server.Field(e)
	if galera && ready != "ON" {
		return "", "", sqltarget.Wrong(field, e.Address, "this node of Galera is not ready (wsrep_ready is %s): it is not in the primary component, or still joins it", ready)
	}
	facts, err := c.row(ctx, "select version(), @@version_comment, @@global.read_only, @@hostname, @@port, @@datadir")
	if err != nil {
		return "", "", err
	}
	if other := onlySpeaks(facts[0], facts[1]); other != "" {
		return "", "", sqltarget.Wrong(field, e.Address, "the server is %q, which speaks MySQL's protocol and is %s: it does not say which sessions are at work on its other servers, and an audit could begin while transactions are under way; name a MySQL or MariaDB, or let the operator deploy tidb or oceanbase by its name",
			facts[0], other)
	}
	if d.options.Galera && !galera {
		return "", "", sqltarget.Wrong(field, e.Address, "the server is no node of Galera (wsrep_on is not ON): name one that is, or set spec.engine.name to %s", Engine.Name)
	}
	if facts[2] != "0" {
		return "", "", sqltarget.Wrong(field, e.Address, "the server is read-only (read_only is on): name the primary, or turn it off")
	}
	snapshots, err := c.variable(ctx, "variables", "innodb_snapshot_isolation")
	if err != nil {
		return "", "", err
	}
	d.galera, d.snapshots = galera, snapshots != ""
	server = strings.Join(facts[3:], " ")
	d.nodes[server] = true
	isolation := sqltarget.ParameterField(sqltarget.IsolationParameter)
	switch {
	case d.level.strict && !d.snapshots:
		return "", "", sqltarget.Wrong(isolation, d.options.Isolation, "%s at %s does not know innodb_snapshot_isolation: take RepeatableRead, which loses updates, or Serializable; MariaDB has it since 10.6.18 and 10.11.8", facts[0], e.Address)
	// Galera does not replicate read locks, so SERIALIZABLE is guaranteed only if all clients use one node.
	case d.options.Isolation == Serializable && galera && len(d.nodes) > 1:
		return "", "", sqltarget.Wrong(isolation, d.options.Isolation, "%s is another node of Galera than %s, and the locks of SERIALIZABLE are of one node: name one node for all regions, or take SnapshotIsolation or RepeatableRead",
			e.Address, d.server.Endpoints[0].Address)
	case d.options.SyncWait && !galera:
		return "", "", sqltarget.Wrong(sqltarget.ParameterField(syncWaitParameter), "true", "%s is no node of Galera (wsrep_on is not ON), so there is nothing to wait for: leave it out", e.Address)
	}
	name := "MySQL"
	if strings.Contains(facts[0], "MariaDB") {
		name = "MariaDB"
	}
	version = name + " " + facts[0]
	if galera {
		version += " Galera"
	}
	return version, server, nil
}

// Left implements sqltarget.Dialect.
func (d *dialect) Left(ctx context.Context, c *conn) (int, error) {
	if d.options.Product != nil {
		return sqltarget.Unlimited, nil
	}
	most, err := c.row(ctx, "select @@max_connections")
	if err != nil {
		return 0, err
	}
	used, err := c.variable(ctx, "global status", "Threads_connected")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(most[0])
	m, wrong := strconv.Atoi(used)
	const own = 1 // Threads_connected includes this connection
	return n - m + own, errors.Join(err, wrong)
}

// Lock implements sqltarget.Dialect. It waits up to 2 s, because the session of a run that has just stopped may still
// be closing. On Galera it also takes a lease, which is valid on all nodes.
func (d *dialect) Lock(ctx context.Context, c *conn) (bool, error) {
	if d.options.Product != nil {
		return true, nil
	}
	if d.options.Form == sqltarget.FormSQL {
		if err := d.lockTables(ctx, c); err != nil {
			return false, err
		}
	}
	locked, err := c.row(ctx, "select get_lock(concat('geobench.', md5(concat(database(), '."+d.table+"'))), 2)")
	if err != nil {
		return false, err
	}
	// get_lock excludes other runs only on this server. Without Galera, this server is the whole database.
	if locked[0] != "1" || !d.galera {
		return locked[0] == "1", nil
	}
	places := []string{"table " + d.table}
	if d.options.Form == sqltarget.FormSQL {
		places = append(places, "forms")
	}
	return d.leaseOn(ctx, c, places...)
}

// Make implements sqltarget.Dialect. The mark is the comment on the table.
func (d *dialect) Make(ctx context.Context, c *conn, mark string) (made sqltarget.Made, err error) {
	there, err := c.row(ctx, "select count(*), coalesce(max(table_comment), '') from information_schema.tables where table_schema = database() and table_name = '"+d.table+"'")
	if err != nil {
		return made, err
	}
	switch {
	case there[0] == "0":
		err = c.exec(ctx, "create table "+d.table+" (k varbinary(1024) primary key, v longblob not null) engine = InnoDB comment = '"+mark+"'")
		made.Table = err == nil
	case !strings.HasPrefix(there[1], sqltarget.Mark):
		return made, sqltarget.Wrong(sqltarget.ParameterField(tableParameter), d.table, "the table there is not Geobench's, which would replace all its rows: use another table")
	default:
		err = c.exec(ctx, "alter table "+d.table+" comment = '"+mark+"'")
	}
	var answer *mysql.MySQLError
	if errors.As(err, &answer) && answer.Number == tableDenied {
		return made, sqltarget.Wrong(sqltarget.DatabaseField, d.server.Database, "user %s may not make the table %s there (%s): grant all on %s.* to this user",
			d.server.User, d.table, answer.Message, d.server.Database)
	}
	return made, err
}

// Marked implements sqltarget.Dialect.
func (d *dialect) Marked(ctx context.Context, c *conn) (string, error) {
	comment, err := c.row(ctx, "select coalesce(max(table_comment), '') from information_schema.tables where table_schema = database() and table_name = '"+d.table+"'")
	if err != nil {
		return "", err
	}
	return comment[0], nil
}

// Drop implements sqltarget.Dialect. It drops only tables, because the database belongs to its creator.
func (d *dialect) Drop(ctx context.Context, c *conn, _ bool) error {
	if d.options.Form == sqltarget.FormSQL {
		if err := d.dropTables(ctx, c); err != nil {
			return err
		}
	}
	return c.exec(ctx, "drop table if exists "+d.table)
}

// Classify implements sqltarget.Dialect.
func (d *dialect) Classify(err error) target.Failure {
	if p := d.options.Product; p != nil {
		return p.Classify(err)
	}
	return Classify(err)
}

// Working implements sqltarget.Dialect. The server reports the statements that its sessions execute. The comment said
// in a statement identifies the sessions of this run, whatever process they belong to.
//
// A sleeping session commits nothing until it receives a statement, and a quitting session commits nothing at all. A
// busy session without a statement text counts, because it may belong to this run. The server answers a statement
// before it reports the session as sleeping, so Working counts up to ten times and returns the minimum.
func (d *dialect) Working(ctx context.Context, c *conn) (int, error) {
	const times, apart = 10, 10 * time.Millisecond
	count := "select count(*) from information_schema.processlist where command not in ('Sleep', 'Quit') and user = substring_index(current_user(), '@', 1)" +
		" and id <> connection_id() and (info is null or instr(info, '" + d.said + "') > 0)"
	least := math.MaxInt
	for range times {
		facts, err := c.row(ctx, count)
		if err != nil {
			return 0, err
		}
		working, err := strconv.Atoi(facts[0])
		// One count of 0 is enough: the server never reports a busy session as sleeping.
		if least = min(least, working); err != nil || least == 0 {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(apart):
		}
	}
	return least, nil
}

// Empty implements sqltarget.Dialect. It drops form tables only with FormSQL, because this run has otherwise not locked
// them. They may belong to another run.
func (d *dialect) Empty(ctx context.Context, c *conn) error {
	if d.options.Form == sqltarget.FormSQL {
		if err := d.dropTables(ctx, c); err != nil {
			return err
		}
	}
	return c.exec(ctx, "truncate table "+d.table)
}

// Settle implements sqltarget.Dialect. It waits until a Galera node has applied all rows, and then updates the table's
// statistics.
func (d *dialect) Settle(ctx context.Context, c *conn) error {
	if err := d.CatchUp(ctx, c); err != nil {
		return err
	}
	// Without LOCAL, ANALYZE would be replicated and run on every node.
	analyze := "analyze local table "
	if d.options.Product != nil {
		analyze = "analyze table "
	}
	return c.query(ctx, analyze+d.table, func([]driver.Value) {})
}

// lockCache is slightly longer than the time for which the server caches its list of transactions (trx0i_s.cc,
// CACHE_MIN_IDLE_TIME_NS). The server refreshes the cache only if no query has read it for that time.
const lockCache = 110 * time.Millisecond

// Waits implements sqltarget.Dialect.
func (d *dialect) Waits(ctx context.Context, c *conn, client target.Connection) (bool, error) {
	if p := d.options.Product; p != nil {
		return false, errors.New("who waits for whom is not known of " + p.name)
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(time.Until(d.locksSeen.Add(lockCache))):
	}
	waiting, err := c.row(ctx, "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT' and trx_mysql_thread_id = "+client.(interface{ session() string }).session())
	d.locksSeen = time.Now()
	var answer *mysql.MySQLError
	if errors.As(err, &answer) && answer.Number == privilegeDenied {
		return false, sqltarget.Wrong(sqltarget.SecretField, "", "user %s may not see who waits for whose locks (%s): grant process on *.* to this user", d.server.User, answer.Message)
	}
	return err == nil && waiting[0] != "0", err
}

// CatchUp implements sqltarget.Dialect. On a Galera node, the query returns once the node has applied all earlier
// commits (wsrep_sync_wait).
func (d *dialect) CatchUp(ctx context.Context, c *conn) error {
	return c.query(ctx, "select 1 from "+d.table+" limit 1", func([]driver.Value) {})
}

// AppendRow implements sqltarget.Dialect. It appends the row as hexadecimal literals, preceded by a comma.
func (d *dialect) AppendRow(b []byte, k txn.Key, value []byte) []byte {
	b = append(b, ",(x'"...)
	b = hex.AppendEncode(b, []byte(k))
	b = append(b, "',x'"...)
	b = hex.AppendEncode(b, value)
	return append(b, "')"...)
}

// Copy implements sqltarget.Dialect. It runs one INSERT for each chunk.
func (d *dialect) Copy(ctx context.Context, e sqltarget.Endpoint, chunks <-chan []byte) error {
	c, err := d.dial(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the rows are loaded, or INSERT has returned its error
	for rows := range chunks {
		if err := c.exec(ctx, "insert"+d.said+" into "+d.table+" (k, v) values "+string(rows[len(","):])); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements sqltarget.Dialect.
func (d *dialect) Rows(ctx context.Context, c *conn, f func(k, value []byte)) error {
	all, err := c.prepare(ctx, "select k, v from "+d.table)
	if err != nil {
		return err
	}
	defer all.Close() //nolint:errcheck // the rows have been read
	rows, err := all.(driver.StmtQueryContext).QueryContext(ctx, nil)
	if err != nil {
		return err
	}
	return read(rows, func(values []driver.Value) bool {
		k, _ := values[0].([]byte)
		v, _ := values[1].([]byte)
		f(k, v)
		return true
	})
}

// Explain implements sqltarget.Dialect.
func (d *dialect) Explain(ctx context.Context, e sqltarget.Endpoint, err error) error {
	s, wrong := &d.server, sqltarget.Wrong
	var answer *mysql.MySQLError
	var untrusted *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answer):
		switch answer.Number {
		case accessDenied:
			return wrong(sqltarget.SecretField, "", "%s does not let user %s in with this password (error %d): give the Secret's keys username and password, or %s and %s, as they are there",
				e.Address, s.User, answer.Number, UserVariable, PasswordVariable)
		case databaseDenied:
			return wrong(sqltarget.DatabaseField, s.Database, "user %s may not use it (%s): grant all on %s.* to this user", s.User, answer.Message, s.Database)
		case noSuchDatabase:
			return wrong(sqltarget.DatabaseField, s.Database, "there is no such database at %s: make it (create database %s), or name one that is there", e.Address, s.Database)
		case tooManyConnections:
			return wrong(s.Field(e), e.Address, "the server has no connection left (%s): raise its max_connections, or end other clients", answer.Message)
		case notReady:
			return wrong(s.Field(e), e.Address, "this node of Galera is not ready (%s): it is not in the primary component, or still joins it", answer.Message)
		}
		return wrong(s.Field(e), e.Address, "the server refuses the connection: %s (error %d)", answer.Message, answer.Number)
	case errors.As(err, &untrusted):
		return d.options.Untrusted(e, untrusted.Err)
	case errors.Is(err, mysql.ErrNoTLS):
		return wrong(sqltarget.ParameterField(sqltarget.TLSParameter), d.options.TLS, "%s takes no encrypted connections: set ssl_cert and ssl_key in its configuration, or use tls: %s if nobody listens on the way",
			e.Address, sqltarget.TLSDisable)
	}
	return s.Unreachable(e, d.Name(), "bind_address, port", err)
}
