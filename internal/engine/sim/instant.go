package sim

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Bounds on what happens in one virtual instant. The events of an instant come in rounds: those that were asked for
// before, those that these ask for in the same instant, and so on. Any number may be due at once, and start in the
// first rounds, such as the timers of a million clients. Only a replica or a client that goes in a circle needs
// thousands of rounds, or millions of events in those after the second.
const (
	maxRounds      = 10_000
	maxLaterEvents = 2_000_000
)

// instant counts what happens now.
type instant struct {
	rounds int    // after the first
	later  int    // events after the second
	asked  uint64 // the number of the last event that had been asked for when the round began
}

// Standstill is what Run panics with when events of one instant ask for further ones without end.
type Standstill struct {
	// At is the virtual time that does not pass, Last describes the event at which Run gave up.
	At   time.Duration
	Last string
	// Rounds counts the rounds of events that were asked for by those of the round before, Events the events of all but
	// the first of them.
	Rounds, Events int
}

func (e *Standstill) Error() string {
	return fmt.Sprintf("sim: virtual time stands still at %v: events have asked for further ones of the same instant %d times, %d in all, the last %s; "+
		"whoever waits for something must let time pass", e.At, e.Rounds, e.Events, e.Last)
}

// count counts an event that is about to happen.
func (i *instant) count(e *event, s *Sim) {
	if e.at > s.now {
		*i = instant{asked: s.events.seq}
		return
	}
	if e.seq > i.asked {
		i.rounds++
		i.asked = s.events.seq
	}
	if i.rounds < 2 {
		return
	}
	i.later++
	if i.rounds > maxRounds || i.later > maxLaterEvents {
		panic(&Standstill{At: e.at, Last: s.describe(&s.items[e.item]), Rounds: i.rounds, Events: i.later})
	}
}

// describe says in a few words what an event is about.
func (s *Sim) describe(it *item) string {
	node := func(n int32) string { return s.c.Topology.NodeName(geo.NodeID(n)) }
	client := func() string { return "clients in " + s.c.Topology.Regions[s.clients[it.to].region] }
	switch it.kind {
	case onMessage:
		return fmt.Sprintf("a message %v from %s to %s", it.msg, node(it.from), node(it.to))
	case onSubmit:
		return fmt.Sprintf("transaction %v for %s", it.t.ID, node(it.to))
	case onTimer:
		return fmt.Sprintf("timer %d/%d of %s", it.timer.Kind, it.timer.Arg, node(it.to))
	case onIdle:
		return fmt.Sprintf("the end of a step of %s", node(it.to))
	case onOutcome:
		return fmt.Sprintf("the outcome of transaction %v for %s", it.outcome.ID, client())
	case onClientTimer:
		return fmt.Sprintf("timer %d/%d of %s", it.timer.Kind, it.timer.Arg, client())
	}
	return fmt.Sprintf("of kind %d", it.kind)
}
