package spanner

import (
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// An entry of a group's log consists of the timestamp that it closes, or 0, and a list of commands. Each command starts
// with its kind.
const (
	// commandCommit commits a transaction of this group alone.
	commandCommit = iota + 1
	// commandPrepare prepares a transaction of several groups, unless it was prevented.
	commandPrepare
	// commandResolve ends a transaction that the group has prepared.
	commandResolve
	// commandPrevent aborts a transaction, unless the group has prepared it.
	commandPrevent
)

// effect holds the content of commandCommit and commandPrepare, and is the group's record of a prepared transaction.
type effect struct {
	name raftgroup.Name
	id   txn.ID
	done uint64 // see Effects.Done
	// timestamp is the commit timestamp, or the lower bound of the commit timestamp of a prepared transaction.
	timestamp uint64
	writes    []txn.WriteEntry

	// The remaining fields are only set for prepared transactions. reads are the ranges that the transaction has read and
	// does not write.
	reads        []txn.Range
	anchor       int
	participants []int // only set at the anchor
}

func appendEffect(b []byte, kind uint8, e *effect) []byte {
	b = codec.AppendID(e.name.AppendTo(append(b, kind)), e.id)
	b = codec.AppendUvarint(codec.AppendUvarint(b, e.done), e.timestamp)
	b = codec.AppendWrites(b, e.writes)
	if kind == commandPrepare {
		b = codec.AppendRanges(b, e.reads)
		b = raftgroup.AppendShards(codec.AppendUvarint(b, uint64(e.anchor)), e.participants)
	}
	return b
}

func readEffect(r *codec.Reader, kind uint8) *effect {
	e := &effect{name: raftgroup.ReadName(r), id: r.ID(), done: r.Uvarint(), timestamp: r.Uvarint(), writes: r.Writes()}
	if kind == commandPrepare {
		e.reads = r.Ranges()
		e.anchor, e.participants = int(r.UvarintMax(raftgroup.MaxShard)), raftgroup.ReadShards(r)
	}
	txn.Own(e.writes)
	return e
}

// resolution is the content of commandResolve.
type resolution struct {
	name raftgroup.Name
	done uint64
	Outcome
}

func appendResolution(b []byte, v *resolution) []byte {
	b = codec.AppendUvarint(v.name.AppendTo(append(b, commandResolve)), v.done)
	return v.Outcome.appendTo(b)
}

func readResolution(r *codec.Reader) resolution {
	return resolution{raftgroup.ReadName(r), r.Uvarint(), readOutcome(r)}
}

func appendPrevent(b []byte, n raftgroup.Name) []byte { return n.AppendTo(append(b, commandPrevent)) }
