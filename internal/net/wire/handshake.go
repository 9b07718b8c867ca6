package wire

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/identity"
)

const (
	magic   = 0x6863_6e65_626f_6567 // "geobench"
	version = 3
)

// If nodes have keys, both sides prove that they have the right key before either side reveals anything about its
// database. The proof is a challenge and its response, with HMAC-SHA256:
//
//	dialling side                        accepting side
//	Hello, with a nonce        ------>
//	                           <------   challenge: a nonce, and a MAC of the hello and both nonces
//	proof: another MAC of them ------>
//	                           <------   welcome or Refusal
//
// After the handshake, the connection is the same as without keys: it is not encrypted (docs/security.md).
const nonceSize = 32

// MaxNodeIncarnation is the maximum incarnation of a node. The limit exists because each incarnation has 2^40 numbers
// for its transactions (raftgroup.First).
const MaxNodeIncarnation = 1<<23 - 1

// Labels of the two MACs of a handshake. They differ, so that neither side can reply with the MAC that it has received.
const (
	macAccepts = "geobench/wire/accepts"
	macDials   = "geobench/wire/dials"
)

// Keys authenticates a node's connections. Its functions are called for every connection, so the keys may change over
// time.
type Keys struct {
	// Peer returns the key of the database's nodes.
	Peer func() ([]byte, error)
	// Client returns the key for a run's clients, or the reason why these clients may not connect.
	Client func(run string) ([]byte, error)
	// Stranger is called when a connection is refused because the handshake failed, with the connection's remote address.
	Stranger func(from net.Addr, reason error)
}

// Role is the purpose of a connection.
type Role uint8

// Values of Role.
const (
	Peer   Role = 1
	Client Role = 2
)

// Hello is the first frame of a connection, from the dialling side.
type Hello struct {
	// Database and Incarnation identify the database, which must be the same on both sides.
	Database, Incarnation string
	// Process is a name that the dialling process chose when it started.
	Process string
	// NodeIncarnation is the number of earlier processes of the dialling node that have lost their state: see
	// protocol.Config.
	NodeIncarnation uint32
	Role            Role
	// From is the dialling node; 0 for a client. To is the expected node.
	From, To geo.NodeID
	// Expect is the process that the accepting node had at the previous connection; empty for the first connection.
	// ExpectIncarnation is the latest incarnation of the accepting node that the dialling node knows.
	Expect            string
	ExpectIncarnation uint32
	// Received is the number of the last data frame that the dialling node has received over the link.
	Received uint32
	// Run is the run that a client belongs to, which determines the client's key.
	Run string
	// nonce is the nonce of the dialling side, generated when the hello is sent.
	nonce string
}

// Refusal is the reason why a node does not accept a connection.
type Refusal struct {
	Code   RefusalCode
	Reason string
}

// RefusalCode classifies refusals by how the dialling side must react.
type RefusalCode uint8

const (
	// WrongAddress: another process uses the address. It may be about to exit, so the dialling side retries.
	WrongAddress RefusalCode = 1
	// LostState: one of the two processes is not the process that the other side expected.
	LostState RefusalCode = 2
	// Unproven: the dialling side has not proved that it may connect.
	Unproven RefusalCode = 3
	// Superseded: a later incarnation has replaced the dialling side, which must no longer act for its node.
	Superseded RefusalCode = 4
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
	b = codec.AppendUvarint(b, uint64(h.Received))
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(h.NodeIncarnation)), uint64(h.ExpectIncarnation))
	return codec.AppendString(codec.AppendString(b, h.Run), h.nonce)
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
	h.NodeIncarnation, h.ExpectIncarnation = uint32(r.UvarintMax(MaxNodeIncarnation)), uint32(r.UvarintMax(MaxNodeIncarnation))
	h.Run, h.nonce = r.String(), r.String()
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
	process     string
	incarnation uint32 // of the accepting node
	received    uint32
}

func (w *welcome) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendString(b, w.process), uint64(w.incarnation)), uint64(w.received))
}

func (w *welcome) decode(b []byte) error {
	r := codec.NewReader(b)
	w.process, w.incarnation, w.received = r.String(), uint32(r.UvarintMax(MaxNodeIncarnation)), uint32(r.UvarintMax(1<<32-1))
	return r.Done()
}

// challenge is an accepting side's answer to a Hello if there are keys.
type challenge struct{ nonce, proof string }

func (c *challenge) appendTo(b []byte) []byte {
	return codec.AppendString(codec.AppendString(b, c.nonce), c.proof)
}

func (c *challenge) decode(b []byte) error {
	r := codec.NewReader(b)
	c.nonce, c.proof = r.String(), r.String()
	return r.Done()
}

