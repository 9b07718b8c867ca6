package detock

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	partLate         = probe.New("detock.late-part", "A part of a multi-home transaction comes after its time")
	partHeld         = probe.New("detock.held-part", "A region holds a part until its time")
	unorderedPart    = probe.New("detock.unordered-part", "A part goes into the log as it comes, without opportunistic ordering")
	earlierTimer     = probe.New("detock.earlier-part", "A part comes whose time is before that of all that are held")
	timerEarly       = probe.New("detock.timer-idle", "A timer finds no part whose time has come")
	deadlockFound    = probe.New("detock.deadlock", "Transactions wait for each other and are put in order by their ids")
	largeDeadlock    = probe.New("detock.large-deadlock", "Three transactions or more wait for each other")
	severalDeadlocks = probe.New("detock.several-deadlocks", "Several deadlocks are found at once")
	graphSent        = probe.New("detock.graph-sent", "A partition tells what is new in its waits-for graph")
	resolutionSent   = probe.New("detock.resolution-sent", "The partitions of a copy are told how deadlocks are resolved")
	resolverIdle     = probe.New("detock.resolver-idle", "A tick of the resolver finds nothing new in the graph")
	negativeLatency  = probe.New("detock.negative-latency", "A probe arrives before it was sent, by the clocks")
	windowFull       = probe.New("detock.window-full", "A measured latency replaces an older one")
)

// What replicas may be told to do: see package buggify.
var (
	resolvesLater = buggify.New("detock.resolved-later", "A search for deadlocks is put off")
)
