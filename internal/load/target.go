package load

import (
	"context"

	"github.com/geobench/geobench/internal/txn"
)

// Sink takes outcomes; it may be called from any goroutine and keeps nothing of the slice.
type Sink func([]txn.Outcome)

// Session is one shard's connection to a target, used by one goroutine.
type Session interface {
	Submit(t *txn.Transaction)
	Flush()
	Close() error
}

// Target is what a worker talks to.
type Target interface {
	Open(ctx context.Context, sink Sink) (Session, error)
	Close() error
}
