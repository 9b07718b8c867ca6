package target

import (
	"context"

	"github.com/geobench/geobench/internal/bench/result"
)

// Stated is a Database that reports the state of its servers: settings that affect durability and query plans, start
// times, and other active sessions. State is called before the clients connect and again after the audit.
type Stated interface {
	State(ctx context.Context) ([]result.Server, error)
}

// StateOf returns the state of a database's servers, or nil if the database does not report it.
func StateOf(ctx context.Context, db Database) ([]result.Server, error) {
	if s, ok := db.(Stated); ok {
		return s.State(ctx)
	}
	return nil, nil
}
