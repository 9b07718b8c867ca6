package primary

import (
	"testing"

	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/optimistic"
	"github.com/geobench/geobench/internal/protocol/protocoltest"
	"github.com/geobench/geobench/internal/protocol/raftgroup"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/txn"
)

// sampleMessages has every kind of message, empty and full.
func sampleMessages() map[string]protocol.Message {
	writes := []txn.WriteEntry{{Key: simtest.Key(300), Value: []byte("v")}, {Key: simtest.GroupKey(3, 9), Deleted: true}}
	reads := optimistic.Reads{Points: []optimistic.Point{{Key: simtest.Key(300), Writer: txn.MakeID(1, 2)}}}
	committed := txn.Outcome{ID: txn.MakeID(1, 2), Status: txn.Committed, Result: []byte("r"), Class: 1}
	l := raftgroup.Endings[txn.Outcome]{}
	l.Finish(raftgroup.Name{Coordinator: 3, Number: 300}, committed)
	r := &Replica{}
	r.log.endings = l
	return map[string]protocol.Message{
		"relay":             &Relay{Number: 300, Oldest: 299, Transaction: simtest.Txn(txn.MakeID(1, 2), "r1 a2+1")},
		"call":              &Call{Term: 1, Number: 300, Oldest: 299, Transaction: simtest.Txn(txn.MakeID(1, 2), "r1 a2+1")},
		"begin":             &Request{Term: 1, Number: 300, Oldest: 299, Step: 1, First: true},
		"statement":         &Request{Term: 1, Number: 300, Oldest: 299, Step: 200, Writes: writes},
		"barrier":           &Request{Number: maxNumber, Barrier: true},
		"commit":            &Commit{Term: 1, Number: 300, Oldest: 299, ID: txn.MakeID(1, 2), Reads: reads},
		"empty commit":      &Commit{},
		"reply":             &Reply{1, 300, 200, 1 << 40},
		"answer":            &Answer{Term: 1, Number: 300, Entry: 1 << 40, Outcome: committed},
		"answer to a relay": &Answer{Relayed: true, Outcome: txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonStaleRead}},
		"log": &Append{Term: 1, First: 300, Committed: 200, Entries: []Entry{
			{raftgroup.Name{Coordinator: 3, Number: 300}, 299, committed, writes}, {Outcome: txn.Outcome{Status: txn.Committed}},
		}},
		"empty log":  &Append{},
		"ack":        &Ack{1, 300},
		"takeover":   &Takeover{Term: 1, Writer: 65535, Base: 300, Planned: true},
		"behind":     &Behind{300},
		"copy":       &Copy{Term: 1, Last: 300, Rows: []Row{{simtest.Key(300), txn.MakeID(1, 2), []byte("v")}}, Endings: r.log.state()},
		"a piece":    &Copy{Term: 1, Last: 300, More: true, Rows: []Row{{Key: simtest.Key(300)}}, Endings: (&log{}).state()},
		"empty copy": &Copy{Endings: (&log{}).state()},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simtest.Procedures))
}

// Bodies that no message has are refused.
func TestRefusedMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"a row with a malformed key":       &Request{Writes: []txn.WriteEntry{{Key: "short"}}},
		"a number that is too large":       &Ack{Last: maxNumber + 1},
		"a copy without endings":           &Copy{},
		"a copy with a malformed key":      &Copy{Rows: []Row{{Key: "short"}}, Endings: []byte{0}},
		"a procedure that nobody knows":    &Call{Transaction: &txn.Transaction{ID: 1, Proc: 999}},
		"endings with something behind":    &Copy{Endings: []byte{0, 0}},
		"an answer that never is a status": &Answer{Outcome: txn.Outcome{Status: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), simtest.Procedures); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
	if got, err := decode(kindCopy+1, nil, nil); err == nil {
		t.Errorf("an unknown kind is taken for %v", got)
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simtest.Procedures))
}
