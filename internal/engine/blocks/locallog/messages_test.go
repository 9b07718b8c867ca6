package locallog

import (
	"bytes"
	"encoding/binary"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func sampleMessages() map[string]protocol.Message {
	var txns []*txn.Transaction
	for i := range uint64(20) {
		args := []byte{2}
		args = binary.BigEndian.AppendUint64(args, i)
		args = append(binary.BigEndian.AppendUint64(args, 100+i), "values"...)
		t := &txn.Transaction{ID: txn.MakeID(7, i+1), Proc: 1, Args: args}
		if err := protocoltest.Overwrite.Prepare(t); err != nil {
			panic(err)
		}
		txns = append(txns, t)
	}
	locks := &txn.Transaction{ID: txn.MakeID(1<<20, 1<<39), Footprint: txn.Footprint{Accesses: []txn.Access{
		{Key: txn.IntKey(1, 2), Mode: txn.ReadWrite}, {Key: txn.StringKey(3, "x"), Mode: txn.Read},
	}}}
	var entries []Entry
	for i, t := range txns {
		entries = append(entries, Entry{Txn: t, Part: i%3 == 0})
	}
	entries = append(entries, Entry{Txn: locks, Coordinator: 65535, Part: true, LockOnly: true},
		Entry{Txn: &txn.Transaction{ID: 1}, Part: true, LockOnly: true})
	moved := Placing{Attempt: 3, Homes: deterministic.Homes{{Access: 1, Home: 2, Count: 300}, {Access: 0, Home: 0, Count: 1}}}
	move := Placing{Remaster: true, Homes: deterministic.Homes{{Home: 3, Count: 1}}}
	row := &txn.Transaction{ID: 5, Footprint: txn.Footprint{Accesses: []txn.Access{{Key: txn.StringKey(3, "x"), Mode: txn.Write}}}}
	return map[string]protocol.Message{
		"batch":       newBatch(3, 1<<40, entries),
		"empty batch": newBatch(0, 0, nil),
		"forward": &Forward{[]Forwarded{{Txn: txns[0]}, {Txn: txns[1], Part: true, NotBefore: 1 << 50}, {Txn: txns[2], Part: true},
			{Txn: txns[0], Placing: moved}, {Txn: row, Part: true, NotBefore: 7, Placing: move}}},
		"moves":      newBatch(1, 2, []Entry{{Txn: txns[1], Part: true, Placing: moved}, {Txn: row, Part: true, LockOnly: true, Placing: move}}),
		"no forward": &Forward{},
		"ask": &Ask{[]Question{
			{ID: txn.MakeID(7, 1), Attempt: 3, Keys: []txn.Key{txn.IntKey(1, 2), txn.StringKey(3, "x")}},
			{ID: 1},
		}},
		"told": &Told{[]Answer{{ID: txn.MakeID(7, 1), Attempt: 3, Masters: []Master{{2, 300}, {0, 0}}}, {ID: 1}}},
		"copy": &Copy{300, newBatch(3, 1<<40, entries)},
		"reads since": &ReadsSince{1 << 20, &deterministic.Reads{
			Reads:  []deterministic.Read{{Place: deterministic.Place{Position: 1, Index: 2}, Values: 2}},
			Values: []deterministic.Value{{Bytes: []byte("abc"), Found: true}, {}},
		}},
		"no ask":  &Ask{},
		"no told": &Told{},
	}
}

// decode is Decode with test procedures.
func decode(kind uint8, body []byte) (protocol.Message, bool, error) {
	return Decode(kind, body, protocoltest.Overwrite)
}

func TestCodec(t *testing.T) { protocoltest.Codec(t, sampleMessages(), decode) }

// A consensus message keeps its log number and its fields.
func TestOfLogCodec(t *testing.T) {
	want := &OfLog{300, &consensus.Message{Body: []byte{8, byte(raftpb.MsgApp)}, Type: raftpb.MsgApp}}
	body := want.AppendTo(nil)
	got, known, err := Decode(KindOfLog, body, protocoltest.Overwrite)
	if err != nil || !known || want.Size() != len(body) {
		t.Fatalf("%d bytes, said to be %d: %v", len(body), want.Size(), err)
	}
	if m := got.(*OfLog); m.Log != want.Log || !bytes.Equal(m.Body, want.Body) || m.Type != want.Type {
		t.Errorf("got %v of log %d, want %v", m, m.Log, want)
	}
	if _, _, err := Decode(KindOfLog, nil, protocoltest.Overwrite); err == nil {
		t.Error("nothing is taken for a message")
	}
}

// Entries that no sequencer creates are rejected.
func TestDecodeRefuses(t *testing.T) {
	for name, body := range map[string][]byte{
		"locks without a part":     {0, 1, 1, 2, 0, 1, 1, 0},
		"an unknown kind of entry": {0, 1, 1, 4, 0, 1, 1, 0},
		"an invalid key":           {0, 1, 1, 3, 0, 1, 1, 1, 3, 1, 5},
		"an invalid mode":          {0, 1, 1, 3, 0, 1, 1, 1, 4, 2, 0x81, 5},
		"an unknown procedure":     {0, 1, 1, 0, 0, 1, 1, 9, 0},
	} {
		if m, _, err := Decode(KindBatch, body, protocoltest.Overwrite); err == nil {
			t.Errorf("%s: taken for %v", name, m)
		}
	}
}

func FuzzDecode(f *testing.F) { protocoltest.FuzzCodec(f, sampleMessages(), decode) }
