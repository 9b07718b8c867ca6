package sim

import "time"

// Costs is the time that a node's CPU, one core, takes.
type Costs struct {
	// Message is charged for everything that the node handles (a message, a transaction, a timer) and for every message
	// and answer that it sends.
	Message time.Duration
	// Kilobyte is charged per 1000 bytes received and sent.
	Kilobyte time.Duration
	// Key is charged per operation on the store.
	Key time.Duration
}

// DefaultCosts are those of this repository's node. BenchmarkCosts prints the figures to put here: go test
// ./internal/sim -run NONE -bench Costs.
var DefaultCosts = Costs{
	Message:  1500 * time.Nanosecond,
	Kilobyte: 2000 * time.Nanosecond,
	Key:      200 * time.Nanosecond,
}

// of returns the time of a step with so many messages in and out, bytes and key operations.
func (c Costs) of(messages, bytes int, keys int64) time.Duration {
	return time.Duration(messages)*c.Message + time.Duration(bytes)*c.Kilobyte/1000 + time.Duration(keys)*c.Key
}
