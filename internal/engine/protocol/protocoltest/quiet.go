package protocoltest

import (
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Quiet is an environment in which no time passes. It records the replica's messages and replies. It does not implement
// Rand and Offload.
type Quiet struct {
	protocol.Env
	Sent    map[geo.NodeID][]protocol.Message
	Replies []txn.Outcome
}

// NewQuiet returns an environment in which nothing has happened.
func NewQuiet() *Quiet { return &Quiet{Sent: map[geo.NodeID][]protocol.Message{}} }

// Now implements protocol.Env.
func (q *Quiet) Now() time.Duration { return 0 }

// After implements protocol.Env: no timer fires.
func (q *Quiet) After(time.Duration, protocol.Timer) {}

// Mark implements protocol.Env.
func (q *Quiet) Mark(*coverage.Mark) {}

// Buggify implements protocol.Env.
func (q *Quiet) Buggify(*buggify.Point) bool { return false }

// Reply implements protocol.Env.
func (q *Quiet) Reply(o txn.Outcome) { q.Replies = append(q.Replies, o) }

// Send implements protocol.Env.
func (q *Quiet) Send(to geo.NodeID, m protocol.Message) { q.Sent[to] = append(q.Sent[to], m) }

// Take returns the messages that were sent to a node, and removes them from Sent.
func (q *Quiet) Take(to geo.NodeID) []protocol.Message {
	all := q.Sent[to]
	delete(q.Sent, to)
	return all
}
