// Package sqltarget contains the common code of the targets over SQL databases. It inspects a running database before
// anything is created. It creates and marks a table of keys and values, and loads it over several connections. It
// executes transactions through target.Statements, and audits the table in one snapshot. A Dialect contains the parts
// of a single database: its SQL, its errors and its isolation levels.
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

// Values of the parameter tls, which libpq calls sslmode. The modes that fall back to no encryption are omitted: a
// result would not show what was measured.
const (
	TLSDisable    = "disable"
	TLSRequire    = "require"
	TLSVerifyCA   = "verify-ca"
	TLSVerifyFull = "verify-full"
)

// maxConnections is far above the limit of any server.
const maxConnections = 4096

// Connections and TLS are the parameters of every engine of this kind.
var (
	Connections = protocol.Parameter{Name: ConnectionsParameter, Default: "16", Integer: true, MinInt: 1, MaxInt: maxConnections,
		Doc: "connections of the clients of a region, each of which runs one transaction at a time"}
	TLS = protocol.Parameter{Name: TLSParameter, Default: TLSRequire, OneOf: []string{TLSDisable, TLSRequire, TLSVerifyCA, TLSVerifyFull},
		Doc: "encryption of connections; verify-ca and verify-full check the server's certificate by ca.crt of the Secret, else by the system's roots"}
)

// Begin is the parameter of an engine of this kind that determines how transactions start.
var Begin = protocol.Parameter{Name: BeginParameter, Default: BeginTogether, OneOf: []string{BeginTogether, BeginAlone},
	Doc: "how a transaction begins: together with its first statement, which takes no round trip of its own, as with JDBC; or alone, by a message of its own that is waited for, as pgbench, sysbench and most drivers of other languages do"}

// Form and ForeignKeys are the parameters of an engine of this kind for which workloads have SQL of their own.
var (
	Form = protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures, FormSQL},
		Doc: "what transactions are: the procedures of the workload, row by row on one table of keys and values; or SQL, written by hand for tpcc and smallbank, on their own tables"}
	ForeignKeys = protocol.Parameter{Name: ForeignKeysParameter, Default: "true", OneOf: []string{"true", "false"},
		Doc: "whether the tables of form SQL have the foreign keys of their specification"}
)

// ProceduresOnly is the parameter Form of an engine for which no workload has SQL. why is the reason, as the start of a
// sentence.
func ProceduresOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: FormParameter, Default: FormProcedures, OneOf: []string{FormProcedures},
		Instead: map[string]string{FormSQL: why + "; use " + FormProcedures},
		Doc:     "what transactions are: the procedures of the workload, row by row on one table of keys and values"}
}

// Placement is the parameter of an engine of this kind that puts rows into the regions which they call home.
var Placement = protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership, PlacementHomes},
	Doc: "where rows are: Ownership has the database put them where it likes, so that a home says who works on a row; Homes has it keep them in the region of their home"}

// OwnershipOnly is Placement of an engine of this kind that cannot put rows into the regions of their homes. why says
// so.
func OwnershipOnly(why string) protocol.Parameter {
	return protocol.Parameter{Name: PlacementParameter, Default: PlacementOwnership, OneOf: []string{PlacementOwnership},
		Instead: map[string]string{PlacementHomes: why + "; use " + PlacementOwnership},
		Doc:     "where rows are: the database puts them where it likes, and a home says who works on a row"}
}

// Unlimited is the number of free connections of a server that does not report its limit.
const Unlimited = math.MaxInt32

// Options configure the use of a database, apart from its location.
type Options struct {
	// Isolation is a value of the engine's parameter isolation.
	Isolation string
	// Connections of the clients of each region.
	Connections int
	// TLS is the mode of encryption, as libpq's sslmode: disable, require, verify-ca, verify-full.
	TLS string
	// Form is FormSQL if transactions are a workload's own SQL on separate tables; otherwise it is FormProcedures, or
	// empty. ForeignKeys gives these tables foreign keys.
	Form        string
	ForeignKeys bool
	// BeginAlone makes a transaction start with a separate message, and not with its first statement.
	BeginAlone bool
	// Homes says that the database keeps rows in the regions of their homes.
	Homes bool
	// Place is what Geobench has for itself: a schema of PostgreSQL, a table of MySQL. Drop says that closing the database
	// drops it.
	Place string
	Drop  bool
}
