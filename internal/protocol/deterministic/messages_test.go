package deterministic

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/txn"
)

func sampleMessages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"reads": &Reads{
			[]Read{{Place{1, 2}, 2, false, false}, {Place{1, 3}, 0, true, false}, {Place{900, 1 << 40}, 1, false, true}},
			[]Value{{Bytes: []byte("ten"), Found: true}, {}, {Found: true}},
		},
		"ranges": &Reads{
			[]Read{{Place{1, 2}, 3, false, false}},
			[]Value{{Range: true}, {Bytes: []byte("ten"), Found: true}, {Range: true, rows: rows{{Key: txn.OrderedKey(1, 2, nil, []byte("k")), Value: []byte("v")}, {Key: txn.OrderedKey(1, 2, nil, []byte("l"))}}}},
		},
		"no reads": &Reads{},
		"answers":  &Answers{[]txn.Outcome{{ID: 9, Status: txn.Committed, Result: []byte{1}}, {ID: 1 << 63, Status: txn.Aborted, Reason: "funds"}}},
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
	f.Add(uint8(KindReads), []byte{1, 1, 1, 2, 1, 2})
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
