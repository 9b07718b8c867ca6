package reconnaissance

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	stale = coverage.New("reconnaissance.stale",
		"A transaction's footprint is found to be stale when the transaction executes")
	givenUp = coverage.New("reconnaissance.given-up",
		"A transaction aborts because its footprint was stale too often")
	lookedElsewhere = coverage.New("reconnaissance.looked-elsewhere", "A reconnaissance needs rows of another node")
	lookedAgain     = coverage.NewReplaced("reconnaissance.looked-again",
		"A reconnaissance restarts because a node that it may have asked has lost its state")
	moved = coverage.New("reconnaissance.moved", "Rows have moved since their reconnaissance")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	looksTwice = buggify.New("reconnaissance.looks-twice",
		"A reconnaissance runs again although it has found the footprint")
)
