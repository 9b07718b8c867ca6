package primary

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	relayed              = probe.New("primary.relayed", "A transaction goes to the instance of its region")
	readAtWriter         = probe.New("primary.read-at-writer", "A transaction meets a failover at the new writer and is executed there")
	logAwaited           = probe.New("primary.log-awaited", "A read waits until the log has come far enough")
	resent               = probe.New("primary.resent", "A request is sent again")
	relayRepeated        = probe.New("primary.relay-repeated", "A relayed transaction comes twice")
	relayedAfterHandover = probe.New("primary.relayed-after-handover", "A transaction of the old writer's region goes to that of the new one")
	failoverMet          = probe.New("primary.failover", "A node announces another writer")
	handover             = probe.New("primary.handover", "The writer leaves once its log is committed")
	laterTerm            = probe.New("primary.later-term", "A message comes for a writer that is not known yet")
	answeredBefore       = probe.New("primary.answered-before", "A request concerns a transaction that an earlier writer has ended")
	answerRepeated       = probe.New("primary.answer-repeated", "A transaction that was answered is asked about again")
	sessionLost          = probe.New("primary.session-lost", "A transaction's session was with an earlier writer")
	staleRead            = probe.New("primary.stale-read", "What a forwarded transaction has read has changed")
	commitAwaited        = probe.New("primary.commit-awaited", "An answer waits for the storage")
	shippedByStorageMet  = probe.New("primary.shipped-by-storage", "The storage ships the log to the other regions")
	logRecovered         = probe.NewReplaced("primary.log-recovered", "A new incarnation of the writer has the log from its storage")
	copyAwaits           = probe.NewReplaced("primary.copy-awaits", "A copy waits until what it has is committed")
	fedByCopy            = probe.NewReplaced("primary.fed-by-copy", "A node asks for a copy since the one that sends it the log has come forward by one")
	takeoverWaits        = probe.NewReplaced("primary.takeover-waits", "The next writer waits for a copy, since entries were lost on their way")
	relayLost            = probe.NewReplaced("primary.relay-lost", "A transaction is lost with its region's instance, and nobody knows how it ends")
)

// What replicas may be told to do: see package buggify.
var (
	resendsEarly = buggify.New("primary.resent-early", "A request is sent again whose answer is merely late")
)
