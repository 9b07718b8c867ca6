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

// Database is a database as those who benchmark it see it, whatever it is: geobench's own nodes, one that speaks SQL, or a
// program of the user's. It is loaded, its clients talk to it, it becomes quiet, and its rows are audited. Whoever opened it
// closes it.
type Database interface {
	// Load replaces all rows by those of a data set, which workload.Fill tells.
	Load(ctx context.Context, d Dataset) error
	// Clients returns what the clients in a region talk to. The caller closes it.
	Clients(region geo.Region) Target
	// Activity tells what goes on in the database now.
	Activity(ctx context.Context) (Activity, error)
	// Layout says which nodes hold which rows, and so which of the audited rows are copies of each other.
	Layout() geo.Layout
	// Audit sums up the rows of the loaded workload, by node, for those nodes that are not left out (nil: all); nobody may use
	// them meanwhile. Entries may end after the last node that the layout names.
	Audit(ctx context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error)
	// Status returns the figures of the nodes, by geo.NodeID; none where the database does not tell.
	Status(ctx context.Context) ([]admin.Status, error)
}

// Dataset is the rows that a run begins with.
type Dataset struct {
	// Name tells data sets apart.
	Name     string
	Workload workload.Workload
	// Spec is the workload as in a manifest's spec.workload, with its defaults, and Seed the seed that Workload was made with.
	Spec json.RawMessage
	Seed uint64
	// Traced says that the run records a history, so that procedures keep versions in the rows (package history), which
	// audits leave out.
	Traced bool
	// Progress, if not nil, is called now and then while rows are loaded, with how many there are so far.
	Progress func(rows int64)
}

// Described is a Database that tells what it is: its server, isolation and endpoints, for the result.
type Described interface {
	Describe() result.Target
}

// Activity is what goes on in a database.
type Activity struct {
	// Pending is the number of transactions that are unfinished, those whose clients have given up included.
	Pending int
	// PendingByNode is how many each node waits for, by geo.NodeID; they add up to Pending. nil where the database does not tell.
	PendingByNode []int
	// Operations counts the rows that were used so far; it grows while something goes on that is pending nowhere. 0 where the
	// database does not tell.
	Operations int64
	// Leader is the region whose clients talk to the server that leads the others now, empty where none does or nobody tells, and
	// Elections how often one was elected since the database was opened.
	Leader    string
	Elections int64
}
