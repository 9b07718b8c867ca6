package batchlog

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/protocol"
)

func sampleMessages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"request":      &OrderRequest{0, []Request{{1, 1}, {1 << 50, 1 << 63}}},
		"no request":   &OrderRequest{Log: 7},
		"positions":    &Positions{9, 3, 1 << 33, []Ordered{{BatchID{0, 1}, 1}, {BatchID{65535, 300}, 1<<64 - 1}}},
		"no positions": &Positions{Term: 1},
		"fetch":        &Fetch{3, 12345},
		"void":         &Void{3, []BatchID{{0, 1}, {65535, 300}}},
		"nothing void": &Void{Log: 1},
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
			got, known, err := Decode(m.Kind(), body)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			for n := range body {
				if cut, _, err := Decode(m.Kind(), body[:n:n]); err == nil {
					t.Fatalf("the first %d of %d bytes are taken for %v", n, len(body), cut)
				}
			}
		})
	}
	if _, known, err := Decode(255, nil); known || err != nil {
		t.Error("takes an unknown message")
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.Kind(), m.AppendTo(nil))
	}
	f.Add(uint8(consensus.Kind), []byte{8, byte(raftpb.MsgApp)})
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		m, known, err := Decode(kind, body)
		if err != nil || !known {
			return
		}
		again := m.AppendTo(nil)
		if len(again) != m.Size() || m.Kind() != kind {
			t.Fatalf("%T has size %d and kind %d, want %d and %d", m, m.Size(), m.Kind(), len(again), kind)
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("%x comes back as %x", body, again)
		}
	})
}

func ExampleSet() {
	s := Set(0).With(1).With(66)
	fmt.Println(s.Has(1), s.Has(2), s.Has(66), s.Has(0))
	// Output: true true true false
}
