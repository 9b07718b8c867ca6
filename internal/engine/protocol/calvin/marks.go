package calvin

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	batchAgain = coverage.New("calvin.batch-again",
		"A sequencer puts the transactions of a void batch into a new batch")
	unbatched = coverage.New("calvin.unbatched",
		"A transaction is sent in a batch of its own because the batch interval is zero")
	batchesUnderway = coverage.New("calvin.batches-underway",
		"A sequencer sends a batch before its last batch has a log position")
	partitionLeftOut = coverage.New("calvin.partition-left-out",
		"A batch is not sent to a partition that its transactions do not access")
	footprintUnknown = coverage.New("calvin.footprint-unknown",
		"A transaction without an exact footprint needs a reconnaissance before it is ordered")
	epochJump = coverage.New("calvin.epoch-jump",
		"A sequencer with a slow clock closes an epoch early because another node has closed it")
	epochsClosedTogether = coverage.New("calvin.epochs-closed-together", "A sequencer closes several epochs at once")
	outcomeForgotten     = coverage.NewReplaced("calvin.outcome-forgotten",
		"A client gets an unknown outcome because its transaction precedes a reset of the coordinator's copy")
	batchSentAgain = coverage.NewReplaced("calvin.batch-sent-again",
		"A sequencer resends a batch without a log position to a new incarnation")
	epochShared = coverage.New("calvin.epoch-shared", "An epoch contains batches of several sequencers")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var closesEarly = buggify.New("calvin.batch-early", "A batch is closed before its interval has passed")
