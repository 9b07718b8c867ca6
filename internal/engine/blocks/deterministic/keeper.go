package deterministic

import (
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Keeper stores what an executor has read for other partitions, for engines with nodes that restart without state. All
// copies read the same for a transaction. So a new incarnation can get the missing reads from its own copy, and can
// send reads that other nodes miss. Reads may then arrive twice; all but the first are ignored.
type Keeper interface {
	// Served says that values were sent to a partition of this copy for a transaction. They never change.
	Served(at Place, to int, values []Value)
	// Ended says that a transaction is over here.
	Ended(at Place)
	// Over reports whether a transaction has finished here, so that it waits for no reads.
	Over(at Place) bool
}

// knows reports whether the reads of a partition have arrived before, and records that they have arrived now.
func (e *execution) knows(partition int) bool {
	if slices.Contains(e.told, partition) {
		return true
	}
	e.told = append(e.told, partition)
	return false
}

// ServeAgain sends a partition of this copy the values read for a transaction. Flush must follow.
func (x *Executor) ServeAgain(at Place, to int, values []Value) {
	x.addReads(to, Read{Place: at, Values: len(values)}, values)
}

// AnswersElsewhere reports whether this node sends the outcome of a transaction to another node, where the client
// waits.
func (x *Executor) AnswersElsewhere(t *txn.Transaction, coordinator geo.NodeID) bool {
	if coordinator == x.c.Self {
		return false
	}
	e := &execution{}
	e.begin(x, t, coordinator)
	return e.answersElsewhere()
}

// Tell sends a node an outcome. Flush must follow.
func (x *Executor) Tell(to geo.NodeID, o txn.Outcome) { x.sendAnswer(to, o) }

// AppendValues appends values to a state.
func AppendValues(b []byte, values []Value) []byte {
	b = codec.AppendUvarint(b, uint64(len(values)))
	for i := range values {
		b = values[i].appendTo(b)
	}
	return b
}

// ReadValues reads what AppendValues has appended.
func ReadValues(r *codec.Reader) (values []Value) {
	for range r.Count(1) {
		values = append(values, readValue(r))
	}
	return values
}
