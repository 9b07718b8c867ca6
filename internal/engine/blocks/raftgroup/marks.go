package raftgroup

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	nowLeads = coverage.New("raftgroup.leads",
		"A member that has applied all earlier committed entries starts to serve as leader")
	deposed      = coverage.New("raftgroup.deposed", "A leader that has served requests is deposed")
	requestLate  = coverage.New("raftgroup.request-late", "A request for the leader of an earlier term is dropped")
	requestEarly = coverage.New("raftgroup.request-early",
		"A request waits because the node does not know yet that it is the leader")
	heldAgain = coverage.New("raftgroup.held-looked-at", "A node processes requests that waited for its leadership")
	shared    = coverage.New("raftgroup.shared-entry", "Commands wait to share a log entry with later commands")
	tooLate   = coverage.New("raftgroup.too-late",
		"A member is no longer the leader when it should propose a batch of commands")
	nothing = coverage.New("raftgroup.nothing-to-propose",
		"A batch of commands turns out to be empty when it is proposed")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	heldBack = buggify.New("raftgroup.entry-held-back", "A leader delays a proposal although no entry is in flight")
)
