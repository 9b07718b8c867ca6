package target

import (
	"context"

	"github.com/geobench/geobench/internal/result"
)

// Stated is a Database that tells the state of its servers: settings that decide durability and plans, when they were started, who
// else is at work there. It is asked before the clients connect and after the audit.
type Stated interface {
	State(ctx context.Context) ([]result.Server, error)
}

// StateOf returns the state of a database's servers; nil where it does not tell.
func StateOf(ctx context.Context, db Database) ([]result.Server, error) {
	if s, ok := db.(Stated); ok {
		return s.State(ctx)
	}
	return nil, nil
}
