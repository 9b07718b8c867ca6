package deterministic

import "github.com/geobench/geobench/internal/base/coverage"

// Coverage marks that the explorer must reach: see package coverage.
var (
	copyReset = coverage.NewReplaced("deterministic.copy-reset",
		"A node discards its state because another node of its copy has lost its state")
	copyDrained = coverage.NewReplaced("deterministic.copy-drained",
		"A donor of rows waits until all transactions before a reset mark have finished")
	copyOutdated = coverage.NewReplaced("deterministic.copy-outdated",
		"A node receives rows for an earlier reset mark than its own")
	copyLater = coverage.NewReplaced("deterministic.copy-later",
		"A node receives rows for a later reset mark than its own")
	copyEarly = coverage.NewReplaced("deterministic.copy-early",
		"A node with received rows waits until it is notified of new incarnations in its copy")
	copySentAgain = coverage.NewReplaced("deterministic.copy-sent-again", "A transfer of rows failed and is repeated")
	readsAgain    = coverage.NewReplaced("deterministic.reads-again",
		"Reads for a transaction arrive twice or after it has finished")
	readsKept = coverage.NewReplaced("deterministic.reads-kept",
		"A node that resets its state keeps reads for transactions after the reset mark")
)
