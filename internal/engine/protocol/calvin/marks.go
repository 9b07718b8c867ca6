package calvin

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	batchAgain           = coverage.New("calvin.batch-again", "A sequencer learns that its batch is void and puts the transactions into a new one")
	unbatched            = coverage.New("calvin.unbatched", "A transaction leaves in a batch of its own, since batches take no time")
	batchesUnderway      = coverage.New("calvin.batches-underway", "A sequencer sends a batch before the last one has its place")
	partitionLeftOut     = coverage.New("calvin.partition-left-out", "A batch goes to fewer partitions than there are")
	footprintUnknown     = coverage.New("calvin.footprint-unknown", "A transaction cannot name its rows and is looked at before it is ordered")
	epochJump            = coverage.New("calvin.epoch-jump", "A sequencer hears of an epoch that is closed and not over by its own clock")
	epochsClosedTogether = coverage.New("calvin.epochs-closed-together", "A sequencer closes several epochs at once")
	outcomeForgotten     = coverage.NewReplaced("calvin.outcome-forgotten", "A transaction is answered as unknown since it is ordered before a mark at which its coordinator's copy begins anew")
	batchSentAgain       = coverage.NewReplaced("calvin.batch-sent-again", "A sequencer sends a new incarnation a batch that has no place yet")
	epochShared          = coverage.New("calvin.epoch-shared", "An epoch has batches of several sequencers")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var closesEarly = buggify.New("calvin.batch-early", "A batch is closed before its time")
