package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// UserVariable and PasswordVariable are the environment variables that every PostgreSQL client reads, including the
// driver.
const (
	UserVariable     = "PGUSER"
	PasswordVariable = "PGPASSWORD"
)

// config returns the connection settings of an endpoint. The connection string does not contain the password, so no
// error text can show it.
func config(s *sqltarget.Server, e sqltarget.Endpoint, o *sqltarget.Options) (*pgconn.Config, error) {
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, err
	}
	settings := []string{"host", host, "port", port, "sslmode", o.TLS, "dbname", s.Database, "user", s.User, "sslrootcert", s.CAFile}
	var words []string
	for i := 0; i < len(settings); i += 2 {
		if settings[i+1] != "" {
			words = append(words, settings[i]+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[i+1])+"'")
		}
	}
	c, err := pgconn.ParseConfig(strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	if s.Password != "" {
		c.Password = s.Password
	}
	c.ConnectTimeout = sqltarget.ConnectWithin
	return c, nil
}

// Explain implements sqltarget.Dialect.
func (d *dialect) Explain(ctx context.Context, e sqltarget.Endpoint, err error) error {
	s, o, c, wrong := &d.server, &d.options, d.configs[e], sqltarget.Wrong
	var answer *pgconn.PgError
	var untrusted *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answer):
		switch answer.Code {
		case invalidPassword:
			return wrong(sqltarget.SecretField, "", "%s does not let user %s in with this password (SQLSTATE %s): give the Secret's keys username and password, or PGUSER and PGPASSWORD, as they are there",
				e.Address, c.User, answer.Code)
		case invalidAuthorization:
			encrypt := ""
			if o.TLS == sqltarget.TLSDisable && !refusesTLS(ctx, c) {
				encrypt = "; where only those are let in who encrypt (hostssl), use tls: " + sqltarget.TLSRequire
			}
			return wrong(sqltarget.SecretField, "", "%s does not let user %s in (%s): name another user, let this one log in (alter role %[2]s login), or in by pg_hba.conf%[4]s", e.Address, c.User, answer.Message, encrypt)
		case noSuchDatabase:
			return wrong(sqltarget.DatabaseField, c.Database, "there is no such database at %s: make it (createdb %s), or name one that is there", e.Address, c.Database)
		case notPossibleNow:
			return wrong(sqltarget.DatabaseField, c.Database, "%s lets nobody into it (%s): alter database %s allow_connections true, or name another one", e.Address, answer.Message, c.Database)
		case noPrivilege:
			return wrong(sqltarget.DatabaseField, c.Database, "user %s may not connect to it at %s (%s): grant connect on database %s to %[1]s, or name another user or database", c.User, e.Address, answer.Message, c.Database)
		case tooManyConnections:
			return wrong(s.Field(e), e.Address, "the server has no connection left (%s): raise its max_connections, or end other clients", answer.Message)
		}
		return wrong(s.Field(e), e.Address, "the server refuses the connection: %s (SQLSTATE %s)", answer.Message, answer.Code)
	case errors.As(err, &untrusted):
		return o.Untrusted(e, untrusted.Err)
	case o.TLS != sqltarget.TLSDisable && refusesTLS(ctx, c):
		return wrong(sqltarget.ParameterField(sqltarget.TLSParameter), o.TLS, "%s takes no encrypted connections: set ssl = on in its postgresql.conf, or use tls: %s if nobody listens on the way", e.Address, sqltarget.TLSDisable)
	}
	return s.Unreachable(e, d.Name(), "listen_addresses, port", err)
}

// refusesTLS requests encryption from a server and reports whether the server refuses (PostgreSQL documentation,
// section SSL session encryption).
func refusesTLS(ctx context.Context, c *pgconn.Config) bool {
	const request = 80877103
	if strings.HasPrefix(c.Host, "/") {
		return true // a Unix socket has no encryption
	}
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing important was sent
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), request)); err != nil {
		return false
	}
	var answer [1]byte
	_, err = io.ReadFull(conn, answer[:])
	return err == nil && answer[0] == 'N'
}

// closeWithin closes a connection. It waits at most CloseBound for a server that hangs.
func closeWithin(c *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqltarget.CloseBound)
	defer cancel()
	return c.Close(ctx)
}

// row runs a query that must return exactly one row, and returns the row's values as text.
func row(ctx context.Context, c conn, sql string, parameters ...string) ([]string, error) {
	values := make([][]byte, len(parameters))
	for i, p := range parameters {
		values[i] = []byte(p)
	}
	r := c.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	if len(r.Rows) != 1 {
		return nil, fmt.Errorf("%d rows came of %q, not 1", len(r.Rows), sql)
	}
	texts := make([]string, len(r.Rows[0]))
	for i, v := range r.Rows[0] {
		texts[i] = string(v)
	}
	return texts, nil
}

// exec runs statements that return no rows.
func exec(ctx context.Context, c conn, sql string) error {
	_, err := c.Exec(ctx, sql).ReadAll()
	return err
}

// query runs a query and calls row with the values of each row as text. The values are valid only during the call.
func query(ctx context.Context, c conn, sql string, row func(values [][]byte) error, parameters ...string) error {
	values := make([][]byte, len(parameters))
	for i, p := range parameters {
		values[i] = []byte(p)
	}
	r := c.ExecParams(ctx, sql, values, nil, nil, nil)
	for r.NextRow() {
		if err := row(r.Values()); err != nil {
			_, _ = r.Close()
			return err
		}
	}
	_, err := r.Close()
	return err
}
