// Package statetransfer transfers a node's state to another node in pieces. Pieces keep the delay of other messages
// between the two nodes short, and a rate limit avoids flooding a slow link. The receiver rejects a state that was
// damaged in transit.
//
// Outgoing and Incoming are the two ends of a transfer, independent of how parts are transported. Sender and Receiver
// transport parts in messages of this package, for engines whose replicas send their rows to new incarnations
// (protocol.Engine.Replaces).
package statetransfer

import (
	"crypto/sha256"
	"time"
)

const (
	// PieceBytes is the maximum size of a part. Sender sends one part per Every, so a transfer uses at most about 210
	// Mbit/s.
	PieceBytes = 256 << 10
	Every      = 10 * time.Millisecond
	// Underway is the maximum number of unacknowledged parts.
	Underway = 8
	// Patience is the time without an acknowledgement after which the sender aborts a transfer.
	Patience = 10 * time.Second
)

// Part is a piece of a state.
type Part struct {
	// At is the offset of Data in the state, and Size the size of the state, in bytes.
	At, Size uint64
	// Digest is the SHA-256 of the whole state.
	Digest [sha256.Size]byte
	Data   []byte
}

// Outgoing is the sending end of a transfer.
type Outgoing struct {
	data        []byte
	digest      [sha256.Size]byte
	sent, acked int // bytes
	answered    bool
	heard       time.Duration
}

// NewOutgoing starts a transfer at time now. It retains data.
func NewOutgoing(data []byte, now time.Duration) Outgoing {
	return Outgoing{data: data, digest: sha256.Sum256(data), heard: now}
}

// Done reports whether the receiver has acknowledged the whole state.
func (o *Outgoing) Done() bool { return o.answered && o.acked == len(o.data) }

// Silent reports whether the receiver has acknowledged nothing for Patience.
func (o *Outgoing) Silent(now time.Duration) bool { return now-o.heard >= Patience }

// Ready reports whether unsent data remains and fewer than Underway parts of limit bytes are unacknowledged.
func (o *Outgoing) Ready(limit int) bool {
	return o.sent < len(o.data) && o.sent-o.acked < Underway*limit
}

// Next returns the next part, of at most limit bytes.
func (o *Outgoing) Next(limit int) Part {
	end := min(o.sent+limit, len(o.data))
	// An empty state still has one empty part, which carries its digest.
	p := Part{uint64(o.sent), uint64(len(o.data)), o.digest, o.data[o.sent:end]}
	o.sent = end
	return p
}

// Acknowledged records that the receiver has acknowledged got bytes. It returns false if got exceeds the bytes sent.
func (o *Outgoing) Acknowledged(got uint64, now time.Duration) bool {
	if got > uint64(o.sent) {
		return false
	}
	// An acknowledgement may be older than the last one, but it still shows that the receiver is alive.
	o.acked, o.answered, o.heard = max(o.acked, int(got)), true, now
	return true
}

// Verdict is the result of Incoming.Add.
type Verdict uint8

const (
	// Ignored: the part is not the next one; it belongs to an aborted transfer.
	Ignored Verdict = iota
	// Kept: the part was added, and more parts are missing.
	Kept
	// Whole: the state is complete and undamaged.
	Whole
	// Damaged: the state is complete, but differs from the sent state.
	Damaged
)

// Incoming is the receiving end of a transfer.
type Incoming struct {
	data []byte
}

// Add adds a part. The first part of a state starts a new transfer. The caller ensures that parts of different
// transfers are not mixed.
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
	// The digest covers the whole state, so damage to any earlier part is detected here.
	case got > p.Size || sha256.Sum256(i.data) != p.Digest:
		return Damaged
	}
	return Whole
}

// Got returns the number of bytes received.
func (i *Incoming) Got() uint64 { return uint64(len(i.data)) }

// Take returns the received bytes and clears i, so the caller owns them.
func (i *Incoming) Take() []byte {
	data := i.data
	i.data = nil
	return data
}
