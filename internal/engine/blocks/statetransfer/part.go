// Package statetransfer brings a node's state to another one in pieces, so that what else the two have to say waits for
// a piece at most, a slow link is not flooded, and a state that has changed on the way is not taken.
//
// Outgoing and Incoming are the two ends of a transfer, whoever carries its parts. Sender and Receiver carry them in
// messages of their own, for engines whose replicas send their rows to new incarnations (protocol.Engine.Replaces).
package statetransfer

import (
	"crypto/sha256"
	"time"
)

const (
	// PieceBytes bounds a part, of which one is sent every Every: 200 Mbit/s at most.
	PieceBytes = 256 << 10
	Every      = 10 * time.Millisecond
	// Underway bounds the parts that the other end has not acknowledged.
	Underway = 8
	// Patience is how long the other end may acknowledge nothing before a transfer is given up.
	Patience = 10 * time.Second
)

// Part is a part of a state.
type Part struct {
	// At is where in the state Data begins, and Size how long the state is, in bytes.
	At, Size uint64
	// Digest is the SHA-256 of the whole state.
	Digest [sha256.Size]byte
	Data   []byte
}

// Outgoing is a state on its way to a node.
type Outgoing struct {
	data        []byte
	digest      [sha256.Size]byte
	sent, acked int // bytes
	answered    bool
	heard       time.Duration
}

// NewOutgoing begins a transfer. It keeps a reference into data.
func NewOutgoing(data []byte, now time.Duration) Outgoing {
	return Outgoing{data: data, digest: sha256.Sum256(data), heard: now}
}

// Done reports whether the other end has acknowledged all.
func (o *Outgoing) Done() bool { return o.answered && o.acked == len(o.data) }

// Silent reports whether the other end has acknowledged nothing for Patience.
func (o *Outgoing) Silent(now time.Duration) bool { return now-o.heard >= Patience }

// Ready reports whether there is more to send, and not too much under way, in parts of so many bytes.
func (o *Outgoing) Ready(limit int) bool {
	return o.sent < len(o.data) && o.sent-o.acked < Underway*limit
}

// Next returns the next part, of limit bytes at most.
func (o *Outgoing) Next(limit int) Part {
	end := min(o.sent+limit, len(o.data))
	p := Part{uint64(o.sent), uint64(len(o.data)), o.digest, o.data[o.sent:end]}
	o.sent = end
	return p
}

// Acknowledged takes the other end's word that it has got so many bytes. It returns false when so many were never sent.
func (o *Outgoing) Acknowledged(got uint64, now time.Duration) bool {
	if got > uint64(o.sent) {
		return false
	}
	o.acked, o.answered, o.heard = max(o.acked, int(got)), true, now
	return true
}

// Verdict is what has come of a part.
type Verdict uint8

const (
	// Ignored: the part is not the next one, but of a transfer that was given up.
	Ignored Verdict = iota
	// Kept: more parts are to come.
	Kept
	// Whole: the state is complete.
	Whole
	// Damaged: the state is complete, and not what was sent.
	Damaged
)

// Incoming is what has come of a state.
type Incoming struct {
	data []byte
}

// Add takes a part; the first one begins anew. The caller makes sure that parts of one transfer come together.
func (i *Incoming) Add(p Part) Verdict {
	if p.At == 0 {
		i.data = nil
	}
	if uint64(len(i.data)) != p.At {
		return Ignored
	}
	i.data = append(i.data, p.Data...)
	switch got := i.Got(); {
	case got < p.Size:
		return Kept
	case got > p.Size || sha256.Sum256(i.data) != p.Digest:
		return Damaged
	}
	return Whole
}

// Got is how many bytes have come.
func (i *Incoming) Got() uint64 { return uint64(len(i.data)) }

// Take returns what has come, and forgets it.
func (i *Incoming) Take() []byte {
	data := i.data
	i.data = nil
	return data
}
