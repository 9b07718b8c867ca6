package calvin

import (
	"bytes"
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/txn"
)

func sampleMessages() map[string]protocol.Message {
	txns := benchTxns(40, 3, 5)
	indexes := make([]uint32, len(txns))
	for i := range indexes {
		indexes[i] = uint32(i * i)
	}
	raft, err := consensus.Decode(nil)
	if err != nil {
		panic(err)
	}
	return map[string]protocol.Message{
		"sub-batch":       newSubBatch(7, indexes, txns),
		"empty sub-batch": newSubBatch(1<<40, nil, nil),
		"request":         &OrderRequest{[]Request{{1, 1}, {1 << 50, 1 << 63}}},
		"no request":      &OrderRequest{},
		"positions":       &Positions{3, 1 << 33, []Ordered{{BatchID{0, 1}, 1}, {BatchID{65535, 300}, 1<<64 - 1}}},
		"no positions":    &Positions{Term: 1},
		"fetch":           &Fetch{12345},
		"reads": &Reads{
			[]Read{{1, 2, 2}, {1, 3, 0}, {900, 1 << 20, 1}},
			[]Value{{[]byte("ten"), true}, {}, {nil, true}},
		},
		"no reads":  &Reads{},
		"answers":   &Answers{[]txn.Outcome{{ID: 9, Status: txn.Committed, Result: []byte{1}}, {ID: 1 << 63, Status: txn.Aborted, Reason: "funds"}}},
		"consensus": raft,
	}
}

func TestCodec(t *testing.T) {
	for name, m := range sampleMessages() {
		t.Run(name, func(t *testing.T) {
			body := m.AppendTo([]byte("front"))
			if !bytes.HasPrefix(body, []byte("front")) {
				t.Fatal("AppendTo must append")
			}
			body = body[5:]
			if len(body) != m.Size() {
				t.Errorf("Size is %d, the body has %d bytes", m.Size(), len(body))
			}
			got, err := decode(m.Kind(), body, benchProcs)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(normal(got), normal(m)) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			for n := range body {
				if cut, err := decode(m.Kind(), body[:n:n], benchProcs); err == nil && m.Kind() != consensus.Kind {
					t.Fatalf("the first %d of %d bytes are taken for %v", n, len(body), cut)
				}
			}
		})
	}
}

// normal drops what may differ between equal messages: empty slices and nil ones.
func normal(m protocol.Message) protocol.Message {
	if c, ok := m.(*consensus.Message); ok {
		return &consensus.Message{Body: append([]byte{}, c.Body...), Type: c.Type}
	}
	return m
}

func FuzzDecode(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.Kind(), m.AppendTo(nil))
	}
	f.Add(uint8(consensus.Kind), []byte{8, byte(raftpb.MsgApp)})
	f.Add(uint8(kindReads), []byte{1, 1, 1, 1, 1, 2})
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		m, err := decode(kind, body, benchProcs)
		if err != nil {
			return
		}
		again := m.AppendTo(nil)
		if len(again) != m.Size() || m.Kind() != kind {
			t.Fatalf("%T has size %d and kind %d, want %d and %d", m, m.Size(), m.Kind(), len(again), kind)
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("%x comes back as %x", body, again)
		}
		second, err := decode(kind, again, benchProcs)
		if err != nil || !reflect.DeepEqual(normal(m), normal(second)) {
			t.Fatalf("decoding twice: %v, %+v, %+v", err, m, second)
		}
	})
}
