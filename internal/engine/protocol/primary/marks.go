package primary

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	relayed              = coverage.New("primary.relayed", "A transaction goes to the instance of its region")
	readAtWriter         = coverage.New("primary.read-at-writer", "A transaction meets a failover at the new writer and is executed there")
	logAwaited           = coverage.New("primary.log-awaited", "A read waits until the log has come far enough")
	resent               = coverage.New("primary.resent", "A request is sent again")
	relayRepeated        = coverage.New("primary.relay-repeated", "A relayed transaction comes twice")
	relayedAfterHandover = coverage.New("primary.relayed-after-handover", "A transaction of the old writer's region goes to that of the new one")
	failoverMet          = coverage.New("primary.failover", "A node announces another writer")
	handover             = coverage.New("primary.handover", "The writer leaves once its log is committed")
	laterTerm            = coverage.New("primary.later-term", "A message comes for a writer that is not known yet")
	answeredBefore       = coverage.New("primary.answered-before", "A request concerns a transaction that an earlier writer has ended")
	answerRepeated       = coverage.New("primary.answer-repeated", "A transaction that was answered is asked about again")
	sessionLost          = coverage.New("primary.session-lost", "A transaction's session was with an earlier writer")
	staleRead            = coverage.New("primary.stale-read", "What a forwarded transaction has read has changed")
	commitAwaited        = coverage.New("primary.commit-awaited", "An answer waits for the storage")
	shippedByStorageMet  = coverage.New("primary.shipped-by-storage", "The storage ships the log to the other regions")
	logRecovered         = coverage.NewReplaced("primary.log-recovered", "A new incarnation of the writer has the log from its storage")
	copyAwaits           = coverage.NewReplaced("primary.copy-awaits", "A copy waits until what it has is committed")
	fedByCopy            = coverage.NewReplaced("primary.fed-by-copy", "A node asks for a copy since the one that sends it the log has come forward by one")
	takeoverWaits        = coverage.NewReplaced("primary.takeover-waits", "The next writer waits for a copy, since entries were lost on their way")
	relayLost            = coverage.NewReplaced("primary.relay-lost", "A transaction is lost with its region's instance, and nobody knows how it ends")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	resendsEarly = buggify.New("primary.resent-early", "A request is sent again whose answer is merely late")
)
