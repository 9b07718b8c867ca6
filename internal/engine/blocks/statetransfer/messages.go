package statetransfer

import (
	"crypto/sha256"
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
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

// Kind implements protocol.Message.
func (m *Piece) Kind() uint8 { return KindPiece }

// Size implements protocol.Message.
func (m *Piece) Size() int {
	return codec.SizeUvarint(m.ID) + codec.SizeUvarint(m.At) + codec.SizeUvarint(m.Part.Size) + sha256.Size + codec.SizeBytes(m.Data)
}

// AppendTo implements protocol.Message.
func (m *Piece) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.ID), m.At), m.Part.Size)
	return codec.AppendBytes(append(b, m.Digest[:]...), m.Data)
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

// Kind implements protocol.Message.
func (m *Ack) Kind() uint8 { return KindAck }

// Size implements protocol.Message.
func (m *Ack) Size() int { return codec.SizeUvarint(m.ID) + codec.SizeUvarint(m.Got) + 1 }

// AppendTo implements protocol.Message.
func (m *Ack) AppendTo(b []byte) []byte {
	return append(codec.AppendUvarint(codec.AppendUvarint(b, m.ID), m.Got), codec.Flags(m.Damaged, false))
}

func (m *Ack) String() string {
	if m.Damaged {
		return fmt.Sprintf("state %d is damaged", m.ID)
	}
	return fmt.Sprintf("has %d bytes of state %d", m.Got, m.ID)
}

// Decode decodes a message of the package. Any input is safe; known is false for a kind of another package.
func Decode(kind uint8, body []byte) (m protocol.Message, known bool, err error) {
	r := codec.NewReader(body)
	switch kind {
	case KindPiece:
		p := &Piece{ID: r.Uvarint()}
		p.At, p.Part.Size = r.Uvarint(), r.Uvarint()
		copy(p.Digest[:], r.Take(sha256.Size))
		p.Data = r.Bytes()
		m = p
	case KindAck:
		m = &Ack{ID: r.Uvarint(), Got: r.Uvarint(), Damaged: r.Flag()}
	default:
		return nil, false, nil
	}
	if err := r.Done(); err != nil {
		return nil, true, err
	}
	return m, true, nil
}
