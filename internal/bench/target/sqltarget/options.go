// Package sqltarget contains the code that all SQL targets share. It inspects a running database before it creates
// anything. It creates and marks a key-value table, and loads the table over several connections. It executes
// transactions through target.Statements, and audits the table in one snapshot. A Dialect contains the parts that
// differ between databases: SQL, errors and isolation levels.
package sqltarget

import (
	"math"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// Names of the parameters of SQL engines.
const (
	IsolationParameter   = "isolation"
	ConnectionsParameter = "connections"
	TLSParameter         = "tls"
	FormParameter        = "form"
	ForeignKeysParameter = "foreignKeys"
	PlacementParameter   = "placement"
	BeginParameter       = "begin"
)

// Values of the parameter begin.
const (
	BeginTogether = "Together"
	BeginAlone    = "Alone"
)

// Values of the parameter placement.
const (
	PlacementOwnership = "Ownership"
	PlacementHomes     = "Homes"
)

// Values of the parameter form.
const (
	FormProcedures = "Procedures"
	FormSQL        = "SQL"
)

// Values of the parameter tls, named like libpq's sslmode. The modes that can fall back to no encryption are omitted,
// because a result would not show whether encryption was measured.
const (
	TLSDisable    = "disable"
	TLSRequire    = "require"
	TLSVerifyCA   = "verify-ca"
	TLSVerifyFull = "verify-full"
)

// far above the limit of any server
const maxConnections = 4096

// Connections and TLS are parameters of every SQL engine.
var (
	Connections = protocol.Parameter{Name: ConnectionsParameter, Default: "16", Integer: true, MinInt: 1, MaxInt: maxConnections,
		Doc: "connections of the clients of a region, each of which runs one transaction at a time"}
	TLS = protocol.Parameter{Name: TLSParameter, Default: TLSRequire, OneOf: []string{TLSDisable, TLSRequire, TLSVerifyCA, TLSVerifyFull},
		Doc: "encryption of connections; verify-ca and verify-full check the server's certificate by ca.crt of the Secret, else by the system's roots"}
)

// Begin is the parameter that determines how transactions start. Only some SQL engines have it.
var Begin = protocol.Parameter{Name: BeginParameter, Default: BeginTogether, OneOf: []string{BeginTogether, BeginAlone},
	Doc: "how a transaction begins: together with its first statement, which takes no round trip of its own, as with JDBC; or alone, by a message of its own that is waited for, as pgbench, sysbench and most drivers of other languages do"}

// Form and ForeignKeys are the parameters of SQL engines that support workloads' own SQL.
var (
	Form = protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures, FormSQL},
		Doc: "what transactions are: the procedures of the workload, row by row on one table of keys and values; or SQL, written by hand for tpcc and smallbank, on their own tables"}
	ForeignKeys = protocol.Parameter{Name: ForeignKeysParameter, Default: "true", OneOf: []string{"true", "false"},
		Doc: "whether the tables of form SQL have the foreign keys of their specification"}
)

// ProceduresOnly returns the parameter form of an engine that does not support workloads' own SQL. why is the reason,
// worded as the beginning of the error message.
func ProceduresOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures},
		Instead: map[string]string{FormSQL: why + "; use " + FormProcedures},
		Doc:     "what transactions are: the procedures of the workload, row by row on one table of keys and values"}
}

// Placement is the parameter of SQL engines that can store rows in their home regions.
var Placement = protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership, PlacementHomes},
	Doc: "where rows are: Ownership has the database put them where it likes, so that a home says who works on a row; Homes has it keep them in the region of their home"}

// OwnershipOnly returns the parameter placement of an engine that cannot store rows in their home regions. why is the
// reason, worded as the beginning of the error message.
func OwnershipOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership},
		Instead: map[string]string{PlacementHomes: why + "; use " + PlacementOwnership},
		Doc:     "where rows are: the database puts them where it likes, and a home says who works on a row"}
}

// Unlimited is the number of free connections that Dialect.Left returns for a server that reports no limit.
const Unlimited = math.MaxInt32

// Options configures the use of a database, except for its location.
type Options struct {
	// Isolation is a value of the engine's parameter isolation.
	Isolation string
	// Connections is the number of connections of each region's clients.
	Connections int
	// TLS is the encryption mode, as in libpq's sslmode: disable, require, verify-ca, verify-full.
	TLS string
	// Form is FormSQL if transactions are a workload's own SQL on separate tables; otherwise it is FormProcedures or
	// empty. ForeignKeys is set if these tables have foreign keys.
	Form        string
	ForeignKeys bool
	// BeginAlone is set if a transaction starts with a separate message instead of together with its first statement.
	BeginAlone bool
	// Homes is set if the database stores rows in their home regions.
	Homes bool
	// Place is the name of the objects that Geobench uses exclusively: a schema in PostgreSQL, a table in MySQL. Drop is
	// set if Close drops the place.
	Place string
	Drop  bool
}
