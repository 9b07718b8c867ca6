package primary

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	relayed      = coverage.New("primary.relayed", "A node relays a transaction to the instance of its region")
	readAtWriter = coverage.New("primary.read-at-writer",
		"A read-only transaction runs at the writer because a failover has made its node the writer")
	logAwaited           = coverage.New("primary.log-awaited", "A read waits until the node has applied enough of the log")
	resent               = coverage.New("primary.resent", "A node repeats a request that is still unanswered")
	relayRepeated        = coverage.New("primary.relay-repeated", "A relayed transaction arrives twice")
	relayedAfterHandover = coverage.New("primary.relayed-after-handover",
		"After a handover, a transaction in the old writer's region is relayed to the region's instance")
	failoverMet = coverage.New("primary.failover", "A node announces a new writer")
	handover    = coverage.New("primary.handover", "The writer starts a planned handover")
	laterTerm   = coverage.New("primary.later-term",
		"A message arrives for a term that the node does not know yet")
	answeredBefore = coverage.New("primary.answered-before",
		"A request is for a transaction that an earlier writer has committed")
	answerRepeated = coverage.New("primary.answer-repeated",
		"A repeated request receives the answer that was already sent")
	sessionLost = coverage.New("primary.session-lost",
		"A statement finds no session because the session was at an earlier writer")
	staleRead = coverage.New("primary.stale-read",
		"The rows that a forwarded transaction has read have changed")
	commitAwaited = coverage.New("primary.commit-awaited",
		"An answer waits until the storage has committed the log entry")
	shippedByStorageMet = coverage.New("primary.shipped-by-storage", "A storage node ships the log to the other regions")
	logRecovered        = coverage.NewReplaced("primary.log-recovered",
		"A new incarnation of the writer recovers the log from its storage")
	copyAwaits = coverage.NewReplaced("primary.copy-awaits",
		"A copy of the rows waits until the log entries that it includes are committed")
	fedByCopy = coverage.NewReplaced("primary.fed-by-copy",
		"A node requests a copy because its feeder starts after entries that the node is missing")
	takeoverWaits = coverage.NewReplaced("primary.takeover-waits",
		"The next writer waits for a copy because log entries were lost in flight")
	relayLost = coverage.NewReplaced("primary.relay-lost",
		"A relayed transaction is lost with the instance of its region, so its outcome is unknown")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	resendsEarly = buggify.New("primary.resent-early", "A request is repeated although its answer is only delayed")
)
