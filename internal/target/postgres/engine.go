// Package postgres is a target.Database over PostgreSQL, reached with pgx v5: procedures run statement by statement on a table of keys
// and values, in transactions of one isolation level. It deploys nothing, and it writes in a schema of its own alone.
//
// What the levels promise is what PostgreSQL makes of their names: REPEATABLE READ is snapshot isolation, and SERIALIZABLE is
// serializable snapshot isolation (Ports and Grittner, Serializable Snapshot Isolation in PostgreSQL, VLDB 2012).
package postgres

import (
	"fmt"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
)

// Names of the parameters of Engine.
const (
	isolationParameter   = "isolation"
	connectionsParameter = "connections"
	tlsParameter         = "tls"
	schemaParameter      = "schema"
	dropSchemaParameter  = "dropSchema"
)

// The values of the parameter isolation.
const (
	ReadCommitted  = "ReadCommitted"
	RepeatableRead = "RepeatableRead"
	Serializable   = "Serializable"
)

// level is an isolation level: what it is called in SQL, and what it promises of histories.
type level struct {
	sql      string
	promises isolation.Level
}

var levels = map[string]level{
	ReadCommitted:  {"read committed", isolation.ReadCommitted},
	RepeatableRead: {"repeatable read", isolation.SnapshotIsolation},
	Serializable:   {"serializable", isolation.Serializable},
}

// Values of the parameter tls, which libpq calls sslmode. Those of its modes that fall back to no encryption are left out: a result
// would not say what it has measured.
const (
	tlsDisable    = "disable"
	tlsRequire    = "require"
	tlsVerifyCA   = "verify-ca"
	tlsVerifyFull = "verify-full"
)

// maxConnections is far above what a server has.
const maxConnections = 4096

// schemas are the names that the parameter schema may have, the default first: they need no quotes, and are nobody's by accident.
var schemas = []string{"geobench", "geobench_a", "geobench_b", "geobench_c"}

// Engine says what a manifest may ask of PostgreSQL. It has no replicas: nobody deploys it.
var Engine = &protocol.Engine{
	Name: "postgres",
	Doc:  "PostgreSQL that runs already, reached with pgx; its transactions are interactive, a statement after the other",
	Parameters: []protocol.Parameter{
		{Name: isolationParameter, Default: Serializable, OneOf: []string{ReadCommitted, RepeatableRead, Serializable},
			Doc: "isolation level of all transactions; PostgreSQL's RepeatableRead is snapshot isolation"},
		{Name: connectionsParameter, Default: "16", Integer: true, MinInt: 1, MaxInt: maxConnections,
			Doc: "connections of the clients of a region, each of which runs one transaction at a time"},
		{Name: tlsParameter, Default: tlsRequire, OneOf: []string{tlsDisable, tlsRequire, tlsVerifyCA, tlsVerifyFull},
			Doc: "encryption of connections; verify-ca and verify-full check the server's certificate by ca.crt of the Secret, else by the system's roots"},
		{Name: schemaParameter, Default: schemas[0], OneOf: schemas,
			Doc: "schema of the table, made where it is not there; several let runs share a server"},
		{Name: dropSchemaParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether the table, and the schema if it is empty then, are dropped after the run"},
	},
	Isolation: func(p protocol.Params) isolation.Level { return levels[p.Word(isolationParameter)].promises },
}

// Options are how a database is used, beside where it is.
type Options struct {
	// Isolation is one of ReadCommitted, RepeatableRead, Serializable.
	Isolation string
	// Connections of the clients of each region.
	Connections int
	// TLS is the mode of encryption, as libpq's sslmode: disable, require, verify-ca, verify-full.
	TLS string
	// Schema holds the table. DropSchema says that closing the database drops both.
	Schema     string
	DropSchema bool
}

// OptionsOf reads the parameters of Engine, which have been checked.
func OptionsOf(p protocol.Params) Options {
	return Options{
		Isolation: p.Word(isolationParameter), Connections: int(p.Int(connectionsParameter)), TLS: p.Word(tlsParameter),
		Schema: p.Word(schemaParameter), DropSchema: p.Word(dropSchemaParameter) == "true",
	}
}

func (o *Options) level() (level, error) {
	l, ok := levels[o.Isolation]
	if !ok {
		return l, fmt.Errorf("isolation: %q is not one of %s, %s, %s", o.Isolation, ReadCommitted, RepeatableRead, Serializable)
	}
	return l, nil
}
