package sim

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Observation is an event on a node: an input of its replica, or an output.
type Observation struct {
	At   time.Duration
	Node geo.NodeID
	Kind ObservationKind
	// Peer is the sender or receiver of a message. Sent is the time at which a received message was sent.
	Peer    geo.NodeID
	Sent    time.Duration
	Message protocol.Message
	// Transaction, Outcome, Timer and Mark are set for IsSubmitted, Replies, Fires and Hits, respectively.
	Transaction *txn.Transaction
	Outcome     txn.Outcome
	Timer       protocol.Timer
	Mark        *coverage.Mark
	// Inputs is the length of the log from which a node restarts.
	Inputs int
	// Incarnation is the new incarnation of a replaced node, or the incarnation of a peer about which the node is
	// notified.
	Incarnation uint32

	topology *geo.Topology
}

// ObservationKind is the kind of an Observation.
type ObservationKind uint8

// Kinds of observations.
const (
	Starts ObservationKind = iota
	StartsAgain
	Receives
	IsSubmitted
	Fires
	Sends
	Replies
	Hits
	IsReplaced
	IsTold
)

// String returns a line with the time, the node and the event.
func (o Observation) String() string {
	return fmt.Sprintf("%11.3fms %s %s", float64(o.At)/1e6, o.topology.NodeName(o.Node), o.what())
}

func (o Observation) what() string {
	switch o.Kind {
	case Starts:
		return "starts"
	case StartsAgain:
		return fmt.Sprintf("starts again from a log of %d inputs", o.Inputs)
	case Receives:
		return fmt.Sprintf("<- %s %v", o.topology.NodeName(o.Peer), o.Message)
	case IsSubmitted:
		return fmt.Sprintf("submit t%v", o.Transaction.ID)
	case Fires:
		return fmt.Sprintf("fire %d/%d", o.Timer.Kind, o.Timer.Arg)
	case Sends:
		return fmt.Sprintf("-> %s %v", o.topology.NodeName(o.Peer), o.Message)
	case IsReplaced:
		return fmt.Sprintf("is replaced by incarnation %d, which knows nothing", o.Incarnation)
	case IsTold:
		return fmt.Sprintf("is told of incarnation %d of %s", o.Incarnation, o.topology.NodeName(o.Peer))
	case Hits:
		return "mark " + o.Mark.Name
	}
	text := fmt.Sprintf("reply t%v %v", o.Outcome.ID, o.Outcome.Status)
	if o.Outcome.Reason != "" {
		text += " " + o.Outcome.Reason
	}
	return text
}

// trace passes an observation to Config.Trace.
func (n *node) trace(o Observation) {
	o.At, o.Node, o.topology = n.s.now, geo.NodeID(n.id), n.s.c.Topology
	n.s.c.Trace(o)
}

func (n *node) traceInput(it *item) {
	switch it.kind {
	case onStart:
		n.trace(Observation{Kind: Starts})
	case onMessage:
		n.trace(Observation{Kind: Receives, Peer: geo.NodeID(it.from), Sent: it.sent, Message: it.msg})
	case onSubmit:
		n.trace(Observation{Kind: IsSubmitted, Transaction: it.t})
	case onReplaced:
		n.trace(Observation{Kind: IsTold, Peer: geo.NodeID(it.from), Incarnation: it.life})
	case onTimer:
		n.trace(Observation{Kind: Fires, Timer: it.timer})
	}
}

func (n *node) traceOutput(o *output) {
	if o.msg != nil {
		n.trace(Observation{Kind: Sends, Peer: geo.NodeID(o.to), Message: o.msg})
		return
	}
	n.trace(Observation{Kind: Replies, Outcome: o.outcome})
}
