package deterministic

import "github.com/geobench/geobench/internal/base/coverage"

// Coverage marks that the explorer must reach: see package coverage.
var (
	copyReset     = coverage.NewReplaced("deterministic.copy-reset", "A node begins anew since one of its copy has lost what it knew")
	copyDrained   = coverage.NewReplaced("deterministic.copy-drained", "A node that is to give its rows away waits until all before a mark is over")
	copyOutdated  = coverage.NewReplaced("deterministic.copy-outdated", "Rows come that are of a mark before the one at which a node stands")
	copyLater     = coverage.NewReplaced("deterministic.copy-later", "Rows come that are of a later mark than the one at which a node stands")
	copyEarly     = coverage.NewReplaced("deterministic.copy-early", "A node that has its rows waits until it is told of a new incarnation of its copy")
	copySentAgain = coverage.NewReplaced("deterministic.copy-sent-again", "Rows that were given up on their way are sent again")
	readsAgain    = coverage.NewReplaced("deterministic.reads-again", "Reads come a second time for a transaction, from another incarnation of a node, or when it is over")
	readsKept     = coverage.NewReplaced("deterministic.reads-kept", "A node that begins anew has reads for transactions behind the mark")
)
