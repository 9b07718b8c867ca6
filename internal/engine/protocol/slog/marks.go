package slog

import "github.com/geobench/geobench/internal/base/coverage"

// Coverage marks that the explorer must reach: see package coverage.
var (
	multiHome       = coverage.New("slog.multi-home", "A transaction of several homes goes to the orderer")
	multiHomeAgain  = coverage.New("slog.multi-home-again", "One whose rows had moved goes there again")
	remastering     = coverage.New("slog.remastering", "The move of a row goes to the orderer")
	threeHomes      = coverage.New("slog.three-homes", "A transaction of three or more homes is put in order")
	partOfElsewhere = coverage.New("slog.part-of-elsewhere", "A region gets its part of a multi-home transaction from the orderer that was sent in another region")
	ordererBatch    = coverage.New("slog.orderer-timer", "A batch for the orderer is closed by its timer, or its group does what time asks for")
)
