package detock

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	partLate         = coverage.New("detock.late-part", "A part of a multi-home transaction comes after its time")
	partHeld         = coverage.New("detock.held-part", "A region holds a part until its time")
	unorderedPart    = coverage.New("detock.unordered-part", "A part goes into the log as it comes, without opportunistic ordering")
	earlierTimer     = coverage.New("detock.earlier-part", "A part comes whose time is before that of all that are held")
	timerEarly       = coverage.New("detock.timer-idle", "A timer finds no part whose time has come")
	deadlockFound    = coverage.New("detock.deadlock", "Transactions wait for each other and are put in order by their ids")
	largeDeadlock    = coverage.New("detock.large-deadlock", "Three transactions or more wait for each other")
	severalDeadlocks = coverage.New("detock.several-deadlocks", "Several deadlocks are found at once")
	graphSent        = coverage.New("detock.graph-sent", "A partition tells what is new in its waits-for graph")
	resolutionSent   = coverage.New("detock.resolution-sent", "The partitions of a copy are told how deadlocks are resolved")
	resolverIdle     = coverage.New("detock.resolver-idle", "A tick of the resolver finds nothing new in the graph")
	negativeLatency  = coverage.New("detock.negative-latency", "A probe arrives before it was sent, by the clocks")
	windowFull       = coverage.New("detock.window-full", "A measured latency replaces an older one")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	resolvesLater = buggify.New("detock.resolved-later", "A search for deadlocks is put off")
)
