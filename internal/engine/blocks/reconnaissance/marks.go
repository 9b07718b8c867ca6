package reconnaissance

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	stale           = coverage.New("reconnaissance.stale", "A footprint is found stale when its transaction executes")
	givenUp         = coverage.New("reconnaissance.given-up", "A footprint is stale once too often, and the transaction is aborted")
	lookedElsewhere = coverage.New("reconnaissance.looked-elsewhere", "A reconnaissance needs rows of another node")
	lookedAgain     = coverage.NewReplaced("reconnaissance.looked-again", "A reconnaissance begins anew since a node that it may have asked has lost what it knew")
	moved           = coverage.New("reconnaissance.moved", "Rows have moved since they were looked at")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	looksTwice = buggify.New("reconnaissance.looks-twice", "A footprint that was found is looked for once more")
)
