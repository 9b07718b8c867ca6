package janus

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func sampleMessages() map[string]protocol.Message {
	tx := &txn.Transaction{ID: txn.MakeID(1, 7), Proc: 1, Args: []byte("r1 a7+5")}
	if err := simload.Procedures.Prepare(tx); err != nil {
		panic(err)
	}
	deps := []Dep{{instance(0, 1), 0, false}, {instance(3, 1<<40), 2, true}, {instance(65535, maxSeq), 65535, false}}
	plain := []Dep{{instance(0, 1), 0, true}, {instance(7, 300), 0, false}}
	return map[string]protocol.Message{
		"pre-accept":           &PreAccept{300, tx},
		"pre-accept ok":        &PreAcceptOK{Seq: 5, Deps: plain},
		"pre-accept refused":   &PreAcceptOK{Seq: maxSeq, Refused: true},
		"accept":               &Accept{Proposal{instance(1, 2), false, deps, nil}, 0},
		"accept by another":    &Accept{Proposal{instance(1, 2), false, deps, tx}, Ballot(0).next(9)},
		"accept ok":            &AcceptOK{instance(1, 2), 0, 1 << 33},
		"commit":               &Commit{Proposal{instance(1, 2), false, deps, tx}},
		"no-op":                &Commit{Proposal{instance(1, 2), true, nil, nil}},
		"prepare":              &Prepare{instance(65535, 9), 1<<16 | 3},
		"promise":              &Promise{Proposal{instance(1, 2), false, deps, tx}, 1 << 16, 1 << 16, 7, Accepted},
		"promise of the empty": &Promise{Proposal: Proposal{ID: instance(1, 2)}, Ballot: 1 << 16, Promised: 2 << 16},
		"inquire":              &Inquire{[]Instance{instance(1, 2), instance(3, 4)}},
		"no inquiry":           &Inquire{},
		"ancestors":            &Ancestors{[]Ancestor{{instance(1, 2), deps}, {instance(1, 3), nil}}},
		"no ancestors":         &Ancestors{},
		"progress":             &Progress{1, 200, 1 << 40, 0},
		"row query":            &RowQuery{[]geo.NodeID{0, 65535}},
		"no row query":         &RowQuery{},
		"row report":           &RowReport{[]RowKnowledge{{3, 300, []uint64{301, maxSeq}}, {65535, maxSeq, nil}}},
		"no row report":        &RowReport{},
		"welcome":              &Rejoin{welcome, 0, maxSeq},
		"ask elsewhere":        &Rejoin{askElsewhere, 65535, 1 << 40},
		"piece":                &statetransfer.Piece{ID: 3, Part: statetransfer.Part{Size: 2, Data: []byte{1, 2}}},
		"ack":                  &statetransfer.Ack{ID: 3, Got: 2},
		"reads":                &deterministic.Reads{Reads: []deterministic.Read{{Place: deterministic.Place{Position: 1, Index: 2}}}},
		"answers":              &deterministic.Answers{Outcomes: []txn.Outcome{{ID: 9, Status: txn.Committed, Result: []byte{1}}}},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
