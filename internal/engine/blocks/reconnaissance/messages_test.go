package reconnaissance_test

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func messages() map[string]protocol.Message {
	group := txn.OrderedKey(1, 9, []byte{3}, nil)
	part := txn.Range{From: group + "a", To: group + "c", Reverse: true, Limit: 2}
	return map[string]protocol.Message{
		"look": &reconnaissance.Look{For: []reconnaissance.LookFor{
			{ID: txn.MakeID(3, 1<<39), Look: 1, Ranges: []txn.Range{txn.Point(txn.IntKey(2, 7)), txn.Prefix(group), part}},
			{ID: 1, Look: 300},
		}},
		"seen": &reconnaissance.Seen{For: []reconnaissance.SeenFor{
			{ID: txn.MakeID(3, 1<<39), Look: 1, Reads: []reconnaissance.SeenRange{
				{Range: txn.Point(txn.StringKey(2, "x"))},
				{Range: part, Rows: []txn.Row{{Key: group + "b", Value: []byte("v")}, {Key: group + "a"}}},
			}},
			{ID: 1, Look: 300},
		}},
		"empty look": &reconnaissance.Look{},
		"empty seen": &reconnaissance.Seen{},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, messages(), protocoltest.Of(reconnaissance.Decode, nil))
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, messages(), protocoltest.Of(reconnaissance.Decode, nil))
}
