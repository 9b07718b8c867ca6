package sunstorm

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages of every kind, with and without content.
func sampleMessages() map[string]protocol.Message {
	k, ordered, end, id := simload.Key(300), simload.GroupKey(3, 9), simload.GroupKey(3, 20), txn.MakeID(1, 7)
	writes := []txn.WriteEntry{{Key: k, Value: []byte("v")}, {Key: ordered, Deleted: true}}
	return map[string]protocol.Message{
		"forward": &Forward{simload.Txn(id, "a1+5")},
		"answer":  &Answer{txn.Outcome{ID: id, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonDeadlock}},
		"read":    &Read{id, 2, 300, []txn.Range{txn.Point(k), {From: ordered, To: end}}},
		"rows": &Rows{ID: id, Round: 2, Snapshot: 300, Found: [][]rerun.Row{
			{{Key: k, Record: store.Record{Value: []byte("v"), Writer: id}}}, nil, {{Key: ordered, Record: store.Record{Value: []byte("w")}}},
		}},
		"rows of a first read": &Rows{ID: id, Round: 1, Snapshot: 3, Found: [][]rerun.Row{nil, nil}, LSNs: []uint64{0, 300}},
		"too old":              &Rows{ID: id, Round: 1},
		"prepare": &Prepare{id, []geo.NodeID{0, 300}, Part{optimistic.Reads{
			Points: []optimistic.Point{{Key: k, Writer: id}, {Key: ordered, Absent: true}},
			Ranges: []optimistic.Range{{From: ordered, To: end, Rows: []optimistic.Version{{Key: ordered, Writer: id}}}},
		}, writes, 0}, 0},
		"prepare with pages": &Prepare{ID: id, Writers: []geo.NodeID{1}, Part: Part{Writes: writes, LSN: 300}},
		"prepare again":      &Prepare{ID: id, Writers: []geo.NodeID{1, 3}, Part: Part{Writes: writes}, Reused: 300},
		"prepare nothing":    &Prepare{},
		"yes":                &Vote{id, Yes},
		"no":                 &Vote{id, Deadlock},
		"received":           &Received{id},
		"log":                &Log{300, []Entry{{Kind: Committed, ID: id, Writes: writes}, {Kind: AbortPrepared, ID: id}}},
		"log with names":     &Log{1, []Entry{{Prepared, id, writes, Name{300, 1<<20 + 1}}, {Prepared, id, writes, Name{30, 1}}, {Prepared, id, writes, Name{29, 1}}, {Kind: Prepared, Name: Name{0, 2}}}},
		"empty log":          &Log{},
		"persisted":          &Persisted{300},
		"lost":               &Lost{},
		"survey":             &Survey{},
		"recovered":          &Recovered{300},
		"aware":              &Aware{300, 2},
		"ask":                &Ask{Named{id, Name{2, 300}}},
		"settled":            &Settled{id, Gone},
		"orphan":             &Orphan{id, 300, 1},
		"in doubt":           &InDoubt{[]Named{{id, Name{2, 1}}, {id + 1, Name{0, 1<<20 + 1}}}},
		"nothing in doubt":   &InDoubt{},
		"known":              &Known{[]txn.ID{id}, []txn.ID{id + 1, id + 2}},
		"nothing known":      &Known{},
		"committed":          &Ended{id, true},
		"aborted":            &Ended{id, false},
		"a piece":            &statetransfer.Piece{ID: 1, Part: statetransfer.Part{At: 1, Size: 3, Data: []byte("v")}},
		"of a piece":         &statetransfer.Ack{ID: 1, Got: 2},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

// Messages that no node sends cannot be decoded.
func TestDecodeRefuses(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"no verdict":         &Vote{Verdict: 0},
		"an unknown verdict": &Vote{Verdict: Gone + 1},
		"an entry that has a name and is no prepared one": &Log{1, []Entry{{Kind: Committed | 1<<kindBits}}},
		"a later generation without an initiator":         &Log{1, []Entry{{Kind: reused}}},
		"a near initiator far away":                       &Log{1, []Entry{{Kind: Prepared | anywhere<<kindBits}}},
		"a transaction without a name":                    &Ask{},
		"an unknown entry":                                &Log{1, []Entry{{Kind: AbortPrepared + 1}}},
		"a transaction that cannot be prepared":           &Forward{&txn.Transaction{ID: 1, Proc: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), simload.Procedures); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
