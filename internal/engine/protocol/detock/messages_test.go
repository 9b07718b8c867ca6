package detock

import (
	"testing"

	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func sampleMessages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"probe":          &Probe{1 << 40},
		"early probe":    &Probe{-5},
		"echo":           &Echo{50_000_000},
		"echo from past": &Echo{-1 << 63},
		"graph": &Graph{0, []deterministic.Vertex{
			{Place: deterministic.Place{Position: 1, Index: 2}, Participants: 300},
			{Place: deterministic.Place{Position: 1 << 24, Index: 1 << 40}, Participants: 1, After: []deterministic.Place{{Position: 1, Index: 2}, {Position: 3}}},
		}, []deterministic.Place{{Position: 7, Index: 8}}},
		"no graph":         &Graph{},
		"resolution":       &Resolution{0, [][]deterministic.Place{{{Position: 1, Index: 2}, {Position: 3, Index: 4}}, nil}},
		"graph since":      &Graph{Over: []deterministic.Place{{Position: 7, Index: 8}}, Since: 300},
		"resolution since": &Resolution{1, [][]deterministic.Place{{{Position: 1, Index: 2}}}},
		"no resolution":    &Resolution{},
		"forward":          &locallog.Forward{Txns: []locallog.Forwarded{{Txn: simload.Txn(3, "a1+1"), Part: true, NotBefore: 9}}},
		"fetch":            &batchlog.Fetch{Log: 1, First: 2},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
