// Package statetransfer transfers a node's state to another node in pieces. So other messages between the two wait for
// a single piece at most, a slow link is not flooded, and a state that was damaged on the way is not accepted.
//
// Outgoing and Incoming are the two ends of a transfer, independent of the transport of its parts. Sender and Receiver
// transport the parts in their own messages, for engines with replicas that send their rows to new incarnations
// (protocol.Engine.Replaces).
package statetransfer

import (
	"crypto/sha256"
	"time"
)

const (
	// PieceBytes is the maximum size of a part. One part is sent per interval Every, so a transfer takes at most 200
	// Mbit/s.
	PieceBytes = 256 << 10
	Every      = 10 * time.Millisecond
	// Underway is the maximum number of unacknowledged parts.
	Underway = 8
	// Patience is the time without an acknowledgement after which a transfer is aborted.
	Patience = 10 * time.Second
)

// Part is a part of a state.
type Part struct {
	// At is the offset of Data in the state, and Size the size of the state, in bytes.
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

// Done reports whether the receiver has acknowledged the whole state.
func (o *Outgoing) Done() bool { return o.answered && o.acked == len(o.data) }

// Silent reports whether the receiver has acknowledged nothing for Patience.
func (o *Outgoing) Silent(now time.Duration) bool { return now-o.heard >= Patience }

// Ready reports whether there is more to send, and not too much in flight, with parts of limit bytes.
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

// Acknowledged records that the receiver has acknowledged got bytes. It returns false if fewer bytes were sent.
func (o *Outgoing) Acknowledged(got uint64, now time.Duration) bool {
	if got > uint64(o.sent) {
		return false
	}
	o.acked, o.answered, o.heard = max(o.acked, int(got)), true, now
	return true
}

// Verdict is the result of adding a part.
type Verdict uint8

const (
	// Ignored: the part is not the next one, but belongs to an aborted transfer.
	Ignored Verdict = iota
	// Kept: more parts are to come.
	Kept
	// Whole: the state is complete.
	Whole
	// Damaged: the state is complete, but differs from the sent state.
	Damaged
)

// Incoming is the received part of a state.
type Incoming struct {
	data []byte
}

// Add adds a part; a state's first part starts a new transfer. The caller ensures that the parts of one transfer are
// not mixed with others.
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

// Got returns the number of bytes received.
func (i *Incoming) Got() uint64 { return uint64(len(i.data)) }

// Take returns the received bytes and discards its own reference to them.
func (i *Incoming) Take() []byte {
	data := i.data
	i.data = nil
	return data
}
