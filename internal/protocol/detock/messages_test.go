package detock

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/batchlog"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/protocol/locallog"
	"github.com/geobench/geobench/internal/sim/simtest"
)

func sampleMessages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"probe":          &Probe{1 << 40},
		"early probe":    &Probe{-5},
		"echo":           &Echo{50_000_000},
		"echo from past": &Echo{-1 << 63},
		"graph": &Graph{[]deterministic.Vertex{
			{Place: deterministic.Place{Position: 1, Index: 2}, Participants: 300},
			{Place: deterministic.Place{Position: 1 << 24, Index: 1 << 40}, Participants: 1, After: []deterministic.Place{{Position: 1, Index: 2}, {Position: 3}}},
		}, []deterministic.Place{{Position: 7, Index: 8}}},
		"no graph":      &Graph{},
		"resolution":    &Resolution{[][]deterministic.Place{{{Position: 1, Index: 2}, {Position: 3, Index: 4}}, nil}},
		"no resolution": &Resolution{},
		"forward":       &locallog.Forward{Txns: []locallog.Forwarded{{Txn: simtest.Txn(3, "a1+1"), Part: true, NotBefore: 9}}},
		"fetch":         &batchlog.Fetch{Log: 1, First: 2},
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
			got, err := decode(m.Kind(), body, simtest.Procedures)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			for n := range body {
				if cut, err := decode(m.Kind(), body[:n:n], simtest.Procedures); err == nil {
					t.Fatalf("the first %d of %d bytes are taken for %v", n, len(body), cut)
				}
			}
		})
	}
	if _, err := decode(200, nil, nil); err == nil {
		t.Error("takes an unknown message")
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.Kind(), m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		m, err := decode(kind, body, simtest.Procedures)
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
	})
}
