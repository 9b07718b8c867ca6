package sqltarget

import (
	"context"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// Conn is a query connection, separate from the clients' connections. Only one goroutine uses it at a time.
type Conn interface {
	Ping(ctx context.Context) error
	// Broken reports whether the connection is no longer usable.
	Broken() bool
	// Close closes the connection. It does not wait for a server that hangs.
	Close() error
}

// Mark is the start of the text with which Geobench marks a table. The text names the run that created or last used the
// table. Geobench does not touch a table without a mark.
const Mark = "made by geobench for "

// Made records which objects a run has created: its place, and the table in that place.
type Made struct {
	Place, Table bool
}

// Dialect is the part of a target that is specific to one kind of database. C is the type of its query connections.
// Only one goroutine at a time calls the methods, except for Connect, Copy, CatchUp and Classify.
type Dialect[C Conn] interface {
	// Name returns the kind of server, and IsolationName the isolation level's name in SQL.
	Name() string
	IsolationName() string
	// Messages returns the value of result.Target.Messages.
	Messages() string
	// PlaceParameter returns the name of the parameter that sets Options.Place. PlaceWord returns the database's word for
	// a place: schema, table.
	PlaceParameter() string
	PlaceWord() string
	// Dial opens a query connection that can see the latest state.
	Dial(ctx context.Context, e Endpoint) (C, error)
	// Explain converts an error of Dial into an error that names the manifest field that caused it.
	Explain(ctx context.Context, e Endpoint, err error) error
	// Connect opens a client's connection.
	Connect(ctx context.Context, e Endpoint) (target.Connection, error)
	Classify(err error) target.Failure
	// Look inspects an endpoint. It returns the server's name and version, and an identifier that differs between
	// servers. If the server cannot be used, it returns a *target.FieldError.
	Look(ctx context.Context, c C, e Endpoint) (version, server string, err error)
	// Left returns the number of connections that the server can still accept, not counting this run's connections.
	Left(ctx context.Context, c C) (int, error)
	// Lock takes the lock of the place for connection c. It returns false if another run has the lock.
	Lock(ctx context.Context, c C) (bool, error)
	// Make creates the place and the table if they do not exist, and marks the table with mark, which starts with Mark.
	// It refuses a table without a mark.
	Make(ctx context.Context, c C, mark string) (Made, error)
	// Marked returns the mark of the table, or "" if there is none.
	Marked(ctx context.Context, c C) (string, error)
	// Drop drops the table. If place is set, it also drops the place, unless the place contains other objects.
	Drop(ctx context.Context, c C, place bool) error
	// Working returns the number of this run's sessions that have work in progress at the server of c. It includes the
	// sessions of all processes of the run.
	Working(ctx context.Context, c C) (int, error)
	// Empty removes all rows. Settle completes a load: it updates statistics, and does whatever else makes the rows
	// visible everywhere.
	Empty(ctx context.Context, c C) error
	Settle(ctx context.Context, c C) error
	// AppendRow appends a row in the format of Copy. Copy loads chunks of such rows until the channel is closed.
	AppendRow(b []byte, k txn.Key, value []byte) []byte
	Copy(ctx context.Context, e Endpoint, chunks <-chan []byte) error
	// Waits reports whether, according to the server of c, the client's running statement waits for another transaction.
	Waits(ctx context.Context, c C, client target.Connection) (bool, error)
	// CatchUp returns once clients of the server of c can read everything that was committed before the call, on any
	// server.
	CatchUp(ctx context.Context, c C) error
	// Rows calls f with each row of one snapshot. The slices are valid only during the call of f.
	Rows(ctx context.Context, c C, f func(k, value []byte)) error
}

// Former is a Dialect that supports FormSQL as Options.Form. The statements of its client connections then implement
// target.Caller. Only one goroutine at a time calls the methods, except for CopyInto and Finish.
type Former[C Conn] interface {
	Dialect[C]
	// MakeTables creates the tables of a form, without keys, and marks each table like Make. It fails if a table of the
	// same name exists that was not created by Geobench. If recorded is set, rows have versions (sqlform.Versions). Empty
	// and Drop drop the tables.
	MakeTables(ctx context.Context, c C, f *sqlform.Form, recorded bool, mark string) error
	// CopyInto loads chunks of rows until the channel is closed.
	CopyInto(ctx context.Context, e Endpoint, f *sqlform.Form, chunks <-chan Chunk) error
	// Finish creates the keys and indexes of a table. Refer creates all foreign keys and verifies the existing rows
	// against them. Refine completes the load, like Settle.
	Finish(ctx context.Context, c C, t *sqlform.Table) error
	Refer(ctx context.Context, c C, f *sqlform.Form) error
	Refine(ctx context.Context, c C, f *sqlform.Form) error
	// Snapshot calls f with a query function whose queries all read the same snapshot.
	Snapshot(ctx context.Context, c C, f func(q sqlform.Query) error) error
}

// Chunk is a group of rows of one table, in the text format of COPY. Table is the table's index in the form.
type Chunk struct {
	Table int
	Rows  []byte
}

// Fitter is a Dialect that supports only some data sets and transactions. Fits returns a *target.FieldError for an
// unsupported data set, before anything is loaded.
type Fitter interface {
	Fits(t *geo.Topology, data target.Dataset) error
}
