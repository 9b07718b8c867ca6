package statetransfer

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds, shared by all engines that use the package.
const (
	KindPiece = 247 + iota
	KindAck
)

// Piece carries a part of a state.
type Piece struct {
	// ID is the sender's identifier of the state.
	ID uint64
	Part
}

func (m *Piece) String() string {
	return fmt.Sprintf("bytes %d to %d of %d of state %d", m.At, m.At+uint64(len(m.Data)), m.Part.Size, m.ID)
}

// Ack reports the number of received bytes of a state.
type Ack struct {
	ID, Got uint64
	// Damaged is set if the received state differs from the sent one.
	Damaged bool
}

func (m *Ack) String() string {
	if m.Damaged {
		return fmt.Sprintf("state %d is damaged", m.ID)
	}
	return fmt.Sprintf("has %d bytes of state %d", m.Got, m.ID)
}

// Decode is a protocol.Decoder for the messages of this package.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	return decodeMessage(kind, body, procs)
}
