package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/target"
)

const (
	// connectWithin bounds the opening of a connection, and silence how long the server may say nothing when it is asked for more than
	// a client's transaction.
	connectWithin = 10 * time.Second
	silence       = 15 * time.Second
	// closeBound is how long the end of a connection may take.
	closeBound = 5 * time.Second
	// probes is how many round trips are measured for each endpoint.
	probes = 11
)

// Server is where a database is, and who asks for it.
type Server struct {
	// Endpoints are what the clients of each region connect to, in the order of geo.Region: all lead to the same database.
	Endpoints []Endpoint
	// Database is its name; empty stands for PGDATABASE, else the user's name.
	Database string
	// User and Password; empty stand for what PGUSER, PGPASSWORD and the password file say, as for every client of PostgreSQL.
	User, Password string
	// CAFile names a file of the certificates that the server's is checked by; empty stands for the system's.
	CAFile string
}

// Endpoint is host:port, or the folder of a Unix socket and the port.
type Endpoint struct {
	Region, Address string
}

// config is how to connect to an endpoint. The password is in no text on the way.
func (s *Server) config(e Endpoint, o *Options) (*pgconn.Config, error) {
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
	c.ConnectTimeout = connectWithin
	return c, nil
}

// field is where a manifest names an endpoint's address.
func (s *Server) field(e Endpoint) string {
	return fmt.Sprintf("spec.external.endpoints[%d].address", slices.Index(s.Endpoints, e))
}

const (
	databaseField = "spec.external.database"
	secretField   = "spec.external.secretRef"
)

func parameterField(name string) string { return "spec.engine.parameters." + name }

// explain says which field of a manifest an error in connecting is about.
func (s *Server) explain(ctx context.Context, e Endpoint, o *Options, c *pgconn.Config, err error) error {
	wrong := func(field, value, format string, args ...any) error {
		return &target.FieldError{Field: field, Value: value, Message: fmt.Sprintf(format, args...)}
	}
	var answer *pgconn.PgError
	var untrusted *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answer):
		switch answer.Code {
		case invalidPassword:
			return wrong(secretField, "", "%s does not let user %s in with this password (SQLSTATE %s): give the Secret's keys username and password, or PGUSER and PGPASSWORD, as they are there",
				e.Address, c.User, answer.Code)
		case invalidAuthorization:
			return wrong(secretField, "", "%s does not let user %s in (%s): name another user, or let this one in by pg_hba.conf", e.Address, c.User, answer.Message)
		case noSuchDatabase:
			return wrong(databaseField, c.Database, "there is no such database at %s: make it (createdb %s), or name one that is there", e.Address, c.Database)
		case tooManyConnections:
			return wrong(s.field(e), e.Address, "the server has no connection left (%s): raise its max_connections, or end other clients", answer.Message)
		}
		return wrong(s.field(e), e.Address, "the server refuses the connection: %s (SQLSTATE %s)", answer.Message, answer.Code)
	case errors.As(err, &untrusted):
		return wrong(parameterField(tlsParameter), o.TLS, "the certificate of %s is not to be trusted (%v): put the certificate authority's ca.crt into the Secret, or use %s, which does not ask who the server is",
			e.Address, untrusted.Err, tlsRequire)
	case o.TLS != tlsDisable && refusesTLS(ctx, c):
		return wrong(parameterField(tlsParameter), o.TLS, "%s takes no encrypted connections: set ssl = on in its postgresql.conf, or use tls: %s if nobody listens on the way", e.Address, tlsDisable)
	}
	var network *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return wrong(s.field(e), e.Address, "there is no host of this name (%v): name one that this machine can look up, or its IP address", lookup)
	case errors.As(err, &network):
		return wrong(s.field(e), e.Address, "nothing answers there as PostgreSQL (%v): see that the server runs, listens on this address (listen_addresses, port) and is let through by firewalls", network)
	}
	return wrong(s.field(e), e.Address, "no connection to PostgreSQL could be opened within %v: %v; see that it is PostgreSQL that listens there", connectWithin, err)
}

// refusesTLS asks a server for encryption, and reports whether it says no: PostgreSQL documentation, section SSL session encryption.
func refusesTLS(ctx context.Context, c *pgconn.Config) bool {
	const request = 80877103
	if strings.HasPrefix(c.Host, "/") {
		return true // a Unix socket
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing was sent that matters
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

// closeWithin closes a connection and does not wait for a server that hangs.
func closeWithin(c *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	return c.Close(ctx)
}

// row asks for one row of texts.
func row(ctx context.Context, c *pgconn.PgConn, sql string, parameters ...string) ([]string, error) {
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

// exec runs statements that return nothing.
func exec(ctx context.Context, c *pgconn.PgConn, sql string) error {
	_, err := c.Exec(ctx, sql).ReadAll()
	return err
}

// roundTrip is the median of some round trips to the server.
func roundTrip(ctx context.Context, c *pgconn.PgConn) (time.Duration, error) {
	var took []time.Duration
	for range probes {
		begin := time.Now()
		if err := c.Ping(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
