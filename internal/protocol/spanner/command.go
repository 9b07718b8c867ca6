package spanner

import (
	"fmt"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
)

// Name tells the transactions of a database apart: the node that coordinates it, and its number there, from 1. One that
// starts over has a new one.
type Name struct {
	Coordinator geo.NodeID
	Number      uint64
}

func (n Name) String() string { return fmt.Sprintf("%d/%d", n.Coordinator, n.Number) }

func (n Name) size() int {
	return codec.SizeUvarint(uint64(n.Coordinator)) + codec.SizeUvarint(n.Number)
}

func (n Name) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(n.Coordinator)), n.Number)
}

func readName(r *codec.Reader) Name { return Name{geo.NodeID(r.UvarintMax(maxNode)), r.Uvarint()} }

// An entry of a group's log is the timestamp that it closes, 0 for none, and commands, each of which begins with its
// kind.
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

// effect is what commandCommit and commandPrepare say of a transaction, and the group's record of one that is prepared.
type effect struct {
	name Name
	id   txn.ID
	done uint64 // the coordinator's: see ended
	// timestamp is that of the commit, or the earliest that it may have.
	timestamp uint64
	writes    []txn.WriteEntry

	// The rest is about prepared transactions.
	// reads are the ranges that the transaction has read and does not write.
	reads        []txn.Range
	anchor       int
	participants []int // at the anchor
}

func appendEffect(b []byte, kind uint8, e *effect) []byte {
	b = codec.AppendID(e.name.appendTo(append(b, kind)), e.id)
	b = codec.AppendUvarint(codec.AppendUvarint(b, e.done), e.timestamp)
	b = codec.AppendWrites(b, e.writes)
	if kind == commandPrepare {
		b = codec.AppendRanges(b, e.reads)
		b = appendGroups(codec.AppendUvarint(b, uint64(e.anchor)), e.participants)
	}
	return b
}

func readEffect(r *codec.Reader, kind uint8) *effect {
	e := &effect{name: readName(r), id: r.ID(), done: r.Uvarint(), timestamp: r.Uvarint(), writes: r.Writes()}
	if kind == commandPrepare {
		e.reads = r.Ranges()
		e.anchor, e.participants = int(r.UvarintMax(maxGroup)), readGroups(r)
	}
	own(e.writes)
	return e
}

// own copies the values of writes, so that rows do not keep the whole entry in memory.
func own(writes []txn.WriteEntry) {
	n := 0
	for i := range writes {
		n += len(writes[i].Value)
	}
	all := make([]byte, 0, n)
	for i := range writes {
		w := &writes[i]
		from := len(all)
		all = append(all, w.Value...)
		w.Value = all[from:len(all):len(all)]
	}
}

// resolution is what commandResolve says.
type resolution struct {
	name Name
	done uint64
	Outcome
}

func appendResolution(b []byte, v *resolution) []byte {
	b = codec.AppendUvarint(v.name.appendTo(append(b, commandResolve)), v.done)
	return v.Outcome.appendTo(b)
}

func readResolution(r *codec.Reader) resolution {
	return resolution{readName(r), r.Uvarint(), readOutcome(r)}
}

func appendPrevent(b []byte, n Name) []byte { return n.appendTo(append(b, commandPrevent)) }
