package slog

import "github.com/geobench/geobench/internal/base/coverage"

// Coverage marks that the explorer must reach: see package coverage.
var (
	multiHome      = coverage.New("slog.multi-home", "A multi-home transaction is sent to the orderer")
	multiHomeAgain = coverage.New("slog.multi-home-again",
		"A multi-home transaction is sent to the orderer again because its rows have moved")
	remastering     = coverage.New("slog.remastering", "A remastering is sent to the orderer")
	threeHomes      = coverage.New("slog.three-homes", "A region logs its part of a transaction with three or more homes")
	partOfElsewhere = coverage.New("slog.part-of-elsewhere",
		"A region logs its part of a multi-home transaction that was submitted in another region")
	ordererBatch = coverage.New("slog.orderer-timer", "A timer of the orderer's batch or group fires")
)
