// Package target defines the load generator's interface to a database. A target takes transactions and reports exactly
// one outcome for each. The native target connects to the database nodes in the generator's region. The no-op target
// commits every transaction at once, which measures the generator alone.
package target

import (
	"context"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// Sink receives outcomes. The target calls it with one batch at a time, from a goroutine that does not use the session.
// The target reuses the slice after the call.
type Sink func(outcomes []txn.Outcome)

// Session is the connection of one load generator. A single goroutine uses it.
type Session interface {
	// Submit buffers t until Flush. The sink receives the outcome of every submitted transaction exactly once, at the
	// latest during Close.
	Submit(t *txn.Transaction)
	// Flush sends buffered transactions. It does not wait for the network.
	Flush()
	// Close closes the session and waits for work that must not be abandoned. An unfinished transaction becomes Refused if
	// it has certainly had no effect, for example because it was still queued. Otherwise it becomes Unknown. The sink is
	// not called after Close returns.
	Close() error
}

// Pool is a Target that limits the concurrent transactions of a session. Further transactions wait.
type Pool interface {
	PoolSize() int
}

// Target opens sessions for the clients of one region. A Database has a Target for each region.
type Target interface {
	Open(ctx context.Context, sink Sink) (Session, error)
	// Incidents returns connection problems in the order in which they happened. The figures of a run with incidents are
	// not reliable.
	Incidents() []result.Incident
	Close() error
}
