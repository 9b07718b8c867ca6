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
//
//codec:part
type effect struct {
	name raftgroup.Name
	id   txn.ID
	done uint64 // see Effects.Done
	// timestamp is the commit timestamp, or the lower bound of the commit timestamp of a prepared transaction.
	timestamp uint64
	writes    []txn.WriteEntry
	// promise is only set for prepared transactions, and encoded last.
	promise `codec:"-"`
}

// promise is the part of an effect that only prepared transactions have.
//
//codec:part
type promise struct {
	// reads are the ranges that the transaction has read and does not write.
	reads        []txn.Range
	anchor       int   `codec:"max=raftgroup.MaxShard"`
	participants []int `codec:"max=raftgroup.MaxShard"` // only set at the anchor
}

func appendEffect(b []byte, kind uint8, e *effect) []byte {
	b = e.appendTo(append(b, kind))
	if kind == commandPrepare {
		b = e.promise.appendTo(b)
	}
	return b
}

func readEffect(r *codec.Reader, kind uint8) *effect {
	e := &effect{}
	if e.read(r); kind == commandPrepare {
		e.promise.read(r)
	}
	txn.Own(e.writes)
	return e
}

// resolution is the content of commandResolve.
//
//codec:part
type resolution struct {
	name raftgroup.Name
	done uint64
	Outcome
}

func appendResolution(b []byte, v *resolution) []byte { return v.appendTo(append(b, commandResolve)) }

func appendPrevent(b []byte, n raftgroup.Name) []byte { return n.AppendTo(append(b, commandPrevent)) }
