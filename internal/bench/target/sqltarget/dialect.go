package sqltarget

import (
	"context"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// Conn is a connection for queries, separate from the clients' connections; one goroutine uses it.
type Conn interface {
	Ping(ctx context.Context) error
	// Broken reports whether the connection is of no more use.
	Broken() bool
	// Close ends it, and does not wait for a server that hangs.
	Close() error
}

// Mark is the text in the database that names the creator of a table and its last user: no table without a mark is
// touched.
const Mark = "made by geobench for "

// Made lists the objects that a run has created: a separate place, and a table in it.
type Made struct {
	Place, Table bool
}

// Dialect contains the parts specific to one database. C is its connection. Its methods are called by one goroutine at
// a time, except for Connect, Copy, CatchUp and Classify.
type Dialect[C Conn] interface {
	// Name of the kind of server, and SQL's name of the isolation level.
	Name() string
	IsolationName() string
	// Messages is result.Target.Messages.
	Messages() string
	// PlaceParameter is the parameter whose value Options.Place is. PlaceWord is the database's word for such a place:
	// schema, table.
	PlaceParameter() string
	PlaceWord() string
	// Dial opens a connection for queries, which can see the newest state.
	Dial(ctx context.Context, e Endpoint) (C, error)
	// Explain says which field of a manifest an error of Dial is about.
	Explain(ctx context.Context, e Endpoint, err error) error
	// Connect opens a connection of a client.
	Connect(ctx context.Context, e Endpoint) (target.Connection, error)
	Classify(err error) target.Failure
	// Look inspects an endpoint. It returns name and version of the server, and an identifier that distinguishes it from
	// other servers. If the server cannot be used, it returns a *target.FieldError.
	Look(ctx context.Context, c C, e Endpoint) (version, server string, err error)
	// Left is the number of connections that the server has left, without this run's connections.
	Left(ctx context.Context, c C) (int, error)
	// Lock takes the lock of the place for this connection; false says that another run has it.
	Lock(ctx context.Context, c C) (bool, error)
	// Make makes place and table where they are not there, and marks the table by a text that begins with Mark. It refuses
	// a table that has no mark.
	Make(ctx context.Context, c C, mark string) (Made, error)
	// Marked returns the mark of the table; empty where there is none.
	Marked(ctx context.Context, c C) (string, error)
	// Drop drops the table, and if place is set also the place, provided that it holds no other objects.
	Drop(ctx context.Context, c C, place bool) error
	// Working is the number of sessions of this run, of any process, with work in progress at the server that the
	// connection leads to.
	Working(ctx context.Context, c C) (int, error)
	// Empty removes all rows, and Settle ends a load: statistics, and whatever makes the rows seen everywhere.
	Empty(ctx context.Context, c C) error
	Settle(ctx context.Context, c C) error
	// AppendRow appends a row as Copy takes it, and Copy loads chunks of them until there are no more.
	AppendRow(b []byte, k txn.Key, value []byte) []byte
	Copy(ctx context.Context, e Endpoint, chunks <-chan []byte) error
	// Waits reports whether the server that c leads to says that a client's statement, which is under way there, waits for
	// another transaction.
	Waits(ctx context.Context, c C, client target.Connection) (bool, error)
	// CatchUp returns once the server that c leads to shows its clients all that was committed before, on whichever
	// server.
	CatchUp(ctx context.Context, c C) error
	// Rows reads all rows in one snapshot. The bytes are valid until f returns.
	Rows(ctx context.Context, c C, f func(k, value []byte)) error
}

// Former is a Dialect that supports Options.Form: FormSQL. Its connections then start statements that implement
// target.Caller. Its methods are called by one goroutine at a time, except for CopyInto and Finish.
type Former[C Conn] interface {
	Dialect[C]
	// MakeTables creates the tables of a form, without keys, and marks each table like Make. It refuses if other users
	// have created a table of that name. recorded means that rows have versions (sqlform.Versions). Empty and Drop drop
	// the tables.
	MakeTables(ctx context.Context, c C, f *sqlform.Form, recorded bool, mark string) error
	// CopyInto loads chunks of rows until there are no more.
	CopyInto(ctx context.Context, e Endpoint, f *sqlform.Form, chunks <-chan Chunk) error
	// Finish makes the keys and indexes of a table, and Refer the foreign keys of all, which it holds all rows to. Refine
	// ends the load.
	Finish(ctx context.Context, c C, t *sqlform.Table) error
	Refer(ctx context.Context, c C, f *sqlform.Form) error
	Refine(ctx context.Context, c C, f *sqlform.Form) error
	// Snapshot calls f with queries that all see the same snapshot.
	Snapshot(ctx context.Context, c C, f func(q sqlform.Query) error) error
}

// Chunk is some rows of a table of a form, the n-th, as COPY takes them in its text format.
type Chunk struct {
	Table int
	Rows  []byte
}

// Fitter is a Dialect that does not take every data set and every transaction. What does not fit is refused by a
// *target.FieldError before anything is loaded.
type Fitter interface {
	Fits(t *geo.Topology, data target.Dataset) error
}
