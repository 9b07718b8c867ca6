package calvin

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	batchAgain           = probe.New("calvin.batch-again", "A sequencer learns that its batch is void and puts the transactions into a new one")
	unbatched            = probe.New("calvin.unbatched", "A transaction leaves in a batch of its own, since batches take no time")
	batchesUnderway      = probe.New("calvin.batches-underway", "A sequencer sends a batch before the last one has its place")
	partitionLeftOut     = probe.New("calvin.partition-left-out", "A batch goes to fewer partitions than there are")
	footprintUnknown     = probe.New("calvin.footprint-unknown", "A transaction cannot name its rows and is looked at before it is ordered")
	epochJump            = probe.New("calvin.epoch-jump", "A sequencer hears of an epoch that is closed and not over by its own clock")
	epochsClosedTogether = probe.New("calvin.epochs-closed-together", "A sequencer closes several epochs at once")
	outcomeForgotten     = probe.NewReplaced("calvin.outcome-forgotten", "A transaction is answered as unknown since it is ordered before a mark at which its coordinator's copy begins anew")
	batchSentAgain       = probe.NewReplaced("calvin.batch-sent-again", "A sequencer sends a new incarnation a batch that has no place yet")
	epochShared          = probe.New("calvin.epoch-shared", "An epoch has batches of several sequencers")
)

// What replicas may be told to do: see package buggify.
var closesEarly = buggify.New("calvin.batch-early", "A batch is closed before its time")
