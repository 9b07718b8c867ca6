package sim

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Bounds on the events of a virtual instant, which are processed in rounds. The first round contains the events
// scheduled before the instant. Each following round contains the events that the previous round scheduled for the same
// instant. The first rounds may have any number of events, such as the timers of a million clients. Thousands of
// rounds, or millions of events after the second round, occur only if a replica or client is in an endless cycle.
const (
	maxRounds      = 10_000
	maxLaterEvents = 2_000_000
)

// instant counts the events of the current instant.
type instant struct {
	rounds int    // number of rounds after the first
	later  int    // number of events after the second round
	asked  uint64 // seq of the last event that was scheduled when the round started
}

// Standstill is the panic value of Run if events of an instant keep scheduling further events for the same instant.
type Standstill struct {
	// At is the virtual time that does not advance. Last describes the event at which Run stopped.
	At   time.Duration
	Last string
	// Rounds is the number of rounds after the first. Events is the number of events after the second round.
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
	// Events happen in the order of seq, so the first event that was scheduled after the round had started opens the next
	// round.
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

// describe returns a short description of an event.
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
