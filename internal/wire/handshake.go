package wire

import (
	"fmt"
	"net"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
)

const (
	magic   = 0x6863_6e65_626f_6567 // "geobench"
	version = 1
)

// Role says what a connection is for.
type Role uint8

// The roles.
const (
	Peer   Role = 1
	Client Role = 2
)

// Hello is the first frame of a connection, from the side that dials.
type Hello struct {
	// Database and Incarnation of the dialling process, and of the node that it looks for.
	Database, Incarnation string
	// Process is a name that the dialling process made up when it started.
	Process string
	Role    Role
	// From is the dialling node; a client leaves it 0. To is the node looked for.
	From, To geo.NodeID
	// Expect is the process that a peer talked to before, empty at first.
	Expect string
	// Received is the number of the last data frame that a peer has received.
	Received uint32
}

// Refusal is why a node does not accept a connection.
type Refusal struct {
	Code   RefusalCode
	Reason string
}

// RefusalCode groups refusals by what is to be done.
type RefusalCode uint8

const (
	// WrongAddress: the address leads to something else. It may be on its way out: try again.
	WrongAddress RefusalCode = 1
	// LostState: one of the two processes is not the one that the other knew.
	LostState RefusalCode = 2
)

func (e *Refusal) Error() string { return "refused: " + e.Reason }

func (h *Hello) appendTo(b []byte) []byte {
	b = codec.AppendUint64(b, magic)
	b = codec.AppendUvarint(b, version)
	b = append(b, byte(h.Role))
	b = codec.AppendString(b, h.Database)
	b = codec.AppendString(b, h.Incarnation)
	b = codec.AppendString(b, h.Process)
	b = codec.AppendUvarint(b, uint64(h.From))
	b = codec.AppendUvarint(b, uint64(h.To))
	b = codec.AppendString(b, h.Expect)
	return codec.AppendUvarint(b, uint64(h.Received))
}

func (h *Hello) decode(b []byte) error {
	r := codec.NewReader(b)
	if m := r.Uint64(); r.Err() == nil && m != magic {
		return fmt.Errorf("%#x is not geobench's greeting %#x", m, uint64(magic))
	}
	if v := r.Uvarint(); r.Err() == nil && v != version {
		return fmt.Errorf("protocol version %d; this node speaks %d", v, version)
	}
	h.Role = Role(r.Uint8())
	h.Database, h.Incarnation, h.Process = r.String(), r.String(), r.String()
	h.From, h.To = geo.NodeID(r.UvarintMax(1<<16-1)), geo.NodeID(r.UvarintMax(1<<16-1))
	h.Expect = r.String()
	h.Received = uint32(r.UvarintMax(1<<32 - 1))
	if err := r.Done(); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if h.Role != Peer && h.Role != Client {
		return fmt.Errorf("role %d is neither peer (%d) nor client (%d)", h.Role, Peer, Client)
	}
	return nil
}

// welcome is the answer to a Hello.
type welcome struct {
	process  string
	received uint32
}

func (w *welcome) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendString(b, w.process), uint64(w.received))
}

func (w *welcome) decode(b []byte) error {
	r := codec.NewReader(b)
	w.process, w.received = r.String(), uint32(r.UvarintMax(1<<32-1))
	return r.Done()
}

func (e *Refusal) appendTo(b []byte) []byte {
	return codec.AppendString(append(b, byte(e.Code)), e.Reason)
}

func (e *Refusal) decode(b []byte) error {
	r := codec.NewReader(b)
	e.Code, e.Reason = RefusalCode(r.Uint8()), r.String()
	return r.Done()
}

type appender interface{ appendTo(b []byte) []byte }

// writeFrame writes one frame of a handshake.
func writeFrame(conn net.Conn, typ uint8, body appender) error {
	b := body.appendTo(append(make([]byte, lengthBytes, 256), typ))
	seal(b)
	_, err := conn.Write(b)
	return err
}

// greet sends h and returns the answer; the error is a *Refusal when there was one.
func greet(conn net.Conn, fr *frameReader, h *Hello) (welcome, error) {
	var w welcome
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return w, err
	}
	if err := writeFrame(conn, frameHello, h); err != nil {
		return w, err
	}
	typ, body, err := fr.next()
	if err != nil {
		return w, fmt.Errorf("no answer to the greeting: %w", err)
	}
	fr.keep() // strings alias it
	switch typ {
	case frameWelcome:
		err = w.decode(body)
	case frameRefusal:
		refusal := &Refusal{}
		if err = refusal.decode(body); err == nil {
			err = refusal
		}
	default:
		err = fmt.Errorf("a frame of type %d is no answer to a greeting", typ)
	}
	if err != nil {
		return w, err
	}
	return w, conn.SetDeadline(time.Time{})
}

// receiveHello reads the greeting of an accepted connection.
func receiveHello(conn net.Conn, fr *frameReader) (*Hello, error) {
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return nil, err
	}
	typ, body, err := fr.next()
	if err != nil {
		return nil, err
	}
	fr.keep()
	if typ != frameHello {
		return nil, fmt.Errorf("a frame of type %d is no greeting", typ)
	}
	h := &Hello{}
	if err := h.decode(body); err != nil {
		return nil, err
	}
	return h, conn.SetDeadline(time.Time{})
}
