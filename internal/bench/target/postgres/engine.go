// Package postgres implements target.Database for PostgreSQL, which it accesses with pgx v5. Procedures run statement
// by statement on a key-value table, or a workload's own SQL runs on separate tables (package sqlform). All
// transactions of a run have the same isolation level. The package deploys nothing, and writes only in its schema.
//
// The guarantees of the levels are PostgreSQL's: REPEATABLE READ is snapshot isolation, and SERIALIZABLE is
// serializable snapshot isolation. The source is Ports and Grittner, Serializable Snapshot Isolation in PostgreSQL,
// VLDB 2012.
package postgres

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Names of the parameters of Engine.
const (
	schemaParameter     = "schema"
	dropSchemaParameter = "dropSchema"
	// WritesParameter is the name of the parameter that determines when writes are sent.
	WritesParameter = "writes"
)

// The values of the parameter writes.
const (
	WritesEach     = "Each"
	WritesTogether = "Together"
)

// The values of the parameter isolation.
const (
	ReadCommitted  = "ReadCommitted"
	RepeatableRead = "RepeatableRead"
	Serializable   = "Serializable"
)

// level is an isolation level, with its name in SQL and the guarantee that histories satisfy.
type level struct {
	sql      string
	promises isolation.Level
}

var levels = map[string]level{
	ReadCommitted:  {"read committed", isolation.ReadCommitted},
	RepeatableRead: {"repeatable read", isolation.SnapshotIsolation},
	Serializable:   {"serializable", isolation.Serializable},
}

// schemas are the allowed values of the parameter schema, with the default first. They need no quotes, and are unlikely
// to collide with other schemas.
var schemas = []string{"geobench", "geobench_a", "geobench_b", "geobench_c"}

// Engine describes the PostgreSQL configuration in a manifest. It has no replica code, because Geobench never deploys
// PostgreSQL.
var Engine = &protocol.Engine{
	Name: "postgres",
	Doc:  "PostgreSQL that runs already, reached with pgx; its transactions are interactive, a statement after the other",
	Parameters: []protocol.Parameter{
		{Name: sqltarget.IsolationParameter, Default: Serializable, OneOf: []string{ReadCommitted, RepeatableRead, Serializable},
			Doc: "isolation level of all transactions; PostgreSQL's RepeatableRead is snapshot isolation"},
		sqltarget.Connections,
		sqltarget.TLS,
		{Name: WritesParameter, Default: WritesEach, OneOf: []string{WritesEach, WritesTogether},
			Doc: "when writes are sent: each when the procedure comes to it, which waits for the answer; or together, with the next read or COMMIT in one round trip, as an application does that pipelines its statements"},
		sqltarget.Begin,
		sqltarget.Form,
		sqltarget.ForeignKeys,
		{Name: schemaParameter, Default: schemas[0], OneOf: schemas,
			Doc: "schema of the tables, made where it is not there; several let runs share a server"},
		{Name: dropSchemaParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether the tables, and the schema if it is empty then, are dropped after the run"},
	},
	Isolation: func(p protocol.Params) isolation.Level { return levels[p.Word(sqltarget.IsolationParameter)].promises },
}

// Options configures the use of a database, except for its location.
type Options struct {
	sqltarget.Options
	// Together is set if writes are sent with the next read or COMMIT in one round trip.
	Together bool
	// Product is the product if the servers are not PostgreSQL but speak its protocol; otherwise it is nil.
	Product *Product
}

// OptionsOf returns the options that the parameters of Engine select. The parameters must have been checked.
func OptionsOf(p protocol.Params) Options {
	return Options{Together: p.Word(WritesParameter) == WritesTogether, Options: sqltarget.Options{
		Isolation: p.Word(sqltarget.IsolationParameter), Connections: int(p.Int(sqltarget.ConnectionsParameter)), TLS: p.Word(sqltarget.TLSParameter),
		Form: p.Word(sqltarget.FormParameter), ForeignKeys: p.Word(sqltarget.ForeignKeysParameter) == "true",
		BeginAlone: p.Word(sqltarget.BeginParameter) == sqltarget.BeginAlone,
		Place:      p.Word(schemaParameter), Drop: p.Word(dropSchemaParameter) == "true", Homes: p.Word(sqltarget.PlacementParameter) == sqltarget.PlacementHomes,
	}}
}

func levelOf(name string) (level, error) {
	l, ok := levels[name]
	if !ok {
		return l, fmt.Errorf("isolation: %q is not one of %s, %s, %s", name, ReadCommitted, RepeatableRead, Serializable)
	}
	return l, nil
}
