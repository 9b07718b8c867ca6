package batchlog

import (
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	askedAgain   = probe.New("batchlog.asked-again", "A sequencer asks a new leader for the places of batches that have none")
	missed       = probe.New("batchlog.missed", "A reader has missed positions and fetches them")
	fetched      = probe.New("batchlog.fetched", "A leader tells a reader the positions that it has missed")
	repeated     = probe.New("batchlog.repeated", "An entry of the log repeats batches that have their places, and every member drops it")
	deposed      = probe.New("batchlog.deposed", "A member with requests to propose learns that another one leads")
	misaddressed = probe.New("batchlog.misaddressed", "Requests reach a member that does not lead")
	heldBack     = probe.New("batchlog.held-back", "A request waits to share an announcement with others")
	toldTwice    = probe.New("batchlog.told-twice", "A reader is told positions that it knows")
	placedInVoid = probe.New("batchlog.settled-void", "A sequencer learns that batches of its own are void")
	newLeader    = probe.New("batchlog.new-leader", "A member leads a log of several")
)

// What replicas may be told to do: see package buggify.
var (
	orderHeldBack = buggify.New("batchlog.order-held-back", "A leader gives no places for a while although there was no announcement lately")
)