// proof is the dialling side's answer to a challenge.
type proof struct{ mac string }

func (p *proof) appendTo(b []byte) []byte { return codec.AppendString(b, p.mac) }

func (p *proof) decode(b []byte) error {
	r := codec.NewReader(b)
	p.mac = r.String()
	return r.Done()
}

// mac returns the MAC of one side of a handshake.
func mac(key []byte, side string, hello []byte, nonce string) string {
	return string(identity.MAC(key, []byte(side), hello, []byte(nonce)))
}

func sameMAC(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func newNonce() string {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // Read never fails
	return string(b)
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

// writeFrame writes a frame of the handshake.
func writeFrame(conn net.Conn, typ uint8, body appender) error {
	b := body.appendTo(append(make([]byte, lengthBytes, 256), typ))
	seal(b)
	_, err := conn.Write(b)
	return err
}

// greet sends h and returns the answer. The error is a *Refusal if the other side refused the connection. If key is not
// nil, greet accepts the answer only after the other side has proved that it has the same key.
func greet(conn net.Conn, fr *frameReader, h *Hello, key []byte) (welcome, error) {
	var w welcome
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return w, err
	}
	h.nonce = newNonce()
	if err := writeFrame(conn, frameHello, h); err != nil {
		return w, err
	}
	typ, body, err := fr.next()
	if err != nil {
		return w, fmt.Errorf("no answer to the greeting: %w", err)
	}
	fr.keep() // decoded strings alias the frame
	if key != nil {
		// Authenticate the accepting side before using its answer.
		if err := respond(conn, typ, body, h, key); err != nil {
			return w, err
		}
		if typ, body, err = fr.next(); err != nil {
			return w, fmt.Errorf("no answer to the proof: %w", err)
		}
		fr.keep()
	}
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
	// The deadline was for the handshake only.
	return w, conn.SetDeadline(time.Time{})
}

// respond checks and answers a challenge.
func respond(conn net.Conn, typ uint8, body []byte, h *Hello, key []byte) error {
	switch typ {
	case frameChallenge:
	case frameRefusal:
		r := &Refusal{}
		if err := r.decode(body); err != nil {
			return err
		}
		// Do not return a refusal without proof as a *Refusal: an impostor could then make this node stop.
		return fmt.Errorf("refused by one that has not proved who it is: %s", r.Reason)
	default:
		return fmt.Errorf("a frame of type %d came where a challenge was due: who answers has no key", typ)
	}
	var c challenge
	if err := c.decode(body); err != nil {
		return err
	}
	hello := h.appendTo(nil)
	if len(c.nonce) != nonceSize || !sameMAC(c.proof, mac(key, macAccepts, hello, c.nonce)) {
		return errors.New("who answers has another key")
	}
	return writeFrame(conn, frameProof, &proof{mac(key, macDials, hello, c.nonce)})
}

// receiveHello reads the hello on an accepted connection. With keys, a nil error means that the dialling side has
// proved that it has the right key. A *strangerError means that it has not.
func receiveHello(conn net.Conn, fr *frameReader, keys *Keys) (*Hello, error) {
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
	if keys != nil {
		if err := challengeWith(conn, fr, h, body, keys); err != nil {
			return nil, err
		}
	}
	return h, conn.SetDeadline(time.Time{})
}

// strangerError is the reason why the dialling side's claimed identity is not accepted.
type strangerError struct{ error }

// challengeWith requires the dialling side to prove that it has the key of the nodes or, for a client, the key of its
// run.
func challengeWith(conn net.Conn, fr *frameReader, h *Hello, hello []byte, keys *Keys) error {
	var key []byte
	var err error
	if h.Role == Peer {
		key, err = keys.Peer()
	} else {
		key, err = keys.Client(h.Run)
	}
	if err != nil {
		return &strangerError{err}
	}
	if len(h.nonce) != nonceSize {
		return &strangerError{fmt.Errorf("a nonce of %d bytes, not %d", len(h.nonce), nonceSize)}
	}
	// A fresh nonce for each connection makes recorded proofs useless.
	c := &challenge{nonce: newNonce()}
	c.proof = mac(key, macAccepts, hello, c.nonce)
	if err := writeFrame(conn, frameChallenge, c); err != nil {
		return err
	}
	typ, body, err := fr.next()
	if err != nil {
		return &strangerError{fmt.Errorf("no answer to the challenge: %w", err)}
	}
	fr.keep()
	var p proof
	if typ != frameProof || p.decode(body) != nil || !sameMAC(p.mac, mac(key, macDials, hello, c.nonce)) {
		return &strangerError{errors.New("the answer to the challenge is wrong")}
	}
	return nil
}
