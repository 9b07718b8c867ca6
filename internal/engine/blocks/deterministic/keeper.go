package deterministic

import (
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Keeper stores the reads that an executor has sent to other partitions, for engines whose nodes may restart without
// state. All copies read the same values for a transaction. A new incarnation can therefore get missing reads from its
// own copy, and can send reads that other nodes miss. Reads may then arrive twice, and the executor ignores all but the
// first.
type Keeper interface {
	// Served records that values were sent to a partition of this copy for a transaction. The values are immutable.
	Served(at Place, to int, values []Value)
	// Ended records that a transaction has finished here.
	Ended(at Place)
	// Over reports whether a transaction has finished here, so that it no longer waits for reads.
	Over(at Place) bool
}

// knows reports whether the reads of a partition have arrived before. If they have not, it records them as arrived.
func (e *execution) knows(partition int) bool {
	if slices.Contains(e.told, partition) {
		return true
	}
	e.told = append(e.told, partition)
	return false
}

// ServeAgain sends the values read for a transaction to a partition of this copy. The caller must call Flush
// afterwards.
func (x *Executor) ServeAgain(at Place, to int, values []Value) {
	x.addReads(to, Read{Place: at, Values: len(values)}, values)
}

// AnswersElsewhere reports whether this node sends the outcome of a transaction to the node where the client waits.
func (x *Executor) AnswersElsewhere(t *txn.Transaction, coordinator geo.NodeID) bool {
	if coordinator == x.c.Self {
		return false
	}
	e := &execution{}
	e.begin(x, t, coordinator)
	return e.answersElsewhere()
}

// Tell sends an outcome to a node. The caller must call Flush afterwards.
func (x *Executor) Tell(to geo.NodeID, o txn.Outcome) { x.sendAnswer(to, o) }

// AppendValues appends encoded values to b.
func AppendValues(b []byte, values []Value) []byte {
	b = codec.AppendUvarint(b, uint64(len(values)))
	for i := range values {
		b = values[i].appendTo(b)
	}
	return b
}

// ReadValues decodes the output of AppendValues.
func ReadValues(r *codec.Reader) (values []Value) {
	for range r.Count(1) {
		values = append(values, readValue(r))
	}
	return values
}
