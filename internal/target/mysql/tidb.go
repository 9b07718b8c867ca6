package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/target/sqltarget"
)

// TiDB speaks MySQL's protocol: what it says and asks otherwise is from its documentation. Nobody has run these clients against one yet. The operator
// deploys it and gives it to one run at a time, so that no lock keeps other runs out; the mark of the table tells.
//
// Its transactions are optimistic at SnapshotIsolation: one that writes a row which has changed since its snapshot fails at COMMIT. Pessimistic
// ones write the newest version, whatever their snapshot held, as InnoDB's do, and so lose updates.
var TiDB = &protocol.Engine{
	Name: "tidb",
	Doc:  "TiDB as the operator deploys it, reached with go-sql-driver; its transactions are interactive, a statement after the other",
	Parameters: []protocol.Parameter{
		{Name: sqltarget.IsolationParameter, Default: SnapshotIsolation, OneOf: []string{SnapshotIsolation, RepeatableRead, ReadCommitted},
			Instead: map[string]string{Serializable: "TiDB has no such transactions, and refuses them with error 8048"},
			Doc:     "isolation level of all transactions; SnapshotIsolation is REPEATABLE READ of optimistic ones, RepeatableRead that of pessimistic ones, which lose updates"},
		sqltarget.Connections,
		sqltarget.TLS,
		sqltarget.ProceduresOnly("the SQL of workloads was not written for TiDB"),
		{Name: tableParameter, Default: tables[0], OneOf: tables, Doc: "table of the rows, made where it is not there"},
		{Name: dropTableParameter, Default: "false", OneOf: []string{"false", "true"}, Doc: "whether the table is dropped after the run"},
	},
	Isolation: func(p protocol.Params) isolation.Level {
		return tidbLevels[p.Word(sqltarget.IsolationParameter)].promises
	},
}

// tidbLevels are its levels; the strict one is of optimistic transactions.
var tidbLevels = map[string]level{
	ReadCommitted:     {"read committed", false, isolation.ReadCommitted},
	RepeatableRead:    {"repeatable read", false, isolation.ReadCommitted},
	SnapshotIsolation: {"repeatable read", true, isolation.SnapshotIsolation},
}

// Errors of TiDB after which a transaction was rolled back and may be tried again: TiDB documentation, error codes.
var tidbConflicts = map[uint16]string{
	8002: "serialization-failure", // of SELECT FOR UPDATE
	8005: "serialization-failure",
	8022: "serialization-failure", // at COMMIT
	8028: "schema-changed",
	9007: "serialization-failure",
}

// tidbMode is what makes a client's transactions those of a level.
func tidbMode(l level) string {
	if l.strict {
		return "optimistic"
	}
	return "pessimistic"
}

// lookTiDB is dialect.Look. Each server knows its own sessions only.
func (d *dialect) lookTiDB(ctx context.Context, c *conn, e sqltarget.Endpoint) (version, server string, err error) {
	facts, err := c.row(ctx, "select version(), @@hostname, @@port")
	if err != nil {
		return "", "", err
	}
	_, name, ok := strings.Cut(facts[0], "-TiDB-")
	if !ok {
		return "", "", sqltarget.Wrong(d.server.Field(e), e.Address, "the server is %q, which is no TiDB: name a server of TiDB, or set spec.engine.name to what it is", facts[0])
	}
	return fmt.Sprintf("TiDB %s", name), strings.Join(facts[1:], " "), nil
}
