package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// UnfetchedData is a faulty variant of Calvin: schedulers wait for data that was lost with its sequencer, although
// other nodes have a copy. No table of engines lists it; tests use it to verify that the checks find the defect
// (package broken).
var UnfetchedData = unfetchedData()

func unfetchedData() *protocol.Engine {
	return Engine.Variant("calvin-unfetched-data", func(c protocol.Config) protocol.Replica { return newReplica(c, true) }).Reparametrized(func(p *protocol.Parameter) {
		switch p.Name {
		case "ordering":
			p.OneOf = []string{orderingLeader, orderingConsensus}
		case batchlog.CopiesParameter.Name:
			p.Default, p.MinInt = "2", 2
		}
	})
}

// AcknowledgedEverywhere is a faulty variant of Calvin: it answers a transaction only after all other regions have
// acknowledged it, or after 30 seconds. Without a failure, transactions are merely slow. After the loss of a region,
// every transaction is still answered eventually, but late. No table of engines lists the variant; tests use it to
// verify that the checks find the defect (package broken).
var AcknowledgedEverywhere = acknowledgedEverywhere()

func acknowledgedEverywhere() *protocol.Engine {
	e := Engine.Variant("calvin-acknowledged-everywhere", func(c protocol.Config) protocol.Replica {
		r := &acknowledging{Env: c.Env, self: c.Self, topology: c.Topology, held: map[txn.ID]*heldAnswer{}}
		c.Env = r
		r.Replica = newReplica(c, false)
		return r
	})
	e.Decode = nil // acknowledgements have no decoder, so the variant runs only in the simulator
	return e
}

// acknowledging is a replica that delays its answers. It is also the environment of the wrapped replica, so that it
// intercepts Reply.
type acknowledging struct {
	*Replica
	protocol.Env
	self     geo.NodeID
	topology *geo.Topology
	held     map[txn.ID]*heldAnswer
}

type heldAnswer struct {
	outcome txn.Outcome
	missing int // regions that have not acknowledged
}

// acknowledgement requests an acknowledgement, or is the acknowledgement if given is set.
type acknowledgement struct {
	id    txn.ID
	given bool
}

// Kind implements protocol.Message.
func (*acknowledgement) Kind() uint8 { return 200 }

// Size implements protocol.Message.
func (*acknowledgement) Size() int { return 9 }

// AppendTo implements protocol.Message.
func (*acknowledgement) AppendTo(b []byte) []byte { return append(b, make([]byte, 9)...) }

const (
	acknowledgementTimer = 200
	acknowledgedAfter    = 30 * time.Second
)

// Reply implements protocol.Env.
func (r *acknowledging) Reply(o txn.Outcome) {
	h := &heldAnswer{outcome: o}
	for region := range r.topology.Regions {
		if geo.Region(region) != r.topology.RegionOf(r.self) {
			h.missing++
			r.Env.Send(r.topology.Node(geo.Region(region), 0, 0), &acknowledgement{id: o.ID})
		}
	}
	if h.missing == 0 {
		r.Env.Reply(o)
		return
	}
	r.held[o.ID] = h
	r.After(acknowledgedAfter, protocol.Timer{Kind: acknowledgementTimer, Arg: uint64(o.ID)})
}

// Receive implements protocol.Replica.
func (r *acknowledging) Receive(from geo.NodeID, m protocol.Message) {
	a, ok := m.(*acknowledgement)
	switch {
	case !ok:
		r.Replica.Receive(from, m)
	case !a.given:
		r.Env.Send(from, &acknowledgement{id: a.id, given: true})
	// The timer may have released the answer before the last acknowledgement arrived.
	case r.held[a.id] != nil:
		if r.held[a.id].missing--; r.held[a.id].missing == 0 {
			r.release(a.id)
		}
	}
}

// Fire implements protocol.Replica.
func (r *acknowledging) Fire(t protocol.Timer) {
	if t.Kind != acknowledgementTimer {
		r.Replica.Fire(t)
	} else if r.held[txn.ID(t.Arg)] != nil {
		r.release(txn.ID(t.Arg))
	}
}

func (r *acknowledging) release(id txn.ID) {
	o := r.held[id].outcome
	delete(r.held, id)
	r.Env.Reply(o)
}

// Pending implements protocol.Replica.
func (r *acknowledging) Pending() int { return len(r.held) + r.Replica.Pending() }
