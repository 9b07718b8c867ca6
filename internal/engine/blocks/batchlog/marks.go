package batchlog

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	askedAgain      = coverage.New("batchlog.asked-again", "A sequencer asks a new leader for the places of batches that have none")
	missed          = coverage.New("batchlog.missed", "A reader has missed positions and fetches them")
	fetched         = coverage.New("batchlog.fetched", "A leader tells a reader the positions that it has missed")
	repeated        = coverage.New("batchlog.repeated", "An entry of the log repeats batches that have their places, and every member drops it")
	deposed         = coverage.New("batchlog.deposed", "A member with requests to propose learns that another one leads")
	misaddressed    = coverage.New("batchlog.misaddressed", "Requests reach a member that does not lead")
	heldBack        = coverage.New("batchlog.held-back", "A request waits to share an announcement with others")
	toldTwice       = coverage.New("batchlog.told-twice", "A reader is told positions that it knows")
	placedInVoid    = coverage.New("batchlog.settled-void", "A sequencer learns that batches of its own are void")
	voidEntry       = coverage.New("batchlog.void-entry", "The log says that batches of a sequencer have no place and never will")
	voidDropped     = coverage.New("batchlog.void-dropped", "A reader drops the data of a batch that the log has made void")
	dataLate        = coverage.New("batchlog.data-late", "The data of a batch comes when the log has made it void, or when it has come from another reader")
	batchWatched    = coverage.New("batchlog.batch-watched", "A look for abandoned batches finds one without a place")
	batchAbandoned  = coverage.New("batchlog.batch-abandoned", "A batch has had no place for so long that its reader asks for it to be made void")
	placeBeforeData = coverage.New("batchlog.place-before-data", "A batch has its place in the log and its data has not arrived")
	unprovenYet     = coverage.New("batchlog.unproven", "A batch waits for its place since too few regions are known to hold its data")
	toldTogether    = coverage.New("batchlog.told-together", "A reader waits to tell the leader of several batches together")
	dataAskedFor    = coverage.New("batchlog.data-asked-for", "A reader asks another one for data that is missing at its place")
	dataTold        = coverage.New("batchlog.data-told", "A reader has data that another one lacks")
	dataFetched     = coverage.New("batchlog.data-fetched", "A reader gets data from another one that its sequencer has not brought")
	fetchedTwice    = coverage.New("batchlog.fetched-twice", "Data comes from another reader that is here already")
	streamAwaited   = coverage.New("batchlog.stream-awaited", "A log takes more of another order than a reader has read of that")
	newLeader       = coverage.New("batchlog.new-leader", "A member leads a log of several")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	looksEarly    = buggify.New("batchlog.look-early", "A reader looks for batches without a place long before they can have been abandoned")
	voidsEarly    = buggify.New("batchlog.void-early", "Batches without a place are to be void at the first look")
	fetchesEarly  = buggify.New("batchlog.fetch-early", "A reader asks others for data that may still be on its way")
	orderHeldBack = buggify.New("batchlog.order-held-back", "A leader gives no places for a while although there was no announcement lately")
)
