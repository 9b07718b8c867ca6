package batchlog

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	askedAgain = coverage.New("batchlog.asked-again",
		"A sequencer repeats its outstanding requests for log positions to a new leader")
	missed  = coverage.New("batchlog.missed", "A reader has missed log positions and requests them")
	fetched = coverage.New("batchlog.fetched",
		"A leader sends a reader the log positions that the reader has missed")
	repeated = coverage.New("batchlog.repeated",
		"Members drop a log entry because all its batches already have positions")
	deposed = coverage.New("batchlog.deposed",
		"A member with pending requests to propose learns of another leader")
	misaddressed = coverage.New("batchlog.misaddressed", "Requests reach a member that is not the leader")
	heldBack     = coverage.New("batchlog.held-back", "A request waits to share an announcement with later requests")
	toldTwice    = coverage.New("batchlog.told-twice", "A reader receives log positions that it already knows")
	placedInVoid = coverage.New("batchlog.settled-void", "A sequencer learns that its own batches are void")
	voidEntry    = coverage.New("batchlog.void-entry", "A log entry declares batches of a sequencer void")
	voidDropped  = coverage.New("batchlog.void-dropped",
		"A reader drops the data of a batch that the log has declared void")
	dataLate = coverage.New("batchlog.data-late",
		"The data of a batch arrives after the batch became void or another reader sent the data")
	batchWatched = coverage.New("batchlog.batch-watched",
		"A check for abandoned batches finds a batch without a log position")
	batchAbandoned = coverage.New("batchlog.batch-abandoned",
		"A batch has had no log position for so long that its reader asks to declare it void")
	placeBeforeData = coverage.New("batchlog.place-before-data",
		"A batch has its log position before its data has arrived")
	unprovenYet = coverage.New("batchlog.unproven",
		"A batch waits for its log position because too few regions are known to have its data")
	toldTogether = coverage.New("batchlog.told-together",
		"A reader delays its report to the leader so that it covers several batches")
	dataAskedFor = coverage.New("batchlog.data-asked-for", "A reader requests missing batch data from another reader")
	dataTold     = coverage.New("batchlog.data-told", "A reader sends batch data that another reader is missing")
	dataFetched  = coverage.New("batchlog.data-fetched", "A reader receives missing batch data from another reader")
	fetchedTwice = coverage.New("batchlog.fetched-twice",
		"Batch data arrives from another reader although it is no longer missing")
	streamAwaited = coverage.New("batchlog.stream-awaited",
		"A log entry includes positions of another log that the reader has not read yet")
	newLeader = coverage.New("batchlog.new-leader", "A member becomes the leader of a log with several members")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	looksEarly = buggify.New("batchlog.look-early",
		"A reader checks for abandoned batches long before a batch can be abandoned")
	voidsEarly = buggify.New("batchlog.void-early",
		"A reader asks to declare batches without a log position void at its first check")
	fetchesEarly  = buggify.New("batchlog.fetch-early", "A reader requests batch data that may still be in flight")
	orderHeldBack = buggify.New("batchlog.order-held-back",
		"A leader delays an announcement of log positions although it has sent none recently")
)
