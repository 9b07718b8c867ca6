package slog

import "github.com/geobench/geobench/internal/base/probe"

// What the explorer wants to see happen: see package probe.
var (
	multiHome       = probe.New("slog.multi-home", "A transaction of several homes goes to the orderer")
	multiHomeAgain  = probe.New("slog.multi-home-again", "One whose rows had moved goes there again")
	remastering     = probe.New("slog.remastering", "The move of a row goes to the orderer")
	threeHomes      = probe.New("slog.three-homes", "A transaction of three or more homes is put in order")
	partOfElsewhere = probe.New("slog.part-of-elsewhere", "A region gets its part of a multi-home transaction from the orderer that was sent in another region")
	ordererBatch    = probe.New("slog.orderer-timer", "A batch for the orderer is closed by its timer, or its group does what time asks for")
)
