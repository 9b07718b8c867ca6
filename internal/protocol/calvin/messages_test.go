package calvin

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/batchlog"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/txn"
)

func sampleMessages() map[string]protocol.Message {
	txns := benchTxns(40, 3, 5)
	indexes := make([]uint32, len(txns))
	for i := range indexes {
		indexes[i] = uint32(i * i)
	}
	return map[string]protocol.Message{
		"sub-batch":       newSubBatch(7, indexes, txns),
		"empty sub-batch": newSubBatch(1<<40, nil, nil),
		"request":         &batchlog.OrderRequest{Requests: []batchlog.Request{{Number: 1, Readers: 1}}},
		"reads":           &deterministic.Reads{Reads: []deterministic.Read{{Place: deterministic.Place{Position: 1, Index: 2}}}},
		"answers":         &deterministic.Answers{Outcomes: []txn.Outcome{{ID: 9, Status: txn.Committed, Result: []byte{1}}}},
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
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			for n := range body {
				if cut, err := decode(m.Kind(), body[:n:n], benchProcs); err == nil {
					t.Fatalf("the first %d of %d bytes are taken for %v", n, len(body), cut)
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.Kind(), m.AppendTo(nil))
	}
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
		if err != nil || !reflect.DeepEqual(m, second) {
			t.Fatalf("decoding twice: %v, %+v, %+v", err, m, second)
		}
	})
}
