package target

import (
	"context"
	"encoding/json"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Database is a database as its benchmark clients see it: geobench's own nodes, a database that speaks SQL, or a user's
// program. It is loaded, its clients talk to it, it becomes quiescent, and its rows are audited. Its opener closes it.
type Database interface {
	// Load replaces all rows by the rows of a data set, which workload.Fill returns.
	Load(ctx context.Context, d Dataset) error
	// Clients returns the target of the clients in a region. The caller closes it.
	Clients(region geo.Region) Target
	// Activity returns the current activity of the database.
	Activity(ctx context.Context) (Activity, error)
	// Layout says which nodes hold which rows, and so which of the audited rows are copies of each other.
	Layout() geo.Layout
	// Audit sums up the rows of the loaded workload by node, except for nodes with leftOut (nil: none). No client may use
	// the rows meanwhile. Entries may stop after the last node that the layout names.
	Audit(ctx context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error)
	// Status returns the figures of the nodes, by geo.NodeID; none if the database does not report them.
	Status(ctx context.Context) ([]admin.Status, error)
}

// Dataset is the rows that a run begins with.
type Dataset struct {
	// Name distinguishes data sets.
	Name     string
	Workload workload.Workload
	// Spec is the workload as in a manifest's spec.workload, with its defaults, and Seed the seed that Workload was made
	// with.
	Spec json.RawMessage
	Seed uint64
	// Traced says that the run records a history, so that procedures keep versions in the rows (package history), which
	// audits leave out.
	Traced bool
	// Progress, if not nil, is called now and then while rows are loaded, with how many there are so far.
	Progress func(rows int64)
}

// Described is a Database that describes itself for the result: its server, isolation and endpoints.
type Described interface {
	Describe() result.Target
}

// Activity is the current activity of a database.
type Activity struct {
	// Pending is the number of unfinished transactions, including those whose clients have given up.
	Pending int
	// PendingByNode is the number of pending requests of each node, by geo.NodeID. The numbers add up to Pending. It is
	// nil if the database does not report them.
	PendingByNode []int
	// Operations counts the rows that were used so far. It grows during activity that is pending at no node. It is 0 if
	// the database does not report it.
	Operations int64
	// Leader is the region whose clients talk to the server that currently leads. It is empty if no server leads or the
	// leader is unknown. Elections is the number of elections since the database was opened.
	Leader    string
	Elections int64
}
