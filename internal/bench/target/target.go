// Package target defines the interface of a load generator to a database, which takes transactions and answers each of
// them exactly once. Native targets are the nodes of a database in the generator's region. The no-op target immediately
// commits everything, to measure the generator alone.
package target

import (
	"context"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// Sink takes outcomes, from another goroutine than the session's and never two batches at a time. The slice is reused
// once it returns.
type Sink func(outcomes []txn.Outcome)

// Session is the connection of one load generator, used by one goroutine.
type Session interface {
	// Submit buffers t until Flush. Every submitted transaction reaches the sink exactly once, at Close at the latest.
	Submit(t *txn.Transaction)
	// Flush sends buffered data. It does not wait for the network.
	Flush()
	// Close closes the session, and waits for work that must not be abandoned. Unfinished transactions become Refused if
	// they have certainly left no trace, for example because they were queued or not committed yet. Otherwise they become
	// Unknown. The sink is not called after it returns.
	Close() error
}

// Pool is a Target with a limit on concurrent transactions of a session; further transactions wait.
type Pool interface {
	PoolSize() int
}

// Target opens sessions. It serves the clients of one region; Database serves all regions.
type Target interface {
	Open(ctx context.Context, sink Sink) (Session, error)
	// Incidents returns problems with the connections, in the order in which they happened: a run with incidents can't be
	// trusted.
	Incidents() []result.Incident
	Close() error
}
