package calvin

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
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
		"copy":            &Copy{300, newSubBatch(7, indexes, txns)},
		"request":         &batchlog.OrderRequest{Requests: []batchlog.Request{{Number: 1, Readers: 1}}},
		"reads":           &deterministic.Reads{Reads: []deterministic.Read{{Place: deterministic.Place{Position: 1, Index: 2}}}},
		"answers":         &deterministic.Answers{Outcomes: []txn.Outcome{{ID: 9, Status: txn.Committed, Result: []byte{1}}}},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, benchProcs))
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, benchProcs))
}
