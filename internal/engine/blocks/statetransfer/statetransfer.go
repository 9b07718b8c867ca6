package statetransfer

import (
	"slices"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

var smallPieces = buggify.New("statetransfer.small-pieces", "A state is sent in pieces of 16 bytes")

// Sender sends states to other nodes, at most one state at a time to each.
type Sender struct {
	env    protocol.Env
	timer  protocol.Timer
	set    bool // the timer is
	states []*state
}

// state is a state in flight.
type state struct {
	to geo.NodeID
	id uint64
	Outgoing
}

// NewSender returns a sender, which asks for timers of a kind that its owner hands to Fire. It sets none while nothing
// is under way.
func NewSender(env protocol.Env, timerKind uint8) *Sender {
	return &Sender{env: env, timer: protocol.Timer{Kind: timerKind}}
}

// Send starts to send a state under the name id, which the receiver gets with it, and keeps a reference to data. It
// aborts an earlier transfer to the same node.
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

// Busy reports whether a state is under way to a node. It is not any more once the node has all of it, or it was given
// up.
func (s *Sender) Busy(to geo.NodeID) bool {
	return slices.ContainsFunc(s.states, func(o *state) bool { return o.to == to })
}

// Idle reports whether nothing is under way.
func (s *Sender) Idle() bool { return len(s.states) == 0 }

// Receive takes a node's answer to a piece.
func (s *Sender) Receive(from geo.NodeID, m *Ack) {
	i := slices.IndexFunc(s.states, func(o *state) bool { return o.to == from && o.id == m.ID })
	if i < 0 {
		return // of an aborted transfer
	}
	if m.Damaged || !s.states[i].Acknowledged(m.Got, s.env.Now()) || s.states[i].Done() {
		s.Cancel(from)
	}
}

// Fire takes the sender's timer: it sends the next piece of each state.
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

// Receiver receives states from other nodes, one at a time: the first piece of another state discards the current one.
type Receiver struct {
	from geo.NodeID
	id   uint64
	Incoming
}

// Receive handles a piece and answers it. It returns the state's name and the state when all pieces have arrived
// undamaged.
func (r *Receiver) Receive(env protocol.Env, from geo.NodeID, m *Piece) (id uint64, data []byte, whole bool) {
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
