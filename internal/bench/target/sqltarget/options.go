// Package sqltarget is what the targets over SQL databases share: a database that runs already is looked at before anything is made, a table
// of keys and values is made and marked, loaded by several connections, worked on by target.Statements, and audited in one snapshot. What is
// of one database alone, its SQL, its errors and its isolation levels, is a Dialect.
package sqltarget

import (
	"math"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// Names of the parameters that every engine of this kind has.
const (
	IsolationParameter   = "isolation"
	ConnectionsParameter = "connections"
	TLSParameter         = "tls"
	FormParameter        = "form"
	ForeignKeysParameter = "foreignKeys"
	PlacementParameter   = "placement"
	BeginParameter       = "begin"
)

// The values of the parameter begin.
const (
	BeginTogether = "Together"
	BeginAlone    = "Alone"
)

// The values of the parameter placement.
const (
	PlacementOwnership = "Ownership"
	PlacementHomes     = "Homes"
)

// The values of the parameter form.
const (
	FormProcedures = "Procedures"
	FormSQL        = "SQL"
)

// Values of the parameter tls, which libpq calls sslmode. Those of its modes that fall back to no encryption are left out: a result
// would not say what it has measured.
const (
	TLSDisable    = "disable"
	TLSRequire    = "require"
	TLSVerifyCA   = "verify-ca"
	TLSVerifyFull = "verify-full"
)

// maxConnections is far above what a server has.
const maxConnections = 4096

// Connections and TLS are the parameters of every engine of this kind.
var (
	Connections = protocol.Parameter{Name: ConnectionsParameter, Default: "16", Integer: true, MinInt: 1, MaxInt: maxConnections,
		Doc: "connections of the clients of a region, each of which runs one transaction at a time"}
	TLS = protocol.Parameter{Name: TLSParameter, Default: TLSRequire, OneOf: []string{TLSDisable, TLSRequire, TLSVerifyCA, TLSVerifyFull},
		Doc: "encryption of connections; verify-ca and verify-full check the server's certificate by ca.crt of the Secret, else by the system's roots"}
)

// Begin is the parameter of an engine of this kind that says how transactions begin.
var Begin = protocol.Parameter{Name: BeginParameter, Default: BeginTogether, OneOf: []string{BeginTogether, BeginAlone},
	Doc: "how a transaction begins: together with its first statement, which takes no round trip of its own, as with JDBC; or alone, by a message of its own that is waited for, as pgbench, sysbench and most drivers of other languages do"}

// Form and ForeignKeys are the parameters of an engine of this kind for which workloads have SQL of their own.
var (
	Form = protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures, FormSQL},
		Doc: "what transactions are: the procedures of the workload, row by row on one table of keys and values; or SQL, written by hand for tpcc and smallbank, on their own tables"}
	ForeignKeys = protocol.Parameter{Name: ForeignKeysParameter, Default: "true", OneOf: []string{"true", "false"},
		Doc: "whether the tables of form SQL have the foreign keys of their specification"}
)

// ProceduresOnly is Form of an engine of this kind for which no workload has SQL of its own. why says so, as the beginning of a sentence.
func ProceduresOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures},
		Instead: map[string]string{FormSQL: why + "; use " + FormProcedures},
		Doc:     "what transactions are: the procedures of the workload, row by row on one table of keys and values"}
}

// Placement is the parameter of an engine of this kind that puts rows into the regions which they call home.
var Placement = protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership, PlacementHomes},
	Doc: "where rows are: Ownership has the database put them where it likes, so that a home says who works on a row; Homes has it keep them in the region of their home"}

// OwnershipOnly is Placement of an engine of this kind that cannot put rows into the regions of their homes. why says so.
func OwnershipOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership},
		Instead: map[string]string{PlacementHomes: why + "; use " + PlacementOwnership},
		Doc:     "where rows are: the database puts them where it likes, and a home says who works on a row"}
}

// Unlimited is how many connections a server has left that does not say how many it takes.
const Unlimited = math.MaxInt32

// Options are how a database is used, beside where it is.
type Options struct {
	// Isolation is a value of the engine's parameter isolation.
	Isolation string
	// Connections of the clients of each region.
	Connections int
	// TLS is the mode of encryption, as libpq's sslmode: disable, require, verify-ca, verify-full.
	TLS string
	// Form is FormSQL where transactions are SQL of their workload's own on tables of its own, and else FormProcedures, or empty. ForeignKeys
	// says that these tables have foreign keys.
	Form        string
	ForeignKeys bool
	// BeginAlone says that a transaction begins by a message of its own, and not with its first statement.
	BeginAlone bool
	// Homes says that the database keeps rows in the regions of their homes.
	Homes bool
	// Place is what Geobench has for itself: a schema of PostgreSQL, a table of MySQL. Drop says that closing the database drops it.
	Place string
	Drop  bool
}
