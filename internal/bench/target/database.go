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

// Database is a database as its benchmark clients see it: Geobench nodes, an SQL database, or a user's program. A run
// loads it, sends it transactions, waits until it is quiescent, and audits its rows. The caller that opens a Database
// must also close it.
type Database interface {
	// Load replaces all rows with the rows of d, as computed by workload.Fill.
	Load(ctx context.Context, d Dataset) error
	// Clients returns the target of the clients in a region. The caller closes the target.
	Clients(region geo.Region) Target
	// Activity returns the current activity of the database.
	Activity(ctx context.Context) (Activity, error)
	// Layout reports which nodes store which rows. It determines which audited rows are copies of each other.
	Layout() geo.Layout
	// Audit returns the sums of the loaded workload's rows, by node. It skips the nodes for which leftOut returns true; if
	// leftOut is nil, it skips no node. No client may use the rows during the audit. The result may omit the nodes after
	// the last node of the layout.
	Audit(ctx context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error)
	// Status returns the metrics of the nodes, by geo.NodeID, or nil if the database does not report them.
	Status(ctx context.Context) ([]admin.Status, error)
}

// Dataset describes the initial rows of a run.
type Dataset struct {
	// Name distinguishes data sets.
	Name     string
	Workload workload.Workload
	// Spec is the manifest's spec.workload with defaults filled in. Seed is the seed from which Workload was built.
	Spec json.RawMessage
	Seed uint64
	// Traced is set if the run records a history. Procedures then store versions in the rows (package history), and
	// audits ignore these versions.
	Traced bool
	// Progress, if not nil, is called from time to time during a load with the number of rows loaded so far.
	Progress func(rows int64)
}

// Described is a Database that describes its server, isolation and endpoints for the result.
type Described interface {
	Describe() result.Target
}

// Activity is the current activity of a database.
type Activity struct {
	// Pending is the number of unfinished transactions, including transactions whose clients have given up.
	Pending int
	// PendingByNode is the number of pending requests of each node, by geo.NodeID. The numbers add up to Pending. It is
	// nil if the database does not report them.
	PendingByNode []int
	// Operations is the number of row accesses so far. It also grows while the database works on requests that are
	// pending at no node. It is 0 if the database does not report it.
	Operations int64
	// Leader is the region whose clients connect to the current leader. It is empty if there is no leader or if the
	// database does not report it. Elections is the number of elections since the database was opened.
	Leader    string
	Elections int64
}
