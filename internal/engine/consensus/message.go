package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Kind is the message kind of all consensus traffic.
const Kind = 240

// Message carries a raftpb.Message between members.
type Message struct {
	Body []byte
	// Type is the type of the Raft message, for traces. Body contains it, too.
	Type raftpb.MessageType
}

// Kind implements protocol.Message.
func (m *Message) Kind() uint8 { return Kind }

// Size implements protocol.Message.
func (m *Message) Size() int { return len(m.Body) }

// AppendTo implements protocol.Message.
func (m *Message) AppendTo(b []byte) []byte { return append(b, m.Body...) }

// String returns the type of the Raft message.
func (m *Message) String() string { return "raft " + m.Type.String() }

// ReadMessage decodes a Message, which takes the rest of the input. The result aliases the input.
func ReadMessage(r *codec.Reader) *Message {
	body := r.Take(uint64(r.Len()))
	var msg raftpb.Message
	if err := proto.Unmarshal(body, &msg); err != nil {
		r.Fail(fmt.Errorf("raft message: %w", err))
	}
	return &Message{Body: body, Type: msg.GetType()}
}

// Decode is a protocol.Decoder for messages of Kind.
func Decode(kind uint8, body []byte, _ *txn.Registry) (m protocol.Message, known bool, err error) {
	if kind != Kind {
		return nil, false, nil
	}
	r := codec.NewReader(body)
	m = ReadMessage(&r)
	return m, true, r.Done()
}

// quiet discards Raft's log output. Fatal and Panic panic with their message.
type quiet struct{}

func (quiet) Debug(...any) {}

func (quiet) Debugf(string, ...any) {}

func (quiet) Info(...any) {}

func (quiet) Infof(string, ...any) {}

func (quiet) Warning(...any) {}

func (quiet) Warningf(string, ...any) {}

func (quiet) Error(...any) {}

func (quiet) Errorf(string, ...any) {}

func (quiet) Fatal(v ...any) { panic(fmt.Sprint(v...)) }

func (quiet) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

func (quiet) Panic(v ...any) { panic(fmt.Sprint(v...)) }

func (quiet) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
