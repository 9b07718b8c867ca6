package batchlog

import (
	"fmt"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
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
		"held":         &Held{3, 1 << 40, []BatchID{{0, 1}, {65535, 300}}},
		"nothing held": &Held{Position: 1},
		"kept":         &Kept{3, 1 << 40},
		"missing":      &Missing{3, []BatchID{{0, 1}, {65535, 300}}},
		"started":      &Started{3, 2, 1 << 40, []uint64{0, 1 << 40, 7}},
		"sent":         &Sent{3, 1 << 40},
	}
}

func TestCodec(t *testing.T) { protocoltest.Codec(t, sampleMessages(), protocoltest.Of(Decode, nil)) }

func FuzzDecode(f *testing.F) {
	f.Add(uint8(consensus.Kind), []byte{8, byte(raftpb.MsgApp)})
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.Of(Decode, nil))
}

func ExampleSet() {
	s := Set(0).With(1).With(66)
	fmt.Println(s.Has(1), s.Has(2), s.Has(66), s.Has(0))
	// Output: true true true false
}
