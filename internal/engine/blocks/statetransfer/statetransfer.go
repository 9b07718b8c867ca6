package statetransfer

import (
	"slices"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

var smallPieces = buggify.New("statetransfer.small-pieces", "A state is sent in chunks of 16 bytes")

// Sender sends states to other nodes, at most one state at a time to each.
type Sender struct {
	env    protocol.Env
	timer  protocol.Timer
	set    bool // the timer is pending
	states []*state
}

// state is a transfer in progress.
type state struct {
	to geo.NodeID
	id uint64
	Outgoing
}

// NewSender returns a sender that uses timers of kind timerKind; its owner must pass these to Fire. The sender sets no
// timer while no transfer is in progress.
func NewSender(env protocol.Env, timerKind uint8) *Sender {
	return &Sender{env: env, timer: protocol.Timer{Kind: timerKind}}
}

// Send starts a transfer of data to a node and aborts an earlier transfer to the same node. The pieces carry the given
// ID, which identifies the state at the receiver. Send retains data.
func (s *Sender) Send(to geo.NodeID, id uint64, data []byte) {
	s.Cancel(to)
	o := &state{to, id, NewOutgoing(data, s.env.Now())}
	s.states = append(s.states, o)
	s.piece(o)
	s.later()
}

// Cancel aborts the transfer to a node.
func (s *Sender) Cancel(to geo.NodeID) {
	s.states = slices.DeleteFunc(s.states, func(o *state) bool { return o.to == to })
}

// Busy reports whether a transfer to a node is in progress. A transfer ends when the node has acknowledged the whole
// state, or when it is aborted.
func (s *Sender) Busy(to geo.NodeID) bool {
	return slices.ContainsFunc(s.states, func(o *state) bool { return o.to == to })
}

// Idle reports whether no transfer is in progress.
func (s *Sender) Idle() bool { return len(s.states) == 0 }

// Receive handles a node's answer to a piece.
func (s *Sender) Receive(from geo.NodeID, m *Ack) {
	i := slices.IndexFunc(s.states, func(o *state) bool { return o.to == from && o.id == m.ID })
	if i < 0 {
		return // the answer belongs to an aborted transfer
	}
	// If the transfer has failed, the sender's owner notices this and sends the state again.
	if m.Damaged || !s.states[i].Acknowledged(m.Got, s.env.Now()) || s.states[i].Done() {
		s.Cancel(from)
	}
}

// Fire handles the sender's timer: it drops silent transfers, and sends the next piece of each remaining transfer.
func (s *Sender) Fire() {
	s.set = false
	now := s.env.Now()
	s.states = slices.DeleteFunc(s.states, func(o *state) bool { return o.Silent(now) })
	for _, o := range s.states {
		if o.Ready(PieceBytes) {
			s.piece(o)
		}
	}
	s.later()
}

func (s *Sender) piece(o *state) {
	limit := PieceBytes
	if s.env.Buggify(smallPieces) {
		limit = 16
	}
	s.env.Send(o.to, &Piece{o.id, o.Next(limit)})
}

func (s *Sender) later() {
	if !s.set && len(s.states) > 0 {
		s.set = true
		s.env.After(Every, s.timer)
	}
}

// Receiver receives states from other nodes, one at a time. The first piece of another state discards the current one.
type Receiver struct {
	from geo.NodeID
	id   uint64
	Incoming
}

// Receive handles a piece and acknowledges it. When all pieces have arrived undamaged, it returns the ID of the state,
// its data, and true.
func (r *Receiver) Receive(env protocol.Env, from geo.NodeID, m *Piece) (id uint64, data []byte, whole bool) {
	// A piece at offset 0 starts a state; pieces of other transfers that are still in flight no longer match.
	if m.At == 0 {
		r.from, r.id = from, m.ID
	}
	if r.from != from || r.id != m.ID {
		return 0, nil, false
	}
	verdict := r.Add(m.Part)
	if verdict == Ignored {
		return 0, nil, false
	}
	env.Send(from, &Ack{ID: m.ID, Got: r.Got(), Damaged: verdict == Damaged})
	if verdict == Whole {
		return m.ID, r.Take(), true
	}
	return 0, nil, false
}
