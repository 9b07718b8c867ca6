package protocoltest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Decode decodes a message. It has the form that packages with shared messages use: known reports whether the package
// has a message of that kind.
type Decode func(kind uint8, body []byte) (m protocol.Message, known bool, err error)

// Of adapts a package's decoder to the type Decode. procedures prepare the transactions in messages.
func Of(decode protocol.Decoder, procedures *txn.Registry) Decode {
	return func(kind uint8, body []byte) (protocol.Message, bool, error) { return decode(kind, body, procedures) }
}

// All adapts an engine's Decode to the type Decode. An engine knows all kinds of its messages, so known is always true.
func All(decode func(uint8, []byte, *txn.Registry) (protocol.Message, error), procedures *txn.Registry) Decode {
	return func(kind uint8, body []byte) (protocol.Message, bool, error) {
		m, err := decode(kind, body, procedures)
		return m, true, err
	}
}

// Codec tests that each message survives encoding and decoding, and that the decoding of a truncated message fails.
func Codec(t *testing.T, messages map[string]protocol.Message, decode Decode) {
	for name, m := range messages {
		t.Run(name, func(t *testing.T) {
			if kind := m.Kind(); kind == 0 {
				t.Error("kind 0 is no kind: number them from 1")
			}
			body := m.AppendTo([]byte("front"))
			if !bytes.HasPrefix(body, []byte("front")) {
				t.Fatal("AppendTo must append")
			}
			body = body[5:]
			if len(body) != m.Size() {
				t.Errorf("Size is %d, the body has %d bytes", m.Size(), len(body))
			}
			got, known, err := decode(m.Kind(), body)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			// The capacity is cut as well, so a decoder that reslices beyond the length cannot read the removed bytes.
			for n := range body {
				if cut, _, err := decode(m.Kind(), body[:n:n]); err == nil {
					t.Fatalf("the first %d of %d bytes are taken for %v", n, len(body), cut)
				}
			}
		})
	}
	// Both ways to reject the message are valid: an engine's Decode returns an error, and a package with shared messages
	// returns known == false.
	if m, known, err := decode(255, nil); known && err == nil {
		t.Errorf("takes an unknown message for %v", m)
	}
}

// FuzzCodec decodes arbitrary bytes, and verifies that the encoded result equals these bytes.
func FuzzCodec(f *testing.F, messages map[string]protocol.Message, decode Decode) {
	for _, m := range messages {
		f.Add(m.Kind(), m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		m, known, err := decode(kind, body)
		// Most fuzzed bodies are invalid and must be rejected with an error. Only accepted bodies must survive the round
		// trip.
		if err != nil || !known {
			return
		}
		again := m.AppendTo(nil)
		if len(again) != m.Size() || m.Kind() != kind {
			t.Fatalf("%T has size %d and kind %d, want %d and %d", m, m.Size(), m.Kind(), len(again), kind)
		}
		// Each message has exactly one encoding, and a decoder must reject every other body.
		if !bytes.Equal(again, body) {
			t.Fatalf("%x comes back as %x", body, again)
		}
	})
}
