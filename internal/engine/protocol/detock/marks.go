package detock

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	partLate = coverage.New("detock.late-part", "A part of a multi-home transaction arrives after its timestamp")
	partHeld = coverage.New("detock.held-part",
		"A region holds a part of a multi-home transaction until its timestamp")
	unorderedPart = coverage.New("detock.unordered-part",
		"A part of a multi-home transaction is logged on arrival, without opportunistic ordering")
	earlierTimer = coverage.New("detock.earlier-part",
		"A part arrives with an earlier timestamp than all parts that are held")
	timerEarly       = coverage.New("detock.timer-idle", "A timer fires when no held part is due")
	deadlockFound    = coverage.New("detock.deadlock", "Transactions are in a deadlock and are ordered by their ids")
	largeDeadlock    = coverage.New("detock.large-deadlock", "Three or more transactions are in one deadlock")
	severalDeadlocks = coverage.New("detock.several-deadlocks", "One search finds several deadlocks")
	graphSent        = coverage.New("detock.graph-sent", "A partition sends the changes in its waits-for graph")
	resolutionSent   = coverage.New("detock.resolution-sent",
		"The resolver sends the resolution of deadlocks to the partitions of a copy")
	resolverIdle    = coverage.New("detock.resolver-idle", "A tick of the resolver finds no change in the graph")
	negativeLatency = coverage.New("detock.negative-latency",
		"A latency probe arrives before it was sent, according to the clocks")
	windowFull = coverage.New("detock.window-full", "A measured latency replaces an older sample")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	resolvesLater = buggify.New("detock.resolved-later", "A search for deadlocks is postponed")
)
