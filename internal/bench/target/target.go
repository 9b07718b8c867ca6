// Package target is what a load generator talks to: something that takes transactions and answers each of them exactly
// once. Native targets are the nodes of a database in the generator's region; the no-op target commits everything at
// once, to measure the generator alone.
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
	// Flush hands over what is buffered. It does not wait for the network.
	Flush()
	// Close ends the session, and waits for what cannot be left alone. What is unfinished becomes Refused where it has certainly
	// left no trace, as what waits for its turn or was not committed yet, and else Unknown. The sink is not called after it
	// returns.
	Close() error
}

// Pool is a Target that runs so many transactions of a session at the same time; the others wait.
type Pool interface {
	PoolSize() int
}

// Target opens sessions. It is what the clients of one region talk to; Database is all of them.
type Target interface {
	Open(ctx context.Context, sink Sink) (Session, error)
	// Incidents tells what went wrong with the connections, in the order in which it happened: a run with incidents can't be
	// trusted.
	Incidents() []result.Incident
	Close() error
}
