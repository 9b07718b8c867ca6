package geogauss

import (
	"bytes"
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleSet returns a write set in which every field is set. It contains a write and a deletion.
func sampleSet() *WriteSet {
	return &WriteSet{Epoch: 300, ID: txn.MakeID(1, 2), Start: 7, Sequence: maxSequence, Writes: []txn.WriteEntry{
		{Key: simload.Key(300), Value: []byte("v")}, {Key: simload.GroupKey(3, 9), Deleted: true},
	}}
}

// sampleMessages returns messages of every kind, both empty and with all fields set.
func sampleMessages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"write set":       sampleSet(),
		"empty write set": &WriteSet{},
		"end":             &End{Epoch: 300, After: 299, Count: 2, View: 1, Complete: maxNumber, Wanted: 400, Busy: true},
		"empty end":       &End{},
		"completion":      &Completion{View: 3, Epoch: 1 << 40},
		"request":         &Request{Server: 65535, After: 300},
		"epoch":           &Closed{Server: 3, Epoch: 300, After: 299, View: 2, Sets: []*WriteSet{sampleSet(), {ID: 1}}},
		"empty epoch":     &Closed{},
		"inquiry":         &Inquiry{View: 300, Server: 2},
		"report":          &Report{View: 300, Server: 2, Last: 1 << 40},
		"rejoin":          &Rejoin{View: 300},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
	kind := raftpb.MsgHeartbeat
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&raftpb.Message{Type: &kind, To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3))})
	if err != nil {
		t.Fatal(err)
	}
	m := &consensus.Message{Body: body, Type: kind} // decode handles consensus messages separately
	if got, err := decode(m.Kind(), m.AppendTo(nil), nil); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v comes back as %v, %v", m, got, err)
	}
}

// An encoded membership change decodes to the same change, and no prefix of it decodes to a change.
func TestChanges(t *testing.T) {
	for name, c := range map[string]*Change{
		"joins":  {View: 300, Server: 65535, Joins: true},
		"leaves": {View: 1, Server: 2, Last: 1 << 40, Epochs: []*Closed{{Server: 2, Epoch: 3, After: 2, Sets: []*WriteSet{sampleSet()}}, {Server: 2, Epoch: 9, After: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.append()
			r := codec.NewReader(b)
			if got := readChange(&r); r.Done() != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("%+v comes back as %+v, %v", c, got, r.Err())
			}
			for n := range b {
				r := codec.NewReader(b[:n])
				if readChange(&r); r.Done() == nil {
					t.Errorf("%d of %d bytes are taken for a change", n, len(b))
				}
			}
		})
	}
}

// decode refuses bodies that no valid message encodes to.
func TestRefusedMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"a row with a malformed key":   &WriteSet{ID: 1, Writes: []txn.WriteEntry{{Key: "short"}}},
		"an epoch that is too large":   &End{Epoch: maxNumber + 1},
		"a snapshot that is too large": &Closed{Sets: []*WriteSet{{ID: 1, Start: maxNumber + 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), nil); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
	if got, err := decode(kindRejoin+1, nil, nil); err == nil {
		t.Errorf("an unknown kind is taken for %v", got)
	}
	if got, err := decode(kindEnd, append(bytes.Repeat([]byte{0}, 6), 2), nil); err == nil {
		t.Errorf("an end with an unknown flag is taken for %v", got)
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
