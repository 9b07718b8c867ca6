package deterministic

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
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

func TestCodec(t *testing.T) { protocoltest.Codec(t, sampleMessages(), protocoltest.Of(Decode, nil)) }

func FuzzDecode(f *testing.F) {
	f.Add(uint8(KindReads), []byte{1, 1, 1, 2, 1, 2})
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.Of(Decode, nil))
}
